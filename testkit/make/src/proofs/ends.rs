//! `authority` events in proofs of turns: `spec/proofs.md`, "Keys", *After an end*.

use super::{Adder, Verdict, trusting};
use crate::forge::{Forge, authority, key, rye_signature, succession};
use crate::list::Options;
use crate::proof_forge::{TurnProof, next_step};
use threadseal_core::key::LocalSigner;

pub(super) fn add(add: &mut Adder) {
    trusted(add);
    chains(add);
    odd(add);
    recovered(add);
    taken(add);
}

fn of(forge: &Forge) -> TurnProof {
    TurnProof::of_turn(forge, 1)
}

/// One turn that has ended: line 6 is the final seal, line 7 names `next`, line 8 is a seal by `by`.
fn handed(next: &LocalSigner, by: &LocalSigner) -> Forge {
    let mut forge = Forge::begun();
    forge.turn().finish(&authority());
    forge
        .event("authority", &succession(&authority(), next))
        .end(by);
    forge
}

/// Whom the trust vouches for.
fn trusted(add: &mut Adder) {
    let proof = of(&handed(&key(11), &key(11)));
    let unknown = |code| Verdict::new("unknown_signer", &[code]);
    let cases: [(&str, Options, Verdict, &str); 9] = [
        (
            "heir",
            trusting(&[1, 11], &[]),
            Verdict::good(),
            "authority and heir are trusted",
        ),
        (
            "heir-unknown",
            trusting(&[1], &[]),
            unknown("key_unknown"),
            "the authority does not vouch for the heir",
        ),
        (
            "heir-alone",
            trusting(&[11], &[]),
            unknown("key_unknown"),
            "the heir does not vouch for the authority",
        ),
        (
            "heir-none",
            trusting(&[], &[]),
            unknown("key_unknown"),
            "neither is trusted",
        ),
        (
            "heir-pinned-both",
            trusting(&[], &[1, 11]),
            Verdict::good(),
            "both are pinned",
        ),
        (
            "heir-authority-pinned",
            trusting(&[1, 11], &[1]),
            Verdict::good(),
            "the pinned authority signed its end, and the heir counts alone",
        ),
        (
            "heir-authority-pinned-alone",
            trusting(&[1], &[1]),
            unknown("other_signer"),
            "the authority is pinned, and the heir is not known",
        ),
        (
            "heir-pinned",
            trusting(&[1, 11], &[11]),
            unknown("other_signer"),
            "the heir is pinned, and the authority, whose seal is taken, is not",
        ),
        (
            "heir-other-pinned",
            trusting(&[1, 11], &[12]),
            unknown("other_signer"),
            "a third key is pinned",
        ),
    ];
    for (name, options, verdict, rule) in cases {
        let rule = format!("\"Signers\": {rule}");
        add.turn(name, &proof, verdict.asked(options), &rule);
    }
}

fn chains(add: &mut Adder) {
    let all = || trusting(&[1, 11, 12], &[]);
    let mut twice = handed(&key(11), &key(11));
    twice
        .event("authority", &succession(&key(11), &key(12)))
        .end(&key(12));
    let rule = "\"After an end\": each of two events is sealed by its heir";
    add.turn(
        "heir-of-heir",
        &of(&twice),
        Verdict::good().asked(all()),
        rule,
    );
    let mut both = Forge::begun();
    both.turn().finish(&authority());
    both.event("authority", &succession(&authority(), &key(11)));
    both.event("authority", &succession(&key(11), &key(12)))
        .end(&key(12));
    let rule = "\"After an end\": two events under one seal; the first heir sealed nothing";
    let verdict = Verdict::good().asked(trusting(&[1, 12], &[]));
    add.turn("heirs-under-one-seal", &of(&both), verdict, rule);
    let mut linked = handed(&key(11), &key(11));
    linked.event("thread_handoff", "{}").end(&key(11));
    let rule = "\"Order\": links behind the end are sealed by the heir";
    add.turn(
        "heir-link",
        &of(&linked),
        Verdict::good().asked(all()),
        rule,
    );
    let mut linked = handed(&key(11), &key(11));
    linked.event("thread_handoff", "{}").end(&authority());
    let rule = "\"Taking\" with heirs: the closing seal is by the last heir";
    let verdict = Verdict::forged("key_not_allowed").asked(all());
    add.turn("heir-link-by-authority", &of(&linked), verdict, rule);
    let mut stepped = Forge::begun();
    let named = format!("{{\"next_key\":\"{}\"}}", crate::forge::hex(&key(12)));
    stepped
        .turn()
        .seal_with(&authority(), |seal| seal.ext = named);
    stepped.finish(&key(12));
    stepped
        .event("authority", &succession(&authority(), &key(11)))
        .end(&key(11));
    let proof = TurnProof {
        keys: next_step(&stepped, 5),
        ..of(&stepped)
    };
    let rule = "\"After an end\": `keys` lead to the seal before the first event";
    let verdict = || Verdict::good().asked(trusting(&[1, 11], &[]));
    add.turn("heir-after-next", &proof, verdict(), rule);
    let mut split = Forge::begun_by(&key(12));
    split.turn().finish(&key(12));
    split
        .event("authority", &succession(&authority(), &key(11)))
        .end(&key(11));
    let rule = "\"After an end\": the authority that did not seal names its heir";
    add.turn("split-heir", &of(&split), verdict(), rule);
    let mut later = handed(&key(11), &key(11));
    later
        .event("thread_resumed", "{}")
        .seal_with(&key(11), |seal| {
            seal.is_final = true;
            seal.turn = 2;
        });
    let rule = "step 15: after the end, a seal that counts more than N closes";
    let verdict = Verdict::good().asked(all());
    add.turn("heir-closes-with-more-turns", &of(&later), verdict, rule);
}

/// `authority` events that are odd themselves.
fn odd(add: &mut Adder) {
    let all = || trusting(&[1, 9, 11, 12], &[]);
    let event = |payload: String, by: u8| {
        let mut forge = Forge::begun();
        forge
            .turn()
            .finish(&authority())
            .event("authority", &payload);
        forge.end(&key(by));
        of(&forge)
    };
    let good = succession(&authority(), &key(11));
    let malformed = || Verdict::tampered("event_malformed");
    let cases = [
        (
            "heir-event-blank",
            good.replacen("{\"next\":", "{\"next\": ", 1),
            "one spelling",
        ),
        (
            "heir-event-more",
            good.replacen("\"}", "\",\"more\":1}", 1),
            "no more members",
        ),
        (
            "heir-event-upper-case",
            good.replacen(
                &crate::forge::hex(&key(11)),
                &crate::forge::hex(&key(11)).to_uppercase(),
                1,
            ),
            "hex is lower case",
        ),
        (
            "heir-event-by-another",
            succession(&key(9), &key(11)),
            "`signature` is that of the authority",
        ),
        (
            "heir-event-of-another",
            succession(&authority(), &key(12)).replacen(
                &crate::forge::hex(&key(12)),
                &crate::forge::hex(&key(11)),
                1,
            ),
            "`signature` is over another key",
        ),
        (
            "heir-is-authority",
            succession(&authority(), &authority()),
            "`next` is not the authority",
        ),
    ];
    for (name, payload, rule) in cases {
        let by = if name == "heir-is-authority" { 1 } else { 11 };
        let rule = format!("\"After an end\": {rule}");
        add.turn(name, &event(payload, by), malformed().asked(all()), &rule);
    }
    let by_old = of(&handed(&key(11), &authority()));
    let rule = "\"Taking\" with heirs: not by the authority before";
    let verdict = Verdict::forged("key_not_allowed").asked(all());
    add.turn("heir-old-authority-seals", &by_old, verdict, rule);
    let mut open = Forge::begun();
    open.turn().event("authority", &good).seal(&key(11));
    let rule = "\"After an end\": the seal before the event is final";
    add.turn(
        "heir-in-open-record",
        &of(&open),
        malformed().asked(all()),
        rule,
    );
    let mut back = handed(&key(11), &key(11));
    back.event("authority", &succession(&key(11), &authority()))
        .end(&authority());
    let rule = "\"After an end\": `next` is no key of `sealers`";
    add.turn(
        "heir-back-to-authority",
        &of(&back),
        malformed().asked(all()),
        rule,
    );
    let mut loops = Forge::begun();
    loops.turn().finish(&authority()).event("authority", &good);
    loops.event("authority", &succession(&key(11), &key(12)));
    loops
        .event("authority", &succession(&key(12), &key(11)))
        .end(&key(11));
    let rule = "\"After an end\": `next` is no key of `heirs`";
    add.turn(
        "heir-back-to-heir",
        &of(&loops),
        malformed().asked(all()),
        rule,
    );
    let mut split = Forge::begun_by(&key(12));
    split.turn().finish(&key(12));
    split
        .event("authority", &succession(&authority(), &key(12)))
        .end(&key(12));
    let rule = "\"After an end\": `next` is no key that sealed the end";
    add.turn(
        "split-heir-is-first",
        &of(&split),
        malformed().asked(all()),
        rule,
    );
    let mut early = handed(&key(11), &key(11));
    early
        .event("authority", &succession(&authority(), &key(12)))
        .end(&key(12));
    let rule = "\"After an end\": the last heir signs, not the authority before it";
    add.turn(
        "heir-by-old-authority",
        &of(&early),
        malformed().asked(all()),
        rule,
    );
}

/// Recovered tails behind `authority` events.
fn recovered(add: &mut Adder) {
    let all = || trusting(&[1, 11], &[]);
    let malformed = || Verdict::tampered("event_malformed").asked(all());
    let dropped = |forge: &Forge| {
        let zeros = "ab".repeat(32);
        format!(
            "{{\"offset\":{},\"length\":9,\"sha256\":\"{zeros}\"}}",
            forge.size()
        )
    };
    let mut behind = Forge::begun();
    behind.turn().finish(&authority());
    behind.event("authority", &succession(&authority(), &key(11)));
    let payload = dropped(&behind);
    behind.event("tail_dropped", &payload).end(&key(11));
    let rule = "\"After an end\": `tail_dropped` behind the event, before its seal";
    add.turn("heir-then-tail-dropped", &of(&behind), malformed(), rule);
    let mut before = Forge::begun();
    before.turn().finish(&authority());
    let payload = dropped(&before);
    before.event("tail_dropped", &payload);
    before
        .event("authority", &succession(&authority(), &key(11)))
        .end(&key(11));
    let rule = "\"After an end\": `tail_dropped` before the event";
    add.turn(
        "tail-dropped-then-heir",
        &of(&before),
        Verdict::good().asked(all()),
        rule,
    );
    let mut adopted = Forge::begun();
    adopted.turn().finish(&authority());
    super::events::adopt(&mut adopted, |forge| {
        forge.event("thread_handoff", "{}");
    });
    adopted.end(&authority());
    adopted
        .event("authority", &succession(&authority(), &key(11)))
        .end(&key(11));
    let rule = "\"After an end\": `tail_adopted` in a proof with an `authority` event";
    add.turn("tail-adopted-and-heir", &of(&adopted), malformed(), rule);
}

/// The seals that are taken are verified.
fn taken(add: &mut Adder) {
    let all = || trusting(&[1, 9, 11], &[]);
    let with = |alter: fn(&mut crate::forge::Seal)| {
        let mut forge = Forge::begun();
        forge.turn().event("thread_completed", "{}");
        forge.seal_with(&authority(), |seal| {
            seal.is_final = true;
            alter(seal);
        });
        forge
            .event("authority", &succession(&authority(), &key(11)))
            .end(&key(11));
        of(&forge)
    };
    let cases: [(&str, fn(&mut crate::forge::Seal), Verdict, &str); 3] = [
        (
            "signed-by-another",
            |seal| seal.by = key(9),
            Verdict::forged("signature_bad"),
            "its note verifies",
        ),
        (
            "fp",
            |seal| seal.fp = "0123456789abcdef".to_owned(),
            Verdict::tampered("rye_key_changed"),
            "`fp` is of `rye_key`",
        ),
        (
            "sig",
            |seal| seal.sig = rye_signature(&"ab".repeat(32)),
            Verdict::forged("rye_signature_bad"),
            "`sig` verifies",
        ),
    ];
    for (name, alter, verdict, rule) in cases {
        let rule = format!("\"Taking\": the seal before the first event: {rule}");
        add.turn(
            &format!("taken-{name}"),
            &with(alter),
            verdict.asked(all()),
            &rule,
        );
    }
    let mut middle = handed(&key(11), &key(11));
    middle.event("thread_handoff", "{}").end(&authority());
    middle
        .event("authority", &succession(&key(11), &key(12)))
        .end(&key(12));
    let verdict = Verdict::forged("key_not_allowed").asked(trusting(&[1, 11, 12], &[]));
    let rule = "\"Taking\" with heirs: the last seal before a later event is by the heir";
    add.turn("taken-by-authority-again", &of(&middle), verdict, rule);
}
