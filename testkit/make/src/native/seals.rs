//! Checkpoints with one wrong value, signed all the same (§3, §7 B).
//!
//! Each value is once wrong in a seal in the middle, and once in the last.

use super::script::record;
use super::{ALL, Set, verified, want};
use crate::forge::{Forge, Seal, authority, key, rye_signature};
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::key::{KeyUsage, LocalSigner, Message, PrivateKey, Signer as _};

/// A name, a change of the seal, verdict and code.
pub(super) type Row = (&'static str, fn(&mut Seal), &'static str, &'static str);

pub(super) fn add(set: &mut Set) {
    for row in places() {
        both(set, "§7 B 5: numbers and links", &row);
    }
    for row in signers() {
        last(set, "§7 B 4, 11: key and signatures", &row);
    }
    for row in notes() {
        last(set, "§3, §7 B 3: the note", &row);
    }
    for row in rye() {
        last(set, "§3: Rye's members", &row);
    }
    for row in notes().iter().step_by(5) {
        middle(set, "§3, §7 B 3: the note", row);
    }
    signatures(set);
    under_a_later_one(set);
    allowed(set);
    first(set);
    contents(set);
    repeated(set);
}

/// Adds a row twice: as a seal in the middle, and as the last.
fn both(set: &mut Set, rule: &str, row: &Row) {
    middle(set, rule, row);
    last(set, rule, row);
}

fn middle(set: &mut Set, rule: &str, row: &Row) {
    let (name, alter, verdict, code) = row;
    let mut forge = begun();
    forge.seal_with(&authority(), alter).finish(&authority());
    set.add(
        &format!("checkpoint-{name}"),
        rule,
        &forge,
        want(verdict, &[code], good(code)),
    );
}

/// Adds a row as the last seal, which is final.
pub(super) fn last(set: &mut Set, rule: &str, row: &Row) {
    let (name, alter, verdict, code) = row;
    let mut forge = begun();
    forge
        .event("thread_completed", "{}")
        .seal_with(&authority(), |seal| {
            seal.is_final = true;
            alter(seal);
        });
    set.add(
        &format!("last-checkpoint-{name}"),
        rule,
        &forge,
        want(verdict, &[code], good(code)),
    );
}

/// A wrong `hash` leaves no seal that may be trusted.
fn good(code: &str) -> usize {
    usize::from(code != "prefix_hash_wrong")
}

/// Seal 0 of turn 1, and another turn.
pub(super) fn begun() -> Forge {
    let mut forge = unsealed();
    forge.seal_with(&authority(), |seal| seal.turn = 1).turn();
    forge
}

/// A bad signature that is no key's last one is found after another failure, behind adopted bytes,
/// and where its key seals no more.
fn signatures(set: &mut Set) {
    let rows: [(&str, fn(&mut Seal), &str); 2] = [
        ("signed-by-a-stranger", |s| s.by = key(9), "signature_bad"),
        (
            "sig-of-another-key",
            |s| s.sig = signed_by_another(&s.hash),
            "rye_signature_bad",
        ),
    ];
    for (name, alter, code) in rows {
        let forged = || want("forged", &[code], 1);
        let mut forge = begun();
        forge
            .seal_with(&authority(), alter)
            .line(b"{}")
            .seal(&authority());
        let rule = "§7: after a failure every signature is checked";
        set.add(
            &format!("checkpoint-{name}-and-a-later-fault"),
            rule,
            &forge,
            forged(),
        );
        let mut forge = begun();
        forge.seal_with(&authority(), alter).turn();
        let payload = super::script::Adopted::of(&forge).text();
        forge.event("tail_adopted", &payload).seal(&authority());
        let rule = "§7: with adopted bytes every signature is checked";
        set.add(
            &format!("checkpoint-{name}-and-adopted-bytes"),
            rule,
            &forge,
            forged(),
        );
    }
    let mut forge = begun();
    forge.seal_with(&authority(), |seal| {
        seal.ext = super::script::next_key(4);
        seal.by = key(9);
    });
    forge.finish(&key(4));
    let forged = want("forged", &["signature_bad"], 1);
    set.add(
        "checkpoint-last-of-its-key-signed-by-a-stranger",
        "§7 D 3: the last of each key",
        &forge,
        forged,
    );
}

fn other() -> Digest {
    Digest::of(b"another thing")
}

fn places() -> Vec<Row> {
    let content = "content_changed";
    vec![
        ("seq-skipped", |s| s.seq += 1, "tampered", "seal_missing"),
        ("seq-repeated", |s| s.seq -= 1, "tampered", "seal_missing"),
        (
            "prev-null",
            |s| s.prev = "null".to_owned(),
            "tampered",
            "link_broken",
        ),
        (
            "prev-of-another",
            |s| s.prev = format!("\"{}\"", other()),
            "tampered",
            "link_broken",
        ),
        ("lines-one-more", |s| s.lines += 1, "tampered", content),
        ("lines-one-less", |s| s.lines -= 1, "tampered", content),
        (
            "offset-one-more",
            |s| s.byte_offset += 1,
            "tampered",
            content,
        ),
        (
            "offset-one-less",
            |s| s.byte_offset -= 1,
            "tampered",
            content,
        ),
        ("root-of-another", |s| s.root = other(), "tampered", content),
        ("turn-lower", |s| s.turn = 0, "tampered", "turn_backwards"),
        (
            "final-wrong",
            |s| s.is_final = !s.is_final,
            "malformed",
            "end_misplaced",
        ),
        (
            "thread-of-another",
            |s| s.thread = "\"testkit/other\"".to_owned(),
            "tampered",
            "thread_id_changed",
        ),
    ]
}

fn signers() -> Vec<Row> {
    vec![
        ("by-a-stranger", stranger, "forged", "key_not_allowed"),
        (
            "key-of-a-stranger",
            |s| s.key = key_id(9),
            "forged",
            "key_not_allowed",
        ),
        (
            "signed-by-a-stranger",
            |s| s.by = key(9),
            "forged",
            "signature_bad",
        ),
        (
            "signature-changed",
            |s| s.alter = |line| blob(&line, |b| b[20] ^= 1),
            "forged",
            "signature_bad",
        ),
        (
            "signature-of-large-s",
            |s| s.alter = |line| blob(&line, large_s),
            "forged",
            "signature_bad",
        ),
        (
            "key-hash-changed",
            |s| s.alter = |line| blob(&line, |b| b[0] ^= 1),
            "forged",
            "signature_bad",
        ),
    ]
}

/// The last signature of a key covers all before it: those in the middle are looked at only after
/// another failure.
fn under_a_later_one(set: &mut Set) {
    let rule = "§7: one signature of each key";
    for (name, alter, by) in [
        ("of-the-same-key", note as fn(&mut Seal), 1),
        ("of-the-rye-key", rye_sig as fn(&mut Seal), 1),
        ("of-another-key", note as fn(&mut Seal), 2),
    ] {
        let mut forge = begun();
        let to = forge.delegation(&authority(), &key(2));
        forge.event("delegation", &to).seal(&authority());
        forge.turn().seal_with(&key(by), alter).turn();
        forge.seal(&authority()).finish(&authority());
        let want = match by {
            1 => verified(),
            // The only signature of that key, and so its last.
            _ => want("forged", &["signature_bad"], forge.seals.len() - 3),
        };
        set.add(
            &format!("signature-in-the-middle-{name}"),
            rule,
            &forge,
            want,
        );
    }
}

fn note(seal: &mut Seal) {
    seal.alter = |line| blob(&line, |b| b[20] ^= 1);
}

fn rye_sig(seal: &mut Seal) {
    seal.sig = rye_signature("another");
}

pub(super) fn stranger(seal: &mut Seal) {
    seal.by = key(9);
    seal.key = key_id(9);
}

fn key_id(number: u8) -> String {
    key(number).public_key().key_id().to_hex()
}

fn notes() -> Vec<Row> {
    let altered = "checkpoint_altered";
    vec![
        (
            "origin-of-another",
            |s| {
                s.origin =
                    s.origin.replace("transcript/", "transcript/0")[..s.origin.len()].to_owned();
            },
            "tampered",
            altered,
        ),
        (
            "note-lines-of-another",
            |s| s.noted = Some((s.lines + 1, s.root)),
            "tampered",
            altered,
        ),
        (
            "note-root-of-another",
            |s| s.noted = Some((s.lines, other())),
            "tampered",
            altered,
        ),
        (
            "salt-changed",
            |s| s.alter = |line| changed_at(&line, "\"salt\":\""),
            "tampered",
            altered,
        ),
        (
            "turn-changed",
            |s| s.alter = |line| line.replace("\"turn\":2", "\"turn\":3"),
            "tampered",
            altered,
        ),
        (
            "note-digest-changed",
            |s| s.alter = |line| changed_at(&line, "\\nline "),
            "tampered",
            altered,
        ),
        (
            "note-lf-as-u000a",
            |s| s.alter = |line| line.replacen("\\n", "\\u000a", 1),
            "tampered",
            altered,
        ),
        (
            "note-with-more-text",
            |s| s.alter = |line| line.replace("\\n\\n", "\\nmore\\n\\n"),
            "tampered",
            altered,
        ),
        (
            "note-signed-by-another-name",
            |s| s.alter = |line| changed_at(&line, "\\u2014 threadseal/1/transcript/"),
            "tampered",
            altered,
        ),
        (
            "note-of-67-bytes",
            |s| s.alter = |line| resized(&line, 67),
            "tampered",
            altered,
        ),
        (
            "note-without-padding",
            |s| s.alter = |line| line.replace("=\\n\"}}}", "\\n\"}}}"),
            "tampered",
            altered,
        ),
        (
            "note-with-trailing-bits",
            |s| s.alter = |line| trailing_bits(&line),
            "tampered",
            altered,
        ),
        (
            "note-with-two-signatures",
            |s| s.alter = |line| two_signatures(&line),
            "tampered",
            altered,
        ),
    ]
}

fn rye() -> Vec<Row> {
    vec![
        (
            "hash-of-another",
            |s| s.hash = other().to_hex(),
            "tampered",
            "prefix_hash_wrong",
        ),
        (
            "fp-of-another",
            |s| s.fp = other_rye().public_key().rye_fingerprint().to_hex(),
            "tampered",
            "rye_key_changed",
        ),
        (
            "sig-of-another-key",
            |s| s.sig = signed_by_another(&s.hash),
            "forged",
            "rye_signature_bad",
        ),
        (
            "sig-of-large-s",
            |s| s.sig = large_sig(&s.hash),
            "forged",
            "rye_signature_bad",
        ),
    ]
}

fn other_rye() -> LocalSigner {
    LocalSigner::new(PrivateKey::from_seed([9; 32]), KeyUsage::Rye)
}

fn signed_by_another(hash: &str) -> String {
    let hash = Digest::parse_hex(hash).unwrap_or_else(other);
    let signature = other_rye().sign(&Message::rye_hash(&hash));
    let signature = signature.expect("a Rye key signs hashes");
    encoding::base64url(signature.as_bytes())
}

fn large_sig(hash: &str) -> String {
    let sig = encoding::parse_base64url_either(&rye_signature(hash));
    encoding::base64url(&plus_order(sig.unwrap_or_default()))
}

fn large_s(blob: &mut Vec<u8>) {
    let signature = blob.split_off(4);
    blob.extend(plus_order(signature));
}

/// The same signature with S + L for S: it solves the equation, and is not the one spelling.
pub(super) fn plus_order(mut signature: Vec<u8>) -> Vec<u8> {
    const L: [u8; 32] = [
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde,
        0x14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
    ];
    let mut carry = 0;
    for (digit, add) in signature.iter_mut().skip(32).zip(L) {
        let sum = u16::from(*digit) + u16::from(add) + carry;
        [*digit, _] = sum.to_le_bytes();
        carry = sum >> 8;
    }
    signature
}

/// The line with other bytes behind the name in the note's signature line.
fn blob(line: &str, edit: fn(&mut Vec<u8>)) -> String {
    let (before, text) = blob_of(line);
    let mut bytes = encoding::parse_base64(text).unwrap_or_default();
    edit(&mut bytes);
    format!("{before}{}\\n\"}}}}}}", encoding::base64(&bytes))
}

fn resized(line: &str, length: usize) -> String {
    let (before, text) = blob_of(line);
    let mut bytes = encoding::parse_base64(text).unwrap_or_default();
    bytes.resize(length, 7);
    format!("{before}{}\\n\"}}}}}}", encoding::base64(&bytes))
}

/// What is before the base64 of the signature, and it.
fn blob_of(line: &str) -> (&str, &str) {
    let line = line.strip_suffix("\\n\"}}}").expect("a checkpoint");
    line.split_at(line.rfind(' ').map_or(0, |blank| blank + 1))
}

/// Zero bits are behind the last of 68 bytes: of the last digit the lowest two.
fn trailing_bits(line: &str) -> String {
    let (before, text) = blob_of(line);
    let digits = text.trim_end_matches('=');
    let (head, last) = digits.split_at(digits.len() - 1);
    let next = char::from(last.as_bytes()[0] + 1);
    format!("{before}{head}{next}=\\n\"}}}}}}")
}

fn two_signatures(line: &str) -> String {
    let (before, text) = blob_of(line);
    let name = before.rsplit("\\u2014 ").next().unwrap_or_default();
    format!("{before}{text}\\n\\u2014 {name}{text}\\n\"}}}}}}")
}

/// Another hex digit behind the last such text.
fn changed_at(line: &str, text: &str) -> String {
    let at = line.rfind(text).expect("a part of the line") + text.len();
    let other = if line[at..].starts_with('0') {
        "1"
    } else {
        "0"
    };
    format!("{}{other}{}", &line[..at], &line[at + 1..])
}

fn allowed(set: &mut Set) {
    let rows: [(&str, fn(&mut Seal)); 2] = [
        ("turn-largest", |s| s.turn = u64::MAX),
        ("of-the-last-second", |s| {
            s.timestamp = "253402300799.999999".to_owned();
            s.ts = "9999-12-31T23:59:59Z".to_owned();
        }),
    ];
    for (name, alter) in rows {
        let mut forge = begun();
        forge
            .event("thread_completed", "{}")
            .seal_with(&authority(), |seal| {
                seal.is_final = true;
                alter(seal);
            });
        set.add(
            &format!("checkpoint-{name}"),
            "§3: allowed",
            &forge,
            verified(),
        );
    }
}

/// Seal 0.
fn first(set: &mut Set) {
    let rows: [Row; 8] = [
        ("seq-1", |s| s.seq = 1, "tampered", "seal_missing"),
        (
            "prev-a-digest",
            |s| s.prev = format!("\"{}\"", other()),
            "tampered",
            "link_broken",
        ),
        ("lines-2", |s| s.lines = 2, "tampered", "content_changed"),
        ("by-a-stranger", stranger, "forged", "key_not_allowed"),
        (
            "signed-by-a-stranger",
            |s| s.by = key(9),
            "forged",
            "signature_bad",
        ),
        ("final", |s| s.is_final = true, "malformed", "end_misplaced"),
        (
            "of-another-thread",
            |s| s.thread = "\"testkit/other\"".to_owned(),
            "tampered",
            "thread_id_changed",
        ),
        (
            "ext-unknown",
            |s| s.ext = "{\"zebra\":1}".to_owned(),
            "malformed",
            "ext_unknown",
        ),
    ];
    for (name, alter, verdict, code) in rows {
        let mut forge = unsealed();
        forge.seal_with(&authority(), alter);
        set.add(
            &format!("seal-0-{name}"),
            "§7 B: at seal 0",
            &forge,
            want(verdict, &[code], 0),
        );
    }
    let mut forge = unsealed();
    forge.seal_with(&authority(), |seal| seal.turn = 7);
    forge.turn().finish(&authority());
    set.add("seal-0-of-turn-7", "§3: turn at seal 0", &forge, verified());
    let mut forge = unsealed();
    forge
        .event("note", "{}")
        .seal(&authority())
        .finish(&authority());
    let late = want("tampered", &["seal_0_missing"], 0);
    set.add(
        "seal-0-late",
        "§7 A 5: line 2 is no seal",
        &forge,
        late.clone(),
    );
    let mut forge = unsealed();
    forge.finish(&authority());
    set.add("seal-0-missing", "§7 A 5: line 2 is no seal", &forge, late);
    let mut forge = unsealed();
    forge.line(b"{}").seal(&authority()).finish(&authority());
    let fault = want("tampered", &["line_malformed"], 0);
    set.add(
        "seal-0-behind-a-malformed-line",
        "§7 A 3, B 6",
        &forge,
        fault,
    );
}

fn unsealed() -> Forge {
    let manifest = crate::forge::Manifest::of(authority().public_key(), 7);
    Forge::bare(&manifest.text(), 7, crate::forge::THREAD)
}

/// Events that were changed, taken, added or moved after they were sealed.
fn contents(set: &mut Set) {
    let edits: [(&str, fn(&mut Vec<Vec<u8>>)); 5] = [
        ("changed", |lines| {
            *lines[3].last_mut().expect("bytes") = b' ';
        }),
        ("event-changed", |lines| {
            lines[3] = text(&lines[3]).replace("done", "gone").into_bytes();
        }),
        ("event-taken", |lines| _ = lines.remove(3)),
        ("event-added", |lines| lines.insert(3, lines[3].clone())),
        ("events-swapped", |lines| lines.swap(2, 3)),
    ];
    for (name, edit) in edits {
        for (place, words, at) in [("last", "b1 t c f1", 1), ("middle", "b1 t s1 c f1", 1)] {
            if place == "middle" && !matches!(name, "event-changed" | "event-taken") {
                continue;
            }
            let mut forge = record(words);
            forge.out = edited(&forge.out, edit);
            let rule = "§7 B 5: lines, offset, root";
            // The blank at the end of the line breaks its frame, too.
            let codes: &[&str] = match name {
                "changed" => &["content_changed", "line_malformed"],
                _ => &["content_changed"],
            };
            set.add(
                &format!("content-{name}-{place}"),
                rule,
                &forge,
                want("tampered", codes, at),
            );
        }
    }
    let mut forge = record("b1 t s1 t s1 t c f1");
    forge.out = edited(&forge.out, |lines| _ = lines.remove(4));
    set.add(
        "content-seal-taken",
        "§7 B 5: seq",
        &forge,
        want("tampered", &["seal_missing"], 1),
    );
    let mut forge = record("b1 t s1 t s1 t c f1");
    forge.out = edited(&forge.out, |lines| _ = lines.drain(2..5));
    set.add(
        "content-turn-taken-with-its-seal",
        "§7 B 5: seq",
        &forge,
        want("tampered", &["seal_missing"], 1),
    );
    let mut forge = record("b1 t c f1");
    forge.out = edited(&forge.out, |lines| {
        lines[0] = text(&lines[0])
            .replace("\"meta\":{}", "\"meta\":{\"a\":1}")
            .into_bytes();
    });
    set.add(
        "content-manifest-changed",
        "§7 B 3: this line 1",
        &forge,
        want("tampered", &["checkpoint_altered"], 0),
    );
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).into_owned()
}

/// The file with other lines.
pub(super) fn edited(out: &[u8], edit: fn(&mut Vec<Vec<u8>>)) -> Vec<u8> {
    let lines = out.strip_suffix(b"\n").unwrap_or(out);
    let mut lines: Vec<Vec<u8>> = lines
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    edit(&mut lines);
    let mut out = lines.join(&b'\n');
    out.push(b'\n');
    out
}

fn repeated(set: &mut Set) {
    let mut forge = record("b1 t s1");
    forge.out = edited(&forge.out, |lines| lines.push(lines[4].clone()));
    set.add(
        "checkpoint-repeated",
        "§7 B 5: seq",
        &forge,
        want("tampered", &["seal_missing"], ALL),
    );
}
