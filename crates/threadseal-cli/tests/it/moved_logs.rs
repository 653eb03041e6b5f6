//! Logs that move, rotate, continue after a final seal, or lose their seals.

use crate::prelude::*;

const FIRST: &str = "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n{\"n\":4}\n";
const OTHER: &str = "{\"m\":1}\n{\"m\":2}\n";

/// A sandbox with the log of the host and a sealed log `y.jsonl`.
fn sealed() -> Sandbox {
    let sandbox = ready();
    sandbox.write("y.jsonl", FIRST);
    sandbox.ok("seal --detached y.jsonl");
    sandbox
}

fn move_file(sandbox: &Sandbox, from: &str, to: &str) {
    let to = sandbox.path(to);
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::rename(sandbox.path(from), to).unwrap();
}

fn append(sandbox: &Sandbox, name: &str, text: &str) {
    let file = fs::OpenOptions::new().append(true).open(sandbox.path(name));
    file.unwrap().write_all(text.as_bytes()).unwrap();
}

// T-OBS-08
#[test]
fn lines_after_a_final_seal_are_not_trusted_and_accuse_nothing() {
    let sandbox = ready();
    sandbox.write("y.jsonl", FIRST);
    sandbox.ok("seal --detached --final y.jsonl");
    append(&sandbox, "y.jsonl", OTHER);
    let report = sandbox.report("verify y.jsonl");
    assert_eq!(report["verdict"], "unsigned_tail");
    assert_eq!(report["trusted_until"]["line"], 4);
    assert_eq!(report["findings"][0]["code"], "lines_after_final");
    assert_eq!(report["findings"][0]["severity"], "error");
    sandbox.exits(3, "verify y.jsonl");
    sandbox
        .exits(2, "seal --detached y.jsonl")
        .fails_with("--restart");
    // A sealed line that changes is still evidence.
    sandbox.write("y.jsonl", FIRST.replace("2", "9") + OTHER);
    sandbox.exits(1, "verify y.jsonl");
    sandbox.write("y.jsonl", FIRST.to_owned() + OTHER);
    sandbox.ok("seal --detached y.jsonl --restart --why resumed");
    assert_eq!(sandbox.verdict("verify y.jsonl"), "verified");
}

// T-OBS-09
#[test]
fn a_rotated_log_keeps_its_seals_and_the_new_one_gets_its_own() {
    for (moved, seals) in [
        ("y.jsonl.1", false),
        ("y.jsonl.1", true),
        ("old/y.jsonl", false),
        ("old/y.jsonl", true),
    ] {
        let name = format!("to {moved}, with seals: {seals}");
        let sandbox = sealed();
        move_file(&sandbox, "y.jsonl", moved);
        if seals {
            move_file(&sandbox, "y.jsonl.seal", &format!("{moved}.seal"));
        }
        sandbox.exits(0, "verify .");
        sandbox.exits(0, format!("verify {moved}"));
        sandbox.write("y.jsonl", OTHER);
        let report = sandbox.report("verify y.jsonl");
        assert_eq!(report["verdict"], "unsigned", "{name}");
        sandbox.exits(3, "verify y.jsonl");
        sandbox.exits(3, "verify .");
        sandbox.exits(0, format!("verify {moved}"));
        sandbox.ok("seal --detached y.jsonl");
        sandbox.exits(0, "verify .");
        sandbox.exits(0, format!("verify y.jsonl {moved}"));
        assert!(sandbox.path(format!("{moved}.seal")).exists(), "{name}");
        // Both are records: a change of either is noticed.
        sandbox.write(moved, FIRST.replace("3", "9"));
        sandbox.exits(1, "verify .");
        sandbox.write(moved, FIRST);
        sandbox.write("y.jsonl", OTHER.replace("2", "9"));
        sandbox.exits(1, "verify .");
    }
}

// T-OBS-09
#[test]
fn a_moved_log_that_grows_takes_its_seals_with_it() {
    for (moved, is_replaced) in [
        ("y.jsonl.1", true),
        ("y.jsonl.1", false),
        ("old/y.jsonl", true),
    ] {
        let sandbox = sealed();
        move_file(&sandbox, "y.jsonl", moved);
        append(&sandbox, moved, "{\"n\":5}\n");
        if is_replaced {
            sandbox.write("y.jsonl", OTHER);
        }
        sandbox.ok(format!("seal --detached {moved}"));
        let report = sandbox.report(format!("verify {moved}"));
        report.is(json!({"verdict": "verified", "stats/checkpoints": 2}));
        assert!(!sandbox.path("y.jsonl.seal").exists(), "{moved}");
        if is_replaced {
            sandbox.ok("seal --detached y.jsonl");
        }
        sandbox.exits(0, "verify .");
        sandbox.exits(0, "verify --all .");
    }
}

/// Moves `y.jsonl` to `z.jsonl` with its seals, and from there to `to` alone.
fn moved_twice(to: &str) -> Sandbox {
    let sandbox = sealed();
    move_file(&sandbox, "y.jsonl", "z.jsonl");
    move_file(&sandbox, "y.jsonl.seal", "z.jsonl.seal");
    move_file(&sandbox, "z.jsonl", to);
    sandbox
}

// T-OBS-17
#[test]
fn a_log_that_was_moved_with_its_seals_and_then_alone_finds_them() {
    for to in ["w.jsonl", "old/w.jsonl", "y.jsonl"] {
        let sandbox = moved_twice(to);
        assert_eq!(sandbox.verdict(format!("verify {to}")), "verified", "{to}");
        sandbox.exits(0, "verify .");
        append(&sandbox, to, "{\"n\":5}\n");
        sandbox.exits(3, format!("verify {to}"));
        sandbox.ok(format!("seal --detached {to}"));
        let report = sandbox.report(format!("verify {to}"));
        report.is(json!({"verdict": "verified", "stats/checkpoints": 2}));
        sandbox.exits(0, "verify --all .");
        // Seals that were left and do not fit any more are not found.
        let sandbox = moved_twice(to);
        sandbox.write(to, FIRST.replace('2', "9"));
        assert_ne!(sandbox.sh(format!("verify {to}")).code, 0, "{to}");
        // In the place where it was sealed first, that is evidence.
        let exit = if to == "y.jsonl" { 1 } else { 2 };
        sandbox
            .exits(exit, format!("seal --detached {to}"))
            .warns("its seals are gone");
    }
    // A seal that adds nothing notes the new place: the log may leave it alone, however far.
    let sandbox = sealed();
    for name in ["y.jsonl", "y.jsonl.seal"] {
        move_file(&sandbox, name, &format!("a/b/{name}"));
    }
    sandbox.ok("seal --detached a/b/y.jsonl");
    move_file(&sandbox, "a/b/y.jsonl", "a/b/c/d/e/z.jsonl");
    sandbox.ok("seal --detached a/b/c/d/e/z.jsonl");
    assert_eq!(sandbox.verdict("verify a/b/c/d/e/z.jsonl"), "verified");
}

// T-OBS-18
#[test]
fn a_new_log_and_the_seals_of_the_rotated_one_are_no_evidence_in_a_copy() {
    for old in [FIRST, "{\"n\":2}\n"] {
        a_copy_of_a_rotated_folder(old);
    }
}

/// Copies the log `y.jsonl` and its seals into another folder.
fn copy_y(sandbox: &Sandbox) {
    fs::create_dir_all(sandbox.path("copy")).unwrap();
    for name in ["y.jsonl", "y.jsonl.seal"] {
        fs::copy(sandbox.path(name), sandbox.path(format!("copy/{name}"))).unwrap();
    }
}

fn a_copy_of_a_rotated_folder(old: &str) {
    let sandbox = ready();
    sandbox.write("y.jsonl", old);
    sandbox.ok("seal --detached y.jsonl");
    copy_y(&sandbox);
    sandbox.write("copy/y.jsonl", old.replace('2', "9"));
    sandbox.exits(1, "verify copy/y.jsonl");
    move_file(&sandbox, "y.jsonl", "y.jsonl.1");
    sandbox.write("y.jsonl", OTHER);
    copy_y(&sandbox);
    let report = sandbox.report("verify copy/y.jsonl");
    assert_eq!(report["verdict"], "unsigned");
    assert_eq!(report["findings"][0]["code"], "log_rotated");
    sandbox.exits(3, "verify .");
    // A copy of the record that was changed is none of another log.
    // Of one line that was changed, nothing shows that it was that line.
    let changed = if old == FIRST { 1 } else { 3 };
    sandbox.write("copy/y.jsonl", old.replace('2', "9"));
    sandbox.exits(changed, "verify copy/y.jsonl");
    sandbox.write("copy/y.jsonl", OTHER);
    fs::remove_file(sandbox.path("y.jsonl.1")).unwrap();
    sandbox.exits(1, "verify copy/y.jsonl");
}

// T-OBS-19
#[test]
fn nothing_is_made_of_a_log_that_was_moved_from_its_seals_and_edited() {
    let line = |text: &str| {
        format!(
            "{{\"type\":\"user\",\"uuid\":\"{text}\",\"sessionId\":\"s\",\"timestamp\":\"2026-01-01T00:00:00Z\",\
             \"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}\n"
        )
    };
    let log: String = ["a", "b", "c", "d"].map(line).concat();
    let cases = [(false, false), (true, false), (false, true), (true, true)];
    let cases =
        cases.map(|(strips, rotates)| ["z.jsonl", "y.jsonl.1"].map(|to| (strips, rotates, to)));
    for (strips, rotates, moved) in cases.concat() {
        let sandbox = ready();
        sandbox.write("y.jsonl", &log);
        sandbox.ok("seal --detached y.jsonl");
        move_file(&sandbox, "y.jsonl", moved);
        if rotates {
            sandbox.write("y.jsonl", OTHER);
        }
        if strips {
            fs::remove_file(sandbox.path("y.jsonl.seal")).unwrap();
        }
        let convert = format!("scroll from claude-code {moved} --out s.json");
        if !strips {
            sandbox.ok(&convert);
            fs::remove_file(sandbox.path("s.json")).unwrap();
        }
        sandbox.write(moved, log.replace("\"d\"", "\"e\""));
        sandbox.exits(3, &convert).warns("no seal covers this file");
        assert!(!sandbox.path("s.json").exists());
        sandbox
            .exits(2, format!("seal --detached {moved}"))
            .warns("--restart");
        sandbox.ok(format!(
            "seal --detached {moved} --restart --why 'edited on purpose'"
        ));
        sandbox.exits(0, format!("verify {moved}"));
    }
}

// T-OBS-11
#[test]
fn a_log_that_was_moved_stripped_and_edited_is_not_sealed_anew() {
    for edit_first in [true, false] {
        let sandbox = sealed();
        move_file(&sandbox, "y.jsonl", "z.jsonl");
        if edit_first {
            // The seals are still in the earlier place.
            sandbox.write("z.jsonl", FIRST.replace("2", "9"));
        } else {
            move_file(&sandbox, "y.jsonl.seal", "z.jsonl.seal");
            sandbox.exits(0, "verify z.jsonl");
            fs::remove_file(sandbox.path("z.jsonl.seal")).unwrap();
            sandbox.write("z.jsonl", FIRST.replace("2", "9"));
        }
        let refused = sandbox.exits(2, "seal --detached z.jsonl");
        refused.warns("its seals are gone").warns("--restart");
        assert_ne!(sandbox.sh("verify z.jsonl").code, 0);
        sandbox.ok("seal --detached z.jsonl --restart --why 'edited on purpose'");
        sandbox.exits(0, "verify z.jsonl");
    }
}

// T-OBS-10
#[test]
fn a_copy_does_not_excuse_a_change() {
    let cases = [
        ("an early line", FIRST.replace("1", "9")),
        ("a late line", FIRST.replace("4", "9")),
        ("cut", FIRST[..16].to_owned()),
        ("cut at the front", FIRST[8..].to_owned()),
        ("a line in front", format!("{OTHER}{FIRST}")),
    ];
    for (name, edited) in cases {
        eprintln!("{name}");
        let sandbox = sealed();
        sandbox.write("copy.jsonl", FIRST);
        assert_eq!(sandbox.verdict("verify copy.jsonl"), "unsigned", "{name}");
        sandbox.write("y.jsonl", &edited);
        sandbox.exits(1, "verify y.jsonl");
        sandbox.exits(1, "verify .");
        sandbox.exits(1, "seal --detached y.jsonl");
        // Without the seals, too.
        fs::remove_file(sandbox.path("y.jsonl.seal")).unwrap();
        sandbox.exits(1, "verify y.jsonl");
        sandbox
            .exits(1, "seal --detached y.jsonl")
            .fails_with("--restart");
        sandbox.exits(1, "verify .");
    }
}

// T-OBS-11
#[test]
fn a_log_without_its_seals_is_restarted_with_a_reason_only() {
    let edits = [
        ("unchanged", FIRST.to_owned()),
        ("the first line", FIRST.replace("1", "9")),
        ("every line", OTHER.to_owned()),
    ];
    for (name, edited) in edits {
        let sandbox = sealed();
        fs::remove_file(sandbox.path("y.jsonl.seal")).unwrap();
        sandbox.write("y.jsonl", edited);
        sandbox.exits(1, "verify y.jsonl");
        sandbox.exits(1, "verify .");
        sandbox
            .exits(1, "seal --detached y.jsonl")
            .fails_with("--restart");
        sandbox.exits(2, "seal --detached y.jsonl --restart");
        sandbox.exits(2, "seal --detached y.jsonl --restart --why \"\"");
        sandbox.exits(2, "seal --detached y.jsonl --restart --why ' '");
        assert!(!sandbox.path("y.jsonl.seal").exists(), "{name}");
        let before = sandbox.json("log status")["size"].number();
        sandbox.ok("seal --detached y.jsonl --restart --why \"seals deleted by mistake\"");
        assert!(
            sandbox.json("log status")["size"].number() > before,
            "{name}"
        );
        assert_eq!(sandbox.verdict("verify y.jsonl"), "verified", "{name}");
        let tombstones: Vec<_> = fs::read_dir(sandbox.home().join("tombstones"))
            .unwrap()
            .collect();
        assert_eq!(tombstones.len(), 1, "{name}");
        let tombstone = fs::read_to_string(tombstones[0].as_ref().unwrap().path()).unwrap();
        assert!(tombstone.contains("seals deleted by mistake"), "{name}");
        // The new record is the one of this place: it is not restarted without a reason either.
        fs::remove_file(sandbox.path("y.jsonl.seal")).unwrap();
        sandbox
            .exits(1, "seal --detached y.jsonl")
            .fails_with("--restart");
    }
}

#[test]
fn nothing_is_restarted_that_this_home_did_not_seal() {
    let sandbox = ready();
    sandbox.write("y.jsonl", FIRST);
    sandbox
        .exits(2, "seal --detached y.jsonl --restart --why x")
        .fails_with("sealed no log here");
    let other = sealed();
    fs::copy(other.path("y.jsonl.seal"), sandbox.path("y.jsonl.seal")).unwrap();
    sandbox
        .exits(2, "seal --detached y.jsonl --restart --why x")
        .fails_with("another home");
}

// T-OBS-12
#[test]
fn processes_that_seal_one_log_at_once_all_succeed_and_accuse_nothing() {
    for round in 0..4 {
        let sandbox = ready();
        sandbox.write("y.jsonl", FIRST);
        let sealers: Vec<_> = (0..6)
            .map(|_| sandbox.spawn("seal --detached -q y.jsonl"))
            .collect();
        let lookers: Vec<_> = (0..6).map(|_| sandbox.spawn("verify -q y.jsonl")).collect();
        for mut child in sealers {
            assert!(child.wait().unwrap().success(), "sealer in round {round}");
        }
        for mut child in lookers {
            let code = child.wait().unwrap().code();
            assert!(
                matches!(code, Some(0 | 3)),
                "verify in round {round}: {code:?}"
            );
        }
        sandbox.exits(0, "verify y.jsonl");
    }
}

// T-OBS-12
#[test]
fn looks_beside_a_seal_after_a_rotation_or_a_restart_accuse_nothing() {
    for round in 0..8 {
        let sandbox = ready();
        sandbox.write("y.jsonl", FIRST);
        sandbox.ok("seal --detached y.jsonl");
        move_file(&sandbox, "y.jsonl", "y.jsonl.1");
        sandbox.write("y.jsonl", format!("{{\"g\":{round}}}\n{{\"h\":{round}}}\n"));
        for (seal, verify) in [
            ("seal --detached -q y.jsonl", "verify -q ."),
            ("seal --restart --why x -q y.jsonl", "verify -q y.jsonl"),
        ] {
            let mut sealer = sandbox.spawn(seal);
            let lookers: Vec<_> = (0..6).map(|_| sandbox.spawn(verify)).collect();
            assert!(sealer.wait().unwrap().success(), "{seal} in round {round}");
            for mut looker in lookers {
                let code = looker.wait().unwrap().code();
                assert!(
                    matches!(code, Some(0 | 3)),
                    "{seal} in round {round}: {code:?}"
                );
            }
        }
        sandbox.exits(0, "verify .");
    }
}

// T-OBS-09
#[test]
fn generations_of_a_rotated_log_keep_their_seals() {
    let sandbox = ready();
    for generation in 0..4 {
        for older in (1..=generation).rev() {
            let from = if older == 1 {
                "y.jsonl".to_owned()
            } else {
                format!("y.jsonl.{}", older - 1)
            };
            move_file(&sandbox, &from, &format!("y.jsonl.{older}"));
        }
        sandbox.write(
            "y.jsonl",
            format!("{{\"g\":{generation}}}\n{{\"started\":true}}\n{{\"h\":{generation}}}\n{{\"i\":{generation}}}\n{{\"j\":{generation}}}\n"),
        );
        sandbox.ok("seal --detached y.jsonl");
    }
    sandbox.exits(0, "verify .");
    sandbox.exits(0, "verify --all");
    sandbox.write("y.jsonl.2", "{\"g\":1}\n{\"started\":false}\n");
    sandbox.exits(1, "verify .");
}

// T-OBS-11
#[test]
fn a_link_in_the_place_of_a_log_leads_to_that_log_or_is_evidence() {
    let sandbox = sealed();
    sandbox.write("forged.jsonl", FIRST.replace("3", "9"));
    fs::remove_file(sandbox.path("y.jsonl")).unwrap();
    symlink("forged.jsonl", sandbox.path("y.jsonl")).unwrap();
    for seals in [true, false] {
        if !seals {
            fs::remove_file(sandbox.path("y.jsonl.seal")).unwrap();
        }
        sandbox.exits(1, "verify y.jsonl");
        sandbox.exits(1, "seal --detached y.jsonl");
    }
    let sandbox = sealed();
    move_file(&sandbox, "y.jsonl", "old/z.jsonl");
    symlink("old/z.jsonl", sandbox.path("y.jsonl")).unwrap();
    sandbox.exits(0, "verify y.jsonl");
    sandbox.ok("seal --detached y.jsonl");
    sandbox.exits(0, "verify y.jsonl");
}

// T-OBS-03
#[test]
fn a_seal_file_without_its_seals_is_evidence_on_the_host_that_made_them() {
    let sandbox = sealed();
    let seals = sandbox.read("y.jsonl.seal");
    for lines in [1, 2] {
        let kept: String = seals.split_inclusive('\n').take(lines).collect();
        sandbox.write("y.jsonl.seal", kept);
        sandbox.write("y.jsonl", FIRST.replace("1", "9"));
        sandbox.exits(1, "verify y.jsonl");
        sandbox.exits(1, "verify .");
        sandbox.exits(1, "seal --detached y.jsonl");
    }
}

// T-OBS-11
#[test]
fn a_restart_ends_the_record_of_its_place_and_no_other() {
    let sandbox = sealed();
    sandbox.write("v.jsonl", OTHER);
    sandbox.ok("seal --detached v.jsonl");
    fs::copy(sandbox.path("v.jsonl.seal"), sandbox.path("y.jsonl.seal")).unwrap();
    sandbox.ok("seal --detached y.jsonl --restart --why mixed");
    append(&sandbox, "v.jsonl", "{\"m\":3}\n");
    sandbox.ok("seal --detached v.jsonl");
    sandbox.exits(0, "verify .");
}

// T-OBS-14
#[test]
fn a_log_that_was_moved_with_its_seals_excuses_no_change_of_its_earlier_place() {
    let whole: String = (1..=30).map(|n| format!("{{\"n\":{n}}}\n")).collect();
    let first = |from: usize| {
        let rest = whole.split_inclusive('\n').skip(from);
        rest.collect::<String>()
    };
    let others = |name: &str| whole.replace("\"n\"", &format!("\"{name}\""));
    let edits = [
        ("the first lines", whole.replacen("\"n\"", "\"m\"", 5)),
        ("lines in front", others("x") + &others("y") + &whole),
        ("cut at the front", first(10)),
        ("a late line", whole.replace("29", "92")),
    ];
    for folder in ["a", "a/b", "a/b/c", "a/b/c/d/e/f"] {
        for (name, edited) in &edits {
            let sandbox = ready();
            sandbox.write("y.jsonl", &whole);
            sandbox.ok("seal --detached y.jsonl");
            move_file(&sandbox, "y.jsonl", &format!("{folder}/y.jsonl"));
            move_file(&sandbox, "y.jsonl.seal", &format!("{folder}/y.jsonl.seal"));
            sandbox.exits(0, "verify .");
            sandbox.write("y.jsonl", edited);
            for command in ["verify .", "verify y.jsonl"] {
                let ran = sandbox.sh(command);
                assert_eq!(ran.code, 1, "{command}, {name} in {folder}: {}", ran.stdout);
            }
            sandbox.exits(0, format!("verify {folder}/y.jsonl"));
        }
    }
}

/// (no attack) A rotation into an archive by date, with the seals, and a log that repeats a line.
// T-OBS-15
#[test]
fn a_log_that_was_moved_into_deep_folders_leaves_its_place_to_a_new_one() {
    let beat = "{\"type\":\"beat\"}\n".repeat(20);
    for folder in ["a", "2026/11", "2026/11/25"] {
        let sandbox = ready();
        sandbox.write("y.jsonl", format!("{{\"start\":1}}\n{FIRST}{beat}"));
        sandbox.ok("seal --detached y.jsonl");
        move_file(&sandbox, "y.jsonl", &format!("{folder}/y.jsonl"));
        move_file(&sandbox, "y.jsonl.seal", &format!("{folder}/y.jsonl.seal"));
        for new in [format!("{{\"start\":2}}\n{OTHER}{beat}"), String::new()] {
            sandbox.write("y.jsonl", new);
            for command in ["verify .", "verify y.jsonl"] {
                let ran = sandbox.sh(command);
                assert_eq!(ran.code, 3, "{command} in {folder}: {}", ran.stdout);
            }
        }
    }
}

/// A copy that is then edited looks the same as a log that was rotated: it is named once.
// T-OBS-57
#[test]
fn a_log_whose_seals_were_moved_to_a_copy_is_named() {
    let sandbox = ready();
    sandbox.write("y.jsonl", "{\"n\":1}\n");
    sandbox.ok("seal --detached y.jsonl").warns_nothing();
    fs::copy(sandbox.path("y.jsonl"), sandbox.path("z.jsonl")).unwrap();
    sandbox.write("y.jsonl", "{\"n\":2}\n");
    let moved = sandbox.ok("seal --detached y.jsonl");
    moved
        .warns("y.jsonl was rotated: its sealed lines are in")
        .warns("z.jsonl now");
    sandbox.ok("seal --detached y.jsonl").warns_nothing();
    sandbox.exits(0, "verify y.jsonl z.jsonl");
    // The watcher names it, too.
    fs::copy(sandbox.path("y.jsonl"), sandbox.path("x.jsonl")).unwrap();
    sandbox.write("y.jsonl", "{\"n\":3}\n");
    sandbox.ok("watch --once .").warns("y.jsonl was rotated");
    let again = sandbox.ok("watch --once .");
    assert!(!again.stderr.contains("rotated"), "{}", again.stderr);
}

// T-OBS-56
#[test]
fn a_log_that_shares_a_line_with_a_changed_one_is_another_log() {
    let sandbox = sealed();
    sandbox.write("y.jsonl", FIRST.replace('3', "9"));
    assert_eq!(sandbox.verdict("verify y.jsonl"), "tampered");
    // One line of three is that of the changed record, wherever it is.
    for (name, log) in [
        ("first.jsonl", "{\"n\":1}\n{\"m\":2}\n{\"m\":3}\n"),
        ("last.jsonl", "{\"m\":1}\n{\"m\":2}\n{\"n\":2}\n"),
    ] {
        sandbox.write(name, log);
        let report = sandbox.report(format!("verify {name}"));
        assert_eq!(report["verdict"], "unsigned", "{report}");
        sandbox.ok(format!("seal --detached {name}"));
        assert_eq!(sandbox.verdict(format!("verify {name}")), "verified");
    }
    // One that was made of it is refused as before.
    sandbox.write("made.jsonl", FIRST.replace('4', "8"));
    let refused = sandbox.exits(2, "seal --detached made.jsonl");
    refused.warns("has lines of record").warns("--restart");
    // So is one where nothing of the record is left in its place.
    sandbox.write("y.jsonl", OTHER);
    sandbox.write("again.jsonl", "{\"n\":3}\n{\"k\":2}\n{\"k\":3}\n");
    sandbox.exits(2, "seal --detached again.jsonl");
}
