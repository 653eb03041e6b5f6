//! The rules that every registry must obey, independent of the store.

use super::*;
use crate::bounds::MAX_CHAIN_THREADS;
use crate::limit::Cost;
use crate::money::Nanos;
use crate::status::Status;
use serde_json::json;
use std::fmt;
use std::time::Duration;
use threadseal_core::error::Error;
use threadseal_core::error::ErrorKind;
use threadseal_core::record::RecordId;
use threadseal_core::record::ThreadId;
use threadseal_core::time::Timestamp;

pub(super) fn id(text: &str) -> ThreadId {
    ThreadId::parse(text).unwrap()
}

pub(super) fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros((1_700_000_000 + seconds) * 1_000_000).unwrap()
}

pub(super) fn new<'a>(id: &'a ThreadId, origin: Origin<'a>) -> NewThread<'a> {
    NewThread {
        id,
        directive: "test/task",
        origin,
        model: Some("m"),
        record: None,
        process: None,
        most_running: None,
    }
}

/// Runs them all, each on an empty registry.
pub(super) fn all<R: Registry>(empty: impl Fn() -> R) {
    a_thread_is_created_once_and_read_back(&empty());
    statuses_change_along_the_table_only(&empty());
    a_child_counts_against_its_parents_limit(&empty());
    a_link_is_written_both_ways_or_not_at_all(&empty());
    what_a_record_says_is_entered_whatever_the_row_said(&empty());
    chains_are_followed_from_any_of_their_threads(&empty());
    costs_results_processes_and_records_are_kept(&empty());
    lists_are_filtered_and_newest_first(&empty());
}

fn refused<T: fmt::Debug>(result: Result<T, Error>) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    error.to_string()
}

fn a_thread_is_created_once_and_read_back(registry: &dyn Registry) {
    let a = id("test/task/task-1");
    assert_eq!(registry.get(&a).unwrap(), None);
    registry.create(&new(&a, Origin::Root), at(0)).unwrap();
    assert!(refused(registry.create(&new(&a, Origin::Root), at(1))).contains("already"));
    let thread = registry.get(&a).unwrap().unwrap();
    assert_eq!(thread.id, a);
    assert_eq!(thread.directive, "test/task");
    assert_eq!(thread.standing().unwrap(), Status::Created);
    assert_eq!(thread.model.as_deref(), Some("m"));
    assert_eq!(thread.created_at, Some(at(0).to_python_text()));
    assert_eq!((thread.pid, thread.record, thread.fence), (None, None, 0));
    refused(registry.set_status(&id("none"), None, Status::Running, at(1)));
    refused(registry.set_result(&id("none"), &json!(1), at(1)));
}

fn statuses_change_along_the_table_only(registry: &dyn Registry) {
    let a = id("a");
    registry.create(&new(&a, Origin::Root), at(0)).unwrap();
    let set = |expected, to| registry.set_status(&a, expected, to, at(5));
    refused(set(None, Status::Completed));
    refused(set(Some(Status::Running), Status::Running));
    assert_eq!(set(None, Status::Running).unwrap(), Status::Created);
    assert_eq!(registry.get(&a).unwrap().unwrap().completed_at, None);
    refused(set(None, Status::Continued));
    let before = set(Some(Status::Running), Status::Completed).unwrap();
    assert_eq!(before, Status::Running);
    let thread = registry.get(&a).unwrap().unwrap();
    assert_eq!(thread.completed_at, Some(at(5).to_python_text()));
    for next in Status::ALL {
        refused(set(None, next));
    }
    assert_eq!(registry.get(&a).unwrap().unwrap(), thread);
}

fn a_child_counts_against_its_parents_limit(registry: &dyn Registry) {
    let parent = id("p");
    let child = |max_spawns| Origin::Child {
        parent: &parent,
        max_spawns,
    };
    refused(registry.create(&new(&id("c1"), child(None)), at(0)));
    registry.create(&new(&parent, Origin::Root), at(0)).unwrap();
    for name in ["c1", "c2"] {
        registry
            .create(&new(&id(name), child(Some(2))), at(1))
            .unwrap();
    }
    let third = refused(registry.create(&new(&id("c3"), child(Some(2))), at(2)));
    assert!(third.contains("spawns_exceeded"), "{third}");
    assert_eq!(registry.get(&id("c3")).unwrap(), None);
    assert_eq!(registry.get(&parent).unwrap().unwrap().spawns, 2);
    let children = registry.list(&Filter::children_of(&parent)).unwrap();
    assert_eq!(children.threads.len(), 2);
}

fn a_link_is_written_both_ways_or_not_at_all(registry: &dyn Registry) {
    let (p, a, b, c) = (id("p"), id("a"), id("b"), id("c"));
    registry.create(&new(&p, Origin::Root), at(0)).unwrap();
    let child = Origin::Child {
        parent: &p,
        max_spawns: None,
    };
    registry.create(&new(&a, child), at(0)).unwrap();
    let successor = Origin::Successor { of: &a };
    registry.create(&new(&b, successor), at(1)).unwrap();
    registry.create(&new(&c, successor), at(1)).unwrap();
    let before = [&a, &b].map(|id| registry.get(id).unwrap());
    refused(registry.link(&a, &b, at(2)));
    registry
        .set_status(&a, None, Status::Running, at(2))
        .unwrap();
    refused(registry.link(&a, &a, at(2)));
    refused(registry.link(&a, &id("none"), at(2)));
    assert_eq!(registry.get(&b).unwrap(), before[1]);
    registry.link(&a, &b, at(3)).unwrap();
    refused(registry.link(&a, &c, at(4)));
    refused(registry.link(&c, &b, at(4)));
    refused(registry.link(&b, &a, at(4)));
    let [a, b] = [&a, &b].map(|id| registry.get(id).unwrap().unwrap());
    assert_eq!(a.standing().unwrap(), Status::Continued);
    assert_eq!(a.continuation.as_deref(), Some("b"));
    assert_eq!(a.chain_root, None);
    assert_eq!(b.continuation_of.as_deref(), Some("a"));
    assert_eq!(b.chain_root.as_deref(), Some("a"));
    assert_eq!(b.parent.as_deref(), Some("p"));
    assert_eq!(registry.get(&p).unwrap().unwrap().spawns, 1);
}

fn what_a_record_says_is_entered_whatever_the_row_said(registry: &dyn Registry) {
    let a = id("a");
    let said = Recorded {
        id: a.clone(),
        record: RecordId::from_bytes([7; 32]),
        directive: "test/task".to_owned(),
        model: Some("m".to_owned()),
        parent: Some(id("p")),
        began: at(3),
        spawns: 2,
        before: Some(id("b")),
        after: None,
        root: Some(id("r")),
        ended: Some(Status::Completed),
    };
    registry.enter(&said, at(9)).unwrap();
    let made = registry.get(&a).unwrap().unwrap();
    assert_eq!(made.created_at, Some(at(3).to_python_text()));
    assert_eq!(made.standing().unwrap(), Status::Created);
    assert_eq!(said.contradictions(&made), []);
    assert_eq!((made.parent.as_deref(), made.spawns), (Some("p"), 2));
    registry.correct(&a, Status::Completed, at(10)).unwrap();
    // Children that the record does not mention are not forgotten.
    let child = Origin::Child {
        parent: &a,
        max_spawns: None,
    };
    registry.create(&new(&id("c"), child), at(11)).unwrap();
    let other = Recorded {
        record: RecordId::from_bytes([8; 32]),
        directive: "other".to_owned(),
        model: None,
        parent: None,
        before: None,
        after: Some(id("s")),
        root: None,
        ..said.clone()
    };
    let row = registry.get(&a).unwrap().unwrap();
    let codes: Vec<&str> = other
        .contradictions(&row)
        .iter()
        .map(|fault| fault.code)
        .collect();
    let chain = "chain_mismatch";
    assert_eq!(
        codes,
        [
            "record_mismatch",
            "directive_mismatch",
            "model_mismatch",
            "parent_mismatch",
            chain,
            chain,
            chain
        ]
    );
    registry.enter(&other, at(12)).unwrap();
    let row = registry.get(&a).unwrap().unwrap();
    assert_eq!(other.contradictions(&row), []);
    assert_eq!(
        (row.spawns, row.standing().unwrap()),
        (3, Status::Completed)
    );
    assert_eq!(row.created_at, Some(at(3).to_python_text()));
    let alone = Recorded {
        after: None,
        ..other
    };
    registry.enter(&alone, at(13)).unwrap();
    assert_eq!(registry.get(&a).unwrap().unwrap().continuation, None);
}

fn chains_are_followed_from_any_of_their_threads(registry: &dyn Registry) {
    let ids: Vec<ThreadId> = (0..5).map(|n| id(&format!("t/{n}"))).collect();
    for (n, next) in ids.iter().enumerate() {
        let origin = match n.checked_sub(1) {
            Some(before) => Origin::Successor { of: &ids[before] },
            None => Origin::Root,
        };
        registry.create(&new(next, origin), at(n as u64)).unwrap();
        registry
            .set_status(next, None, Status::Running, at(9))
            .unwrap();
        if n > 0 {
            registry.link(&ids[n - 1], next, at(9)).unwrap();
        }
    }
    for asked in &ids {
        let chain = registry.chain(asked).unwrap();
        assert_eq!(chain.fault, None);
        assert!(chain.threads.iter().map(|t| &t.id).eq(&ids));
        assert_eq!(registry.resolve(asked).unwrap().id, ids[4]);
    }
    refused(registry.chain(&id("none")));
    assert!(ids.len() < MAX_CHAIN_THREADS);
}

fn costs_results_processes_and_records_are_kept(registry: &dyn Registry) {
    let a = id("a");
    registry.create(&new(&a, Origin::Root), at(0)).unwrap();
    let cost = Cost {
        turns: 3,
        input_tokens: 4357,
        output_tokens: 344,
        spend: Nanos::parse("0.006077001").unwrap(),
        spawns: 7,
        elapsed: Duration::from_secs(2),
    };
    registry.set_cost(&a, &cost, at(1)).unwrap();
    registry
        .set_result(&a, &json!({"outputs": {"é": 1}}), at(2))
        .unwrap();
    let process = Process {
        pid: 4321,
        started: "boot:77".to_owned(),
    };
    registry.set_process(&a, &process, at(3)).unwrap();
    registry.set_model(&a, "other", at(3)).unwrap();
    let record = RecordId::from_bytes([7; 32]);
    registry.set_record(&a, &record, at(4)).unwrap();
    registry.set_record(&a, &record, at(4)).unwrap();
    refused(registry.set_record(&a, &RecordId::from_bytes([8; 32]), at(4)));
    let thread = registry.get(&a).unwrap().unwrap();
    assert_eq!((thread.turns, thread.input_tokens), (3, 4357));
    assert_eq!((thread.spend, thread.spawns), (cost.spend, 0));
    assert_eq!(thread.result.as_deref(), Some(r#"{"outputs":{"é":1}}"#));
    assert_eq!(thread.process(), Some(process));
    assert_eq!(thread.model.as_deref(), Some("other"));
    assert_eq!(thread.record, Some(record));
    assert_eq!(thread.updated_at, Some(at(4).to_python_text()));
}

fn lists_are_filtered_and_newest_first(registry: &dyn Registry) {
    for n in 0..4 {
        let name = id(&format!("l{n}"));
        registry.create(&new(&name, Origin::Root), at(n)).unwrap();
        registry.set_result(&name, &json!(n), at(n)).unwrap();
    }
    registry
        .set_status(&id("l1"), None, Status::Running, at(9))
        .unwrap();
    registry
        .set_status(&id("l2"), None, Status::Error, at(9))
        .unwrap();
    let names = |filter: &Filter| -> Vec<String> {
        let listing = registry.list(filter).unwrap();
        assert!(listing.threads.iter().all(|thread| thread.result.is_none()));
        let ids = listing.threads.iter().map(|thread| thread.id.to_string());
        ids.collect()
    };
    assert_eq!(names(&Filter::default()), ["l3", "l2", "l1", "l0"]);
    assert_eq!(names(&Filter::active()), ["l3", "l1", "l0"]);
    let some = Filter {
        limit: Some(2),
        directive: Some("test/task".to_owned()),
        ..Filter::default()
    };
    assert_eq!(names(&some), ["l3", "l2"]);
    let none = Filter {
        directive: Some("other".to_owned()),
        ..Filter::default()
    };
    assert!(names(&none).is_empty());
}
