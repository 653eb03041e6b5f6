//! The rows on one turn of a thread: its syncs, renames, bytes and CPU time, and what a slow disk
//! adds to it.
//!
//! ```text
//! threadseal run, a scripted model, a priced request and a batch of calls a turn, a home with a log
//!   under strace                        ─► syncs of each phase of a turn, renames, bytes written
//!   under strace, each sync 5 ms late   ─► time that a slow disk adds
//! ```
//! A turn is measured from the results of one batch to those of the next, so the start and the end
//! of the thread do not count. Nor does the first turn, which makes heads and names.

use super::table::Table;
use crate::console::Fallible;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use threadseal_store::clock::{Clock as _, SystemClock};

/// Turns that are measured.
const TURNS: u64 = 20;
/// Turns before them.
const FIRST: u64 = 2;
/// Runs of which the quickest counts.
const ROUNDS: usize = 5;
/// Calls in one batch, in the two rows.
const CALLS: [usize; 2] = [1, 4];
/// Delay of each sync on the slow disk, in microseconds.
const LATE: u32 = 5000;
/// Most syncs of a turn with one batch, and before the model is asked.
const SYNCS: f64 = 9.0;
const SYNCS_BEFORE: f64 = 3.0;
/// Most time that the slow disk may add to a turn.
const ADDED_SECONDS: f64 = 0.060;

const SYSCALLS: &str = "trace=fsync,fdatasync,rename,renameat,renameat2,write,pwrite64";
const DIRECTIVE: &str = "# turns\n\n```xml\n<directive name=\"turns\" version=\"1.0.0\">\n  <metadata>\n    \
    <description>d</description>\n    <category>demo</category>\n    <model id=\"script\" />\n    \
    <limits turns=\"100\" spend=\"5\" />\n    <permissions><execute><tool>rye.file-system.*</tool></execute>\
    </permissions>\n  </metadata>\n</directive>\n```\n\nRead the notes.\n";
const MODELS: &str = "models:\n  - {id: script, provider: anthropic, context_window: 100000, \
                      prices: {input: 1, output: 5}}\n";

/// Adds the rows.
pub(super) fn rows(table: &mut Table, folder: &Path) -> Fallible<()> {
    let command = std::env::current_exe()?.with_file_name("threadseal");
    if !command.exists() {
        table.line("| a turn | build the command first: cargo build --release | | no |");
        table.all_met = false;
        return Ok(());
    }
    if Command::new("strace").arg("-V").output().is_err() {
        table.line("| a turn | skipped: strace is missing | | |");
        return Ok(());
    }
    let user = User::new(command, folder.join("turns"))?;
    for calls in CALLS {
        let turn = user.traced(calls)?;
        let name = format!("syncs of a turn, a batch of {calls}");
        table.at_most(&name, turn.each(turn.syncs.iter().sum()), SYNCS);
        let before = turn.each(turn.syncs[Phase::Before as usize]);
        table.at_most("of these before the model is asked", before, SYNCS_BEFORE);
        table.line(&format!(
            "| of these for the batch; after its results; by the log | {:.1}; {:.1}; {:.1} | | |",
            turn.each(turn.syncs[Phase::Batch as usize]),
            turn.each(turn.syncs[Phase::Over as usize]),
            turn.each(turn.syncs[Phase::Log as usize]),
        ));
        table.line(&format!(
            "| renames, bytes written of that turn | {:.1}, {:.1} kB | | |",
            turn.each(turn.renames),
            turn.each(turn.bytes) / 1e3
        ));
    }
    let added = slowed(&user.command, folder)?;
    let name = format!("a sync {} ms late adds to a turn", LATE / 1000);
    table.seconds(&name, added, ADDED_SECONDS);
    let (wall, cpu) = user.plain_turn()?;
    table.line(&format!(
        "| a turn without strace, its CPU time | {:.1} ms, {:.1} ms | | |",
        wall * 1e3,
        cpu * 1e3
    ));
    Ok(())
}

/// The time that late syncs add to a turn, in memory where it can be: there no other sync waits.
fn slowed(command: &Path, folder: &Path) -> Fallible<f64> {
    let memory = Path::new("/dev/shm");
    let place = match memory.is_dir() {
        true => memory.join(format!("threadseal-bench-turns-{}", std::process::id())),
        false => folder.join("slow-turns"),
    };
    let measured = User::new(command.to_owned(), place.clone()).and_then(|user| {
        let [quick, slow] = [None, Some(LATE)].map(|late| user.turn(late));
        Ok((slow?.0 - quick?.0).max(0.0))
    });
    fs::remove_dir_all(&place)?;
    measured
}

/// A home with a log, and a project.
struct User {
    command: PathBuf,
    folder: PathBuf,
}

impl User {
    fn new(command: PathBuf, folder: PathBuf) -> Fallible<Self> {
        let user = Self { command, folder };
        let files = [
            ("p/.ai/directives/demo/turns.md", DIRECTIVE),
            ("p/.ai/config/agent/models.yaml", MODELS),
            ("p/notes.txt", "some notes\n"),
        ];
        for (name, text) in files {
            let path = user.folder.join(name);
            fs::create_dir_all(path.parent().ok_or("no folder")?)?;
            fs::write(path, text)?;
        }
        user.done(user.threadseal("init -q"))?;
        for (name, _) in &files[..2] {
            user.done(user.threadseal(&format!("seal -q --inline {name}")))?;
        }
        Ok(user)
    }

    fn threadseal(&self, words: &str) -> Command {
        let mut command = Command::new(&self.command);
        command.args(words.split(' '));
        self.place(&mut command);
        command
    }

    fn place(&self, command: &mut Command) {
        command.current_dir(&self.folder);
        command.env("THREADSEAL_HOME", self.folder.join("home"));
        command.stdin(Stdio::null());
    }

    fn done(&self, mut command: Command) -> Fallible<String> {
        let output = command.output()?;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        match output.status.success() {
            true => Ok(errors),
            false => Err(format!("{command:?}: {errors}").into()),
        }
    }

    /// Answers of `turns` turns with so many calls each, and the last one; the words of the run.
    fn script(&self, turns: u64, calls: usize) -> Fallible<[&'static str; 7]> {
        let call = "{tool: rye_file-system_read, input: {path: notes.txt}}";
        let calls = vec![call; calls].join(", ");
        let answer = format!(
            "- {{text: I read., calls: [{calls}], usage: {{input_tokens: 200, output_tokens: 20}}}}\n"
        );
        let text = answer.repeat(usize::try_from(turns)?);
        let script = format!("answers:\n{text}- {{text: Done.}}\n");
        fs::write(self.folder.join("answers.yaml"), script)?;
        Ok([
            "run",
            "demo/turns",
            "--project",
            "p",
            "--script",
            "answers.yaml",
            "-q",
        ])
    }

    fn traced(&self, calls: usize) -> Fallible<Turns> {
        let words = self.script(FIRST + TURNS, calls)?;
        let trace = self.folder.join("trace");
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-y", "-s", "300", "-e", SYSCALLS, "-o"]);
        command.arg(&trace).arg(&self.command).args(words);
        self.place(&mut command);
        self.done(command)?;
        let turns = Turns::of(&fs::read_to_string(trace)?, calls);
        match turns.count == TURNS {
            true => Ok(turns),
            false => Err(format!("{} turns were traced, not {TURNS}", turns.count).into()),
        }
    }

    /// Wall and CPU time of a turn: the difference of a long run and a short one.
    fn between(&self, run: impl Fn(&[&str]) -> Fallible<(f64, f64)>) -> Fallible<(f64, f64)> {
        let quickest = |turns: u64| -> Fallible<(f64, f64)> {
            let words = self.script(turns, 1)?;
            let mut least = (f64::MAX, f64::MAX);
            for _ in 0..ROUNDS {
                let (wall, cpu) = run(&words)?;
                least = (least.0.min(wall), least.1.min(cpu));
            }
            Ok(least)
        };
        let (short, long) = (quickest(FIRST)?, quickest(FIRST + TURNS)?);
        #[expect(clippy::cast_precision_loss, reason = "a few turns")]
        let turns = TURNS as f64;
        Ok(((long.0 - short.0) / turns, (long.1 - short.1) / turns))
    }

    /// The same under strace, with late syncs.
    fn turn(&self, late: Option<u32>) -> Fallible<(f64, f64)> {
        self.between(|words| {
            let mut command = Command::new("strace");
            command.args(["-f", "-qq", "-e", "trace=fsync,fdatasync", "-o", "trace"]);
            if let Some(late) = late {
                command.args(["-e", &format!("inject=fsync,fdatasync:delay_exit={late}")]);
            }
            command.arg(&self.command).args(words);
            self.place(&mut command);
            let began = SystemClock.elapsed();
            self.done(command)?;
            Ok((since(began), 0.0))
        })
    }

    fn plain_turn(&self) -> Fallible<(f64, f64)> {
        self.between(|words| {
            let mut command = Command::new("bash");
            command.args(["-c", "TIMEFORMAT='%3U %3S'; time \"$@\" >/dev/null", "bash"]);
            command.arg(&self.command).args(words);
            self.place(&mut command);
            let began = SystemClock.elapsed();
            let times = self.done(command)?;
            let last = times.lines().last().unwrap_or_default();
            let times = last.split(' ').map(str::parse::<f64>);
            let times = times.collect::<Result<Vec<_>, _>>()?;
            Ok((since(began), times.iter().sum()))
        })
    }
}

fn since(began: Duration) -> f64 {
    SystemClock.elapsed().saturating_sub(began).as_secs_f64()
}

/// The parts of a turn, and the work of other threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// After the results of a batch.
    Over,
    /// From the next write for the model until its answer.
    Before,
    /// From the answer until the results.
    Batch,
    Log,
}

/// Counts from the first results to the last ones.
#[derive(Debug, Default)]
struct Turns {
    count: u64,
    syncs: [u64; 4],
    renames: u64,
    bytes: u64,
}

impl Turns {
    fn of(trace: &str, calls: usize) -> Self {
        let before = calls * usize::try_from(FIRST).unwrap_or(0);
        let is_result = |line: &&str| event_of(line) == Some("tool_call_result");
        let results = trace.lines().filter(is_result).count();
        let writer = trace.lines().find(is_result).and_then(thread_of);
        let (mut turns, mut phase, mut seen) = (Self::default(), Phase::Over, 0);
        for line in trace.lines() {
            match event_of(line) {
                Some("cognition_out" | "tool_call_start") => phase = Phase::Batch,
                Some("tool_call_result") => {
                    (phase, seen) = (Phase::Over, seen + 1);
                    turns.count += u64::from(seen > before && seen % calls == 0);
                }
                _ => {}
            }
            let is_sync = line.contains(" fsync(") || line.contains(" fdatasync(");
            let is_for_asking = line.contains("transcript.") || line.contains("budget_ledger");
            if is_sync && phase == Phase::Over && is_for_asking {
                phase = Phase::Before;
            }
            if (before..results).contains(&seen) {
                let by = if thread_of(line) == writer {
                    phase
                } else {
                    Phase::Log
                };
                turns.syncs[by as usize] += u64::from(is_sync);
                turns.renames += u64::from(line.contains(" rename"));
                turns.bytes += written(line);
            }
        }
        turns
    }

    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn each(&self, count: u64) -> f64 {
        count as f64 / self.count as f64
    }
}

fn thread_of(line: &str) -> Option<&str> {
    line.split(' ').next()
}

/// The type of the event that a line writes into the transcript.
fn event_of(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("transcript.jsonl>, \"")?;
    let (_, rest) = rest.split_once("\\\"event_type\\\":\\\"")?;
    rest.split_once("\\\"").map(|(event, _)| event)
}

fn written(line: &str) -> u64 {
    let is_write = line.contains(" write") || line.contains(" pwrite64");
    let count = line
        .rsplit_once(" = ")
        .and_then(|(_, count)| count.parse().ok());
    count.filter(|_| is_write).unwrap_or(0)
}
