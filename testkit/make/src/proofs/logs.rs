//! The part about a log in proofs of turns: `spec/proofs.md`, "The log part", and `spec/tlog.md`.

use super::{Adder, Verdict, ended};
use crate::proof_forge::{
    LOG, LogPart, TurnProof, log_key, signature_line, vkey, witness, witness_name,
};
use threadseal_core::digest::Digest;
use threadseal_core::encoding;

pub(super) fn add(add: &mut Adder) {
    entries(add);
    proofs(add);
    policies(add);
    policy_lines(add);
    bad_lines(add);
}

/// The values of the entry for the closing seal.
struct Entry {
    digest: String,
    key: Option<String>,
    record: String,
    root: Option<String>,
    seq: String,
    size: String,
    kind: &'static str,
}

impl Entry {
    fn new() -> Self {
        let forge = ended();
        let head = forge.seals.last().map(|seal| seal.head.clone());
        let head = head.unwrap_or_default();
        let mut parts = head.split(':').map(str::to_owned);
        let mut next = || parts.next().unwrap_or_default();
        let (record, seq, size, digest) = (next(), next(), next(), next());
        Self {
            digest,
            key: None,
            record,
            root: None,
            seq,
            size,
            kind: "head/transcript",
        }
    }

    fn text(&self) -> String {
        let member = |name: &str, value: &Option<String>| {
            let value = value
                .as_ref()
                .map(|value| format!("\"{name}\":\"{value}\","));
            value.unwrap_or_default()
        };
        let Self {
            digest,
            key,
            record,
            root,
            seq,
            size,
            kind,
        } = self;
        let (key, root) = (member("key", key), member("root", root));
        format!(
            "{{\"digest\":\"{digest}\",{key}\"record\":\"{record}\",{root}\"seq\":{seq},\"size\":{size},\"type\":\"{kind}\"}}"
        )
    }
}

fn with(log: LogPart) -> TurnProof {
    TurnProof {
        log: Some(log),
        ..TurnProof::of_turn(&ended(), 1)
    }
}

fn good() -> LogPart {
    LogPart::of(&Entry::new().text())
}

fn member(line: &str, name: &str) -> String {
    let (_, rest) = line
        .split_once(&format!("\"{name}\":\""))
        .unwrap_or_default();
    rest[..64].to_owned()
}

fn bad() -> Verdict {
    Verdict::tampered("anchor_bad")
}

fn missing() -> Verdict {
    Verdict::new("open", &["anchor_missing"])
}

fn entries(add: &mut Adder) {
    let closing = TurnProof::of_turn(&ended(), 1).seal;
    let (key, root) = (member(&closing, "key"), member(&closing, "root"));
    let other = "ab".repeat(32);
    type Alter<'a> = Box<dyn Fn(&mut Entry) + 'a>;
    let cases: Vec<(&str, Alter<'_>, Verdict, &str)> = vec![
        (
            "entry",
            Box::new(|_| {}),
            Verdict::good(),
            "no policy: proved, and skipped",
        ),
        (
            "entry-key-and-root",
            Box::new(|e| (e.key, e.root) = (Some(key.clone()), Some(root.clone()))),
            Verdict::good(),
            "with `key` and `root`",
        ),
        (
            "entry-key",
            Box::new(|e| e.key = Some(key.clone())),
            Verdict::good(),
            "with `key`",
        ),
        (
            "entry-root",
            Box::new(|e| e.root = Some(root.clone())),
            Verdict::good(),
            "with `root`",
        ),
        (
            "entry-other-key",
            Box::new(|e| e.key = Some(other.clone())),
            bad(),
            "`key` of another seal",
        ),
        (
            "entry-other-root",
            Box::new(|e| e.root = Some(other.clone())),
            bad(),
            "`root` of another seal",
        ),
        (
            "entry-other-digest",
            Box::new(|e| e.digest.clone_from(&other)),
            bad(),
            "`digest` of another seal",
        ),
        (
            "entry-other-record",
            Box::new(|e| e.record.clone_from(&other)),
            bad(),
            "`record` of another record",
        ),
        (
            "entry-other-seq",
            Box::new(|e| e.seq = "2".to_owned()),
            bad(),
            "`seq` of another seal",
        ),
        (
            "entry-other-size",
            Box::new(|e| e.size.push('0')),
            bad(),
            "`size` of another seal",
        ),
        (
            "entry-redaction",
            Box::new(|e| (e.kind, e.key) = ("redaction/transcript", Some(key.clone()))),
            bad(),
            "no `head/transcript`",
        ),
        (
            "entry-tombstone",
            Box::new(|e| e.kind = "tombstone/transcript"),
            bad(),
            "no `head/transcript`",
        ),
        (
            "entry-of-document",
            Box::new(|e| e.kind = "head/document"),
            bad(),
            "no `head/transcript`",
        ),
    ];
    for (name, alter, verdict, rule) in cases {
        let mut entry = Entry::new();
        alter(&mut entry);
        let proof = with(LogPart::of(&entry.text()));
        add.turn(
            &format!("log-{name}"),
            &proof,
            verdict,
            &format!("\"The log part\": {rule}"),
        );
    }
    let text = Entry::new().text();
    let respelled = [
        ("log-entry-blank", text.replacen(':', ": ", 1)),
        ("log-entry-more", text.replacen('}', ",\"when\":1}", 1)),
        (
            "log-entry-seq-float",
            text.replacen("\"seq\":1", "\"seq\":1.0", 1),
        ),
        (
            "log-entry-order",
            text.replacen("\"seq\":1,", "", 1)
                .replacen('{', "{\"seq\":1,", 1),
        ),
        ("log-entry-no-json", "head".to_owned()),
        ("log-entry-empty", String::new()),
    ];
    for (name, text) in respelled {
        let rule = "\"The log part\": the one spelling of the entry";
        add.turn(name, &with(LogPart::of(&text)), bad(), rule);
    }
}

/// The inclusion proof.
fn proofs(add: &mut Adder) {
    type Alter = fn(&mut LogPart);
    let cases: [(&str, Alter, &str); 6] = [
        (
            "index-lower",
            |part| part.index = 2,
            "another number of the entry",
        ),
        (
            "index-beyond",
            |part| part.index = 5,
            "a number beyond the tree",
        ),
        (
            "hash-missing",
            |part| _ = part.hashes.pop(),
            "a hash is missing",
        ),
        (
            "hash-more",
            |part| part.hashes.push(Digest::of(b"")),
            "a hash is left",
        ),
        (
            "hash-other",
            |part| part.hashes[0] = Digest::of(b""),
            "another hash",
        ),
        (
            "entry-not-in-tree",
            |part| {
                part.entry = Entry {
                    key: Some("ab".repeat(32)),
                    ..Entry::new()
                }
                .text();
            },
            "the entry is not in the tree",
        ),
    ];
    for (name, alter, rule) in cases {
        let mut part = good();
        alter(&mut part);
        let rule = format!("\"The log part\": the tlog-proof proves the entry: {rule}");
        add.turn(&format!("log-{name}"), &with(part), bad(), &rule);
    }
}

fn policy(witnesses: &[u8], quorum: &str) -> String {
    let mut text = format!("log {}\n", vkey(LOG, 1, &log_key()));
    for number in witnesses {
        let key = vkey(&witness_name(*number), 4, &witness(*number));
        text.push_str(&format!("witness W{number} {key}\n"));
    }
    format!("{text}{quorum}\n")
}

fn policies(add: &mut Adder) {
    let one = || policy(&[1], "quorum W1");
    let two_of_three = "group G 2 W1 W2 W3\nquorum G";
    let three = || policy(&[1, 2, 3], two_of_three);
    let cases = [
        (
            "quorum",
            &[1_u8] as &[u8],
            one(),
            Verdict::good(),
            "the witness cosigned",
        ),
        (
            "quorum-none-signed",
            &[],
            one(),
            missing(),
            "no witness cosigned",
        ),
        (
            "quorum-other-witness",
            &[2],
            one(),
            missing(),
            "a witness that the policy does not know",
        ),
        (
            "quorum-two-of-three",
            &[1, 3],
            three(),
            Verdict::good(),
            "two of three",
        ),
        (
            "quorum-one-of-three",
            &[2],
            three(),
            missing(),
            "one of three",
        ),
        (
            "quorum-all",
            &[3, 2, 1],
            policy(&[1, 2, 3], "group G all W1 W2 W3\nquorum G"),
            Verdict::good(),
            "all, in any order",
        ),
        (
            "quorum-all-but-one",
            &[1, 2],
            policy(&[1, 2, 3], "group G all W1 W2 W3\nquorum G"),
            missing(),
            "all but one",
        ),
        (
            "quorum-any",
            &[3],
            policy(&[1, 2, 3], "group G any W1 W2 W3\nquorum G"),
            Verdict::good(),
            "any of three",
        ),
        (
            "quorum-of-groups",
            &[1, 3],
            policy(&[1, 2, 3], "group A any W1 W2\ngroup B all A W3\nquorum B"),
            Verdict::good(),
            "a group of groups",
        ),
        (
            "quorum-none",
            &[1],
            policy(&[1], "quorum none"),
            missing(),
            "the policy asks for no witness",
        ),
    ];
    for (name, witnesses, policy, verdict, rule) in cases {
        let proof = with(good().witnessed(witnesses));
        let rule = format!("\"The log part\" (tlog.md, \"Policies\"): {rule}");
        add.turn(&format!("policy-{name}"), &proof, verdict.by(policy), &rule);
    }
    let plain = TurnProof::of_turn(&ended(), 1);
    let rule = "\"The log part\": no part, and a policy";
    add.turn("policy-without-log", &plain, missing().by(one()), rule);
    let mut open = crate::forge::Forge::begun();
    open.turn().seal(&crate::forge::authority());
    let plain = TurnProof::of_turn(&open, 1);
    let verdict = Verdict::new("open", &["anchor_missing", "turn_may_go_on"]);
    add.turn(
        "policy-without-log-open",
        &plain,
        verdict.by(one()),
        "steps 15 and 16: both are done",
    );
    let entry = Entry {
        seq: "2".to_owned(),
        ..Entry::new()
    };
    let part = LogPart::of(&entry.text()).witnessed(&[1]);
    let rule = "\"The log part\": witnesses do not mend an entry of another seal";
    add.turn("policy-entry-other-seq", &with(part), bad().by(one()), rule);
    let changed = TurnProof {
        first: 3,
        ..with(good().witnessed(&[1]))
    };
    let rule = "steps 1 to 9 stop: the log is not reported after a fault";
    add.turn(
        "policy-changed",
        &changed,
        Verdict::tampered("content_changed").by(one()),
        rule,
    );
}

/// Which lines of the checkpoint count.
fn policy_lines(add: &mut Adder) {
    let one = || policy(&[1], "quorum W1");
    let other_log = format!(
        "log {}\nwitness W1 {}\nquorum W1\n",
        vkey("example.com/other", 1, &log_key()),
        vkey(&witness_name(1), 4, &witness(1))
    );
    let rule = "\"The log part\": the policy names another log";
    add.turn(
        "policy-other-log",
        &with(good().witnessed(&[1])),
        missing().by(other_log),
        rule,
    );
    let mut unsigned = good().witnessed(&[1]);
    unsigned.signatures.remove(0);
    let rule = "\"The log part\": the log did not sign";
    add.turn(
        "policy-log-not-signed",
        &with(unsigned),
        missing().by(one()),
        rule,
    );
    let mut reversed = good().witnessed(&[1, 2]);
    reversed.signatures.reverse();
    let rule = "\"Bytes\": signature lines in any order";
    add.turn(
        "policy-lines-reversed",
        &with(reversed),
        Verdict::good().by(one()),
        rule,
    );
    let mut strange = good().witnessed(&[1]);
    strange
        .signatures
        .push(signature_line("witness.example/w9", &[7; 76]));
    let rule = "tlog.md: a line of no known key is ignored";
    add.turn(
        "policy-line-unknown",
        &with(strange),
        Verdict::good().by(one()),
        rule,
    );
    let mut hint = good().witnessed(&[1]);
    hint.signatures
        .push(signature_line(&witness_name(1), &[7; 76]));
    let rule = "tlog.md: a line with the name of a known key and another id is ignored";
    add.turn(
        "policy-line-other-id",
        &with(hint),
        Verdict::good().by(one()),
        rule,
    );
    let mut twice = good().witnessed(&[1]);
    twice.signatures.push(twice.cosigned(1, 1_771_356_600));
    let rule = "tlog.md: two lines of one witness of two times";
    add.turn(
        "policy-witness-twice",
        &with(twice),
        Verdict::good().by(one()),
        rule,
    );
}

/// A line of known keys that does not verify.
fn bad_lines(add: &mut Adder) {
    let one = || policy(&[1], "quorum W1");
    let flipped = |line: &str, at: usize| {
        let (start, blob) = line.trim_end().rsplit_once(' ').unwrap_or_default();
        let mut bytes = encoding::parse_base64(blob).unwrap_or_default();
        bytes[at] ^= 1;
        format!("{start} {}\n", encoding::base64(&bytes))
    };
    let zero_time = |line: &str| {
        let (start, blob) = line.trim_end().rsplit_once(' ').unwrap_or_default();
        let mut bytes = encoding::parse_base64(blob).unwrap_or_default();
        bytes[4..12].fill(0);
        format!("{start} {}\n", encoding::base64(&bytes))
    };
    let with_line = |number: usize, change: &dyn Fn(&str) -> String| {
        let mut part = good().witnessed(&[1, 2]);
        part.signatures[number] = change(&part.signatures[number]);
        with(part)
    };
    let cases = [
        (
            "log-line-bad",
            with_line(0, &|line| flipped(line, 67)),
            bad(),
            "the line of the log",
        ),
        (
            "witness-line-bad",
            with_line(1, &|line| flipped(line, 75)),
            bad(),
            "the line of a witness",
        ),
        (
            "witness-line-other-time",
            with_line(1, &|line| flipped(line, 11)),
            bad(),
            "a time that was not signed",
        ),
        (
            "witness-line-time-0",
            with_line(1, &zero_time),
            bad(),
            "the time 0",
        ),
        (
            "unknown-line-bad",
            with_line(2, &|line| flipped(line, 75)),
            Verdict::good(),
            "but not the line of a witness that the policy does not know",
        ),
    ];
    for (name, proof, verdict, rule) in cases {
        let rule =
            format!("\"The log part\": a line of a key of the policy does not verify: {rule}");
        add.turn(&format!("policy-{name}"), &proof, verdict.by(one()), &rule);
    }
    let proof = with_line(0, &|line| flipped(line, 67));
    let rule = "\"The log part\": without a policy no line is checked";
    add.turn("log-line-bad", &proof, Verdict::good(), rule);
}
