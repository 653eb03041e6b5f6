//! The measured jobs, each in a process of its own.

use super::cost::Cost;
use crate::console::Fallible;
use std::path::Path;
use std::sync::Arc;
use threadseal_core::digest::{Digest, Hasher};
use threadseal_core::key::{KeyUsage, LocalSigner, Message, PrivateKey, Signer};
use threadseal_core::merkle::{Frontier, leaf_hash};
use threadseal_core::record::{RecordId, ThreadId};
use threadseal_core::report::Verdict;
use threadseal_core::trust::{Trust, TrustName, TrustStore, TrustedKey};
use threadseal_formats::transcript::event::{EventType, Payload, Salt};
use threadseal_formats::transcript::ext::Ext;
use threadseal_formats::transcript::manifest::Manifest;
use threadseal_formats::transcript::{Ending, ScanOptions, Sealer, Signers, Stamp, VerifyOptions};
use threadseal_store::clock::{Clock, SystemClock};
use threadseal_store::examine;
use threadseal_store::heads::MemoryHeadStore;
use threadseal_store::host::Host;
use threadseal_store::key_ends::NoKeyEnds;
use threadseal_store::random::{Random, SystemRandom};
use threadseal_store::read::{Source, open_regular};
use threadseal_store::recorder::{Keys, Recorder};
use threadseal_store::sys::RealFs;

/// Events between two seals in the durable job.
const EVENTS_A_SEAL: u64 = 1000;

/// Runs one job in this process and returns its cost.
pub(super) fn run(name: &str, path: &Path, rest: &[&str]) -> Fallible<Cost> {
    let clock = SystemClock;
    let started = clock.elapsed();
    let (count, extra) = match (name, rest) {
        ("hash", []) => hash_file(path)?,
        ("hash-dir", []) => hash_directory(path)?,
        ("floor-dir", []) => floor_of_directory(path)?,
        ("verify", []) => verify(path)?,
        ("write", [bytes]) => write(path, bytes.parse()?)?,
        ("durable", [events]) => durable(path, events.parse()?)?,
        _ => match super::ledger_job::run(name, path, rest)
            .or_else(|| super::runtime_job::run(name, path, rest))
            .or_else(|| super::log_job::run(name, path, rest))
        {
            Some(cost) => return cost,
            None => super::scroll_job::run(name, path, rest)
                .or_else(|| super::lineage_job::run(name, path, rest))
                .ok_or(format!("no job {name}"))??,
        },
    };
    Ok(Cost {
        wall_seconds: (clock.elapsed() - started).as_secs_f64(),
        cpu_seconds: cpu_seconds(),
        peak_bytes: peak_bytes()?,
        count,
        extra,
    })
}

pub(super) fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    #[expect(clippy::cast_precision_loss, reason = "a benchmark's seconds")]
    let seconds = time.tv_sec as f64 + time.tv_nsec as f64 / 1e9;
    seconds
}

pub(super) fn peak_bytes() -> Fallible<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: u64 = line
        .ok_or("no VmHWM")?
        .trim()
        .trim_end_matches(" kB")
        .parse()?;
    Ok(kib * 1024)
}

fn hash_file(path: &Path) -> Fallible<(u64, u64)> {
    let file = open_regular(&RealFs, path)?;
    let (mut chunks, mut buffer, mut hasher) = (file.chunks(), Vec::new(), Hasher::new());
    loop {
        chunks.next_chunk(&mut buffer)?;
        if buffer.is_empty() {
            break;
        }
        hasher.update(&buffer);
    }
    // The digest is used, so that no compiler leaves it out.
    Ok((u64::from(hasher.finish().as_bytes()[0]), 0))
}

/// Hashes every record of a folder on all cores. The count is of files, the extra of bytes.
fn hash_directory(path: &Path) -> Fallible<(u64, u64)> {
    each_record(path, &|file: &Path| {
        hash_file(file)?;
        Ok(())
    })
}

/// The work that no verifier of these records can leave out: it reads each record, hashes all bytes
/// for the seal and each line as a leaf of the tree, and checks two signatures (Rye's and the note's).
fn floor_of_directory(path: &Path) -> Fallible<(u64, u64)> {
    let rye = signer(2, KeyUsage::Rye);
    let message = Message::rye_hash(&Digest::of(b"a seal"));
    let signature = rye.sign(&message)?;
    each_record(path, &|file: &Path| {
        let bytes = std::fs::read(file)?;
        let mut prefix = Hasher::new();
        prefix.update(&bytes);
        let mut tree = Frontier::new();
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            tree.push_leaf(leaf_hash(line));
        }
        if prefix.finish() == tree.root() {
            return Err("two digests are equal".into());
        }
        for _ in 0..2 {
            rye.public_key().verify(message.as_bytes(), &signature)?;
        }
        Ok(())
    })
}

/// Does `work` with every record of a folder, on all cores. The count is of files, the extra of bytes.
fn each_record(
    path: &Path,
    work: &(impl Fn(&Path) -> Fallible<()> + Sync),
) -> Fallible<(u64, u64)> {
    let mut files: Vec<_> = std::fs::read_dir(path)?.collect::<Result<_, _>>()?;
    files.retain(|entry| entry.path().extension().is_some_and(|ext| ext == "jsonl"));
    let work_through = |files: &[std::fs::DirEntry]| -> Result<u64, String> {
        let mut bytes = 0;
        for entry in files {
            work(&entry.path()).map_err(|error| error.to_string())?;
            bytes += entry.metadata().map_err(|error| error.to_string())?.len();
        }
        Ok(bytes)
    };
    let share = files.len().div_ceil(super::cost::cores()).max(1);
    let bytes = std::thread::scope(|scope| {
        let threads = files.chunks(share);
        let threads: Vec<_> = threads
            .map(|files| scope.spawn(|| work_through(files)))
            .collect();
        let joined = threads.into_iter().map(|thread| {
            let done = thread.join().map_err(|_| "a thread panicked".to_owned());
            done.flatten()
        });
        joined.sum::<Result<u64, String>>()
    })?;
    Ok((files.len() as u64, bytes))
}

pub(super) fn signer(seed: u8, usage: KeyUsage) -> LocalSigner {
    LocalSigner::new(PrivateKey::from_seed([seed; 32]), usage)
}

/// The key that sealed the records of the bench, for the command.
pub(super) fn public_pem() -> String {
    signer(1, KeyUsage::Native).public_key().to_pem()
}

pub(super) fn trust(native: &LocalSigner) -> Fallible<Trust> {
    let mut store = TrustStore::new();
    let key = TrustedKey::new(
        TrustName::parse("bench")?,
        *native.public_key(),
        [KeyUsage::Native],
    );
    store.add(key)?;
    Ok(Trust::new(store))
}

fn verify(path: &Path) -> Fallible<(u64, u64)> {
    let trust = trust(&signer(1, KeyUsage::Native))?;
    let now = SystemClock.now()?;
    let options = VerifyOptions {
        trust: &trust,
        now,
        held_since: None,
        thread: None,
    };
    let file = open_regular(&RealFs, path)?;
    let report = examine::native(&file, &ScanOptions::default(), &options, &|_| {})?.report;
    if report.verdict != Verdict::Verified {
        return Err(format!("the record is {}", report.verdict).into());
    }
    Ok((report.stats.events, report.stats.checkpoints))
}

/// Writes event lines of about 2 KB, with a seal for each ten (about 20 KB), without fsync.
fn write(path: &Path, bytes: u64) -> Fallible<(u64, u64)> {
    use std::io::Write;
    let (native, rye) = (signer(1, KeyUsage::Native), signer(2, KeyUsage::Rye));
    let signers = Signers {
        native: &native,
        rye: &rye,
    };
    let record = RecordId::from_bytes([1; 32]);
    let manifest = Manifest::new(record, *native.public_key(), *rye.public_key());
    let mut salts = Salts::default();
    let mut out = Vec::new();
    let stamps = [salts.stamp()?, salts.stamp()?];
    let thread = ThreadId::parse("bench/1")?;
    let mut sealer = Sealer::begin(thread, manifest, stamps, signers, &mut out)?;
    let text = format!(
        "{{\"text\":\"{}\"}}",
        "the agent reads a file, and \\\"thinks\\\" ".repeat(46)
    );
    let payload = Payload::parse(text.as_bytes())?;
    let event_type = EventType::parse("cognition_out")?;
    let mut file = std::fs::File::create(path)?;
    let (mut events, mut seals) = (0, 0);
    while sealer.size() < bytes {
        sealer.event(salts.stamp()?, &event_type, &payload, &mut out)?;
        events += 1;
        if events % 10 == 0 {
            sealer.seal(
                salts.stamp()?,
                events / 10,
                false,
                Ext::default(),
                signers,
                &mut out,
            )?;
            seals += 1;
        }
        if out.len() > 256 << 10 {
            file.write_all(&out)?;
            out.clear();
        }
    }
    let cost = Payload::parse(b"{\"cost\":{}}")?;
    sealer.end(salts.stamp()?, Ending::Completed, &cost, &mut out)?;
    sealer.seal(
        salts.stamp()?,
        events,
        true,
        Ext::default(),
        signers,
        &mut out,
    )?;
    file.write_all(&out)?;
    Ok((events, seals))
}

/// Salts drawn in blocks, as by a busy recorder.
#[derive(Default)]
struct Salts {
    block: Vec<u8>,
}

impl Salts {
    fn stamp(&mut self) -> Fallible<Stamp> {
        if self.block.is_empty() {
            self.block.resize(4096, 0);
            SystemRandom.fill(&mut self.block)?;
        }
        let at = self.block.len() - 16;
        let salt: [u8; 16] = self.block[at..].try_into()?;
        self.block.truncate(at);
        Ok(Stamp {
            timestamp: SystemClock.now()?,
            salt: Salt::from_bytes(salt),
        })
    }
}

/// Writes events of about 200 bytes through the recorder, with a seal for each thousand: two fsyncs
/// a seal.
fn durable(path: &Path, events: u64) -> Fallible<(u64, u64)> {
    let host = Host {
        fs: Arc::new(RealFs),
        clock: Arc::new(SystemClock),
        random: Arc::new(SystemRandom),
        heads: Arc::new(MemoryHeadStore::default()),
        keys: Arc::new(NoKeyEnds),
    };
    let keys = Keys {
        native: Arc::new(signer(1, KeyUsage::Native)),
        rye: Arc::new(signer(2, KeyUsage::Rye)),
        epochs: None,
    };
    let manifest = Manifest::new(
        host.new_record()?,
        *keys.native.public_key(),
        *keys.rye.public_key(),
    );
    let thread = ThreadId::parse("bench/1")?;
    let mut recorder = Recorder::create(host, path, thread, manifest, keys)?;
    let event_type = EventType::parse("tool_call_result")?;
    let payload = Payload::parse(b"{\"call_id\":\"c1\",\"output\":\"0123456789012345\"}")?;
    for event in 1..=events {
        recorder.append_buffered(&event_type, &payload)?;
        if event % EVENTS_A_SEAL == 0 {
            recorder.seal(event / EVENTS_A_SEAL, Ext::default())?;
        }
    }
    recorder.sync()?;
    Ok((events, 2 * (events / EVENTS_A_SEAL)))
}
