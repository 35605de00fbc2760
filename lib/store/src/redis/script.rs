//! The scripts, each with what it shares with others before it.

use std::sync::LazyLock;

use redis::Cmd;

/// A script and the name by which a server knows it.
#[derive(Debug)]
pub(super) struct Script {
    /// For messages and for tests.
    pub(super) name: &'static str,
    pub(super) text: String,
    /// SHA-1 of the text, in hex.
    digest: String,
}

impl Script {
    pub(super) fn new(name: &'static str, text: String) -> Self {
        let digest = redis::Script::new(&text).get_hash().to_owned();
        Self { name, text, digest }
    }

    /// A call of the script on `key`; arguments follow. It carries `bytes` bytes of them.
    pub(super) fn on(&self, key: &str, args: usize, bytes: usize) -> Cmd {
        let mut call = Cmd::with_capacity(args + 4, bytes + key.len() + 64);
        call.arg("EVALSHA").arg(&self.digest).arg(1).arg(key);
        call
    }
}

/// A part of a script: its name and its text.
pub(super) type Part = (&'static str, &'static str);

/// Every script of the store.
#[derive(Debug)]
pub(super) struct Scripts {
    pub(super) claim: Script,
    pub(super) renew: Script,
    pub(super) checkpoint: Script,
    pub(super) complete: Script,
    pub(super) doubt: Script,
    pub(super) release: Script,
    pub(super) settle: Script,
    pub(super) look: Script,
    pub(super) history: Script,
    pub(super) lock_acquire: Script,
    pub(super) lock_renew: Script,
    pub(super) lock_release: Script,
}

/// The head of a script lets the server refuse it as a whole before it begins: a server that is
/// full, read-only or short of replicas has then surely done nothing.
macro_rules! texts {
    ($($name:ident: $flags:literal $(+ $shared:literal)*,)+) => {
        impl Scripts {
            /// The scripts as `write` makes them from their parts.
            pub(super) fn made_by(write: impl Fn(&[Part]) -> String) -> Self {
                Self { $($name: Script::new(stringify!($name), write(&[
                    ("head", concat!("#!lua", $flags, "\n")),
                    ("prelude", include_str!("scripts/prelude.lua")),
                    $(($shared, include_str!(concat!("scripts/", $shared, ".lua"))),)*
                    (
                        stringify!($name),
                        include_str!(concat!("scripts/", stringify!($name), ".lua")),
                    ),
                ])),)+ }
            }

            /// Each of them.
            #[cfg(test)]
            pub(super) fn all(&self) -> Vec<&Script> {
                vec![$(&self.$name,)+]
            }
        }
    };
}

// Whoever has begun may end, even on a full server: only new claims, locks and recovery points
// are refused there.
texts! {
    claim: "" + "record",
    renew: " flags=allow-oom" + "record",
    checkpoint: "" + "record",
    complete: " flags=allow-oom" + "record",
    doubt: " flags=allow-oom" + "record",
    release: " flags=allow-oom" + "record",
    settle: " flags=allow-oom" + "record",
    look: " flags=no-writes" + "record",
    history: " flags=no-writes",
    lock_acquire: "" + "lock",
    lock_renew: " flags=allow-oom" + "lock",
    lock_release: " flags=allow-oom" + "lock",
}

/// The scripts as they are shipped.
pub(super) static SHIPPED: LazyLock<Scripts> =
    LazyLock::new(|| Scripts::made_by(|parts| parts.iter().map(|(_, text)| *text).collect()));
