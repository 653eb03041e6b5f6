//! Writes ledgers from their values, as `spec/ledger.md` §2, §3, §6 and §7 have them.

use crate::forge::{key, signature, tagged};
use crate::list::Trusted;
use crate::values::{Value, map};
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::key::Signer as _;

pub(super) const RUN: &str = "run-1";

/// A ledger while it is written.
pub(super) struct Ledger {
    pub(super) lines: Vec<String>,
    /// Hash and signature of each record.
    pub(super) records: Vec<(Digest, Option<String>)>,
    /// What is behind the last line.
    pub(super) behind: &'static str,
}

impl Ledger {
    pub(super) fn new() -> Self {
        Self {
            lines: Vec::new(),
            records: Vec::new(),
            behind: "",
        }
    }

    /// `steps` steps of two records each, signed by this key.
    pub(super) fn of_steps(steps: usize, signer: Option<u8>) -> Self {
        let mut ledger = Self::new();
        for number in 0..steps {
            ledger.step(number, signer);
        }
        ledger
    }

    /// A step: it starts, and is completed.
    pub(super) fn step(&mut self, number: usize, signer: Option<u8>) -> &mut Self {
        self.record(record(number, "started"), signer)
            .record(record(number, "completed"), signer)
    }

    /// Appends a record, linked, hashed and signed.
    pub(super) fn record(&mut self, record: Value, signer: Option<u8>) -> &mut Self {
        self.altered(record, signer, |_| {})
    }

    /// The same, altered after it was signed.
    pub(super) fn altered(
        &mut self,
        mut record: Value,
        signer: Option<u8>,
        alter: impl FnOnce(&mut Value),
    ) -> &mut Self {
        match self.records.last() {
            Some((before, _)) => record.set("prev_hash", before.to_string()),
            None => record.set("prev_hash", Value::Null),
        };
        let covered = record.without(&["record_hash", "signature"]).sorted();
        let hash = Digest::of(covered.as_bytes());
        record.set("record_hash", hash.to_string());
        let signature = signer.map(|number| signature_of(number, &hash));
        match &signature {
            Some(text) => record.set("signature", text.clone()),
            None => record.set("signature", Value::Null),
        };
        alter(&mut record);
        self.records.push((hash, signature));
        self.lines.push(record.plain());
        self
    }

    /// The file, and where each record ends.
    pub(super) fn written(&self) -> (Vec<u8>, Vec<Trusted>) {
        let (mut out, mut places) = (Vec::new(), Vec::new());
        for (number, line) in self.lines.iter().enumerate() {
            out.extend_from_slice(line.as_bytes());
            let blanks = line.len() - line.trim_end_matches('\u{2003}').len();
            places.push(Trusted {
                line: number as u64 + 1,
                byte: (out.len() - blanks) as u64,
                turn: Some(number as u64),
            });
            out.push(b'\n');
        }
        out.extend_from_slice(self.behind.as_bytes());
        (out, places)
    }

    /// The head of a record.
    pub(super) fn head(&self, record: usize) -> String {
        format!(
            "{}:{record}:{}:{}",
            record_id(RUN),
            record + 1,
            self.records[record].0
        )
    }

    /// The digest of the signatures of the first records.
    pub(super) fn signatures(&self, count: usize) -> Digest {
        let tag = "threadseal/1 ledger signatures";
        let mut digest = Digest::tagged(tag, &[]);
        for (number, (_, signature)) in self.records.iter().take(count).enumerate() {
            if let Some(text) = signature {
                let text = Digest::of(text.as_bytes());
                let number = (number as u64).to_be_bytes();
                let parts: [&[u8]; 3] = [digest.as_bytes(), &number, text.as_bytes()];
                digest = Digest::tagged(tag, &parts);
            }
        }
        digest
    }
}

/// A record of a step, which one second after the other makes.
pub(super) fn record(number: usize, status: &str) -> Value {
    let moment = format!("2026-11-22T20:30:{number:02}+00:00");
    let ended = match status {
        "started" => Value::Null,
        _ => moment.as_str().into(),
    };
    map([
        ("run_id", RUN.into()),
        ("step_id", format!("step-{number}").into()),
        ("node_id", "n".into()),
        ("status", status.into()),
        (
            "effect",
            map([
                ("type", "llm_call".into()),
                ("payload", map([("prompt", "O\u{f9} ?".into())])),
                ("result_key", Value::Null),
            ]),
        ),
        ("result", Value::Null),
        ("error", Value::Null),
        ("started_at", moment.as_str().into()),
        ("ended_at", ended),
        ("actor_id", Value::Null),
        ("session_id", Value::Null),
        ("attempt", 1.into()),
        ("idempotency_key", Value::Null),
    ])
}

/// A record with a declaration.
pub(super) fn declaration(number: usize, kind: &str, payload: Value) -> Value {
    let mut record = record(number, "completed");
    record.set("node_id", kind).set(
        "effect",
        map([
            ("type", kind.into()),
            ("payload", payload),
            ("result_key", Value::Null),
        ]),
    );
    record
}

/// A genesis that names these actors.
pub(super) fn genesis(actors: Value) -> Value {
    let payload = map([
        ("format", "threadseal-ledger/1".into()),
        ("record", "07".repeat(32).into()),
        ("workflow_id", Value::Null),
        ("workflow_sha256", Value::Null),
        ("inputs_sha256", Value::Null),
        ("parent", Value::Null),
        ("actors", actors),
        ("created_at", "2026-11-22T20:30:00+00:00".into()),
    ]);
    declaration(0, "threadseal.genesis", payload)
}

/// The id and the fingerprint of an actor with this key.
pub(super) fn actor(number: u8) -> (String, Value) {
    let fingerprint = map([
        ("kind", "agent".into()),
        ("display_name", Value::Null),
        (
            "metadata",
            map([("public_key", key(number).public_key().to_did_key().into())]),
        ),
    ]);
    let digest = Digest::of(fingerprint.sorted().as_bytes()).to_hex();
    (format!("ar_{}", &digest[..24]), fingerprint)
}

fn signature_of(number: u8, hash: &Digest) -> String {
    let signer = key(number);
    let signed = tagged(&signer, "threadseal/ledger-record/1", &[hash.as_bytes()]);
    format!("ed25519:{}:{signed}", signer.public_key().key_id().to_hex())
}

pub(super) fn record_id(run: &str) -> Digest {
    Digest::tagged("threadseal/1 ledger run", &[run.as_bytes()])
}

/// A signed head, every line as it should be until the caller alters it.
pub(super) struct Head {
    pub(super) run: String,
    pub(super) count: String,
    pub(super) hash: Digest,
    pub(super) key: u8,
    pub(super) time: String,
    /// The lines `first` to `file`.
    pub(super) more: Vec<String>,
}

impl Head {
    /// Of the whole ledger.
    pub(super) fn of(ledger: &Ledger) -> Self {
        Self {
            run: RUN.to_owned(),
            count: ledger.records.len().to_string(),
            hash: ledger.records.last().expect("a record").0,
            key: 1,
            time: "2026-11-22T20:40:00Z".to_owned(),
            more: Vec::new(),
        }
    }

    pub(super) fn with(mut self, line: String) -> Self {
        self.more.push(line);
        self
    }

    fn text(&self) -> (String, String) {
        let name = format!("threadseal/1/ledger/{}", record_id(&self.run));
        let hash = encoding::base64(self.hash.as_bytes());
        let did = key(self.key).public_key().to_did_key();
        let Self {
            run, count, time, ..
        } = self;
        let more: String = self.more.iter().map(|line| format!("{line}\n")).collect();
        let text =
            format!("{name}\n{count}\n{hash}\nrun \"{run}\"\nkey {did}\ntime {time}\n{more}");
        (name, text)
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.signed_by(self.key)
    }

    /// With the signature of another key than the one that it names.
    pub(super) fn signed_by(&self, number: u8) -> Vec<u8> {
        let (name, text) = self.text();
        let mut blob = signature(&key(self.key), &name, &text);
        if number != self.key {
            let other = signature(&key(number), &name, &text);
            blob.truncate(4);
            blob.extend_from_slice(&other[4..]);
        }
        format!("{text}\n\u{2014} {name} {}\n", encoding::base64(&blob)).into_bytes()
    }
}
