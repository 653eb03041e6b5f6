//! Proofs of turns and of observed lines that break one rule of `spec/proofs.md`, or keep it at its
//! bound.

mod bodies;
mod bounds;
mod ends;
mod events;
mod form;
mod keys;
mod logs;
mod observed;
mod seals;
mod trust;

use crate::forge::{Forge, Seal, authority, hex};
use crate::list::{Answer, Folder, Options};
use crate::proof_forge::TurnProof;

/// All of them.
pub(crate) fn vectors() -> Folder {
    let mut add = Adder(Folder::new("turn_proof", "native", vec![hex(&authority())]));
    form::add(&mut add);
    seals::add(&mut add);
    keys::add(&mut add);
    ends::add(&mut add);
    bounds::add(&mut add);
    events::add(&mut add);
    bodies::add(&mut add);
    trust::add(&mut add);
    logs::add(&mut add);
    observed::add(&mut add);
    add.0
}

/// What a checker answers, and what the question has beside the proof.
struct Verdict {
    verdict: &'static str,
    codes: Vec<&'static str>,
    options: Options,
    policy: Option<String>,
}

impl Verdict {
    fn new(verdict: &'static str, codes: &[&'static str]) -> Self {
        Self {
            verdict,
            codes: codes.to_vec(),
            options: Options::default(),
            policy: None,
        }
    }

    fn good() -> Self {
        Self::new("verified", &[])
    }

    fn open() -> Self {
        Self::new("open", &["turn_may_go_on"])
    }

    fn malformed() -> Self {
        Self::new("malformed", &["proof_malformed"])
    }

    fn tampered(code: &'static str) -> Self {
        Self::new("tampered", &[code])
    }

    fn forged(code: &'static str) -> Self {
        Self::new("forged", &[code])
    }

    fn asked(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    fn by(mut self, policy: impl Into<String>) -> Self {
        self.policy = Some(policy.into());
        self
    }
}

/// Adds vectors.
struct Adder(Folder);

impl Adder {
    fn turn(&mut self, name: &str, proof: &TurnProof, verdict: Verdict, rule: &str) {
        self.bytes("turn_proof", name, proof.text().as_bytes(), verdict, rule);
    }

    fn bytes(
        &mut self,
        kind: &'static str,
        name: &str,
        proof: &[u8],
        verdict: Verdict,
        rule: &str,
    ) {
        let mut files: Vec<(&'static str, &str, &[u8])> = vec![("proof", ".turn-proof", proof)];
        if let Some(policy) = &verdict.policy {
            files.push(("policy", ".policy", policy.as_bytes()));
        }
        let answer = Answer {
            name,
            options: verdict.options,
            verdict: verdict.verdict,
            codes: &verdict.codes,
            trusted_until: None,
            rule: &format!("proofs.md, {rule}"),
        };
        self.0.add_as(kind, answer, &files);
    }
}

/// Keys that are trusted, and pinned.
fn trusting(trust: &[u8], pins: &[u8]) -> Options {
    let hexes = |keys: &[u8]| {
        keys.iter()
            .map(|key| hex(&crate::forge::key(*key)))
            .collect()
    };
    Options {
        trust: Some(hexes(trust)),
        pins: hexes(pins),
        ..Options::default()
    }
}

/// A record of one turn that has ended: lines 1, 2 (seal 0), 3, 4, 5 (`thread_completed`), 6 (final).
fn ended() -> Forge {
    ended_with(|_| {})
}

/// The same, with altered values of the final seal.
fn ended_with(alter: impl FnOnce(&mut Seal)) -> Forge {
    let mut forge = Forge::begun();
    forge.turn().event("thread_completed", "{\"cost\":{}}");
    forge.seal_with(&authority(), |seal| {
        seal.is_final = true;
        alter(seal);
    });
    forge
}

/// Line `number` of this record with another text before it was added.
fn respelled(forge: &Forge, event_type: &str, payload: &str, from: &str, to: &str) -> String {
    forge.frame(event_type, payload).replacen(from, to, 1)
}
