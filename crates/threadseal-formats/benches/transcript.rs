//! Verifying and sealing a native record, beside one SHA-256 pass over the same bytes.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]
#![allow(
    clippy::unwrap_used,
    reason = "a benchmark that cannot be set up has nothing to measure"
)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use threadseal_core::digest::Digest;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, Signer};
use threadseal_core::record::{RecordId, ThreadId};
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{Trust, TrustName, TrustStore, TrustedKey};
use threadseal_formats::transcript::event::{EventType, Payload, Salt};
use threadseal_formats::transcript::ext::Ext;
use threadseal_formats::transcript::manifest::Manifest;
use threadseal_formats::transcript::{ScanOptions, Sealer, Signers, Stamp, VerifyOptions, verify};

/// Seals of the record, each over ten lines of about 2 KB.
const SEALS: u64 = 50;

fn stamp() -> Stamp {
    let timestamp = Timestamp::from_micros(1_771_356_405_000_000).unwrap();
    Stamp {
        timestamp,
        salt: Salt::from_bytes([7; 16]),
    }
}

fn record(native: &LocalSigner, rye: &LocalSigner) -> Vec<u8> {
    let signers = Signers { native, rye };
    let id = RecordId::from_bytes([1; 32]);
    let manifest = Manifest::new(id, *native.public_key(), *rye.public_key());
    let thread = ThreadId::parse("bench/1").unwrap();
    let mut out = Vec::new();
    let mut sealer =
        Sealer::begin(thread, manifest, [stamp(), stamp()], signers, &mut out).unwrap();
    let event_type = EventType::parse("cognition_out").unwrap();
    let text = format!("{{\"text\":\"{}\"}}", "the agent reads a file. ".repeat(80));
    let payload = Payload::parse(text.as_bytes()).unwrap();
    for turn in 1..=SEALS {
        for _ in 0..10 {
            sealer
                .event(stamp(), &event_type, &payload, &mut out)
                .unwrap();
        }
        sealer
            .seal(stamp(), turn, false, Ext::default(), signers, &mut out)
            .unwrap();
    }
    out
}

fn transcripts(criterion: &mut Criterion) {
    let native = LocalSigner::new(PrivateKey::from_seed([1; 32]), KeyUsage::Native);
    let rye = LocalSigner::new(PrivateKey::from_seed([2; 32]), KeyUsage::Rye);
    let mut store = TrustStore::new();
    let name = TrustName::parse("bench").unwrap();
    store
        .add(TrustedKey::new(
            name,
            *native.public_key(),
            [KeyUsage::Native],
        ))
        .unwrap();
    let trust = Trust::new(store);
    let now = stamp().timestamp;
    let options = VerifyOptions {
        trust: &trust,
        now,
        held_since: None,
        thread: None,
    };
    let bytes = record(&native, &rye);
    let mut group = criterion.benchmark_group("transcript");
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    group.bench_function("sha256", |b| b.iter(|| Digest::of(black_box(&bytes))));
    group.bench_function("verify", |b| {
        b.iter(|| verify(black_box(&bytes), &ScanOptions::default(), &options));
    });
    group.bench_function("write with all seals", |b| b.iter(|| record(&native, &rye)));
    group.finish();
}

criterion_group!(benches, transcripts);
criterion_main!(benches);
