//! The members of `ext` (§3, §7 B 2): each right and wrong, known and unknown.

use super::script::record;
use super::{Set, verified, want};
use crate::forge::{authority, hex, key};

pub(super) fn add(set: &mut Set) {
    let head = "0909090909090909090909090909090909090909090909090909090909090909";
    let head = format!("{head}:3:900:{head}");
    wrong(set, &head);
    allowed(set, &head);
    unknown(set);
    fences(set);
}

/// The seal with this `ext` is behind seal 0.
fn at(set: &mut Set, name: &str, rule: &str, ext: &str, refused: (&'static str, &'static str)) {
    let (verdict, code) = refused;
    let mut forge = record("b1 t");
    forge.seal_with(&authority(), |seal| seal.ext = ext.to_owned());
    set.add(
        &format!("ext-{name}"),
        rule,
        &forge,
        want(verdict, &[code], 1),
    );
}

fn wrong(set: &mut Set, head: &str) {
    let good = hex(&key(4));
    let small = "01".to_owned() + &"00".repeat(31);
    for (name, ext) in [
        ("children-empty", "{\"children\":[]}".to_owned()),
        ("child-no-head", "{\"children\":[\"x\"]}".to_owned()),
        (
            "child-with-leading-zero",
            format!("{{\"children\":[\"{}\"]}}", head.replace(":3:", ":03:")),
        ),
        (
            "child-escaped",
            format!("{{\"children\":[\"\\u0030{}\"]}}", &head[1..]),
        ),
        ("fence-text", "{\"fence\":\"7\"}".to_owned()),
        (
            "fence-of-2-to-64",
            "{\"fence\":18446744073709551616}".to_owned(),
        ),
        (
            "next-key-upper-case",
            format!("{{\"next_key\":\"{}\"}}", good.to_uppercase()),
        ),
        (
            "next-key-of-small-order",
            format!("{{\"next_key\":\"{small}\"}}"),
        ),
        (
            "successor-of-62-digits",
            format!("{{\"successor\":\"{}\"}}", &head[..62]),
        ),
        ("successor-a-head", format!("{{\"successor\":\"{head}\"}}")),
        ("opt-number", "{\"opt_a\":1}".to_owned()),
        ("opt-escaped", "{\"opt_a\":\"\\u0041\"}".to_owned()),
        ("name-escaped", "{\"\\u0066ence\":7}".to_owned()),
        ("not-sorted", "{\"opt_b\":\"\",\"opt_a\":\"\"}".to_owned()),
        ("blank", "{\"fence\": 7}".to_owned()),
    ] {
        let refused = ("tampered", "checkpoint_malformed");
        at(set, name, "§3, §7 B 2: ext", &ext, refused);
    }
}

fn allowed(set: &mut Set, head: &str) {
    let record_id = &head[..64];
    let next = hex(&key(4));
    for (name, ext) in [
        ("child", format!("{{\"children\":[\"{head}\"]}}")),
        (
            "fence-largest",
            "{\"fence\":18446744073709551615}".to_owned(),
        ),
        ("successor", format!("{{\"successor\":\"{record_id}\"}}")),
    ] {
        let mut forge = record("b1 t c");
        forge.seal_with(&authority(), |seal| {
            seal.is_final = true;
            seal.ext = ext;
        });
        set.add(
            &format!("ext-with-{name}"),
            "§3: ext, allowed",
            &forge,
            verified(),
        );
    }
    let all = format!(
        "{{\"children\":[\"{head}\"],\"fence\":7,\"next_key\":\"{next}\",\"opt_a\":\"\",\"successor\":\"{record_id}\"}}"
    );
    let mut forge = record("b1 t s1 t");
    forge.seal_with(&authority(), |seal| seal.ext = all).turn();
    forge.event("thread_completed", "{}");
    forge.seal_with(&key(4), |seal| {
        seal.is_final = true;
        seal.ext = "{\"fence\":7}".to_owned();
    });
    set.add("ext-with-all", "§3: ext, allowed", &forge, verified());
}

fn unknown(set: &mut Set) {
    let refused = ("malformed", "ext_unknown");
    for (name, ext) in [
        ("unknown", "{\"zebra\":1}"),
        (
            "unknown-before-a-wrong-value",
            "{\"aardvark\":1,\"fence\":\"7\"}",
        ),
        ("unknown-before-a-known", "{\"zebra\":1,\"fence\":7}"),
    ] {
        at(set, name, "§3, §7 B 2: unknown is critical", ext, refused);
    }
    let refused = ("tampered", "checkpoint_malformed");
    let ext = "{\"fence\":\"7\",\"zebra\":1}";
    at(
        set,
        "wrong-value-before-an-unknown",
        "§7 B 2: the first member counts",
        ext,
        refused,
    );
}

fn fences(set: &mut Set) {
    let fenced = |fences: [&str; 3]| {
        let mut forge = record("b1");
        for fence in fences {
            forge.seal_with(&authority(), |seal| {
                if !fence.is_empty() {
                    seal.ext = format!("{{\"fence\":{fence}}}");
                }
            });
        }
        forge
    };
    let backwards = |good| want("tampered", &["fence_backwards"], good);
    for (name, fences, want) in [
        ("lower", ["7", "6", "6"], backwards(2)),
        ("gone", ["7", "", ""], backwards(2)),
        ("later", ["", "", "0"], super::open()),
    ] {
        let forge = fenced(fences);
        set.add(&format!("fence-{name}"), "§7 B 5: fence", &forge, want);
    }
}
