//! The bad line does what it says.

use std::sync::Arc;

use hapax_contract::{
    Alternate, Asked, BoxFuture, Delivery, FaultStore, Memory, Subject, insist, run,
};
use hapax_core::{
    Actor, BusinessKey, Effect, Id, Identity, Nonce, OperationName, Prints, State, Tenant,
    store::{Answer, Claim, Scan, Step, Store},
};

/// The whole suite through two doors in turn.
struct TwoDoors(Memory);

impl Subject for TwoDoors {
    fn name(&self) -> &'static str {
        "two doors"
    }

    fn open(&self) -> BoxFuture<'_, Arc<dyn Store>> {
        Box::pin(async {
            let store = self.0.open().await;
            Arc::new(Alternate::new([Arc::clone(&store), store])) as Arc<dyn Store>
        })
    }

    fn pass(&self, span: std::time::Duration) -> BoxFuture<'_, ()> {
        self.0.pass(span)
    }

    fn beat(&self) -> std::time::Duration {
        self.0.beat()
    }
}

mod two_doors {
    use super::{Memory, TwoDoors};

    hapax_contract::suite!(TwoDoors(Memory::new()));
}

fn claim(key: &str) -> (Id, Step) {
    let identity = Identity::business(
        Tenant::parse("line").unwrap(),
        OperationName::parse("line.test").unwrap(),
        BusinessKey::parse(key).unwrap(),
    );
    let claim = Claim {
        id: identity.id(),
        identity,
        nonce: Nonce::from_bytes([7; 16]),
        prints: Prints::NONE,
        lease: std::time::Duration::from_secs(60),
        effect: Effect::Opaque,
        attempts_max: 1,
        caller: Actor::parse("tester").unwrap(),
    };
    (claim.id, Step::Claim(Arc::new(claim)))
}

async fn is_there(store: &dyn Store, id: Id) -> bool {
    store.look(vec![id]).await.remove(0).unwrap().record.is_some()
}

#[test]
fn each_fate_does_what_it_says() {
    run(async {
        for (fate, is_done) in [
            (Delivery::Normal, true),
            (Delivery::Refused, false),
            (Delivery::RequestLost, false),
            (Delivery::AnswerLost, true),
            (Delivery::Twice, true),
            (Delivery::Late, false),
        ] {
            let inner = Memory::new().open().await;
            let line = FaultStore::listed(Arc::clone(&inner), [fate]);
            let (id, step) = claim("fate");
            let answer = line.apply(vec![step]).await.remove(0);
            match (fate, answer) {
                (Delivery::Normal | Delivery::Twice, Answer::Granted(_))
                | (Delivery::Refused, Answer::Away(_))
                | (
                    Delivery::RequestLost | Delivery::AnswerLost | Delivery::Late,
                    Answer::Unsure(_),
                ) => {}
                (_, answer) => panic!("{fate:?} said {answer:?}"),
            }
            assert_eq!(is_there(&*inner, id).await, is_done, "{fate:?}");
            assert_eq!(line.deliver_late().await.len(), usize::from(fate == Delivery::Late));
            let late_or_done = is_done || fate == Delivery::Late;
            assert_eq!(is_there(&*inner, id).await, late_or_done, "{fate:?}");
        }
    });
}

#[test]
fn each_step_of_a_batch_has_its_own_fate() {
    run(async {
        let inner = Memory::new().open().await;
        let fates = [Delivery::AnswerLost, Delivery::Normal, Delivery::Refused, Delivery::Twice];
        let line = FaultStore::listed(Arc::clone(&inner), fates);
        let mut steps: Vec<_> = ["a", "b", "c", "d", "e"].map(|key| claim(key).1).into();
        steps.sort_by_key(Step::id);
        let ids: Vec<_> = steps.iter().map(Step::id).collect();
        let answers = line.apply(steps).await;
        let there = async |at: usize| is_there(&*inner, ids[at]).await;

        assert!(matches!(answers[0], Answer::Unsure(_)) && there(0).await);
        assert!(matches!(answers[1], Answer::Granted(_)) && there(1).await);
        assert!(matches!(answers[2], Answer::Away(_)) && !there(2).await);
        assert!(matches!(answers[3], Answer::Granted(_)) && there(3).await);
        assert!(matches!(answers[4], Answer::Granted(_)) && there(4).await);
        let losses = line.losses();
        assert_eq!((losses.answers, losses.refused, losses.doubled), (1, 1, 1));
    });
}

#[test]
fn insisting_gets_an_answer_from_a_line_that_heals() {
    run(async {
        let fates = [Delivery::RequestLost, Delivery::AnswerLost, Delivery::Refused];
        let line = FaultStore::listed(Memory::new().open().await, fates);
        let (_, step) = claim("insist");
        assert!(matches!(insist(&line, &step, 3).await, Answer::Away(_)), "three are lost");
        let Answer::Granted(grant) = insist(&line, &step, 1).await else { panic!("it healed") };
        assert_eq!(grant.attempt, 1, "asking again with one nonce is one attempt");
    });
}

#[test]
fn a_fault_fails_a_read() {
    run(async {
        let broken = |asked: Asked<'_>| match asked {
            Asked::Step(_) => Delivery::Normal,
            _ => Delivery::AnswerLost,
        };
        let line = FaultStore::new(Memory::new().open().await, broken);
        let (id, step) = claim("read");
        assert!(matches!(line.apply(vec![step]).await.remove(0), Answer::Granted(_)));
        assert!(line.look(vec![id]).await.remove(0).is_err());
        let scan = Scan { operation: None, status: None, after: None, limit: 1 };
        assert!(line.scan(scan).await.is_err());
        assert!(line.history(id).await.is_err());
        assert!(line.purge(1).await.is_err());
        assert_eq!(line.losses().refused, 4);
    });
}

#[test]
fn a_late_completion_arrives_after_all() {
    run(async {
        let inner = Memory::new().open().await;
        let line = FaultStore::listed(Arc::clone(&inner), [Delivery::Normal, Delivery::Late]);
        let (id, step) = claim("late");
        let Answer::Granted(grant) = line.apply(vec![step]).await.remove(0) else { panic!() };
        let nonce = Nonce::from_bytes([7; 16]);
        let fence = hapax_core::Fence { id, epoch: grant.epoch, nonce };
        line.apply(vec![Step::Doubt { fence, why: "late".to_owned() }]).await;
        let state = async || inner.look(vec![id]).await.remove(0).unwrap().record.unwrap().state;
        assert_eq!(state().await, State::Claimed);
        line.deliver_late().await;
        assert_eq!(state().await, State::Unknown);
    });
}
