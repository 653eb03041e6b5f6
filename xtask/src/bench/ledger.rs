//! The rows on step ledgers: the published `abstractruntime` package and this implementation, on
//! the same records.

use super::cost::Cost;
use super::table::{Table, job, median, megabytes_of, parse_cost};
use crate::console::Fallible;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The requirements of the package, shared with the interoperability tests, so that all use one
/// version.
const REQUIREMENTS: &str = "interop/ledger/requirements.txt";
const ROUNDS: usize = 3;
/// Records to append: where `abstractruntime`'s time grows linearly with their number, and where it
/// grows quadratically.
const LINEAR: u64 = 10_000;
const QUADRATIC: u64 = 1000;
/// About 122 MB.
const VERIFIED: u64 = 100_000;
const MOST: u64 = 10_000_000;
const MEMORY: u64 = 50;
/// Tests of the store in which processes append to one run, and which print their speed.
const RACES: &str = "eight_processes_append_to_one_run_in_";
const RACE_TARGET: f64 = 2000.0;

/// Adds the rows; `quick` leaves out the ten million records.
pub(super) fn rows(table: &mut Table, folder: &Path, quick: bool) -> Fallible<()> {
    let peer = Peer::install()?;
    appends(table, &peer, folder)?;
    races(table)?;
    verify(table, &peer, folder)?;
    let counts: &[u64] = if quick {
        &[VERIFIED]
    } else {
        &[VERIFIED, 1_000_000, MOST]
    };
    for count in counts {
        let cost = job("ledger-verify-stream", folder, &[&count.to_string()])?;
        let rate = megabytes_of(cost.extra) / cost.wall_seconds;
        table.megabytes(
            &format!(
                "ledger verify, {count} small records ({:.0} MB) made on the way, {rate:.0} MB/s, peak memory",
                megabytes_of(cost.extra)
            ),
            cost.peak_bytes,
            MEMORY,
        );
    }
    Ok(())
}

fn appends(table: &mut Table, peer: &Peer, folder: &Path) -> Fallible<()> {
    for (kind, count, target) in [("jsonl", QUADRATIC, Some(20.0)), ("sqlite", LINEAR, None)] {
        let ways: [(&str, &[&str]); 3] = [
            ("one by one, not synced, as theirs", &["written", "1"]),
            ("100 a batch, not synced", &["written", "100"]),
            ("100 a batch, each durable", &["durable", "100"]),
        ];
        let mut ours = ways.map(|_| Vec::new());
        let mut theirs = Vec::new();
        let number = count.to_string();
        for _ in 0..ROUNDS {
            for ((_, how), costs) in ways.iter().zip(&mut ours) {
                let words = [&[number.as_str()], *how].concat();
                costs.push(fresh(folder, |to| job("ledger-append", to, &words))?);
            }
            theirs.push(fresh(folder, |to| peer.append(kind, to, &number))?);
        }
        let theirs = median(&theirs);
        for ((how, _), costs) in ways.iter().zip(&ours) {
            let work = format!(
                "ledger append, {count} records, chained and signed, {how}; the package chained, in its {kind} store"
            );
            side_by_side(table, &work, &median(costs), &theirs, target);
        }
    }
    Ok(())
}

/// Processes that append to one run. The better of two databases must meet the target.
fn races(table: &mut Table) -> Fallible<()> {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let output = Command::new("cargo")
            .args(["test", "--quiet", "--release"])
            .args(["--package", "threadseal-store", "--lib", RACES])
            .args(["--", "--nocapture", "--test-threads=1"])
            .output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
        rounds.push(String::from_utf8(output.stdout)?);
    }
    let mut best = 0.0_f64;
    for store in ["SQLite", "PostgreSQL"] {
        let says = |text: &String| {
            let line = text
                .lines()
                .find(|line| line.contains(&format!(" in {store}: ")))?;
            let rate = line.rsplit(": ").next()?.split(' ').next()?;
            rate.parse::<f64>().ok()
        };
        let mut rates: Vec<f64> = rounds.iter().filter_map(says).collect();
        rates.sort_by(f64::total_cmp);
        match rates.get(rates.len() / 2) {
            Some(rate) => {
                table.line(&format!(
                    "| 8 processes, 2000 durable appends each, one run in {store} | {rate:.0}/s | | |"
                ));
                best = best.max(*rate);
            }
            None => table.line(&format!(
                "| the same in {store} | it is not installed | | |"
            )),
        }
    }
    table.a_second("the better of the two databases", best, RACE_TARGET);
    Ok(())
}

fn verify(table: &mut Table, peer: &Peer, folder: &Path) -> Fallible<()> {
    let file = folder.join("ledger_bench.jsonl");
    let written = job("ledger-lines", &file, &[&VERIFIED.to_string(), "plain"])?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(job("ledger-verify", &file, &["plain"])?);
        theirs.push(peer.verify(folder)?);
    }
    let (ours, theirs) = (median(&ours), median(&theirs));
    if (ours.count, theirs.count) != (VERIFIED, VERIFIED) {
        return Err("the two do not see the same records".into());
    }
    let megabytes = megabytes_of(written.extra);
    let work = format!("ledger verify, {VERIFIED} records, {megabytes:.0} MB");
    table.megabytes_a_second(
        &format!("{work}, wall"),
        megabytes / ours.wall_seconds,
        300.0,
    );
    side_by_side(table, &work, &ours, &theirs, None);
    table.megabytes(&format!("{work}, peak memory"), ours.peak_bytes, MEMORY);
    table.line(&format!(
        "| the same, theirs | {:.0} MB | | |",
        megabytes_of(theirs.peak_bytes)
    ));
    let written = job("ledger-lines", &file, &[&VERIFIED.to_string(), "signed"])?;
    let signed: Vec<Cost> = (0..ROUNDS)
        .map(|_| job("ledger-verify", &file, &["signed"]))
        .collect::<Fallible<_>>()?;
    let signed = median(&signed);
    table.line(&format!(
        "| the same, and each record's signature | {:.0} MB/s, {:.0} records/s, {:.1} MB peak | | |",
        megabytes_of(written.extra) / signed.wall_seconds,
        each_second(&signed),
        megabytes_of(signed.peak_bytes)
    ));
    std::fs::remove_file(&file)?;
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a rate")]
fn each_second(cost: &Cost) -> f64 {
    cost.count as f64 / cost.wall_seconds
}

/// The ratio by the clock, which `target` bounds, and by CPU time.
fn side_by_side(table: &mut Table, work: &str, ours: &Cost, theirs: &Cost, target: Option<f64>) {
    let wall = theirs.wall_seconds / ours.wall_seconds;
    match target {
        Some(target) => table.times_faster(&format!("{work}, wall"), wall, target),
        None => table.line(&format!("| {work}, wall | {wall:.1} × faster | | |")),
    }
    #[expect(clippy::cast_precision_loss, reason = "microseconds a record")]
    let each = |cost: &Cost| cost.cpu_seconds / cost.count as f64 * 1e6;
    table.line(&format!(
        "| {work}, CPU | {:.1} × less, {:.1} µs a record, theirs {:.1} µs | for the cores | |",
        theirs.cpu_seconds / ours.cpu_seconds,
        each(ours),
        each(theirs)
    ));
}

/// The cost of `work` in a fresh folder.
fn fresh(folder: &Path, work: impl FnOnce(&Path) -> Fallible<Cost>) -> Fallible<Cost> {
    let to = folder.join("appended");
    let cost = work(&to);
    std::fs::remove_dir_all(&to)?;
    cost
}

/// The published package, driven by `interop/ledger/bench.py`.
struct Peer {
    python: PathBuf,
    script: PathBuf,
}

impl Peer {
    /// Installs the package once, in the same place as `interop/ledger/run.sh`: next to cargo's
    /// output.
    fn install() -> Fallible<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let venv = root.join("target/interop-ledger");
        let python = venv.join("bin/python");
        if !python.exists() {
            done(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
            let pip = ["-m", "pip", "install", "--quiet", "--no-deps", "-r"];
            done(Command::new(&python).args(pip).arg(root.join(REQUIREMENTS)))?;
        }
        Ok(Self {
            python,
            script: root.join("interop/ledger/bench.py"),
        })
    }

    fn append(&self, kind: &str, to: &Path, count: &str) -> Fallible<Cost> {
        self.run(&["append".as_ref(), kind.as_ref(), to, count.as_ref()])
    }

    fn verify(&self, folder: &Path) -> Fallible<Cost> {
        self.run(&["verify".as_ref(), folder, "bench".as_ref()])
    }

    fn run(&self, words: &[&Path]) -> Fallible<Cost> {
        let mut command = Command::new(&self.python);
        let output = command.arg(&self.script).args(words).output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
        parse_cost(&String::from_utf8(output.stdout)?)
    }
}

fn done(command: &mut Command) -> Fallible<()> {
    match command.status()?.success() {
        true => Ok(()),
        false => Err(format!("{command:?} failed").into()),
    }
}
