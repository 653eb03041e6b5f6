//! Attacks on redacted sessions, and crashes of a redaction.

use super::*;
use crate::archive::Kept;
use crate::archive::testing::{Bench, COPY, LOG, WORD, lines};
use std::path::Path;
use threadseal_core::report::Verdict;
use threadseal_store::fault::{self, FaultKind, Keep};
use threadseal_store::observer;
use threadseal_store::sys::Fs as _;

/// Lines of a session; number `at`, from 1, holds the word.
pub(crate) fn text(count: usize, at: u64) -> Vec<u8> {
    let all = lines(1, count);
    let mut out = Vec::new();
    for (line, number) in all.split_inclusive(|byte| *byte == b'\n').zip(1..) {
        let line = String::from_utf8(line.to_vec()).unwrap();
        let line = if number == at {
            line.replace("\"t\"", &format!("\"{WORD}\""))
        } else {
            line
        };
        out.extend(line.into_bytes());
    }
    out
}

pub(crate) fn has_word(bytes: &[u8]) -> bool {
    memchr::memmem::find(bytes, WORD.as_bytes()).is_some()
}

impl Bench {
    pub(crate) fn redact(&self, line: u64) -> Result<Redacted, Error> {
        let name = LogName::of(&self.file(LOG));
        let statement = Statement {
            by: "Ada",
            why: "a password",
        };
        let lines = BTreeSet::from([line]);
        self.try_archive()?
            .redact(&name, &lines, statement, &self.signer)
    }

    /// No file of the archive holds the word, and nothing is wrong with it.
    pub(crate) fn is_clean(&self) {
        let archive = self.archive();
        let found = self.fsck();
        assert_eq!((found.damage, found.orphans), (vec![], vec![]));
        for log in archive.logs().unwrap() {
            for version in &log.versions {
                assert!(
                    !has_word(&archive.read(&log, version, 0).unwrap()),
                    "{}",
                    log.name
                );
            }
        }
    }
}

// T-CAP-80
#[test]
fn a_redacted_line_is_in_no_file_of_the_archive_and_all_others_verify() {
    for bench in [Bench::new(), Bench::encrypted()] {
        for count in [100, 200, 300] {
            bench.keep_text(LOG, &text(count, 7));
        }
        let before = bench.archive().logs().unwrap().remove(0);
        assert!(has_word(&bench.text(&before)));
        let done = bench.redact(7).unwrap();
        assert_eq!(done.records.len(), 1);
        assert_eq!(
            (done.records[0].lines.as_slice(), done.shared.len()),
            (&[7][..], 0)
        );
        assert!(done.removed.0 > 0);
        bench.is_clean();
        let log = bench.archive().logs().unwrap().remove(0);
        assert_eq!(
            log.versions[0].states.len(),
            1,
            "earlier states held the line"
        );
        assert_eq!(log.versions[0].last().head, before.versions[0].last().head);
        assert_eq!(log.facts, before.facts);
        assert_eq!(bench.newest_verdict(&log), Verdict::Verified);
        let again = bench.redact(7).unwrap();
        assert_eq!(again.records, [], "it was redacted before");
        bench.redact(8).unwrap();
        let log = bench.archive().logs().unwrap().remove(0);
        assert_eq!(bench.newest_verdict(&log), Verdict::Verified);
        assert_eq!(
            bench.redact(301).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
        assert_eq!(bench.redact(0).unwrap_err().kind(), ErrorKind::InvalidInput);
        bench.is_clean();
    }
}

// T-CAP-81
#[test]
fn the_log_of_the_agent_brings_no_redacted_line_back() {
    let bench = Bench::new();
    bench.keep_text(LOG, &text(50, 50));
    bench.redact(50).unwrap();
    assert_eq!(bench.keep(LOG).unwrap(), Kept::Unchanged);
    for count in [51, 90] {
        assert!(matches!(
            bench.keep_text(LOG, &text(count, 50)),
            Kept::Added(_)
        ));
        bench.is_clean();
        let log = bench.archive().logs().unwrap().remove(0);
        assert_eq!(bench.newest_verdict(&log), Verdict::Verified);
    }
    // A copy of the log under another name.
    let own = bench.file(LOG);
    for (from, to) in [
        (PathBuf::from(LOG), PathBuf::from(COPY)),
        (
            observer::seal_path(Path::new(LOG)),
            observer::seal_path(Path::new(COPY)),
        ),
    ] {
        let bytes = bench.disk.bytes_of(&from).unwrap();
        bench.put(&to, &bytes);
    }
    assert!(matches!(bench.keep_as(&own, COPY).unwrap(), Kept::Added(_)));
    assert_eq!(bench.archive().logs().unwrap().len(), 2);
    bench.is_clean();
    // A session that was forgotten, and is archived again.
    for id in bench.archive().sessions().unwrap() {
        bench
            .archive()
            .forget(&id, super::super::Why::Asked, "")
            .unwrap();
    }
    let seals = observer::read_seals(&bench.host, Path::new(LOG))
        .unwrap()
        .unwrap();
    let sealed = SealedLog {
        path: Path::new(LOG),
        head: observed::parse(&seals).unwrap().last().unwrap().head,
        seals: &seals,
        recall: true,
        search: None,
    };
    assert!(matches!(
        bench.archive().keep(&own, &sealed).unwrap(),
        Kept::Added(_)
    ));
    bench.is_clean();
    // The log was changed since: nothing is archived.
    let mut changed = text(95, 50);
    bench.write(LOG, &changed);
    bench.seal(LOG);
    let at = changed.len() - 40;
    changed[at] ^= 1;
    bench.write(LOG, &changed);
    assert_eq!(bench.keep(LOG).unwrap_err().kind(), ErrorKind::Refused);
}

#[test]
fn equal_lines_of_other_versions_and_names_are_redacted_too() {
    let bench = Bench::new();
    bench.keep_text(LOG, &text(30, 3));
    // The record was restarted: another one with the same lines, and one before them.
    bench
        .disk
        .unlink(&observer::seal_path(Path::new(LOG)))
        .unwrap();
    let other = Bench {
        host: threadseal_store::testing::host(
            bench.disk.shared(),
            threadseal_store::heads::MemoryHeadStore::default(),
        ),
        ..Bench::on(bench.disk.clone())
    };
    other.host.new_record().unwrap();
    other.host.new_record().unwrap();
    let longer = [lines(2, 1), text(30, 3)].concat();
    bench.write(LOG, &longer);
    other.seal(LOG);
    bench.keep(LOG).unwrap();
    let versions = bench.archive().logs().unwrap().remove(0).versions;
    assert_eq!(versions.len(), 2);
    let done = bench.redact(4).unwrap();
    let found: Vec<(RecordId, Vec<u64>)> = done
        .records
        .into_iter()
        .map(|found| (found.record, found.lines))
        .collect();
    let (first, second) = (versions[0].record(), versions[1].record());
    assert_eq!(found, [(second, vec![4]), (first, vec![3])]);
    bench.is_clean();
    let log = bench.archive().logs().unwrap().remove(0);
    let records: Vec<RecordId> = log.versions.iter().map(Version::record).collect();
    assert_eq!(records, [first, second], "versions stay in their order");
}

#[test]
fn another_session_keeps_its_chunks_and_is_named() {
    let bench = Bench::new();
    let text = text(200, 2);
    bench.keep_text(LOG, &text);
    bench.keep_text(COPY, &text);
    let done = bench.redact(2).unwrap();
    let other = LogName::of(&bench.file(COPY));
    assert_eq!(done.shared, std::slice::from_ref(&other));
    let log = bench.archive().log(&other).unwrap();
    assert_eq!(bench.text(&log), text);
    assert_eq!(bench.newest_verdict(&log), Verdict::Verified);
}

pub(crate) fn ends(call: usize, kind: FaultKind) -> Vec<Option<Keep>> {
    match kind {
        FaultKind::PowerOff => fault::ends(call).to_vec(),
        _ => vec![None, Some(Keep::ByLot(call as u64))],
    }
}

// T-CAP-82
#[test]
fn a_crash_at_any_call_of_a_redaction_is_completed_by_the_same_redaction() {
    let start = Bench::new();
    start.keep_text(LOG, &text(20, 7));
    start.keep_text(LOG, &text(60, 7));
    start.write(LOG, &text(70, 7));
    start.seal(LOG);
    fault::fail_each_call(20, ends, |call, kind, end| {
        let bench = start.copy();
        bench.disk.plan(call, kind);
        let redacted = bench.redact(7).is_ok();
        let struck = bench.disk.struck().is_some();
        bench.disk.heal();
        bench.disk.end(end);
        let log = bench.archive().logs().unwrap().remove(0);
        assert_eq!(log.damage, None, "{call} {kind:?} {end:?}");
        assert_eq!(bench.fsck().damage, vec![], "{call} {kind:?} {end:?}");
        let is_gone = !has_word(&bench.text(&log));
        assert!(is_gone || !redacted, "{call} {kind:?} {end:?}");
        // A later state of the agent's log arrives first.
        if call % 2 == 0 {
            let kept = bench.keep(LOG).unwrap();
            assert!(matches!(kept, Kept::Added(_)), "{kept:?}");
            let log = bench.archive().logs().unwrap().remove(0);
            assert!(!is_gone || !has_word(&bench.text(&log)), "{call} {kind:?}");
        }
        bench.redact(7).unwrap();
        bench.is_clean();
        if bench.keep(LOG).unwrap() == Kept::Unchanged {
            assert_eq!(call % 2, 0, "the later state is there already");
        }
        bench.is_clean();
        let log = bench.archive().logs().unwrap().remove(0);
        assert_eq!(bench.newest_verdict(&log), Verdict::Verified);
        struck
    });
}

// T-CAP-83
#[test]
fn a_damaged_front_is_named_and_nothing_of_its_record_is_archived() {
    let bench = Bench::new();
    bench.keep_text(LOG, &text(20, 7));
    bench.redact(7).unwrap();
    let (record, place) = bench.archive().fronts().unwrap().remove(0);
    let good = bench.disk.bytes_of(&place).unwrap();
    let front = bench.archive().front(&record).unwrap();
    bench.write(LOG, &text(30, 7));
    bench.seal(LOG);
    for at in 0..good.len() {
        let mut changed = good.clone();
        changed[at] ^= 1;
        bench.disk.set_bytes(&place, &changed).unwrap();
        // A change that the compression does not notice changes no byte of the content.
        let read = bench.archive().front(&record);
        assert!(read.is_err() || read.unwrap() == front, "byte {at}");
    }
    bench
        .disk
        .set_bytes(&place, &good[..good.len() / 2])
        .unwrap();
    let found = bench.fsck();
    assert_eq!((found.damage.len(), &found.damage[0].place), (1, &place));
    assert!(bench.keep(LOG).is_err());
    bench.disk.set_bytes(&place, &good).unwrap();
    assert!(matches!(bench.keep(LOG).unwrap(), Kept::Added(_)));
    bench.is_clean();
}
