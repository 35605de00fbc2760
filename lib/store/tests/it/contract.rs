//! The contract of stores, locks and outboxes, on files: through one handle, through two in
//! turn, and behind the lanes that the engine puts before it.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::stage::Stage;
use hapax_contract::{Alternate, BoxFuture, Subject, locks::Place, outbox::Office, outbox::Write};
use hapax_core::{
    lock::Locks,
    message::{Message, Outbox},
    store::{Coalesce, Store},
};
use hapax_store::{Error, Sqlite, SqliteStore, Tx};

/// How a store on trial is reached.
#[derive(Clone, Copy)]
enum Door {
    One,
    Two,
    Lanes,
}

/// Stores in files, each in a directory of its own.
struct Files {
    door: Door,
    stages: Mutex<Vec<Arc<Stage>>>,
}

impl Files {
    fn by(door: Door) -> Self {
        Self { door, stages: Mutex::default() }
    }

    async fn set(&self) -> Arc<Stage> {
        let stage = Arc::new(Stage::set().await);
        // A clock in the future stands still unless it is moved.
        stage.pass(Duration::from_secs(1_000_000)).await;
        self.stages.lock().unwrap().push(Arc::clone(&stage));
        stage
    }

    async fn move_on(&self, span: Duration) {
        let stages = self.stages.lock().unwrap().clone();
        for stage in stages {
            stage.pass(span).await;
        }
    }
}

const BEAT: Duration = Duration::from_secs(60);

impl Subject for Files {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn open(&self) -> BoxFuture<'_, Arc<dyn Store>> {
        Box::pin(async {
            let stage = self.set().await;
            let store = Arc::new(stage.sql.clone());
            match self.door {
                Door::One => store,
                Door::Lanes => Coalesce::before(store),
                Door::Two => {
                    let other = Arc::new(stage.other().await);
                    Arc::new(Alternate::new([store, other]))
                }
            }
        })
    }

    fn pass(&self, span: Duration) -> BoxFuture<'_, ()> {
        Box::pin(self.move_on(span))
    }

    fn beat(&self) -> Duration {
        BEAT
    }
}

impl Place for Files {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn open(&self) -> BoxFuture<'_, Arc<dyn Locks>> {
        Box::pin(async { Arc::new(self.set().await.sql.clone()) as Arc<dyn Locks> })
    }

    fn pass(&self, span: Duration) -> BoxFuture<'_, ()> {
        Box::pin(self.move_on(span))
    }

    fn beat(&self) -> Duration {
        BEAT
    }
}

async fn write(sql: SqliteStore, message: Message) {
    let outbox = sql.clone();
    let written = sql.write("send", async move |mut tx: Tx<Sqlite>| {
        outbox.send(&mut tx, &message).await?;
        Ok::<_, Error>(())
    });
    written.await.unwrap();
}

impl Office for Files {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn open(&self) -> BoxFuture<'_, (Arc<dyn Outbox>, Write)> {
        Box::pin(async {
            let sql = self.set().await.sql.clone();
            let outbox = Arc::new(sql.clone()) as Arc<dyn Outbox>;
            let writer: Write = Arc::new(move |message| Box::pin(write(sql.clone(), message)));
            (outbox, writer)
        })
    }

    fn pass(&self, span: Duration) -> BoxFuture<'_, ()> {
        Box::pin(self.move_on(span))
    }

    fn beat(&self) -> Duration {
        BEAT
    }
}

mod one_door {
    use super::{Door, Files};

    hapax_contract::suite!(Files::by(Door::One));
}

mod two_doors {
    use super::{Door, Files};

    hapax_contract::suite!(Files::by(Door::Two));
}

mod lanes {
    use super::{Door, Files};

    hapax_contract::suite!(Files::by(Door::Lanes));
}

mod locks {
    use super::{Door, Files};

    hapax_contract::locks_suite!(Files::by(Door::One));
}

mod outbox {
    use super::{Door, Files};

    hapax_contract::outbox_suite!(Files::by(Door::One));
}
