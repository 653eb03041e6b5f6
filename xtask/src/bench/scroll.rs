//! The rows on agent-scroll: its published crate and this implementation, on the same files.

use super::cost::Cost;
use super::scroll_job::{SEED, public_hex};
use super::table::{Table, job, median, megabytes_of, parse_cost};
use crate::console::Fallible;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const TURNS: u64 = 20_000;
const ROUNDS: usize = 5;

/// The cost of a signature depends on the instructions that the build may use.
const SIGNED_TARGET: f64 = if cfg!(target_feature = "avx512ifma") {
    6.0
} else {
    4.0
};

/// Adds the rows; `quick` leaves out the gigabyte.
pub(super) fn rows(table: &mut Table, folder: &Path, quick: bool) -> Fallible<()> {
    let peer = Peer::build()?;
    let turns = folder.join("turns.json");
    job("scroll-turns", &turns, &[&TURNS.to_string()])?;
    let (unsigned, signed) = (folder.join("unsigned.json"), folder.join("signed.json"));
    peer.seal(&turns, &unsigned, None)?;
    peer.seal(&turns, &signed, Some(SEED))?;
    let key = public_hex();
    verify(table, &peer, &signed, Some(&key), SIGNED_TARGET)?;
    verify(table, &peer, &unsigned, None, 10.0)?;
    canonical(table, &turns.with_extension("jsonl"))?;
    for path in [turns, unsigned, signed] {
        std::fs::remove_file(path)?;
    }
    let megabytes: &[u64] = if quick { &[10, 100] } else { &[10, 100, 1000] };
    for size in megabytes {
        lines(table, &folder.join("scroll.jsonl"), *size, &key)?;
    }
    Ok(())
}

fn verify(
    table: &mut Table,
    peer: &Peer,
    file: &Path,
    key: Option<&str>,
    target: f64,
) -> Fallible<()> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(job(
            "scroll-verify",
            file,
            &["array", key.unwrap_or("none")],
        )?);
        theirs.push(peer.verify(file, key)?);
    }
    let (ours, theirs) = (median(&ours), median(&theirs));
    if (ours.count, theirs.count) != (TURNS, TURNS) {
        return Err("the two do not see the same turns".into());
    }
    let what = if key.is_some() { "signed" } else { "unsigned" };
    side_by_side(
        table,
        &format!("scroll verify, {what} 2 KB turns"),
        ours,
        theirs,
        target,
    );
    table.line(&format!(
        "| scroll verify, {what}, peak memory | {:.1} MB, theirs {:.1} MB | | |",
        megabytes_of(ours.peak_bytes),
        megabytes_of(theirs.peak_bytes)
    ));
    Ok(())
}

fn canonical(table: &mut Table, file: &Path) -> Fallible<()> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(job("canon", file, &[])?);
        theirs.push(job("canon-serde", file, &[])?);
    }
    let (ours, theirs) = (median(&ours), median(&theirs));
    if (ours.count, ours.extra) != (theirs.count, theirs.extra) {
        return Err("the canonical forms differ".into());
    }
    side_by_side(table, "canonical form of 2 KB turns", ours, theirs, 8.0);
    Ok(())
}

fn side_by_side(table: &mut Table, work: &str, ours: Cost, theirs: Cost, target: f64) {
    table.times_faster(
        &format!("{work}, wall"),
        theirs.wall_seconds / ours.wall_seconds,
        target,
    );
    table.line(&format!(
        "| {work}, CPU | {:.1} × faster, {:.3} s, theirs {:.3} s | for the cores | |",
        theirs.cpu_seconds / ours.cpu_seconds,
        ours.cpu_seconds,
        theirs.cpu_seconds
    ));
}

/// Seals and verifies a signed scroll in lines, of this many megabytes.
fn lines(table: &mut Table, file: &Path, megabytes: u64, key: &str) -> Fallible<()> {
    let sealed = job(
        "scroll-lines",
        file,
        &[&(megabytes * 1_000_000).to_string()],
    )?;
    let verified = job("scroll-verify", file, &["lines", key])?;
    if sealed.count != verified.count {
        return Err("not all turns were verified".into());
    }
    for (work, cost) in [("seal", sealed), ("verify", verified)] {
        #[expect(clippy::cast_precision_loss, reason = "turns a second")]
        let rate = cost.count as f64 / cost.wall_seconds;
        table.megabytes(
            &format!(
                "scroll {work}, {megabytes} MB of signed lines, {rate:.0} turns/s, peak memory"
            ),
            cost.peak_bytes,
            32,
        );
    }
    std::fs::remove_file(file)?;
    Ok(())
}

/// The published crate, in the command of `interop/scroll/peer`.
struct Peer(PathBuf);

impl Peer {
    fn build() -> Fallible<Self> {
        let project = crate::console::root().join("interop/scroll/peer/Cargo.toml");
        let target = std::env::current_exe()?.with_file_name("scroll-peer");
        let built = Command::new("cargo")
            .args([
                "build",
                "--quiet",
                "--release",
                "--locked",
                "--manifest-path",
            ])
            .arg(project)
            .arg("--target-dir")
            .arg(&target)
            .status()?;
        if !built.success() {
            return Err("the published crate does not build".into());
        }
        Ok(Self(target.join("release/scroll-peer")))
    }

    fn seal(&self, turns: &Path, out: &Path, seed: Option<&str>) -> Fallible<()> {
        let mut request = format!(r#"{{"op":"seal","file":{turns:?},"out":{out:?}"#);
        if let Some(seed) = seed {
            request.push_str(&format!(r#","key":"{seed}""#));
        }
        request.push_str("}\n");
        let mut child = Command::new(&self.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut input = child.stdin.take().ok_or("no pipe")?;
        input.write_all(request.as_bytes())?;
        drop(input);
        let answer = child.wait_with_output()?.stdout;
        match answer.as_slice() {
            b"{\"ok\":true}\n" => Ok(()),
            other => Err(String::from_utf8_lossy(other).into()),
        }
    }

    fn verify(&self, file: &Path, key: Option<&str>) -> Fallible<Cost> {
        let output = Command::new(&self.0)
            .arg("bench")
            .arg(file)
            .args(key)
            .output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
        parse_cost(&String::from_utf8(output.stdout)?)
    }
}
