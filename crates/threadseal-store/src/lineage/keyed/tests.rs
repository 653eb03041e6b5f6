//! The suite on every kind of object storage, and every call failing in turn.

use super::*;
use crate::address::Intent;
use crate::lineage::conformance::{self, agent, begin, tick, whole_history};
use crate::objects::fault::{FaultObjects, ObjectFault};
use crate::objects::moto::Moto;
use crate::open;
use crate::postgres::PostgresObjects;
use crate::postgres::throwaway::Cluster;
use crate::sqlite::SqliteObjects;

fn store(objects: &Arc<dyn Objects>) -> KeyedCheckpointStore {
    KeyedCheckpointStore::new(Arc::clone(objects))
}

fn in_memory() -> Arc<dyn Objects> {
    Arc::new(MemoryObjects::new())
}

#[test]
fn the_store_in_memory_passes_the_suite() {
    conformance::run(&|| {
        let objects = in_memory();
        Box::new(move || Box::new(store(&objects)))
    });
}

#[test]
fn the_store_in_sqlite_passes_the_suite() {
    conformance::run(&|| {
        let folder = tempfile::tempdir().unwrap();
        Box::new(move || {
            let objects = SqliteObjects::open(folder.path().join("lineages.sqlite")).unwrap();
            Box::new(KeyedCheckpointStore::new(Arc::new(objects)))
        })
    });
}

#[test]
fn the_store_in_postgresql_passes_the_suite() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    conformance::run(&|| {
        let url = cluster.fresh();
        Box::new(move || {
            let objects = PostgresObjects::open(&url).unwrap();
            Box::new(KeyedCheckpointStore::new(Arc::new(objects)))
        })
    });
}

#[test]
fn the_store_in_a_folder_of_objects_passes_the_suite() {
    conformance::run(&|| {
        let folder = tempfile::tempdir().unwrap();
        Box::new(move || {
            let url = format!("object+file:{}", folder.path().display());
            open::lineages(&url, Intent::Write, &[]).unwrap()
        })
    });
}

#[test]
fn the_store_on_a_server_of_s3_passes_the_suite() {
    let Some(moto) = Moto::shared() else { return };
    conformance::run(&|| {
        let (url, settings) = (moto.fresh(), moto.settings());
        Box::new(move || open::lineages(&url, Intent::Write, &settings).unwrap())
    });
}

/// Begins an agent and writes checkpoints, short and long, until there are six links.
fn work(store: &KeyedCheckpointStore, acknowledged: &mut Option<ContentHash>) -> Result<(), Error> {
    if store.newest(&agent())? == Newest::Nothing {
        *acknowledged = Some(begin(store, b"0")?);
    }
    loop {
        let length = store.history(&agent())?.len();
        if length >= 6 {
            return Ok(());
        }
        let state = match length % 2 {
            0 => vec![length.to_le_bytes()[0]; MAX_HERE_BYTES + 9],
            _ => vec![length.to_le_bytes()[0]; 9],
        };
        *acknowledged = Some(tick(store, &state)?);
    }
}

#[test]
fn every_fault_at_every_call_leaves_the_newest_acknowledged_link_or_its_child() {
    for kind in ObjectFault::ALL {
        let mut call = 0;
        loop {
            let behind = in_memory();
            let faulty = Arc::new(FaultObjects::new(Arc::clone(&behind)));
            faulty.plan(call, kind);
            let failing = KeyedCheckpointStore::new(Arc::clone(&faulty) as Arc<dyn Objects>);
            let mut acknowledged = None;
            let done = work(&failing, &mut acknowledged);
            let struck = faulty.calls() > call;
            let healthy = store(&behind);
            let history = whole_history_or_none(&healthy);
            let at = acknowledged.map_or(0, |link| {
                1 + history.iter().position(|found| *found == link).unwrap()
            });
            assert!(history.len() <= at + 1, "{kind:?} at {call}: {done:?}");
            work(&healthy, &mut None).unwrap();
            let later = whole_history(&healthy);
            assert_eq!(later[..history.len()], history);
            if !struck {
                done.unwrap();
                break;
            }
            call += 1;
        }
        assert!(call > 40, "{call}");
    }
}

fn whole_history_or_none(store: &KeyedCheckpointStore) -> Vec<ContentHash> {
    match store.newest(&agent()).unwrap() {
        Newest::Nothing => Vec::new(),
        _ => whole_history(store),
    }
}

#[test]
fn what_was_changed_behind_the_stores_back_is_refused() {
    let objects = in_memory();
    let lineages = store(&objects);
    let first = begin(&lineages, b"one").unwrap();
    tick(&lineages, &vec![1; MAX_HERE_BYTES + 1]).unwrap();
    tick(&lineages, b"three").unwrap();
    let mut names = Vec::new();
    for folder in [HEADS.to_owned(), links(&agent()), states(&agent())] {
        let listed = objects.list(&folder, "", 99).unwrap();
        names.extend(listed.into_iter().map(|name| format!("{folder}/{name}")));
    }
    assert_eq!(names.len(), 4);
    for name in names {
        let found = objects.read(&name, 1 << 30).unwrap().unwrap();
        let mut damaged = found.bytes.clone();
        let last = damaged.len() - 1;
        damaged[last] ^= 1;
        let put = objects.replace_if(&name, &found.version, &damaged).unwrap();
        let Put::Stored(version) = put else {
            panic!("{put:?}")
        };
        let look = || -> Result<(), Error> {
            for link in lineages.history(&agent())? {
                let link = lineages.load(&agent(), &link)?;
                let mut state = link.unwrap().state.unwrap();
                crate::lineage::state::each_chunk(&mut *state, &mut |_| Ok(()))?;
            }
            Ok(())
        };
        assert_eq!(look().unwrap_err().kind(), ErrorKind::Refused, "{name}");
        let _ = objects.replace_if(&name, &version, &found.bytes).unwrap();
        look().unwrap();
    }
    assert_eq!(whole_history(&lineages)[0], first);
}
