//! Tokens through their public door.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use proptest::prelude::*;

use super::*;
use crate::{
    engine::Policy,
    id::{Actor, BusinessKey, Identity, OperationName, Principal, RequestKey, Tenant},
    outcome::Outcome,
    record::{Effect, Epoch, Nonce, Record, State},
    store::Found,
    time::Timestamp,
};

const NOW: Timestamp = Timestamp::from_millis(1_790_000_000_000);
const LIFE: Duration = Duration::from_secs(600);
const BUFFER: Duration = Duration::from_secs(60);

fn secret(salt: u8) -> Vec<u8> {
    (0_u8..32).map(|at| at.wrapping_mul(at).wrapping_mul(7) ^ salt).collect()
}

fn key(id: &str, salt: u8) -> TokenKey {
    TokenKey::new(KeyId::parse(id).unwrap(), &secret(salt)).unwrap()
}

fn tokens_of(keyring: Keyring) -> Tokens {
    let rate = Rate { burst: NonZeroU32::new(1_000_000).unwrap(), refill: Duration::from_secs(1) };
    Tokens::with(keyring, Validity::new(LIFE, BUFFER).unwrap(), rate)
}

fn tokens() -> Tokens {
    tokens_of(Keyring::new(key("k1", 1)))
}

fn binding() -> Binding {
    Binding {
        tenant: Tenant::parse("shop").unwrap(),
        operation: OperationName::parse("payment.create").unwrap(),
        object: BusinessKey::of(&["1001"]).unwrap(),
        user: Principal::parse("ann").unwrap(),
        session: Session::parse("cookie").unwrap(),
    }
}

fn nothing(now: Timestamp) -> Found {
    Found { record: None, now }
}

fn token(tokens: &Tokens, binding: &Binding, now: Timestamp) -> Token {
    let issue = tokens.issue(binding, &nothing(now)).unwrap();
    let Issue::Token { token, .. } = issue else { panic!("{issue:?}") };
    token
}

fn issued(tokens: &Tokens, binding: &Binding, now: Timestamp) -> String {
    token(tokens, binding, now).as_str().to_owned()
}

fn record(state: State, lease_until: Timestamp) -> Arc<Record> {
    let identity = Identity::business(
        Tenant::parse("shop").unwrap(),
        OperationName::parse("payment.create").unwrap(),
        BusinessKey::of(&["1001"]).unwrap(),
    );
    Arc::new(Record {
        identity,
        terms: Effect::Transactional.terms(NOW),
        state,
        epoch: Epoch::after(None, NOW),
        nonce: Nonce::from_bytes([1; 16]),
        prints: crate::Prints::NONE,
        lease_until,
        expires_at: None,
        reuse_at: None,
        checkpoint: None,
        outcome: (state == State::Completed)
            .then(|| Outcome::Value(bytes::Bytes::from_static(b"paid"))),
        attempts: 1,
        caller: Actor::parse("test").unwrap(),
        created_at: NOW,
        completed_at: None,
    })
}

#[test]
fn a_token_comes_back_as_the_key_of_its_id() {
    let (tokens, binding) = (tokens(), binding());
    let text = issued(&tokens, &binding, NOW);
    let Ok(Checked::Fresh(first)) = tokens.check(&text, &binding, NOW) else { panic!("refused") };
    let again = tokens.check(&text, &binding, NOW.plus(LIFE / 2));
    assert_eq!(again, Ok(Checked::Fresh(first.clone())), "repeats share one key");
    let id = uuid::Uuid::parse_str(first.as_str()).unwrap();
    assert_eq!((id.get_version_num(), id.get_variant()), (4, uuid::Variant::RFC4122));
}

#[test]
fn a_token_may_travel_in_a_key_header() {
    let longest = key(&"k".repeat(32), 1);
    let tokens = tokens_of(Keyring::new(longest));
    let text = issued(&tokens, &binding(), NOW);
    assert!(text.len() <= TOKEN_BYTES_MAX, "{}", text.len());
    assert!(RequestKey::parse(&text).is_ok());
}

#[test]
fn two_tokens_never_share_a_key() {
    let (tokens, binding) = (tokens(), binding());
    let keys: std::collections::HashSet<_> = (0..2000)
        .map(|_| issued(&tokens, &binding, NOW))
        .map(|text| tokens.check(&text, &binding, NOW).unwrap().key().clone())
        .collect();
    assert_eq!(keys.len(), 2000);
}

#[test]
fn never_issued_expired_and_foreign_are_three_answers() {
    let (tokens, binding) = (tokens(), binding());
    let text = issued(&tokens, &binding, NOW);
    let bob = Binding { user: Principal::parse("bob").unwrap(), ..binding.clone() };
    let over = NOW.plus(LIFE + BUFFER);
    assert_eq!(
        tokens.check("550e8400-e29b-41d4-a716-446655440000", &binding, NOW),
        Err(Refused::Forged)
    );
    assert_eq!(tokens.check(&text, &binding, over), Err(Refused::Expired));
    assert_eq!(tokens.check(&text, &bob, NOW), Err(Refused::Foreign));
    assert!(tokens.check(&text, &binding, NOW).is_ok(), "a foreign use burns nothing");
}

#[test]
fn each_part_of_the_binding_is_judged() {
    let (tokens, own) = (tokens(), binding());
    let text = issued(&tokens, &own, NOW);
    let others = [
        Binding { tenant: Tenant::parse("shop2").unwrap(), ..own.clone() },
        Binding { operation: OperationName::parse("payment.close").unwrap(), ..own.clone() },
        Binding { object: BusinessKey::of(&["1002"]).unwrap(), ..own.clone() },
        Binding { user: Principal::parse("bob").unwrap(), ..own.clone() },
        Binding { session: Session::parse("cookie2").unwrap(), ..own },
    ];
    for other in others {
        assert_eq!(tokens.check(&text, &other, NOW), Err(Refused::Foreign), "{other:?}");
    }
}

#[test]
fn a_late_token_finds_its_result_and_starts_nothing() {
    let (tokens, binding) = (tokens(), binding());
    let text = issued(&tokens, &binding, NOW);
    for (after, is_late) in [(LIFE - Duration::from_millis(1), false), (LIFE, true)] {
        let checked = tokens.check(&text, &binding, NOW.plus(after)).unwrap();
        assert_eq!(matches!(checked, Checked::Late(_)), is_late, "{after:?}");
    }
    let now = NOW.plus(LIFE + BUFFER / 2);
    let late = tokens.check(&text, &binding, now).unwrap();
    assert_eq!(late.clone().admit(&nothing(now)), Err(Refused::Expired));
    for (state, may) in [
        (State::Completed, true),
        (State::Claimed, true),
        (State::Unknown, true),
        (State::Open, false),
    ] {
        let found = Found { record: Some(record(state, NOW)), now };
        assert_eq!(late.clone().admit(&found).is_ok(), may, "{state:?}");
    }
    let last = NOW.plus(LIFE + BUFFER);
    assert_eq!(tokens.check(&text, &binding, last), Err(Refused::Expired));
}

#[test]
fn no_token_is_handed_out_over_unfinished_work() {
    let (tokens, binding) = (tokens(), binding());
    let issue = |state, lease_until| {
        let over = Found { record: Some(record(state, lease_until)), now: NOW };
        tokens.issue(&binding, &over).unwrap()
    };
    let running = NOW.plus(Duration::from_secs(7));
    assert_eq!(
        issue(State::Claimed, running),
        Issue::Unfinished { retry_after: Duration::from_secs(7) }
    );
    assert!(matches!(issue(State::Claimed, NOW), Issue::Unfinished { .. }), "abandoned");
    assert!(matches!(issue(State::Unknown, NOW), Issue::Unfinished { .. }));
    assert!(matches!(issue(State::Open, NOW), Issue::Token { .. }));
    assert!(matches!(issue(State::Completed, NOW), Issue::Token { .. }));
}

#[test]
fn issue_is_limited_per_user() {
    let rate = Rate { burst: NonZeroU32::new(2).unwrap(), refill: Duration::from_secs(5) };
    let tokens = Tokens::with(Keyring::new(key("k1", 1)), Validity::default(), rate);
    let ann = binding();
    let bob = Binding { user: Principal::parse("bob").unwrap(), ..ann.clone() };
    for _ in 0..2 {
        assert!(matches!(tokens.issue(&ann, &nothing(NOW)), Ok(Issue::Token { .. })));
    }
    let wait = Duration::from_secs(5);
    assert_eq!(tokens.issue(&ann, &nothing(NOW)).unwrap(), Issue::TooMany { retry_after: wait });
    assert!(matches!(tokens.issue(&bob, &nothing(NOW)), Ok(Issue::Token { .. })));
    assert!(matches!(tokens.issue(&ann, &nothing(NOW.plus(wait))), Ok(Issue::Token { .. })));
}

#[test]
fn an_issue_time_ahead_of_the_clock_is_borne_for_a_minute() {
    let (tokens, binding) = (tokens(), binding());
    let text = issued(&tokens, &binding, NOW.plus(SKEW_MAX));
    assert!(tokens.check(&text, &binding, NOW).is_ok());
    let text = issued(&tokens, &binding, NOW.plus(SKEW_MAX + Duration::from_millis(1)));
    assert_eq!(tokens.check(&text, &binding, NOW), Err(Refused::Forged));
}

#[test]
fn a_shorter_life_holds_for_tokens_that_are_out() {
    let binding = binding();
    let text = issued(&tokens(), &binding, NOW);
    let validity = Validity::new(LIFE / 4, Duration::ZERO).unwrap();
    let strict = Tokens::with(Keyring::new(key("k1", 1)), validity, Rate::default());
    assert_eq!(strict.check(&text, &binding, NOW.plus(LIFE / 4)), Err(Refused::Expired));
}

#[test]
fn rotation_refuses_nobody_and_a_withdrawn_key_is_refused() {
    let binding = binding();
    let tokens = tokens_of(Keyring::new(key("old", 1)));
    let old = issued(&tokens, &binding, NOW);

    let both = Keyring::with(key("new", 2), vec![key("old", 1)], Vec::new()).unwrap();
    tokens.rotate(both);
    let new = issued(&tokens, &binding, NOW);
    assert!(new.starts_with("hx1.new."), "the current key signs");
    assert!(tokens.check(&old, &binding, NOW).is_ok());
    assert!(tokens.check(&new, &binding, NOW).is_ok());

    let old_id = KeyId::parse("old").unwrap();
    let ring = Keyring::with(key("new", 2), vec![key("old", 1)], vec![old_id.clone()]).unwrap();
    tokens.rotate(ring);
    assert_eq!(tokens.check(&old, &binding, NOW), Err(Refused::Revoked));
    assert!(tokens.check(&new, &binding, NOW).is_ok());

    tokens.rotate(Keyring::with(key("new", 2), Vec::new(), vec![old_id]).unwrap());
    assert_eq!(tokens.check(&old, &binding, NOW), Err(Refused::Revoked), "the secret may be gone");
    tokens.rotate(Keyring::new(key("new", 2)));
    assert_eq!(tokens.check(&old, &binding, NOW), Err(Refused::Forged), "unknown by now");
}

#[test]
fn a_key_of_the_same_id_with_another_secret_signs_something_else() {
    let binding = binding();
    let text = issued(&tokens(), &binding, NOW);
    let other = tokens_of(Keyring::new(key("k1", 9)));
    assert_eq!(other.check(&text, &binding, NOW), Err(Refused::Forged));
}

#[test]
fn short_patterned_and_example_secrets_are_refused() {
    let id = KeyId::parse("k").unwrap();
    let refused: [&[u8]; 10] = [
        b"",
        b"short",
        &secret(1)[..31],
        &[0; 32],
        &[0xFF; 64],
        b"abababababababababababababababababab",
        b"0123456789abcdef0123456789abcdef",
        b"abcdefghijklmnopqrstuvwxyz{|}~\x7f\x80\x81\x82",
        b"please-ChangeMe-before-production-9f8e7d",
        b"this is my very own Secret of 2026, honestly",
    ];
    for secret in refused {
        let said = TokenKey::new(id.clone(), secret).unwrap_err().to_string();
        assert!(said.ends_with("make one from 32 random bytes"), "{secret:?}: {said}");
    }
    assert!(TokenKey::new(id.clone(), b"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822c").is_ok());
    assert!(TokenKey::new(id, &secret(3)).is_ok());
}

#[test]
fn a_keyring_that_cannot_work_is_refused() {
    let id = |text| KeyId::parse(text).unwrap();
    assert!(Keyring::with(key("a", 1), vec![key("a", 2)], vec![]).is_err(), "one id, two keys");
    assert!(Keyring::with(key("a", 1), vec![], vec![id("a")]).is_err(), "revoked and current");
    let many: Vec<_> = (0..=KEYS_MAX).map(|at| key(&format!("k{at}"), 1)).collect();
    assert!(Keyring::with(key("a", 1), many, vec![]).is_err(), "too many");
    for text in ["", "A", "a.b", "a b", &"x".repeat(33)] {
        assert!(KeyId::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn a_retention_below_the_life_is_refused() {
    let validity = Validity::new(LIFE, BUFFER).unwrap();
    let keeps = |keep| {
        let policy = Policy::new(Effect::Transactional).retain(keep, Duration::ZERO);
        validity.check(&policy)
    };
    assert!(keeps(LIFE + BUFFER).is_ok());
    assert!(keeps(LIFE + BUFFER - Duration::from_millis(1)).is_err());
    assert!(validity.check(&Policy::new(Effect::Transactional).forever()).is_ok());
    assert!(Validity::new(Duration::ZERO, BUFFER).is_err());
    assert!(Validity::new(Duration::from_secs(700_000), BUFFER).is_err());
}

#[test]
fn nothing_secret_shows_in_debug_output() {
    let (tokens, binding) = (tokens(), binding());
    let token = token(&tokens, &binding, NOW);
    let shown = format!("{token:?} {binding:?} {tokens:?} {:?}", key("k1", 1));
    assert!(!shown.contains(token.as_str()) && !shown.contains("cookie"), "{shown}");
    assert!(shown.contains("TokenKey(k1, ***)"), "{shown}");
}

#[test]
fn the_form_of_a_known_token_never_changes() {
    let content = form::Content { id: [7; 16], issued_at: NOW, expires_at: NOW.plus(LIFE) };
    let token = form::seal(&key("k1", 1), &content, &binding());
    assert_eq!(token.as_str(), KNOWN, "a changed form refuses every token that is out");
}

/// The token above, made by another implementation from the description of the form.
const KNOWN: &str = "hx1.k1.BwcHBwcHBwcHBwcHBwcHBwAAAaDEUGwAAAABoMRZk8BZSv8mGKAS8kZOLH-\
    n45X24iAta7kvCOhJZIU7uG5Njmhd98aZRD6dHFDtqQwphlf09i5HN7wKYiNoOWAGOREw";

#[tokio::test]
async fn one_token_brought_many_times_runs_once() {
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    };

    use crate::{End, Hapax, Ran, store::MemoryStore};

    let hapax = Hapax::new(Arc::new(MemoryStore::new()));
    let operation = hapax.declare("payment.create", Policy::new(Effect::Opaque)).unwrap();
    let (tokens, binding) = (tokens(), binding());
    let text = issued(&tokens, &binding, NOW);
    let ran = Arc::new(AtomicU32::new(0));
    let submits = (0..100).map(|_| {
        let key = tokens.check(&text, &binding, NOW).unwrap().key().clone();
        let call = operation.request(binding.tenant.clone(), binding.user.clone(), key);
        let ran = Arc::clone(&ran);
        let work = move |_| async move {
            ran.fetch_add(1, Ordering::SeqCst);
            End::Done(7_u32)
        };
        call.wait(Duration::from_secs(5)).run(work)
    });
    for answer in futures_util::future::join_all(submits).await {
        assert!(matches!(answer, Ok(Ran::Fresh(7) | Ran::Replayed(7))), "{answer:?}");
    }
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

proptest! {
    #[test]
    fn a_token_with_any_other_byte_is_refused(at in 0_usize..136, byte in 0_u8..128) {
        let (tokens, binding) = (tokens(), binding());
        let text = issued(&tokens, &binding, NOW);
        prop_assert_eq!(text.len(), 135, "the whole text is tried, and one place behind it");
        let mut bytes = text.clone().into_bytes();
        match bytes.get_mut(at) {
            Some(place) => *place = byte,
            None => bytes.push(byte),
        }
        let tampered = String::from_utf8(bytes).unwrap();
        let checked = tokens.check(&tampered, &binding, NOW);
        if tampered == text {
            prop_assert!(checked.is_ok());
        } else {
            prop_assert_eq!(checked, Err(Refused::Forged));
        }
    }

    #[test]
    fn any_text_is_refused_without_a_panic(text in ".{0,300}") {
        prop_assert_eq!(tokens().check(&text, &binding(), NOW), Err(Refused::Forged));
    }

    #[test]
    fn a_cut_or_stretched_token_is_refused(cut in 0_usize..135, more in "[A-Za-z0-9_=-]{1,4}") {
        let (tokens, binding) = (tokens(), binding());
        let text = issued(&tokens, &binding, NOW);
        let short = text.get(..cut).unwrap();
        prop_assert_eq!(tokens.check(short, &binding, NOW), Err(Refused::Forged));
        let stretched = format!("{text}{more}");
        prop_assert_eq!(tokens.check(&stretched, &binding, NOW), Err(Refused::Forged));
    }
}
