//! Generated links with their files, and the verdicts on them.

use super::*;

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

    /// Signed by `seed`.
    pub(super) fn native(header: CheckpointHeader, seed: u8, state: &[u8]) -> Self {
        Self::of(seal_native(header, &native(seed)).unwrap(), state)
    }

    /// A link of v0x04, signed by `seed`.
    pub(super) fn igor(header: CheckpointHeader, seed: u8, state: &[u8]) -> Self {
        Self::of(seal_original(header, state, &igor(seed)).unwrap(), state)
    }

    pub(super) fn whole(&self) -> WholeLink {
        WholeLink::read(&self.file).unwrap()
    }

    /// The seed of its root's key.
    fn root(&self) -> u8 {
        let root = self.header.native.as_ref().unwrap().root;
        (0..=u8::MAX).find(|seed| key(*seed) == root).unwrap()
    }

    /// The next checkpoint, by `seed`.
    pub(super) fn next(&self, seed: u8, state: &[u8]) -> Self {
        self.next_with(seed, state, |_| {})
    }

    pub(super) fn next_with(
        &self,
        seed: u8,
        state: &[u8],
        change: impl FnOnce(&mut CheckpointHeader),
    ) -> Self {
        let writer = writer(self.root(), seed, 1);
        let mut header = self.header.following(self.hash, &writer).unwrap();
        part(&mut header).state = StateSeal::of(state, MediaType::bytes());
        header.tick += 5;
        change(&mut header);
        Self::native(header, seed, state)
    }

    /// A link that moves authority, by `seed`.
    pub(super) fn moved(&self, seed: u8, body: &LinkBody) -> Self {
        self.moved_with(seed, body, |_| {})
    }

    pub(super) fn moved_with(
        &self,
        seed: u8,
        body: &LinkBody,
        change: impl FnOnce(&mut CheckpointHeader),
    ) -> Self {
        let writer = writer(self.root(), seed, 1);
        let mut header = draft(&self.header, self.hash, body, &writer).unwrap();
        change(&mut header);
        Self::native(header, seed, &body.encode())
    }

    pub(super) fn release(&self, seed: u8, target: u8) -> Self {
        let body = release(self.header.epoch.major + 1, self.hash, target);
        self.moved(seed, &body)
    }

    pub(super) fn accept(&self, seed: u8) -> Self {
        self.moved(seed, &LinkBody::Accept { release: self.hash })
    }

    pub(super) fn refuse(&self, seed: u8) -> Self {
        self.moved(seed, &refuse(self.hash))
    }

    /// `seed` gives the agent to key 4, at epoch 2.
    pub(super) fn recover(&self, seed: u8, void: Option<&Made>) -> Self {
        self.moved(seed, &recover(2, void.map(|void| void.hash), 4))
    }
}

/// The part of a header that only v0x05 has.
pub(super) fn part(header: &mut CheckpointHeader) -> &mut NativeHeader {
    header.native.as_mut().unwrap()
}

pub(super) fn release(epoch: u64, checkpoint: ContentHash, target: u8) -> LinkBody {
    LinkBody::Release(Release {
        epoch,
        checkpoint,
        target: key(target),
        nonce: [7; 32],
    })
}

pub(super) fn refuse(release: ContentHash) -> LinkBody {
    LinkBody::Refuse {
        release,
        reason: RefusalReason::parse("no room").unwrap(),
    }
}

pub(super) fn recover(epoch: u64, void: Option<ContentHash>, to: u8) -> LinkBody {
    LinkBody::Recover(Recover {
        epoch,
        void,
        key: key(to),
        nonce: [2; 32],
    })
}

/// The first checkpoint of the agent with the root `root`, by the key `seed`.
pub(super) fn first(root: u8, seed: u8) -> Made {
    let header = genesis(root, &writer(root, seed, 1), b"first");
    Made::native(header, seed, b"first")
}

/// The time of all links.
pub(super) fn now() -> Timestamp {
    micros(u64::try_from(NOW / 1000).unwrap())
}

/// A minute after the end of all delegations.
pub(super) fn later() -> Timestamp {
    micros(now().as_micros() + 60_000_000)
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
    let verified = outcome.report.verdict == Verified;
    assert_eq!(outcome.verified.is_some(), verified);
    outcome
}

/// Checks the verdict on these files of a reader with this trust, and a finding; "" is any.
#[track_caller]
pub(super) fn by(trust: &Trust, files: &[&Made], verdict: Verdict, code: &str) -> Outcome {
    let outcome = judged(facts(files), &Judging::new(trust, now()));
    is(&outcome.report, verdict, code);
    outcome
}

/// The same where the root 1 is pinned.
#[track_caller]
pub(super) fn pinned(files: &[&Made], verdict: Verdict, code: &str) -> Outcome {
    by(&Trust::key(key(1)), files, verdict, code)
}

/// The same where no key is trusted.
#[track_caller]
pub(super) fn untrusted(files: &[&Made], verdict: Verdict, code: &str) -> Outcome {
    by(&Trust::default(), files, verdict, code)
}
