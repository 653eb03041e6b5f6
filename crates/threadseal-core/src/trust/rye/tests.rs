//! Rye's folder of trusted keys: which key vouches for which file, and refused files.

use super::*;
use crate::encoding;
use crate::key::Signer;
use crate::testing::{key, signer};
use proptest::prelude::*;

fn stem(key: &PublicKey) -> String {
    format!("{}.toml", key.rye_fingerprint())
}

fn unsigned(key: &PublicKey, owner: &str) -> String {
    let (fingerprint, pem) = (key.rye_fingerprint(), key.to_pem());
    format!(
        "version = \"1.0.0\"\ncategory = \"keys/trusted\"\nfingerprint = \"{fingerprint}\"\nowner = \"{owner}\"\nattestation = \"\"\n\n[public_key]\npem = \"\"\"\n{pem}\"\"\"\n"
    )
}

fn signed(content: &str, by: u8) -> String {
    let hash = Digest::of(content.as_bytes());
    let signature = signer(by, KeyUsage::Rye).sign(&Message::rye_hash(&hash));
    let text = encoding::base64url(signature.unwrap().as_bytes());
    let fingerprint = key(by).rye_fingerprint();
    format!("# rye:signed:2026-02-18T10:30:00Z:{hash}:{text}:{fingerprint}\n{content}")
}

fn load(own: Option<u8>, files: &[(String, String)]) -> TrustSet {
    let own = own.map(|seed| key(seed).to_pem());
    let files = files.iter().map(|(name, text)| (&**name, text.as_bytes()));
    let files: Vec<_> = files.collect();
    TrustSet::load(own.as_deref(), &files).unwrap()
}

fn file(seed: u8, by: Option<u8>) -> (String, String) {
    let key = key(seed);
    let content = unsigned(&key, "somebody");
    let text = by.map_or_else(|| content.clone(), |by| signed(&content, by));
    (stem(&key), text)
}

fn accepted(set: &TrustSet) -> Vec<PublicKey> {
    set.keys().iter().map(|file| file.key).collect()
}

#[test]
fn a_folder_is_as_good_as_its_owners_signatures() {
    let files = [
        file(1, Some(1)),
        file(2, Some(1)),
        file(3, Some(3)),
        file(4, None),
    ];
    let set = load(Some(1), &files);
    assert_eq!(accepted(&set), [key(1), key(2)]);
    let why = set.refused().iter().map(|r| (&*r.file, r.why.as_str()));
    let expected = [
        (
            &*files[2].0,
            "the key file is not signed by the owner's key",
        ),
        (&*files[3].0, "the key file is not signed"),
    ];
    assert!(why.eq(expected), "{:?}", set.refused());
    let store = set.to_store().unwrap();
    assert_eq!(store.len(), 2);
    let rye = [KeyUsage::Rye].into();
    assert!(store.iter().all(|entry| entry.usage == rye));
}

// T-RYE-09
#[test]
fn trust_is_not_handed_on() {
    let set = load(
        Some(1),
        &[file(1, Some(1)), file(2, Some(1)), file(3, Some(2))],
    );
    assert_eq!(set.keys().len(), 2);
    assert_eq!(set.refused().len(), 1);
}

#[test]
fn without_an_owners_key_the_one_self_signed_key_vouches() {
    let mut files = vec![file(1, Some(1)), file(2, Some(1)), file(3, None)];
    let set = load(None, &files);
    assert_eq!(accepted(&set), [key(1), key(2)]);
    assert_eq!(set.to_store().unwrap().len(), 2);

    files.push(file(4, Some(4)));
    let set = load(None, &files);
    assert!(set.keys().is_empty());
    assert!(set.refused().iter().any(|r| r.why.contains("several")));

    let set = load(None, &[file(2, Some(1))]);
    assert!(set.keys().is_empty());
    assert!(set.refused()[0].why.contains("no key"));
    assert!(TrustSet::load(Some("no key"), &[]).is_err());
}

#[test]
fn the_owners_key_counts_without_a_file_of_its_own() {
    let set = load(Some(1), &[file(2, Some(1))]);
    let store = set.to_store().unwrap();
    assert_eq!(set.own(), Some(&key(1)));
    assert_eq!(store.by_key(&key(1)).count(), 1);
    assert_eq!(store.by_key(&key(2)).count(), 1);
}

// T-RYE-09
#[test]
fn a_file_under_another_name_is_refused() {
    let (name, text) = file(2, Some(1));
    let (other, _) = file(3, Some(1));
    for bad in [
        other.as_str(),
        &name.to_uppercase(),
        &name[..16],
        "x.toml",
        &format!("a/{name}"),
    ] {
        let set = load(Some(1), &[(bad.to_owned(), text.clone())]);
        assert!(set.keys().is_empty(), "{bad}");
    }
}

#[test]
fn every_kind_of_line_end_reads_the_same() {
    let (name, text) = file(2, Some(1));
    for text in [text.replace('\n', "\r\n"), text.replace('\n', "\r")] {
        assert_eq!(load(Some(1), &[(name.clone(), text)]).keys().len(), 1);
    }
}

#[test]
fn every_changed_byte_is_noticed() {
    let (name, text) = file(2, Some(1));
    let uncovered = "# rye:signed:".len().."# rye:signed:2026-02-18T10:30:00Z".len();
    let hint = text.find('\n').unwrap() - 16..text.find('\n').unwrap();
    for at in 0..text.len() {
        let mut bytes = text.as_bytes().to_vec();
        bytes[at] ^= 1;
        let set = TrustSet::load(Some(&key(1).to_pem()), &[(name.as_str(), bytes.as_slice())]);
        if !set.unwrap().keys().is_empty() {
            assert!(uncovered.contains(&at) || hint.contains(&at), "byte {at}");
        }
    }
}

#[test]
fn what_is_not_a_key_file_is_refused() {
    let content = unsigned(&key(1), "a");
    let cases = [
        String::new(),
        "version = 1".into(),
        content.replace("1.0.0", ""),
        content.replace("version = \"1.0.0\"\n", ""),
        content.replace("category = \"keys/trusted\"\n", ""),
        content.replace("fingerprint = \"", "fingerprint = \"0"),
        content.replace("MCow", "MCox"),
        content.replace("[public_key]", "[key]"),
        format!("# rye:signed:fake\n{content}"),
        format!("# rye:signed:{content}"),
        format!("\u{feff}{content}\u{0}"),
        "[".repeat(60_000),
        " ".repeat(MAX_KEY_FILE_BYTES + 1),
    ];
    for bad in cases {
        let shown: String = bad.chars().take(40).collect();
        assert!(parse_trusted_key(bad.as_bytes()).is_err(), "{shown:?}");
    }
    assert!(parse_trusted_key(b"\xff").is_err());
    assert!(parse_trusted_key(content.as_bytes()).is_ok());
    let spaced = content.replace("\"\"\"\n-----", "\"\"\"\n\n  -----");
    assert!(
        parse_trusted_key(spaced.as_bytes()).is_ok(),
        "Rye strips the PEM text"
    );
}

#[test]
fn a_signature_line_has_one_spelling_and_no_appendix() {
    let text = signed("x", 1);
    let line = text.lines().next().unwrap().strip_prefix("# ").unwrap();
    let good = SignatureLine::parse(line).unwrap();
    assert_eq!(good.hash, Digest::of(b"x"));
    assert!(good.is_by(&key(1)) && !good.is_by(&key(2)));
    let unpadded = line.replace("==:", ":");
    assert_eq!(SignatureLine::parse(&unpadded), Some(good));
    let pushed = format!("{line}|rye-registry@leo_1");
    let provenance = SignatureLine::parse(&pushed).unwrap().provenance;
    assert_eq!(provenance.as_deref(), Some("rye-registry@leo_1"));
    for bad in [
        String::new(),
        line[1..].to_owned(),
        line.replace("2026-02-18", "2026-02-30"),
        line.replace("==:", "=:"),
        line.to_uppercase(),
        format!("{line} "),
        format!("{line}:x"),
        format!("{line}x"),
        format!("{line}|"),
        format!("{line}|a"),
        format!("{line}|a@b@c"),
        format!("{line}|a b@c"),
        line.replace("Z:", "Z"),
    ] {
        assert!(SignatureLine::parse(&bad).is_none(), "{bad}");
    }
}

#[test]
fn owners_become_one_bounded_line() {
    assert_eq!(one_line("a\nb\u{1b}c"), "a b c");
    let long = one_line(&"é".repeat(MAX_TRUST_TEXT_BYTES));
    assert_eq!(long.len(), MAX_TRUST_TEXT_BYTES);
}

proptest! {
    #[test]
    fn reading_any_bytes_never_panics(bytes in any::<Vec<u8>>(), text in "\\PC{0,200}") {
        let _ = parse_trusted_key(&bytes);
        let _ = SignatureLine::parse(&format!("rye:signed:{text}"));
        let _ = parse_trusted_key(format!("# rye:signed:{text}\n").as_bytes());
    }
}
