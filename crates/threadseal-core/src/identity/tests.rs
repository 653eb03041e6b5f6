//! Files of identities that are good, and each way in which one is bad.

use super::*;
use crate::testing::{key, micros, now, signer};

const RECOVERY: u8 = 9;

fn listed(id: &IdentityId, seed: u8, usage: KeyUsage) -> IdentityKey {
    let proof = id.proof_message(&key(seed), usage);
    IdentityKey {
        key: key(seed),
        usage,
        from: None,
        until: None,
        ended: None,
        proof: proof.map(|message| signer(seed, usage).sign(&message).unwrap()),
    }
}

fn end() -> Option<Ended> {
    ended(EndedHow::revoked("lost".to_owned()))
}

fn ended(how: EndedHow) -> Option<Ended> {
    Some(Ended { at: now(), how })
}

/// Native key 1, observed 11, Rye 12, scroll 13.
fn content() -> Content {
    let id = IdentityId::of(&key(1), Some(&key(RECOVERY)));
    Content {
        name: TrustName::parse("Ann Müller").unwrap(),
        seq: 7,
        issued: now(),
        recovery: Some(key(RECOVERY)),
        links: Vec::new(),
        keys: vec![
            listed(&id, 1, KeyUsage::Native),
            listed(&id, 11, KeyUsage::Observed),
            listed(&id, 12, KeyUsage::Rye),
            listed(&id, 13, KeyUsage::Scroll),
        ],
        signer: key(1),
    }
}

fn id() -> IdentityId {
    IdentityId::of(&key(1), Some(&key(RECOVERY)))
}

fn sign(content: &Content, seed: u8) -> Result<Identity, Error> {
    Identity::sign(content.clone(), &signer(seed, KeyUsage::Native))
}

fn made() -> Identity {
    sign(&content(), 1).unwrap()
}

fn link(by: LinkBy, from: u8, to: u8) -> Link {
    match by {
        LinkBy::Recovery => Link::recover(
            &id(),
            key(from),
            key(to),
            &signer(RECOVERY, KeyUsage::Recovery),
        )
        .unwrap(),
        LinkBy::Key => Link {
            from: key(from),
            to: key(to),
            by,
            signature: signer(from, KeyUsage::Native)
                .sign(&KeyChange::Rotate(key(to)).message(&key(from)))
                .unwrap(),
        },
    }
}

/// The native key `from`, which signs last, is replaced by `to`.
fn replaced(before: &Identity, by: LinkBy, to: u8, seq: u64) -> Content {
    let mut content = before.content().clone();
    let from = (1..8).find(|seed| key(*seed) == content.signer).unwrap();
    let old = content.keys.iter_mut().find(|old| old.key == key(from));
    old.unwrap().ended = end();
    content.keys.push(listed(before.id(), to, KeyUsage::Native));
    content.links.push(link(by, from, to));
    content.seq = seq;
    content
}

fn later(before: &Identity, seq: u64) -> Identity {
    let mut content = before.content().clone();
    content.seq = seq;
    let seed = (1..8).find(|seed| key(*seed) == content.signer).unwrap();
    sign(&content, seed).unwrap()
}

#[test]
fn a_file_reads_back_and_has_one_spelling() {
    let made = made();
    let bytes = made.to_bytes().unwrap();
    assert!(Identity::is_likely(&bytes));
    assert_eq!(Identity::read(&bytes).unwrap(), made);
    let text = String::from_utf8(bytes).unwrap();
    for other in [
        text.trim_end().to_owned(),
        format!("{text}\n"),
        format!(" {text}"),
        text.replace("\":", "\": "),
        text.replace("ü", "\\u00fc"),
        text.replacen('{', "{\"added\":1,", 1),
        text.replace("identity/1", "identity/2"),
        text.replace("\"recovery\":", "\"other\":null,\"recovery\":"),
    ] {
        assert_ne!(other, text);
        assert!(Identity::read(other.as_bytes()).is_err(), "{other}");
    }
}

// T-ID-01
#[test]
fn no_changed_byte_of_a_file_is_accepted() {
    let bytes = made().to_bytes().unwrap();
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert!(Identity::read(&changed).is_err(), "byte {at}");
    }
    for len in 0..bytes.len() {
        assert!(Identity::read(&bytes[..len]).is_err(), "{len} bytes");
    }
}

// T-ID-02
#[test]
fn a_key_of_another_party_cannot_be_claimed() {
    let stranger = [
        (21, KeyUsage::Native),
        (22, KeyUsage::Observed),
        (23, KeyUsage::Rye),
    ];
    for (seed, usage) in stranger {
        let of_other = IdentityId::of(&key(5), None);
        for proof in [
            None,
            listed(&of_other, seed, usage).proof,
            listed(&id(), 1, KeyUsage::Native).proof,
        ] {
            let mut claimed = content();
            claimed.keys.push(IdentityKey {
                proof,
                ..listed(&id(), seed, usage)
            });
            let refused = sign(&claimed, 1).unwrap_err().to_string();
            assert!(refused.contains("does not prove"), "{usage}: {refused}");
        }
    }
    // The proof of one usage is none of another.
    let mut moved = content();
    moved.keys[0].usage = KeyUsage::Native;
    moved.keys.push(IdentityKey {
        usage: KeyUsage::Native,
        ..listed(&id(), 22, KeyUsage::Observed)
    });
    assert!(sign(&moved, 1).is_err());
}

/// No message of these usages can name an identity: what they sign is fixed by others.
// T-ID-07
#[test]
fn a_key_without_a_message_for_a_proof_is_claimed_and_not_proven() {
    for usage in [
        KeyUsage::Scroll,
        KeyUsage::Igor,
        KeyUsage::Log,
        KeyUsage::Witness,
    ] {
        assert!(id().proof_message(&key(24), usage).is_none(), "{usage}");
        let mut claimed = content();
        claimed.keys.push(listed(&id(), 24, usage));
        let bytes = sign(&claimed, 1).unwrap().to_bytes().unwrap();
        let read = Identity::read(&bytes).unwrap();
        let found = read
            .content()
            .keys
            .iter()
            .find(|found| found.key == key(24));
        assert_eq!(found.unwrap().proof, None, "{usage}");
        // A proof that is made up is refused.
        let last = claimed.keys.last_mut().unwrap();
        last.proof = listed(&id(), 11, KeyUsage::Observed).proof;
        assert!(sign(&claimed, 1).is_err(), "{usage}");
    }
    let proven = made();
    let proven = proven
        .content()
        .keys
        .iter()
        .filter(|key| key.proof.is_some());
    assert_eq!(proven.count(), 3);
}

#[test]
fn each_fault_of_the_content_is_refused_by_name() {
    type Change = fn(&mut Content);
    let changes: [(Change, &str); 14] = [
        (|c| c.seq = 0, "number"),
        (|c| c.seq = MAX_SAFE_INTEGER + 1, "number"),
        (|c| c.keys[0].ended = end(), "has ended"),
        (|c| drop(c.keys.remove(0)), "not listed"),
        (|c| c.keys.push(c.keys[1].clone()), "twice"),
        (|c| c.recovery = None, "does not prove"),
        (|c| c.recovery = Some(key(13)), "recovery key"),
        (
            |c| {
                c.keys[1].from = Some(now());
                c.keys[1].until = Some(micros(0));
            },
            "before it begins",
        ),
        (
            |c| {
                c.keys[1].ended = ended(EndedHow::revoked("a\nb".to_owned()));
            },
            "one short line",
        ),
        (
            |c| c.keys[1].ended = ended(EndedHow::Rotated(c.keys[1].key)),
            "to itself",
        ),
        (
            |c| c.keys[0].ended = ended(EndedHow::Rotated(key(3))),
            "no link",
        ),
        (
            |c| c.keys[3].usage = KeyUsage::Recovery,
            "no value that the format allows",
        ),
        (|c| c.links.push(link(LinkBy::Key, 2, 1)), "does not prove"),
        (
            |c| c.name = TrustName::parse(&"n".repeat(97)).unwrap(),
            "name is too long",
        ),
    ];
    for (number, (change, part)) in changes.into_iter().enumerate() {
        let mut changed = content();
        change(&mut changed);
        let refused = sign(&changed, 1).unwrap_err().to_string();
        let is_named = refused.contains(part) || (number == 12 && refused.contains("not listed"));
        assert!(is_named, "{number}: {refused}");
    }
}

#[test]
fn what_exceeds_a_bound_is_refused() {
    let mut many = content();
    let seeds = (0..=MAX_IDENTITY_KEYS).map(|seed| u8::try_from(seed + 30).unwrap());
    many.keys
        .extend(seeds.map(|seed| listed(&id(), seed, KeyUsage::Scroll)));
    assert!(sign(&many, 1).unwrap_err().to_string().contains("too many"));
    let mut long = content();
    for listed in &mut long.keys[1..] {
        listed.ended = ended(EndedHow::revoked("\"".repeat(MAX_TRUST_TEXT_BYTES)));
    }
    let ended = long.keys[1].ended.clone();
    long.keys.extend((30..40).map(|seed| IdentityKey {
        ended: ended.clone(),
        ..listed(&id(), seed, KeyUsage::Scroll)
    }));
    assert!(sign(&long, 1).is_err());
    let huge = vec![b' '; crate::limits::MAX_IDENTITY_BYTES + 1];
    assert!(
        Identity::read(&huge)
            .unwrap_err()
            .to_string()
            .contains("longer")
    );
}

// T-ID-03
#[test]
fn a_later_file_follows_and_an_earlier_one_does_not() {
    let first = made();
    let second = later(&first, 8);
    let rotated = sign(&replaced(&second, LinkBy::Key, 2, 9), 2).unwrap();
    let last = sign(&replaced(&rotated, LinkBy::Key, 3, 10), 3).unwrap();
    let files = [first, second, rotated, last];
    for (known_at, known) in files.iter().enumerate() {
        for (new_at, new) in files.iter().enumerate() {
            let expected = match new_at.cmp(&known_at) {
                std::cmp::Ordering::Less => Err(Conflict::Older),
                std::cmp::Ordering::Equal => Ok(Step::Same),
                std::cmp::Ordering::Greater => Ok(Step::Newer),
            };
            assert_eq!(new.follows(known), expected, "{new_at} after {known_at}");
        }
    }
}

// T-ID-04
#[test]
fn two_files_that_contradict_each_other_are_noticed() {
    let first = made();
    let mut other_name = first.content().clone();
    other_name.name = TrustName::parse("Eve").unwrap();
    let twin = sign(&other_name, 1).unwrap();
    assert_eq!(twin.follows(&first), Err(Conflict::Forked));
    let honest = sign(&replaced(&first, LinkBy::Key, 2, 8), 2).unwrap();
    let thief = sign(&replaced(&first, LinkBy::Key, 3, 99), 3).unwrap();
    assert_eq!(thief.follows(&honest), Err(Conflict::Forked));
    assert_eq!(honest.follows(&thief), Err(Conflict::Forked));
    // A thief of the first key, after it was replaced.
    assert_eq!(later(&first, 99).follows(&honest), Err(Conflict::Forked));
    let mut stranger = content();
    stranger.recovery = None;
    stranger.keys = vec![listed(&IdentityId::of(&key(1), None), 1, KeyUsage::Native)];
    assert_eq!(
        sign(&stranger, 1).unwrap().follows(&first),
        Err(Conflict::Other)
    );
}

// T-ID-04
#[test]
fn no_end_and_no_key_is_taken_back() {
    let mut ended = content();
    ended.keys[1].ended = end();
    let known = sign(&ended, 1).unwrap();
    let with = |change: fn(&mut Content)| {
        let mut content = known.content().clone();
        content.seq = 99;
        change(&mut content);
        sign(&content, 1).unwrap().follows(&known)
    };
    assert_eq!(with(|_| {}), Ok(Step::Newer));
    assert_eq!(
        with(|c| c.keys.iter_mut().for_each(|k| k.ended = None)),
        Err(Conflict::TakesBack)
    );
    assert_eq!(
        with(|c| c.keys.retain(|k| k.usage == KeyUsage::Native)),
        Err(Conflict::TakesBack)
    );
    assert_eq!(
        with(|c| for k in &mut c.keys {
            if let Some(end) = &mut k.ended {
                end.at = micros(now().as_micros() + 1_000_000);
            }
        }),
        Err(Conflict::TakesBack)
    );
}

// T-ID-11
#[test]
fn a_native_key_is_rotated_to_the_key_of_its_own_link_alone() {
    let rotated = |by, to, seed| {
        let mut content = replaced(&made(), by, to, 8);
        let old = content.keys.iter_mut().find(|old| old.key == key(1));
        old.unwrap().ended = ended(EndedHow::Rotated(key(seed)));
        sign(&content, to)
    };
    let good = rotated(LinkBy::Key, 2, 2).unwrap();
    let bytes = good.to_bytes().unwrap();
    assert_eq!(Identity::read(&bytes).unwrap(), good);
    let entries = good.entries(&TrustName::parse("ann").unwrap()).unwrap();
    let old = entries.iter().find(|entry| entry.key == key(1)).unwrap();
    assert_eq!(old.revoked.as_ref().unwrap().next, Some(key(2)));
    for refused in [rotated(LinkBy::Key, 2, 3), rotated(LinkBy::Recovery, 2, 2)] {
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("no link of its own"), "{refused}");
    }
    // A thief of the old key names another one: that contradicts what is known.
    let thief = rotated(LinkBy::Key, 3, 3).unwrap();
    assert_eq!(thief.follows(&good), Err(Conflict::Forked));
}

// T-ID-12
#[test]
fn a_key_that_was_revoked_is_not_taken_back_as_rotated_and_the_reverse_counts() {
    let of = |how: &str, seq| {
        let mut content = content();
        content.seq = seq;
        content.keys[1].ended = ended(EndedHow::of_line(how.to_owned()));
        sign(&content, 1).unwrap()
    };
    let to = |seed| format!("rotated to {}", key(seed).to_hex());
    let known = of(&to(21), 8);
    assert_eq!(of(&to(21), 9).follows(&known), Ok(Step::Newer));
    assert_eq!(of("stolen", 9).follows(&known), Ok(Step::Newer));
    assert_eq!(of(&to(22), 9).follows(&known), Err(Conflict::TakesBack));
    // A file from before next keys were stated is not milder, either.
    for why in ["stolen", "its place was taken by another key"] {
        let refused = of(&to(21), 9).follows(&of(why, 8));
        assert_eq!(refused, Err(Conflict::TakesBack), "{why}");
    }
    let [rotated, revoked] = [known, of("stolen", 8)].map(|identity| {
        let listed = identity.content().key(&key(11)).unwrap();
        listed.ended.clone().unwrap()
    });
    for end in [&rotated, &revoked] {
        assert_eq!(Ended::of(end.revocation()), *end);
    }
    let [rotated, stolen] = [&rotated, &revoked].map(Ended::revocation);
    assert_eq!(rotated.next, Some(key(21)));
    for both in [
        rotated.clone().joined(stolen.clone()),
        stolen.joined(rotated),
    ] {
        assert_eq!(Ended::of(both), revoked);
    }
    // The words of a person are no rotation.
    let quoted = EndedHow::revoked(to(21));
    assert_eq!(quoted.next(), None);
    assert_eq!(EndedHow::of_line(quoted.line()), quoted);
}

// T-ID-05
#[test]
fn the_recovery_key_has_precedence_over_a_thief_of_the_native_key() {
    let first = made();
    let thief = sign(&replaced(&first, LinkBy::Key, 3, MAX_SAFE_INTEGER), 3).unwrap();
    let recovered = sign(&replaced(&first, LinkBy::Recovery, 2, 8), 2).unwrap();
    assert_eq!(recovered.follows(&first), Ok(Step::Recovered));
    assert_eq!(recovered.follows(&thief), Ok(Step::Recovered));
    assert_eq!(thief.follows(&recovered), Err(Conflict::Replaced));
    assert_eq!(first.follows(&recovered), Err(Conflict::Replaced));
    // A thief that only counted up.
    assert_eq!(
        recovered.follows(&later(&first, MAX_SAFE_INTEGER)),
        Ok(Step::Recovered)
    );
    // No one but the recovery key can sign it.
    let mut forged = replaced(&first, LinkBy::Key, 3, 8);
    forged.links[0].by = LinkBy::Recovery;
    assert!(sign(&forged, 3).unwrap_err().to_string().contains("link"));
    let native = signer(1, KeyUsage::Native);
    assert!(Link::recover(&id(), key(1), key(3), &native).is_err());
}

#[test]
fn the_entries_of_an_identity_have_its_keys_usages_and_ends() {
    let mut ended = content();
    ended.keys[1].ended = end();
    ended.keys[2].until = Some(now());
    let entries = sign(&ended, 1).unwrap();
    let entries = entries.entries(&TrustName::parse("ann").unwrap()).unwrap();
    let of = |seed| entries.iter().find(|entry| entry.key == key(seed)).unwrap();
    assert_eq!(of(1).name.as_str(), "ann");
    assert_eq!(of(12).name.as_str(), "ann/rye");
    assert_eq!(of(12).not_after, Some(now()));
    assert!(of(11).name.as_str().starts_with("ann/observed/"));
    assert_eq!(of(11).revoked.as_ref().map(|end| end.at), Some(now()));
    assert!(entries.iter().all(|entry| entry.usage.len() == 1));
    assert_eq!(of(13).note, Some(format!("identity {}", id())));
}
