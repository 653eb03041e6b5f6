//! `verify` and what relies on records judge them alike, also by what this host knew of them.

use crate::runner::orchestrator::Records;
use crate::testing::prelude::*;
use threadseal_core::key::PublicKey;
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{Revocation, Trust, TrustName};
use threadseal_store::clock::ManualClock;
use threadseal_verify::home_log::HomeLog;
use threadseal_verify::{Verifier, VerifyRequest};

/// How far the clock advances after the thread ended, in microseconds.
const MINUTE: i64 = 60_000_000;

/// A thread that ended, and the engine two minutes later, where its key was revoked so many
/// microseconds after the end.
fn revoked(after: i64) -> (Scene, ThreadId, Engine) {
    ended(after, None)
}

/// The same of a key that its owner rotated to the next one, if there is one.
fn ended(after: i64, next: Option<PublicKey>) -> (Scene, ThreadId, Engine) {
    let scene = Scene::new().signed();
    let id = scene.run(GLADLY).thread;
    let mut engine = scene.engine(GLADLY);
    let ended = scene.host.clock.now().unwrap().as_micros();
    let at = |micros| Timestamp::from_micros(ended.checked_add_signed(micros).unwrap()).unwrap();
    let mut trust = scene.trust.clone();
    let revocation = Revocation {
        at: at(after),
        reason: "lost".to_owned(),
        entry: None,
        next,
    };
    let name = TrustName::parse("self").unwrap();
    trust.store.revoke(&name, revocation).unwrap();
    engine.services.trust = Arc::new(trust);
    engine.services.host.clock = Arc::new(ManualClock::new(at(2 * MINUTE)));
    (scene, id, engine)
}

/// The verdict of the file alone, as `verify` gives it.
fn verdict(engine: &Engine, id: &ThreadId) -> Verdict {
    let services = &engine.services;
    let request = VerifyRequest {
        thread: Some(id.clone()),
        ..VerifyRequest::by(Trust::clone(&services.trust))
    };
    let now = services.host.clock.now().unwrap();
    let verifier = Verifier::new(request, services.host.clone(), services.log.clone(), now);
    let result = verifier.verify_path(&services.project.thread(id).transcript());
    result.reports()[0].verdict
}

#[test]
fn a_record_that_was_held_before_its_key_was_revoked_is_read_as_verify_judges_it() {
    for (after, expected) in [(MINUTE, Verdict::Verified), (-MINUTE, Verdict::Forged)] {
        let (scene, id, engine) = revoked(after);
        assert_eq!(verdict(&engine, &id), expected);
        let is_verified = expected == Verdict::Verified;
        let record = engine.services.archive().record(&id, None);
        assert_eq!(record.is_ok(), is_verified, "{record:?}");
        let recoverable = Records::from(&engine.services).verifier(&id).unwrap();
        let opened = recoverable.open_transcript(&scene.transcript(&id)).unwrap();
        assert_eq!(opened.result.report.verdict, expected);
        assert_eq!(opened.result.verified_part.is_some(), is_verified);
    }
}

// T-KEY-24
#[test]
fn a_record_by_a_rotated_key_without_evidence_of_its_age_is_not_continued() {
    let next = Some(threadseal_core::testing::key(9));
    for (after, expected) in [
        (MINUTE, Verdict::Verified),
        (-MINUTE, Verdict::UnknownSigner),
    ] {
        let (_scene, id, engine) = ended(after, next);
        assert_eq!(verdict(&engine, &id), expected);
        let record = engine.services.archive().record(&id, None);
        assert_eq!(record.is_ok(), expected == Verdict::Verified, "{record:?}");
    }
    let (_scene, id, mut engine) = ended(MINUTE, next);
    engine.services.host.heads = Arc::new(MemoryHeadStore::default());
    assert_eq!(verdict(&engine, &id), Verdict::UnknownSigner);
    let refused = engine.services.archive().record(&id, None).unwrap_err();
    assert!(refused.to_string().contains("key_rotated"), "{refused}");
}

#[test]
fn a_host_that_never_held_a_record_does_not_believe_its_revoked_key() {
    let (_scene, id, mut engine) = revoked(MINUTE);
    engine.services.host.heads = Arc::new(MemoryHeadStore::default());
    assert_ne!(verdict(&engine, &id), Verdict::Verified);
    engine.services.archive().record(&id, None).unwrap_err();
}

#[test]
fn reports_of_what_relies_on_a_record_say_that_the_log_is_gone() {
    let scene = Scene::new().signed();
    let id = scene.run(GLADLY).thread;
    let mut engine = scene.engine(GLADLY);
    engine.services.log = HomeLog::Missing("it is gone".to_owned());
    let record = engine.services.archive().record(&id, None).unwrap();
    let mut findings = record.report().findings.iter();
    assert!(findings.any(|found| found.code == "seal_log_missing"));
}
