//! The contract of stores, locks and outboxes, on each engine: through one handle, through two in
//! turn, and behind the lanes that the engine puts before it.
//!
//! A file is made in a millisecond, so SQLite passes all of it through each of the three doors. A
//! database on a server costs a hundred of them: there one door stands for all, two handles in
//! turn behind lanes, which no case can tell from one.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::sync::Mutex;

use crate::{engine::Engine, stage::Stage};
use hapax_contract::{Alternate, BoxFuture, Subject, locks::Place, outbox::Office, outbox::Write};
use hapax_core::{
    lock::Locks,
    message::{Message, Outbox},
    store::{Coalesce, Store},
};
use hapax_store::{Error, MySql, Postgres, Sql, Sqlite, Tx};

/// How a store on trial is reached.
#[derive(Clone, Copy)]
enum Door {
    One,
    Two,
    Lanes,
    /// Two behind lanes.
    Both,
}

/// Stores, each in a database of its own. What nobody uses any more is emptied and used again.
struct Sites<E: Engine> {
    door: Door,
    stages: Mutex<Vec<(Arc<Stage<E>>, Weak<Sql<E>>)>>,
}

impl<E: Engine> Sites<E> {
    fn by(door: Door) -> Self {
        Self { door, stages: Mutex::default() }
    }

    /// A store that is in use as long as somebody holds it.
    async fn set(&self) -> (Arc<Stage<E>>, Arc<Sql<E>>) {
        let mut stages = self.stages.lock().await;
        let idle = stages.iter().position(|(_, user)| user.strong_count() == 0);
        let stage = match idle.map(|at| stages.swap_remove(at).0).and_then(Arc::into_inner) {
            Some(stage) => stage.again().await,
            None => Stage::set().await.with_clock().await,
        };
        // A clock in the future stands still unless it is moved.
        stage.pass(Duration::from_secs(1_000_000)).await;
        let (sql, stage) = (Arc::new(stage.sql.clone()), Arc::new(stage));
        stages.push((Arc::clone(&stage), Arc::downgrade(&sql)));
        (stage, sql)
    }

    async fn store(&self) -> Arc<dyn Store> {
        let (stage, store) = self.set().await;
        let both = async |store| Arc::new(Alternate::new([store, Arc::new(stage.other().await)]));
        match self.door {
            Door::One => store,
            Door::Lanes => Coalesce::before(store),
            Door::Two => both(store).await,
            Door::Both => Coalesce::before(both(store).await),
        }
    }

    async fn move_on(&self, span: Duration) {
        for (stage, user) in &*self.stages.lock().await {
            if user.strong_count() > 0 {
                stage.pass(span).await;
            }
        }
    }
}

const BEAT: Duration = Duration::from_secs(60);

macro_rules! on_trial {
    ($trait:path, $opened:ty, $open:expr) => {
        impl<E: Engine> $trait for Sites<E> {
            fn name(&self) -> &'static str {
                std::any::type_name::<E>()
            }

            fn open(&self) -> BoxFuture<'_, $opened> {
                Box::pin($open(self))
            }

            fn pass(&self, span: Duration) -> BoxFuture<'_, ()> {
                Box::pin(self.move_on(span))
            }

            fn beat(&self) -> Duration {
                BEAT
            }
        }
    };
}

on_trial!(Subject, Arc<dyn Store>, Sites::<E>::store);
on_trial!(Place, Arc<dyn Locks>, async |sites: &Self| { sites.set().await.1 as Arc<dyn Locks> });
on_trial!(Office, (Arc<dyn Outbox>, Write), async |sites: &Self| {
    let (stage, outbox) = sites.set().await;
    let sql = stage.sql.clone();
    let writer: Write = Arc::new(move |message| Box::pin(write(sql.clone(), message)));
    (outbox as Arc<dyn Outbox>, writer)
});

async fn write<E: Engine>(sql: Sql<E>, message: Message) {
    let outbox = sql.clone();
    let written = sql.write("send", async move |mut tx: Tx<E>| {
        outbox.send(&mut tx, &message).await?;
        Ok::<_, Error>(())
    });
    written.await.unwrap();
}

/// Random lives on a server: each has two databases.
const LIVES: u32 = 16;

macro_rules! contract {
    ($module:ident: $engine:ty, $door:ident $(, $lives:expr)?) => {
        mod $module {
            use super::*;

            hapax_contract::suite!(Sites::<$engine>::by(Door::$door) $(, $lives)?);
        }
    };
}

contract!(sqlite_by_one_door: Sqlite, One);
contract!(sqlite_by_two_doors: Sqlite, Two);
contract!(sqlite_by_lanes: Sqlite, Lanes);
contract!(postgres: Postgres, Both, LIVES);
contract!(mysql: MySql, Both, LIVES);

macro_rules! rooms {
    ($($module:ident: $engine:ty;)+) => {
        mod locks {$(
            mod $module {
                use super::super::*;

                hapax_contract::locks_suite!(Sites::<$engine>::by(Door::One));
            }
        )+}

        mod outbox {$(
            mod $module {
                use super::super::*;

                hapax_contract::outbox_suite!(Sites::<$engine>::by(Door::One));
            }
        )+}
    };
}

rooms! {
    sqlite: Sqlite;
    postgres: Postgres;
    mysql: MySql;
}
