//! Fork proofs: links that prove a fork, and links that only look like one.

use super::made::{Made, first, hand, next, release};
use super::*;

fn proof(parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = proof_prefix(parts.len() > 2);
    for part in parts {
        bytes.extend((part.len() as u64).to_le_bytes());
        bytes.extend(*part);
    }
    bytes
}

fn check(bytes: &[u8]) -> Result<Equivocation, ForkFault> {
    let mut reader = ForkReader::new();
    // In pieces, so that lengths cross their ends.
    bytes.chunks(7).for_each(|piece| reader.push(piece));
    reader.finish()
}

/// The part of a link that a proof needs.
fn part(made: &Made) -> &[u8] {
    let facts = LinkFacts::of("", &made.file);
    let bytes = usize::try_from(ProofPart::of(&facts).unwrap().bytes).unwrap();
    &made.file[..bytes]
}

pub(super) fn of(a: &Made, b: &Made) -> Vec<u8> {
    let (a, b) = if a.hash < b.hash { (a, b) } else { (b, a) };
    proof(&[part(a), part(b)])
}

#[test]
fn two_headers_prove_a_fork_of_v5() {
    let a = first(1, 2);
    let (b, c) = (next(&a, 2, b"one", |_| {}), next(&a, 2, b"two", |_| {}));
    let bytes = of(&b, &c);
    assert_eq!(bytes.len(), 10 + 2 * (8 + HEADER_LENGTH));
    let shown = check(&bytes).unwrap();
    assert_eq!(shown.root, *key(1).as_bytes());
    assert_eq!(shown.parent, Some(a.hash));
    assert!(shown.links.contains(&b.hash) && shown.links.contains(&c.hash));
}

#[test]
fn two_whole_files_prove_a_fork_of_v4() {
    let seal = |state: &[u8]| {
        let sealed = seal_original(original(Some(ContentHash::of(b"parent"))), state, &igor(1));
        let sealed = sealed.unwrap();
        Made {
            file: [sealed.bytes.as_slice(), state].concat(),
            header: sealed.header,
            hash: sealed.hash,
        }
    };
    let shown = check(&of(&seal(b"one"), &seal(b"two"))).unwrap();
    assert_eq!(shown.root, *key(1).as_bytes());
}

// T-LIN-33
#[test]
fn every_byte_of_a_proof_counts() {
    let a = first(1, 2);
    let bytes = of(&next(&a, 2, b"one", |_| {}), &next(&a, 2, b"two", |_| {}));
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert!(check(&changed).is_err(), "{at}");
        assert!(check(&bytes[..at]).is_err(), "cut to {at}");
    }
    assert!(check(&[bytes.as_slice(), &[0]].concat()).is_err());
}

#[test]
fn what_is_no_fork_proves_nothing() {
    let a = first(1, 2);
    let b = next(&a, 2, b"one", |_| {});
    let c = next(&b, 2, b"two", |_| {});
    assert_eq!(check(&of(&b, &c)), Err(ForkFault::Places));
    assert_eq!(check(&proof(&[part(&b), part(&b)])), Err(ForkFault::Same));
    let other = next(&first(5, 5), 5, b"one", |_| {});
    assert_eq!(check(&of(&b, &other)), Err(ForkFault::Agents));
    assert_eq!(check(b"TSFORK1\n\x02\0"), Err(ForkFault::Format));
    assert_eq!(check(&proof(&[b"", b""])), Err(ForkFault::NoLink));
    let unsigned = [3; 100];
    assert_eq!(check(&proof(&[&unsigned, &unsigned])), Err(ForkFault::Seal));
}

// T-LIN-25
#[test]
fn two_signers_need_the_link_that_says_which_of_them_could() {
    let a = first(1, 2);
    let honest = next(&a, 2, b"one", |_| {});
    let usurper = next(&a, 3, b"two", |_| {});
    assert_eq!(check(&of(&honest, &usurper)), Err(ForkFault::ParentMissing));
    let with_parent = |x: &Made, y: &Made, parent: &Made| {
        let (x, y) = if x.hash < y.hash { (x, y) } else { (y, x) };
        proof(&[part(x), part(y), part(parent)])
    };
    let framed = with_parent(&honest, &usurper, &a);
    assert_eq!(check(&framed), Err(ForkFault::Authority));
    // Source and root, both entitled after the same checkpoint.
    let recovered = hand(
        &a,
        1,
        1,
        &LinkBody::Recover(Recover {
            epoch: 2,
            void: None,
            key: key(4),
            nonce: [0; 32],
        }),
    );
    assert!(check(&with_parent(&honest, &recovered, &a)).is_ok());
    let other = next(&first(1, 2), 2, b"x", |_| {});
    let wrong = with_parent(&honest, &recovered, &other);
    assert_eq!(check(&wrong), Err(ForkFault::Parent));
}

// T-LIN-13
#[test]
fn accept_and_refuse_of_one_release_prove_the_targets_fault_but_a_recovery_is_none() {
    let a = first(1, 2);
    let offered = release(&a, 1, 2, 3, 0);
    let accept = LinkBody::Accept {
        release: offered.hash,
    };
    let refuse = LinkBody::Refuse {
        release: offered.hash,
        reason: RefusalReason::parse("full").unwrap(),
    };
    let taken = hand(&offered, 1, 3, &accept);
    let refused = hand(&offered, 1, 3, &refuse);
    assert!(check(&of(&taken, &refused)).is_ok());
    let recovered = LinkBody::Recover(Recover {
        epoch: 2,
        void: Some(taken.hash),
        key: key(4),
        nonce: [0; 32],
    });
    let recovered = hand(&offered, 1, 1, &recovered);
    assert_eq!(check(&of(&taken, &recovered)), Err(ForkFault::Void));
    // An unreadable body proves nothing, so it must not count as a missing body.
    for whole in [of(&taken, &refused), of(&taken, &recovered)] {
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert!(check(&changed).is_err(), "{at}");
        }
    }
}
