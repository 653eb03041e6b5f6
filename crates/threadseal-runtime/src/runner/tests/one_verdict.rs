//! `verify` and what relies on records judge them alike, also by what this host knew of them.

use super::stage::Stage;
use crate::runner::Engine;
use crate::runner::Services;
use crate::runner::orchestrator::Records;
use std::sync::Arc;
use threadseal_core::record::ThreadId;
use threadseal_core::report::Verdict;
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{Revocation, Trust, TrustName};
use threadseal_store::clock::ManualClock;
use threadseal_store::host::Host;
use threadseal_verify::home_log::HomeLog;
use threadseal_verify::{Verifier, VerifyRequest};

const GLADLY: &str = "answers: [{text: Gladly.}]";

/// How far the clock advances after the thread ended, in microseconds.
const MINUTE: u64 = 60_000_000;

/// The engine a minute later, where the key of its threads was revoked at `revoked`.
fn revoked_at(engine: &Engine, revoked: Timestamp, now: Timestamp) -> Engine {
    let mut trust = Trust::clone(&engine.services.trust);
    let name = TrustName::parse("self").unwrap();
    let revocation = Revocation {
        at: revoked,
        reason: "lost".to_owned(),
        entry: None,
    };
    trust.store.revoke(&name, revocation).unwrap();
    Engine::new(Services {
        trust: Arc::new(trust),
        host: Host {
            clock: Arc::new(ManualClock::new(now)),
            ..engine.services.host.clone()
        },
        ..engine.services.clone()
    })
}

/// The verdict of the file alone, as `verify` gives it.
fn verdict(engine: &Engine, id: &ThreadId) -> Verdict {
    let request = VerifyRequest {
        thread: Some(id.clone()),
        ..VerifyRequest::by(Trust::clone(&engine.services.trust))
    };
    let now = engine.services.host.clock.now().unwrap();
    let verifier = Verifier::new(
        request,
        engine.services.host.clone(),
        engine.services.log.clone(),
        now,
    );
    let result = verifier.verify_path(&engine.services.project.thread(id).transcript());
    result.reports()[0].verdict
}

#[test]
fn a_record_that_was_held_before_its_key_was_revoked_is_read_as_verify_judges_it() {
    let stage = Stage::new();
    let id = stage.run(GLADLY).thread;
    let engine = stage.engine(GLADLY);
    let ended = engine.services.host.clock.now().unwrap().as_micros();
    let at = |micros| Timestamp::from_micros(micros).unwrap();
    let now = at(ended + 2 * MINUTE);
    for (revoked, expected) in [
        (at(ended + MINUTE), Verdict::Verified),
        (at(ended - MINUTE), Verdict::Forged),
    ] {
        let engine = revoked_at(&engine, revoked, now);
        let found = verdict(&engine, &id);
        assert_eq!(found, expected);
        let is_verified = found == Verdict::Verified;
        let record = engine.services.archive().record(&id, None);
        assert_eq!(record.is_ok(), is_verified, "{record:?}");
        let recoverable = Records::from(&engine.services).verifier(&id).unwrap();
        let path = engine.services.project.thread(&id).transcript();
        let opened = recoverable.open_transcript(&path).unwrap();
        assert_eq!(opened.result.report.verdict, found);
        assert_eq!(opened.result.verified_part.is_some(), is_verified);
    }
}

#[test]
fn a_host_that_never_held_a_record_does_not_believe_its_revoked_key() {
    let stage = Stage::new();
    let id = stage.run(GLADLY).thread;
    let engine = stage.engine(GLADLY);
    let ended = engine.services.host.clock.now().unwrap().as_micros();
    let at = |micros| Timestamp::from_micros(micros).unwrap();
    let mut engine = revoked_at(&engine, at(ended + MINUTE), at(ended + 2 * MINUTE));
    engine.services.host.heads = Arc::new(threadseal_store::heads::MemoryHeadStore::default());
    assert_ne!(verdict(&engine, &id), Verdict::Verified);
    engine.services.archive().record(&id, None).unwrap_err();
}

#[test]
fn reports_of_what_relies_on_a_record_say_that_the_log_is_gone() {
    let stage = Stage::new();
    let id = stage.run(GLADLY).thread;
    let engine = Engine::new(Services {
        log: HomeLog::Missing("it is gone".to_owned()),
        ..stage.engine(GLADLY).services
    });
    let record = engine.services.archive().record(&id, None).unwrap();
    let mut findings = record.report().findings.iter();
    assert!(findings.any(|found| found.code == "seal_log_missing"));
}
