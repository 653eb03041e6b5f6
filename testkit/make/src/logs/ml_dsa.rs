//! Checkpoints with keys of ML-DSA-44: `spec/tlog.md`, "Keys of logs and witnesses" and "Cosignatures".

use super::checkpoints::{at, log_line, note, part, witness_line};
use super::{Adder, answer};
use crate::list::Short;
use crate::proof_forge::{LOG, LogPart, signature_line};
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::note::{KeyName, NoteText};
use threadseal_core::tlog::checkpoint::Checkpoint;
use threadseal_core::tlog::cosignature::CosignatureTime;
use threadseal_core::tlog::ml_dsa::MlDsaSigner;
use threadseal_core::tlog::verifier::VerifierKey;

const NAME: &str = "witness.example/pq";
/// Before the hints: time, challenge, and four rows of z. Then 80 places and four ends.
const HINTS_AT: usize = 4 + 8 + 32 + 4 * 576;
const MAX_HINTS: usize = 80;

pub(super) fn add(add: &mut Adder) {
    times(add);
    texts(add);
    hints(add);
    keys(add);
}

fn signer() -> MlDsaSigner {
    MlDsaSigner::from_seed([61; 32])
}

fn vkey(name: &str) -> String {
    let name = KeyName::parse(name).expect("a name");
    VerifierKey::of_ml_dsa(name, signer().public_key()).to_string()
}

/// The key id, the time and the signature of a line.
fn line_of(part: &LogPart, name: &str, time: Option<u64>) -> Vec<u8> {
    let text = NoteText::parse(&part.checkpoint).expect("the text of a checkpoint");
    let checkpoint = Checkpoint::parse(&text).expect("a checkpoint");
    let name = KeyName::parse(name).expect("a name");
    let time = time.map(|time| CosignatureTime::from_seconds(time).expect("a time"));
    let line = signer().cosign(&checkpoint, &name, time).expect("it signs");
    [line.id().as_slice(), line.signature()].concat()
}

/// The log with its own key, and this witness, whose name is `pq`.
fn policy(name: &str) -> String {
    format!("{}witness pq {}\nquorum pq\n", log_line(), vkey(name))
}

fn with(part: &LogPart, name: &str, blob: &[u8]) -> String {
    let mut part = part.clone();
    part.signatures.push(signature_line(name, blob));
    note(&part)
}

fn times(add: &mut Adder) {
    let rule = "\"Cosignatures\": the time of a line of ML-DSA-44";
    let mut case = |name: &str, time: Option<u64>, short: Short| {
        let note = with(&part(), NAME, &line_of(&part(), NAME, time));
        add.checkpoint(&format!("ml-dsa-{name}"), rule, &note, &policy(NAME), short);
    };
    case("of-a-witness", Some(100), at(100));
    case("of-a-witness-without-time", None, answer("not_met"));
    let last = i64::MAX.unsigned_abs();
    case("of-a-witness-at-the-last-second", Some(last), at(last));
    let mut late = line_of(&part(), NAME, Some(100));
    late[4..12].copy_from_slice(&(1_u64 << 63).to_be_bytes());
    let note = with(&part(), NAME, &late);
    add.checkpoint(
        "ml-dsa-of-2-to-63",
        rule,
        &note,
        &policy(NAME),
        answer("bad"),
    );
    let other = "\"Cosignatures\": time and name are signed";
    let mut moved = line_of(&part(), NAME, Some(100));
    moved[11] = 101;
    let note = with(&part(), NAME, &moved);
    add.checkpoint(
        "ml-dsa-of-another-time",
        other,
        &note,
        &policy(NAME),
        answer("bad"),
    );
    for (name, time) in [("with-a-time", Some(100)), ("without-time", None)] {
        let of_log = LogPart {
            signatures: Vec::new(),
            ..part()
        };
        let note = with(&of_log, LOG, &line_of(&part(), LOG, time));
        let policy = format!("log {}\nquorum none\n", vkey(LOG));
        let name = format!("ml-dsa-of-the-log-{name}");
        add.checkpoint(&name, rule, &note, &policy, answer("log_alone"));
    }
}

/// What a line of such a key covers, and what it does not.
fn texts(add: &mut Adder) {
    let rule = "\"Cosignatures\": lines after the root, and the length of names";
    let good = line_of(&part(), NAME, Some(100));
    let extended = LogPart {
        checkpoint: format!("{}more\n", part().checkpoint),
        ..part()
    };
    let extended = super::signed_by_the_log(extended);
    let note = with(&extended, NAME, &good);
    add.checkpoint(
        "ml-dsa-with-an-extension",
        rule,
        &note,
        &policy(NAME),
        answer("bad"),
    );
    let fitting = format!("{NAME}{}", "x".repeat(255 - NAME.len()));
    let note = with(&part(), &fitting, &line_of(&part(), &fitting, Some(100)));
    add.checkpoint(
        "ml-dsa-with-a-name-of-255-bytes",
        rule,
        &note,
        &policy(&fitting),
        at(100),
    );
    let long = format!("{fitting}x");
    let vkey = vkey(&long);
    let id = vkey
        .split('+')
        .nth(1)
        .and_then(encoding::parse_hex_array::<4>);
    let note = with(&part(), &long, &[&id.expect("hex"), &good[4..]].concat());
    add.checkpoint(
        "ml-dsa-with-a-name-of-256-bytes",
        rule,
        &note,
        &policy(&long),
        answer("bad"),
    );
}

/// FIPS 204, algorithm 21: the hints of a signature have one spelling.
fn hints(add: &mut Adder) {
    let rule = "\"Cosignatures\": FIPS 204; hints have one spelling";
    let good = line_of(&part(), NAME, Some(100));
    let used = usize::from(good[HINTS_AT + MAX_HINTS + 3]);
    assert!(
        used < MAX_HINTS && good[HINTS_AT + MAX_HINTS] > 1,
        "room for another, and two to swap"
    );
    let mut padded = good.clone();
    padded[HINTS_AT + used] = 1;
    let mut swapped = good.clone();
    swapped.swap(HINTS_AT, HINTS_AT + 1);
    let mut repeated = good.clone();
    repeated.copy_within(HINTS_AT..HINTS_AT + 1, HINTS_AT + 1);
    let mut beyond = good.clone();
    beyond[HINTS_AT + MAX_HINTS + 3] = 255;
    let mut longer = good.clone();
    longer.push(0);
    let mut challenge = good.clone();
    challenge[12] ^= 1;
    for (name, blob) in [
        ("with-a-hint-behind-the-last", padded),
        ("with-hints-out-of-order", swapped),
        ("with-a-hint-twice", repeated),
        ("with-an-end-of-255", beyond),
        ("with-a-byte-more", longer),
        ("with-another-challenge", challenge),
        ("cut", good[..good.len() - 1].to_vec()),
        ("of-a-time-alone", good[..12].to_vec()),
        ("of-seven-bytes", good[..11].to_vec()),
    ] {
        let note = with(&part(), NAME, &blob);
        add.checkpoint(
            &format!("ml-dsa-{name}"),
            rule,
            &note,
            &policy(NAME),
            answer("bad"),
        );
    }
}

fn keys(add: &mut Adder) {
    let rule = "\"Keys of logs and witnesses\", and \"Policies\": refused";
    let good = note(&part().witnessed(&[1]));
    let typed = |kind: u8, length: usize| {
        let public = signer().public_key();
        let mut key = public.as_bytes().to_vec();
        key.resize(length, 0);
        let typed = [&[kind], key.as_slice()].concat();
        let id = Digest::of(&[NAME.as_bytes(), b"\n", &typed].concat());
        format!("{NAME}+{}+{}", &id.to_hex()[..8], encoding::base64(&typed))
    };
    let witness = |key: &str| format!("{}witness pq {key}\nquorum pq\n", log_line());
    let twice = format!("witness again {}\n", vkey("witness.example/again"));
    let threadseal = format!("log {}\nquorum none\n", vkey("threadseal/pq"));
    for (name, policy) in [
        ("of-1311-bytes", witness(&typed(6, 1311))),
        ("of-1313-bytes", witness(&typed(6, 1313))),
        ("of-another-type", witness(&typed(5, 1312))),
        (
            "twice",
            policy(NAME).replace("quorum", &format!("{twice}quorum")),
        ),
        ("of-a-log-of-threadseal", threadseal),
    ] {
        let name = format!("policy-with-an-ml-dsa-key-{name}");
        add.checkpoint(&name, rule, &good, &policy, answer("policy_refused"));
    }
    let group = format!("{}group g any w1 pq\nquorum g\n", witness_line(1));
    let both = policy(NAME).replace("quorum pq\n", &group);
    let mut two = part();
    two.signatures.push(two.cosigned(1, 50));
    let line = line_of(&two, NAME, Some(100));
    let note = with(&two, NAME, &line);
    let rule = "\"Judging a note\" 5: keys of both types";
    add.checkpoint("ml-dsa-beside-ed25519", rule, &note, &both, at(100));
}
