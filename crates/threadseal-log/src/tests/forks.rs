//! Evidence of two histories: stored before it is reported, reported once, found wherever the entry
//! is.

use super::prelude::*;
use threadseal_core::time::Timestamp;
use threadseal_core::tlog::entry::fork::LoggedFork;
use threadseal_core::trust::Trust;
use threadseal_formats::transcript::VerifyOptions;
use threadseal_formats::transcript::turn_proof::conflict::check_file;
use threadseal_formats::verified::Verified;

const EVIDENCE: &[u8] =
    include_bytes!("../../../../fuzz/seeds/seal_conflict/rotated.seal-conflict");

/// What that evidence proves to who knows the key.
pub(crate) fn proved() -> Verified<LoggedFork> {
    let trust = Trust::key(*PrivateKey::from_seed([1; 32]).public_key());
    let options = VerifyOptions {
        trust: &trust,
        now: Timestamp::from_micros(1_800_000_000_000_000).unwrap(),
        held_since: None,
        thread: None,
    };
    let checked = check_file(EVIDENCE, &options);
    checked
        .proved
        .unwrap_or_else(|| panic!("{:?}", checked.report))
}

/// Takes it into the log.
pub(crate) fn accuse(log: &SealLog) -> Accused {
    log.commit_fork(&proved(), EVIDENCE).unwrap()
}

#[test]
fn evidence_is_kept_and_said_once_and_no_other_bytes_pass_for_it() {
    let scene = on_disk();
    let log = scene.open();
    let fork = *proved().get();
    assert_eq!(log.forks_of(&fork.record).unwrap(), []);
    let other = log.commit_fork(&proved(), b"other evidence").unwrap_err();
    assert_eq!(other.kind(), ErrorKind::InvalidInput);
    assert_eq!(log.forks_of(&fork.record).unwrap(), []);
    let accused = accuse(&log);
    assert!(accused.is_new);
    assert_eq!(fs::read(&accused.path).unwrap(), EVIDENCE);
    let size = log.size();
    let again = accuse(&log);
    assert_eq!((again.is_new, &again.entry), (false, &accused.entry));
    assert_eq!(log.size(), size);
    for folded in [false, true] {
        if folded {
            log.fold().unwrap();
        }
        let known = log.forks_of(&fork.record).unwrap();
        assert_eq!(known.len(), 1);
        assert_eq!((known[0].fork, &*known[0].entry), (fork, &*accused.entry));
    }
    assert_eq!(log.forks_of(&record(1)).unwrap(), []);
    log.assert_whole();
}
