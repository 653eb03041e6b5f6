//! The entries of a record are found without reading the whole log, and no bytes of another writer
//! hide a head.

use super::prelude::*;
use crate::index::index_files::{FOLDER, IndexFiles, Row};

/// Records of which heads come in turn.
const RECORDS: u8 = 7;

/// What is written down in the first entries, from one number to another.
fn grow(log: &SealLog, entries: Range<u64>) {
    for at in entries {
        let number = u8::try_from(at % u64::from(RECORDS)).unwrap();
        log.publish(&head(number, at / u64::from(RECORDS)));
    }
    log.settle();
    log.fold().unwrap();
    // A query brings the index up to date.
    log.newest(&record(0)).unwrap();
}

/// A log with an index of two runs, and with entries behind them that no file knows.
fn indexed() -> InMemory {
    let scene = unindexed(2_000);
    let log = scene.open();
    log.newest(&record(0)).unwrap();
    grow(&log, 2_000..2_600);
    grow(&log, 2_600..2_700);
    let names = files(&scene);
    assert_eq!(names.len(), 4, "{:?}", names.keys());
    drop(log);
    scene
}

/// A log of so many entries without files of an index.
fn unindexed(size: u64) -> InMemory {
    let scene = in_memory();
    grow(&scene.open(), 0..size);
    remove_files(&scene);
    scene
}

fn folder(scene: &InMemory) -> PathBuf {
    scene.folder().join(FOLDER)
}

/// Files of the index, with their bytes.
fn files(scene: &InMemory) -> BTreeMap<PathBuf, Vec<u8>> {
    let folder = folder(scene);
    let names = scene.disk.read_dir(&folder).unwrap_or_default();
    let paths = names.into_iter().map(|name| folder.join(name));
    paths.map(|path| (path.clone(), scene.get(path))).collect()
}

fn remove_files(scene: &InMemory) {
    files(scene).keys().for_each(|path| scene.remove(path));
}

/// Puts these files in the place of those of the index.
fn put_all(scene: &InMemory, files: &BTreeMap<PathBuf, Vec<u8>>) {
    remove_files(scene);
    files
        .iter()
        .for_each(|(path, bytes)| scene.put(path, bytes));
}

fn list(scene: &InMemory) -> PathBuf {
    folder(scene).join("runs")
}

/// Does the index of a log of `size` entries report of each record what its entries contain?
fn is_right(log: &SealLog, size: u64) -> Result<bool, Error> {
    for number in 0..RECORDS {
        let first = u64::from(number);
        let entries: Vec<u64> = (first..size).step_by(usize::from(RECORDS)).collect();
        let seqs = entries.len() as u64;
        let newest = entries.last().map(|at| (*at, head(number, seqs - 1)));
        let at = log.head_at(&record(number), 3)?.map(|at| at.number);
        if log.newest(&record(number))? != newest
            || log.entries_of(&record(number))? != entries
            || at != entries.get(3).copied()
        {
            return Ok(false);
        }
    }
    Ok(log.newest(&record(RECORDS))?.is_none())
}

#[test]
fn files_of_an_index_say_what_the_entries_say() {
    let scene = indexed();
    let log = scene.open();
    assert!(is_right(&log, 2_700).unwrap());
    log.assert_whole();
    let text = String::from_utf8(scene.get(list(&scene))).unwrap();
    let view = log.view().unwrap();
    let roots = [2_000, 2_600].map(|size| view.contents().frontier(size).unwrap().head().root);
    let body = format!(
        "threadseal/1 index of heads\nrun 0 2000 2000 {}\nrun 2000 2600 600 {}\n",
        roots[0], roots[1]
    );
    let secret = HomeSecret::find(&log.access.dir).unwrap().unwrap();
    let tagged = format!("{OWN}\n{body}");
    let tag = secret.tag(b"threadseal/1 index of heads\0", tagged.as_bytes());
    assert_eq!(text, format!("{body}tag {tag}\n"));
    // The first page of the second run, of five rows in tests.
    let name = format!("2000-2600-{}", &roots[1].to_hex()[..16]);
    let bytes = scene.get(folder(&scene).join(name));
    assert_eq!(bytes.len(), 600 * 48 + 120 * 32);
    let rows: Vec<u8> = (0..5_u64)
        .flat_map(|number| {
            let at = 2_002 + 7 * number;
            let row: [&[u8]; 3] = [&[0; 32], &(at / 7).to_be_bytes(), &at.to_be_bytes()];
            row.concat()
        })
        .collect();
    assert_eq!(bytes[..240], rows);
    let line = format!("{OWN}\nrun 2000 2600 600 {}\n", roots[1]);
    let tagged = [line.as_bytes(), &[0; 8], &rows].concat();
    let tag = secret.tag_bytes(b"threadseal/1 rows of an index\0", &tagged);
    assert_eq!(bytes[240..272], tag);
}

#[test]
fn runs_are_merged_and_there_are_few_however_often_a_log_grows() {
    let scene = in_memory();
    let log = scene.open();
    for step in 0..20 {
        grow(&log, 300 * step..300 * (step + 1));
        assert!(is_right(&log, 300 * (step + 1)).unwrap());
        assert!(files(&scene).len() <= 6);
    }
    // What a crash left, and what a program of an earlier layout did, goes with the next run.
    let folder = folder(&scene);
    let left = [
        folder.join("0-7-0000000000000000"),
        folder.with_file_name("heads-1.db"),
    ];
    left.iter().for_each(|path| scene.put(path, "left"));
    grow(&log, 6_000..7_000);
    assert!(left.iter().all(|path| scene.disk.bytes_of(path).is_none()));
    assert!(is_right(&scene.open(), 7_000).unwrap());
}

// T-LOG-24
#[test]
fn whatever_is_changed_in_an_index_hides_no_head() {
    let scene = indexed();
    let good = files(&scene);
    let changed = |path: &Path, bytes: Vec<u8>| {
        let mut files = good.clone();
        files.insert(path.to_owned(), bytes);
        files
    };
    let mut tries = Vec::new();
    for (path, bytes) in &good {
        let step = if *path == list(&scene) { 5 } else { 1_511 };
        for at in (0..bytes.len()).step_by(step) {
            let mut other = bytes.clone();
            other[at] ^= 1;
            tries.push((format!("{} at {at}", path.display()), changed(path, other)));
        }
        for kept in [0, 1, bytes.len() / 2, bytes.len().saturating_sub(1)] {
            let cut = bytes[..kept.min(bytes.len())].to_vec();
            let what = format!("{} cut to {kept}", path.display());
            tries.push((what, changed(path, cut)));
        }
        let mut without = good.clone();
        without.remove(path);
        tries.push((format!("without {}", path.display()), without));
    }
    let is_run = |path: &&PathBuf| good[*path].len() > 1_000;
    let runs: Vec<&PathBuf> = good.keys().filter(is_run).collect();
    // One run in the place of another, and a page in the place of another.
    let another = changed(runs[0], good[runs[1]].clone());
    tries.push(("another run".to_owned(), another));
    let mut pages = good[runs[0]].clone();
    let (first, rest) = pages.split_at_mut(272);
    first.swap_with_slice(&mut rest[..272]);
    tries.push(("pages".to_owned(), changed(runs[0], pages)));
    for (what, files) in tries {
        put_all(&scene, &files);
        assert!(is_right(&scene.open(), 2_700).unwrap(), "{what}");
        // And for who looks at one record only.
        put_all(&scene, &files);
        let newest = scene.open().newest(&record(3)).unwrap();
        assert_eq!(newest, Some((2_698, head(3, 385))), "{what}");
    }
}

/// Older files of the same index, those of another home, and those of another log.
// T-LOG-24
#[test]
fn an_index_of_another_state_is_none_of_this_one() {
    let scene = in_memory();
    let log = scene.open();
    grow(&log, 0..700);
    let older = files(&scene);
    grow(&log, 700..2_700);
    drop(log);
    let newer = files(&scene);
    put_all(&scene, &older);
    assert!(is_right(&scene.open(), 2_700).unwrap());
    // The secret is another one: nothing under the old one counts, and all is written again.
    let secret = format!("{}\n", "0b".repeat(32));
    scene.put("/home/keys/spool.secret", secret);
    assert!(is_right(&scene.open(), 2_700).unwrap());
    let again = files(&scene);
    assert_ne!(again.get(&list(&scene)), newer.get(&list(&scene)));
    assert!(is_right(&scene.open(), 2_700).unwrap());
    assert_eq!(files(&scene), again);
}

/// The log was put back, and went on otherwise.
// T-LOG-24
#[test]
fn an_index_of_a_tree_that_the_log_does_not_continue_is_made_anew() {
    let scene = in_memory();
    let log = scene.open();
    grow(&log, 0..700);
    let before = ["journal", "checkpoint"].map(|name| (name, scene.get(name)));
    heads(100, 0..1_000).for_each(|head| log.publish(&head));
    grow(&log, 700..700);
    drop(log);
    for (name, bytes) in before {
        scene.put(name, bytes);
    }
    scene
        .mark_files()
        .iter()
        .for_each(|mark| scene.remove(mark));
    let log = scene.open();
    grow(&log, 700..2_700);
    for log in [log, scene.open()] {
        assert!(is_right(&log, 2_700).unwrap());
        assert_eq!(log.newest_of(100), None);
    }
}

/// One byte of an entry, so that it is none of its record.
// T-LOG-24
#[test]
fn an_entry_that_was_exchanged_in_its_tile_hides_no_head() {
    let scene = in_memory();
    grow(&scene.open(), 0..300);
    let tile = "tile/entries/000";
    let bytes = scene.get(tile);
    let last = record(3).to_hex();
    let at = memchr::memmem::rfind(&bytes, last.as_bytes()).unwrap();
    let mut other = bytes.clone();
    other[at] = b'f';
    scene.put(tile, other);
    let log = scene.open();
    let error = log.newest(&record(3)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::External);
    // Nothing is committed while an entry is unreadable, and no waiting head is lost.
    log.refuse(head(3, 1));
    scene.put(tile, bytes);
    log.settle();
    assert!(is_right(&log, 300).unwrap());
}

/// What was read once is not read again, and a damaged file costs reading it once more.
#[test]
fn entries_that_files_of_the_index_know_are_not_read() {
    let scene = indexed();
    let (tile, list) = ("tile/entries/001", list(&scene));
    let bytes = scene.get(tile);
    scene.remove(tile);
    let newest = || scene.open().newest(&record(3));
    assert!(newest().unwrap().is_some());
    let good = scene.get(&list);
    scene.remove(&list);
    assert!(newest().is_err());
    scene.put(list, good);
    scene.put(tile, bytes);
    assert!(is_right(&scene.open(), 2_700).unwrap());
}

// T-LOG-26
#[test]
fn processes_that_write_the_index_at_once_leave_one_that_is_right() {
    let scene = on_disk();
    thread::scope(|scope| {
        for number in 0..3 {
            let scene = &scene;
            scope.spawn(move || {
                let log = scene.open();
                for end in (400..=2_400).step_by(400) {
                    log.commit_heads(heads(number, end - 400..end));
                    assert_eq!(log.newest_of(number), Some(head(number, end - 1)));
                }
            });
        }
    });
    let log = scene.open();
    for number in 0..3 {
        assert_eq!(log.newest_of(number), Some(head(number, 2_399)));
    }
    log.assert_whole();
}

// T-LOG-26
#[test]
fn whatever_fails_while_the_index_is_written_no_head_is_hidden() {
    // A few more than are left to memory.
    let size = 620;
    let prepared = unindexed(size);
    let scene = prepared.fork();
    let calls = (scene.disk).calls_of(|| assert!(is_right(&scene.open(), size).unwrap()));
    for call in (0..calls).step_by(3) {
        let kind = FaultKind::ALL[call % FaultKind::ALL.len()];
        let scene = prepared.fork();
        scene.disk.plan(call, kind);
        let found = scene.try_open().and_then(|log| is_right(&log, size));
        let what = format!("{kind:?} at {call} ({:?})", scene.disk.struck());
        assert!(found.unwrap_or(true), "{what}");
        scene.disk.cut_power(match call % 2 {
            0 => Keep::Nothing,
            _ => Keep::ByLot(7),
        });
        for _ in 0..2 {
            assert!(is_right(&scene.open(), size).unwrap(), "{what}");
        }
    }
}

/// A process that has the secret of the home may write the index; `log fsck` reads the entries.
// T-LOG-33
#[test]
fn fsck_tells_of_an_index_that_leaves_something_out() {
    let scene = indexed();
    let log = scene.open();
    let (size, left_out) = (2_700, 2_698);
    let view = log.view().unwrap();
    let tree = view.contents().frontier(size).unwrap().head();
    let rows = (0..size).filter(|at| *at != left_out).map(|at| Row {
        record: record(u8::try_from(at % u64::from(RECORDS)).unwrap()),
        seq: at / u64::from(RECORDS),
        at,
    });
    let mut forged = IndexFiles::none(&log.access.dir, OWN);
    forged.add(&rows.collect(), tree).unwrap();
    let log = scene.open();
    assert_eq!(log.newest_of(3), Some(head(3, 384)));
    let faults = log.fsck().unwrap().faults;
    assert_eq!(faults.len(), 2, "{faults:?}");
    remove_files(&scene);
    let log = scene.open();
    assert!(is_right(&log, size).unwrap());
    log.assert_whole();
}
