//! The rows on pathological inputs: what the command takes for each, in time and memory.
//!
//! ```text
//! a small honest file, and one piece repeated to megabytes ─► a command ─► its time, its peak memory
//! ```
//! The time is in passes that read and hash the same file in the same run, with the start of the command.
//! The target is on memory. A command that refuses the input by a named bound meets it as well. A command
//! that answers with a panic, or is ended by the system, fails the bench.

use super::table::{Table, job, megabytes_of};
use crate::console::Fallible;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;
use threadseal_store::clock::{Clock as _, SystemClock};

/// Most memory of a command in MB, whatever its input is.
const MEGABYTES: u64 = 256;
/// Between two looks at the memory of a command.
const PAUSE: Duration = Duration::from_millis(2);
/// Bytes that are written at once.
const BLOCK: usize = 1 << 20;
/// The exit code of a panic.
const PANIC: i32 = 101;

/// An input, and the commands that it is given to.
struct Input {
    name: &'static str,
    /// The name of the file, from which some commands tell its kind.
    file: &'static str,
    /// Its beginning: a text, or a file below `testkit`.
    begins: Begins,
    piece: &'static str,
    megabytes: usize,
    ends: &'static str,
    /// `@` is the file.
    commands: &'static [&'static str],
}

#[derive(Clone, Copy)]
enum Begins {
    Text(&'static str),
    File(&'static str),
}

const NATIVE: Begins = Begins::File("transcripts/native/valid.jsonl");
const RYE: Begins = Begins::File("transcripts/rye/three.jsonl");
const SCROLL: Begins = Begins::File("scroll/chains/signed.jsonl");
const LEDGER: Begins = Begins::File("ledger/chains/whole.jsonl");
const SEAL: &[&str] = &["seal @"];
const BOTH: &[&str] = &["verify @", "seal --inline @"];

const INPUTS: [Input; 16] = [
    tail("native record, then line ends", NATIVE, "\n", 120),
    tail("native record, then `{}` lines", NATIVE, "{}\n", 180),
    tail("native record, then one line", NATIVE, "x", 500),
    tail("Rye transcript, then `{}` lines", RYE, "{}\n", 180),
    tail("ledger, then line ends", LEDGER, "\n", 20),
    tail(
        "scroll, then turns of one member",
        SCROLL,
        "{\"version\":\"scroll/0.1\"}\n",
        60,
    ),
    log("log of line ends", "\n", 1, &["seal @", "verify @"]),
    log("log of line ends", "\n", 120, SEAL),
    log("log of `{}` lines", "{}\n", 1000, SEAL),
    document(
        "JSON of strings",
        "d.json",
        "\"\\u0041\",",
        60,
        ["{\"a\":[", "0]}"],
    ),
    document("JSON of arrays", "d.json", "[],", 60, ["{\"a\":[", "0]}"]),
    document(
        "JSON of strings",
        "d.json",
        "\"\\u0041\",",
        1000,
        ["{\"a\":[", "0]}"],
    ),
    document("YAML of line ends", "d.yaml", "\n", 60, ["a: 1\n", ""]),
    document("YAML of a list", "d.yaml", "- a\n", 60, ["", ""]),
    document("Markdown of line ends", "d.md", "\n", 1000, ["# a\n", ""]),
    Input {
        name: "trust store of empty tables",
        file: "../home/trust.toml",
        begins: Begins::Text(""),
        piece: "[[a]]\n",
        megabytes: 3,
        ends: "",
        commands: &["trust list"],
    },
];

const fn tail(name: &'static str, begins: Begins, piece: &'static str, megabytes: usize) -> Input {
    Input {
        name,
        file: "record.jsonl",
        begins,
        piece,
        megabytes,
        ends: "",
        commands: &["verify @"],
    }
}

const fn log(
    name: &'static str,
    piece: &'static str,
    megabytes: usize,
    commands: &'static [&'static str],
) -> Input {
    Input {
        name,
        file: "log.jsonl",
        begins: Begins::Text(""),
        piece,
        megabytes,
        ends: "",
        commands,
    }
}

const fn document(
    name: &'static str,
    file: &'static str,
    piece: &'static str,
    megabytes: usize,
    [begins, ends]: [&'static str; 2],
) -> Input {
    Input {
        name,
        file,
        begins: Begins::Text(begins),
        piece,
        megabytes,
        ends,
        commands: BOTH,
    }
}

/// Adds the rows.
pub(super) fn rows(table: &mut Table, folder: &Path) -> Fallible<()> {
    let command = std::env::current_exe()?.with_file_name("threadseal");
    if !command.exists() {
        table.line(
            "| pathological inputs | build the command first: cargo build --release | | no |",
        );
        table.all_met = false;
        return Ok(());
    }
    let place = folder.join("pathological");
    for input in &INPUTS {
        let work = place.join("work");
        fs::create_dir_all(&work)?;
        let user = |words: &str| {
            let mut command = Command::new(&command);
            command.args(words.split(' ')).current_dir(&work);
            command.env("THREADSEAL_HOME", place.join("home"));
            command.stdout(Stdio::null()).stderr(Stdio::null());
            command
        };
        if !user("init -q").status()?.success() {
            return Err("no home was made".into());
        }
        let file = work.join(input.file);
        write(&file, input)?;
        let pass = job("hash", &file, &[])?.wall_seconds;
        for words in input.commands {
            let cost = measured(user(&words.replace('@', input.file)).spawn()?)?;
            let name = format!(
                "{}, {} MB: `{}`",
                input.name,
                input.megabytes,
                words.replace(" @", "")
            );
            row(table, &name, &cost, pass);
        }
        fs::remove_dir_all(&place)?;
    }
    Ok(())
}

/// What a command took.
struct Taken {
    seconds: f64,
    bytes: u64,
    exit: Option<i32>,
}

fn row(table: &mut Table, name: &str, taken: &Taken, pass: f64) {
    let answered = taken.exit.is_some_and(|exit| exit != PANIC);
    let met = answered && taken.bytes < MEGABYTES * 1_000_000;
    table.all_met &= met;
    let exit = taken
        .exit
        .map_or("none".to_owned(), |exit| exit.to_string());
    table.line(&format!(
        "| {name} | {:.1} ×, {:.0} MB peak, exit {exit} | < {MEGABYTES} MB | {} |",
        taken.seconds / pass,
        megabytes_of(taken.bytes),
        if met { "yes" } else { "no" }
    ));
}

fn write(path: &Path, input: &Input) -> Fallible<()> {
    let mut file = BufWriter::with_capacity(BLOCK, File::create(path)?);
    match input.begins {
        Begins::Text(text) => file.write_all(text.as_bytes())?,
        Begins::File(name) => file.write_all(&fs::read(testkit().join(name))?)?,
    }
    let pieces = input.piece.repeat(BLOCK.div_ceil(input.piece.len()));
    let (mut left, whole) = (input.megabytes * 1_000_000, input.piece.len());
    while left >= whole {
        let length = left.min(pieces.len());
        let length = length - length % whole;
        file.write_all(pieces.get(..length).ok_or("a piece is cut")?.as_bytes())?;
        left -= length;
    }
    file.write_all(input.ends.as_bytes())?;
    Ok(file.into_inner()?.sync_all()?)
}

fn testkit() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit")
}

/// Waits for a command, and looks at its memory meanwhile: the system keeps the highest value.
fn measured(mut child: Child) -> Fallible<Taken> {
    let (clock, mut bytes) = (SystemClock, 0);
    let started = clock.elapsed();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Taken {
                seconds: (clock.elapsed() - started).as_secs_f64(),
                bytes,
                exit: status.code(),
            });
        }
        // A command that has just ended has no memory any more.
        bytes = super::capture::peak_bytes(child.id())
            .unwrap_or(bytes)
            .max(bytes);
        thread::sleep(PAUSE);
    }
}
