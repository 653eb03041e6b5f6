//! Packages from the source of a release, and the refusal of changed ones.

use super::*;

const STATE: &[u8] = b"the state that travels";
const MANIFEST: &[u8] = b"{\"tools\":[]}";

/// A history from v0x03 on, with the release of its last checkpoint to key 3. Key 2 of the root 1
/// signs the release.
struct Cargo {
    links: Vec<Vec<u8>>,
    receipts: Vec<u8>,
    delegation: Delegation,
}

fn delegation(root: u8, to: u8) -> Delegation {
    let window = [NOW, NOW + 10];
    Delegation::sign(&native(root), name(), key(to), 2, window).unwrap()
}

fn cargo() -> Cargo {
    let mut v3 = original(None);
    v3.version = Version::V3;
    let v3 = v3.encode().unwrap();
    let v4 = Made::igor(original(Some(ContentHash::of(&v3))), 1, b"old");
    let receipts = write_receipts(&[]);
    let mut first = genesis(1, &writer(1, 2, 1), b"earlier");
    (first.prev, first.epoch, first.tick) = (Some(v4.hash), v4.header.epoch, 60);
    first.budget = 900_000;
    part(&mut first).seq = 2;
    // The states of the first two native links do not travel.
    let first = Made::native(first, 2, b"");
    let second = first.next_with(2, b"", |header| {
        header.tick = 61;
        let part = part(header);
        part.state = StateSeal::of(STATE, MediaType::bytes());
        part.manifest = Some(Digest::of(MANIFEST));
        part.receipts = Some(Digest::of(&receipts));
    });
    let release = second.release(2, 3);
    Cargo {
        links: [v3]
            .into_iter()
            .chain([v4, first, second, release].map(|made| made.file))
            .collect(),
        receipts,
        delegation: delegation(1, 3),
    }
}

impl Cargo {
    fn pack(&self) -> Vec<u8> {
        self.pack_with(|_| {})
    }

    fn pack_with(&self, edit: impl Fn(&mut PackageParts<'_>)) -> Vec<u8> {
        let links: Vec<&[u8]> = self.links.iter().map(Vec::as_slice).collect();
        let mut parts = PackageParts {
            links: &links,
            delegation: Some(&self.delegation),
            manifest: Some(MANIFEST),
            receipts: Some(&self.receipts),
        };
        edit(&mut parts);
        let head = parts.write(STATE.len() as u64).unwrap();
        [head.as_slice(), STATE].concat()
    }
}

/// As the root 1, the target 3 and the name are expected.
fn read(bytes: &[u8]) -> Result<CheckedPackage, PackageFault> {
    read_as(bytes, 1, 3, Some("counter"), None)
}

fn read_as(
    bytes: &[u8],
    root: u8,
    target: u8,
    name: Option<&str>,
    known: Option<ContentHash>,
) -> Result<CheckedPackage, PackageFault> {
    let name = name.map(|name| AgentName::parse(name).unwrap());
    let expect = PackageExpectation {
        root: &key(root),
        name: name.as_ref(),
        target: &key(target),
        known,
    };
    let (package, state) = CheckedPackage::read(bytes, &expect)?;
    assert_eq!(state, STATE);
    Ok(package)
}

#[test]
fn a_package_is_read_as_it_was_packed() {
    let cargo = cargo();
    let package = read(&cargo.pack()).unwrap();
    assert_eq!(package.name, name());
    assert_eq!(package.offer.target, key(3));
    assert_eq!(package.offer.source.key, key(2));
    assert_eq!(package.checkpoint.header.tick, 61);
    assert_eq!(package.release.header.prev, Some(package.checkpoint.hash));
    assert_eq!(package.delegation, Some(cargo.delegation.clone()));
    assert_eq!(package.manifest.as_deref(), Some(MANIFEST));
    assert_eq!(package.receipts, Some((cargo.receipts.clone(), Vec::new())));
    let links = package.links().iter().map(|(_, bytes)| bytes.clone());
    assert_eq!(links.collect::<Vec<_>>(), cargo.links);
    // A target that needs no delegation gets none.
    assert!(read(&cargo.pack_with(|parts| parts.delegation = None)).is_ok());
}

// T-LIN-11
#[test]
fn every_flip_and_every_cut_of_a_package_is_refused() {
    let package = cargo().pack();
    // The first link is unsigned; its name in the second covers it.
    for at in 0..package.len() {
        for bits in [0x01, 0x80] {
            let mut changed = package.clone();
            changed[at] ^= bits;
            assert!(read(&changed).is_err(), "byte {at} ^ {bits:02x}");
        }
    }
    for length in 0..package.len() {
        assert!(read(&package[..length]).is_err(), "cut to {length}");
    }
    assert!(read(&[package.as_slice(), &[0]].concat()).is_err());
}

// T-LIN-11
#[test]
fn a_history_with_a_link_missing_or_out_of_place_is_refused() {
    let edits: [(&str, fn(&mut Vec<Vec<u8>>), PackageFault); 7] = [
        ("v4 gone", |l| drop(l.remove(1)), PackageFault::Chain(1)),
        ("first gone", |l| drop(l.remove(2)), PackageFault::Chain(2)),
        ("second gone", |l| drop(l.remove(3)), PackageFault::Chain(3)),
        ("no release", |l| drop(l.remove(4)), PackageFault::NoRelease),
        (
            "twice",
            |l| l.insert(3, l[2].clone()),
            PackageFault::Chain(3),
        ),
        // A history without its beginning itself shows that links are missing.
        ("headless", |l| drop(l.drain(..2)), PackageFault::Chain(0)),
        ("none", Vec::clear, PackageFault::Shape),
    ];
    for (what, edit, fault) in edits {
        let mut changed = cargo();
        edit(&mut changed.links);
        assert_eq!(read(&changed.pack()).err(), Some(fault), "{what}");
    }
}

#[test]
fn a_package_for_somebody_else_or_of_somebody_else_is_refused() {
    let package = cargo().pack();
    for (root, target, name, fault) in [
        (1, 9, None, Some(PackageFault::Target)),
        (9, 3, None, Some(PackageFault::Agent)),
        (1, 3, Some("another"), Some(PackageFault::Agent)),
        (1, 3, None, None),
    ] {
        let refused = read_as(&package, root, target, name, None).err();
        assert_eq!(refused, fault, "{root} {target} {name:?}");
    }
}

// T-LIN-11
#[test]
fn a_stale_or_forked_history_is_refused_where_a_newer_link_is_known() {
    let cargo = cargo();
    let package = cargo.pack();
    let known = |of: &[u8]| read_as(&package, 1, 3, None, Some(ContentHash::of(of))).err();
    assert_eq!(known(&cargo.links[3]), None);
    let newer = known(b"a link that this history lacks");
    assert_eq!(newer, Some(PackageFault::Behind));
}

#[test]
fn what_comes_along_must_be_what_the_checkpoint_and_the_release_name() {
    let cargo = cargo();
    let refused = |edit: fn(&mut PackageParts<'_>)| read(&cargo.pack_with(edit)).err();
    for (edit, fault) in [
        (
            (|parts| parts.manifest = None) as fn(&mut PackageParts<'_>),
            PackageFault::Manifest,
        ),
        (|parts| parts.manifest = Some(b"{}"), PackageFault::Manifest),
        (|parts| parts.receipts = None, PackageFault::Receipts),
    ] {
        assert_eq!(refused(edit), Some(fault));
    }
    // By another root, and for another key.
    for (root, to) in [(9, 3), (1, 4)] {
        let mut changed = self::cargo();
        changed.delegation = delegation(root, to);
        let refused = read(&changed.pack()).err();
        assert_eq!(refused, Some(PackageFault::Delegation));
    }
}

/// A change to an unsigned header.
type Edit = fn(&mut CheckpointHeader);

#[test]
fn numbers_that_may_not_follow_are_refused_although_they_are_signed() {
    let header = WholeLink::read_header(&cargo().links[2]).unwrap();
    let first = Made {
        hash: header.hash,
        header: header.header,
        file: Vec::new(),
    };
    let edits: [(&str, Edit); 3] = [
        ("tick", |header| header.tick = 59),
        ("budget", |header| header.budget = 900_001),
        ("epoch", |header| header.epoch.generation = 1),
    ];
    for (field, edit) in edits {
        let mut changed = cargo();
        changed.links[3] = first.next_with(2, b"", edit).file;
        let fault = PackageFault::Transition { number: 3, field };
        assert_eq!(read(&changed.pack()).err(), Some(fault));
    }
}

// T-LIN-17
#[test]
fn a_package_that_promises_too_much_costs_nothing() {
    let mut prologue = [0; PACKAGE_PROLOGUE_LENGTH];
    prologue[..8].copy_from_slice(b"TSMOVE1\n");
    prologue[8..16].fill(0xff);
    assert_eq!(PackagePrologue::parse(&prologue), Err(PackageFault::Shape));
    let mut head = cargo().pack();
    head[28..32].fill(0xff);
    assert_eq!(read(&head).err(), Some(PackageFault::Shape));
    // A package of a million empty links fails at the first.
    let empty = PackageParts {
        links: &vec![b"".as_slice(); 1 << 12],
        ..PackageParts::default()
    };
    let package = empty.write(0).unwrap();
    assert!(matches!(
        read(&package),
        Err(PackageFault::Link { number: 0, .. })
    ));
}
