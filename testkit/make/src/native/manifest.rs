//! Line 1: its members, keys, delegation and thread (§2, §5, §7 A).

use super::{Set, verified, want};
use crate::forge::{Forge, Manifest, THREAD, authority, hex, key, tagged};
use threadseal_core::encoding;
use threadseal_core::key::Signer as _;

const OFF_CURVE: &str = "0200000000000000000000000000000000000000000000000000000000000000";
const SMALL_ORDER: [(&str, &str); 4] = [
    (
        "zero",
        "0000000000000000000000000000000000000000000000000000000000000000",
    ),
    (
        "one",
        "0100000000000000000000000000000000000000000000000000000000000000",
    ),
    (
        "of-order-8",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    ),
    (
        "of-order-8-signed",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    ),
];
/// The encoding of 3 by p + 3.
const NOT_REDUCED: &str = "f0ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f";

pub(super) fn add(set: &mut Set) {
    members(set);
    values(set);
    keys(set);
    delegations(set);
    delegations_allowed(set);
    spelled_freely(set);
    threads(set);
    bad_threads(set);
}

fn plain() -> Manifest {
    Manifest::of(authority().public_key(), 7)
}

/// A whole record of key 1 with this line 1.
fn record(manifest: &str) -> Forge {
    let mut forge = Forge::bare(manifest, 7, THREAD);
    forge.seal(&authority()).finish(&authority());
    forge
}

fn missing(set: &mut Set, name: &str, rule: &str, manifest: &str) {
    let refused = want("tampered", &["manifest_missing"], 0);
    let mut forge = Forge::bare(manifest, 7, THREAD);
    forge.seal(&authority());
    set.add(&format!("manifest-{name}"), rule, &forge, refused);
}

fn members(set: &mut Set) {
    let names: Vec<String> = plain().0.into_iter().map(|(name, _)| name).collect();
    for (at, name) in names.iter().enumerate() {
        let mut less = plain();
        less.0.remove(at);
        missing(
            set,
            &format!("without-{name}"),
            "§2: exactly these members",
            &less.text(),
        );
        let other = match name.as_str() {
            "limits" | "capabilities" | "anchors" => "\"x\"",
            "directive" | "model" | "workspace" | "predecessor" | "parent" => "[]",
            _ => "7",
        };
        let other = plain().with(name, other).text();
        if at % 3 != 1 {
            missing(
                set,
                &format!("{name}-of-another-type"),
                "§2: type of a member",
                &other,
            );
        }
        if at % 5 == 0 && at > 0 {
            let mut swapped = plain();
            swapped.0.swap(at, at - 1);
            missing(
                set,
                &format!("{name}-too-early"),
                "§2: order of members",
                &swapped.text(),
            );
        }
    }
    let mut more = plain();
    more.0.push(("zebra".to_owned(), "1".to_owned()));
    missing(
        set,
        "member-more",
        "§2: exactly these members",
        &more.text(),
    );
    let mut twice = plain();
    twice.0.push(("meta".to_owned(), "{}".to_owned()));
    missing(set, "member-twice", "§1: strict reading", &twice.text());
    missing(set, "empty", "§2: exactly these members", "{}");
}

fn values(set: &mut Set) {
    let record = encoding::hex(&[7; 32]);
    let head = format!("\"{record}:0:1:{record}\"");
    for (name, member, value) in [
        ("format-2", "format", "\"threadseal/2\"".to_owned()),
        (
            "record-of-62-digits",
            "record",
            format!("\"{}\"", &record[2..]),
        ),
        (
            "record-upper-case",
            "record",
            format!("\"{}\"", "AB".repeat(32)),
        ),
        (
            "bodies-of-another-word",
            "bodies",
            "\"Detached\"".to_owned(),
        ),
        ("capability-no-text", "capabilities", "[\"a\",1]".to_owned()),
        ("anchor-no-text", "anchors", "[null]".to_owned()),
        ("limits-null", "limits", "null".to_owned()),
        ("meta-null", "meta", "null".to_owned()),
        ("predecessor-no-head", "predecessor", "\"x\"".to_owned()),
        (
            "parent-with-leading-zero",
            "parent",
            head.replace(":0:1:", ":00:1:"),
        ),
        (
            "parent-of-2-to-64",
            "parent",
            head.replace(":0:1:", ":0:18446744073709551616:"),
        ),
        ("parent-upper-case", "parent", head.replace("07", "0A")),
        ("parent-with-blank", "parent", head.replace("\"0", "\" 0")),
    ] {
        missing(
            set,
            name,
            "§2: value of a member",
            &plain().with(member, value).text(),
        );
    }
    for (name, member, value) in [
        ("parent", "parent", head.clone()),
        ("meta", "meta", "{\"a\":[{\"b\":null}]}".to_owned()),
    ] {
        let forge = self::record(&plain().with(member, value).text());
        set.add(
            &format!("manifest-with-{name}"),
            "§2: allowed",
            &forge,
            verified(),
        );
    }
}

fn keys(set: &mut Set) {
    let good = hex(&key(3));
    let mut odd: Vec<(String, String)> = vec![
        ("off-the-curve".to_owned(), OFF_CURVE.to_owned()),
        ("not-reduced".to_owned(), NOT_REDUCED.to_owned()),
        ("upper-case".to_owned(), good.to_uppercase()),
        ("of-62-digits".to_owned(), good[2..].to_owned()),
        ("of-66-digits".to_owned(), format!("{good}00")),
    ];
    let small = SMALL_ORDER.iter();
    odd.extend(small.map(|(name, text)| (format!("small-order-{name}"), (*text).to_owned())));
    let word = format!("\"{}\"", encoding::base64(&[0; 64]));
    for (at, (name, text)) in odd.iter().enumerate() {
        let text = format!("\"{text}\"");
        let rule = "§2: keys are public keys";
        let rye = plain().with("rye_key", text.clone()).text();
        missing(set, &format!("rye-key-{name}"), rule, &rye);
        if at % 3 != 0 {
            continue;
        }
        let first = plain()
            .with("key", text.clone())
            .with("delegation", word.clone());
        missing(set, &format!("key-{name}"), rule, &first.text());
        let authority = plain()
            .with("authority", text)
            .with("delegation", word.clone());
        missing(set, &format!("authority-{name}"), rule, &authority.text());
    }
}

fn first() -> threadseal_core::key::LocalSigner {
    key(3)
}

fn delegated() -> Manifest {
    plain().delegated(&authority(), first().public_key(), THREAD)
}

fn word(manifest: &Manifest) -> String {
    let word = manifest.0.iter().find(|(name, _)| name == "delegation");
    word.map_or_else(String::new, |(_, word)| word.clone())
}

fn delegations(set: &mut Set) {
    let null = delegated().with("delegation", "null").text();
    missing(
        set,
        "delegation-null-for-another-key",
        "§2: null exactly when",
        &null,
    );
    let own = plain().with("delegation", word(&delegated())).text();
    missing(
        set,
        "delegation-for-the-authority",
        "§2: null exactly when",
        &own,
    );
    let short = format!("\"{}\"", encoding::base64(&[0; 63]));
    let short = delegated().with("delegation", short).text();
    missing(
        set,
        "delegation-of-63-bytes",
        "§5: S is base64 of 64 bytes",
        &short,
    );
    let unpadded = word(&delegated()).replace('=', "");
    let unpadded = delegated().with("delegation", unpadded).text();
    missing(
        set,
        "delegation-without-padding",
        "§5: S is base64",
        &unpadded,
    );

    let of_other_record = Manifest::of(authority().public_key(), 8);
    let of_other_record = of_other_record.delegated(&authority(), first().public_key(), THREAD);
    let for_other_key = plain().delegated(&authority(), key(4).public_key(), THREAD);
    let event = Forge::begun().delegation(&authority(), &first());
    let event = event.rsplit('"').nth(1).map(|word| format!("\"{word}\""));
    for (name, other) in [
        (
            "stranger",
            word(&plain().delegated(&key(9), first().public_key(), THREAD)),
        ),
        (
            "the-first-key",
            word(&plain().delegated(&first(), first().public_key(), THREAD)),
        ),
        (
            "another-thread",
            word(&plain().delegated(&authority(), first().public_key(), "testkit/other")),
        ),
        ("another-record", word(&of_other_record)),
        ("another-key", word(&for_other_key)),
        ("an-event", event.unwrap_or_default()),
        ("zeros", format!("\"{}\"", encoding::base64(&[0; 64]))),
    ] {
        bad(set, name, &delegated().with("delegation", other).text());
    }
    bad(
        set,
        "a-changed-line",
        &delegated().with("model", "\"m\"").text(),
    );
    let spelled = delegated()
        .with("delegation", "null")
        .text()
        .replace(":[]", ": [ ]");
    let word = tagged(
        &authority(),
        "threadseal/1 first key",
        &[THREAD.as_bytes(), spelled.as_bytes()],
    );
    let spelled = spelled.replace("\"delegation\":null", &format!("\"delegation\":\"{word}\""));
    bad(set, "the-payload-as-spelled", &spelled);
    let word = self::word(&delegated());
    let large = encoding::parse_base64(word.trim_matches('"')).unwrap_or_default();
    let large = format!("\"{}\"", encoding::base64(&super::seals::plus_order(large)));
    bad(
        set,
        "a-large-s",
        &delegated().with("delegation", large).text(),
    );
}

/// The delegation of another thing.
fn bad(set: &mut Set, name: &str, manifest: &str) {
    let mut forge = Forge::bare(manifest, 7, THREAD);
    forge.seal(&first());
    let refused = want("forged", &["delegation_bad"], 0);
    set.add(
        &format!("delegation-of-{name}"),
        "§7 A 2, §5: S of line 1",
        &forge,
        refused,
    );
}

fn delegations_allowed(set: &mut Set) {
    let texts = plain()
        .with("model", "\"caf\\u00e9 / \\u007f\"")
        .with("limits", "{\"a\":100000.0,\"b\":{\"c\":0,\"d\":-0.0}}")
        .with("meta", "{\"\\ud83e\\udd80\":1,\"a\":[1.5]}");
    let sorted_meta = "{\"a\":[1.5],\"\\ud83e\\udd80\":1}";
    let signed = texts.clone().with("meta", sorted_meta);
    let signed = signed.delegated(&authority(), first().public_key(), THREAD);
    let spelled = signed
        .clone()
        .with("model", "\"\\u0063af\\u00E9 \\/ \\u007F\"");
    for (name, manifest) in [
        ("plain", delegated().text()),
        (
            "blanks",
            delegated()
                .text()
                .replace(":null", ": null")
                .replace("{}", "{ }"),
        ),
        ("escapes", spelled.text()),
        (
            "members-in-another-order",
            signed
                .clone()
                .with("meta", "{\"\\ud83e\\udd80\":1,\"a\":[1.5]}")
                .text(),
        ),
        (
            "numbers",
            signed
                .clone()
                .with("limits", "{\"b\":{\"d\":-0e0,\"c\":-0},\"a\":1E5}")
                .text(),
        ),
    ] {
        let mut forge = Forge::bare(&manifest, 7, THREAD);
        forge.seal(&first()).finish(&first());
        set.add(
            &format!("delegation-over-{name}"),
            "§5: line 1 written again",
            &forge,
            verified(),
        );
    }
    let unsorted = texts.delegated(&authority(), first().public_key(), THREAD);
    bad(set, "members-not-sorted", &unsorted.text());
    let manifest = plain().delegated(&authority(), first().public_key(), "café/1");
    let mut forge = Forge::bare(&manifest.text(), 7, "caf\\u00e9/1");
    forge.seal(&first()).finish(&first());
    set.add(
        "delegation-over-the-text-of-the-thread",
        "§5: the text of the thread id",
        &forge,
        verified(),
    );
}

fn spelled_freely(set: &mut Set) {
    let text = plain().text();
    let escaped = text.replace("\"format\"", "\"\\u0066ormat\"");
    for (name, manifest) in [
        ("blanks", text.replace("\":", "\" : ")),
        ("escaped-name", escaped),
        (
            "escaped-format",
            text.replace("threadseal/1", "thread\\u0073eal\\/1"),
        ),
    ] {
        let forge = record(&manifest);
        set.add(
            &format!("manifest-{name}"),
            "§2: blanks, escapes are free",
            &forge,
            verified(),
        );
    }
    missing(
        set,
        "blank-before-payload",
        "§1: first byte is {",
        &format!(" {text}"),
    );
    missing(set, "payload-array", "§1: one object", "[]");
    let mut forge = Forge::empty(7, THREAD);
    let line = forge.frame("thread_resumed", &text);
    forge.begin(&line).seal(&authority());
    let refused = want("tampered", &["manifest_missing"], 0);
    set.add(
        "manifest-of-another-type",
        "§7 A 1: no thread_started",
        &forge,
        refused,
    );
}

fn threads(set: &mut Set) {
    let wide = "\\u00e9".repeat(256);
    let long = "i".repeat(512);
    for (name, thread) in [
        ("of-512-bytes", long.as_str()),
        ("of-512-bytes-escaped", wide.as_str()),
        ("with-escapes", "a\\\"\\u200b\\ud83e\\udd80"),
    ] {
        let mut forge = Forge::bare(&plain().text(), 7, thread);
        forge.seal(&authority()).finish(&authority());
        set.add(
            &format!("thread-{name}"),
            "§1: ID, allowed",
            &forge,
            verified(),
        );
    }
    let wide = "\\u00e9".repeat(257);
    let long = "i".repeat(513);
    for (name, thread) in [
        ("of-513-bytes", long.as_str()),
        ("of-514-bytes-escaped", wide.as_str()),
        ("empty", ""),
        ("escaped", "\\u0074estkit/odd"),
        ("escaped-in-upper-case", "caf\\u00E9"),
        ("with-a-lone-surrogate", "a\\ud800"),
    ] {
        let mut forge = Forge::bare(&plain().text(), 7, thread);
        forge.seal(&authority());
        let refused = want("tampered", &["manifest_missing"], 0);
        set.add(
            &format!("thread-{name}"),
            "§1: ID, one spelling",
            &forge,
            refused,
        );
    }
}

fn bad_threads(set: &mut Set) {
    for (name, thread) in [
        ("absolute", "/a"),
        ("ends-in-slash", "a/"),
        ("empty-part", "a//b"),
        ("dot", "."),
        ("dot-dot", ".."),
        ("backslash", "a\\\\b"),
        ("nul", "a\\u0000"),
        ("next-line", "a\\u0085b"),
    ] {
        let mut forge = Forge::bare(&plain().text(), 7, thread);
        forge.seal(&authority()).finish(&authority());
        let no_path = want("malformed", &["thread_id_bad"], super::ALL);
        set.add(
            &format!("thread-{name}"),
            "§1, §7 D 5: ID is no path",
            &forge,
            no_path,
        );
    }
    let mut forge = Forge::bare(&plain().text(), 7, "a//b");
    forge.seal(&authority()).line(b"{}").seal(&authority());
    let both = want("tampered", &["line_malformed", "thread_id_bad"], 1);
    set.add(
        "thread-empty-part-and-a-fault",
        "§7 D: also after a failure",
        &forge,
        both,
    );
    // The delegation is one of another thread.
    let of_thread = |thread: &str| {
        let mut forge = Forge::bare(&delegated().text(), 7, thread);
        forge.seal(&first());
        forge
    };
    let both = want("forged", &["delegation_bad", "thread_id_bad"], 0);
    set.add(
        "thread-empty-part-and-a-bad-delegation",
        "§7 D 5: also after a failure of A 2",
        &of_thread("a//b"),
        both,
    );
    let bad = want("forged", &["delegation_bad"], 0);
    set.add(
        "thread-asked-for-and-a-bad-delegation",
        "§7 D 5: line 1 is a manifest, of this thread",
        &of_thread("a"),
        bad.thread("a"),
    );
    let both = want("forged", &["delegation_bad", "thread_differs"], 0);
    set.add(
        "thread-of-another-and-a-bad-delegation",
        "§7 D 5: also after a failure of A 2",
        &of_thread("a"),
        both.thread("b"),
    );
}
