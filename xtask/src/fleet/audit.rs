//! Audits the results of the fleet: the database, the exported files, and the outside file.

use super::Scene;
use super::hunt::MARK;
use crate::console::Fallible;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use threadseal_runtime::project::Project;
use threadseal_runtime::registry::{Filter, Registry as _, Thread};
use threadseal_store::clock::SystemClock;
use threadseal_store::heads::MemoryHeadStore;
use threadseal_store::host::Host;
use threadseal_store::key_ends::NoKeyEnds;
use threadseal_store::postgres::{PostgresDatabase, cell};
use threadseal_store::random::SystemRandom;
use threadseal_store::read::read_small;
use threadseal_store::sys::{Fs, RealFs};

/// Largest file of a thread here, in bytes.
const MAX_FILE_BYTES: usize = 64 << 20;

/// The faults and counts of an audit.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) threads: u64,
    by_status: BTreeMap<String, u64>,
    effects: u64,
    unresolved: u64,
    spent_nanos: i64,
    set_aside: u64,
    tokens_above_one: u64,
    pub(super) complaints: Vec<String>,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} threads {:?}, {} orders taken over, {} effects outside, {} calls unresolved, {} tails set aside, \
             {} nano-dollars",
            self.threads,
            self.by_status,
            self.tokens_above_one,
            self.effects,
            self.unresolved,
            self.set_aside,
            self.spent_nanos
        )
    }
}

impl Found {
    fn complain(&mut self, text: String) {
        self.complaints.push(text);
    }
}

pub(super) fn audit(scene: &Scene) -> Fallible<Found> {
    let mut found = Found::default();
    let database = PostgresDatabase::open(&scene.url)?;
    let listing = scene.fleet.registry().list(&Filter::default())?;
    let folder = scene.path("exported");
    std::fs::create_dir(&folder)?;
    let host = Host {
        fs: RealFs::shared(),
        clock: Arc::new(SystemClock),
        random: Arc::new(SystemRandom),
        heads: Arc::new(MemoryHeadStore::default()),
        keys: Arc::new(NoKeyEnds),
    };
    let host = scene.fleet.host(&host, &scene.project(), None)?;
    let project = Project::open(&RealFs, &scene.project())?;
    let mut settled = Settled::default();
    for (number, thread) in listing.threads.iter().enumerate() {
        found.threads += 1;
        let word = thread.status.as_ref().map_or("?", |status| status.as_str());
        *found.by_status.entry(word.to_owned()).or_default() += 1;
        if !thread
            .status
            .as_ref()
            .is_ok_and(|status| status.is_terminal())
        {
            found.complain(format!("{} is {word}", thread.id));
        }
        let to = folder.join(number.to_string());
        let bytes = export(
            &*host.fs,
            project.thread(&thread.id).path(),
            &to,
            &mut found,
        )?;
        settled.read(thread, &bytes, &mut found);
    }
    verify(scene, &folder, &mut found)?;
    outside(scene, &settled, &mut found)?;
    money(&database, &mut found)?;
    let taken = "SELECT count(*) FROM threadseal_orders WHERE token > 1";
    let taken: i64 = cell(&database.read(|session| session.one(taken, &[]))?, 0)?;
    found.tokens_above_one = u64::try_from(taken)?;
    sample(scene, &listing.threads, &mut found)?;
    Ok(found)
}

/// Copies the files of a thread, and returns its transcript.
fn export(fs: &dyn Fs, from: &Path, to: &Path, found: &mut Found) -> Fallible<Vec<u8>> {
    let mut transcript = Vec::new();
    let Ok(names) = fs.read_dir(from) else {
        return Ok(transcript);
    };
    std::fs::create_dir(to)?;
    for name in names {
        let bytes = read_small(fs, &from.join(&name), MAX_FILE_BYTES)?;
        std::fs::write(to.join(&name), &bytes)?;
        let text = name.to_string_lossy();
        found.set_aside += u64::from(text.starts_with("transcript.jsonl.tail-"));
        if text == "transcript.jsonl" {
            transcript = bytes;
        }
    }
    Ok(transcript)
}

/// The state of calls in the records.
#[derive(Default)]
struct Settled {
    answered: BTreeSet<String>,
    unresolved: BTreeSet<String>,
}

impl Settled {
    fn read(&mut self, thread: &Thread, transcript: &[u8], found: &mut Found) {
        let (mut ends, mut keys) = (0, BTreeMap::new());
        for line in transcript
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            let Ok(event) = serde_json::from_slice::<Value>(line) else {
                found.complain(format!("{}: a line is no event", thread.id));
                continue;
            };
            if String::from_utf8_lossy(line).contains(MARK) {
                found.complain(format!(
                    "{}: what was put into a tail stands in the record",
                    thread.id
                ));
            }
            let payload = &event["payload"];
            let key = || name_of(payload["idempotency_key"].as_str().unwrap_or_default());
            let call = payload["call_id"].to_string();
            match event["event_type"].as_str().unwrap_or_default() {
                "thread_completed" | "thread_error" | "thread_cancelled" | "thread_suspended" => {
                    ends += 1;
                }
                "tool_call_start" => drop(keys.insert(call, key())),
                "tool_call_unresolved" => drop(self.unresolved.insert(key())),
                // A refusal because the call may have been carried out is no answer.
                "tool_call_result" if !payload["error"].to_string().contains("unresolved:") => {
                    if let Some(key) = keys.get(&call) {
                        self.answered.insert(key.clone());
                    }
                }
                _ => {}
            }
        }
        if !transcript.is_empty() && ends != 1 {
            found.complain(format!("{} ended {ends} times", thread.id));
        }
        if transcript.is_empty() && thread.record.is_some() && found.by_status.is_empty() {
            found.complain(format!("{} has no record", thread.id));
        }
    }
}

fn name_of(key: &str) -> String {
    key.rsplit_once('#')
        .map_or(key, |(name, _)| name)
        .to_owned()
}

/// Runs the program's own verification on all exported files.
fn verify(scene: &Scene, folder: &Path, found: &mut Found) -> Fallible<()> {
    let output = scene.command(&["verify", "--json"]).arg(folder).output()?;
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let results = report["results"]
        .as_array()
        .ok_or("verify printed no results")?;
    let mut transcripts = 0;
    for result in results {
        let path = result["path"].as_str().unwrap_or_default();
        if path.ends_with("transcript.jsonl") {
            transcripts += 1;
            if result["verdict"] != "verified" {
                found.complain(format!(
                    "{path}: {} {}",
                    result["verdict"], result["findings"]
                ));
            }
        }
    }
    if transcripts == 0 {
        found.complain("no transcript was verified".to_owned());
    }
    Ok(())
}

/// No effect occurs twice. Each effect that began is answered or listed.
fn outside(scene: &Scene, settled: &Settled, found: &mut Found) -> Fallible<()> {
    let text = std::fs::read_to_string(scene.path("counter"))?;
    let (mut calls, mut wishes) = (BTreeSet::new(), BTreeSet::new());
    for line in text.lines() {
        found.effects += 1;
        let mut words = line.split(' ');
        let (key, n) = (
            words.next().unwrap_or_default(),
            words.next().unwrap_or_default(),
        );
        let name = name_of(key);
        let thread = name.rsplitn(3, '/').nth(2).unwrap_or_default().to_owned();
        if !calls.insert(name.clone()) {
            found.complain(format!("{name} was carried out twice"));
        }
        if !wishes.insert((thread.clone(), n.to_owned())) {
            found.complain(format!("effect {n} of {thread} was there twice"));
        }
        if !settled.answered.contains(&name) && !settled.unresolved.contains(&name) {
            found.complain(format!("{name} was carried out, and no record knows of it"));
        }
    }
    found.unresolved = settled.unresolved.len() as u64;
    Ok(())
}

/// Checks the sums of money, to the billionth.
fn money(database: &PostgresDatabase, found: &mut Found) -> Fallible<()> {
    let wrong = [
        (
            "a thread's own money is not the sum of what it was charged",
            "SELECT b.thread_id FROM threadseal_budgets b
             WHERE own_nanos <> (SELECT coalesce(sum(nanos), 0) FROM threadseal_commits c WHERE c.thread_id = b.thread_id)",
        ),
        (
            "a thread's money is not its own and its children's",
            "SELECT b.thread_id FROM threadseal_budgets b
             WHERE actual_nanos <> own_nanos + (SELECT coalesce(sum(c.actual_nanos), 0)
               FROM threadseal_budgets c WHERE c.parent_thread_id = b.thread_id)",
        ),
        (
            "more was spent than there was",
            "SELECT thread_id FROM threadseal_budgets WHERE actual_nanos > max_nanos",
        ),
        (
            "the registry names another amount",
            "SELECT b.thread_id FROM threadseal_budgets b JOIN threadseal_threads t USING (thread_id)
             WHERE t.status = 'completed' AND t.spend_nanos <> b.actual_nanos",
        ),
        (
            "a budget has not ended, or otherwise than its thread",
            "SELECT b.thread_id FROM threadseal_budgets b JOIN threadseal_threads t USING (thread_id)
             WHERE t.status <> b.status",
        ),
    ];
    for (what, sql) in wrong {
        for row in database.read(|session| session.query(sql, &[]))? {
            let thread: String = cell(&row, 0)?;
            found.complain(format!("{thread}: {what}"));
        }
    }
    let sums = "SELECT (SELECT coalesce(sum(actual_nanos), 0)::bigint FROM threadseal_budgets WHERE parent_thread_id IS NULL),
                       (SELECT coalesce(sum(nanos), 0)::bigint FROM threadseal_commits)";
    let row = database.read(|session| session.one(sums, &[]))?;
    let (roots, charged): (i64, i64) = (cell(&row, 0)?, cell(&row, 1)?);
    found.spent_nanos = roots;
    if roots != charged {
        found.complain(format!("roots spent {roots}, {charged} was charged"));
    }
    Ok(())
}

/// The command exports a sample of its records, and they verify.
fn sample(scene: &Scene, threads: &[Thread], found: &mut Found) -> Fallible<()> {
    for (number, thread) in threads.iter().take(3).enumerate() {
        let to = scene.path(&format!("sample{number}"));
        let exported = scene
            .command(&["thread", "export", "-q"])
            .arg("--project")
            .arg(scene.project())
            .arg(thread.id.as_str())
            .arg(&to)
            .status()?;
        let verified = scene
            .command(&["verify", "-q"])
            .arg(to.join("transcript.jsonl"))
            .status()?;
        if !exported.success() || !verified.success() {
            found.complain(format!("{}: its export does not verify", thread.id));
        }
    }
    Ok(())
}
