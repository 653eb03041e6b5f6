//! Attacks on native records: which must be detected, and which cannot be.
//!
//! ```text
//! bodies    detached bodies, and holes in them
//! whole     whole, open and foreign records, and their tails
//! copy      copies with lines left out
//! edits     bytes and lines that were changed, cut, moved
//! keys      the keys that may seal
//! epochs    keys that are valid for a part of a record
//! delegates    keys that the authority admitted beside them
//! succession   keys in the place of an authority that ended
//! writing   what a writer may add, and where it continues
//! heir_proofs  proofs of turns that these sealed
//! turns     the proof of one turn, without the others
//! seal_conflicts  two histories of one record
//! as_log    a record as a log for other tools
//! ```

mod as_log;
mod bodies;
mod copy;
mod delegates;
mod edits;
mod epochs;
mod heir_proofs;
mod keys;
mod seal_conflicts;
mod succession;
mod turn_anchors;
mod turn_bodies;
mod turns;
mod whole;
mod writing;

use super::event::{EventType, Payload, Salt};
use super::ext::Ext;
use super::manifest::Manifest;
use super::*;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, Signer};
use threadseal_core::record::{ExpectedHead, Head, RecordId, ThreadId};
use threadseal_core::report::Expectation;
use threadseal_core::report::{Completeness, Verdict};
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{Trust, TrustName, TrustStore, TrustedKey};

/// The keys and the trust with which a test writes and verifies records.
struct Bench {
    native: LocalSigner,
    rye: LocalSigner,
    trust: Trust,
    micros: std::cell::Cell<u64>,
}

impl Bench {
    fn new() -> Self {
        let native = signer(1, KeyUsage::Native);
        let mut store = TrustStore::new();
        let name = TrustName::parse("self").unwrap();
        store
            .add(TrustedKey::new(
                name,
                *native.public_key(),
                [KeyUsage::Native],
            ))
            .unwrap();
        Self {
            native,
            rye: signer(2, KeyUsage::Rye),
            trust: Trust::new(store),
            micros: std::cell::Cell::new(1_739_820_405_000_000),
        }
    }

    fn stamp(&self) -> Stamp {
        let micros = self.micros.get() + 1_000;
        self.micros.set(micros);
        let mut salt = [0; 16];
        salt[..8].copy_from_slice(&micros.to_be_bytes());
        Stamp {
            timestamp: Timestamp::from_micros(micros).unwrap(),
            salt: Salt::from_bytes(salt),
        }
    }

    fn signers(&self) -> Signers<'_> {
        Signers {
            native: &self.native,
            rye: &self.rye,
        }
    }

    fn manifest(&self, record: u8) -> Manifest {
        let id = RecordId::from_bytes([record; 32]);
        Manifest::new(id, *self.native.public_key(), *self.rye.public_key())
    }

    fn begin(&self, record: u8, out: &mut Vec<u8>) -> Sealer {
        let thread = ThreadId::parse("demo/t-1").unwrap();
        let stamps = [self.stamp(), self.stamp()];
        Sealer::begin(thread, self.manifest(record), stamps, self.signers(), out).unwrap()
    }

    fn event(&self, sealer: &mut Sealer, event_type: &str, payload: &str, out: &mut Vec<u8>) {
        let event_type = EventType::parse(event_type).unwrap();
        let payload = Payload::parse(payload.as_bytes()).unwrap();
        sealer
            .event(self.stamp(), &event_type, &payload, out)
            .unwrap();
    }

    fn seal(&self, sealer: &mut Sealer, turn: u64, out: &mut Vec<u8>) -> Head {
        sealer
            .seal(
                self.stamp(),
                turn,
                false,
                Ext::default(),
                self.signers(),
                out,
            )
            .unwrap()
    }

    fn finish(&self, sealer: &mut Sealer, turn: u64, out: &mut Vec<u8>) -> Head {
        let payload = Payload::parse(b"{\"cost\":{}}").unwrap();
        sealer
            .end(self.stamp(), Ending::Completed, &payload, out)
            .unwrap();
        sealer
            .seal(
                self.stamp(),
                turn,
                true,
                Ext::default(),
                self.signers(),
                out,
            )
            .unwrap()
    }

    /// Two turns with a tool call, ended.
    fn record(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut sealer = self.begin(7, &mut out);
        for turn in 1..=2 {
            self.event(
                &mut sealer,
                "cognition_in",
                r#"{"text":"go","role":"user"}"#,
                &mut out,
            );
            self.event(
                &mut sealer,
                "cognition_out",
                r#"{"text":"h\u00e9"}"#,
                &mut out,
            );
            if turn == 1 {
                self.seal(&mut sealer, turn, &mut out);
            }
        }
        self.finish(&mut sealer, 2, &mut out);
        out
    }

    fn options(&self) -> VerifyOptions<'_> {
        VerifyOptions {
            trust: &self.trust,
            now: Timestamp::from_micros(1_800_000_000_000_000).unwrap(),
            held_since: None,
            thread: None,
        }
    }

    fn verify(&self, bytes: &[u8]) -> Outcome {
        verify(bytes, &ScanOptions::default(), &self.options())
    }

    fn verify_expecting(&self, bytes: &[u8], head: ExpectedHead, remembered: bool) -> Outcome {
        let expect = vec![if remembered {
            Expectation::remembered(head)
        } else {
            Expectation::given(head, false)
        }];
        verify(
            bytes,
            &ScanOptions {
                expect,
                ..ScanOptions::default()
            },
            &self.options(),
        )
    }
}

fn signer(seed: u8, usage: KeyUsage) -> LocalSigner {
    LocalSigner::new(PrivateKey::from_seed([seed; 32]), usage)
}

fn lines_of(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|b| *b == b'\n').collect()
}

fn codes(outcome: &Outcome) -> Vec<&'static str> {
    outcome
        .report
        .findings
        .iter()
        .map(|finding| finding.code.as_str())
        .collect()
}
