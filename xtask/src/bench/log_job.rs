//! The jobs of the rows on the log of a host, each in a process of its own.
//!
//! ```text
//! home          with keys, with heads on the disk, and in some jobs with a log
//! DIR/log       a log of many heads of one record, written without waiting for the disk
//! ```

use super::cost::Cost;
use super::job::{cpu_seconds, peak_bytes, signer};
use crate::console::Fallible;
use std::path::Path;
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::key::{KeyUsage, LocalSigner, Signer as _};
use threadseal_core::merkle::leaf_hash;
use threadseal_core::record::{Head, RecordId, RecordKind, ThreadId};
use threadseal_core::tlog::entry::LoggedHead;
use threadseal_formats::transcript::event::{EventType, Payload};
use threadseal_formats::transcript::ext::Ext;
use threadseal_formats::transcript::manifest::Manifest;
use threadseal_log::{Description, LogHome, LogId, LogKey, LogRegistry, LoggedHeads, SealLog};
use threadseal_store::clock::{Clock as _, SystemClock};
use threadseal_store::heads::HeadStore;
use threadseal_store::home::Home;
use threadseal_store::host::Host;
use threadseal_store::key_ends::NoKeyEnds;
use threadseal_store::random::{Random as _, SystemRandom};
use threadseal_store::recorder::{Keys, Recorder};
use threadseal_store::sys::{Fs, RealFs};

/// Events of 200 bytes between two seals.
const EVENTS_A_SEAL: usize = 5;
/// Heads that are published before the job waits for the log.
const PUBLISHED_AT_ONCE: u64 = 16_384;

/// Runs a job of this file; `None` when it has no such job.
pub(super) fn run(name: &str, path: &Path, rest: &[&str]) -> Option<Fallible<Cost>> {
    Some(match (name, rest) {
        ("log-seal", [with, seals]) => seal(path, *with == "with", seals),
        ("log-fill", [heads]) => fill(path, heads),
        ("log-prove", [proofs]) => prove(path, proofs),
        _ => return None,
    })
}

fn places(fs: Arc<dyn Fs>, home: &Path) -> LogRegistry {
    LogRegistry::new(LogHome {
        fs,
        path: home.to_owned(),
        mark: home.with_extension("marks"),
        elsewhere: Vec::new(),
        host: None,
        settings: Vec::new(),
    })
}

/// The log of a home, made where there is none.
fn log(home: &Path) -> Fallible<SealLog> {
    let places = places(Arc::new(RealFs), home);
    let key = signer(7, KeyUsage::Log);
    let description = Description {
        id: LogId::from_bytes([7; 16]),
        key: *key.public_key(),
        host: None,
        marks: Vec::new(),
        single_host: true,
    };
    let key = LogKey(Arc::new(key));
    if places.current()?.is_none() {
        places.create(&description, &key, &[], &|| Ok(()))?;
    }
    let random = Arc::new(SystemRandom);
    Ok(SealLog::open(places, description, Some(key), random))
}

/// The median time of one of many consecutive seals. The extra is the number of the log's commits.
fn seal(path: &Path, with_log: bool, seals: &str) -> Fallible<Cost> {
    let folder = path.join(if with_log { "with" } else { "without" });
    let home = Home::create(Arc::new(RealFs), &folder)?;
    let log = match with_log {
        true => Some(Arc::new(log(home.path())?)),
        false => None,
    };
    let heads: Arc<dyn HeadStore> = match &log {
        Some(log) => Arc::new(LoggedHeads::new(Arc::new(home.heads()), Arc::clone(log))),
        None => Arc::new(home.heads()),
    };
    let host = Host {
        fs: Arc::new(RealFs),
        clock: Arc::new(SystemClock),
        random: Arc::new(SystemRandom),
        heads,
        keys: Arc::new(NoKeyEnds),
    };
    let own = |number, usage| -> Arc<LocalSigner> { Arc::new(signer(number, usage)) };
    let keys = Keys {
        native: own(1, KeyUsage::Native),
        rye: own(2, KeyUsage::Rye),
        epochs: None,
    };
    let (native, rye) = (*keys.native.public_key(), *keys.rye.public_key());
    let manifest = Manifest::new(host.new_record()?, native, rye);
    let thread = ThreadId::parse("bench/log")?;
    let file = folder.join("transcript.jsonl");
    let mut recorder = Recorder::create(host, &file, thread, manifest, keys)?;
    let said = EventType::parse("cognition_out")?;
    let text = Payload::parse(format!("{{\"text\":\"{}\"}}", "word ".repeat(20)).as_bytes())?;
    let (seals, cpu) = (seals.parse::<u64>()?.max(1), cpu_seconds());
    let mut times = Vec::new();
    for turn in 1..=seals {
        for _ in 0..EVENTS_A_SEAL {
            recorder.append(&said, &text)?;
        }
        let started = SystemClock.elapsed();
        recorder.seal(turn, Ext::default())?;
        times.push((SystemClock.elapsed() - started).as_secs_f64());
    }
    let cpu_seconds = cpu_seconds() - cpu;
    let mut commits = 0;
    if let Some(log) = &log {
        let published = log.flush();
        if let Some(error) = published.error {
            return Err(error.into());
        }
        // Line 1 has seal 0.
        if log.view()?.tree().size != seals + 1 {
            return Err("not all seals are in the log".into());
        }
        commits = log.commits();
    }
    Ok(Cost {
        wall_seconds: median(&mut times),
        cpu_seconds,
        peak_bytes: peak_bytes()?,
        count: seals,
        extra: commits,
    })
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Fills a log with heads of one record.
fn fill(path: &Path, heads: &str) -> Fallible<Cost> {
    let (started, cpu) = (SystemClock.elapsed(), cpu_seconds());
    let log = log(path)?;
    let heads: u64 = heads.parse()?;
    for seq in 0..heads {
        log.publish(&LoggedHead {
            kind: RecordKind::Transcript,
            head: Head {
                record: RecordId::from_bytes([3; 32]),
                seq,
                size: seq,
                line: Digest::of(&seq.to_be_bytes()),
            },
            root: None,
            key: None,
        });
        if seq % PUBLISHED_AT_ONCE == 0 || seq + 1 == heads {
            let published = log.flush();
            if let Some(error) = published.error {
                return Err(error.into());
            }
        }
    }
    if log.view()?.tree().size != heads {
        return Err("not all heads are in the log".into());
    }
    Ok(Cost {
        wall_seconds: (SystemClock.elapsed() - started).as_secs_f64(),
        cpu_seconds: cpu_seconds() - cpu,
        peak_bytes: peak_bytes()?,
        count: heads,
        extra: 0,
    })
}

/// The median time of one proof: read the entry, make its proof from the tiles, check it.
fn prove(path: &Path, proofs: &str) -> Fallible<Cost> {
    let log = log(path)?;
    let view = log.view()?;
    let (size, cpu) = (view.tree().size, cpu_seconds());
    let proofs = proofs.parse::<u64>()?.max(1);
    let (mut times, mut hashes) = (Vec::new(), 0);
    for _ in 0..proofs {
        let mut number = [0; 8];
        SystemRandom.fill(&mut number)?;
        let number = u64::from_be_bytes(number) % size;
        let started = SystemClock.elapsed();
        let entry = view.entry(number)?;
        let proof = view.inclusion(number, &entry)?;
        proof.check(&leaf_hash(&entry), number, &view.tree())?;
        times.push((SystemClock.elapsed() - started).as_secs_f64());
        hashes = hashes.max(proof.hashes().len() as u64);
    }
    Ok(Cost {
        wall_seconds: median(&mut times),
        cpu_seconds: (cpu_seconds() - cpu),
        peak_bytes: peak_bytes()?,
        count: size,
        extra: hashes,
    })
}
