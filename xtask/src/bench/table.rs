//! Runs the jobs, compares them and writes the table.

use super::cost::Cost;
use crate::console::Fallible;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// The table, and whether every target in it is met.
pub(super) struct Table {
    pub(super) text: String,
    pub(super) all_met: bool,
}

const MB: u64 = 1_000_000;

/// The rows to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    All,
    Records,
    Scrolls,
    Ledgers,
    Lineages,
    Runtime,
    Log,
    Capture,
    Record,
    Turns,
    Pathological,
}

/// Measures the rows of `part`; `quick` leaves out the gigabytes.
pub(super) fn measure(quick: bool, part: Part) -> Fallible<Table> {
    let folder = std::env::temp_dir().join(format!("threadseal-bench-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let mut table = Table {
        text: String::new(),
        all_met: true,
    };
    table.line("| work | measured | target | met |");
    table.line("|---|---|---|---|");
    let done = measure_in(&mut table, &folder, quick, part);
    std::fs::remove_dir_all(&folder)?;
    done.map(|()| table)
}

fn measure_in(table: &mut Table, folder: &Path, quick: bool, part: Part) -> Fallible<()> {
    if matches!(part, Part::All | Part::Records) {
        records(table, folder, quick)?;
    }
    if matches!(part, Part::All | Part::Scrolls) {
        super::scroll::rows(table, folder, quick)?;
    }
    if matches!(part, Part::All | Part::Ledgers) {
        super::ledger::rows(table, folder, quick)?;
    }
    if matches!(part, Part::All | Part::Lineages) {
        super::lineage::rows(table, folder, quick)?;
    }
    if matches!(part, Part::All | Part::Runtime) {
        super::runtime::rows(table, folder, quick)?;
    }
    if matches!(part, Part::All | Part::Log) {
        super::log::rows(table, folder, quick)?;
    }
    if matches!(part, Part::All | Part::Capture) {
        super::capture::rows(table, folder, quick)?;
    }
    if matches!(part, Part::All | Part::Record) {
        super::record::rows(table, folder)?;
    }
    if matches!(part, Part::All | Part::Turns) {
        super::turns::rows(table, folder)?;
    }
    if matches!(part, Part::All | Part::Pathological) {
        super::pathological::rows(table, folder)?;
    }
    Ok(())
}

fn records(table: &mut Table, folder: &Path, quick: bool) -> Fallible<()> {
    let record = folder.join("record.jsonl");
    let (write, hash, verify) = compare(&record, 100 * MB, 7)?;
    table.baseline("read and SHA-256 100 MB, one core", &hash, 100 * MB);
    table.ratio(
        "verify 100 MB, wall",
        verify.wall_seconds / hash.wall_seconds,
        1.7,
    );
    table.ratio(
        "verify 100 MB, CPU",
        verify.cpu_seconds / hash.cpu_seconds,
        3.0,
    );
    table.megabytes("verify 100 MB, peak memory", verify.peak_bytes, 32);
    table.ratio(
        "write 100 MB with all seals, wall",
        write.wall_seconds / hash.wall_seconds,
        2.5,
    );
    table.ratio(
        "write 100 MB with all seals, CPU",
        write.cpu_seconds / hash.cpu_seconds,
        5.0,
    );
    let sizes: &[u64] = if quick {
        &[1, 10, 100]
    } else {
        &[1, 10, 100, 1000, 4000]
    };
    for size in sizes {
        scaling(table, &record, *size)?;
    }
    std::fs::remove_file(&record)?;
    durable(table, folder)?;
    directory(table, folder)
}

/// Writes, hashes and verifies a record in turn, `rounds` times; medians.
fn compare(record: &Path, bytes: u64, rounds: usize) -> Fallible<(Cost, Cost, Cost)> {
    let size = bytes.to_string();
    let (mut writes, mut hashes, mut verifies) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        writes.push(job("write", record, &[&size])?);
        hashes.push(job("hash", record, &[])?);
        verifies.push(job("verify", record, &[])?);
    }
    Ok((median(&writes), median(&hashes), median(&verifies)))
}

fn scaling(table: &mut Table, record: &Path, megabytes: u64) -> Fallible<()> {
    let rounds = if megabytes > 100 { 1 } else { 3 };
    let (_, hash, verify) = compare(record, megabytes * MB, rounds)?;
    let seconds = verify.wall_seconds;
    let rate = megabytes_of(megabytes * MB) / seconds;
    table.line(&format!(
        "| verify {megabytes} MB | {seconds:.3} s, {rate:.0} MB/s, {:.2} × wall, {:.1} MB peak | for the scaling | |",
        seconds / hash.wall_seconds,
        megabytes_of(verify.peak_bytes),
    ));
    Ok(())
}

fn durable(table: &mut Table, folder: &Path) -> Fallible<()> {
    let mut costs = Vec::new();
    for round in 0..5 {
        costs.push(job(
            "durable",
            &folder.join(format!("durable-{round}.jsonl")),
            &["200000"],
        )?);
    }
    let cost = median(&costs);
    #[expect(clippy::cast_precision_loss, reason = "rates")]
    let (events, fsyncs) = (
        cost.count as f64 / cost.wall_seconds,
        cost.extra as f64 / cost.wall_seconds,
    );
    let met = events >= 100_000.0;
    table.all_met &= met;
    table.line(&format!(
        "| durable events | {events:.0}/s, 1000 a seal, {fsyncs:.0} fsyncs/s | ≥ 100000/s | {} |",
        yes(met)
    ));
    Ok(())
}

/// Folders of native records, about 600 MB each, through the command itself.
fn directory(table: &mut Table, folder: &Path) -> Fallible<()> {
    let command = std::env::current_exe()?.with_file_name("threadseal");
    if !command.exists() {
        table.line("| verify DIR, 10000 files | build the command first: cargo build --release | ≤ 1.50 | no |");
        table.all_met = false;
        return Ok(());
    }
    for (files, bytes) in [(10_000, "60000"), (1000, "600000"), (100, "6000000")] {
        let records = folder.join("records");
        copies(&records, files, bytes)?;
        let (mut hashes, mut floors, mut verifies) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..3 {
            hashes.push(job("hash-dir", &records, &[])?);
            floors.push(job("floor-dir", &records, &[])?);
            verifies.push(command_on(&command, &records, folder)?);
        }
        std::fs::remove_dir_all(&records)?;
        let (hash, floor, verify) = (median(&hashes), median(&floors), median(&verifies));
        let cores = super::cost::cores();
        let name = format!("read and SHA-256 these {files} files, {cores} cores");
        table.baseline(&name, &hash, hash.extra);
        let name_of_floor = format!(
            "hash these {files} files twice and check two signatures of each, {cores} cores"
        );
        table.baseline(&name_of_floor, &floor, floor.extra);
        let wall = verify.wall_seconds / floor.wall_seconds;
        let name = format!(
            "verify DIR, {files} files of {} kB",
            hash.extra / hash.count / 1000
        );
        if files == 10_000 {
            table.ratio(&format!("{name}, wall, of the second"), wall, 1.5);
        } else {
            table.line(&format!(
                "| {name}, wall, of the second | {wall:.2} × | for the scaling | |"
            ));
        }
        table.line(&format!(
            "| the same, CPU | {:.2} × of the first, {:.2} × of the second, {:.2} of {cores} cores busy | all | |",
            verify.cpu_seconds / hash.cpu_seconds,
            verify.cpu_seconds / floor.cpu_seconds,
            verify.cpu_seconds / verify.wall_seconds
        ));
    }
    Ok(())
}

/// A folder of `files` records of about `bytes` bytes.
fn copies(folder: &Path, files: usize, bytes: &str) -> Fallible<()> {
    std::fs::create_dir(folder)?;
    let model = folder.join("0.jsonl");
    job("write", &model, &[bytes])?;
    for number in 1..files {
        std::fs::copy(&model, folder.join(format!("{number}.jsonl")))?;
    }
    Ok(())
}

/// The cost of the command itself, measured by the shell's `time -p`.
fn command_on(command: &Path, records: &Path, folder: &Path) -> Fallible<Cost> {
    let script =
        "time -p \"$0\" verify --quiet --no-progress --trust \"$2\" \"$1\" >/dev/null 2>&1";
    let key = folder.join("key.pem");
    std::fs::write(&key, super::job::public_pem())?;
    let output = Command::new("bash")
        .args(["-c", script])
        .args([command, records, &key])
        .env("THREADSEAL_HOME", folder.join("home"))
        .output()?;
    if !output.status.success() {
        return Err(format!("not all records of {} are verified", records.display()).into());
    }
    let text = String::from_utf8(output.stderr)?;
    let value = |name: &str| -> Fallible<f64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        Ok(line.ok_or("the shell told no time")?.trim().parse()?)
    };
    let wall_seconds = value("real ")?;
    let cpu_seconds = value("user ")? + value("sys ")?;
    Ok(Cost {
        wall_seconds,
        cpu_seconds,
        peak_bytes: 0,
        count: 0,
        extra: 0,
    })
}

pub(super) fn job(name: &str, path: &Path, rest: &[&str]) -> Fallible<Cost> {
    let output = Command::new(std::env::current_exe()?)
        .args(["bench", "job", name])
        .arg(path)
        .args(rest)
        .output()?;
    if !output.status.success() {
        return Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    parse_cost(&String::from_utf8(output.stdout)?)
}

/// Reads the output of a job.
pub(super) fn parse_cost(text: &str) -> Fallible<Cost> {
    let [wall, cpu, peak, count, extra] = text.split_whitespace().collect::<Vec<_>>()[..] else {
        return Err(format!("a job said {text:?}").into());
    };
    Ok(Cost {
        wall_seconds: wall.parse()?,
        cpu_seconds: cpu.parse()?,
        peak_bytes: peak.parse()?,
        count: count.parse()?,
        extra: extra.parse()?,
    })
}

pub(super) fn median(costs: &[Cost]) -> Cost {
    let middle = |of: fn(&Cost) -> f64| {
        let mut values: Vec<f64> = costs.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Cost {
        wall_seconds: middle(|cost| cost.wall_seconds),
        cpu_seconds: middle(|cost| cost.cpu_seconds),
        ..costs[0]
    }
}

#[expect(clippy::cast_precision_loss, reason = "megabytes for people")]
pub(super) fn megabytes_of(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

fn yes(met: bool) -> &'static str {
    if met { "yes" } else { "no" }
}

impl Table {
    pub(super) fn line(&mut self, line: &str) {
        let _ = writeln!(self.text, "{line}");
    }

    /// Adds the row that the ratios below it refer to.
    fn baseline(&mut self, work: &str, cost: &Cost, bytes: u64) {
        let seconds = cost.wall_seconds;
        let rate = megabytes_of(bytes) / seconds;
        self.line(&format!(
            "| *{work}* | {seconds:.3} s, {rate:.0} MB/s, {:.3} s CPU | 1 × | |",
            cost.cpu_seconds
        ));
    }

    pub(super) fn ratio(&mut self, work: &str, ratio: f64, target: f64) {
        let met = ratio <= target;
        self.all_met &= met;
        self.line(&format!(
            "| {work} | {ratio:.2} × | ≤ {target:.2} × | {} |",
            yes(met)
        ));
    }

    /// Adds the factor between another implementation's time and this one's.
    pub(super) fn times_faster(&mut self, work: &str, times: f64, target: f64) {
        let met = times >= target;
        self.all_met &= met;
        self.line(&format!(
            "| {work} | {times:.1} × faster | ≥ {target:.0} × | {} |",
            yes(met)
        ));
    }

    pub(super) fn seconds(&mut self, work: &str, seconds: f64, target: f64) {
        let met = seconds <= target;
        self.all_met &= met;
        self.line(&format!(
            "| {work} | {:.1} ms | ≤ {:.0} ms | {} |",
            seconds * 1e3,
            target * 1e3,
            yes(met)
        ));
    }

    pub(super) fn at_most(&mut self, work: &str, count: f64, target: f64) {
        let met = count <= target;
        self.all_met &= met;
        self.line(&format!(
            "| {work} | {count:.1} | ≤ {target:.0} | {} |",
            yes(met)
        ));
    }

    pub(super) fn a_second(&mut self, work: &str, rate: f64, target: f64) {
        let met = rate >= target;
        self.all_met &= met;
        self.line(&format!(
            "| {work} | {rate:.0}/s | ≥ {target:.0}/s | {} |",
            yes(met)
        ));
    }

    pub(super) fn megabytes_a_second(&mut self, work: &str, rate: f64, target: f64) {
        let met = rate >= target;
        self.all_met &= met;
        self.line(&format!(
            "| {work} | {rate:.0} MB/s | ≥ {target:.0} MB/s | {} |",
            yes(met)
        ));
    }

    pub(super) fn megabytes(&mut self, work: &str, bytes: u64, target: u64) {
        let met = bytes < target << 20;
        self.all_met &= met;
        self.line(&format!(
            "| {work} | {:.1} MB | < {target} MB | {} |",
            megabytes_of(bytes),
            yes(met)
        ));
    }
}
