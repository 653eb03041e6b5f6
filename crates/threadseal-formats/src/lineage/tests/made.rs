//! Generated links with their files, and the verdicts on them.

use super::*;
use threadseal_core::report::Verdict;
use threadseal_core::time::Timestamp;
use threadseal_core::trust::Trust;

/// A link that was made, with its file.
#[derive(Clone)]
pub(super) struct Made {
    pub(super) header: CheckpointHeader,
    pub(super) hash: ContentHash,
    pub(super) file: Vec<u8>,
}

impl Made {
    pub(super) fn of(sealed: SealedHeader, state: &[u8]) -> Self {
        Self {
            file: [sealed.bytes.as_slice(), state].concat(),
            header: sealed.header,
            hash: sealed.hash,
        }
    }
}

/// The first checkpoint of the agent with the root `root`, by the key `seed`.
pub(super) fn first(root: u8, seed: u8) -> Made {
    let writer = writer(root, seed, 1);
    let sealed = seal_native(genesis(root, &writer, b"first"), &native(seed)).unwrap();
    Made::of(sealed, b"first")
}

/// The next checkpoint by the same signer, changed by `change`.
pub(super) fn next(
    before: &Made,
    seed: u8,
    state: &[u8],
    change: impl FnOnce(&mut CheckpointHeader),
) -> Made {
    let root = before.header.native.as_ref().unwrap().root;
    let root = (0..=u8::MAX).find(|seed| key(*seed) == root).unwrap();
    let mut header = before
        .header
        .following(before.hash, &writer(root, seed, 1))
        .unwrap();
    header.native.as_mut().unwrap().state = StateSeal::of(state, MediaType::bytes());
    header.tick += 5;
    change(&mut header);
    Made::of(seal_native(header, &native(seed)).unwrap(), state)
}

/// A link that moves authority, by `seed` under `root`.
pub(super) fn hand(before: &Made, root: u8, seed: u8, body: &LinkBody) -> Made {
    let header = draft(&before.header, before.hash, body, &writer(root, seed, 1)).unwrap();
    Made::of(seal_native(header, &native(seed)).unwrap(), &body.encode())
}

pub(super) fn release(before: &Made, root: u8, seed: u8, target: u8, nonce: u8) -> Made {
    let body = LinkBody::Release(Release {
        epoch: before.header.epoch.major + 1,
        checkpoint: before.hash,
        target: key(target),
        nonce: [nonce; 32],
    });
    hand(before, root, seed, &body)
}

pub(super) fn now() -> Timestamp {
    Timestamp::from_micros(u64::try_from(NOW / 1000).unwrap()).unwrap()
}

pub(super) fn facts(files: &[&Made]) -> Vec<LinkFacts> {
    let named = files.iter().enumerate();
    let read = named.map(|(at, made)| LinkFacts::of(&format!("f{at}"), &made.file));
    read.collect()
}

pub(super) fn judged(files: Vec<LinkFacts>, judging: &Judging<'_>) -> Outcome {
    let mut outcomes = judge(files, judging).unwrap();
    assert_eq!(outcomes.len(), 1);
    let outcome = outcomes.remove(0);
    let verified = outcome.report.verdict == Verdict::Verified;
    assert_eq!(outcome.verified.is_some(), verified);
    outcome
}

pub(super) fn pinned(root: u8, files: &[&Made]) -> Outcome {
    judged(facts(files), &Judging::new(&Trust::key(key(root)), now()))
}

#[track_caller]
pub(super) fn says(outcome: &Outcome, verdict: Verdict, code: &str) {
    let codes: Vec<&str> = outcome
        .report
        .findings
        .iter()
        .map(|f| f.code.as_str())
        .collect();
    assert_eq!(outcome.report.verdict, verdict, "{codes:?}");
    assert!(code.is_empty() || codes.contains(&code), "{codes:?}");
}
