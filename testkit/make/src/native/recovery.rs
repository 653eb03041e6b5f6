//! `tail_dropped` and `tail_adopted` (§4): each member right and wrong, and what they restore.

use super::script::{Adopted, dropped, record, tail};
use super::{ALL, Set, Want, want};
use crate::forge::{Forge, authority};
use threadseal_core::digest::Digest;

pub(super) fn add(set: &mut Set) {
    dropped_members(set);
    adopted_members(set);
    adopted_spelling(set);
    torn(set);
    restored(set);
}

fn partial() -> Want {
    want("partial", &["tail_adopted"], ALL)
}

fn refused(set: &mut Set, name: &str, mut forge: Forge, event: &str, payload: &str) {
    forge.event(event, payload).seal(&authority());
    let want = want("tampered", &["event_malformed"], 1);
    set.add(
        &format!("{event}-{name}"),
        "§4: recovery, members",
        &forge,
        want,
    );
}

fn dropped_members(set: &mut Set) {
    let forge = record("b1");
    let (good, size) = (dropped(&forge), forge.size());
    let digest = Digest::of(b"dropped").to_hex();
    let offset = |offset: u64| good.replace(&size.to_string(), &offset.to_string());
    for (name, payload) in [
        ("offset-one-more", offset(size + 1)),
        ("offset-one-less", offset(size - 1)),
        (
            "sha256-upper-case",
            good.replace(&digest, &digest.to_uppercase()),
        ),
        ("without-length", good.replace("\"length\":7,", "")),
        ("member-more", good.replace('}', ",\"x\":1}")),
        ("blank", good.replace(':', ": ")),
        (
            "members-swapped",
            format!("{{\"length\":7,\"offset\":{size},\"sha256\":\"{digest}\"}}"),
        ),
        ("empty", "{}".to_owned()),
    ] {
        refused(set, name, forge.clone(), "tail_dropped", &payload);
    }
    for (name, payload) in [
        (
            "length-largest",
            good.replace(":7,", ":18446744073709551615,"),
        ),
        ("sha256-of-anything", good.replace(&digest, &"0".repeat(64))),
    ] {
        let mut forge = forge.clone();
        forge
            .event("tail_dropped", &payload)
            .seal(&authority())
            .finish(&authority());
        let noted = want("verified", &["tail_dropped"], ALL);
        set.add(
            &format!("tail_dropped-{name}"),
            "§4: not checked",
            &forge,
            noted,
        );
    }
}

fn adopted_members(set: &mut Set) {
    let forge = record("b1 t");
    let edits: [(&str, fn(&mut Adopted)); 8] = [
        ("from-one-more", |a| a.from += 1),
        ("from-one-less", |a| a.from -= 1),
        ("to-one-more", |a| a.to += 1),
        ("to-one-less", |a| a.to -= 1),
        ("lines-one-more", |a| a.lines += 1),
        ("lines-one-less", |a| a.lines -= 1),
        ("sha256-of-others", |a| {
            a.sha256 = Digest::of(b"others").to_hex();
        }),
        ("sha256-upper-case", |a| a.sha256 = a.sha256.to_uppercase()),
    ];
    for (name, edit) in edits {
        let mut adopted = Adopted::of(&forge);
        edit(&mut adopted);
        refused(set, name, forge.clone(), "tail_adopted", &adopted.text());
    }
    let begun = record("b1");
    let mut nothing = Adopted::of(&begun);
    nothing.sha256 = Digest::of(b"others").to_hex();
    refused(
        set,
        "of-nothing-and-sha256-of-others",
        begun,
        "tail_adopted",
        &nothing.text(),
    );
    let mut good = forge.clone();
    let payload = Adopted::of(&good).text();
    good.event("tail_adopted", &payload)
        .seal(&authority())
        .finish(&authority());
    set.add(
        "tail_adopted-right",
        "§4: adopted bytes are partial",
        &good,
        partial(),
    );
    let mut good = forge.clone();
    good.event("tail_adopted", &payload).seal(&authority());
    let open = want("partial", &["end_unproved", "tail_adopted"], ALL);
    set.add("tail_adopted-right-and-open", "§7 D 7, 9", &good, open);
    // From the last line alone: not from the end of the last checkpoint.
    let mut last = Adopted::of(&forge);
    let mut lines = tail(&forge).split_inclusive(|byte| *byte == b'\n');
    let line = lines.next_back().unwrap_or_default();
    (last.from, last.lines) = (last.to - line.len() as u64, 1);
    last.sha256 = Digest::of(line).to_hex();
    refused(
        set,
        "of-the-last-line-alone",
        forge,
        "tail_adopted",
        &last.text(),
    );
}

fn adopted_spelling(set: &mut Set) {
    let forge = record("b1 t");
    let good = Adopted::of(&forge).text();
    for (name, payload) in [
        ("without-lines", good.replace("\"lines\":2,", "")),
        ("member-more", good.replace('}', ",\"x\":1}")),
        ("blank", good.replace(':', ": ")),
        ("escaped", good.replace("\"lines\"", "\"line\\u0073\"")),
        ("empty", "{}".to_owned()),
    ] {
        refused(set, name, forge.clone(), "tail_adopted", &payload);
    }
}

/// A torn line that the writer ended with LF.
fn torn(set: &mut Set) {
    let rule = "§4: as they were found";
    for (name, words) in [("torn", "b1 t")] {
        let mut forge = record(words);
        forge.line(b"{\"timestamp\":17713564");
        for (spelled, cut) in [("without-the-added-lf", 1), ("with-the-added-lf", 0)] {
            let mut forge = forge.clone();
            let mut adopted = Adopted::of(&forge);
            let bytes = tail(&forge);
            adopted.sha256 = Digest::of(&bytes[..bytes.len() - cut]).to_hex();
            forge
                .event("tail_adopted", &adopted.text())
                .seal(&authority())
                .finish(&authority());
            set.add(
                &format!("tail_adopted-{name}-{spelled}"),
                rule,
                &forge,
                partial(),
            );
        }
        let mut adopted = Adopted::of(&forge);
        let bytes = tail(&forge);
        adopted.sha256 = Digest::of(&bytes[..bytes.len() - 2]).to_hex();
        // The torn line is the first fault, and an event that is refused forgets none.
        forge
            .event("tail_adopted", &adopted.text())
            .seal(&authority());
        let fault = want("tampered", &["line_malformed"], 1);
        set.add(
            &format!("tail_adopted-{name}-without-two-bytes"),
            rule,
            &forge,
            fault,
        );
    }
}

/// What comes back, and which faults do not count.
fn restored(set: &mut Set) {
    let misplaced = want("malformed", &["end_misplaced"], 1);
    let tampered = |code, good| want("tampered", &[code], good);
    for (name, words, want) in [
        ("a-malformed-line", "b1 j A s1 c f1", partial()),
        ("an-event-behind-the-end", "b1 c f1 e A f1", partial()),
        (
            "a-terminal-event-and-a-final-seal",
            "b1 c A f1",
            misplaced.clone(),
        ),
        ("a-link-and-a-final-seal", "b1 l A f1", misplaced),
        ("a-link-behind-the-end", "b1 c f1 l A f1", partial()),
        ("an-adopted-tail", "b1 e A e A s1 c f1", partial()),
        ("nothing", "b1 A s1 c f1", partial()),
    ] {
        let rule = "§4: no fault before it counts, the state is back";
        set.add(
            &format!("tail_adopted-with-{name}"),
            rule,
            &record(words),
            want,
        );
    }
    for (name, words, want) in [
        (
            "a-malformed-line-behind-it",
            "b1 e A j s1",
            tampered("line_malformed", 1),
        ),
        (
            "an-event-behind-it-in-an-ended-record",
            "b1 c f1 e A e f1",
            tampered("event_after_end", 2),
        ),
    ] {
        let rule = "§4: what is behind it counts";
        set.add(
            &format!("tail_adopted-and-{name}"),
            rule,
            &record(words),
            want,
        );
    }
    let rule = "§7 A: tail_dropped forgets no fault";
    set.add(
        "tail_dropped-behind-a-fault",
        rule,
        &record("b1 j D s1"),
        tampered("line_malformed", 1),
    );
    let tail = want("unsigned_tail", &["end_unproved", "unsigned_tail"], ALL);
    set.add(
        "tail_adopted-not-sealed",
        "§7 D 7, 8",
        &record("b1 e A"),
        tail.clone(),
    );
    set.add(
        "tail_dropped-not-sealed",
        "§7 D 7, 8",
        &record("b1 D"),
        tail,
    );
    let mut forge = record("b1 e A s1 c f1");
    forge.out = super::seals::edited(&forge.out, |lines| {
        lines[2] = String::from_utf8_lossy(&lines[2])
            .replace("\"note\"", "\"nota\"")
            .into_bytes();
    });
    let changed = want("tampered", &["content_changed", "event_malformed"], 1);
    set.add(
        "tail_adopted-changed-later",
        "§4, §7 B 5: fault and root",
        &forge,
        changed,
    );
}
