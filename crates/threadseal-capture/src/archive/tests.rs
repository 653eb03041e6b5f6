//! Attacks on the archive, its crashes, and what an honest user does every day.

use super::testing::{Bench, COPY, HOME, LOG, lines};
use super::*;
use crate::session::Growth;
use threadseal_core::report::Verdict;
use threadseal_formats::transcript::observed;
use threadseal_store::fault::{self, FaultKind, Keep};
use threadseal_store::heads::MemoryHeadStore;
use threadseal_store::observer;
use threadseal_store::testing::host;

#[test]
fn a_growing_log_grows_in_the_archive_and_each_of_its_states_verifies() {
    let bench = Bench::new();
    let all = lines(1, 500);
    let mut kept = 0;
    for end in [2, 3, 100, 101, 102, 400, 500] {
        let text: Vec<u8> = all
            .split_inclusive(|byte| *byte == b'\n')
            .take(end)
            .flatten()
            .copied()
            .collect();
        let added = bench.keep_text(LOG, &text);
        assert_eq!(added, Kept::Added(text.len() as u64 - kept));
        kept = text.len() as u64;
        assert_eq!(bench.keep(LOG).unwrap(), Kept::Unchanged);
        let log = &bench.archive().logs().unwrap()[0];
        assert_eq!(bench.text(log), text);
    }
    let log = &bench.archive().logs().unwrap()[0];
    assert_eq!(
        (log.versions.len(), log.facts.project.as_deref()),
        (1, Some("/p"))
    );
    assert_eq!(log.source().unwrap(), Path::new(LOG));
    assert_eq!(bench.newest_verdict(log), Verdict::Verified);
    // An earlier state is complete in itself; only the known head shows that it is not the last.
    for state in &log.versions[0].states {
        let verdict = bench.verdict_as_of(log, &log.versions[0], state, Some(state.head));
        let expected = match *state == log.versions[0].last() {
            true => Verdict::Verified,
            false => Verdict::Open,
        };
        assert_eq!(verdict, expected, "{state:?}");
    }
    let earlier = log.versions[0].states[3];
    assert_eq!(
        bench.verdict(log, &log.versions[0], &earlier),
        Verdict::RolledBack
    );
    let found = bench.fsck();
    assert_eq!((found.damage, found.orphans), (vec![], vec![]));
}

// T-ARC-07
#[test]
fn a_session_whose_folder_is_removed_verifies_from_the_archive() {
    for bench in [Bench::new(), Bench::encrypted()] {
        let text = lines(1, 300);
        bench.keep_text(LOG, &text);
        for name in list(&bench.disk, Path::new("/home/ann/logs")).unwrap() {
            bench
                .disk
                .unlink(&Path::new("/home/ann/logs").join(name))
                .unwrap();
        }
        let log = &bench.archive().logs().unwrap()[0];
        assert_eq!(bench.newest_verdict(log), Verdict::Verified);
        assert_eq!(bench.text(log), text);
    }
}

#[test]
fn each_version_of_a_rewritten_log_stays_and_shares_its_chunks() {
    let bench = Bench::new();
    let file = SessionFile {
        growth: Growth::Rewrites,
        ..{
            bench.write(LOG, &lines(1, 1));
            bench.file(LOG)
        }
    };
    let first = lines(1, 1000);
    let mut second = lines(2, 1);
    second.extend(&first);
    for (text, record) in [(&first, 1), (&second, 2)] {
        bench.write(LOG, text);
        let _ = bench.disk.unlink(&observer::seal_path(Path::new(LOG)));
        // Each version is a record of its own, as its restart on this host makes it.
        let other = Bench {
            host: host(bench.disk.shared(), MemoryHeadStore::default()),
            ..Bench::on(bench.disk.clone())
        };
        for _ in 0..record {
            other.host.new_record().unwrap();
        }
        other.seal(LOG);
        assert!(matches!(bench.keep_as(&file, LOG).unwrap(), Kept::Added(_)));
        bench
            .disk
            .unlink(&observer::seal_path(Path::new(LOG)))
            .unwrap();
    }
    let log = &bench.archive().logs().unwrap()[0];
    assert_eq!(log.versions.len(), 2);
    for (version, text) in log.versions.iter().zip([&first, &second]) {
        assert_eq!(&bench.archive().read(log, version, 0).unwrap(), text);
        // All signatures hold; the heads are known to the other host alone.
        assert_eq!(bench.verdict(log, version, &version.last()), Verdict::Open);
    }
    let [first, second] = &log.versions[..] else {
        panic!("two versions");
    };
    let new = second
        .log
        .chunks
        .iter()
        .filter(|chunk| !first.log.chunks.contains(chunk));
    let (new, all) = (new.count(), second.log.chunks.len());
    assert!(new <= 3 && all > 5, "{new} of {all} chunks are new");
}

// T-ARC-08
#[test]
fn a_log_that_changed_after_its_seal_is_not_archived() {
    let bench = Bench::new();
    let text = lines(1, 10);
    bench.keep_text(LOG, &text);
    let more = lines(2, 3);
    let grown = [text.as_slice(), &more].concat();
    bench.write(LOG, &grown);
    bench.seal(LOG);
    for at in [text.len() + 60, grown.len() - 40] {
        let mut changed = grown.clone();
        changed[at] ^= 1;
        bench.write(LOG, &changed);
        let refused = bench.keep(LOG).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Refused, "{refused}");
    }
    bench.write(LOG, &grown[..grown.len() - 700]);
    assert!(bench.keep(LOG).is_err());
    bench.write(LOG, &grown);
    assert_eq!(bench.keep(LOG).unwrap(), Kept::Added(more.len() as u64));
}

#[test]
fn a_document_without_a_last_line_feed_and_what_follows_it_is_archived() {
    let bench = Bench::new();
    let line = lines(1, 1);
    let open = &line[..line.len() - 1];
    assert_eq!(bench.keep_text(LOG, open), Kept::Added(open.len() as u64));
    let longer = [line.as_slice(), &lines(2, 2)].concat();
    assert!(matches!(bench.keep_text(LOG, &longer), Kept::Added(_)));
    let log = &bench.archive().logs().unwrap()[0];
    assert_eq!(bench.newest_verdict(log), Verdict::Verified);
}

// T-ARC-09
#[test]
fn fsck_names_flipped_bits_and_missing_and_superfluous_files() {
    for bench in [Bench::new(), Bench::encrypted()] {
        bench.keep_text(LOG, &lines(1, 500));
        assert!(bench.fsck().is_sound());
        let root = Path::new(HOME).join("archive");
        let places: Vec<PathBuf> = {
            let logs = bench.archive().logs().unwrap();
            let version = &logs[0].versions[0];
            let archive = bench.archive();
            let pieces = StreamKind::ALL.into_iter().flat_map(|kind| {
                let stream = kind.of(version);
                stream.pieces().map(move |piece| (kind, piece, stream))
            });
            let place = |(kind, piece, stream): (_, _, _)| {
                archive.place_of(&logs[0].name, kind, piece, stream)
            };
            pieces.map(place).collect()
        };
        assert!(places.len() > 3);
        for place in &places {
            let good = bench.disk.bytes_of(place).unwrap();
            let mut flipped = good.clone();
            let middle = good.len() / 2;
            flipped[middle] ^= 4;
            bench.disk.set_bytes(place, &flipped).unwrap();
            let found = bench.fsck();
            assert_eq!(found.damage.len(), 1, "{place:?}");
            assert_eq!(&found.damage[0].place, place);
            bench.disk.unlink(place).unwrap();
            let found = bench.fsck();
            assert_eq!(
                (found.damage.len(), found.damage[0].why.as_str()),
                (1, "the file is missing")
            );
            let log = &bench.archive().logs().unwrap()[0];
            let mut fs = ArchiveFs::new(&bench.archive());
            let mounted = fs.mount(log, &log.versions[0], &log.versions[0].last());
            let read = |path| read_small(&fs, path, 1 << 30);
            assert!(read(&mounted.log).is_err() || read(&mounted.seals).is_err());
            bench.put(place, &good);
        }
        let orphan = root.join("chunks").join("ab").join("ab".repeat(32));
        atomic::create_directories(&bench.disk, orphan.parent().unwrap(), 0o700).unwrap();
        bench.put(&orphan, b"x");
        let found = bench.fsck();
        assert_eq!((found.is_sound(), &found.orphans), (true, &vec![orphan]));
        assert_eq!(bench.archive().prune().unwrap(), (1, 1));
        assert_eq!(bench.fsck().orphans, Vec::<PathBuf>::new());
        let journal = bench
            .archive()
            .journal_place(&bench.archive().logs().unwrap()[0].name);
        let good = bench.disk.bytes_of(&journal).unwrap();
        let mut flipped = good.clone();
        flipped[20] ^= 1;
        bench.disk.set_bytes(&journal, &flipped).unwrap();
        assert_eq!(bench.fsck().damage.len(), 1);
        assert_eq!(
            bench.archive().prune().unwrap_err().kind(),
            ErrorKind::Refused
        );
        assert_eq!(bench.keep(LOG).unwrap_err().kind(), ErrorKind::Refused);
    }
}

// T-ARC-10
#[test]
fn a_damaged_chunk_is_written_again_when_another_session_brings_its_bytes() {
    let bench = Bench::new();
    let text = lines(1, 500);
    bench.keep_text(LOG, &text);
    let logs = bench.archive().logs().unwrap();
    let place = bench
        .archive()
        .chunk_place(&logs[0].versions[0].log.chunks[0].id);
    bench.disk.set_bytes(&place, b"TSAC").unwrap();
    assert_eq!(bench.fsck().damage.len(), 1);
    let before = bench.chunk_files();
    bench.keep_text(COPY, &text);
    assert_eq!(bench.fsck().damage, vec![]);
    assert_eq!(bench.chunk_files(), before, "equal content is stored once");
}

// T-ARC-11 T-ARC-12
#[test]
fn a_forgotten_session_leaves_only_a_tombstone_and_what_others_need() {
    for bench in [Bench::new(), Bench::encrypted()] {
        let text = lines(1, 500);
        bench.keep_text(LOG, &text);
        bench.keep_text(COPY, &[text.as_slice(), &lines(2, 300)].concat());
        let archive = bench.archive();
        let [first, second] = &archive.logs().unwrap()[..] else {
            panic!("two logs");
        };
        let id = &first.name.session;
        let gone = archive.forget(id, Why::Asked, "a secret").unwrap();
        assert_eq!(gone.records, [first.versions[0].record()]);
        assert_eq!(archive.forgotten().unwrap(), [gone]);
        assert!(archive.session(id).unwrap().is_empty());
        assert_eq!(archive.logs().unwrap(), std::slice::from_ref(second));
        assert_eq!(bench.newest_verdict(second), Verdict::Verified);
        let found = bench.fsck();
        assert_eq!((found.damage, found.orphans), (vec![], vec![]));
        assert_eq!(bench.keep(LOG).unwrap(), Kept::Forgotten);
        assert!(archive.forget(id, Why::Asked, "").is_err());
        archive
            .forget(&second.name.session, Why::Asked, "")
            .unwrap();
        assert_eq!(bench.chunk_files(), 0);
        assert_eq!(archive.forgotten().unwrap().len(), 2);
    }
}

#[test]
fn a_person_may_archive_a_forgotten_session_again() {
    let bench = Bench::new();
    bench.keep_text(LOG, &lines(1, 5));
    let id = bench.archive().sessions().unwrap().remove(0);
    bench.archive().forget(&id, Why::Asked, "").unwrap();
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
    let kept = bench.archive().keep(&bench.file(LOG), &sealed).unwrap();
    assert!(matches!(kept, Kept::Added(_)));
    assert!(bench.archive().forgotten().unwrap().is_empty());
    assert_eq!(bench.archive().logs().unwrap().len(), 1);
}

// T-ARC-13
#[test]
fn a_quota_removes_only_sessions_whose_source_is_gone_and_never_silently() {
    let bench = Bench::new();
    bench.keep_text(LOG, &lines(1, 500));
    bench.keep_text(COPY, &lines(2, 500));
    let mut archive = bench.archive();
    let settings = Settings {
        quota: 1000,
        ..archive.settings()
    };
    archive.set(settings, None).unwrap();
    let met = archive.meet_quota().unwrap();
    assert_eq!(met.removed, []);
    assert!(met.over > 0);
    bench.disk.unlink(Path::new(LOG)).unwrap();
    let met = archive.meet_quota().unwrap();
    assert_eq!((met.removed.len(), met.removed[0].why), (1, Why::Quota));
    assert_eq!(archive.forgotten().unwrap(), met.removed);
    assert_eq!(archive.logs().unwrap().len(), 1);
    assert!(met.over > 0, "the other session has its source");
}

// T-ARC-26
#[test]
fn a_log_that_was_moved_is_known_in_its_new_place_before_it_grows() {
    let bench = Bench::new();
    bench.keep_text(LOG, &lines(1, 5));
    bench.keep_text(LOG, &lines(1, 9));
    let before = bench.archive().logs().unwrap().remove(0);
    let file = bench.file(LOG);
    let moved = "/home/ann/logs/moved.jsonl";
    let seals = [LOG, moved].map(|path| observer::seal_path(Path::new(path)));
    bench.write(moved, &lines(1, 9));
    bench.put(&seals[1], &bench.disk.bytes_of(&seals[0]).unwrap());
    bench.disk.unlink(Path::new(LOG)).unwrap();
    bench.disk.unlink(&seals[0]).unwrap();
    assert_eq!(bench.keep_as(&file, moved).unwrap(), Kept::Unchanged);
    let after = bench.archive().logs().unwrap().remove(0);
    assert_eq!(after.source().as_deref(), Some(Path::new(moved)));
    assert_eq!((&after.versions, &after.damage), (&before.versions, &None));
    assert_eq!(bench.fsck().damage, vec![]);
    assert_eq!(bench.newest_verdict(&after), Verdict::Verified);
    bench.write(moved, &lines(1, 12));
    bench.seal(moved);
    assert!(matches!(
        bench.keep_as(&file, moved).unwrap(),
        Kept::Added(_)
    ));
    let grown = bench.archive().logs().unwrap().remove(0);
    assert_eq!(grown.versions[0].states.len(), 3);
}

// T-ARC-23
#[test]
fn an_archive_that_is_open_for_long_obeys_settings_that_another_process_changed() {
    let bench = Bench::new();
    bench.write(LOG, &lines(1, 5));
    bench.seal(LOG);
    let long_open = bench.archive();
    let keep = || {
        let seals = observer::read_seals(&bench.host, Path::new(LOG));
        let seals = seals.unwrap().unwrap();
        let sealed = SealedLog {
            path: Path::new(LOG),
            head: observed::parse(&seals).unwrap().last().unwrap().head,
            seals: &seals,
            recall: false,
            search: None,
        };
        long_open.keep(&bench.file(LOG), &sealed)
    };
    let change = |settings, secret| bench.archive().set(settings, secret).unwrap();
    let off = Settings {
        on: false,
        ..Settings::default()
    };
    change(off, None);
    assert_eq!(keep().unwrap(), Kept::Off);
    let encrypted = Settings {
        encrypted: true,
        ..Settings::default()
    };
    change(encrypted, Some(Secret::from_seed(&[7; 32])));
    assert_eq!(keep().unwrap_err().kind(), ErrorKind::Key);
    assert_eq!(bench.archive().logs().unwrap(), []);
    let plain = Settings {
        quota: 1,
        ..Settings::default()
    };
    change(plain, None);
    assert!(matches!(keep().unwrap(), Kept::Added(_)));
    bench.disk.unlink(Path::new(LOG)).unwrap();
    assert_eq!(long_open.meet_quota().unwrap().removed.len(), 1);
}

#[test]
fn nothing_is_added_while_the_archive_is_off_and_encryption_stays_as_it_began() {
    let bench = Bench::new();
    let mut archive = bench.archive();
    let off = Settings {
        on: false,
        ..Settings::default()
    };
    archive.set(off, None).unwrap();
    assert_eq!(bench.keep_text(LOG, &lines(1, 5)), Kept::Off);
    archive.set(Settings::default(), None).unwrap();
    assert!(matches!(bench.keep(LOG).unwrap(), Kept::Added(_)));
    let encrypted = Settings {
        encrypted: true,
        ..off
    };
    let refused = archive.set(encrypted, Some(Secret::from_seed(&[1; 32])));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Refused);
}

// T-ARC-05
#[test]
fn without_its_key_an_encrypted_archive_gives_and_takes_nothing() {
    let bench = Bench::encrypted();
    let text = lines(1, 300);
    bench.keep_text(LOG, &text);
    for place in bench.archive().orphans(&[]).unwrap() {
        let bytes = bench.disk.bytes_of(&place).unwrap();
        let shown = String::from_utf8_lossy(&bytes);
        assert!(!shown.contains("parentUuid"), "{place:?}");
    }
    let locked = Bench {
        secret: None,
        ..bench.copy()
    };
    let log = &locked.archive().logs().unwrap()[0];
    let refused = locked.archive().read(log, log.newest().unwrap(), 0);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Key);
    assert_eq!(
        locked.archive().fsck(&mut |_| {}).unwrap_err().kind(),
        ErrorKind::Key
    );
}

// T-ARC-14
#[test]
fn all_files_of_the_archive_are_private() {
    let bench = Bench::encrypted();
    bench.keep_text(LOG, &lines(1, 300));
    let id = bench.archive().sessions().unwrap().remove(0);
    bench.keep_text(COPY, &lines(2, 300));
    bench.archive().forget(&id, Why::Asked, "").unwrap();
    let files = bench.archive().orphans(&[]).unwrap();
    assert!(files.len() > 5);
    for place in files {
        let mode = bench.disk.metadata(&place).unwrap().mode;
        assert_eq!(mode, 0o600, "{place:?}");
        let folder = bench.disk.metadata(place.parent().unwrap()).unwrap();
        assert_eq!(folder.mode, 0o700, "{place:?}");
    }
}

// T-ARC-22
#[test]
fn a_log_that_claims_the_id_of_another_one_does_not_take_its_place() {
    let bench = Bench::new();
    let text = lines(1, 5);
    bench.keep_text(LOG, &text);
    let own = bench.file(LOG);
    bench.write(COPY, &lines(2, 5));
    bench.seal(COPY);
    assert!(matches!(bench.keep_as(&own, COPY).unwrap(), Kept::Added(_)));
    let logs = bench.archive().logs().unwrap();
    assert_eq!(logs.len(), 2);
    assert_eq!(bench.text(&logs[0]), text);
    assert_eq!(logs[0].name.session, own.session);
    let marked = logs[1].name.session.own();
    assert!(marked.starts_with(own.session.own()), "{marked}");
    bench.write(COPY, &[lines(2, 5), lines(3, 1)].concat());
    bench.seal(COPY);
    bench.disk.unlink(Path::new(LOG)).unwrap();
    assert!(matches!(bench.keep_as(&own, COPY).unwrap(), Kept::Added(_)));
    assert_eq!(
        bench.archive().logs().unwrap().len(),
        2,
        "it keeps its name"
    );
}

#[test]
fn a_log_that_was_moved_keeps_its_name() {
    let bench = Bench::new();
    bench.keep_text(LOG, &lines(1, 5));
    let own = bench.file(LOG);
    let grown = [lines(1, 5), lines(2, 2)].concat();
    let files = [LOG, COPY].map(Path::new);
    bench.disk.rename(files[0], files[1]).unwrap();
    let seals = files.map(observer::seal_path);
    bench.disk.rename(&seals[0], &seals[1]).unwrap();
    bench.write(COPY, &grown);
    bench.seal(COPY);
    assert!(matches!(bench.keep_as(&own, COPY).unwrap(), Kept::Added(_)));
    let logs = bench.archive().logs().unwrap();
    assert_eq!(
        (logs.len(), logs[0].source()),
        (1, Some(PathBuf::from(COPY)))
    );
}

/// After a failure: whatever the journals name is there, and the work can be done again.
fn is_recovered(bench: &Bench, text: &[u8]) {
    let found = bench.fsck();
    assert_eq!(found.damage, vec![]);
    for log in bench.archive().logs().unwrap() {
        let Some(newest) = log.newest() else {
            continue;
        };
        // The state before, if the new one was not archived: whole, but a later head is known.
        let verdict = match newest.last().head.size == text.len() as u64 {
            true => Verdict::Verified,
            false => Verdict::RolledBack,
        };
        assert_eq!(bench.newest_verdict(&log), verdict);
    }
    bench.keep(LOG).unwrap();
    let id = bench.file(LOG).session;
    let log = bench.archive().session(&id).unwrap().remove(0);
    assert_eq!(bench.text(&log), text);
    assert_eq!(bench.newest_verdict(&log), Verdict::Verified);
    bench.archive().prune().unwrap();
    let found = bench.fsck();
    assert_eq!((found.damage, found.orphans), (vec![], vec![]));
}

fn ends(call: usize, kind: FaultKind) -> Vec<Option<Keep>> {
    match kind {
        FaultKind::PowerOff => fault::ends(call).to_vec(),
        _ => vec![None, Some(Keep::ByLot(call as u64))],
    }
}

// T-ARC-15
#[test]
fn a_crash_at_any_call_leaves_no_line_that_names_what_is_not_durable() {
    let text = lines(1, 20);
    let grown = [text.as_slice(), &lines(2, 90)].concat();
    let start = Bench::new();
    start.keep_text(LOG, &text);
    start.write(LOG, &grown);
    start.seal(LOG);
    fault::fail_each_call(20, ends, |call, kind, end| {
        let bench = start.copy();
        bench.disk.plan(call, kind);
        let result = bench.keep(LOG);
        let struck = bench.disk.struck().is_some();
        bench.disk.heal();
        let was_kept = result.is_ok();
        bench.disk.end(end);
        if was_kept {
            let log = &bench.archive().logs().unwrap()[0];
            assert_eq!(bench.text(log), grown, "{call} {kind:?} {end:?}");
        }
        is_recovered(&bench, &grown);
        struck
    });
}

// T-ARC-16
#[test]
fn a_crash_while_a_session_is_forgotten_never_brings_it_back() {
    let text = lines(1, 110);
    let start = Bench::new();
    start.keep_text(LOG, &[text.as_slice(), &lines(3, 100)].concat());
    start.keep_text(COPY, &text);
    let id = start.file(LOG).session;
    fault::fail_each_call(20, ends, |call, kind, end| {
        let bench = start.copy();
        let archive = bench.archive();
        bench.disk.plan(call, kind);
        let forgotten = archive.forget(&id, Why::Asked, "").is_ok();
        let struck = bench.disk.struck().is_some();
        bench.disk.heal();
        bench.disk.end(end);
        let archive = bench.archive();
        let gone = archive.forgotten().unwrap().len() == 1;
        assert!(gone || !forgotten, "{call} {kind:?} {end:?}");
        assert_eq!(archive.session(&id).unwrap().is_empty(), gone);
        assert_eq!(bench.fsck().damage, vec![], "{call} {kind:?} {end:?}");
        archive.prune().unwrap();
        if gone {
            assert!(
                list(&bench.disk, &archive.session_folder(&id))
                    .unwrap()
                    .is_empty()
            );
        }
        let other = archive
            .session(&bench.file(COPY).session)
            .unwrap()
            .remove(0);
        assert_eq!(bench.text(&other), text);
        assert_eq!(bench.newest_verdict(&other), Verdict::Verified);
        struck
    });
}
