//! The worked example of `spec/lineage.md`, computed again.

use crate::scene::{self, *};
use threadseal_formats::lineage::{
    AgentId, AgentName, Authority, CheckpointHeader, ContentHash, Delegation, Epoch, ForkReader,
    HEADER_LENGTH, LinkBody, LinkKind, MediaType, NativeHeader, PackageParts, Release,
    SealedHeader, StateSeal, Version, WholeLink, Writer, draft, proof_prefix, seal_native,
    seal_original,
};
use threadseal_testkit::in_repository;

const TIME: i64 = 1_795_420_800_000_000_000;

fn native(seed: u8) -> LocalSigner {
    signer(seed, KeyUsage::Native)
}

fn example(name: &str) -> String {
    scene::example("spec/lineage.md", name)
}

/// Lines of 32 bytes in hex, each after its offset.
fn dump(bytes: &[u8]) -> String {
    let line = |(number, part): (usize, &[u8])| {
        let hex: String = part.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{:4}  {hex}\n", number * 32)
    };
    bytes.chunks(32).enumerate().map(line).collect()
}

fn file(sealed: &SealedHeader, state: &[u8]) -> Vec<u8> {
    [sealed.bytes.as_slice(), state].concat()
}

struct Example {
    original: Vec<u8>,
    delegation: Delegation,
    checkpoint: Vec<u8>,
    release: Vec<u8>,
    package: Vec<u8>,
    fork: Vec<u8>,
    names: String,
}

fn original() -> (SealedHeader, &'static [u8]) {
    let header = CheckpointHeader {
        version: Version::V4,
        budget: 998_630,
        price: 1_000_000,
        tick: 55,
        code: Digest::of(b"code"),
        epoch: Epoch {
            major: 1,
            generation: 2,
        },
        lease_expiry: TIME,
        prev: None,
        signer: None,
        signature: None,
        native: None,
    };
    let signer = signer(1, KeyUsage::Igor);
    let state: &[u8] = b"{\"tick\":55}";
    (seal_original(header, state, &signer).unwrap(), state)
}

fn checkpoint(before: &SealedHeader, delegation: &Delegation, state: &[u8]) -> SealedHeader {
    let header = CheckpointHeader {
        version: Version::V5,
        tick: 60,
        budget: 990_000,
        prev: Some(before.hash),
        signer: Some(*delegation.signer.as_bytes()),
        signature: None,
        native: Some(Box::new(NativeHeader {
            kind: LinkKind::Checkpoint,
            seq: 1,
            time: TIME,
            state: StateSeal::of(state, MediaType::parse("application/json").unwrap()),
            transcript: Some(Digest::of(b"transcript")),
            manifest: None,
            receipts: None,
            parent: None,
            name: delegation.name.clone(),
            root: delegation.root,
            certificate: Some(delegation.certificate),
        })),
        ..before.header.clone()
    };
    seal_native(header, &native(2)).unwrap()
}

/// Another checkpoint in the same place.
fn beside(before: &SealedHeader, delegation: &Delegation) -> SealedHeader {
    checkpoint(before, delegation, b"{\"tick\":61}")
}

/// The proof that both were signed: their headers, the one with the smaller hash first.
fn fork(one: &SealedHeader, other: &SealedHeader) -> Vec<u8> {
    let mut links = [one, other];
    links.sort_by_key(|link| link.hash);
    let mut proof = proof_prefix(false);
    for link in links {
        proof.extend((link.bytes.len() as u64).to_le_bytes());
        proof.extend(&link.bytes);
    }
    proof
}

fn build() -> Example {
    let (before, old_state) = original();
    let name = AgentName::parse("counter").unwrap();
    let session = key(2);
    let window = [TIME, TIME + 86_400_000_000_000];
    let delegation = Delegation::sign(&native(1), name.clone(), session, 1, window).unwrap();
    let state = b"{\"tick\":60}";
    let sealed = checkpoint(&before, &delegation, state);
    let body = LinkBody::Release(Release {
        epoch: 2,
        checkpoint: sealed.hash,
        target: key(3),
        nonce: [0x5a; 32],
    });
    let writer = Writer {
        key: session,
        certificate: Some(delegation.certificate),
        time: TIME + 1,
    };
    let header = draft(&sealed.header, sealed.hash, &body, &writer).unwrap();
    let released = seal_native(header, &native(2)).unwrap();
    let (original, release) = (file(&before, old_state), file(&released, &body.encode()));
    let parts = PackageParts {
        links: &[&original, &sealed.bytes, &release],
        ..PackageParts::default()
    };
    let head = parts.write(state.len() as u64).unwrap();
    let named =
        |what: &str, hash: ContentHash| format!("{what:<15} {hash}\n{:15} {}\n", "", hash.to_cid());
    let names = format!(
        "agent id        {}\n{}{}{}",
        AgentId::new(&delegation.root, &name),
        named("v0x04", before.hash),
        named("checkpoint", sealed.hash),
        named("release", released.hash),
    );
    Example {
        original,
        checkpoint: file(&sealed, state),
        release,
        package: [head.as_slice(), state].concat(),
        fork: fork(&sealed, &beside(&before, &delegation)),
        names,
        delegation,
    }
}

#[test]
fn the_files_of_the_specification_are_built_as_it_says() {
    let built = build();
    for (name, text) in [
        ("v4", dump(&built.original)),
        ("delegation", built.delegation.to_text()),
        ("checkpoint", dump(&built.checkpoint)),
        ("release", dump(&built.release)),
        ("fork", dump(&built.fork)),
        ("names", built.names),
    ] {
        assert_eq!(text, example(name), "{name}");
    }
    for (name, bytes) in [
        ("1-v4.ckpt", &built.original),
        ("2-checkpoint.ckpt", &built.checkpoint),
        ("3-release.ckpt", &built.release),
        ("delegation.txt", &built.delegation.to_text().into_bytes()),
        ("package.bin", &built.package),
    ] {
        let file = in_repository("testkit/lineage/native").join(name);
        assert_eq!(&std::fs::read(file).unwrap(), bytes, "{name}");
    }
    // The specification has the package's digest and all of its parts.
    let digest = Digest::of(&built.package);
    assert_eq!(
        format!("{} bytes, SHA-256 {digest}\n", built.package.len()),
        example("package")
    );
}

#[test]
fn the_fork_of_the_specification_is_proved_by_its_bytes_alone() {
    let built = build();
    let mut reader = ForkReader::new();
    reader.push(&built.fork);
    let shown = reader.finish().unwrap();
    assert_eq!(shown.root, *key(1).as_bytes());
    assert_eq!(shown.parent, Some(ContentHash::of(&built.original)));
    let honest = ContentHash::of(&built.checkpoint[..HEADER_LENGTH]);
    assert!(shown.links.contains(&honest));
}

#[test]
fn the_lineage_of_the_specification_holds_link_by_link() {
    let built = build();
    let mut authority = Authority::Nobody;
    for bytes in [&built.original, &built.checkpoint, &built.release] {
        let link = WholeLink::read(bytes).unwrap();
        authority = authority.after(&link.link()).unwrap();
    }
    assert!(matches!(authority, Authority::Released(offer) if offer.target == key(3)));
}
