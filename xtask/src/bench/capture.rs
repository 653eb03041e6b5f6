//! The rows on capture: hooks of four agents at once, the watcher's work, and words in sessions.
//!
//! ```text
//! one agent, and four at once, each: a line, a hook, 40 times ─► median and 95th percentile
//! N sessions ─► watcher starts ─► rests a minute ─► a line in one ─► its seal
//! fewer sessions, 1 GB, archived ─► index ─► search
//! ```
//! All runs the release build of the command, in a home of its own.

use super::table::{Table, megabytes_of};
use crate::console::Fallible;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use threadseal_store::clock::{Clock as _, SystemClock};

/// Agents that run hooks at once.
const AGENTS: usize = 4;
/// Hooks of each agent.
const HOOKS: usize = 40;
/// Bytes of the session that a hook seals alone.
const SESSION: usize = 5_000_000;
/// Sessions that are watched, and the bytes of each; the second for `--quick`.
const SESSIONS: [(usize, usize); 2] = [(10_000, 1_000_000), (1000, 100_000)];
/// Sessions that are searched, likewise.
const SEARCHED: [(usize, usize); 2] = [(1000, 1_000_000), (1000, 100_000)];
/// How long the watcher rests while its CPU time is measured.
const REST: Duration = Duration::from_secs(60);
/// Ticks of a second in `/proc/PID/stat`: `getconf CLK_TCK` on Linux.
const TICKS: f64 = 100.0;

const HOOK_WATCHED: f64 = 0.015;
const HOOK_ALONE: f64 = 0.060;
const SEALED_WITHIN: f64 = 2.0;
const SEARCH: f64 = 0.200;
/// The share of a core.
const IDLE: f64 = 0.01;
const WATCHER_MEGABYTES: u64 = 64;

/// A user with a home.
struct User {
    command: PathBuf,
    folder: PathBuf,
}

struct Watcher(Child);

impl Drop for Watcher {
    fn drop(&mut self) {
        // If this fails, it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Adds the rows; `quick` makes fewer and smaller sessions.
pub(super) fn rows(table: &mut Table, folder: &Path, quick: bool) -> Fallible<()> {
    let command = std::env::current_exe()?.with_file_name("threadseal");
    if !command.exists() {
        table.line("| hooks | build the command first: cargo build --release | | no |");
        table.all_met = false;
        return Ok(());
    }
    let user = User::new(command.clone(), folder.join("hooks"))?;
    hooks(table, &user)?;
    let watched_user = User::new(command.clone(), folder.join("watched"))?;
    watched(table, &watched_user, SESSIONS[usize::from(quick)])?;
    fs::remove_dir_all(&watched_user.folder)?;
    let user = User::new(command, folder.join("searched"))?;
    searched(table, &user, SEARCHED[usize::from(quick)])
}

fn hooks(table: &mut Table, user: &User) -> Fallible<()> {
    let (alone, alone_of_four) = (user.hooks(1, 0)?, user.hooks(AGENTS, 1)?);
    let (watcher, _) = user.watch()?;
    let (watched, watched_of_four) = (user.hooks(1, 2)?, user.hooks(AGENTS, 3)?);
    drop(watcher);
    let what = "a hook without a watcher, session of 5 MB, median";
    table.seconds(what, alone.0, HOOK_ALONE);
    table.seconds("a hook with a watcher, median", watched.0, HOOK_WATCHED);
    for (what, alone, watched) in [
        ("a hook, 95th percentile", alone.1, watched.1),
        (
            "of four agents at once, median",
            alone_of_four.0,
            watched_of_four.0,
        ),
        (
            "of four agents at once, 95th percentile",
            alone_of_four.1,
            watched_of_four.1,
        ),
    ] {
        table.line(&format!(
            "| {what} | {:.1} ms without, {:.1} ms with a watcher | | |",
            alone * 1e3,
            watched * 1e3
        ));
    }
    Ok(())
}

fn watched(table: &mut Table, user: &User, (count, bytes): (usize, usize)) -> Fallible<()> {
    for number in 0..count {
        user.write(number, bytes)?;
    }
    let total = megabytes_of((count * bytes) as u64);
    let began = SystemClock.elapsed();
    drop(user.watch()?);
    let first = seconds(SystemClock.elapsed().saturating_sub(began));
    let began = SystemClock.elapsed();
    let (watcher, _) = user.watch()?;
    let again = seconds(SystemClock.elapsed().saturating_sub(began));
    table.line(&format!(
        "| the watcher seals and archives {count} sessions, {total:.0} MB; starts again | {first:.1} s; {again:.2} s | | |"
    ));
    let pid = watcher.0.id();
    let before = cpu_seconds(pid)?;
    std::thread::sleep(REST);
    let idle = (cpu_seconds(pid)? - before) / seconds(REST);
    table.ratio(
        &format!("the watcher of {count} sessions at rest, of a core"),
        idle,
        IDLE,
    );
    let sealed = user.time_to_seal()?;
    table.seconds("a line is sealed after", sealed, SEALED_WITHIN);
    table.megabytes(
        "the watcher, peak memory",
        peak_bytes(pid)?,
        WATCHER_MEGABYTES,
    );
    drop(watcher);
    Ok(())
}

fn searched(table: &mut Table, user: &User, (count, bytes): (usize, usize)) -> Fallible<()> {
    for number in 0..count {
        user.write(number, bytes)?;
    }
    drop(user.watch()?);
    let total = megabytes_of((count * bytes) as u64);
    let search = |words: &str| -> Fallible<f64> {
        let began = SystemClock.elapsed();
        let mut command = user.command();
        command
            .args(["search", words, "--quiet"])
            .stdout(Stdio::null());
        match command.status()?.success() {
            true => Ok(seconds(SystemClock.elapsed().saturating_sub(began))),
            false => Err(format!("{words} is not found").into()),
        }
    };
    // The first search brings the index up to date.
    let indexed = search("needle7")?;
    let index = fs::metadata(user.folder.join("home/index.sqlite"))?.len();
    table.line(&format!(
        "| the index of {total:.0} MB | {indexed:.1} s, {:.0} MB | | |",
        megabytes_of(index)
    ));
    for (words, what) in [
        ("needle7", "a rare word"),
        ("haystack", "a word of every turn"),
    ] {
        let times: Result<Vec<f64>, _> = (0..7).map(|_| search(words)).collect();
        let label = format!("search in {total:.0} MB, {what}");
        table.seconds(&label, percentile(times?, 0.5), SEARCH);
    }
    Ok(())
}

impl User {
    fn new(command: PathBuf, folder: PathBuf) -> Fallible<Self> {
        fs::create_dir_all(folder.join(".claude/projects/-w"))?;
        let user = Self { command, folder };
        if !user
            .command()
            .arg("init")
            .stdout(Stdio::null())
            .status()?
            .success()
        {
            return Err("init failed".into());
        }
        Ok(user)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.command);
        command
            .env("HOME", &self.folder)
            .env("THREADSEAL_HOME", self.folder.join("home"))
            .env_remove("CLAUDE_CONFIG_DIR")
            .stdin(Stdio::null());
        command
    }

    fn log(&self, number: usize) -> PathBuf {
        let name = format!("{}.jsonl", id(number));
        self.folder.join(".claude/projects/-w").join(name)
    }

    /// Writes a session of about `bytes` bytes.
    fn write(&self, number: usize, bytes: usize) -> Fallible<()> {
        let mut text = String::with_capacity(bytes + 4096);
        while text.len() < bytes {
            let turn = text.len();
            text.push_str(&line(number, turn));
        }
        Ok(fs::write(self.log(number), text)?)
    }

    /// Starts the watcher; it has looked at all files when this returns.
    fn watch(&self) -> Fallible<(Watcher, String)> {
        let mut child = self
            .command()
            .args(["watch", "--quiet", "--json"])
            .stdout(Stdio::piped())
            .spawn()?;
        let out = child.stdout.take().ok_or("no output")?;
        let watcher = Watcher(child);
        let mut lines = BufReader::new(out).lines();
        for line in lines.by_ref() {
            let line = line?;
            if line.contains("threadseal.watch.folders/1") {
                std::thread::spawn(move || lines.for_each(drop));
                return Ok((watcher, line));
            }
        }
        Err("the watcher ended".into())
    }

    /// Seconds of a hook, median and 95th percentile, while so many agents run them. The sessions of
    /// each `set` are its own.
    fn hooks(&self, agents: usize, set: usize) -> Fallible<(f64, f64)> {
        let agent = |agent: usize| -> Result<Vec<f64>, String> {
            let number = set * AGENTS + agent;
            let failed = |error: &dyn std::fmt::Display| error.to_string();
            self.write(number, SESSION)
                .map_err(|error| failed(&error))?;
            // The first one seals all of it.
            self.hook(number).map_err(|error| failed(&error))?;
            let mut times = Vec::new();
            for turn in 0..HOOKS {
                self.append(number, turn).map_err(|error| failed(&error))?;
                times.push(self.hook(number).map_err(|error| failed(&error))?);
            }
            Ok(times)
        };
        let times = std::thread::scope(|scope| {
            let agents: Vec<_> = (0..agents)
                .map(|number| scope.spawn(move || agent(number)))
                .collect();
            let mut all = Vec::new();
            for agent in agents {
                all.extend(agent.join().map_err(|_| "an agent panicked".to_owned())??);
            }
            Ok::<_, String>(all)
        })?;
        Ok((percentile(times.clone(), 0.5), percentile(times, 0.95)))
    }

    fn append(&self, number: usize, turn: usize) -> Fallible<()> {
        let mut log = File::options().append(true).open(self.log(number))?;
        Ok(log.write_all(line(number, turn).as_bytes())?)
    }

    /// Seconds of one hook.
    fn hook(&self, number: usize) -> Fallible<f64> {
        let payload = serde_json::json!({
            "session_id": id(number),
            "transcript_path": self.log(number),
            "cwd": "/w",
            "hook_event_name": "PostToolUse",
        });
        let began = SystemClock.elapsed();
        let mut child = self
            .command()
            .args(["hook", "claude-code"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()?;
        let mut input = child.stdin.take().ok_or("no input")?;
        input.write_all(payload.to_string().as_bytes())?;
        drop(input);
        if !child.wait()?.success() {
            return Err("a hook failed".into());
        }
        Ok(seconds(SystemClock.elapsed().saturating_sub(began)))
    }

    /// Seconds from a line that an agent appends to its seal.
    fn time_to_seal(&self) -> Fallible<f64> {
        let seals = PathBuf::from(format!("{}.seal", self.log(0).display()));
        let before = fs::metadata(&seals)?.len();
        let began = SystemClock.elapsed();
        self.append(0, usize::MAX / 2)?;
        while fs::metadata(&seals)?.len() == before {
            let waited = SystemClock.elapsed().saturating_sub(began);
            if waited > Duration::from_secs(60) {
                return Err("the line is never sealed".into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(seconds(SystemClock.elapsed().saturating_sub(began)))
    }
}

fn id(number: usize) -> String {
    format!("{number:08x}-0b1c-4d5e-8f60-718293a4b5c6")
}

/// A prompt of about a kilobyte. Its words differ, so that no two sessions share them.
fn line(session: usize, turn: usize) -> String {
    let mut words = String::new();
    let mut state = (session as u64) << 32 | turn as u64;
    for _ in 0..100 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        words.push_str(&format!("word{} ", (state >> 33) % 20_000));
    }
    if turn == 0 {
        words.push_str(&format!("needle{session} "));
    }
    let message = serde_json::json!({
        "parentUuid": null, "isSidechain": false, "uuid": format!("u{turn}"), "sessionId": id(session),
        "timestamp": "2026-01-01T00:00:00Z", "cwd": "/w", "version": "2.1.197", "type": "user",
        "message": {"role": "user", "content": format!("haystack {words}")},
    });
    format!("{message}\n")
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

fn percentile(mut times: Vec<f64>, share: f64) -> f64 {
    times.sort_by(f64::total_cmp);
    let last = times.len().saturating_sub(1);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index from a share"
    )]
    let at = (last as f64 * share).round() as usize;
    times.get(at).copied().unwrap_or_default()
}

/// User and system time of a process (`proc_pid_stat(5)`, fields 14 and 15).
fn cpu_seconds(pid: u32) -> Fallible<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after_name = text.rsplit_once(')').ok_or("no name")?.1;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = |at: usize| -> Fallible<f64> { Ok(fields.get(at).ok_or("no field")?.parse()?) };
    Ok((ticks(11)? + ticks(12)?) / TICKS)
}

/// The most memory of a process so far (`proc_pid_status(5)`, `VmHWM`).
pub(super) fn peak_bytes(pid: u32) -> Fallible<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next());
    Ok(kilobytes.ok_or("no peak")?.parse::<u64>()? * 1024)
}
