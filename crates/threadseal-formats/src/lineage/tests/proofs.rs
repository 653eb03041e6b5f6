//! Fork proofs: links that prove a fork, and links that only look like one.

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
fn piece(made: &Made) -> &[u8] {
    let facts = LinkFacts::of("", &made.file);
    let bytes = usize::try_from(ProofPart::of(&facts).unwrap().bytes).unwrap();
    &made.file[..bytes]
}

pub(super) fn of(a: &Made, b: &Made) -> Vec<u8> {
    with_parent(a, b, None)
}

fn with_parent(a: &Made, b: &Made, parent: Option<&Made>) -> Vec<u8> {
    let (a, b) = if a.hash < b.hash { (a, b) } else { (b, a) };
    let parts: Vec<&[u8]> = [Some(a), Some(b), parent]
        .into_iter()
        .flatten()
        .map(piece)
        .collect();
    proof(&parts)
}

#[test]
fn two_headers_prove_a_fork_of_v5() {
    let a = first(1, 2);
    let (b, c) = (a.next(2, b"one"), a.next(2, b"two"));
    let bytes = of(&b, &c);
    assert_eq!(bytes.len(), 10 + 2 * (8 + HEADER_LENGTH));
    let shown = check(&bytes).unwrap();
    assert_eq!(shown.root, *key(1).as_bytes());
    assert_eq!(shown.parent, Some(a.hash));
    assert!(shown.links.contains(&b.hash) && shown.links.contains(&c.hash));
}

#[test]
fn two_whole_files_prove_a_fork_of_v4() {
    let header = original(Some(ContentHash::of(b"parent")));
    let [one, two] = [b"one", b"two"].map(|state| Made::igor(header.clone(), 1, state));
    let shown = check(&of(&one, &two)).unwrap();
    assert_eq!(shown.root, *key(1).as_bytes());
}

// T-LIN-33
#[test]
fn every_byte_of_a_proof_counts() {
    let a = first(1, 2);
    let bytes = of(&a.next(2, b"one"), &a.next(2, b"two"));
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
    let b = first(1, 2).next(2, b"one");
    let c = b.next(2, b"two");
    let other = first(5, 5).next(5, b"one");
    let unsigned = [3; 100];
    for (bytes, fault) in [
        (of(&b, &c), ForkFault::Places),
        (proof(&[piece(&b), piece(&b)]), ForkFault::Same),
        (of(&b, &other), ForkFault::Agents),
        (b"TSFORK1\n\x02\0".to_vec(), ForkFault::Format),
        (proof(&[b"", b""]), ForkFault::NoLink),
        (proof(&[&unsigned, &unsigned]), ForkFault::Seal),
    ] {
        assert_eq!(check(&bytes), Err(fault));
    }
}

// T-LIN-25
#[test]
fn two_signers_need_the_link_that_says_which_of_them_could() {
    let a = first(1, 2);
    let (honest, usurper) = (a.next(2, b"one"), a.next(3, b"two"));
    assert_eq!(check(&of(&honest, &usurper)), Err(ForkFault::ParentMissing));
    let framed = with_parent(&honest, &usurper, Some(&a));
    assert_eq!(check(&framed), Err(ForkFault::Authority));
    // Source and root, both entitled after the same checkpoint.
    let recovered = a.recover(1, None);
    assert!(check(&with_parent(&honest, &recovered, Some(&a))).is_ok());
    let wrong = with_parent(&honest, &recovered, Some(&a.next(2, b"x")));
    assert_eq!(check(&wrong), Err(ForkFault::Parent));
}

// T-LIN-13
#[test]
fn accept_and_refuse_of_one_release_prove_the_targets_fault_but_a_recovery_is_none() {
    let offered = first(1, 2).release(2, 3);
    let (taken, refused) = (offered.accept(3), offered.refuse(3));
    let recovered = offered.recover(1, Some(&taken));
    assert!(check(&of(&taken, &refused)).is_ok());
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
