//! The authority over the next link: every link after every state.

use super::*;

/// A change to an unsigned header.
type Edit = fn(&mut CheckpointHeader);

/// A lineage that grows link by link; each is sealed, then refused or accepted.
struct Story {
    root: u8,
    authority: Authority,
    last: WholeLink,
}

impl Story {
    fn begin(root: u8, seed: u8) -> Self {
        let writer = writer(root, seed, 1);
        let sealed = seal_native(genesis(root, &writer, b""), &native(seed)).unwrap();
        let last = WholeLink::read(&sealed.bytes).unwrap();
        let authority = Authority::Nobody.after(&last.link()).unwrap();
        Self {
            root,
            authority,
            last,
        }
    }

    fn offer(&self, body: Option<LinkBody>, seed: u8) -> WholeLink {
        self.edited(body, seed, |_| {})
    }

    fn edited(
        &self,
        body: Option<LinkBody>,
        seed: u8,
        edit: impl Fn(&mut CheckpointHeader),
    ) -> WholeLink {
        let writer = writer(self.root, seed, 1);
        let (parent, hash) = (&self.last.header, self.last.hash);
        let mut header = match &body {
            Some(body) => draft(parent, hash, body, &writer).unwrap(),
            None => parent.following(hash, &writer).unwrap(),
        };
        let state = body.map_or_else(Vec::new, |body| body.encode());
        if state.is_empty() {
            header.native.as_mut().unwrap().state = StateSeal::of(b"", MediaType::bytes());
        }
        edit(&mut header);
        let sealed = seal_native(header, &native(seed)).unwrap();
        WholeLink::read(&[sealed.bytes, state].concat()).unwrap()
    }

    fn judged(&self, link: &WholeLink) -> Result<Authority, Refusal> {
        self.authority.after(&link.link())
    }

    fn take(&mut self, body: Option<LinkBody>, seed: u8) {
        let link = self.offer(body, seed);
        self.authority = self.judged(&link).unwrap();
        self.last = link;
    }

    fn release(&self, target: u8) -> LinkBody {
        LinkBody::Release(Release {
            epoch: self.last.header.epoch.major + 1,
            checkpoint: self.last.hash,
            target: key(target),
            nonce: [1; 32],
        })
    }

    fn accept(&self) -> LinkBody {
        LinkBody::Accept {
            release: self.last.hash,
        }
    }

    fn refuse(&self) -> LinkBody {
        LinkBody::Refuse {
            release: self.last.hash,
            reason: RefusalReason::parse("no room").unwrap(),
        }
    }

    fn recover(&self, seed: u8, epoch: u64) -> LinkBody {
        LinkBody::Recover(Recover {
            epoch,
            void: None,
            key: key(seed),
            nonce: [2; 32],
        })
    }
}

// T-LIN-05 T-LIN-06
#[test]
fn authority_moves_by_release_and_accept_and_the_source_is_out() {
    let mut story = Story::begin(1, 2);
    assert_eq!(story.authority.holder(), Some(&key(2)));
    story.take(None, 2);
    story.take(Some(story.release(3)), 2);
    assert_eq!(
        story.authority.holder(),
        None,
        "nobody while the offer stands"
    );
    // The source does not continue, and neither does the target before it accepts.
    for seed in [2, 3, 1] {
        let refused = story.judged(&story.offer(None, seed));
        assert_eq!(refused, Err(Refusal::Kind(LinkKind::Checkpoint)));
    }
    for seed in [1, 2, 4] {
        let refused = story.judged(&story.offer(Some(story.accept()), seed));
        assert_eq!(refused, Err(Refusal::Signer), "{seed}");
    }
    story.take(Some(story.accept()), 3);
    assert_eq!(story.authority.holder(), Some(&key(3)));
    assert_eq!(story.authority.epoch(), Some(1));
    assert_eq!(story.judged(&story.offer(None, 2)), Err(Refusal::Signer));
    assert_eq!(
        story.judged(&story.offer(Some(story.release(4)), 3)),
        Err(Refusal::Kind(LinkKind::Release)),
        "there is no checkpoint to release yet"
    );
    story.take(None, 3);
    story.take(Some(story.release(2)), 3);
    story.take(Some(story.accept()), 2);
    assert_eq!(story.authority.epoch(), Some(2));
}

// T-LIN-06
#[test]
fn a_refused_offer_gives_the_authority_back_at_the_same_epoch() {
    let mut story = Story::begin(1, 2);
    story.take(Some(story.release(3)), 2);
    assert_eq!(
        story.judged(&story.offer(Some(story.refuse()), 2)),
        Err(Refusal::Signer),
        "the source does not refuse for the target"
    );
    story.take(Some(story.refuse()), 3);
    assert_eq!(story.authority.holder(), Some(&key(2)));
    assert_eq!(story.judged(&story.offer(None, 3)), Err(Refusal::Signer));
    story.take(None, 2);
    assert_eq!(story.authority.epoch(), Some(0));
}

// T-LIN-07
#[test]
fn only_the_root_recovers_and_two_epochs_on() {
    let mut story = Story::begin(1, 2);
    story.take(Some(story.release(3)), 2);
    for seed in [2, 3] {
        let refused = story.judged(&story.offer(Some(story.recover(4, 2)), seed));
        assert_eq!(refused, Err(Refusal::Signer), "{seed}");
    }
    for epoch in [0, 1, 3] {
        let refused = story.judged(&story.offer(Some(story.recover(4, epoch)), 1));
        let expected = Refusal::Epoch {
            expected: 2,
            found: epoch,
        };
        assert_eq!(refused, Err(expected));
    }
    story.take(Some(story.recover(4, 2)), 1);
    assert_eq!(story.authority.holder(), Some(&key(4)));
    for seed in [1, 2, 3] {
        assert_eq!(story.judged(&story.offer(None, seed)), Err(Refusal::Signer));
    }
    story.take(None, 4);
    // A holder that is lost without an offer is replaced in the same way.
    story.take(Some(story.recover(1, 4)), 1);
    story.take(None, 1);
    assert_eq!(story.authority.epoch(), Some(4));
}

#[test]
fn the_root_itself_does_not_go_on_for_its_delegate() {
    let story = Story::begin(1, 2);
    assert_eq!(story.judged(&story.offer(None, 1)), Err(Refusal::Signer));
}

#[test]
fn nothing_but_a_checkpoint_begins_a_lineage() {
    let story = Story::begin(1, 2);
    let bodies = [
        story.release(3),
        story.accept(),
        story.refuse(),
        story.recover(3, 2),
    ];
    for body in bodies {
        let link = story.offer(Some(body.clone()), 1);
        let refused = Authority::Nobody.after(&link.link());
        assert_eq!(refused, Err(Refusal::Kind(body.kind())));
    }
    for body in [story.accept(), story.refuse()] {
        let refused = story.judged(&story.offer(Some(body.clone()), 2));
        assert_eq!(
            refused,
            Err(Refusal::Kind(body.kind())),
            "nothing is offered"
        );
    }
}

#[test]
fn a_body_must_say_what_its_place_says() {
    let mut story = Story::begin(1, 2);
    let LinkBody::Release(good) = story.release(3) else {
        panic!("no release");
    };
    let other = ContentHash::of(b"other");
    for bad in [
        Release { epoch: 2, ..good },
        Release { epoch: 0, ..good },
        Release {
            checkpoint: other,
            ..good
        },
        Release {
            target: key(2),
            ..good
        },
    ] {
        let refused = story.judged(&story.offer(Some(LinkBody::Release(bad)), 2));
        assert_eq!(refused, Err(Refusal::Body), "{bad:?}");
    }
    story.take(Some(LinkBody::Release(good)), 2);
    let accept = LinkBody::Accept { release: other };
    assert_eq!(
        story.judged(&story.offer(Some(accept), 3)),
        Err(Refusal::Body)
    );
    let recover = LinkBody::Recover(Recover {
        epoch: 2,
        void: Some(story.last.hash),
        key: key(4),
        nonce: [2; 32],
    });
    assert_eq!(
        story.judged(&story.offer(Some(recover), 1)),
        Err(Refusal::Body),
        "what it builds on cannot be void"
    );
    let link = story.offer(Some(story.accept()), 3);
    let bare = Link {
        body: None,
        ..link.link()
    };
    assert_eq!(story.authority.after(&bare), Err(Refusal::Body));
}

#[test]
fn an_epoch_changes_only_with_authority() {
    let story = Story::begin(1, 2);
    let link = story.edited(None, 2, |header| header.epoch.major = 1);
    let refused = Refusal::Epoch {
        expected: 0,
        found: 1,
    };
    assert_eq!(story.judged(&link), Err(refused));
    let renewed = story.edited(None, 2, |header| header.epoch.generation = 9);
    assert!(story.judged(&renewed).is_ok());
}

#[test]
fn a_lineage_stays_that_of_one_agent() {
    let story = Story::begin(1, 2);
    let other = Story::begin(9, 2);
    let link = other.edited(None, 2, |header| header.prev = Some(story.last.hash));
    assert_eq!(story.judged(&link), Err(Refusal::Agent));
}

#[test]
fn a_signer_does_not_go_back_to_an_older_delegation() {
    let mut story = Story::begin(1, 2);
    let renewed = |key_epoch| {
        let certificate = writer(1, 2, key_epoch).certificate;
        move |header: &mut CheckpointHeader| {
            header.native.as_mut().unwrap().certificate = certificate;
        }
    };
    let link = story.edited(None, 2, renewed(7));
    story.authority = story.judged(&link).unwrap();
    story.last = link;
    let older = story.edited(None, 2, renewed(6));
    assert_eq!(story.judged(&older), Err(Refusal::KeyEpoch));
}

// T-LIN-03
#[test]
fn an_older_format_never_follows_a_newer_one() {
    let signed = seal_original(original(None), b"", &igor(1)).unwrap();
    let v4 = WholeLink::read(&signed.bytes).unwrap();
    let mut v3 = original(None);
    v3.version = Version::V3;
    let v3 = WholeLink::read(&v3.encode().unwrap()).unwrap();

    let native = Story::begin(1, 2).authority;
    assert_eq!(native.after(&v4.link()), Err(Refusal::Downgrade));
    assert_eq!(native.after(&v3.link()), Err(Refusal::Downgrade));
    let unsigned = Authority::Nobody.after(&v3.link()).unwrap();
    assert_eq!(unsigned, Authority::Nobody);
    let first = unsigned.after(&v4.link()).unwrap();
    assert_eq!(first.holder(), Some(&key(1)));
    assert_eq!(first.after(&v3.link()), Err(Refusal::Downgrade));
    let other = seal_original(original(None), b"", &igor(2)).unwrap();
    let other = WholeLink::read(&other.bytes).unwrap();
    assert_eq!(first.after(&other.link()), Err(Refusal::Signer));
}

#[test]
fn the_key_of_v4_becomes_the_root_of_v5_and_no_other_does() {
    let signed = seal_original(original(None), b"", &igor(1)).unwrap();
    let v4 = WholeLink::read(&signed.bytes).unwrap();
    let before = Authority::Nobody.after(&v4.link()).unwrap();
    let upgraded = |root: u8, seed: u8, epoch: u64| {
        let mut header = genesis(root, &writer(root, seed, 1), b"");
        header.prev = Some(v4.hash);
        header.epoch.major = epoch;
        header.native.as_mut().unwrap().seq = 1;
        let sealed = seal_native(header, &native(seed)).unwrap();
        before.after(&WholeLink::read(&sealed.bytes).unwrap().link())
    };
    assert_eq!(upgraded(1, 1, 1).unwrap().holder(), Some(&key(1)));
    assert_eq!(upgraded(1, 2, 1).unwrap().holder(), Some(&key(2)));
    assert_eq!(upgraded(2, 2, 1), Err(Refusal::Signer));
    assert!(matches!(upgraded(1, 1, 0), Err(Refusal::Epoch { .. })));
}

#[test]
fn a_link_without_its_parent_is_taken_by_its_word() {
    let mut story = Story::begin(1, 2);
    let release = story.offer(Some(story.release(3)), 2);
    let after = Authority::Unknown.after(&release.link()).unwrap();
    assert!(matches!(after, Authority::Released(offer) if offer.target == key(3)));
    story.take(Some(story.release(3)), 2);
    let accept = story.offer(Some(story.accept()), 3);
    let after = Authority::Unknown.after(&accept.link()).unwrap();
    assert_eq!(after.holder(), Some(&key(3)));
    let refuse = story.offer(Some(story.refuse()), 3);
    let after = Authority::Unknown.after(&refuse.link());
    assert_eq!(after, Ok(Authority::Unknown));
    let recover = story.offer(Some(story.recover(4, 2)), 1);
    let after = Authority::Unknown.after(&recover.link()).unwrap();
    assert_eq!(after.holder(), Some(&key(4)));
    let forged = story.offer(Some(story.recover(4, 2)), 3);
    assert_eq!(
        Authority::Unknown.after(&forged.link()),
        Err(Refusal::Signer)
    );
}

#[test]
fn no_epoch_follows_the_last_one() {
    let mut story = Story::begin(1, 2);
    story.authority = match story.authority {
        Authority::Held(holding) => Authority::Held(Box::new(Holding {
            epoch: u64::MAX,
            ..*holding
        })),
        other => other,
    };
    let recover = story.edited(Some(story.recover(3, 1)), 1, |_| {});
    assert_eq!(
        story.judged(&recover),
        Err(Refusal::Kind(LinkKind::Recover))
    );
}

#[test]
fn a_link_that_moves_authority_changes_nothing_else() {
    let story = Story::begin(1, 2);
    let release = story.offer(Some(story.release(3)), 2);
    assert_eq!(altered(&story.last.header, &release.header), None);
    let edits: [(&str, Edit); 5] = [
        ("tick", |header| header.tick += 1),
        ("budget", |header| header.budget -= 1),
        ("code hash", |header| header.code = Digest::of(b"other")),
        ("transcript head", |header| {
            header.native.as_mut().unwrap().transcript = None;
        }),
        ("receipts", |header| {
            header.native.as_mut().unwrap().receipts = Some(Digest::of(b"r"));
        }),
    ];
    for (field, edit) in edits {
        let link = story.edited(Some(story.release(3)), 2, edit);
        assert_eq!(altered(&story.last.header, &link.header), Some(field));
    }
    let checkpoint = story.edited(None, 2, |header| header.tick += 1);
    assert_eq!(altered(&story.last.header, &checkpoint.header), None);
}
