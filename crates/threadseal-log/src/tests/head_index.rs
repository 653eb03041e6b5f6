//! The entries of a record are found without reading the whole log, and no bytes of another writer
//! hide a head.

use super::crashes::open_or;
use super::*;
use crate::index::index_files::{FOLDER, IndexFiles, Row};
use std::collections::BTreeMap;
use threadseal_store::fault::{FaultKind, Keep};

/// Records of which heads come in turn.
const RECORDS: u8 = 7;

/// What is written down in the first entries, from one number to another.
fn grow(log: &SealLog, entries: std::ops::Range<u64>) {
    for at in entries {
        let number = u8::try_from(at % u64::from(RECORDS)).unwrap();
        log.publish(&head(number, at / u64::from(RECORDS)));
    }
    flushed(log);
    log.fold().unwrap();
    // A query brings the index up to date.
    log.newest(&record(0)).unwrap();
}

/// A log with an index of two runs, and with entries behind them that no file knows.
fn indexed() -> (FaultFs, LogRegistry, Arc<Remembering>) {
    let (fs, places, key) = unindexed(2_000);
    let log = open(&places, &key);
    log.newest(&record(0)).unwrap();
    grow(&log, 2_000..2_600);
    grow(&log, 2_600..2_700);
    drop(log);
    let names = files(&fs, &places);
    assert_eq!(names.len(), 4, "{:?}", names.keys());
    (fs, places, key)
}

/// A log of so many entries without files of an index.
fn unindexed(size: u64) -> (FaultFs, LogRegistry, Arc<Remembering>) {
    let (fs, places, key) = in_memory();
    grow(&open(&places, &key), 0..size);
    for path in files(&fs, &places).keys() {
        fs.unlink(path).unwrap();
    }
    (fs, places, key)
}

/// Puts a file there, whatever was there before.
fn put(fs: &FaultFs, path: &Path, bytes: &[u8]) {
    atomic::replace(fs, path, bytes, atomic::Mode::Set(atomic::PRIVATE_FILE)).unwrap();
}

fn folder(places: &LogRegistry) -> PathBuf {
    places.home.logs().join("ab".repeat(16)).join(FOLDER)
}

/// Files of the index, with their bytes.
fn files(fs: &FaultFs, places: &LogRegistry) -> BTreeMap<PathBuf, Vec<u8>> {
    let folder = folder(places);
    let names = fs.read_dir(&folder).unwrap_or_default();
    let paths = names.into_iter().map(|name| folder.join(name));
    paths
        .map(|path| (path.clone(), fs.bytes_of(&path).unwrap()))
        .collect()
}

fn list(places: &LogRegistry) -> PathBuf {
    folder(places).join("runs")
}

/// Does the index of a log of `size` entries report of each record what its entries contain?
fn says(log: &SealLog, size: u64) -> Result<bool, Error> {
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
    let (fs, places, key) = indexed();
    let log = open(&places, &key);
    assert!(says(&log, 2_700).unwrap());
    assert_eq!(log.fsck().unwrap().faults, Vec::<String>::new());
    let text = String::from_utf8(fs.bytes_of(&list(&places)).unwrap()).unwrap();
    let view = log.view().unwrap();
    let roots = [2_000, 2_600].map(|size| view.contents().frontier(size).unwrap().head().root);
    let body = format!(
        "threadseal/1 index of heads\nrun 0 2000 2000 {}\nrun 2000 2600 600 {}\n",
        roots[0], roots[1]
    );
    let key_of_home = HomeSecret::find(&log.access.dir).unwrap();
    let key_of_home = key_of_home.unwrap();
    let tagged = format!("{}\n{body}", "ab".repeat(16));
    let tag = key_of_home.tag(b"threadseal/1 index of heads\0", tagged.as_bytes());
    assert_eq!(text, format!("{body}tag {tag}\n"));
    // The first page of the second run, of five rows in tests.
    let name = format!("2000-2600-{}", &roots[1].to_hex()[..16]);
    let bytes = fs.bytes_of(&folder(&places).join(name)).unwrap();
    assert_eq!(bytes.len(), 600 * 48 + 120 * 32);
    let rows: Vec<u8> = (0..5_u64)
        .flat_map(|number| {
            let at = 2_002 + 7 * number;
            let row: [&[u8]; 3] = [&[0; 32], &(at / 7).to_be_bytes(), &at.to_be_bytes()];
            row.concat()
        })
        .collect();
    assert_eq!(bytes[..240], rows);
    let line = format!("{}\nrun 2000 2600 600 {}\n", "ab".repeat(16), roots[1]);
    let tagged = [line.as_bytes(), &[0; 8], &rows].concat();
    let tag = key_of_home.tag_bytes(b"threadseal/1 rows of an index\0", &tagged);
    assert_eq!(bytes[240..272], tag);
}

#[test]
fn runs_are_merged_and_there_are_few_however_often_a_log_grows() {
    let (fs, places, key) = in_memory();
    let log = open(&places, &key);
    for step in 0..20 {
        grow(&log, 300 * step..300 * (step + 1));
        assert!(says(&log, 300 * (step + 1)).unwrap());
        assert!(files(&fs, &places).len() <= 6);
    }
    // What a crash left, and what a program of an earlier layout did, goes with the next run.
    let [left, earlier] = [
        folder(&places).join("0-7-0000000000000000"),
        folder(&places).with_file_name("heads-1.db"),
    ];
    for path in [&left, &earlier] {
        put(&fs, path, b"left");
    }
    grow(&log, 6_000..7_000);
    assert!(fs.bytes_of(&left).is_none() && fs.bytes_of(&earlier).is_none());
    assert!(says(&open(&places, &key), 7_000).unwrap());
}

// T-LOG-24
#[test]
fn whatever_is_changed_in_an_index_hides_no_head() {
    let (fs, places, key) = indexed();
    let good = files(&fs, &places);
    let put_all = |there: &BTreeMap<PathBuf, Vec<u8>>| {
        for path in files(&fs, &places).keys() {
            fs.unlink(path).unwrap();
        }
        for (path, bytes) in there {
            put(&fs, path, bytes);
        }
    };
    let changed = |path: &Path, bytes: Vec<u8>| {
        let mut files = good.clone();
        files.insert(path.to_owned(), bytes);
        files
    };
    let mut tries = Vec::new();
    for (path, bytes) in &good {
        let step = if *path == list(&places) { 5 } else { 1_511 };
        for at in (0..bytes.len()).step_by(step) {
            let mut other = bytes.clone();
            other[at] ^= 1;
            tries.push((format!("{} at {at}", path.display()), changed(path, other)));
        }
        for kept in [0, 1, bytes.len() / 2, bytes.len().saturating_sub(1)] {
            let cut = bytes[..kept.min(bytes.len())].to_vec();
            tries.push((
                format!("{} cut to {kept}", path.display()),
                changed(path, cut),
            ));
        }
        let mut without = good.clone();
        without.remove(path);
        tries.push((format!("without {}", path.display()), without));
    }
    let runs: Vec<&PathBuf> = good
        .keys()
        .filter(|path| good[*path].len() > 1_000)
        .collect();
    // One run in the place of another, and a page in the place of another.
    tries.push((
        "another run".to_owned(),
        changed(runs[0], good[runs[1]].clone()),
    ));
    let mut pages = good[runs[0]].clone();
    let (first, rest) = pages.split_at_mut(272);
    first.swap_with_slice(&mut rest[..272]);
    tries.push(("pages".to_owned(), changed(runs[0], pages)));
    for (what, files) in tries {
        put_all(&files);
        assert!(says(&open(&places, &key), 2_700).unwrap(), "{what}");
        // And for who looks at one record only.
        put_all(&files);
        let newest = open(&places, &key).newest(&record(3)).unwrap();
        assert_eq!(newest, Some((2_698, head(3, 385))), "{what}");
    }
}

/// Older files of the same index, those of another home, and those of another log.
// T-LOG-24
#[test]
fn an_index_of_another_state_is_none_of_this_one() {
    let (fs, places, key) = in_memory();
    let log = open(&places, &key);
    grow(&log, 0..700);
    let older = files(&fs, &places);
    grow(&log, 700..2_700);
    drop(log);
    let newer = files(&fs, &places);
    for path in newer.keys() {
        fs.unlink(path).unwrap();
    }
    for (path, bytes) in &older {
        put(&fs, path, bytes);
    }
    assert!(says(&open(&places, &key), 2_700).unwrap());
    // The secret is another one: nothing under the old one counts, and all is written again.
    let secret = format!("{}\n", "0b".repeat(32));
    let path = Path::new("/home/keys/spool.secret");
    fs.set_bytes(path, secret.as_bytes()).unwrap();
    assert!(says(&open(&places, &key), 2_700).unwrap());
    let again = files(&fs, &places);
    assert_ne!(again.get(&list(&places)), newer.get(&list(&places)));
    assert!(says(&open(&places, &key), 2_700).unwrap());
    assert_eq!(files(&fs, &places), again);
}

/// The log was put back, and went on otherwise.
// T-LOG-24
#[test]
fn an_index_of_a_tree_that_the_log_does_not_continue_is_made_anew() {
    let (fs, places, key) = in_memory();
    let log = open(&places, &key);
    grow(&log, 0..700);
    let root = places.home.logs().join("ab".repeat(16));
    let before = ["journal", "checkpoint"].map(|name| {
        let path = root.join(name);
        (path.clone(), fs.bytes_of(&path).unwrap())
    });
    (0..1_000).for_each(|seq| log.publish(&head(100, seq)));
    grow(&log, 700..700);
    drop(log);
    for (path, bytes) in &before {
        fs.set_bytes(path, bytes).unwrap();
    }
    for mark in FolderMark::all(&places.home, &places.current().unwrap().unwrap()) {
        fs.unlink(mark.path()).unwrap();
    }
    let log = open(&places, &key);
    grow(&log, 700..2_700);
    for log in [log, open(&places, &key)] {
        assert!(says(&log, 2_700).unwrap());
        assert_eq!(log.newest(&record(100)).unwrap(), None);
    }
}

/// One byte of an entry, so that it is none of its record.
// T-LOG-24
#[test]
fn an_entry_that_was_exchanged_in_its_tile_hides_no_head() {
    let (fs, places, key) = in_memory();
    let log = open(&places, &key);
    grow(&log, 0..300);
    drop(log);
    let tile = places
        .home
        .logs()
        .join("ab".repeat(16))
        .join("tile/entries/000");
    let bytes = fs.bytes_of(&tile).unwrap();
    let last = record(3).to_hex();
    let at = memchr::memmem::rfind(&bytes, last.as_bytes()).unwrap();
    let mut other = bytes.clone();
    other[at] = b'f';
    fs.set_bytes(&tile, &other).unwrap();
    let log = open(&places, &key);
    assert_eq!(
        log.newest(&record(3)).unwrap_err().kind(),
        ErrorKind::External
    );
    // Nothing is committed while an entry is unreadable, and no waiting head is lost.
    log.publish(&head(3, 1));
    let published = log.flush();
    assert!(published.error.is_some() && published.waiting == 1);
    fs.set_bytes(&tile, &bytes).unwrap();
    flushed(&log);
    assert!(says(&log, 300).unwrap());
}

/// What was read once is not read again, and a damaged file costs reading it once more.
#[test]
fn entries_that_files_of_the_index_know_are_not_read() {
    let (fs, places, key) = indexed();
    let tile = places
        .home
        .logs()
        .join("ab".repeat(16))
        .join("tile/entries/001");
    let bytes = fs.bytes_of(&tile).unwrap();
    fs.unlink(&tile).unwrap();
    let newest = |log: &SealLog| log.newest(&record(3));
    assert!(newest(&open(&places, &key)).unwrap().is_some());
    let good = fs.bytes_of(&list(&places)).unwrap();
    fs.unlink(&list(&places)).unwrap();
    assert!(newest(&open(&places, &key)).is_err());
    put(&fs, &list(&places), &good);
    put(&fs, &tile, &bytes);
    assert!(says(&open(&places, &key), 2_700).unwrap());
}

// T-LOG-26
#[test]
fn processes_that_write_the_index_at_once_leave_one_that_is_right() {
    let (_folder, places, key) = on_disk();
    thread::scope(|scope| {
        for number in 0..3 {
            let (places, key) = (&places, &key);
            scope.spawn(move || {
                let log = open(places, key);
                for step in 0..6 {
                    (400 * step..400 * (step + 1)).for_each(|seq| log.publish(&head(number, seq)));
                    flushed(&log);
                    let newest = log.newest(&record(number)).unwrap().unwrap();
                    assert_eq!(newest.1, head(number, 400 * (step + 1) - 1));
                }
            });
        }
    });
    let log = open(&places, &key);
    for number in 0..3 {
        let newest = log.newest(&record(number)).unwrap().unwrap();
        assert_eq!(newest.1, head(number, 2_399));
    }
    assert_eq!(log.fsck().unwrap().faults, Vec::<String>::new());
}

// T-LOG-26
#[test]
fn whatever_fails_while_the_index_is_written_no_head_is_hidden() {
    // A few more than are left to memory.
    let size = 620;
    let calls = {
        let (fs, places, key) = unindexed(size);
        fs.plan(usize::MAX, FaultKind::Io);
        assert!(says(&open(&places, &key), size).unwrap());
        fs.calls()
    };
    for call in (0..calls).step_by(3) {
        let kind = FaultKind::ALL[call % FaultKind::ALL.len()];
        let (fs, places, key) = unindexed(size);
        fs.plan(call, kind);
        let said = open_or(&places, &key).and_then(|log| says(&log, size));
        let what = format!("{kind:?} at {call} ({:?})", fs.struck());
        assert!(said.unwrap_or(true), "{what}");
        fs.cut_power(match call % 2 {
            0 => Keep::Nothing,
            _ => Keep::ByLot(7),
        });
        for _ in 0..2 {
            assert!(says(&open(&places, &key), size).unwrap(), "{what}");
        }
    }
}

/// A process that has the secret of the home may write the index; `log fsck` reads the entries.
// T-LOG-33
#[test]
fn fsck_tells_of_an_index_that_leaves_something_out() {
    let (fs, places, key) = indexed();
    let log = open(&places, &key);
    let (size, left_out) = (2_700, 2_698);
    let tree = log
        .view()
        .unwrap()
        .contents()
        .frontier(size)
        .unwrap()
        .head();
    let rows = (0..size).filter(|at| *at != left_out).map(|at| Row {
        record: record(u8::try_from(at % u64::from(RECORDS)).unwrap()),
        seq: at / u64::from(RECORDS),
        at,
    });
    let (place, id) = (log.access.dir.clone(), log.description().id);
    let mut forged = IndexFiles::none(&place, id);
    forged.add(&rows.collect(), tree).unwrap();
    let log = open(&places, &key);
    assert_eq!(log.newest(&record(3)).unwrap().unwrap().1, head(3, 384));
    let faults = log.fsck().unwrap().faults;
    assert_eq!(faults.len(), 2, "{faults:?}");
    for path in files(&fs, &places).keys() {
        fs.unlink(path).unwrap();
    }
    let log = open(&places, &key);
    assert!(says(&log, size).unwrap());
    assert_eq!(log.fsck().unwrap().faults, Vec::<String>::new());
}
