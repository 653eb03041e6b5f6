//! `cargo xtask campaign [--only NAME]… [--fuzz-seconds N]`: the full runs of which the gate takes a share.
//!
//! ```text
//! sweep ─► faults ─► budgets ─► histories ─► edits ─► kills ─► hostile ─► two-verifiers ─► crewai ─► migrate-sim ─► fleet ─► fleet-load ─► fuzz ─► bench
//! one after the other, also after a failure
//! ```

use crate::console::Fallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use threadseal_store::clock::{Clock as _, SystemClock};

/// A run by its name; it gives true when all held.
type Step = (&'static str, Box<dyn Fn() -> Fallible<bool>>);

/// Histories of each kind.
const HISTORIES: &str = "10000";

/// Trees of greedy threads.
const BUDGETS: &str = "10000";

/// Agents, hooks and watchers that are killed.
const KILLS: &str = "500";

/// Cases of parties that are hostile to a project.
const HOSTILE: &str = "10000";

/// Changed files of each kind that both verifiers judge.
const DIFFERENCES: &str = "100000";

/// Seconds for each fuzz target where no number is given.
const FUZZ_SECONDS: u64 = 60;

/// Runs what `words` ask for; true when no run failed.
///
/// # Errors
/// When an argument is not known.
pub(crate) fn run(words: &[&str]) -> Fallible<bool> {
    let mut only = Vec::new();
    let mut seconds = FUZZ_SECONDS;
    let mut rest = words;
    while let [option, value, after @ ..] = rest {
        match *option {
            "--only" => only.push(*value),
            "--fuzz-seconds" => seconds = value.parse()?,
            _ => return Err(crate::USAGE.into()),
        }
        rest = after;
    }
    let steps = select(all_steps(seconds), &only)?;
    if !rest.is_empty() {
        return Err(crate::USAGE.into());
    }
    Ok(run_steps(&steps) == 0)
}

fn all_steps(fuzz_seconds: u64) -> Vec<Step> {
    vec![
        ("sweep", Box::new(|| crate::sweep::run(&[]))),
        ("faults", Box::new(faults)),
        ("budgets", Box::new(budgets)),
        ("histories", Box::new(histories)),
        ("edits", Box::new(edits)),
        ("kills", Box::new(kills)),
        ("hostile", Box::new(hostile)),
        ("two-verifiers", Box::new(two_verifiers)),
        ("crewai", Box::new(crewai)),
        ("migrate-sim", Box::new(|| crate::migrate::run(&[]))),
        ("fleet", Box::new(|| crate::fleet::run(&[]))),
        ("fleet-load", Box::new(|| crate::fleet::run(&["--load"]))),
        ("fuzz", Box::new(move || fuzz(fuzz_seconds))),
        ("bench", Box::new(bench)),
    ]
}

/// The steps named in `only`, or all of them when it is empty.
fn select(mut steps: Vec<Step>, only: &[&str]) -> Fallible<Vec<Step>> {
    for name in only {
        if !steps.iter().any(|(known, _)| known == name) {
            return Err(format!("no run is named {name}; {}", crate::USAGE).into());
        }
    }
    steps.retain(|(name, _)| only.is_empty() || only.contains(name));
    Ok(steps)
}

/// Runs all steps and prints a line for each; the number of those that failed.
fn run_steps(steps: &[Step]) -> usize {
    let mut lines = Vec::new();
    let mut failed = 0;
    for (name, step) in steps {
        crate::console::say(&format!("== {name}"));
        let began = SystemClock.elapsed();
        let held = holds(step);
        let seconds = (SystemClock.elapsed() - began).as_secs();
        let result = if held { "passed" } else { "FAILED" };
        failed += usize::from(!held);
        let line = format!("== {name:<12} {result} after {seconds} s");
        crate::console::say(&line);
        lines.push(line);
    }
    crate::console::say(&format!("\n{}", lines.join("\n")));
    let passed = steps.len() - failed;
    crate::console::say(&format!("{passed} passed, {failed} failed"));
    failed
}

/// Runs one step; an error or a panic is a failure of this step alone.
fn holds(step: &dyn Fn() -> Fallible<bool>) -> bool {
    match catch_unwind(AssertUnwindSafe(step)) {
        Ok(Ok(held)) => held,
        Ok(Err(error)) => {
            crate::console::complain(&error.to_string());
            false
        }
        // The panic is printed already.
        Err(_) => false,
    }
}

/// Runs the sweeps of faults as a whole: a test run strikes a third of the calls.
fn faults() -> Fallible<bool> {
    let words = "test --workspace --all-features --lib --test sweep --test recorder";
    let mut command = Command::new("cargo");
    command
        .args(words.split(' '))
        .env("THREADSEAL_WHOLE_SWEEPS", "1")
        .current_dir(crate::console::root());
    Ok(command.status()?.success())
}

/// Grows ten thousand trees of threads that spend all they may: a test run grows 200.
fn budgets() -> Fallible<bool> {
    let words = "test --workspace --all-features --lib -- no_tree_of_greedy_threads --nocapture";
    let mut command = Command::new("cargo");
    command
        .args(words.split(' '))
        .env("THREADSEAL_BUDGETS", BUDGETS)
        .current_dir(crate::console::root());
    Ok(command.status()?.success())
}

/// Plays ten thousand honest and as many dishonest histories: a test run plays 100 of each.
fn histories() -> Fallible<bool> {
    commands("histories::", "THREADSEAL_HISTORIES", HISTORIES)
}

/// Makes each kind of edit in each log of real agents: a test run makes one edit of each log.
fn edits() -> Fallible<bool> {
    commands("real_runs::", "THREADSEAL_ALL_EDITS", "1")
}

/// Kills agents, hooks and watchers five hundred times, and as often a process with a tree of
/// threads: a test run does it 20 times, and 5 times.
fn kills() -> Fallible<bool> {
    let agents = commands("kills::", "THREADSEAL_KILLS", KILLS)?;
    Ok(commands("run::greedy::", "THREADSEAL_KILLS", KILLS)? && agents)
}

/// Plays ten thousand cases of hostile parties: a test run plays 100.
fn hostile() -> Fallible<bool> {
    commands("hostile::", "THREADSEAL_HOSTILE", HOSTILE)
}

/// Compares the verifier in TypeScript with the one in Rust: the gate takes 300 changed files of each
/// kind.
fn two_verifiers() -> Fallible<bool> {
    let mut command = Command::new("bash");
    command
        .args(["web/run.sh", DIFFERENCES])
        .current_dir(crate::console::root());
    Ok(command.status()?.success())
}

/// Runs the example of `CrewAI`, whose environment has a gigabyte: the gate runs those of smaller frameworks.
fn crewai() -> Fallible<bool> {
    let mut command = Command::new("bash");
    command
        .arg("bindings/python/run.sh")
        .env("CREWAI", "1")
        .env("ONLY", "crewai")
        .current_dir(crate::console::root());
    Ok(command.status()?.success())
}

/// Runs tests of the command with more rounds.
fn commands(filter: &str, variable: &str, rounds: &str) -> Fallible<bool> {
    let words = "test --workspace --all-features --test it";
    let mut command = Command::new("cargo");
    command
        .args(words.split(' '))
        .args(["--", filter, "--nocapture"])
        .env(variable, rounds)
        .current_dir(crate::console::root());
    Ok(command.status()?.success())
}

/// Runs every fuzz target for `seconds`; inputs that reach new code are kept for the next run.
fn fuzz(seconds: u64) -> Fallible<bool> {
    let folder = crate::console::root().join("fuzz");
    // The targets have no `unsafe` for a sanitizer to watch.
    let plain = ["--sanitizer", "none"];
    if !cargo_fuzz().arg("build").args(plain).status()?.success() {
        return Err("cargo fuzz build failed".into());
    }
    let verifier = Command::new("bash")
        .arg("web/build.sh")
        .current_dir(crate::console::root())
        .output()?;
    if !verifier.status.success() {
        return Err("the verifier in TypeScript could not be built".into());
    }
    let verifier = String::from_utf8(verifier.stdout)?;
    let mut all_held = true;
    for target in fuzz_targets(&folder.join("fuzz_targets"))? {
        let corpus = folder.join("corpus").join(&target);
        std::fs::create_dir_all(&corpus)?;
        let output = cargo_fuzz()
            .arg("run")
            .args(plain)
            .arg(&target)
            .arg(corpus)
            .arg(folder.join("seeds").join(&target))
            .arg("--")
            .arg(format!("-max_total_time={seconds}"))
            .args(["-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1"])
            .env("VERIFIER", verifier.trim_end())
            .output()?;
        let log = String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            crate::console::say(&format!("{target}: {} runs", executed(&log)));
        } else {
            crate::console::complain(&format!("{target} failed:\n{log}"));
            all_held = false;
        }
    }
    Ok(all_held)
}

/// The names of the fuzz targets: one for each source file in `folder`.
fn fuzz_targets(folder: &Path) -> Fallible<Vec<String>> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            out.extend(
                path.file_stem()
                    .map(|name| name.to_string_lossy().into_owned()),
            );
        }
    }
    out.sort();
    Ok(out)
}

/// How many inputs were run, from the statistics at the end of a log.
fn executed(log: &str) -> &str {
    let mut lines = log.lines();
    let count = lines.find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    count.map_or("an unknown number of", str::trim)
}

/// `cargo fuzz`, which passes flags that only a nightly compiler takes otherwise.
fn cargo_fuzz() -> Command {
    let mut command = Command::new("cargo");
    command
        .arg("fuzz")
        .env("RUSTC_BOOTSTRAP", "1")
        .current_dir(crate::console::root());
    command
}

/// Measures all tables, as processes: figures are of the code as it is released, these chores are not.
fn bench() -> Fallible<bool> {
    let cargo = |words: &[&str]| {
        Command::new("cargo")
            .args(words)
            .current_dir(crate::console::root())
            .status()
    };
    if !cargo(&["build", "--quiet", "--release"])?.success() {
        return Err("cargo build --release failed".into());
    }
    Ok(cargo(&["xbench"])?.success())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    #[test]
    fn a_run_that_fails_ends_no_other_and_is_counted() {
        let ran = Rc::new(RefCell::new(Vec::new()));
        let step = |name: &'static str, result: fn() -> Fallible<bool>| -> Step {
            let ran = Rc::clone(&ran);
            let body = move || {
                ran.borrow_mut().push(name);
                result()
            };
            (name, Box::new(body))
        };
        let steps = [
            step("false", || Ok(false)),
            step("error", || Err("planted".into())),
            step("panic", || panic!("planted")),
            step("true", || Ok(true)),
        ];
        assert_eq!(run_steps(&steps), 3);
        assert_eq!(*ran.borrow(), ["false", "error", "panic", "true"]);
        assert_eq!(run_steps(&steps[3..]), 0);
    }

    #[test]
    fn only_named_runs_are_selected_in_their_order() {
        let names = |only: &[&str]| -> Fallible<Vec<&str>> {
            let steps = select(all_steps(1), only)?;
            Ok(steps.iter().map(|(name, _)| *name).collect())
        };
        let all = [
            "sweep",
            "faults",
            "budgets",
            "histories",
            "edits",
            "kills",
            "hostile",
            "two-verifiers",
            "crewai",
            "migrate-sim",
            "fleet",
            "fleet-load",
            "fuzz",
            "bench",
        ];
        assert_eq!(names(&[]).unwrap(), all);
        assert_eq!(names(&["fuzz", "sweep"]).unwrap(), ["sweep", "fuzz"]);
        assert!(names(&["fuzz", "nothing"]).is_err());
    }

    #[test]
    fn arguments_that_are_not_known_are_errors() {
        for words in [
            &["--only"][..],
            &["--only", "nothing"],
            &["--quick", "1"],
            &["--fuzz-seconds", "few"],
            &["--only", "fuzz", "more"],
        ] {
            assert!(run(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn the_number_of_runs_is_read_from_the_log() {
        let log = "INFO: done\nstat::number_of_executed_units: 123\nstat::x: 4\n";
        assert_eq!(executed(log), "123");
        assert_eq!(executed("INFO"), "an unknown number of");
    }

    #[test]
    fn there_is_a_run_for_each_fuzz_target() {
        let folder = crate::console::root().join("fuzz");
        let targets = fuzz_targets(&folder.join("fuzz_targets")).unwrap();
        assert!(targets.contains(&"json_parse".to_owned()));
        for target in targets {
            assert!(folder.join("seeds").join(&target).is_dir(), "{target}");
        }
    }
}
