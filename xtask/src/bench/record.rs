//! The rows on `threadseal record`: one event after the other, and many at once.
//!
//! ```text
//! latency      an event goes in ─► its `durable` comes out     beside: append and fsync, here
//! throughput   a file of events goes in                        beside: the library's recorder
//! ```
//! Both run on the same disk in the same run; the ratios compare them.

use super::table::{Table, job};
use crate::console::Fallible;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use threadseal_store::clock::{Clock as _, SystemClock};

/// Events that wait for each other.
const WAITING: usize = 1000;
/// Events in one file.
const MANY: u64 = 200_000;
/// How much longer than an append and its fsync an event may take: two more switches of threads, two
/// of processes, and the line's hash.
const LATENCY: f64 = 2.5;
/// How much longer than the library the command may take for each event: it reads and answers lines.
const THROUGHPUT: f64 = 3.0;
const EVENT: &str = "{\"type\":\"tool_call_result\",\"payload\":{\"call_id\":\"c1\",\"output\":\"0123456789012345\"}}\n";

/// Adds the rows.
pub(super) fn rows(table: &mut Table, folder: &Path) -> Fallible<()> {
    let command = std::env::current_exe()?.with_file_name("threadseal");
    if !command.exists() {
        table.line("| record | build the command first: cargo build --release | | no |");
        table.all_met = false;
        return Ok(());
    }
    let place = folder.join("record");
    fs::create_dir(&place)?;
    let run = |words: &str| {
        let mut command = Command::new(&command);
        command.args(words.split(' ')).current_dir(&place);
        command.env("THREADSEAL_HOME", place.join("home"));
        command
    };
    if !run("init -q").status()?.success() {
        return Err("no home was made".into());
    }
    let floor = appends(&place.join("floor"))?;
    let event = waiting(run(
        "record --thread waiting --seal-every 100000 --seal-after 3600",
    ))?;
    table.line(&format!(
        "| *append 300 bytes and fsync, median of {WAITING}* | {:.3} ms | 1 × | |",
        floor.as_secs_f64() * 1e3
    ));
    let name = format!("record: an event to its `durable`, median of {WAITING}");
    table.ratio(&name, event.as_secs_f64() / floor.as_secs_f64(), LATENCY);
    let library = job(
        "durable",
        &place.join("library.jsonl"),
        &[&MANY.to_string()],
    )?;
    let piped = piped(run("record --thread piped --on-eof complete"), &place)?;
    table.line(&format!(
        "| *{MANY} events, 1000 a seal, by the library* | {:.2} s | 1 × | |",
        library.wall_seconds
    ));
    let name = format!("record: {MANY} events from a file, all answered");
    table.ratio(
        &name,
        piped.as_secs_f64() / library.wall_seconds,
        THROUGHPUT,
    );
    Ok(())
}

/// The median time of an append of 300 bytes with its fsync.
fn appends(path: &Path) -> Fallible<Duration> {
    let mut file = File::create(path)?;
    let line = [b'x'; 300];
    let mut times = Vec::new();
    for _ in 0..WAITING {
        let began = SystemClock.elapsed();
        file.write_all(&line)?;
        file.sync_data()?;
        times.push(SystemClock.elapsed().saturating_sub(began));
    }
    Ok(median(times))
}

/// The median time from an event to its `durable`.
fn waiting(mut command: Command) -> Fallible<Duration> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().ok_or("no input")?;
    let mut answers = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
    let mut times = Vec::new();
    for _ in 0..WAITING {
        let began = SystemClock.elapsed();
        input.write_all(EVENT.as_bytes())?;
        loop {
            let answer = answers.next().ok_or("the recorder is gone")??;
            if answer.starts_with("{\"durable\"") {
                break;
            }
        }
        times.push(SystemClock.elapsed().saturating_sub(began));
    }
    input.write_all(b"{\"end\":\"completed\"}\n")?;
    match child.wait()?.success() {
        true => Ok(median(times)),
        false => Err("the record did not end".into()),
    }
}

fn piped(mut command: Command, place: &Path) -> Fallible<Duration> {
    let events = place.join("events");
    fs::write(&events, EVENT.repeat(usize::try_from(MANY)?))?;
    let answers = File::create(place.join("answers"))?;
    let began = SystemClock.elapsed();
    let done = command
        .stdin(File::open(&events)?)
        .stdout(answers)
        .status()?;
    match done.success() {
        true => Ok(SystemClock.elapsed().saturating_sub(began)),
        false => Err("not all events were recorded".into()),
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
