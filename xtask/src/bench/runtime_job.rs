//! The jobs of the rows on projects, each in a process of its own.
//!
//! ```text
//! project/.ai/threads/registry.db    10,000 ended threads, each with its cost and its result
//!                    /bench/one      a thread with a record of 100 MB
//!                    /bench/many-N   a chain of 100 threads with records of 1 MB
//! home                               the last heads, so that records are judged as by the command
//! ```

use super::cost::Cost;
use super::job::{cpu_seconds, peak_bytes, signer, trust};
use crate::console::Fallible;
use std::path::Path;
use std::sync::Arc;
use threadseal_core::key::KeyUsage;
use threadseal_core::record::{Head, ThreadId};
use threadseal_formats::transcript::Ending;
use threadseal_formats::transcript::event::{EventType, Payload};
use threadseal_formats::transcript::ext::Ext;
use threadseal_formats::transcript::manifest::Manifest;
use threadseal_runtime::limit::Cost as Spent;
use threadseal_runtime::project::{Layout, Project};
use threadseal_runtime::registry::{
    Filter, NewThread, Origin, Registry, SqliteRegistry, ViewedRegistry,
};
use threadseal_runtime::runner::orchestrator::{Records, Search, SearchType};
use threadseal_runtime::status::Status;
use threadseal_runtime::toolbox::Cancel;
use threadseal_store::clock::{Clock as _, SystemClock};
use threadseal_store::home::Home;
use threadseal_store::host::Host;
use threadseal_store::key_ends::NoKeyEnds;
use threadseal_store::random::SystemRandom;
use threadseal_store::recorder::{Keys, Recorder};
use threadseal_store::sys::RealFs;

/// Threads in the registry.
pub(super) const THREADS: u64 = 10_000;
/// Threads of the chain.
pub(super) const CHAIN: u64 = 100;
/// Threads whose records are searched, and their names in the table.
pub(super) const RECORDS: [(&str, &str); 2] = [("one", "one"), ("many", "a chain of 100")];
/// Bytes of all records that one search reads.
const SEARCHED: u64 = 100_000_000;
/// Events of 2 KB between two seals.
const EVENTS_A_SEAL: u64 = 10;
/// The text in one event of each record, in other letters than the search.
const NEEDLE: &str = "The \u{c4}pfel cost 5 \u{20ac}";
const TEXT: &str = "the \u{e4}pfel COST 5";
const REGEX: &str = "the \\w+ cost \\d+ \u{20ac}";

/// Runs a job of this file; `None` when it has no such job.
pub(super) fn run(name: &str, path: &Path, rest: &[&str]) -> Option<Fallible<Cost>> {
    Some(match (name, rest) {
        ("runtime-project", []) => register(path),
        ("runtime-records", [which]) => measured(|| write(path, which)),
        ("runtime-list", [calls, rows]) => list(path, calls, rows),
        ("runtime-chain", [calls]) => chain(path, calls),
        ("runtime-search", [calls, which, kind]) => search(path, calls, which, kind),
        _ => return None,
    })
}

/// The project that all jobs use.
struct Place {
    project: Arc<Project>,
    host: Host,
}

impl Place {
    fn at(path: &Path) -> Fallible<Self> {
        let home = Home::create(Arc::new(RealFs), &path.with_file_name("home"))?;
        Ok(Self {
            project: Arc::new(Project::init(&RealFs, path)?),
            host: Host {
                fs: Arc::new(RealFs),
                clock: Arc::new(SystemClock),
                random: Arc::new(SystemRandom),
                heads: Arc::new(home.heads()),
                keys: Arc::new(NoKeyEnds),
            },
        })
    }
}

/// The thread of this number among those with records.
fn id(which: &str, number: u64) -> Fallible<ThreadId> {
    Ok(ThreadId::parse(&format!("bench/{which}-{number}"))?)
}

/// How many of these threads have records.
fn records_of(which: &str) -> u64 {
    if which == "one" { 1 } else { CHAIN }
}

/// The cost of `work` alone, which returns a count and an extra one.
fn measured(work: impl FnOnce() -> Fallible<(u64, u64)>) -> Fallible<Cost> {
    let (started, cpu) = (SystemClock.elapsed(), cpu_seconds());
    let (count, extra) = work()?;
    Ok(Cost {
        wall_seconds: (SystemClock.elapsed() - started).as_secs_f64(),
        cpu_seconds: cpu_seconds() - cpu,
        peak_bytes: peak_bytes()?,
        count,
        extra,
    })
}

/// The 95th percentile of the time of one call, and the mean of its CPU time.
fn percentile(calls: &str, mut work: impl FnMut() -> Fallible<u64>) -> Fallible<Cost> {
    // The first call fills the page cache.
    let expected = work()?;
    let (calls, cpu) = (calls.parse::<u32>()?.max(1), cpu_seconds());
    let mut times = Vec::new();
    for _ in 0..calls {
        let one = measured(|| Ok((work()?, 0)))?;
        if one.count != expected {
            return Err("two calls do not find the same".into());
        }
        times.push(one.wall_seconds);
    }
    times.sort_by(f64::total_cmp);
    let at = (times.len() * 95).div_ceil(100) - 1;
    Ok(Cost {
        wall_seconds: times[at],
        cpu_seconds: (cpu_seconds() - cpu) / f64::from(calls),
        peak_bytes: peak_bytes()?,
        count: expected,
        extra: 0,
    })
}

/// Registers all threads as the runner does, and links those of the chain.
fn register(path: &Path) -> Fallible<Cost> {
    let place = Place::at(path)?;
    let registry = SqliteRegistry::open(&place.project.registry(Layout::Seed))?;
    let mut ids = vec![id("one", 0)?];
    for number in 0..CHAIN {
        ids.push(id("many", number)?);
    }
    for number in 0..THREADS - CHAIN - 1 {
        ids.push(id("other", number)?);
    }
    measured(|| {
        for id in &ids {
            register_one(&registry, id)?;
        }
        for number in 1..CHAIN {
            let (old, new) = (id("many", number - 1)?, id("many", number)?);
            registry.link(&old, &new, SystemClock.now()?)?;
        }
        let listed = registry.list(&Filter::default())?;
        Ok((listed.threads.len() as u64, listed.unusable))
    })
}

fn register_one(registry: &dyn Registry, id: &ThreadId) -> Fallible<()> {
    let now = SystemClock.now()?;
    let new = NewThread {
        id,
        directive: "bench/directive",
        origin: Origin::Root,
        model: Some("claude-sonnet-4-5"),
        record: None,
        process: None,
        most_running: None,
    };
    registry.create(&new, now)?;
    registry.set_status(id, None, Status::Running, now)?;
    let spent = Spent {
        turns: 12,
        input_tokens: 34_567,
        output_tokens: 8_901,
        ..Spent::default()
    };
    registry.set_cost(id, &spent, now)?;
    let answer = "The agent answers in a few sentences. ".repeat(26);
    registry.set_result(id, &answer.into(), now)?;
    registry.set_status(id, None, Status::Completed, now)?;
    Ok(())
}

/// Writes the records of these threads. The extra is of bytes.
fn write(path: &Path, which: &str) -> Fallible<(u64, u64)> {
    let place = Place::at(path)?;
    let records = records_of(which);
    let (mut before, mut bytes) = (None, 0);
    for number in 0..records {
        let thread = id(which, number)?;
        let (head, size) = record(&place, thread, before, SEARCHED / records)?;
        before = Some(head);
        bytes += size;
    }
    Ok((records, bytes))
}

/// A record of this many bytes that continues from `before`.
fn record(place: &Place, id: ThreadId, before: Option<Head>, bytes: u64) -> Fallible<(Head, u64)> {
    let keys = Keys {
        native: Arc::new(signer(1, KeyUsage::Native)),
        rye: Arc::new(signer(2, KeyUsage::Rye)),
        epochs: None,
    };
    let (native, rye) = (*keys.native.public_key(), *keys.rye.public_key());
    let mut manifest = Manifest::new(place.host.new_record()?, native, rye);
    manifest.predecessor = before;
    let folder = place.project.thread(&id);
    std::fs::create_dir_all(folder.path())?;
    let mut recorder =
        Recorder::create(place.host.clone(), &folder.transcript(), id, manifest, keys)?;
    let said = EventType::parse("cognition_out")?;
    let done = EventType::parse("tool_call_result")?;
    let words = "the agent reads a file, and \\\"thinks\\\"\\n".repeat(46);
    let text = Payload::parse(format!(r#"{{"text":"{words}"}}"#).as_bytes())?;
    let output = Payload::parse(format!(r#"{{"call_id":"c1","output":"{words}"}}"#).as_bytes())?;
    let needle = format!(r#"{{"text":"{words} {NEEDLE} {words}"}}"#);
    recorder.append_buffered(&said, &Payload::parse(needle.as_bytes())?)?;
    let mut events = 1;
    while recorder.state().size() < bytes {
        match events % 2 {
            0 => recorder.append_buffered(&said, &text)?,
            _ => recorder.append_buffered(&done, &output)?,
        }
        events += 1;
        if events % EVENTS_A_SEAL == 0 {
            recorder.seal(events / EVENTS_A_SEAL, Ext::default())?;
        }
    }
    let cost = Payload::parse(b"{\"cost\":{}}")?;
    let head = recorder.end(Ending::Completed, &cost, events)?;
    Ok((head, head.size))
}

/// As `thread list`.
fn list(path: &Path, calls: &str, rows: &str) -> Fallible<Cost> {
    let registry = Place::at(path)?.project.registry(Layout::Seed);
    let filter = Filter {
        limit: Some(rows.parse()?),
        ..Filter::default()
    };
    let cost = percentile(calls, || {
        let listed = SqliteRegistry::view(&registry, |view| view.list(&filter))?;
        Ok(listed.threads.len() as u64)
    })?;
    all_there(cost, rows.parse()?)
}

/// As `thread chain`, from the middle of the chain.
fn chain(path: &Path, calls: &str) -> Fallible<Cost> {
    let registry = Place::at(path)?.project.registry(Layout::Seed);
    let asked = id("many", CHAIN / 2)?;
    let cost = percentile(calls, || {
        let chain = SqliteRegistry::view(&registry, |view| view.chain(&asked))?;
        match chain.fault {
            None => Ok(chain.threads.len() as u64),
            Some(fault) => Err(fault.to_string().into()),
        }
    })?;
    all_there(cost, CHAIN)
}

/// As `thread search` and the operation `chain_search`.
fn search(path: &Path, calls: &str, which: &str, kind: &str) -> Fallible<Cost> {
    let place = Place::at(path)?;
    let records = Records {
        registry: Arc::new(ViewedRegistry::new(place.project.registry(Layout::Seed))),
        project: place.project,
        host: place.host,
        trust: Arc::new(trust(&signer(1, KeyUsage::Native))?),
        log: threadseal_verify::home_log::HomeLog::Never,
    };
    let kind = SearchType::parse(kind).ok_or("no kind of search")?;
    let query = match kind {
        SearchType::Text => TEXT,
        SearchType::Regex => REGEX,
    };
    let search = Search::new(query, kind, Some(1000))?;
    let asked = id(which, 0)?;
    let cost = percentile(calls, || {
        let found = records.search(&asked, &search, &Cancel::default())?;
        match found["success"] == true {
            true => Ok(found["count"].as_u64().unwrap_or_default()),
            false => Err(format!("not all was searched: {}", found["skipped"]).into()),
        }
    })?;
    all_there(cost, records_of(which))
}

fn all_there(cost: Cost, expected: u64) -> Fallible<Cost> {
    match cost.count == expected {
        true => Ok(cost),
        false => Err(format!("{} found, not {expected}", cost.count).into()),
    }
}
