//! Rye transcripts that the Rye package made, and hundreds of changes to them.

use crate::scene::*;
use std::path::Path;
use threadseal_core::canon::json::{Value, parse_python};
use threadseal_formats::transcript::lines::VerifiedLines;
use threadseal_formats::transcript::messages::{self, Message};
use threadseal_formats::transcript::render::{self, Cost, Cover};
use threadseal_formats::transcript::rye::{self, Options};
use threadseal_formats::transcript::rye_compat::{self, Answers};

/// One transcript of the indexes.
struct Entry {
    name: String,
    bytes: Vec<u8>,
    about: Value,
    keys: Vec<PublicKey>,
}

impl Entry {
    fn text(&self, name: &str) -> &str {
        self.about.get(name).and_then(Value::as_str).unwrap()
    }

    fn word(&self) -> &str {
        self.text("expect")
    }

    /// The change made to the genuine transcript.
    fn change(&self) -> &str {
        let name = self.name.rsplit('/').next().unwrap();
        name.strip_suffix(".jsonl").unwrap()
    }

    fn trust(&self) -> Trust {
        trust_in(self.keys.iter().map(|key| (*key, KeyUsage::Rye)))
    }

    /// The genuine signer of every vector that was tampered with.
    fn pinned(&self) -> Trust {
        let own = |key: &&PublicKey| key.rye_fingerprint().to_hex() == "3ef44d1ee334ace7";
        Trust::key(*self.keys.iter().find(own).unwrap())
    }

    fn source(&self) -> Vec<u8> {
        let valid = beside_repository("vectors/rye/valid").unwrap();
        std::fs::read(valid.join(self.text("source"))).unwrap()
    }
}

fn entries() -> Vec<Entry> {
    let Some(rye) = beside_repository("vectors/rye") else {
        return Vec::new();
    };
    let mut out = Vec::new();
    for half in ["valid", "tampered"] {
        let index = std::fs::read(rye.join(half).join("index.json")).unwrap();
        for about in parse_python(&index).unwrap().value.as_array().unwrap() {
            if about.get("kind").and_then(Value::as_str) != Some("transcript") {
                continue;
            }
            let name = about.get("file").and_then(Value::as_str).unwrap();
            let here = rye.join(half).join(name);
            let moved = rye.join("../../corpus/rye-real").join(name);
            let bytes = std::fs::read(if here.exists() { here } else { moved }).unwrap();
            let user = about.get("trust_user_space").and_then(Value::as_str);
            let user = user.unwrap_or("user");
            out.push(Entry {
                name: format!("{half}/{name}"),
                bytes,
                about: about.clone(),
                keys: trusted_keys(&rye.join("valid").join(user)),
            });
        }
    }
    assert!(out.len() > 250, "{}", out.len());
    out
}

/// The keys in a user's trust folder.
fn trusted_keys(user: &Path) -> Vec<PublicKey> {
    let folder = std::fs::read_dir(user.join(".ai/config/keys/trusted")).unwrap();
    let key = |text: &str| {
        let pem = text.find("-----BEGIN").map(|at| &text[at..])?;
        PublicKey::from_pem(pem.split("\"\"\"").next()?).ok()
    };
    folder
        .map(|file| key(&std::fs::read_to_string(file.unwrap().path()).unwrap()).unwrap())
        .collect()
}

#[test]
fn the_original_answers_are_given_for_every_transcript() {
    let mut compared = 0;
    for entry in entries() {
        let Some(recorded) = entry.about.get("rye_strict") else {
            continue;
        };
        let look_up = |fingerprint: &str| {
            let named = |key: &&PublicKey| key.rye_fingerprint().to_hex() == fingerprint;
            entry.keys.iter().find(named).copied()
        };
        let Answers::Given { strict, lenient } = rye_compat::verify(&entry.bytes, &look_up) else {
            panic!("{}", entry.name);
        };
        assert_eq!(strict.value(), recorded, "{}", entry.name);
        let recorded = entry.about.get("rye_lenient");
        assert_eq!(Some(lenient.value()), recorded, "{}", entry.name);
        compared += 1;
    }
    println!("{compared} recorded answers");
}

/// The verdicts that a word of the indexes allows, without options.
fn allowed(entry: &Entry) -> &'static [Verdict] {
    use Verdict::{Forged, Tampered, UnknownSigner, Unsigned, UnsignedTail, Verified};
    match (entry.word(), entry.change()) {
        // A cut inside the last checkpoint line looks the same as a crash during its write. If it
        // was the only checkpoint, no seal is left.
        ("invalid", "trunc_midline") => &[UnsignedTail, Unsigned],
        // A history wholly sealed by a stranger contradicts nothing.
        ("invalid", "forged_all_untrusted") => &[UnknownSigner],
        ("invalid", _) => &[Tampered, Forged],
        ("valid" | "invalid_with_context", _) => &[Verified],
        // These also claim turn 99 after ten turns or fewer.
        ("invalid_if_key_pinned", "append_ckpt_other_trusted_key") => &[Tampered],
        ("valid_or_warn", _) => &[UnsignedTail, Verified],
        ("unsigned", _) => &[Unsigned],
        ("unsigned_tail" | "unsigned_tail_corrupt", _) => &[UnsignedTail],
        ("untrusted_key(hash ok)", _) => &[UnknownSigner],
        (word, change) => panic!("{word} {change}"),
    }
}

#[test]
fn every_transcript_gets_a_verdict_that_its_word_allows() {
    for entry in entries() {
        let trust = entry.trust();
        let options = Options::new(&trust, now());
        let outcome = rye::verify(&entry.bytes, &options);
        let report = &outcome.report;
        let fits = allowed(&entry).contains(&report.verdict);
        assert!(fits, "{} {report:#?}", entry.name);
        let verified = report.verdict == Verdict::Verified;
        assert_eq!(outcome.verified.is_some(), verified);
        if entry.word() == "unsigned_tail_corrupt" {
            let mut severities = report.findings.iter().map(|f| f.severity);
            let error = severities.any(|severity| severity == Severity::Error);
            assert!(error, "{} {report:#?}", entry.name);
        }
        if report.verdict.exit_code() == 1 {
            assert!(!report.findings.is_empty(), "{}", entry.name);
        }
        let every = Options {
            every_signature: true,
            ..options
        };
        let again = rye::verify(&entry.bytes, &every).report;
        assert_eq!(again.verdict, report.verdict, "{}", entry.name);
        assert_eq!(again.trusted_until, report.trusted_until, "{}", entry.name);
    }
}

#[test]
fn with_the_genuine_key_pinned_no_other_signer_is_verified() {
    for entry in entries() {
        let verdict = match entry.change() {
            "append_ckpt_other_trusted_key" | "append_ckpt_untrusted" | "append_ckpt_fp_spoof" => {
                Verdict::Forged
            }
            "forged_all_untrusted" => Verdict::UnknownSigner,
            _ => continue,
        };
        let trust = entry.pinned();
        let report = rye::verify(&entry.bytes, &Options::new(&trust, now())).report;
        assert_eq!(report.verdict, verdict, "{}", entry.name);
    }
}

#[test]
fn what_only_context_tells_is_told_with_context() {
    let mut told = 0;
    for entry in entries() {
        if entry.word() != "invalid_with_context" {
            continue;
        }
        let trust = entry.trust();
        let source = entry.source();
        let genuine = rye::verify(&source, &Options::new(&trust, now())).report;
        let head = genuine.head.unwrap();
        let heads = [ExpectedHead::Head(head), ExpectedHead::Line(head.line)];
        let line = source.split(|b| *b == b'\n').next().unwrap();
        let line = parse_python(line).unwrap().value;
        let thread = line.get("thread_id").and_then(Value::as_str).unwrap();
        let thread = ThreadId::parse(thread).unwrap();
        let plain = Options::new(&trust, now());
        let with_thread = Options {
            thread: Some(&thread),
            ..plain.clone()
        };
        let with_head = heads.map(|head| {
            let expect = vec![Expectation::given(head, false)];
            Options {
                expect,
                ..plain.clone()
            }
        });
        let [full, bare] = &with_head;
        for options in [&with_thread, full, bare] {
            let intact = rye::verify(&source, options).report;
            assert_eq!(intact.verdict, Verdict::Verified, "{intact:#?}");
            let mut results = intact.checks.iter().map(|check| check.result);
            assert!(results.all(|result| result != CheckResult::Fail));
        }
        let verdict = |options| rye::verify(&entry.bytes, options).report.verdict;
        let expected = match entry.change() {
            "trunc_boundary" => [Verdict::Verified, Verdict::Truncated],
            _ => [Verdict::Foreign; 2],
        };
        assert_eq!([&with_thread, full].map(verdict), expected);
        assert_eq!(verdict(bare), Verdict::Truncated);
        told += 1;
    }
    println!("{told} told");
}

/// Passes each verified transcript for which Rye's own output exists, with its folder.
fn clean(read: impl Fn(&Path, &VerifiedLines<'_>)) {
    for entry in entries() {
        let clean = "valid/proj_clean/.ai/agent/threads/";
        let Some(folder) = entry.name.strip_prefix(clean) else {
            continue;
        };
        let thread = folder.strip_suffix("/transcript.jsonl").unwrap();
        let trust = entry.trust();
        let verified = rye::verify(&entry.bytes, &Options::new(&trust, now()))
            .verified
            .unwrap();
        let lines = VerifiedLines::open(&verified, &entry.bytes).unwrap();
        read(Path::new(thread), &lines);
        let mut changed = entry.bytes.clone();
        changed[0] = b'[';
        assert!(VerifiedLines::open(&verified, &changed).is_err());
    }
}

#[test]
fn messages_are_those_that_the_original_reconstructs() {
    clean(|thread, lines| {
        let folder = beside_repository("vectors/rye/valid/proj_clean/.ai/agent/threads").unwrap();
        let expected = std::fs::read(folder.join(thread).join("EXPECTED_messages.json")).unwrap();
        let got = messages::reconstruct(lines).unwrap();
        let got = got.iter().map(Message::to_value).collect();
        assert_eq!(Value::Array(got), parse_python(&expected).unwrap().value);
    });
}

#[test]
fn harmless_transcripts_are_rendered_as_the_original_renders_them() {
    clean(|thread, lines| {
        let folder = "vectors/rye/valid/proj_clean/.ai/knowledge/agent/threads";
        let folder = beside_repository(folder).unwrap();
        let expected = std::fs::read_to_string(folder.join(thread).with_extension("md")).unwrap();
        let (_signature, expected) = expected.split_once('\n').unwrap();
        let thread = ThreadId::parse(thread.to_str().unwrap()).unwrap();
        let field = |name: &str| {
            let start = expected.find(&format!("\n{name}: ")).unwrap() + name.len() + 3;
            expected[start..].lines().next().unwrap()
        };
        let cover = Cover {
            thread: &thread,
            directive: field("directive"),
            status: field("status"),
            model: field("model"),
            cost: Cost {
                turns: field("turns").parse().unwrap(),
                input_tokens: field("input_tokens").parse().unwrap(),
                output_tokens: field("output_tokens").parse().unwrap(),
                spend: field("spend").parse().unwrap(),
                elapsed_seconds: field("elapsed_seconds").parse().unwrap(),
            },
            permissions: &["rye.execute.tool.x.*".to_owned()],
        };
        assert_eq!(render::render(lines, &cover).unwrap(), expected);
    });
}
