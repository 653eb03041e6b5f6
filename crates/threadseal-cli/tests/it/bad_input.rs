//! Each bad input against each command: exact exit code, one clear line, nothing changed.

use crate::fixtures::{ended_record, ready};
use crate::sandbox::{Ran, Sandbox, files_digest};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file that a command does not expect. `{}` in a command is replaced by its name.
struct Input {
    name: &'static str,
    make: fn(&Path),
    /// The exit code and a part of standard error, for each of [`COMMANDS`].
    expected: [Expected; COMMANDS.len()],
}

/// `(2, part)`: no verdict, one line with `part`. Other codes: no such line is expected.
type Expected = (i32, &'static str);

const COMMANDS: [&[&str]; 12] = [
    &["verify", "{}"],
    &["seal", "{}"],
    &["show", "{}"],
    &["messages", "{}"],
    &["render", "{}"],
    &["diff", "good.jsonl", "{}"],
    &["diff", "{}", "good.jsonl"],
    &["watch", "{}"],
    &["key", "import", "{}"],
    &["trust", "add", "{}", "--name", "x"],
    &["verify", "good.jsonl", "--trust", "{}"],
    &["key", "new", "--passphrase-file", "{}"],
];

fn nothing(_: &Path) {}

fn sparse(path: &Path) {
    // Ten gigabytes without a line end, as a sparse file.
    File::create(path).unwrap().set_len(10_000_000_000).unwrap();
}

fn event_then_sparse(path: &Path) {
    fs::write(path, "{\"event_type\":\"x\",\"payload\":{}}\n").unwrap();
    let file = File::options().write(true).open(path).unwrap();
    file.set_len(10_000_000_000).unwrap();
}

fn fifo(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

const INPUTS: [Input; 10] = [
    Input {
        name: "absent.jsonl",
        make: nothing,
        expected: [(2, "No such file"); 12],
    },
    Input {
        name: "pipe.jsonl",
        make: fifo,
        expected: [
            (2, "a pipe"),
            (2, "a pipe"),
            (2, "a pipe"),
            (2, "a pipe"),
            (2, "a pipe"),
            (2, "a pipe"),
            (2, "a pipe"),
            (2, "not a folder"),
            (2, "a pipe"),
            (2, "a pipe"),
            (2, "a pipe"),
            (2, "a pipe"),
        ],
    },
    Input {
        name: "folder",
        make: |path| fs::create_dir(path).unwrap(),
        expected: [
            (2, "nothing to verify"),
            (2, "a directory"),
            (2, "a directory"),
            (2, "a directory"),
            (2, "a directory"),
            (2, "a directory"),
            (2, "a directory"),
            // `watch` accepts an empty folder.
            SKIPPED,
            (2, "private_key.pem"),
            (2, "a directory"),
            (2, "holds no keys"),
            (2, "a directory"),
        ],
    },
    Input {
        name: "unknown.bin",
        make: |path| fs::write(path, [0_u8, 159, 146, 150, 10, 0]).unwrap(),
        expected: [
            (2, "unknown format"),
            (2, "unknown format"),
            (2, "unknown format"),
            (2, "not a transcript"),
            (2, "not a transcript"),
            (1, ""),
            (1, ""),
            (2, "not a folder"),
            (2, "not a PEM file"),
            (2, "a public key is"),
            (2, "a public key is"),
            (2, "not UTF-8"),
        ],
    },
    Input {
        name: "binary.jsonl",
        make: |path| fs::write(path, [0_u8, 159, 10, 255, 254, 10]).unwrap(),
        expected: [
            (3, ""),
            SKIPPED,
            (0, ""),
            (2, "not a transcript"),
            (2, "not a transcript"),
            (1, ""),
            (1, ""),
            (2, "not a folder"),
            (2, "not a PEM file"),
            (2, "a public key is"),
            (2, "a public key is"),
            (2, "not UTF-8"),
        ],
    },
    Input {
        name: "latin1.json",
        make: |path| fs::write(path, b"{\"name\":\"caf\xe9\"}").unwrap(),
        expected: [
            (1, ""),
            (2, "UTF-8"),
            (0, ""),
            (2, "not a transcript"),
            (2, "not a transcript"),
            (1, ""),
            (1, ""),
            (2, "not a folder"),
            (2, "not a PEM file"),
            (2, "a public key is"),
            (2, "a public key is"),
            (2, "not UTF-8"),
        ],
    },
    Input {
        name: "latin1.md",
        make: |path| fs::write(path, b"# caf\xe9\n").unwrap(),
        expected: [
            (1, ""),
            (2, "UTF-8"),
            (0, ""),
            (2, "not a transcript"),
            (2, "not a transcript"),
            (1, ""),
            (1, ""),
            (2, "not a folder"),
            (2, "not a PEM file"),
            (2, "a public key is"),
            (2, "a public key is"),
            (2, "not UTF-8"),
        ],
    },
    Input {
        name: "long.jsonl",
        make: sparse,
        expected: [
            (2, "line 1 is longer"),
            (2, "line 1 is longer"),
            (2, "line 1 is longer"),
            (2, "line 1 is longer"),
            (2, "line 1 is longer"),
            (2, "line 1 is longer"),
            (2, "line 1 is longer"),
            (2, "not a folder"),
            (2, "more than"),
            (2, "more than"),
            (2, "more than"),
            (2, "more than"),
        ],
    },
    Input {
        name: "late.jsonl",
        make: event_then_sparse,
        expected: [
            (2, "line 2 is longer"),
            (2, "line 2 is longer"),
            (2, "line 2 is longer"),
            (2, "line 2 is longer"),
            (2, "line 2 is longer"),
            (1, ""),
            (1, ""),
            (2, "not a folder"),
            (2, "more than"),
            (2, "more than"),
            (2, "more than"),
            (2, "more than"),
        ],
    },
    Input {
        name: "huge.json",
        make: sparse_object,
        expected: [
            (2, "more than"),
            (2, "more than"),
            (2, "line 1 is longer"),
            (2, "not a transcript"),
            (2, "not a transcript"),
            (2, "line 1 is longer"),
            (2, "line 1 is longer"),
            (2, "not a folder"),
            (2, "more than"),
            (2, "more than"),
            (2, "more than"),
            (2, "more than"),
        ],
    },
];

/// This command accepts this input; another test covers it.
const SKIPPED: Expected = (-1, "");

fn sparse_object(path: &Path) {
    fs::write(path, "{").unwrap();
    let file = File::options().write(true).open(path).unwrap();
    file.set_len(10_000_000_000).unwrap();
}

#[test]
fn each_bad_input_has_one_answer_from_each_command_and_changes_nothing() {
    let sandbox = ready();
    ended_record(&sandbox, "good.jsonl", 1);
    for input in &INPUTS {
        (input.make)(&sandbox.work().join(input.name));
        for (command, (code, part)) in COMMANDS.iter().zip(input.expected) {
            if (code, part) == SKIPPED {
                continue;
            }
            let before = (files_digest(&sandbox.home()), files_digest(&sandbox.work()));
            let command: Vec<String> = command
                .iter()
                .map(|word| word.replace("{}", input.name))
                .collect();
            let ran = sandbox.run(&command);
            expect(&ran, code, part, &command.join(" "));
            let after = (files_digest(&sandbox.home()), files_digest(&sandbox.work()));
            assert_eq!(before, after, "{command:?} changed a file");
        }
    }
}

#[track_caller]
fn expect(ran: &Ran, code: i32, part: &str, what: &str) {
    assert_eq!(
        ran.code, code,
        "{what}\n-- stdout\n{}\n-- stderr\n{}",
        ran.stdout, ran.stderr
    );
    if code == 2 {
        assert_eq!(ran.stderr.lines().count(), 1, "{what}: {}", ran.stderr);
        assert!(ran.stderr.contains(part), "{what}: {}", ran.stderr);
    }
}

#[test]
fn keys_that_cannot_be_used_stop_sealing_before_anything_is_written() {
    let sandbox = ready();
    sandbox.write("right", "right\n");
    sandbox.write("wrong", "wrong\n");
    sandbox
        .run([
            "key",
            "new",
            "--name",
            "locked",
            "--usage",
            "observed",
            "--passphrase-file",
            "right",
        ])
        .exits(0);
    sandbox.write("log.jsonl", "{\"n\":1}\n");
    let key = |name: &str| sandbox.home().join("keys").join(name);
    let cases: [(&str, &[&str], &str); 5] = [
        (
            "the wrong passphrase",
            &["--key", "locked", "--passphrase-file", "wrong"],
            "wrong passphrase",
        ),
        (
            "no such passphrase file",
            &["--key", "locked", "--passphrase-file", "absent"],
            "absent",
        ),
        ("no such key", &["--key", "nobody"], "no key \"nobody\""),
        (
            "a key for something else",
            &["--key", "self"],
            "is for native records",
        ),
        ("a damaged key", &[], "self-observed.observed.key"),
    ];
    for (what, more, part) in cases {
        if what == "a damaged key" {
            fs::write(key("self-observed.observed.key"), "garbage").unwrap();
        }
        let before = (files_digest(&sandbox.home()), files_digest(&sandbox.work()));
        let command = [&["seal", "log.jsonl"], more].concat();
        expect(&sandbox.run(&command), 2, part, what);
        let after = (files_digest(&sandbox.home()), files_digest(&sandbox.work()));
        assert_eq!(before, after, "{what} changed a file");
    }
    fs::remove_file(key("self-observed.observed.key")).unwrap();
    let ran = sandbox.run(["seal", "log.jsonl"]);
    expect(
        &ran,
        2,
        "self-observed.observed.key",
        "a key without its private half",
    );
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
const WRITING: [&[&str]; 8] = [
    &["--home", "disk/home", "init"],
    &["--home", "disk/home", "key", "new"],
    &["seal", "disk/log.jsonl"],
    &["seal", "disk/a.json"],
    &["seal", "disk/a.md", "--profile", "rye"],
    &["seal", "disk/t.jsonl", "--profile", "rye"],
    &["key", "export", "self", "--out", "disk/self.pem"],
    &["man", "disk/man"],
];

fn sandbox_with_disk() -> (Sandbox, Option<Disk>) {
    let sandbox = ready();
    let disk = Disk::mount(&sandbox.work().join("disk"), "size=256k");
    if disk.is_some() {
        sandbox.write("disk/log.jsonl", "{\"n\":1}\n");
        sandbox.write("disk/a.json", "{\"a\":1}\n");
        sandbox.write("disk/a.md", "text\n");
        let transcript = crate::fixtures::rye_events(&sandbox, "disk/t.jsonl", 1);
        fill_page(&transcript);
    }
    (sandbox, disk)
}

/// Lengthens a transcript so that its last page has room for a few more bytes, but not for a
/// checkpoint. A write on a full disk then fails halfway through.
fn fill_page(transcript: &Path) {
    const PAGE: usize = 4096;
    const LEFT: usize = 100;
    let mut text = fs::read_to_string(transcript).unwrap();
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
        let before = (files_digest(&sandbox.home()), files_digest(&sandbox.work()));
        expect(&sandbox.run(command), 2, part, &command.join(" "));
        let after = (files_digest(&sandbox.home()), files_digest(&sandbox.work()));
        assert_eq!(before, after, "{command:?} changed a file");
    }
}

#[test]
fn a_read_only_disk_is_told_and_left_alone() {
    let (sandbox, Some(disk)) = sandbox_with_disk() else {
        return;
    };
    disk.remount("ro");
    writes_fail(&sandbox, "Read-only file system");
    sandbox.run(["verify", "disk/log.jsonl"]).exits(3);
}

#[test]
fn a_full_disk_is_told_and_nothing_half_written_stays() {
    let (sandbox, Some(_disk)) = sandbox_with_disk() else {
        return;
    };
    let filler = sandbox.work().join("disk/filler");
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
    sandbox
        .run(["seal", "disk/log.jsonl", "disk/a.json"])
        .exits(0);
    sandbox
        .run(["verify", "disk/log.jsonl", "disk/a.json"])
        .exits(0);
}

#[test]
fn wrong_usage_is_told_whole_in_json_as_well() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(["check-proof", "--json"]).exits(2);
    let message = ran.json()["message"].as_str().unwrap().to_owned();
    assert!(
        message.contains("required arguments") && message.contains("<FILE>"),
        "{message}"
    );
    assert!(!message.contains("Usage"), "{message}");
}
