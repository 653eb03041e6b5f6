//! Entries that are no heads are found without reading the whole log, and no bytes of another
//! writer make them absent.

use super::forks;
use super::prelude::*;
use crate::index::non_head_index::FILE;
use threadseal_formats::transcript::bodies::SealedRedaction;

/// Heads between two others, so that the list is written behind each step.
const STEP: u64 = 1_100;

fn grow(log: &SealLog, number: u8) {
    log.commit_heads(heads(number, 0..STEP));
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
fn with_rare() -> (InMemory, [Vec<u8>; 2]) {
    let scene = in_memory();
    let log = &scene.open();
    grow(log, 1);
    let before = scene.get(FILE);
    log.commit_key_event(&revoked(1)).unwrap();
    log.commit_tombstones(&[pruned()]).unwrap();
    log.commit_redactions(&[redacted()]).unwrap();
    forks::accuse(log);
    grow(log, 2);
    let after = scene.get(FILE);
    (scene, [before, after])
}

/// A list with the tag of this home under it.
fn tagged(scene: &InMemory, body: &str) -> String {
    let secret = HomeSecret::find(&scene.home().dir(OWN)).unwrap().unwrap();
    let tagged = format!("{OWN}\n{body}");
    let tag = secret.tag(b"threadseal/1 rare entries\0", tagged.as_bytes());
    // A line of a spool is tagged in another domain.
    assert!(!secret.made(&tag, b"threadseal/1 spool\0", tagged.as_bytes()));
    format!("{body}tag {tag}\n")
}

/// Is each of them found?
fn finds_all(log: &SealLog) -> Result<bool, Error> {
    let ended = KeyHistory::of(&log.key_events()?).ended(revoked(1).public());
    let forked = log.forks_of(&forks::proved().get().record)?;
    Ok(ended == Some(STEP)
        && log.tombstones()? == [pruned()]
        && log.redactions_of(&record(2))? == [redacted().head]
        && forked.len() == 1)
}

#[test]
fn the_list_is_the_documented_one() {
    let (scene, [before, after]) = with_rare();
    let log = scene.open();
    let text = String::from_utf8(after).unwrap();
    let forked = forks::proved().get().record;
    let [key_at, pruned_at, redacted_at, forked_at] = [0, 1, 2, 3].map(|at| STEP + at);
    let entries = format!(
        "{key_at} key -\n{pruned_at} tombstone {}\n{redacted_at} redaction {}\n{forked_at} fork {forked}\n",
        record(1),
        record(2)
    );
    let tree = log.tree();
    let body = format!(
        "threadseal/1 rare entries\ntree {} {}\n{entries}",
        tree.size, tree.root
    );
    assert_eq!(text, tagged(&scene, &body));
    assert_eq!(String::from_utf8(before).unwrap().lines().count(), 3);
    assert!(finds_all(&scene.open()).unwrap());
    log.assert_whole();
}

/// Who may write beside the log, and has not the secret of the home.
// T-KLOG-05
#[test]
fn no_list_that_the_home_did_not_write_makes_an_end_or_a_fork_absent() {
    let (scene, [before, after]) = with_rare();
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
        scene.put(FILE, list);
        let log = scene.open();
        assert!(finds_all(&log).unwrap(), "{what}");
        assert_eq!(log.standing(), Standing::Good, "{what}");
        assert_eq!(scene.get(FILE), after, "{what}");
    }
    // Every changed byte.
    for at in (0..after.len()).step_by(7) {
        let mut list = after.clone();
        list[at] ^= 1;
        scene.put(FILE, list);
        assert!(finds_all(&scene.open()).unwrap(), "{at}");
    }
    // Another home's list of a log of the same id, and this home's of another log.
    let other = {
        let scene = in_memory();
        scene.commit([head(1, 0)]);
        let secret = format!("{}\n", "0b".repeat(32));
        scene.put("/home/keys/spool.secret", secret);
        grow(&scene.open(), 1);
        scene.get(FILE)
    };
    scene.put(FILE, other);
    assert!(finds_all(&scene.open()).unwrap());
}

/// A process that has the secret of the home may write the list; `log fsck` reads the entries.
// T-KLOG-05
#[test]
fn fsck_tells_of_a_list_that_leaves_something_out() {
    let (scene, [_, after]) = with_rare();
    let text = String::from_utf8(after).unwrap();
    let line = format!("{STEP} key -\n");
    let (body, _) = text.split_once("tag ").unwrap();
    let body = body.replace(&line, "");
    scene.put(FILE, tagged(&scene, &body));
    let log = scene.open();
    assert_eq!(log.key_events().unwrap(), []);
    let faults = log.fsck().unwrap().faults;
    assert!(faults.len() == 1 && faults[0].contains(FILE), "{faults:?}");
    scene.remove(FILE);
    let log = scene.open();
    assert!(finds_all(&log).unwrap());
    log.assert_whole();
}

/// An entry that is exchanged in its tile is no entry of the signed tree: its content is unknown,
/// not absent.
// T-KLOG-06
#[test]
fn entries_that_are_not_those_of_the_signed_tree_show_nothing_absent() {
    let (scene, _) = with_rare();
    scene.open().fold().unwrap();
    let tile = "tile/entries/004";
    let entries = scene.get(tile);
    let at = memchr::memmem::find(&entries, b"key/revoke").unwrap();
    let mut other = entries.clone();
    other[at..at + 10].copy_from_slice(b"kex/revoke");
    scene.put(tile, other);
    // As far as the list goes the entries are known, and what it names is proved.
    assert!(scene.open().key_events().is_err());
    scene.remove(FILE);
    let log = scene.open();
    assert!(log.key_events().is_err() && log.tombstones().is_err());
    assert!(matches!(log.standing(), Standing::Damaged(_)));
    scene.put(tile, entries);
    assert!(finds_all(&scene.open()).unwrap());
}

/// A query costs only the entries that were added since the last query.
#[test]
fn entries_that_were_read_once_are_not_read_again() {
    let (scene, _) = with_rare();
    scene.open().fold().unwrap();
    // A tile without any of them.
    scene.remove("tile/entries/001");
    assert!(finds_all(&scene.open()).unwrap());
    scene.remove(FILE);
    assert!(scene.open().key_events().is_err());
}

/// The log was put back behind the list, and went on otherwise.
// T-KLOG-05
#[test]
fn a_list_of_a_tree_that_the_log_does_not_continue_is_made_anew() {
    let scene = in_memory();
    grow(&scene.open(), 1);
    let before = ["journal", "checkpoint"].map(|name| (name, scene.get(name)));
    grow(&scene.open(), 2);
    let list = scene.get(FILE);
    for (name, bytes) in before {
        scene.put(name, bytes);
    }
    scene
        .mark_files()
        .iter()
        .for_each(|mark| scene.remove(mark));
    let log = scene.open();
    log.commit_key_event(&revoked(1)).unwrap();
    grow(&log, 3);
    scene.put(FILE, &list);
    assert_eq!(scene.open().key_events().unwrap().len(), 1);
    assert_ne!(scene.get(FILE), list);
}
