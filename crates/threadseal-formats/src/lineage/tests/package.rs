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

fn native_link(
    header: CheckpointHeader,
    body: Option<&LinkBody>,
    seed: u8,
) -> (SealedHeader, Vec<u8>) {
    let sealed = seal_native(header, &native(seed)).unwrap();
    let state = body.map_or_else(Vec::new, LinkBody::encode);
    let bytes = [sealed.bytes.as_slice(), &state].concat();
    (sealed, bytes)
}

fn cargo() -> Cargo {
    let mut v3 = original(None);
    v3.version = Version::V3;
    let v3 = v3.encode().unwrap();
    let v4 = seal_original(original(Some(ContentHash::of(&v3))), b"old", &igor(1)).unwrap();
    let receipts = write_receipts(&[]);
    let mut first = genesis(1, &writer(1, 2, 1), b"earlier");
    (first.prev, first.epoch, first.tick) = (Some(v4.hash), v4.header.epoch, 60);
    first.budget = 900_000;
    first.native.as_mut().unwrap().seq = 2;
    let (first, first_bytes) = native_link(first, None, 2);
    let mut second = first
        .header
        .following(first.hash, &writer(1, 2, 1))
        .unwrap();
    second.tick = 61;
    let native = second.native.as_mut().unwrap();
    native.state = StateSeal::of(STATE, MediaType::bytes());
    native.manifest = Some(Digest::of(MANIFEST));
    native.receipts = Some(Digest::of(&receipts));
    let (second, second_bytes) = native_link(second, None, 2);
    let release = LinkBody::Release(Release {
        epoch: 2,
        checkpoint: second.hash,
        target: key(3),
        nonce: [7; 32],
    });
    let header = draft(&second.header, second.hash, &release, &writer(1, 2, 1)).unwrap();
    let (_, release_bytes) = native_link(header, Some(&release), 2);
    let window = [NOW, NOW + 10];
    Cargo {
        links: vec![
            v3,
            [v4.bytes.as_slice(), b"old"].concat(),
            first_bytes,
            second_bytes,
            release_bytes,
        ],
        receipts,
        delegation: Delegation::sign(&super::native(1), name(), key(3), 2, window).unwrap(),
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
    let links: Vec<_> = package
        .links()
        .iter()
        .map(|(_, bytes)| bytes.clone())
        .collect();
    assert_eq!(links, cargo.links);
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
    let whole = cargo();
    for (without, fault) in [
        (1, PackageFault::Chain(1)),
        (2, PackageFault::Chain(2)),
        (3, PackageFault::Chain(3)),
        (4, PackageFault::NoRelease),
    ] {
        let mut cut = cargo();
        cut.links.remove(without);
        assert_eq!(read(&cut.pack()).err(), Some(fault), "without {without}");
    }
    let mut twice = cargo();
    twice.links.insert(3, whole.links[2].clone());
    assert_eq!(read(&twice.pack()).err(), Some(PackageFault::Chain(3)));
    // A history without its beginning itself shows that links are missing.
    let mut headless = cargo();
    headless.links.drain(..2);
    assert_eq!(read(&headless.pack()).err(), Some(PackageFault::Chain(0)));
    let none = whole.pack_with(|parts| parts.links = &[]);
    assert_eq!(read(&none).err(), Some(PackageFault::Shape));
}

#[test]
fn a_package_for_somebody_else_or_of_somebody_else_is_refused() {
    let package = cargo().pack();
    let refused = |root, target, name| read_as(&package, root, target, name, None).err();
    assert_eq!(refused(1, 9, None), Some(PackageFault::Target));
    assert_eq!(refused(9, 3, None), Some(PackageFault::Agent));
    assert_eq!(refused(1, 3, Some("another")), Some(PackageFault::Agent));
    assert_eq!(refused(1, 3, None), None);
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
    let window = [NOW, NOW + 10];
    let signed = |root: u8, signer: u8| {
        Delegation::sign(&native(root), name(), key(signer), 2, window).unwrap()
    };
    let (by_another, for_another) = (signed(9, 3), signed(1, 4));
    let refused = |edit: fn(&mut PackageParts<'_>)| read(&cargo.pack_with(edit)).err();
    assert_eq!(refused(|p| p.manifest = None), Some(PackageFault::Manifest));
    assert_eq!(
        refused(|p| p.manifest = Some(b"{}")),
        Some(PackageFault::Manifest)
    );
    assert_eq!(refused(|p| p.receipts = None), Some(PackageFault::Receipts));
    for delegation in [&by_another, &for_another] {
        let links: Vec<&[u8]> = cargo.links.iter().map(Vec::as_slice).collect();
        let parts = PackageParts {
            links: &links,
            delegation: Some(delegation),
            manifest: Some(MANIFEST),
            receipts: Some(&cargo.receipts),
        };
        let head = parts.write(STATE.len() as u64).unwrap();
        let package = [head.as_slice(), STATE].concat();
        assert_eq!(read(&package).err(), Some(PackageFault::Delegation));
    }
}

/// A change to an unsigned header.
type Edit = fn(&mut CheckpointHeader);

#[test]
fn numbers_that_may_not_follow_are_refused_although_they_are_signed() {
    let first = WholeLink::read_header(&cargo().links[2]).unwrap();
    let edits: [(&str, Edit); 3] = [
        ("tick", |header| header.tick = 59),
        ("budget", |header| header.budget = 900_001),
        ("epoch", |header| header.epoch.generation = 1),
    ];
    for (field, edit) in edits {
        let mut next = first
            .header
            .following(first.hash, &writer(1, 2, 1))
            .unwrap();
        edit(&mut next);
        let (_, bytes) = native_link(next, None, 2);
        let mut changed = cargo();
        changed.links[3] = bytes;
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
