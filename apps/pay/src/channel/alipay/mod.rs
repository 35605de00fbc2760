//! Alipay, open API over `gateway.do`, with RSA2 signatures.
//!
//! | file | what it is |
//! |---|---|
//! | `account` | who we are: ids, addresses, keys; refuses a set-up that cannot work |
//! | `pem`, `key` | key text in any dress → keys; sign and verify |
//! | `certificate` | certificate mode: serials, pinned public key |
//! | `wire` | request parameters → signed text → bytes on the wire |
//! | `biz` | what each method is asked, with a stable field order |
//! | `protocol` | the whole of it without I/O: freeze requests, read answers, verify notices |
//! | `response` | raw answer → the one verified slice |
//! | `verdict` | the table of codes: what each means on each call |
//! | `answer` | verified slice → what it says |
//! | `form`, `notice` | received body → verified parameters → [`Notice`](super::Notice) |
//! | `gateway` | bytes there, bytes back, within bounds |
//! | `client` | the thin shell: protocol over gateway, as a [`Channel`](super::Channel) |
//!
//! Invariant: nothing is read from a message before its signature has been verified, and then
//! only from the very bytes that were verified. Held by the tests in `tests/it/vectors.rs`,
//! `tests/it/notice_mutations.rs` and `tests/it/answer_mutations.rs`.

mod account;
mod answer;
mod biz;
mod certificate;
mod client;
mod form;
mod gateway;
mod key;
mod notice;
mod pem;
mod protocol;
mod response;
mod verdict;
mod wire;

pub use account::{Account, AccountFault, Keys};
pub use certificate::{Certificate, CertificateFault, RootSerial, serial};
pub use client::Alipay;
pub use gateway::{Gateway, GatewayFault, Patience};
pub use key::{KeyFault, PrivateKey, PublicKey, Unusable, Verifier};
pub use protocol::Protocol;
pub use response::{Node, open};
pub use wire::Params;
