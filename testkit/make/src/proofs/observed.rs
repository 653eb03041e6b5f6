//! Proofs of observed lines: `spec/proofs.md`, "Proofs of observed turns".

use super::{Adder, Verdict};
use crate::forge::hex;
use crate::list::Options;
use crate::observed_forge::{Log, OBSERVER, Seal, observer};
use crate::proof_forge::ObservedProof;
use std::ops::RangeInclusive;
use threadseal_core::digest::Digest;

pub(super) fn add(add: &mut Adder) {
    for format in [1, 2] {
        let mut add = Both(add, format);
        good(&mut add);
        form(&mut add);
        runs(&mut add);
        labels(&mut add);
        seals(&mut add);
        content(&mut add);
        trust(&mut add);
        next_keys(&mut add);
    }
    alone(&mut Both(add, 1));
    salts(&mut Both(add, 2));
}

/// Adds proofs of one format.
struct Both<'a>(&'a mut Adder, u8);

impl Both<'_> {
    fn bytes(&mut self, name: &str, text: &str, mut verdict: Verdict, rule: &str) {
        if verdict.options.trust.is_none() {
            verdict.options.trust = Some(vec![hex(&observer(OBSERVER))]);
        }
        verdict.options.usage = verdict.options.usage.or(Some("observed"));
        let name = format!("observed-{name}-format-{}", self.1);
        let rule = format!("\"Proofs of observed turns\", {rule}");
        self.0
            .bytes("observed_proof", &name, text.as_bytes(), verdict, &rule);
    }

    fn proof(&mut self, name: &str, proof: &ObservedProof, verdict: Verdict, rule: &str) {
        self.bytes(name, &proof.text(), verdict, rule);
    }

    fn malformed(&mut self, name: &str, text: &str, rule: &str) {
        self.bytes(name, text, Verdict::malformed(), &format!("step 1: {rule}"));
    }

    /// A proof of these lines of a log of eight, of which none is alone for lines 3 and 4.
    fn of(&self, runs: &[RangeInclusive<usize>]) -> ObservedProof {
        ObservedProof::of(&self.log(), runs)
    }

    fn log(&self) -> Log {
        let mut log = Log::new(self.1);
        log.some(8).seal();
        log
    }

    /// What a good proof of these lines answers: in format 1 lines that can be guessed are named.
    fn good(&self, guessable: bool) -> Verdict {
        let codes: &[&'static str] = match (self.1, guessable) {
            (1, true) => &["siblings_guessable"],
            _ => &[],
        };
        Verdict::new("verified", codes)
    }
}

fn good(add: &mut Both<'_>) {
    let cases: [(&str, &[RangeInclusive<usize>], bool, &str); 6] = [
        ("lines", &[3..=4], false, "two lines beside each other"),
        ("line", &[3..=3], true, "one line, its sibling a hash"),
        ("lines-all", &[1..=8], false, "all lines, and no hash"),
        ("lines-first", &[1..=1], true, "the first line"),
        ("lines-last", &[8..=8], true, "the last line"),
        (
            "lines-inside",
            &[2..=7],
            true,
            "all but the first and the last",
        ),
    ];
    for (name, runs, guessable, rule) in cases {
        let (proof, verdict) = (add.of(runs), add.good(guessable));
        add.proof(name, &proof, verdict, &format!("step 3: {rule}"));
    }
    let (proof, verdict) = (add.of(&[1..=2, 5..=6]), add.good(false));
    add.proof("runs", &proof, verdict, "step 3: two runs");
    let (proof, verdict) = (add.of(&[1..=1, 3..=3, 8..=8]), add.good(true));
    add.proof(
        "runs-of-single-lines",
        &proof,
        verdict,
        "step 3: three runs, and lines between them alone",
    );
    let mut odd = Log::new(add.1);
    odd.line(b"").line(&[0xff, 0]).some(5).end();
    let (proof, verdict) = (ObservedProof::of(&odd, &[1..=2]), add.good(false));
    add.proof(
        "any-bytes",
        &proof,
        verdict,
        "\"Bytes\": an empty line, and bytes that are no text",
    );
    let mut one = Log::new(add.1);
    one.some(1).seal();
    let (proof, verdict) = (ObservedProof::of(&one, &[1..=1]), add.good(false));
    add.proof(
        "one-line-log",
        &proof,
        verdict,
        "step 3: a tree of one leaf",
    );
}

fn form(add: &mut Both<'_>) {
    let proof = add.of(&[3..=4]);
    let text = proof.text();
    let line = |word: &str| {
        let found = text.lines().find(|line| line.starts_with(word));
        format!("{}\n", found.unwrap_or_default())
    };
    let (label, header, seal) = (line("label "), line("header "), line("seal "));
    let (hash, shown, run) = (line("hash "), line("line "), line("run "));
    let guess = format!("{}\n", proof.guess);
    let cases = [
        (
            "first-line",
            text.replacen("observed lines", "Observed lines", 1),
            "the first line",
        ),
        (
            "label-missing",
            text.replacen(&label, "", 1),
            "`label` is there",
        ),
        (
            "header-missing",
            text.replacen(&header, "", 1),
            "`header` is there",
        ),
        (
            "seal-missing",
            text.replacen(&seal, "", 1),
            "`seal` is there",
        ),
        (
            "seal-before-header",
            text.replacen(&format!("{header}{seal}"), &format!("{seal}{header}"), 1),
            "parts in order",
        ),
        (
            "guess-missing",
            text.replacen(&guess, "", 1),
            "`alone` or `shows` is there",
        ),
        ("run-missing", text.replacen(&run, "", 1), "`run` is there"),
        (
            "hash-before-line",
            text.replacen(&hash, "", 1)
                .replacen(&shown, &format!("{hash}{shown}"), 1),
            "hashes behind the lines",
        ),
        ("behind", format!("{text}\n"), "nothing behind it"),
        (
            "lf-missing",
            text.trim_end().to_owned(),
            "the last byte is LF",
        ),
        (
            "cr",
            text.replacen(&guess, &guess.replace('\n', "\r\n"), 1),
            "LF alone",
        ),
        (
            "line-blank-missing",
            text.replacen("\nline ", "\nline", 1),
            "one blank behind `line`",
        ),
        (
            "line-padding",
            text.replacen(&shown, &format!("{}=\n", shown.trim_end()), 1),
            "base64 in one spelling",
        ),
        (
            "hash-short",
            text.replacen(&hash, &format!("hash {}\n", &hash[9..].trim_end()), 1),
            "hashes of 32 bytes",
        ),
        (
            "no-run",
            text[..text.find("run ").unwrap_or_default()].to_owned(),
            "one run or more",
        ),
    ];
    for (name, text, rule) in cases {
        add.malformed(name, &text, rule);
    }
    let mut many = proof;
    many.runs[0].hashes = vec![Digest::of(b""); 126];
    let rule = "\"Bytes\": 126 hashes of a run are read; step 3: they do not fit";
    add.proof(
        "hashes-126",
        &many,
        Verdict::tampered("content_changed"),
        rule,
    );
    many.runs[0].hashes.push(Digest::of(b""));
    add.malformed("hashes-127", &many.text(), "at most 126 hashes of a run");
}

/// Numbers, order and distance of runs.
fn runs(add: &mut Both<'_>) {
    let proof = add.of(&[3..=4]);
    let text = proof.text();
    let numbers = [
        ("run-first-zero", "run 0 2", "numbers of lines count from 1"),
        ("run-count-zero", "run 3 0", "a run has 1 line or more"),
        (
            "run-count-more",
            "run 3 3",
            "as many lines as the run states",
        ),
        (
            "run-count-fewer",
            "run 3 1",
            "as many lines as the run states",
        ),
        ("run-spelled-03", "run 03 2", "no leading zeros"),
        ("run-plus", "run +3 2", "decimal numbers"),
        (
            "run-2-64",
            "run 18446744073709551616 2",
            "numbers below 2^64",
        ),
        ("run-without-count", "run 3", "two numbers"),
    ];
    for (name, run, rule) in numbers {
        add.malformed(name, &text.replacen("run 3 2", run, 1), rule);
    }
    for (name, run, rule) in [
        ("run-elsewhere", "run 4 2", "another place of the run"),
        ("run-beyond", "run 8 2", "a run beyond the tree"),
        (
            "run-far-beyond",
            "run 18446744073709551614 2",
            "a run near 2^64",
        ),
    ] {
        let text = text.replacen("run 3 2", run, 1);
        let rule = format!("step 3: {rule}");
        add.bytes(name, &text, Verdict::tampered("content_changed"), &rule);
    }
    let mut two = add.of(&[1..=2, 5..=6]);
    two.runs.swap(0, 1);
    add.malformed("runs-descend", &two.text(), "runs ascend");
    let mut twice = add.of(&[3..=4]);
    twice.runs.push(twice.runs[0].clone());
    twice.guess = twice.guess.replace("shows 2", "shows 4");
    add.malformed("runs-twice", &twice.text(), "runs ascend");
    let mut touching = add.of(&[1..=2]);
    let (next, whole) = (add.of(&[3..=4]), add.of(&[1..=4]));
    touching.runs.extend(next.runs);
    touching.guess = whole.guess;
    add.malformed(
        "runs-touch",
        &touching.text(),
        "a line of the log between two runs",
    );
}

fn labels(add: &mut Both<'_>) {
    let labelled = |add: &Both<'_>, label: &str| {
        let mut proof = add.of(&[3..=4]);
        label.clone_into(&mut proof.label);
        proof
    };
    for (name, label) in [
        ("label-1024", "x".repeat(1024)),
        ("label-empty", String::new()),
        ("label-unicode", "caf\u{e9} \u{1f980}".to_owned()),
    ] {
        let (proof, verdict) = (labelled(add, &label), add.good(false));
        add.proof(
            name,
            &proof,
            verdict,
            "\"Bytes\": at most 1,024 bytes of UTF-8",
        );
    }
    for (name, label) in [
        ("label-1025", "x".repeat(1025)),
        ("label-tab", "a\tb".to_owned()),
        ("label-delete", "a\u{7f}b".to_owned()),
        ("label-next-line", "a\u{85}b".to_owned()),
    ] {
        let proof = labelled(add, &label);
        add.malformed(
            name,
            &proof.text(),
            "at most 1,024 bytes without a control character",
        );
    }
}

/// Step 2.
fn seals(add: &mut Both<'_>) {
    let format = add.1;
    let forged = || Verdict::forged("signature_bad");
    let changed = |edit: &dyn Fn(&mut ObservedProof)| {
        let mut log = Log::new(format);
        log.some(8).seal();
        let mut proof = ObservedProof::of(&log, &[3..=4]);
        edit(&mut proof);
        proof
    };
    let other_key = hex(&observer(5));
    let key = hex(&observer(OBSERVER));
    type Edit<'a> = &'a dyn Fn(&mut ObservedProof);
    let cases: [(&str, Edit<'_>, &str); 6] = [
        (
            "header-of-another-key",
            &|p| p.header = p.header.replacen(&key, &other_key, 1),
            "the key of the header signed",
        ),
        (
            "header-of-another-record",
            &|p| p.header = p.header.replacen("0808", "0809", 1),
            "the note states the header's record",
        ),
        (
            "seal-blank",
            &|p| p.seal = p.seal.replacen("\"seq\":", "\"seq\": ", 1),
            "one spelling of the seal",
        ),
        (
            "seal-edited",
            &|p| p.seal = p.seal.replacen("\"final\":false", "\"final\":true", 1),
            "the note has the digest of the seal",
        ),
        (
            "seal-is-header",
            &|p| p.seal.clone_from(&p.header),
            "a seal",
        ),
        ("seal-empty", &|p| p.seal.clear(), "a seal"),
    ];
    for (name, edit, rule) in cases {
        let proof = changed(edit);
        add.proof(name, &proof, forged(), &format!("step 2: {rule}"));
    }
    let sealed = |alter: &dyn Fn(&mut Seal)| {
        let mut log = Log::new(format);
        log.some(8).seal_with(|seal| alter(seal));
        ObservedProof::of(&log, &[3..=4])
    };
    let proof = sealed(&|seal| seal.by = 5);
    add.proof(
        "signed-by-another",
        &proof,
        forged(),
        "step 2: the note verifies under the header's key",
    );
    let proof = sealed(&|seal| seal.noted = Some((7, seal.root)));
    add.proof(
        "note-lines",
        &proof,
        forged(),
        "step 2: the note states the lines of the seal",
    );
    let proof = sealed(&|seal| seal.origin = seal.origin.replacen("0808", "0809", 1));
    add.proof(
        "note-of-another-record",
        &proof,
        forged(),
        "step 2: the note states the header's record",
    );
    for (name, alter) in [
        (
            "sidecar",
            (|seal| seal.sidecar = Digest::of(b"")) as fn(&mut Seal),
        ),
        ("size", |seal| seal.size += 9),
        ("seq", |seal| seal.seq = 9),
        ("final", |seal| seal.is_final = true),
    ] {
        let (proof, verdict) = (sealed(&alter), add.good(false));
        let rule = "a seal is good for its lines alone: what the seal file shows is not checked";
        add.proof(&format!("seal-{name}"), &proof, verdict, rule);
    }
    let rule = match format {
        1 => "step 2: a header that is none has format 1 in step 1",
        _ => "step 1: a header that is none has format 1, so that the salts do not fit",
    };
    let blank: Edit<'_> = &|p| p.header = p.header.replacen("\"key\":", "\"key\": ", 1);
    let none: Edit<'_> = &|p| "none".clone_into(&mut p.header);
    for (name, edit) in [("header-blank", blank), ("header-none", none)] {
        let verdict = match format {
            1 => forged(),
            _ => Verdict::malformed(),
        };
        add.proof(name, &changed(edit), verdict, rule);
    }
}

/// Step 3.
fn content(add: &mut Both<'_>) {
    let changed = || Verdict::tampered("content_changed");
    let mut edited = add.of(&[3..=4]);
    edited.runs[0].lines[0].0.push(b' ');
    add.proof(
        "line-edited",
        &edited,
        changed(),
        "step 3: a line was edited",
    );
    let mut swapped = add.of(&[3..=4]);
    swapped.runs[0].lines.swap(0, 1);
    add.proof(
        "lines-swapped",
        &swapped,
        changed(),
        "step 3: two lines changed places",
    );
    let mut hash = add.of(&[3..=4]);
    hash.runs[0].hashes[0] = Digest::of(b"");
    add.proof("hash-changed", &hash, changed(), "step 3: another hash");
    let mut fewer = add.of(&[3..=4]);
    fewer.runs[0].hashes.pop();
    add.proof(
        "hash-missing",
        &fewer,
        changed(),
        "step 3: a hash is missing",
    );
    let mut more = add.of(&[3..=4]);
    more.runs[0].hashes.push(Digest::of(b""));
    add.proof("hash-more", &more, changed(), "step 3: a hash is left");
    let mut second = add.of(&[1..=2, 5..=6]);
    second.runs[1].lines[0].0.push(b' ');
    add.proof("second-run-edited", &second, changed(), "step 3: each run");
    let mut wrong = Log::new(add.1);
    wrong.some(8).seal_with(|seal| seal.root = Digest::of(b""));
    let proof = ObservedProof::of(&wrong, &[3..=4]);
    add.proof(
        "seal-root",
        &proof,
        changed(),
        "step 3: the seal states another root",
    );
}

/// Step 4 in format 1.
fn alone(add: &mut Both<'_>) {
    let cases = [
        (
            "alone-missing",
            3..=3,
            "alone",
            "a line that is alone is not listed",
        ),
        ("alone-other", 3..=3, "alone 5", "another line is listed"),
        (
            "alone-more",
            3..=3,
            "alone 4 5",
            "a line that is not alone is listed",
        ),
        (
            "alone-shown",
            3..=4,
            "alone 3",
            "a line that is shown is listed",
        ),
        ("alone-twice", 3..=3, "alone 4 4", "each line once"),
        ("alone-descends", 2..=7, "alone 8 1", "lines ascend"),
        ("alone-spelled-04", 3..=3, "alone 04", "no leading zeros"),
        ("alone-zero", 3..=4, "alone 0", "lines count from 1"),
        ("alone-blank", 3..=4, "alone ", "no blank behind `alone`"),
        ("shows", 3..=4, "shows 2", "`shows` is of format 2"),
    ];
    for (name, run, guess, rule) in cases {
        let mut proof = add.of(&[run]);
        guess.clone_into(&mut proof.guess);
        add.proof(
            name,
            &proof,
            Verdict::malformed(),
            &format!("step 4: {rule}"),
        );
    }
    let mut salted = add.of(&[3..=4]);
    salted.runs[0].lines[0].1 = Some([4; 16]);
    add.malformed("salt", &salted.text(), "no salts in format 1");
    let mut changed = add.of(&[3..=3]);
    "alone".clone_into(&mut changed.guess);
    changed.runs[0].lines[0].0.push(b' ');
    let rule = "step 3 comes before step 4";
    add.proof(
        "alone-missing-line-edited",
        &changed,
        Verdict::tampered("content_changed"),
        rule,
    );
}

/// Salts and `shows` of format 2.
fn salts(add: &mut Both<'_>) {
    let with = |edit: &dyn Fn(&mut ObservedProof)| {
        let mut log = Log::new(2);
        log.some(8).seal();
        let mut proof = ObservedProof::of(&log, &[3..=4]);
        edit(&mut proof);
        proof
    };
    let proof = with(&|p| p.runs[0].lines[1].1 = Some([4; 16]));
    let rule = "step 3: another salt";
    add.proof(
        "salt-changed",
        &proof,
        Verdict::tampered("content_changed"),
        rule,
    );
    let proof = with(&|p| p.runs[0].lines[1].1 = None);
    add.malformed("salt-missing", &proof.text(), "a salt behind each line");
    let text = with(&|_| {}).text();
    let at = text.find("salt ").map_or(0, |at| at + 5);
    let (before, rest) = text.split_at(at);
    let salt = &rest[..32];
    let cases = [
        (
            "salt-upper-case",
            format!("{before}AB{}", &rest[2..]),
            "hex is lower case",
        ),
        ("salt-short", format!("{before}{}", &rest[2..]), "32 digits"),
        (
            "salt-twice",
            format!("{before}{salt}\nsalt {rest}"),
            "one salt behind each line",
        ),
        (
            "shows-more",
            text.replacen("shows 2", "shows 3", 1),
            "the number of lines",
        ),
        (
            "shows-fewer",
            text.replacen("shows 2", "shows 1", 1),
            "the number of lines",
        ),
        (
            "shows-spelled-02",
            text.replacen("shows 2", "shows 02", 1),
            "no leading zeros",
        ),
        (
            "shows-two-numbers",
            text.replacen("shows 2", "shows 2 2", 1),
            "one number",
        ),
        (
            "alone",
            text.replacen("shows 2", "alone", 1),
            "`alone` is of format 1",
        ),
    ];
    for (name, text, rule) in cases {
        add.malformed(name, &text, rule);
    }
}

/// Step 5.
/// Proofs under a seal of a key that took the place of that of the header.
fn next_keys(add: &mut Both<'_>) {
    let mut log = add.log();
    log.next_key(OBSERVER, 5).some(8).seal_by(5);
    let proof = ObservedProof::of(&log, &[3..=4]);
    let rule = "step 2: the seal is of the key that was named last";
    add.proof("next-key", &proof, add.good(false), rule);
    let mut twice = log.clone();
    twice.next_key(5, 6).some(8).seal_by(6);
    let two = ObservedProof::of(&twice, &[3..=4]);
    add.proof("next-key-twice", &two, add.good(false), rule);
    let forged = || Verdict::new("forged", &["signature_bad"]);
    let with = |next: Vec<String>| ObservedProof {
        next,
        ..proof.clone()
    };
    let rule = "step 2: the line that names the key is missing";
    add.proof("next-key-missing", &with(Vec::new()), forged(), rule);
    let rule = "step 2: the lines name each another key";
    let again = with([proof.next.clone(), proof.next.clone()].concat());
    add.proof("next-key-again", &again, forged(), rule);
    let edited = proof
        .next
        .iter()
        .map(|line| line.replacen(":\"", ": \"", 1));
    let rule = "step 2: the line has its one spelling";
    add.proof("next-key-blank", &with(edited.collect()), forged(), rule);
    let mut thief = add.log();
    thief.next_key(6, 5).some(8).seal_by(5);
    let thief = ObservedProof::of(&thief, &[3..=4]);
    let rule = "step 2: the key before signs the line";
    add.proof("next-key-by-another", &thief, forged(), rule);
    let rule = "step 1: the lines are before the seal";
    let text = proof.text();
    let line = format!("next {}\n", proof.next.concat());
    let moved = text
        .replacen(&line, "", 1)
        .replacen("label ", &format!("{line}label "), 1);
    add.malformed("next-key-moved", &moved, rule);
    let unknown = |code| Verdict::new("unknown_signer", &[code]);
    let (mine, next) = (hex(&observer(OBSERVER)), hex(&observer(5)));
    for (name, trust, pins, verdict, rule) in [
        (
            "next-key-trusted",
            vec![next.clone()],
            Vec::new(),
            add.good(false),
            "step 5: the key of the seal is judged for itself",
        ),
        (
            "next-key-first-pinned",
            vec![next.clone()],
            vec![mine.clone()],
            add.good(false),
            "step 5: the key counts as the one before it",
        ),
        (
            "next-key-none-trusted",
            Vec::new(),
            Vec::new(),
            unknown("key_unknown"),
            "step 5: neither key counts",
        ),
    ] {
        let mut verdict = verdict;
        verdict.options = Options {
            trust: Some(trust),
            pins,
            ..Options::default()
        };
        add.proof(name, &proof, verdict, rule);
    }
}

fn trust(add: &mut Both<'_>) {
    let proof = add.of(&[3..=4]);
    let (mine, other) = (hex(&observer(OBSERVER)), hex(&observer(5)));
    let trusting = |trust: &[&String], pins: &[&String], usage| Options {
        trust: Some(trust.iter().map(|key| (*key).clone()).collect()),
        pins: pins.iter().map(|key| (*key).clone()).collect(),
        usage,
        ..Options::default()
    };
    let unknown = |code| Verdict::new("unknown_signer", &[code]);
    let cases = [
        (
            "trust-none",
            trusting(&[], &[], None),
            unknown("key_unknown"),
            "no key is trusted",
        ),
        (
            "trust-other",
            trusting(&[&other], &[], None),
            unknown("key_unknown"),
            "another key is trusted",
        ),
        (
            "trust-native",
            trusting(&[&mine], &[], Some("native")),
            unknown("key_out_of_scope"),
            "trusted for native records",
        ),
        (
            "pin-other",
            trusting(&[&mine], &[&other], None),
            unknown("other_signer"),
            "another key is pinned",
        ),
        (
            "pin-mine",
            trusting(&[], &[&mine], None),
            Verdict::good(),
            "pinned, and not trusted",
        ),
    ];
    for (name, options, verdict, rule) in cases {
        let rule = format!("step 5 (keys-and-trust.md §8.2): {rule}");
        add.proof(name, &proof, verdict.asked(options), &rule);
    }
    let mut changed = proof;
    changed.runs[0].lines[0].0.push(b' ');
    let rule = "the first fault ends it: trust is not reported";
    let verdict = Verdict::tampered("content_changed").asked(trusting(&[], &[], None));
    add.proof("trust-none-edited", &changed, verdict, rule);
    if add.1 == 1 {
        let alone = add.of(&[3..=3]);
        let codes = ["key_unknown", "siblings_guessable"];
        let verdict = Verdict::new("unknown_signer", &codes).asked(trusting(&[], &[], None));
        add.proof(
            "trust-none-alone",
            &alone,
            verdict,
            "steps 4 and 5: notes are behind the trust",
        );
    }
}
