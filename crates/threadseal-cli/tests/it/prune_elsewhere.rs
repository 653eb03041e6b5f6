//! `prune` of transcripts in object storage: it keeps the promises that it keeps for files, and no
//! writer continues one meanwhile.

use crate::prelude::*;
use crate::prune::verify;
use crate::prune_kinds::{in_home, is_excused, prune};

const RECORD: &str = "object+file:objects#one";

fn objects(sandbox: &Sandbox) -> PathBuf {
    sandbox.path("objects")
}

/// An ended record that exists only in the storage.
fn stored() -> Sandbox {
    let sandbox = ready();
    let path = ended_record(&sandbox, "one.jsonl", 2);
    import(&sandbox, "one.jsonl", RECORD);
    fs::remove_file(path).unwrap();
    sandbox
}

fn import(sandbox: &Sandbox, path: &str, to: &str) {
    sandbox.ok(format!("transcript import {path} {to:?}"));
}

fn holds(sandbox: &Sandbox, what: &str) -> bool {
    let files = walk(&objects(sandbox));
    files.iter().filter(|path| path.is_file()).any(|path| {
        let bytes = fs::read(path).unwrap();
        bytes
            .windows(what.len())
            .any(|part| part == what.as_bytes())
    })
}

// T-PRU-15
#[test]
fn a_transcript_in_object_storage_is_pruned_and_its_name_takes_nothing_more() {
    let sandbox = stored();
    let kept = sandbox.path("kept");
    copy(&objects(&sandbox), &kept);
    let whole = sandbox.ok(format!("transcript export {RECORD}")).stdout;
    let would = prune(&sandbox, &format!("{RECORD} --dry-run"), 0);
    would.has("would prune");
    // A dry run fences off no writer, and leaves nothing.
    assert!(holds(&sandbox, "question 1") && !sandbox.home().join("tombstones").exists());
    prune(&sandbox, RECORD, 0);
    assert!(!holds(&sandbox, "question 1"));
    is_excused(&sandbox);
    prune(&sandbox, RECORD, 0);
    let list = "transcript list object+file:objects";
    assert_eq!(sandbox.ok(list).stdout, "");
    // A restored record is reported, takes no seal, and goes with the next prune.
    put_back(&kept, &objects(&sandbox));
    verify(&sandbox, RECORD, 0).has("pruned_but_present");
    let other = "object+file:objects#other";
    sandbox.write("other.jsonl", format!("{whole}{{\"torn"));
    import(&sandbox, "other.jsonl", other);
    sandbox.sh(format!("seal {other}")).fails_with("was pruned");
    assert!(prune(&sandbox, other, 2).contains("differs from the one in its tombstone"));
    put_back(&kept, &objects(&sandbox));
    prune(&sandbox, RECORD, 0);
    assert!(!holds(&sandbox, "question 1"));
    is_excused(&sandbox);
    let listed = sandbox.sh("log entries --from 0 --limit 100");
    let listed = listed.exits(0).stdout;
    assert_eq!(listed.matches(" tombstone ").count(), 1, "{listed}");
}

// T-PRU-13
#[test]
fn what_is_open_changed_cut_or_unknown_in_object_storage_is_not_pruned() {
    let sandbox = ready();
    let path = recorder(&sandbox, "one.jsonl", 1).path().to_owned();
    import(&sandbox, "one.jsonl", RECORD);
    let stays = |why: &str| {
        let told = prune(&sandbox, RECORD, 2);
        told.has(why);
        assert!(holds(&sandbox, "xxx") || holds(&sandbox, "question 1"));
        assert!(!sandbox.home().join("tombstones").exists());
    };
    let imported = |bytes: &[u8]| {
        fs::remove_dir_all(objects(&sandbox)).unwrap();
        sandbox.write("other.jsonl", bytes);
        import(&sandbox, "other.jsonl", RECORD);
    };
    // The check whether a record has ended does not fence off its writer.
    stays("this home does not know an end of it");
    let mut writer = reopened(&sandbox, &path, "self-rye.rye");
    say(&mut writer, "tool_call_result", &"x".repeat(200_000));
    let nothing = Payload::parse(b"{}").unwrap();
    writer.end(Ending::Completed, &nothing, 1).unwrap();
    drop(writer);
    // An older copy, a changed one, and one with bytes after its end.
    stays("");
    let whole = fs::read(&path).unwrap();
    imported(&[&whole[..], b"{\"torn"].concat());
    stays("");
    imported(&whole);
    let segments = walk(&objects(&sandbox).join("transcript-segments"));
    let mut segments = segments.iter().filter(|path| path.is_file());
    let asks =
        |path: &&PathBuf| String::from_utf8_lossy(&fs::read(path).unwrap()).contains("question 1");
    let segment = segments.find(asks).unwrap();
    let changed = read(segment);
    fs::write(segment, changed.replace("question 1", "question 2")).unwrap();
    stays("tampered");
    prune(&sandbox, "object+file:objects#two", 2);
    prune(&sandbox, "object+file:objects", 2);
    imported(&whole);
    // Another home knows no end of it.
    let stranger = sandbox.home().with_file_name("stranger");
    for arguments in ["init -q", &format!("prune --yes {RECORD}")] {
        let mut command = sandbox.command();
        command
            .args(words(arguments))
            .env("THREADSEAL_HOME", &stranger);
        command.output().unwrap();
    }
    assert!(holds(&sandbox, "question 1"));
    prune(&sandbox, RECORD, 0);
    assert!(!holds(&sandbox, "question 1") && path.exists());
}

// T-PRU-14
#[test]
fn a_tombstone_of_a_transcript_in_object_storage_that_was_changed_or_removed_excuses_nothing() {
    let sandbox = stored();
    prune(&sandbox, RECORD, 0);
    let place = in_home(&sandbox);
    let good = read(&place);
    fs::write(&place, good.replace("time is up", "time is mine")).unwrap();
    verify(&sandbox, "--all", 1).has("record_missing");
    prune(&sandbox, RECORD, 2);
    fs::remove_file(&place).unwrap();
    verify(&sandbox, "--all", 1).has("record_missing");
    assert!(prune(&sandbox, RECORD, 2).contains("no tombstone shows that it was pruned"));
    fs::write(&place, good).unwrap();
    is_excused(&sandbox);
}

// T-PRU-22
#[test]
fn a_prune_in_object_storage_that_was_cut_short_is_finished_by_the_next() {
    let sandbox = stored();
    let kept = sandbox.path("kept");
    copy(&objects(&sandbox), &kept);
    prune(&sandbox, RECORD, 0);
    // Stopped after the entry in the log, and before the head was written.
    put_back(&kept, &objects(&sandbox));
    prune(&sandbox, RECORD, 0);
    assert!(!holds(&sandbox, "question 1"));
    // Stopped after the head was written, and before all objects were deleted.
    let gone = objects(&sandbox).join("transcripts-gone");
    assert_eq!(fs::read_dir(&gone).unwrap().count(), 1);
    fs::remove_dir_all(&gone).unwrap();
    sandbox.sh("fsck object+file:objects").prints("leftover");
    prune(&sandbox, RECORD, 0);
    assert_eq!(fs::read_dir(&gone).unwrap().count(), 1);
    is_excused(&sandbox);
    // Stopped before the entry in the log: the tombstone in the home proves nothing yet, so the
    // record is verified and the tombstone written anew.
    let other = stored();
    let folder = other.home().join("tombstones");
    fs::create_dir(&folder).unwrap();
    let name = in_home(&sandbox).file_name().unwrap().to_owned();
    fs::copy(in_home(&sandbox), folder.join(name)).unwrap();
    prune(&other, RECORD, 0);
    assert!(!holds(&other, "question 1"));
}
