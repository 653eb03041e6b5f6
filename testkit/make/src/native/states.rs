//! Each state of §4, and each kind of input.

use super::script::{append, record};
use super::{ALL, Set, Want, verified, want};
use crate::forge::{Forge, authority};

/// The names of events, and the words that append them (`script`).
const EVENTS: [(&str, &str); 10] = [
    ("free-event", "e"),
    ("resumed", "l"),
    ("handoff", "h"),
    ("completed", "c"),
    ("second-manifest", "m"),
    ("key", "k4"),
    ("delegation", "d5"),
    ("authority", "a1>6"),
    ("tail-dropped", "D"),
    ("tail-adopted", "A"),
];
const TERMINAL: [&str; 5] = [
    "thread_completed",
    "thread_error",
    "thread_cancelled",
    "thread_continued",
    "thread_suspended",
];

pub(super) fn add(set: &mut Set) {
    for (name, word) in EVENTS {
        in_open(set, name, word);
        in_closing(set, name, word);
        in_ended(set, name, word);
        behind_the_end(set, name, word);
    }
    terminals(set);
    seals(set);
}

fn tampered(code: &'static str, good: usize) -> Want {
    want("tampered", &[code], good)
}

/// The verdict of a record that is whole but for what this recovery event notes.
fn noted(word: &str) -> Want {
    match word {
        "D" => want("verified", &["tail_dropped"], ALL),
        "A" => want("partial", &["tail_adopted"], ALL),
        _ => verified(),
    }
}

/// The event, sealed with `final` false. (A terminal event there is a row of `seals`.)
fn in_open(set: &mut Set, name: &str, word: &str) {
    if word == "c" {
        return;
    }
    let mut forge = record("b1 t");
    append(&mut forge, word);
    forge.seal(&authority()).finish(&authority());
    let want = match word {
        "m" | "a1>6" => tampered("event_malformed", 1),
        _ => noted(word),
    };
    set.add(&format!("open-{name}"), "§4: open, an event", &forge, want);
}

/// The event behind `thread_completed`, and a final seal.
fn in_closing(set: &mut Set, name: &str, word: &str) {
    if matches!(word, "h" | "d5") {
        return;
    }
    let mut forge = record("b1 c");
    append(&mut forge, word);
    forge.end(&authority());
    let want = match word {
        // The state of the last checkpoint is back: open, and this follows no link.
        "D" | "A" => want("malformed", &["end_misplaced"], 1),
        _ => tampered("event_after_end", 1),
    };
    set.add(
        &format!("closing-{name}"),
        "§4: closing, an event",
        &forge,
        want,
    );
    if matches!(word, "D" | "A") {
        let mut forge = record("b1 c");
        append(&mut forge, word);
        forge.seal(&authority()).finish(&authority());
        let rule = "§4: the state of the last checkpoint is back";
        set.add(
            &format!("closing-{name}-open-again"),
            rule,
            &forge,
            noted(word),
        );
    }
}

/// The event behind a final seal, and another final seal.
fn in_ended(set: &mut Set, name: &str, word: &str) {
    if matches!(word, "h" | "c" | "d5") {
        return;
    }
    let mut forge = record("b1 c f1");
    append(&mut forge, word);
    let by = if word == "a1>6" { 6 } else { 1 };
    forge.end(&crate::forge::key(by));
    let want = match word {
        "l" | "h" | "D" | "A" => noted(word),
        "a1>6" => verified().trusting(&[1, 6]),
        _ => tampered("event_after_end", 2),
    };
    set.add(
        &format!("ended-{name}"),
        "§4: ended, an event",
        &forge,
        want,
    );
    if matches!(word, "l" | "D") {
        let mut forge = record("b1 c f1");
        append(&mut forge, word);
        forge.seal(&authority());
        let want = super::want("malformed", &["end_misplaced"], 2);
        let name = format!("ended-{name}-and-a-seal-not-final");
        set.add(&name, "§4: ended, final must be true", &forge, want);
    }
}

/// The event behind a final seal, not sealed.
fn behind_the_end(set: &mut Set, name: &str, word: &str) {
    let mut forge = record("b1 c f1");
    append(&mut forge, word);
    let codes: &[&str] = match word {
        "l" | "a1>6" => &["unsigned_tail"],
        "D" | "A" | "h" | "d5" | "c" => return,
        _ => &["event_after_end", "unsigned_tail"],
    };
    let want = want("unsigned_tail", codes, ALL);
    set.add(
        &format!("tail-{name}-behind-the-end"),
        "§7 D 8: the fault of the tail",
        &forge,
        want,
    );
}

fn terminals(set: &mut Set) {
    for event in TERMINAL {
        let name = event.trim_start_matches("thread_");
        let mut forge = record("b1 t");
        forge.event(event, "{}").end(&authority());
        set.add(
            &format!("end-{name}"),
            "§1, §4: terminal",
            &forge,
            verified(),
        );
        if event != "thread_completed" {
            continue;
        }
        let mut forge = record("b1 t");
        forge.event(event, "{}").seal(&authority()).turn();
        let open = want("malformed", &["end_misplaced"], 1);
        set.add(
            &format!("end-{name}-seal-not-final"),
            "§4: closing, final must be true",
            &forge,
            open,
        );
        let mut forge = record("b1");
        forge.event(event, "{}");
        let tail = want("unsigned_tail", &["end_unproved", "unsigned_tail"], ALL);
        set.add(
            &format!("end-{name}-without-a-seal"),
            "§7 D 8, 9",
            &forge,
            tail,
        );
    }
}

/// Checkpoints in each state.
fn seals(set: &mut Set) {
    let misplaced = |good| want("malformed", &["end_misplaced"], good);
    let rows: [(&str, &str, Want); 11] = [
        ("open-seal-behind-a-seal", "b1 t s1 s1 s1 c f1", verified()),
        ("open-final-behind-a-seal", "b1 t s1 f1", misplaced(2)),
        ("open-final-behind-a-turn", "b1 t f1", misplaced(1)),
        ("open-final-behind-a-link", "b1 t l f1", verified()),
        (
            "open-final-behind-a-link-and-an-event",
            "b1 t l e f1",
            misplaced(1),
        ),
        (
            "open-final-behind-a-link-and-a-seal",
            "b1 t l s1 f1",
            misplaced(2),
        ),
        (
            "open-final-behind-tail-dropped",
            "b1 t s1 D f1",
            misplaced(2),
        ),
        (
            "ended-final-behind-a-final-seal",
            "b1 t c f1 f1",
            misplaced(2),
        ),
        (
            "ended-seal-behind-a-final-seal",
            "b1 t c f1 s1",
            misplaced(2),
        ),
        ("ended-links-and-seals", "b1 t c f1 l f1 h f1", verified()),
        (
            "ended-final-behind-a-sealed-link",
            "b1 t c f1 l f1 f1",
            misplaced(3),
        ),
    ];
    for (name, words, want) in rows {
        let forge: Forge = record(words);
        set.add(name, "§4: a checkpoint", &forge, want);
    }
}
