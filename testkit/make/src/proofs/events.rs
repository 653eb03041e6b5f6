//! Order of lines, and reserved events, in proofs of turns: `spec/proofs.md`, steps 7, 8 and 13.

use super::{Adder, Verdict};
use crate::forge::{Forge, Seal, authority, hex, key, succession};
use crate::proof_forge::{TurnProof, delegation};
use threadseal_core::digest::Digest;
use threadseal_core::key::Signer as _;

pub(super) fn add(add: &mut Adder) {
    open(add);
    closing_state(add);
    after_end(add);
    keys(add);
    redactions(add);
    dropped(add);
    adopted(add);
    adopted_lines(add);
}

fn of(forge: &Forge) -> TurnProof {
    TurnProof::of_turn(forge, 1)
}

/// A turn that these lines end.
fn turn(write: impl FnOnce(&mut Forge)) -> TurnProof {
    let mut forge = Forge::begun();
    forge.turn();
    write(&mut forge);
    of(&forge)
}

fn end_with(forge: &mut Forge, alter: impl FnOnce(&mut Seal)) {
    forge.seal_with(&authority(), |seal| {
        seal.is_final = true;
        alter(seal);
    });
}

/// Adds lines behind the last seal, and the event that adopts them.
pub(super) fn adopt(forge: &mut Forge, write: impl FnOnce(&mut Forge)) {
    adopt_with(forge, write, |_| {});
}

/// The values of `tail_adopted`.
struct Tail {
    from: u64,
    to: u64,
    lines: u64,
    sha256: Digest,
    respell: fn(String) -> String,
}

fn adopt_with(forge: &mut Forge, write: impl FnOnce(&mut Forge), alter: impl FnOnce(&mut Tail)) {
    let from = forge.seals.last().map_or(0, |seal| seal.trusted.byte);
    write(forge);
    let bytes = forge.out.get(usize::try_from(from).unwrap_or(usize::MAX)..);
    let bytes = bytes.unwrap_or_default();
    let mut tail = Tail {
        from,
        to: forge.size(),
        lines: bytes.iter().filter(|byte| **byte == b'\n').count() as u64,
        sha256: Digest::of(bytes),
        respell: |payload| payload,
    };
    alter(&mut tail);
    let Tail {
        from,
        to,
        lines,
        sha256,
        respell,
    } = tail;
    let payload =
        format!("{{\"from\":{from},\"to\":{to},\"lines\":{lines},\"sha256\":\"{sha256}\"}}");
    forge.event("tail_adopted", &respell(payload));
}

fn open(add: &mut Adder) {
    let proof = turn(|forge| {
        forge.event("thread_handoff", "{}").end(&authority());
    });
    let rule = "\"Order\", open: a final seal directly behind a link";
    add.turn("order-final-behind-link", &proof, Verdict::good(), rule);
    let proof = turn(|forge| {
        forge.event("thread_handoff", "{}").seal(&authority());
    });
    let rule = "\"Order\", open: a seal behind a link need not be final";
    add.turn("order-open-behind-link", &proof, Verdict::open(), rule);
    let proof = turn(|forge| {
        forge.end(&authority());
    });
    let misplaced = || Verdict::new("malformed", &["end_misplaced"]);
    let rule = "\"Order\", open: a final seal behind a free event";
    add.turn("order-final-behind-event", &proof, misplaced(), rule);
    let proof = turn(|forge| {
        forge.seal(&authority()).end(&authority());
    });
    let rule = "\"Order\", open: a final seal behind a seal";
    add.turn("order-final-behind-seal", &proof, misplaced(), rule);
    let proof = turn(|forge| {
        forge
            .event("thread_handoff", "{}")
            .event("note", "{}")
            .end(&authority());
    });
    let rule = "\"Order\", open: an event between link and final seal";
    add.turn("order-link-then-event", &proof, misplaced(), rule);
    let proof = turn(|forge| {
        forge.event("thread_started", "{}").finish(&authority());
    });
    let rule = "\"Order\": a second `thread_started`";
    add.turn(
        "order-thread-started",
        &proof,
        Verdict::tampered("event_malformed"),
        rule,
    );
}

fn closing_state(add: &mut Adder) {
    for event in [
        "thread_error",
        "thread_cancelled",
        "thread_continued",
        "thread_suspended",
    ] {
        let proof = turn(|forge| {
            forge.event(event, "{}").end(&authority());
        });
        let name = format!("order-{}", event.replace('_', "-"));
        add.turn(
            &name,
            &proof,
            Verdict::good(),
            "\"Order\": a terminal event and a final seal",
        );
    }
    let after = || Verdict::tampered("event_after_end");
    let cases: [(&str, &str, &str); 3] = [
        ("order-event-behind-terminal", "note", "a free event"),
        (
            "order-terminal-twice",
            "thread_error",
            "a second terminal event",
        ),
        ("order-link-behind-terminal", "thread_handoff", "a link"),
    ];
    for (name, event, rule) in cases {
        let proof = turn(|forge| {
            forge
                .event("thread_completed", "{}")
                .event(event, "{}")
                .end(&authority());
        });
        let rule = format!("\"Order\", closing: {rule} behind a terminal event");
        add.turn(name, &proof, after(), &rule);
    }
    let proof = turn(|forge| {
        forge.event("thread_completed", "{}").seal(&authority());
    });
    let misplaced = || Verdict::new("malformed", &["end_misplaced"]);
    let rule = "\"Order\", closing: a seal that is not final behind a terminal event";
    add.turn("order-open-behind-terminal", &proof, misplaced(), rule);
    let proof = turn(|forge| {
        forge
            .event("thread_completed", "{}")
            .event("note", "{}")
            .seal(&authority());
    });
    let rule = "\"Order\": the first line with a fault decides";
    add.turn("order-event-before-misplaced", &proof, after(), rule);
}

fn after_end(add: &mut Adder) {
    let ended = |write: &dyn Fn(&mut Forge)| {
        turn(|forge| {
            forge.finish(&authority());
            write(forge);
        })
    };
    let misplaced = || Verdict::new("malformed", &["end_misplaced"]);
    type Write<'a> = &'a dyn Fn(&mut Forge);
    let cases: [(&str, Write<'_>, Verdict, &str); 8] = [
        (
            "link",
            &|f| {
                f.event("thread_resumed", "{}").end(&authority());
            },
            Verdict::good(),
            "a link and a final seal",
        ),
        (
            "event",
            &|f| {
                f.event("note", "{}").end(&authority());
            },
            Verdict::tampered("event_after_end"),
            "a free event",
        ),
        (
            "terminal",
            &|f| {
                f.event("thread_completed", "{}").end(&authority());
            },
            Verdict::tampered("event_after_end"),
            "a terminal event",
        ),
        (
            "key",
            &key_event,
            Verdict::tampered("event_after_end"),
            "a `key` event",
        ),
        (
            "open-seal",
            &|f| {
                f.event("thread_resumed", "{}").seal(&authority());
            },
            misplaced(),
            "a seal that is not final",
        ),
        (
            "seal-alone",
            &|f| {
                f.end(&authority());
            },
            misplaced(),
            "a seal that follows nothing",
        ),
        (
            "more-turns",
            &|f| {
                f.event("thread_resumed", "{}");
                end_with(f, |seal| seal.turn = 2);
            },
            Verdict::good(),
            "a final closing seal of a higher count",
        ),
        (
            "more-turns-open",
            &|f| {
                f.event("thread_resumed", "{}")
                    .seal_with(&authority(), |seal| seal.turn = 2);
            },
            misplaced(),
            "a closing seal of a higher count that is not final",
        ),
    ];
    for (name, write, verdict, rule) in cases {
        let rule = format!("\"Order\", ended: {rule}");
        add.turn(&format!("ended-{name}"), &ended(write), verdict, &rule);
    }
    let mut opening = Forge::begun();
    opening
        .turn()
        .finish(&authority())
        .turn()
        .seal(&authority());
    let proof = TurnProof::of_turn(&opening, 2);
    let rule = "\"Order\": the opening seal is final, and the turn has events";
    add.turn(
        "ended-opening",
        &proof,
        Verdict::tampered("event_after_end"),
        rule,
    );
    for (name, by, verdict) in [
        (
            "ended-split-by-first",
            11,
            Verdict::forged("key_not_allowed"),
        ),
        ("ended-split-by-authority", 1, Verdict::good()),
    ] {
        let mut split = Forge::begun_by(&key(11));
        split
            .turn()
            .finish(&key(11))
            .event("thread_resumed", "{}")
            .end(&key(by));
        let rule =
            "\"Order\": behind a final seal the authority alone seals where line 1 has another key";
        add.turn(name, &of(&split), verdict, rule);
    }
    let mut inner = Forge::begun_by(&key(11));
    inner
        .turn()
        .finish(&key(11))
        .event("thread_resumed", "{}")
        .end(&key(11));
    inner.event("thread_handoff", "{}").end(&authority());
    let rule = "\"Order\": a seal among the lines behind a final one is by the authority";
    add.turn(
        "ended-split-inner-by-first",
        &of(&inner),
        Verdict::forged("key_not_allowed"),
        rule,
    );
    let mut delegate = Forge::begun();
    delegate
        .turn()
        .finish(&authority())
        .event("thread_resumed", "{}")
        .end(&key(11));
    let keys = delegation(&delegate, &authority(), &key(11));
    let proof = TurnProof {
        keys,
        ..of(&delegate)
    };
    let rule = "\"Order\": a delegate does not seal behind a final seal";
    add.turn(
        "ended-by-delegate",
        &proof,
        Verdict::forged("key_not_allowed"),
        rule,
    );
}

fn key_event(forge: &mut Forge) {
    let payload = format!("{{\"next\":\"{}\"}}", hex(&key(11)));
    forge.event("key", &payload).end(&authority());
}

/// `key` and `delegation` among the lines of the turn.
fn keys(add: &mut Adder) {
    let next = format!("{{\"next\":\"{}\"}}", hex(&key(11)));
    let authority_next = format!("{{\"next\":\"{}\"}}", hex(&authority()));
    let forge = Forge::begun();
    let good = forge.delegation(&authority(), &key(11));
    let malformed = || Verdict::tampered("event_malformed");
    let cases = [
        (
            "key",
            "key",
            next.clone(),
            Verdict::good(),
            "`key` in its one spelling",
        ),
        (
            "key-blank",
            "key",
            next.replacen(':', ": ", 1),
            malformed(),
            "no blank",
        ),
        (
            "key-more",
            "key",
            next.replacen('}', ",\"more\":1}", 1),
            malformed(),
            "no more members",
        ),
        (
            "key-long",
            "key",
            next.replacen(":\"", ":\"00", 1),
            malformed(),
            "64 digits",
        ),
        (
            "key-empty",
            "key",
            "{}".to_owned(),
            malformed(),
            "`next` is there",
        ),
        (
            "key-of-authority",
            "key",
            authority_next,
            Verdict::good(),
            "which key it names decides \"Keys\" alone",
        ),
        (
            "delegation",
            "delegation",
            good.clone(),
            Verdict::good(),
            "`delegation` by the authority",
        ),
        (
            "delegation-blank",
            "delegation",
            good.replacen("\",\"s", "\", \"s", 1),
            malformed(),
            "no blank",
        ),
        (
            "delegation-by-another",
            "delegation",
            forge.delegation(&key(9), &key(11)),
            malformed(),
            "the signature is the authority's",
        ),
        (
            "delegation-of-another",
            "delegation",
            forge
                .delegation(&authority(), &key(12))
                .replacen(&hex(&key(12)), &hex(&key(11)), 1),
            malformed(),
            "the signature is over this key",
        ),
        (
            "delegation-of-another-record",
            "delegation",
            Forge::begun_by(&key(12)).delegation(&authority(), &key(11)),
            malformed(),
            "the signature is over this origin",
        ),
        (
            "authority-in-open",
            "authority",
            succession(&authority(), &key(11)),
            malformed(),
            "`authority` in an open record",
        ),
    ];
    for (name, event, payload, verdict, rule) in cases {
        let proof = turn(|forge| {
            forge.event(event, &payload).finish(&authority());
        });
        let rule = format!("step 8, \"Reserved events\": {rule}");
        add.turn(&format!("event-{name}"), &proof, verdict, &rule);
    }
}

fn redactions(add: &mut Adder) {
    let redacted = |by: u8| {
        let id = key(by).public_key().key_id().to_hex();
        let digest = "ab".repeat(32);
        format!(
            "{{\"commitments\":[\"{digest}\"],\"key\":\"{id}\",\"by\":\"Ada\",\"why\":\"a name\"}}"
        )
    };
    let good = redacted(1);
    let long = |bytes: usize| "a".repeat(bytes);
    let malformed = || Verdict::tampered("event_malformed");
    let cases = [
        (
            "redacted",
            good.clone(),
            Verdict::good(),
            "its commitments need not occur",
        ),
        (
            "redacted-by-another",
            redacted(11),
            Verdict::tampered("redactor_differs"),
            "`key` is that of the next seal",
        ),
        (
            "redacted-blank",
            good.replacen("],\"", "], \"", 1),
            malformed(),
            "no blank",
        ),
        (
            "redacted-none",
            good.replacen(&format!("\"{}\"", "ab".repeat(32)), "", 1),
            malformed(),
            "1 commitment or more",
        ),
        (
            "redacted-author-empty",
            good.replacen("Ada", "", 1),
            malformed(),
            "`by` has 1 byte or more",
        ),
        (
            "redacted-author-256",
            good.replacen("Ada", &long(256), 1),
            Verdict::good(),
            "`by` has at most 256 bytes",
        ),
        (
            "redacted-author-257",
            good.replacen("Ada", &long(257), 1),
            malformed(),
            "`by` has at most 256 bytes",
        ),
        (
            "redacted-why-empty",
            good.replacen("a name", "", 1),
            malformed(),
            "`why` has 1 byte or more",
        ),
        (
            "redacted-why-4097",
            good.replacen("a name", &long(4097), 1),
            malformed(),
            "`why` has at most 4,096 bytes",
        ),
        (
            "redacted-spelling",
            good.replacen("Ada", "\\u0041da", 1),
            malformed(),
            "texts in the native spelling",
        ),
        (
            "redacted-order",
            good.replacen(
                "\"by\":\"Ada\",\"why\":\"a name\"",
                "\"why\":\"a name\",\"by\":\"Ada\"",
                1,
            ),
            malformed(),
            "members in order",
        ),
    ];
    for (name, payload, verdict, rule) in cases {
        let proof = turn(|forge| {
            forge.event("redacted", &payload).finish(&authority());
        });
        let rule = format!("step 8, \"Reserved events\": {rule}");
        add.turn(&format!("event-{name}"), &proof, verdict, &rule);
    }
    let proof = turn(|forge| {
        forge
            .event("redacted", &good)
            .event("redacted", &redacted(11))
            .finish(&authority());
    });
    let rule = "step 8, \"Reserved events\": two before one seal name one key";
    add.turn("event-redacted-two-keys", &proof, malformed(), rule);
    let proof = turn(|forge| {
        forge
            .finish(&authority())
            .event("redacted", &good)
            .end(&authority());
    });
    let rule = "\"Order\", ended: `redacted` and a final seal";
    add.turn("ended-redacted", &proof, Verdict::good(), rule);
}

fn dropped(add: &mut Adder) {
    let malformed = || Verdict::tampered("event_malformed");
    type Respell = fn(String) -> String;
    let cases: [(&str, i64, Respell, Verdict, &str); 5] = [
        (
            "tail-dropped",
            0,
            |p| p,
            Verdict::good(),
            "`offset` is the byte of this line",
        ),
        (
            "tail-dropped-offset",
            -1,
            |p| p,
            malformed(),
            "`offset` is the byte of this line",
        ),
        (
            "tail-dropped-blank",
            0,
            |p| p.replacen(':', ": ", 1),
            malformed(),
            "no blank",
        ),
        (
            "tail-dropped-more",
            0,
            |p| p.replacen('}', ",\"more\":1}", 1),
            malformed(),
            "no more members",
        ),
        (
            "tail-dropped-length-text",
            0,
            |p| p.replacen("\"length\":9", "\"length\":\"9\"", 1),
            malformed(),
            "`length` is a number",
        ),
    ];
    for (name, by, respell, verdict, rule) in cases {
        let proof = turn(|forge| {
            forge.seal(&authority());
            let (offset, zeros) = (forge.size().saturating_add_signed(by), "ab".repeat(32));
            let payload = format!("{{\"offset\":{offset},\"length\":9,\"sha256\":\"{zeros}\"}}");
            forge
                .event("tail_dropped", &respell(payload))
                .finish(&authority());
        });
        let rule = format!("step 8, \"Reserved events\": {rule}");
        add.turn(&format!("event-{name}"), &proof, verdict, &rule);
    }
}

fn partial() -> Verdict {
    Verdict::new("partial", &["tail_adopted"])
}

fn adopted(add: &mut Adder) {
    type Alter = fn(&mut Tail);
    let malformed = || Verdict::tampered("event_malformed");
    let cases: [(&str, Alter, Verdict, &str); 8] = [
        (
            "tail-adopted",
            |_| {},
            partial(),
            "step 13: adopted lines are partial",
        ),
        (
            "tail-adopted-from",
            |tail| tail.from -= 1,
            malformed(),
            "step 8: `from` is the end of the last seal",
        ),
        (
            "tail-adopted-to",
            |tail| tail.to += 1,
            malformed(),
            "step 8: `to` is the byte of this line",
        ),
        (
            "tail-adopted-lines",
            |tail| tail.lines += 1,
            malformed(),
            "step 8: `lines` is the number of lines between",
        ),
        (
            "tail-adopted-sha256",
            |tail| tail.sha256 = Digest::of(b""),
            malformed(),
            "step 8: `sha256` fits these bytes",
        ),
        (
            "tail-adopted-blank",
            |tail| tail.respell = |p| p.replacen(':', ": ", 1),
            malformed(),
            "step 8: no blank",
        ),
        (
            "tail-adopted-more",
            |tail| tail.respell = |p| p.replacen('}', ",\"more\":1}", 1),
            malformed(),
            "step 8: no more members",
        ),
        (
            "tail-adopted-float",
            |tail| tail.respell = |p| p.replacen("\"lines\":2", "\"lines\":2.0", 1),
            malformed(),
            "step 8: numbers are decimal",
        ),
    ];
    for (name, alter, verdict, rule) in cases {
        let mut forge = Forge::begun();
        adopt_with(
            &mut forge,
            |forge| {
                forge.turn();
            },
            alter,
        );
        forge.finish(&authority());
        add.turn(&format!("event-{name}"), &of(&forge), verdict, rule);
    }
    let mut torn = Forge::begun();
    adopt_with(
        &mut torn,
        |forge| {
            forge.turn();
        },
        |tail| tail.sha256 = Digest::of(b"torn"),
    );
    torn.event("note", "{}").seal(&authority());
    add.turn(
        "event-tail-adopted-open",
        &of(&torn),
        Verdict::tampered("event_malformed"),
        "step 8: `sha256` fits, also where more events follow",
    );
}

/// Lines of an adopted tail have no fault of order, and none of reserved events.
fn adopted_lines(add: &mut Adder) {
    type Write<'a> = &'a dyn Fn(&mut Forge);
    let cases: [(&str, Write<'_>, &str); 5] = [
        (
            "terminal",
            &|f| {
                f.event("thread_completed", "{}").event("note", "{}");
            },
            "an event behind a terminal one",
        ),
        (
            "key",
            &|f| {
                f.event("key", "{}");
            },
            "a misspelled `key` event",
        ),
        (
            "delegation",
            &|f| {
                f.event("delegation", "{}");
            },
            "a misspelled `delegation` event",
        ),
        (
            "redacted",
            &|f| {
                f.event("redacted", "{}");
            },
            "a misspelled `redacted` event",
        ),
        (
            "started",
            &|f| {
                f.event("thread_started", "{}");
            },
            "a second `thread_started`",
        ),
    ];
    for (name, write, rule) in cases {
        let mut forge = Forge::begun();
        adopt(&mut forge, |forge| {
            forge.turn();
            write(forge);
        });
        forge.finish(&authority());
        let rule = format!("\"Order\", lines of an adopted tail have no such fault: {rule}");
        add.turn(&format!("adopted-{name}"), &of(&forge), partial(), &rule);
    }
    let mut forge = Forge::begun();
    adopt(&mut forge, |forge| {
        forge.turn();
    });
    forge
        .event("thread_completed", "{}")
        .event("note", "{}")
        .end(&authority());
    let rule = "\"Order\": lines behind `tail_adopted` are no part of the tail";
    add.turn(
        "adopted-then-order",
        &of(&forge),
        Verdict::tampered("event_after_end"),
        rule,
    );
    let mut closing = Forge::begun();
    closing.turn().event("thread_completed", "{}");
    adopt(&mut closing, |_| {});
    closing.event("note", "{}").finish(&authority());
    let rule = "\"Order\": `tail_adopted` restores the state of the last seal";
    add.turn("adopted-restores-state", &of(&closing), partial(), rule);
    let mut frame = Forge::begun();
    adopt(&mut frame, |forge| {
        forge.turn().line(b"{\"torn");
    });
    frame.finish(&authority());
    let rule = "step 6: lines of an adopted tail are native lines, too";
    add.turn(
        "adopted-torn-line",
        &of(&frame),
        Verdict::tampered("line_malformed"),
        rule,
    );
}
