//! Each bad input against each command: exact exit code, one clear line, nothing changed.

use crate::prelude::*;
use std::fs::File;

/// `{}` is replaced by the name of the input.
const COMMANDS: [&str; 12] = [
    "verify {}",
    "seal {}",
    "show {}",
    "messages {}",
    "render {}",
    "diff good.jsonl {}",
    "diff {} good.jsonl",
    "watch {}",
    "key import {}",
    "trust add {} --name x",
    "verify good.jsonl --trust {}",
    "key new --passphrase-file {}",
];

/// The answer of so many commands in a row: the exit code, and a part of standard error.
/// `(_, 2, part)`: no verdict, one line with `part`. Other codes: no such line is expected.
type Answer = (usize, i32, &'static str);

/// A command accepts this input; another test covers it.
const SKIPPED: i32 = -1;

/// The answers from `messages` on to a file that is no transcript, no key and not UTF-8.
const NOT_TEXT: [Answer; 6] = [
    (2, 2, "not a transcript"),
    (2, 1, ""),
    (1, 2, "not a folder"),
    (1, 2, "not a PEM file"),
    (2, 2, "a public key is"),
    (1, 2, "not UTF-8"),
];

/// The answers from `watch` on to a file that no key file is as long as.
const TOO_LONG: [Answer; 2] = [(1, 2, "not a folder"), (4, 2, "more than")];

const LATIN1: [Answer; 3] = [(1, 1, ""), (1, 2, "UTF-8"), (1, 0, "")];

/// A file that no command expects, how it is made, and the answers of [`COMMANDS`].
type Input = (&'static str, fn(&Path), &'static [&'static [Answer]]);

const INPUTS: [Input; 10] = [
    ("absent.jsonl", nothing, &[&[(12, 2, "No such file")]]),
    (
        "pipe.jsonl",
        fifo,
        &[&[(7, 2, "a pipe"), (1, 2, "not a folder"), (4, 2, "a pipe")]],
    ),
    (
        "folder",
        |path| fs::create_dir(path).unwrap(),
        &[&[
            (1, 2, "nothing to verify"),
            (6, 2, "a directory"),
            // `watch` accepts an empty folder.
            (1, SKIPPED, ""),
            (1, 2, "private_key.pem"),
            (1, 2, "a directory"),
            (1, 2, "holds no keys"),
            (1, 2, "a directory"),
        ]],
    ),
    (
        "unknown.bin",
        |path| fs::write(path, [0_u8, 159, 146, 150, 10, 0]).unwrap(),
        &[&[(3, 2, "unknown format")], &NOT_TEXT],
    ),
    (
        "binary.jsonl",
        |path| fs::write(path, [0_u8, 159, 10, 255, 254, 10]).unwrap(),
        &[&[(1, 3, ""), (1, SKIPPED, ""), (1, 0, "")], &NOT_TEXT],
    ),
    (
        "latin1.json",
        |path| fs::write(path, b"{\"name\":\"caf\xe9\"}").unwrap(),
        &[&LATIN1, &NOT_TEXT],
    ),
    (
        "latin1.md",
        |path| fs::write(path, b"# caf\xe9\n").unwrap(),
        &[&LATIN1, &NOT_TEXT],
    ),
    (
        "long.jsonl",
        |path| sparse(path, ""),
        &[&[(7, 2, "line 1 is longer")], &TOO_LONG],
    ),
    (
        "late.jsonl",
        |path| sparse(path, "{\"event_type\":\"x\",\"payload\":{}}\n"),
        &[&[(5, 2, "line 2 is longer"), (2, 1, "")], &TOO_LONG],
    ),
    (
        "huge.json",
        |path| sparse(path, "{"),
        &[
            &[
                (2, 2, "more than"),
                (1, 2, "line 1 is longer"),
                (2, 2, "not a transcript"),
                (2, 2, "line 1 is longer"),
            ],
            &TOO_LONG,
        ],
    ),
];

fn nothing(_: &Path) {}

/// Ten gigabytes after `begin` without a line end, as a sparse file.
fn sparse(path: &Path, begin: &str) {
    fs::write(path, begin).unwrap();
    let file = File::options().write(true).open(path).unwrap();
    file.set_len(10_000_000_000).unwrap();
}

fn fifo(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

#[test]
fn each_bad_input_has_one_answer_from_each_command_and_changes_nothing() {
    let sandbox = ready();
    ended_record(&sandbox, "good.jsonl", 1);
    for (name, make, answers) in INPUTS {
        make(&sandbox.path(name));
        let answers = answers.concat().into_iter();
        let answers: Vec<_> = answers
            .flat_map(|(count, code, part)| vec![(code, part); count])
            .collect();
        assert_eq!(answers.len(), COMMANDS.len(), "{name}");
        for (command, (code, part)) in COMMANDS.iter().zip(answers) {
            if code != SKIPPED {
                changes_nothing(&sandbox, &command.replace("{}", name), code, part);
            }
        }
    }
}

/// The command exits with `code`, without a verdict if that is 2, and changes no file.
#[track_caller]
fn changes_nothing(sandbox: &Sandbox, command: &str, code: i32, part: &str) {
    // The locks under which seals are made hold nothing, and may be made by any sealing command.
    for lock in ["keys.lock", "sealing.lock"] {
        let path = sandbox.home().join(lock);
        drop(
            File::options()
                .append(true)
                .create(true)
                .open(path)
                .unwrap(),
        );
    }
    let before = (files_digest(&sandbox.home()), files_digest(&sandbox.work()));
    let ran = sandbox.sh(command);
    assert_eq!(ran.code, code, "{command}: {ran:?}");
    if code == 2 {
        assert_eq!(ran.stderr.lines().count(), 1, "{command}: {}", ran.stderr);
        assert!(ran.stderr.contains(part), "{command}: {}", ran.stderr);
    }
    let after = (files_digest(&sandbox.home()), files_digest(&sandbox.work()));
    assert_eq!(before, after, "{command:?} changed a file");
}

#[test]
fn keys_that_cannot_be_used_stop_sealing_before_anything_is_written() {
    let sandbox = ready();
    sandbox.write("right", "right\n");
    sandbox.write("wrong", "wrong\n");
    sandbox.ok("key new --name locked --usage observed --passphrase-file right");
    sandbox.write("log.jsonl", "{\"n\":1}\n");
    let key = |name: &str| sandbox.home().join("keys").join(name);
    for (damage, more, part) in [
        (
            "",
            "--key locked --passphrase-file wrong",
            "wrong passphrase",
        ),
        ("", "--key locked --passphrase-file absent", "absent"),
        ("", "--key nobody", "no key \"nobody\""),
        ("", "--key self", "is for native records"),
        ("garbage", "", "self-observed.observed.key"),
    ] {
        if !damage.is_empty() {
            fs::write(key("self-observed.observed.key"), damage).unwrap();
        }
        changes_nothing(&sandbox, &format!("seal log.jsonl {more}"), 2, part);
    }
    fs::remove_file(key("self-observed.observed.key")).unwrap();
    changes_nothing(&sandbox, "seal log.jsonl", 2, "self-observed.observed.key");
}

/// A file system in memory, gone with the value.
struct Disk(PathBuf);

impl Disk {
    fn mount(at: &Path, options: &str) -> Option<Self> {
        fs::create_dir(at).unwrap();
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "threadseal-test"])
            .arg(at)
            .output();
        if done.is_ok_and(|done| done.status.success()) {
            return Some(Self(at.to_owned()));
        }
        println!("skipped: no right to mount a file system");
        None
    }

    fn remount(&self, options: &str) {
        let done = Command::new("mount")
            .args(["-o", &format!("remount,{options}")])
            .arg(&self.0)
            .status();
        assert!(done.unwrap().success());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// Commands that write to `disk/`.
const WRITING: [&str; 7] = [
    "--home disk/home init",
    "--home disk/home key new",
    "seal disk/log.jsonl",
    "seal disk/a.json",
    "seal disk/t.jsonl --profile rye",
    "key export self --out disk/self.pem",
    "man disk/man",
];

fn sandbox_with_disk() -> (Sandbox, Option<Disk>) {
    let sandbox = ready();
    let disk = Disk::mount(&sandbox.path("disk"), "size=256k");
    if disk.is_some() {
        sandbox.write("disk/log.jsonl", "{\"n\":1}\n");
        sandbox.write("disk/a.json", "{\"a\":1}\n");
        sandbox.write("disk/a.md", "text\n");
        let transcript = rye_events(&sandbox, "disk/t.jsonl", 1);
        fill_page(&transcript);
    }
    (sandbox, disk)
}

/// Lengthens a transcript so that its last page has room for a few more bytes, but not for a
/// checkpoint. A write on a full disk then fails halfway through.
fn fill_page(transcript: &Path) {
    const PAGE: usize = 4096;
    const LEFT: usize = 100;
    let mut text = read(transcript);
    let (before, after) = (
        "{\"timestamp\": 1739820405.5, \"thread_id\": \"demo/rye-1\", \"event_type\": \"cognition_in\", \"payload\": {\"text\": \"",
        "\"}}\n",
    );
    let room = PAGE - LEFT - (text.len() + before.len() + after.len()) % PAGE;
    text.push_str(&format!("{before}{}{after}", "x".repeat(room)));
    assert_eq!(text.len() % PAGE, PAGE - LEFT);
    fs::write(transcript, text).unwrap();
}

fn writes_fail(sandbox: &Sandbox, part: &str) {
    for command in WRITING {
        changes_nothing(sandbox, command, 2, part);
    }
    // The log has a signature of Rye's before the document has it.
    let document = sandbox.path("disk/a.md");
    let before = read(&document);
    sandbox.exits(2, "seal disk/a.md --profile rye").warns(part);
    assert_eq!(read(&document), before);
}

#[test]
fn a_read_only_disk_is_reported_and_not_changed() {
    let (sandbox, Some(disk)) = sandbox_with_disk() else {
        return;
    };
    disk.remount("ro");
    writes_fail(&sandbox, "Read-only file system");
    sandbox.exits(3, "verify disk/log.jsonl");
}

#[test]
fn a_full_disk_is_reported_and_leaves_nothing_half_written() {
    let (sandbox, Some(_disk)) = sandbox_with_disk() else {
        return;
    };
    let filler = sandbox.path("disk/filler");
    let mut size = 1 << 20;
    while size > 0 {
        // Whole pages first, then the remaining bytes.
        let mut bytes = fs::read(&filler).unwrap_or_default();
        let had = bytes.len();
        bytes.resize(had + size, 7);
        if fs::write(&filler, &bytes).is_err() {
            bytes.truncate(had);
            fs::write(&filler, &bytes).unwrap();
            size /= 2;
        }
    }
    writes_fail(&sandbox, "No space left");
    fs::remove_file(&filler).unwrap();
    sandbox.ok("seal disk/log.jsonl disk/a.json");
    sandbox.ok("verify disk/log.jsonl disk/a.json");
}

#[test]
fn wrong_usage_has_its_whole_message_in_json() {
    let sandbox = Sandbox::new();
    let ran = sandbox.exits(2, "check-proof --json");
    let message = ran.json()["message"].text().to_owned();
    message.has("required arguments").has("<FILE>");
    message.lacks("Usage");
}
