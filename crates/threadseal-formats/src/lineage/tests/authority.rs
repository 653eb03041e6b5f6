//! The authority over the next link: every link after every state.

use super::*;

/// A change to an unsigned header.
type Edit = fn(&mut CheckpointHeader);

/// A lineage that grows link by link; each is sealed, then refused or accepted.
struct Story {
    authority: Authority,
    last: Made,
}

/// The authority after a link, if the link may follow.
fn after(authority: &Authority, link: &Made) -> Result<Authority, Refusal> {
    authority.after(&link.whole().link())
}

impl Story {
    /// Of the root 1, by the session key 2.
    fn begin() -> Self {
        let last = first(1, 2);
        Self {
            authority: after(&Authority::Nobody, &last).unwrap(),
            last,
        }
    }

    fn judged(&self, link: &Made) -> Result<Authority, Refusal> {
        after(&self.authority, link)
    }

    #[track_caller]
    fn take(&mut self, link: Made) {
        self.authority = self.judged(&link).unwrap();
        self.last = link;
    }

    #[track_caller]
    fn refuses(&self, link: &Made, refusal: Refusal) {
        assert_eq!(self.judged(link), Err(refusal));
    }

    fn next(&self, seed: u8) -> Made {
        self.last.next(seed, b"")
    }

    fn recovered(&self, seed: u8, to: u8, epoch: u64) -> Made {
        self.last.moved(seed, &recover(epoch, None, to))
    }
}

fn epoch(expected: u64, found: u64) -> Refusal {
    Refusal::Epoch { expected, found }
}

// T-LIN-05 T-LIN-06
#[test]
fn authority_moves_by_release_and_accept_and_the_source_is_out() {
    let mut story = Story::begin();
    assert_eq!(story.authority.holder(), Some(&key(2)));
    story.take(story.next(2));
    story.take(story.last.release(2, 3));
    // No key holds it while the offer is open. The source does not continue, and neither does the
    // target before it accepts.
    assert_eq!(story.authority.holder(), None);
    for seed in [2, 3, 1] {
        let _row = Row(seed);
        story.refuses(&story.next(seed), Refusal::Kind(LinkKind::Checkpoint));
    }
    for seed in [1, 2, 4] {
        let _row = Row(seed);
        story.refuses(&story.last.accept(seed), Refusal::Signer);
    }
    story.take(story.last.accept(3));
    assert_eq!(story.authority.holder(), Some(&key(3)));
    assert_eq!(story.authority.epoch(), Some(1));
    story.refuses(&story.next(2), Refusal::Signer);
    // There is no checkpoint to release yet.
    story.refuses(&story.last.release(3, 4), Refusal::Kind(LinkKind::Release));
    story.take(story.next(3));
    story.take(story.last.release(3, 2));
    story.take(story.last.accept(2));
    assert_eq!(story.authority.epoch(), Some(2));
}

// T-LIN-06
#[test]
fn a_refused_offer_gives_the_authority_back_at_the_same_epoch() {
    let mut story = Story::begin();
    story.take(story.last.release(2, 3));
    // The source does not refuse for the target.
    story.refuses(&story.last.refuse(2), Refusal::Signer);
    story.take(story.last.refuse(3));
    assert_eq!(story.authority.holder(), Some(&key(2)));
    story.refuses(&story.next(3), Refusal::Signer);
    story.take(story.next(2));
    assert_eq!(story.authority.epoch(), Some(0));
}

// T-LIN-07
#[test]
fn only_the_root_recovers_and_two_epochs_on() {
    let mut story = Story::begin();
    story.take(story.last.release(2, 3));
    for seed in [2, 3] {
        let _row = Row(seed);
        story.refuses(&story.recovered(seed, 4, 2), Refusal::Signer);
    }
    for found in [0, 1, 3] {
        let _row = Row(found);
        story.refuses(&story.recovered(1, 4, found), epoch(2, found));
    }
    story.take(story.recovered(1, 4, 2));
    assert_eq!(story.authority.holder(), Some(&key(4)));
    for seed in [1, 2, 3] {
        let _row = Row(seed);
        story.refuses(&story.next(seed), Refusal::Signer);
    }
    story.take(story.next(4));
    // A holder that is lost without an offer is replaced in the same way.
    story.take(story.recovered(1, 1, 4));
    story.take(story.next(1));
    assert_eq!(story.authority.epoch(), Some(4));
}

#[test]
fn the_root_itself_does_not_go_on_for_its_delegate() {
    let story = Story::begin();
    story.refuses(&story.next(1), Refusal::Signer);
}

#[test]
fn nothing_but_a_checkpoint_begins_a_lineage() {
    let story = Story::begin();
    for link in [
        story.last.release(1, 3),
        story.last.accept(1),
        story.last.refuse(1),
        story.recovered(1, 3, 2),
    ] {
        let kind = link.header.native.as_ref().unwrap().kind;
        let refused = after(&Authority::Nobody, &link);
        assert_eq!(refused, Err(Refusal::Kind(kind)));
    }
    // Nothing is offered.
    story.refuses(&story.last.accept(2), Refusal::Kind(LinkKind::Accept));
    story.refuses(&story.last.refuse(2), Refusal::Kind(LinkKind::Refuse));
}

#[test]
fn a_body_must_say_what_its_place_says() {
    let mut story = Story::begin();
    let (last, other) = (story.last.hash, ContentHash::of(b"other"));
    for bad in [
        release(2, last, 3),
        release(0, last, 3),
        release(1, other, 3),
        release(1, last, 2),
    ] {
        story.refuses(&story.last.moved(2, &bad), Refusal::Body);
    }
    story.take(story.last.release(2, 3));
    let accept = LinkBody::Accept { release: other };
    story.refuses(&story.last.moved(3, &accept), Refusal::Body);
    // What it builds on cannot be void.
    let recovered = story.last.recover(1, Some(&story.last));
    story.refuses(&recovered, Refusal::Body);
    let link = story.last.accept(3).whole();
    let bare = Link {
        body: None,
        ..link.link()
    };
    assert_eq!(story.authority.after(&bare), Err(Refusal::Body));
}

#[test]
fn an_epoch_changes_only_with_authority() {
    let story = Story::begin();
    let next = |change: Edit| story.last.next_with(2, b"", change);
    story.refuses(&next(|header| header.epoch.major = 1), epoch(0, 1));
    let renewed = next(|header| header.epoch.generation = 9);
    assert!(story.judged(&renewed).is_ok());
}

#[test]
fn a_lineage_stays_that_of_one_agent() {
    let story = Story::begin();
    let last = story.last.hash;
    let link = first(9, 2).next_with(2, b"", |header| header.prev = Some(last));
    story.refuses(&link, Refusal::Agent);
}

#[test]
fn a_signer_does_not_go_back_to_an_older_delegation() {
    let mut story = Story::begin();
    let renewed = |last: &Made, key_epoch| {
        let certificate = writer(1, 2, key_epoch).certificate;
        last.next_with(2, b"", |header| part(header).certificate = certificate)
    };
    story.take(renewed(&story.last, 7));
    story.refuses(&renewed(&story.last, 6), Refusal::KeyEpoch);
}

/// An unsigned first link of v0x03.
fn v3() -> Made {
    let mut header = original(None);
    header.version = Version::V3;
    let file = header.encode().unwrap();
    Made {
        hash: ContentHash::of(&file),
        header,
        file,
    }
}

// T-LIN-03
#[test]
fn an_older_format_never_follows_a_newer_one() {
    let [v4, other] = [1, 2].map(|seed| Made::igor(original(None), seed, b""));
    let native = Story::begin().authority;
    assert_eq!(after(&native, &v4), Err(Refusal::Downgrade));
    assert_eq!(after(&native, &v3()), Err(Refusal::Downgrade));
    let unsigned = after(&Authority::Nobody, &v3()).unwrap();
    assert_eq!(unsigned, Authority::Nobody);
    let first = after(&unsigned, &v4).unwrap();
    assert_eq!(first.holder(), Some(&key(1)));
    assert_eq!(after(&first, &v3()), Err(Refusal::Downgrade));
    assert_eq!(after(&first, &other), Err(Refusal::Signer));
}

#[test]
fn the_key_of_v4_becomes_the_root_of_v5_and_no_other_does() {
    let v4 = Made::igor(original(None), 1, b"");
    let before = after(&Authority::Nobody, &v4).unwrap();
    let upgraded = |root: u8, seed: u8, epoch: u64| {
        let mut header = genesis(root, &writer(root, seed, 1), b"");
        header.prev = Some(v4.hash);
        header.epoch.major = epoch;
        part(&mut header).seq = 1;
        after(&before, &Made::native(header, seed, b""))
    };
    assert_eq!(upgraded(1, 1, 1).unwrap().holder(), Some(&key(1)));
    assert_eq!(upgraded(1, 2, 1).unwrap().holder(), Some(&key(2)));
    assert_eq!(upgraded(2, 2, 1), Err(Refusal::Signer));
    assert!(matches!(upgraded(1, 1, 0), Err(Refusal::Epoch { .. })));
}

#[test]
fn a_link_without_its_parent_is_taken_by_its_word() {
    let mut story = Story::begin();
    let after = |link: &Made| after(&Authority::Unknown, link);
    let released = after(&story.last.release(2, 3)).unwrap();
    assert!(matches!(released, Authority::Released(offer) if offer.target == key(3)));
    story.take(story.last.release(2, 3));
    let accepted = after(&story.last.accept(3)).unwrap();
    assert_eq!(accepted.holder(), Some(&key(3)));
    assert_eq!(after(&story.last.refuse(3)), Ok(Authority::Unknown));
    let recovered = after(&story.recovered(1, 4, 2)).unwrap();
    assert_eq!(recovered.holder(), Some(&key(4)));
    let forged = after(&story.recovered(3, 4, 2));
    assert_eq!(forged, Err(Refusal::Signer));
}

#[test]
fn no_epoch_follows_the_last_one() {
    let mut story = Story::begin();
    story.authority = match story.authority {
        Authority::Held(holding) => Authority::Held(Box::new(Holding {
            epoch: u64::MAX,
            ..*holding
        })),
        other => other,
    };
    story.refuses(&story.recovered(1, 3, 1), Refusal::Kind(LinkKind::Recover));
}

#[test]
fn a_link_that_moves_authority_changes_nothing_else() {
    let last = first(1, 2);
    let body = release(1, last.hash, 3);
    let edits: [(Option<&str>, Edit); 6] = [
        (None, |_| {}),
        (Some("tick"), |header| header.tick += 1),
        (Some("budget"), |header| header.budget -= 1),
        (Some("code hash"), |header| {
            header.code = Digest::of(b"other");
        }),
        (Some("transcript head"), |header| {
            part(header).transcript = None;
        }),
        (Some("receipts"), |header| {
            part(header).receipts = Some(Digest::of(b"r"));
        }),
    ];
    for (field, edit) in edits {
        let link = last.moved_with(2, &body, edit);
        assert_eq!(altered(&last.header, &link.header), field);
    }
    let checkpoint = last.next(2, b"");
    assert_eq!(altered(&last.header, &checkpoint.header), None);
}
