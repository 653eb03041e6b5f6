//! Computes every example of `spec/keys-and-trust.md` from its two seeds, and the ends of keys in
//! `spec/host-log.md`.

use std::fmt::Write as _;
use threadseal_core::digest::Digest;
use threadseal_core::encoding::{base64, base64url, hex};
use threadseal_core::identity::{
    Content, Ended, EndedHow, Identity, IdentityId, IdentityKey, Link, LinkBy,
};
use threadseal_core::key::{KeyUsage, Message, PrivateKey, Signature, Signer};
use threadseal_core::merkle;
use threadseal_core::note::{self, KeyName, NoteText};
use threadseal_core::testing::{key, signer};
use threadseal_core::time::Timestamp;
use threadseal_core::tlog::entry::LogEntry;
use threadseal_core::tlog::entry::key_event::{KeyChange, KeyEvent};
use threadseal_core::trust::rye::TrustSet;
use threadseal_core::trust::{
    EndDoubt, Pins, Purpose, Revocation, ScopeFormat, Standing, Trust, TrustName, TrustStore,
};
use threadseal_testkit::in_repository;

/// The block after `<!-- example: name -->`.
fn example(name: &str) -> String {
    example_of("spec/keys-and-trust.md", name)
}

fn example_of(spec: &str, name: &str) -> String {
    let spec = std::fs::read_to_string(in_repository(spec)).unwrap();
    let marker = format!("<!-- example: {name} -->\n```\n");
    let (_, rest) = spec.split_once(&marker).unwrap();
    rest[..rest.find("```").unwrap()].to_owned()
}

fn assert_example(name: &str, computed: &str) {
    assert_eq!(example(name), computed, "the example {name}");
}

#[test]
fn the_texts_and_names_of_a_public_key_are_the_examples() {
    let key = key(1);
    let computed = format!(
        "seed         {}\nhex          {}\ndid:key      {}\nkey id       {}\nfingerprint  {}\nPEM\n{}",
        hex(&[1; 32]),
        key.to_hex(),
        key.to_did_key(),
        key.key_id(),
        key.rye_fingerprint(),
        key.to_pem(),
    );
    assert_example("public-key", &computed);
}

#[test]
fn the_files_of_a_private_key_are_the_examples() {
    let key = PrivateKey::from_seed([1; 32]);
    let encrypted = key.to_encrypted_pem(b"correct horse", [3; 16], [4; 16]);
    let encrypted = encrypted.unwrap();
    let computed = format!(
        "PKCS#8 v1\n{}encrypted, passphrase \"correct horse\", salt 16 x 03, iv 16 x 04\n{}",
        *key.to_pem(),
        *encrypted,
    );
    assert_example("private-key", &computed);
}

#[test]
fn the_ends_of_keys_in_a_log_are_the_examples() {
    let usages = [
        KeyUsage::Observed,
        KeyUsage::Rye,
        KeyUsage::Scroll,
        KeyUsage::Igor,
    ];
    let mut computed = String::new();
    for usage in usages {
        let event = KeyEvent::sign(KeyChange::Revoke, &signer(1, usage)).unwrap();
        let entry = LogEntry::Key(Box::new(event)).to_bytes().unwrap();
        computed.push_str(&String::from_utf8(entry).unwrap());
        computed.push('\n');
    }
    assert_eq!(example_of("spec/host-log.md", "key-ends"), computed);
}

#[test]
fn the_signed_messages_are_the_examples() {
    let parts: [&[u8]; 2] = [b"a", b"bc"];
    let message = Message::tagged("example", &parts);
    let rye = Message::rye_hash(&Digest::of(b"abc"));
    let signed = |usage, message: &Message| -> Signature {
        let signature = signer(1, usage).sign(message).unwrap();
        key(1).verify(message, &signature).unwrap();
        signature
    };
    let computed = format!(
        "tagged(\"example\", [\"a\", \"bc\"])  {}\nsigned bytes                    {}\nnative signature                {}\nRye hash of \"abc\"               {}\nrye signature                   {}\n",
        Digest::tagged("example", &parts),
        hex(message.as_bytes()),
        hex(signed(KeyUsage::Native, &message).as_bytes()),
        String::from_utf8_lossy(rye.as_bytes()),
        base64url(signed(KeyUsage::Rye, &rye).as_bytes()),
    );
    assert_example("messages", &computed);
}

#[test]
fn the_merkle_roots_are_the_examples() {
    let leaves = [b"a", b"b", b"c", b"d"].map(|leaf| merkle::leaf_hash(leaf));
    let mut computed = String::new();
    for (size, names) in [
        "\"\"",
        "\"a\"",
        "\"a\" \"b\"",
        "\"a\" \"b\" \"c\"",
        "\"a\" \"b\" \"c\" \"d\"",
    ]
    .iter()
    .enumerate()
    {
        writeln!(computed, "{names:<19}{}", merkle::root(&leaves[..size])).unwrap();
    }
    assert_example("merkle", &computed);
}

#[test]
fn the_note_is_the_example() {
    let name = KeyName::parse("example.com/threads").unwrap();
    let text = NoteText::parse("example.com/threads\n7\nAAAA\n").unwrap();
    let note = note::sign(text, &name, &signer(1, KeyUsage::Native)).unwrap();
    let computed = format!("vkey  {}\n{note}", note::vkey(&name, &key(1)));
    assert_example("note", &computed);
}

#[test]
fn the_trust_store_and_its_digests_are_the_examples() {
    let text = example("trust-store");
    let store = TrustStore::parse(&text).unwrap();
    assert_eq!(store.to_toml(), text);
    for (name, seed) in [("build host", 1), ("laptop", 2)] {
        let entry = store.by_name(&TrustName::parse(name).unwrap());
        assert_eq!(entry.map(|entry| entry.key), Some(key(seed)));
    }
    let trust = Trust::new(store);
    let pinned = Trust {
        pinned: key(1).into(),
        ..trust.clone()
    };
    let both = Trust {
        pinned: Pins::new([2, 1].map(|seed| key(seed).into())).unwrap(),
        ..trust.clone()
    };
    let computed = format!(
        "store                       {}\ntrust, nothing pinned       {}\ntrust, \"build host\" pinned  {}\ntrust, both keys pinned     {}\n",
        trust.store.digest(),
        trust.digest(),
        pinned.digest(),
        both.digest(),
    );
    assert_example("trust-digests", &computed);
}

#[test]
fn the_store_with_a_rotated_key_is_the_example_and_is_judged_as_the_text_states() {
    let text = example("trust-rotated");
    let store = TrustStore::parse(&text).unwrap();
    assert_eq!(store.to_toml(), text);
    let moment = |text| Timestamp::parse_iso_seconds(text).unwrap();
    let (last, first) = (
        moment("2026-05-31T23:59:59Z"),
        moment("2026-06-01T00:00:00Z"),
    );
    let standing = |store: &TrustStore, seed, evidence| {
        let purpose = Purpose {
            usage: KeyUsage::Native,
            format: ScopeFormat::Json,
            thread: None,
            evidence,
            heads: &[],
        };
        store.judge(&key(seed), &purpose, first).standing
    };
    let doubt = |standing| match standing {
        Standing::Revoked { doubt, .. } => doubt,
        other => panic!("{other:?}"),
    };
    let rotated = Some(EndDoubt::Rotated {
        next: key(2).key_id(),
    });
    assert_eq!(doubt(standing(&store, 1, None)), rotated);
    assert_eq!(doubt(standing(&store, 1, Some(first))), rotated);
    assert_eq!(standing(&store, 1, Some(last)), Standing::Trusted);
    assert_eq!(standing(&store, 2, None), Standing::Unknown);
    for at in [last, moment("2027-01-01T00:00:00Z")] {
        let mut stolen = store.clone();
        let end = Revocation {
            at,
            reason: "stolen".to_owned(),
            entry: None,
            next: None,
        };
        stolen
            .revoke(&TrustName::parse("desk").unwrap(), end)
            .unwrap();
        assert_eq!(doubt(standing(&stolen, 1, None)), None);
    }
}

#[test]
fn the_identity_of_a_rotated_key_is_the_example() {
    let id = IdentityId::of(&key(1), None);
    let native = |seed| signer(seed, KeyUsage::Native);
    let moment = Timestamp::parse_iso_seconds("2026-06-01T00:00:00Z").unwrap();
    let listed = |seed, ended| {
        let message = id.proof_message(&key(seed), KeyUsage::Native).unwrap();
        IdentityKey {
            key: key(seed),
            usage: KeyUsage::Native,
            from: None,
            until: None,
            ended,
            proof: Some(native(seed).sign(&message).unwrap()),
        }
    };
    let end = Ended {
        at: moment,
        how: EndedHow::Rotated(key(2)),
    };
    let event = KeyEvent::sign(KeyChange::Rotate(key(2)), &native(1)).unwrap();
    let link = Link {
        from: key(1),
        to: key(2),
        by: LinkBy::Key,
        signature: *event.signature(),
    };
    let content = Content {
        name: TrustName::parse("ann").unwrap(),
        seq: 2,
        issued: moment,
        recovery: None,
        links: vec![link],
        keys: vec![listed(1, Some(end)), listed(2, None)],
        signer: key(2),
    };
    let identity = Identity::sign(content, &native(2)).unwrap();
    let text = String::from_utf8(identity.to_bytes().unwrap()).unwrap();
    assert_example("identity-rotated", &text);
    let entries = identity.entries(&TrustName::parse("ann").unwrap()).unwrap();
    let old = entries.iter().find(|entry| entry.key == key(1)).unwrap();
    let example = TrustStore::parse(&example("trust-rotated")).unwrap();
    assert_eq!(old.revoked, example.end_of(&key(1)));
}

#[test]
fn the_identity_is_the_example() {
    let id = IdentityId::of(&key(1), Some(&key(2)));
    let message = id.proof_message(&key(1), KeyUsage::Native).unwrap();
    let native = signer(1, KeyUsage::Native);
    let content = Content {
        name: TrustName::parse("ann").unwrap(),
        seq: 1,
        issued: Timestamp::parse_iso_seconds("2026-01-01T00:00:00Z").unwrap(),
        recovery: Some(key(2)),
        links: Vec::new(),
        keys: vec![IdentityKey {
            key: key(1),
            usage: KeyUsage::Native,
            from: None,
            until: None,
            ended: None,
            proof: Some(native.sign(&message).unwrap()),
        }],
        signer: key(1),
    };
    let identity = Identity::sign(content, &native).unwrap();
    let recovery = signer(2, KeyUsage::Recovery);
    let link = Link::recover(&id, key(1), key(2), &recovery).unwrap();
    let computed = format!(
        "id     {id}\nwords  {}\nlink by recovery, from the first key to the second\n{}\n{}",
        id.words().join(" "),
        base64(link.signature.as_bytes()),
        String::from_utf8(identity.to_bytes().unwrap()).unwrap(),
    );
    assert_example("identity", &computed);
}

#[test]
fn the_rye_key_file_is_the_example() {
    let (key, owner) = (key(2), key(1));
    let fingerprint = key.rye_fingerprint();
    let content = format!(
        "version = \"1.0.0\"\ncategory = \"keys/trusted\"\nfingerprint = \"{fingerprint}\"\nowner = \"colleague\"\nattestation = \"\"\n\n[public_key]\npem = \"\"\"\n{}\"\"\"\n",
        key.to_pem()
    );
    let hash = Digest::of(content.as_bytes());
    let signature = signer(1, KeyUsage::Rye)
        .sign(&Message::rye_hash(&hash))
        .unwrap();
    let computed = format!(
        "# rye:signed:2026-02-18T10:30:00Z:{hash}:{}:{}\n{content}",
        base64url(signature.as_bytes()),
        owner.rye_fingerprint()
    );
    assert_example("rye-trusted-key", &computed);
    let name = format!("{fingerprint}.toml");
    let files: [(&str, &[u8]); 1] = [(&name, computed.as_bytes())];
    let set = TrustSet::load(Some(&owner.to_pem()), &files).unwrap();
    assert_eq!(set.keys().len(), 1);
}
