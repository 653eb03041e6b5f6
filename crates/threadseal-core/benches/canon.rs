//! Throughput of strict reading and of RFC 8785, compared with SHA-256 of the same bytes.
//!
//! Verification of an event log does both to every line, so reading must not be the slower part.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use serde::de::IgnoredAny;
use std::hint::black_box;
use threadseal_core::canon::{jcs, json};
use threadseal_core::digest::Digest;

/// About a megabyte of event lines whose payload text is `text_bytes` long.
fn lines(text_bytes: usize, sentence: &str) -> Vec<String> {
    let text: String = sentence.chars().cycle().take(text_bytes).collect();
    let mut escaped = Vec::new();
    json::write_ascii_string(&mut escaped, &text);
    let escaped = String::from_utf8_lossy(&escaped);
    let line = |n: usize| {
        format!(
            r#"{{"timestamp":1739820456.{n:06},"thread_id":"agency-kiwi/discover_leads-1739820456","event_type":"cognition_out","payload":{{"turn":{n},"text":{escaped},"model":"claude-sonnet-4","usage":{{"input_tokens":{n},"output_tokens":512}}}},"salt":"9f86d081884c7d659a2feaa0c55ad015"}}"#
        )
    };
    (0..(1 << 20) / line(0).len()).map(line).collect()
}

const PROSE: &str = "The quick brown fox jumps over the lazy dog and then it said \"hello\".\n";
const CODE: &str = "fn main() {\n    println!(\"{}\", \"a\\tb\");\n}\n";
const ACCENTS: &str = "Déjà vu – 東京の天気は晴れです 🦀, and then some plain words again. ";

fn corpora() -> Vec<(&'static str, Vec<String>)> {
    vec![
        ("prose 2 KB", lines(1700, PROSE)),
        ("code 2 KB", lines(1500, CODE)),
        ("escapes 2 KB", lines(900, ACCENTS)),
        ("event 300 B", lines(20, PROSE)),
        ("prose 64 KB", lines(64 << 10, PROSE)),
    ]
}

fn reading(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("read");
    for (name, lines) in corpora() {
        let bytes: usize = lines.iter().map(String::len).sum();
        group.throughput(Throughput::Bytes(bytes as u64));
        let mut bench = |what: &str, read: fn(&[u8])| {
            group.bench_function(BenchmarkId::new(what, name), |bencher| {
                bencher.iter(|| {
                    for line in &lines {
                        read(black_box(line.as_bytes()));
                    }
                });
            });
        };
        bench("sha256", |line| {
            black_box(Digest::of(line));
        });
        bench("validate", |line| assert!(json::validate(line).is_ok()));
        bench("scan_object", |line| {
            let mut members = 0;
            assert!(json::scan_object(line, |_, span| members += span.len()).is_ok());
            black_box(members);
        });
        bench("parse", |line| assert!(json::parse(line).is_ok()));
        bench("serde_json IgnoredAny", |line| {
            assert!(serde_json::from_slice::<IgnoredAny>(line).is_ok());
        });
    }
    group.finish();
}

fn canonicalising(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("jcs");
    for (name, lines) in corpora() {
        let bytes: usize = lines.iter().map(String::len).sum();
        group.throughput(Throughput::Bytes(bytes as u64));
        let mut bench = |what: &str, canonicalize: fn(&str) -> usize| {
            group.bench_function(BenchmarkId::new(what, name), |bencher| {
                bencher.iter(|| {
                    let line_length = |line: &String| canonicalize(black_box(line));
                    lines.iter().map(line_length).sum::<usize>()
                });
            });
        };
        bench("canonicalize", |line| {
            jcs::canonicalize(line.as_bytes()).map_or(0, |text| text.len())
        });
        bench("serde_json_canonicalizer", |line| {
            serde_json_canonicalizer::pipe(line).map_or(0, |text| text.len())
        });
    }
    group.finish();
}

criterion_group!(benches, reading, canonicalising);
criterion_main!(benches);
