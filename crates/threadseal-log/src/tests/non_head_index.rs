//! Entries that are no heads are found without reading the whole log, and no bytes of another
//! writer make them absent.

use super::key_events::event;
use super::*;
use crate::index::non_head_index::FILE;
use threadseal_core::key::KeyId;
use threadseal_core::tlog::entry::key_event::{KeyChange, KeyHistory};
use threadseal_formats::transcript::bodies::SealedRedaction;

/// Heads between two others, so that the list is written behind each step.
const STEP: u64 = 1_100;

fn file(log: &SealLog) -> PathBuf {
    log.access.dir.file(FILE)
}

fn grow(log: &SealLog, number: u8) {
    (0..STEP).for_each(|seq| log.publish(&head(number, seq)));
    flushed(log);
    // A query brings the list up to date.
    log.key_events().unwrap();
}

fn pruned() -> LoggedHead {
    LoggedHead {
        key: Some(KeyId::parse_hex(&"cd".repeat(32)).unwrap()),
        ..head(1, STEP)
    }
}

fn redacted() -> SealedRedaction {
    SealedRedaction {
        head: head(2, STEP).head,
        root: Digest::of(b"root"),
        key: KeyId::parse_hex(&"cd".repeat(32)).unwrap(),
    }
}

/// A log with one rare entry of each kind behind its first step; the lists of before and behind them.
fn with_rare(log: &SealLog, bytes: &dyn Fn(&Path) -> Vec<u8>) -> [Vec<u8>; 2] {
    grow(log, 1);
    let before = bytes(&file(log));
    log.commit_key_event(&event(1, KeyChange::Revoke)).unwrap();
    log.commit_tombstones(&[pruned()]).unwrap();
    log.commit_redactions(&[redacted()]).unwrap();
    forks::accuse(log);
    grow(log, 2);
    [before, bytes(&file(log))]
}

/// Is each of them found?
fn finds_all(log: &SealLog) -> Result<bool, Error> {
    let key = event(1, KeyChange::Create);
    let ended = KeyHistory::of(&log.key_events()?).ended(key.public());
    let forked = log.forks_of(&forks::proved().get().record)?;
    Ok(ended == Some(STEP)
        && log.tombstones()? == [pruned()]
        && log.redactions_of(&record(2))? == [redacted().head]
        && forked.len() == 1)
}

#[test]
fn the_list_is_the_documented_one() {
    let (fs, places, key) = in_memory();
    let log = open(&places, &key);
    let [before, after] = with_rare(&log, &|path| fs.bytes_of(path).unwrap());
    let text = String::from_utf8(after).unwrap();
    let forked = forks::proved().get().record;
    let [key_at, pruned_at, redacted_at, forked_at] = [0, 1, 2, 3].map(|at| STEP + at);
    let entries = format!(
        "{key_at} key -\n{pruned_at} tombstone {}\n{redacted_at} redaction {}\n{forked_at} fork {forked}\n",
        record(1),
        record(2)
    );
    let tree = log.view().unwrap().tree();
    let body = format!(
        "threadseal/1 rare entries\ntree {} {}\n{entries}",
        tree.size, tree.root
    );
    let secret = HomeSecret::find(&log.access.dir).unwrap().unwrap();
    let tagged = format!("{}\n{body}", log.description().id);
    let tag = secret.tag(b"threadseal/1 rare entries\0", tagged.as_bytes());
    assert_eq!(text, format!("{body}tag {tag}\n"));
    // A line of a spool is tagged in another domain.
    assert!(!secret.made(&tag, b"threadseal/1 spool\0", tagged.as_bytes()));
    assert_eq!(String::from_utf8(before).unwrap().lines().count(), 3);
    assert!(finds_all(&open(&places, &key)).unwrap());
    assert_eq!(log.fsck().unwrap().faults, Vec::<String>::new());
}

/// Who may write beside the log, and has not the secret of the home.
// T-KLOG-05
#[test]
fn no_list_that_the_home_did_not_write_makes_an_end_or_a_fork_absent() {
    let (fs, places, key) = in_memory();
    let log = open(&places, &key);
    let [before, after] = with_rare(&log, &|path| fs.bytes_of(path).unwrap());
    let path = file(&log);
    let text = String::from_utf8(after.clone()).unwrap();
    let mut lists: Vec<(String, Vec<u8>)> = Vec::new();
    // Each entry left out, or called something else.
    for line in text.lines().filter(|line| line.starts_with("11")) {
        lists.push((
            format!("without {line}"),
            text.replace(&format!("{line}\n"), "").into_bytes(),
        ));
        let (at, _) = line.split_once(' ').unwrap();
        let other = text.replace(line, &format!("{at} other -"));
        lists.push((format!("other {line}"), other.into_bytes()));
    }
    // The list of before, as it was and as if it knew all.
    let tag = |text: &str| text.lines().last().unwrap().to_owned();
    let old = String::from_utf8(before.clone()).unwrap();
    lists.push(("older".to_owned(), before));
    let (_, tree) = text.split_once("tree ").unwrap();
    let (tree, _) = tree.split_once('\n').unwrap();
    let claim = format!("threadseal/1 rare entries\ntree {tree}\n");
    for tag in [tag(&old), tag(&text), format!("tag {}", "0".repeat(64))] {
        lists.push(("claimed".to_owned(), format!("{claim}{tag}\n").into_bytes()));
    }
    lists.push(("empty".to_owned(), Vec::new()));
    lists.push(("cut".to_owned(), after[..after.len() - 1].to_vec()));
    for (what, list) in lists {
        fs.set_bytes(&path, &list).unwrap();
        let log = open(&places, &key);
        assert!(finds_all(&log).unwrap(), "{what}");
        assert_eq!(log.standing(), Standing::Good, "{what}");
        assert_eq!(fs.bytes_of(&path).unwrap(), after, "{what}");
    }
    // Every changed byte.
    for at in (0..after.len()).step_by(7) {
        let mut list = after.clone();
        list[at] ^= 1;
        fs.set_bytes(&path, &list).unwrap();
        assert!(finds_all(&open(&places, &key)).unwrap(), "{at}");
    }
    // Another home's list of a log of the same id, and this home's of another log.
    let other = {
        let (fs, places, key) = in_memory();
        let secret = b"0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b\n";
        let log = open(&places, &key);
        log.publish(&head(1, 0));
        flushed(&log);
        fs.set_bytes(Path::new("/home/keys/spool.secret"), secret)
            .unwrap();
        let log = open(&places, &key);
        grow(&log, 1);
        fs.bytes_of(&file(&log)).unwrap()
    };
    fs.set_bytes(&path, &other).unwrap();
    assert!(finds_all(&open(&places, &key)).unwrap());
}

/// A process that has the secret of the home may write the list; `log fsck` reads the entries.
// T-KLOG-05
#[test]
fn fsck_tells_of_a_list_that_leaves_something_out() {
    let (fs, places, key) = in_memory();
    let log = open(&places, &key);
    let [_, after] = with_rare(&log, &|path| fs.bytes_of(path).unwrap());
    let text = String::from_utf8(after).unwrap();
    let line = format!("{STEP} key -\n");
    let (body, _) = text.split_once("tag ").unwrap();
    let body = body.replace(&line, "");
    let secret = HomeSecret::find(&log.access.dir).unwrap().unwrap();
    let tagged = format!("{}\n{body}", log.description().id);
    let tag = secret.tag(b"threadseal/1 rare entries\0", tagged.as_bytes());
    let forged = format!("{body}tag {tag}\n");
    fs.set_bytes(&file(&log), forged.as_bytes()).unwrap();
    let log = open(&places, &key);
    assert_eq!(log.key_events().unwrap(), []);
    let faults = log.fsck().unwrap().faults;
    assert!(faults.len() == 1 && faults[0].contains(FILE), "{faults:?}");
    fs.unlink(&file(&log)).unwrap();
    let log = open(&places, &key);
    assert!(finds_all(&log).unwrap());
    assert_eq!(log.fsck().unwrap().faults, Vec::<String>::new());
}

/// An entry that is exchanged in its tile is no entry of the signed tree: its content is unknown,
/// not absent.
// T-KLOG-06
#[test]
fn entries_that_are_not_those_of_the_signed_tree_show_nothing_absent() {
    let (fs, places, key) = in_memory();
    let log = open(&places, &key);
    with_rare(&log, &|path| fs.bytes_of(path).unwrap());
    log.fold().unwrap();
    let tile = log.access.dir.file("tile/entries/004");
    let entries = fs.bytes_of(&tile).unwrap();
    let at = memchr::memmem::find(&entries, b"key/revoke").unwrap();
    let mut other = entries.clone();
    other[at..at + 10].copy_from_slice(b"kex/revoke");
    fs.set_bytes(&tile, &other).unwrap();
    // As far as the list goes the entries are known, and what it names is proved.
    assert!(open(&places, &key).key_events().is_err());
    fs.unlink(&file(&log)).unwrap();
    let log = open(&places, &key);
    assert!(log.key_events().is_err() && log.tombstones().is_err());
    assert!(matches!(log.standing(), Standing::Damaged(_)));
    fs.set_bytes(&tile, &entries).unwrap();
    assert!(finds_all(&open(&places, &key)).unwrap());
}

/// A query costs only the entries that were added since the last query.
#[test]
fn entries_that_were_read_once_are_not_read_again() {
    let (fs, places, key) = in_memory();
    let log = open(&places, &key);
    with_rare(&log, &|path| fs.bytes_of(path).unwrap());
    log.fold().unwrap();
    // A tile without any of them.
    fs.unlink(&log.access.dir.file("tile/entries/001")).unwrap();
    assert!(finds_all(&open(&places, &key)).unwrap());
    fs.unlink(&file(&log)).unwrap();
    assert!(open(&places, &key).key_events().is_err());
}

/// The log was put back behind the list, and went on otherwise.
// T-KLOG-05
#[test]
fn a_list_of_a_tree_that_the_log_does_not_continue_is_made_anew() {
    let (fs, places, key) = in_memory();
    let log = open(&places, &key);
    grow(&log, 1);
    let [journal, checkpoint] = ["journal", "checkpoint"].map(|name| {
        let path = log.access.dir.file(name);
        (path.clone(), fs.bytes_of(&path))
    });
    grow(&log, 2);
    let list = fs.bytes_of(&file(&log)).unwrap();
    drop(log);
    for (path, bytes) in [journal, checkpoint] {
        fs.set_bytes(&path, &bytes.unwrap()).unwrap();
    }
    for mark in FolderMark::all(&places.home, &places.current().unwrap().unwrap()) {
        fs.unlink(mark.path()).unwrap();
    }
    let log = open(&places, &key);
    log.commit_key_event(&event(1, KeyChange::Revoke)).unwrap();
    grow(&log, 3);
    fs.set_bytes(&file(&log), &list).unwrap();
    let log = open(&places, &key);
    assert_eq!(log.key_events().unwrap().len(), 1);
    assert_ne!(fs.bytes_of(&file(&log)).unwrap(), list);
}
