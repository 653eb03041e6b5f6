//! The jobs of the rows on agent-scroll, each in a process of its own.

use crate::console::Fallible;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use threadseal_core::canon::jcs;
use threadseal_core::digest::Digest;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, PublicKey, Signer};
use threadseal_core::report::Verdict;
use threadseal_core::trust::{Trust, TrustName, TrustStore, TrustedKey};
use threadseal_formats::scroll::{ChainOptions, Container, Judging, deserialize, hash_text, seal};
use threadseal_store::clock::{Clock as _, SystemClock};
use threadseal_store::read::open_regular;
use threadseal_store::scroll;
use threadseal_store::sys::RealFs;

/// The seed of the signing key, in hex.
pub(super) const SEED: &str = "0101010101010101010101010101010101010101010101010101010101010101";

fn signer() -> LocalSigner {
    LocalSigner::new(PrivateKey::from_seed([1; 32]), KeyUsage::Scroll)
}

/// The public key of the signer, in hex.
pub(super) fn public_hex() -> String {
    signer().public_key().to_hex()
}

/// Runs a job of this file; `None` when it has no such job.
pub(super) fn run(name: &str, path: &Path, rest: &[&str]) -> Option<Fallible<(u64, u64)>> {
    Some(match (name, rest) {
        ("scroll-turns", [count]) => count
            .parse()
            .map_err(Into::into)
            .and_then(|n| turns(path, n)),
        ("scroll-lines", [bytes]) => bytes
            .parse()
            .map_err(Into::into)
            .and_then(|n| lines(path, n)),
        ("scroll-verify", [container, key]) => verify(path, container, key),
        ("canon", []) => canonical(path, |line| jcs::canonicalize(line).ok()),
        ("canon-serde", []) => canonical(path, |line| {
            let text = std::str::from_utf8(line).ok()?;
            serde_json_canonicalizer::pipe(text)
                .ok()
                .map(String::into_bytes)
        }),
        _ => return None,
    })
}

/// A turn of 2 KB: text and one call of a tool, with members in the order of the specification.
fn turn(number: u64) -> Fallible<String> {
    let text =
        "The agent reads \\\"the file\\\", thinks, and answers in a few sentences.\\n".repeat(11);
    let code = "    let value = compute(input, 42); // one line of code\\n".repeat(9);
    let args =
        format!(r#"{{"path":"/src/main.rs","content":"{code}","line":{number},"replace":true}}"#);
    let hash = hash_text(&Digest::of(&jcs::canonicalize(args.as_bytes())?));
    // To the millisecond: v0.1 converts the number to a double, which keeps these digits.
    let nanoseconds = (1_700_000_000_000 + number * 1_234) * 1_000_000;
    Ok(format!(
        r#"{{"version":"scroll/0.1","turn":{number},"role":"assistant","model":{{"vendor":"anthropic","id":"claude-sonnet-4-5"}},"params":{{"temperature":0.7,"top_p":1,"max_tokens":4096}},"messages":[{{"role":"assistant","content":"{text}"}}],"tool_calls":[{{"id":"toolu_{number:016}","name":"edit_file","args_hash":"{hash}","args":{args}}}],"timestamp_ns":{nanoseconds}}}"#
    ))
}

/// Writes unsealed turns, as one array and also as one per line.
fn turns(path: &Path, count: u64) -> Fallible<(u64, u64)> {
    let turns: Vec<String> = (0..count).map(turn).collect::<Fallible<_>>()?;
    fs::write(path, format!("[{}]", turns.join(",")))?;
    fs::write(path.with_extension("jsonl"), turns.join("\n"))?;
    Ok((count, 0))
}

/// Writes a signed scroll in lines.
fn lines(path: &Path, bytes: u64) -> Fallible<(u64, u64)> {
    let signer = signer();
    let mut file = BufWriter::new(File::create(path)?);
    let (mut size, mut number, mut prev) = (0, 0, None);
    while size < bytes {
        let sealed = seal(deserialize(turn(number)?.as_bytes())?, prev, Some(&signer))?;
        file.write_all(sealed.canonical())?;
        file.write_all(b"\n")?;
        size += sealed.canonical().len() as u64 + 1;
        prev = Some(sealed.hash());
        number += 1;
    }
    file.flush()?;
    Ok((number, 0))
}

fn verify(path: &Path, container: &str, key: &str) -> Fallible<(u64, u64)> {
    let container = match container {
        "array" => Container::Array,
        _ => Container::Lines,
    };
    let pinned = match key {
        "none" => Vec::new(),
        hex => vec![PublicKey::from_hex(hex)?],
    };
    let mut store = TrustStore::new();
    let name = TrustName::parse("bench")?;
    store.add(TrustedKey::new(
        name,
        *signer().public_key(),
        [KeyUsage::Scroll],
    ))?;
    let trust = Trust::new(store);
    let judging = Judging::new(&trust, SystemClock.now()?);
    let wanted = match pinned.is_empty() {
        true => Verdict::Consistent,
        false => Verdict::Verified,
    };
    let options = ChainOptions {
        pinned,
        ..ChainOptions::default()
    };
    let file = open_regular(&RealFs, path)?;
    let report = scroll::verify(file.chunks(), container, options, &judging, &|_| {})?.report;
    if report.verdict != wanted {
        return Err(format!("the scroll is {}", report.verdict).into());
    }
    Ok((report.stats.events, 0))
}

/// The number of bytes in the canonical forms of all lines.
fn canonical(path: &Path, form: fn(&[u8]) -> Option<Vec<u8>>) -> Fallible<(u64, u64)> {
    let file = fs::read(path)?;
    let lines: Vec<&[u8]> = file.split(|byte| *byte == b'\n').collect();
    let mut bytes = 0;
    // One pass is too short for a clock.
    for _ in 0..CANON_PASSES {
        for line in &lines {
            let text = form(black_box(line)).ok_or("a line has no canonical form")?;
            bytes += text.len() as u64;
            black_box(text);
        }
    }
    let mut hasher = threadseal_core::digest::Hasher::new();
    for line in lines.iter().take(100) {
        hasher.update(&form(line).ok_or("a line has no canonical form")?);
    }
    let mut first = [0; 8];
    first.copy_from_slice(&hasher.finish().as_bytes()[..8]);
    Ok((bytes, u64::from_le_bytes(first)))
}

const CANON_PASSES: u64 = 20;
