//! Rye's signature, alone and under a native seal: `spec/documents.md` §5 to §7, §8.1 steps 3 to 7.

use super::forge::{Seal, fields};
use super::{Adder, Want};
use crate::forge::{hex, key, rye};
use crate::list::Options;
use threadseal_core::digest::Digest;
use threadseal_core::key::Signer as _;

pub(super) fn add(add: &mut Adder) {
    texts(add);
    json(add);
    signatures(add);
    suffixes(add);
    two_members(add);
    key_files(add);
}

fn under(profile: &'static str) -> Options {
    Options {
        profile: Some(profile),
        ..Options::default()
    }
}

fn verified() -> Want {
    Want::new("verified", &[])
}

fn texts(add: &mut Adder) {
    let body = "echo ok\n";
    let good = format!("#!/bin/sh\n# {}\n{body}", fields(body));
    // The shebang line is outside of the hash: one would read it.
    add.add(
        ("rye-shell", ".sh"),
        "§8.1 step 3: a shebang line is a gap",
        good.as_bytes(),
        Want::new("partial", &["uncovered"]),
    );
    add.add(
        ("rye-shell-by-its-profile", ".sh"),
        "§8.1 step 6: gaps are warnings",
        good.as_bytes(),
        Want::new("verified", &["uncovered"])
            .asked(under("rye"))
            .with_gaps(),
    );
    let bare = format!("# {}\n{body}", fields(body));
    add.add(
        ("rye-shell-without-a-shebang", ".sh"),
        "§8.1 step 3",
        bare.as_bytes(),
        Want::new("partial", &["shebang_uncovered"]),
    );
    let moved = format!("# {}\n#!/bin/sh\n{body}", fields(body));
    add.add(
        ("rye-shell-with-a-shebang-behind", ".sh"),
        "§8.1 step 3: the file does not begin with it",
        moved.as_bytes(),
        Want::new("partial", &["shebang_uncovered", "uncovered"]),
    );
    let cut = format!("# {}\n#!/bin/sh", fields("#!/bin/sh"));
    add.add(
        ("rye-shell-that-ends-in-its-first-line", ".sh"),
        "§6: without its LF it is no shebang line, and hashed along",
        cut.as_bytes(),
        Want::new("partial", &["shebang_uncovered"]),
    );
    let yaml = format!("# {}\na: 1\n", fields("a: 1\n"));
    add.add(("rye-yaml", ".yaml"), "§6", yaml.as_bytes(), verified());
    add.add(
        ("rye-yaml-edited", ".yaml"),
        "§8.1 step 3",
        yaml.replace("a: 1", "a: 2").as_bytes(),
        Want::new("tampered", &["content_modified"]),
    );
    add.add(
        ("rye-yaml-with-junk", ".yaml"),
        "§8.1 step 3: behind FIELDS",
        yaml.replacen("\na", " x\na", 1).as_bytes(),
        Want::new("tampered", &["header_junk"]),
    );
    add.add(
        ("rye-yaml-with-crlf", ".yaml"),
        "§8.1 step 3: HASH is the hash only with CR LF read as LF",
        yaml.replace('\n', "\r\n").as_bytes(),
        Want::new("tampered", &["newlines_changed"]),
    );
    let forged = yaml.replacen(&fields("a: 1\n")[100..110], "AAAAAAAAAA", 1);
    add.add(
        ("rye-yaml-forged-and-with-crlf", ".yaml"),
        "§8.1 step 3: all of these are checked",
        forged.replace('\n', "\r\n").as_bytes(),
        Want::new("forged", &["bad_signature", "newlines_changed"]),
    );
    let twice = format!("# {}\n{yaml}", fields(&yaml));
    add.add(
        ("rye-yaml-signed-twice", ".yaml"),
        "§6: the hash covers the second header",
        twice.as_bytes(),
        verified(),
    );
    markdown(add);
    let looks = format!("a: 1\n  # {}\n", fields("a: 1\n"));
    add.add(
        ("rye-header-elsewhere", ".yaml"),
        "§8.1 step 5: another place",
        looks.as_bytes(),
        Want::new("unsigned", &["header_not_read", "unsigned"]),
    );
    let looks = format!("a: 1\n\r#{}\n", fields("a: 1\n"));
    add.add(
        ("rye-header-behind-cr", ".yaml"),
        "§8.1 step 5: CR and blanks are left out",
        looks.as_bytes(),
        Want::new("unsigned", &["header_not_read", "unsigned"]),
    );
}

fn markdown(add: &mut Adder) {
    let body = "# Rules\n\nBe kind.\n";
    let knowledge = format!("<!-- {} -->\n{body}", fields(body));
    add.add(
        ("rye-knowledge", ".md"),
        "§6",
        knowledge.as_bytes(),
        verified(),
    );
    let block = "<directive name=\"d\">\nDo it.\n</directive>";
    let directive = format!("<!-- {} -->\nbefore\n{block}\n", fields(block));
    add.add(
        ("rye-directive", ".md"),
        "§8.1 step 3: text around the block is a gap",
        directive.as_bytes(),
        Want::new("partial", &["uncovered"]),
    );
    let plain = format!("<!-- {} -->\n{block}\n", fields(block));
    add.add(
        ("rye-directive-alone", ".md"),
        "§6",
        plain.as_bytes(),
        verified(),
    );
    let second = format!("{plain}<!-- {} -->\n", fields(block));
    add.add(
        ("rye-directive-and-a-second-header", ".md"),
        "§8.1 step 3",
        second.as_bytes(),
        Want::new("tampered", &["second_header", "uncovered"]),
    );
    let behind = second.replacen("</directive>\n", "</directive>", 1);
    add.add(
        ("rye-directive-and-fields-on-its-line", ".md"),
        "§8.1 step 3: no line begins there",
        behind.as_bytes(),
        Want::new("partial", &["uncovered"]),
    );
    let fed = plain.replacen("</directive>\n", "</directive>\x0c\n", 1);
    add.add(
        ("rye-directive-and-a-form-feed", ".md"),
        "§8.1 step 3: a form feed is no blank",
        fed.as_bytes(),
        Want::new("partial", &["uncovered"]),
    );
    let item = Options {
        item: Some("directive"),
        ..Options::default()
    };
    add.add(
        ("rye-directive-without-a-block", ".md"),
        "§8.1 step 3: it has no gaps",
        second.replace("</directive>", "</directiv>").as_bytes(),
        Want::new("tampered", &["content_modified"]).asked(item),
    );
    let header = format!("<!-- {} -->", fields(""));
    add.add(
        ("rye-header-without-lf", ".md"),
        "§8.1 step 3: the line's end has an LF; §6: it is hashed along",
        header.as_bytes(),
        Want::new("tampered", &["content_modified", "header_junk"]),
    );
}

fn json(add: &mut Adder) {
    let signed = |members: &str| {
        let fields = fields(&format!("{{{members}}}"));
        format!("{{{members},\"_signature\":\"{fields}\"}}\n")
    };
    let good = signed("\"a\":1");
    add.add(("rye-json", ".json"), "§7", good.as_bytes(), verified());
    add.add(
        ("rye-json-edited", ".json"),
        "§8.1 step 3",
        good.replace(":1,", ":2,").as_bytes(),
        Want::new("tampered", &["content_modified"]),
    );
    add.add(
        ("rye-json-with-a-tail", ".json"),
        "§8.1 step 3: even a single LF",
        good.replace("\"}\n", "\\n\"}\n").as_bytes(),
        Want::new("malformed", &["signature_tail"]),
    );
    add.add(
        ("rye-json-with-a-name-twice", ".json"),
        "§8.1 step 5",
        good.replacen("{\"a\":1", "{\"a\":0,\"a\":1", 1).as_bytes(),
        Want::new("tampered", &["duplicate_key"]),
    );
    for (name, value, verdict, codes) in [
        (
            "rye-json-signature-number",
            "7",
            "malformed",
            &["signature_not_text"][..],
        ),
        (
            "rye-json-signature-other",
            "\"me\"",
            "malformed",
            &["signature_unreadable"],
        ),
        (
            "rye-json-signature-empty",
            "\"\"",
            "unsigned",
            &["signature_empty", "unsigned"],
        ),
        ("rye-json-signature-null", "null", "unsigned", &["unsigned"]),
    ] {
        let file = format!("{{\"a\":1,\"_signature\":{value}}}\n");
        add.add(
            (name, ".json"),
            "§8.1 steps 3 and 5",
            file.as_bytes(),
            Want::new(verdict, codes),
        );
    }
    let thread = signed("\"capabilities\":[],\"thread_id\":\"t\"");
    add.add(
        ("rye-json-of-a-thread", ".json"),
        "§8.1 step 3: `thread.json` without its members",
        thread.as_bytes(),
        Want::new("malformed", &["thread_json_incomplete"]),
    );
}

fn signatures(add: &mut Adder) {
    let body = "a: 1\n";
    let good = fields(body);
    let padded = good.replacen("==", "=", 1);
    for (name, header, verdict, codes) in [
        (
            "rye-signature-of-one-padding",
            padded,
            "forged",
            &["signature_encoding"][..],
        ),
        (
            "rye-time-that-does-not-exist",
            good.replace("2026-02-18", "2026-02-30"),
            "malformed",
            &["impossible_time"],
        ),
        (
            "rye-signature-unpadded",
            good.replace("==", ""),
            "verified",
            &[],
        ),
    ] {
        let file = format!("# {header}\n{body}");
        add.add(
            (name, ".yaml"),
            "§8.1 step 3",
            file.as_bytes(),
            Want::new(verdict, codes),
        );
    }
    let file = format!("# {good}\n{body}");
    let trusting = |keys: Vec<String>| Options {
        trust: Some(keys),
        ..Options::default()
    };
    add.add(
        ("rye-key-unknown", ".yaml"),
        "§8.1 step 3: no known key",
        file.as_bytes(),
        Want::new("unknown_signer", &["unknown_signer"]).asked(trusting(vec![hex(&key(1))])),
    );
    let broken = file.replacen("==", "=", 1);
    add.add(
        ("rye-key-unknown-and-a-signature-of-one-padding", ".yaml"),
        "§8.1 step 3: no key is tried",
        broken.as_bytes(),
        Want::new("forged", &["signature_encoding"]).asked(trusting(vec![hex(&key(1))])),
    );
    add.add(
        ("rye-key-trusted-for-seals", ".yaml"),
        "§8.1 step 4: usage `rye`",
        file.as_bytes(),
        Want::new("unknown_signer", &["key_out_of_scope"]).asked(trusting(vec![hex(&rye())])),
    );
    add.add(
        ("rye-under-profile-native", ".yaml"),
        "§8.1 step 6: the native seal only",
        file.as_bytes(),
        Want::new("unsigned", &["unsigned"]).asked(under("native")),
    );
    add.add(
        ("rye-edited-under-profile-native", ".yaml"),
        "§8.1 step 6: findings count whichever signature counts",
        file.replace("a: 1", "a: 2").as_bytes(),
        Want::new("tampered", &["content_modified", "unsigned"]).asked(under("native")),
    );
}

fn suffixes(add: &mut Adder) {
    let body = "a: 1\n";
    let good = fields(body);
    let seal = Seal::of("yaml");
    let (bytes, _) = seal.between(&format!("# {good}|threadseal@"), &format!("\n{body}"));
    add.add(
        ("rye-and-a-seal", ".yaml"),
        "§3 place 3",
        &bytes,
        verified(),
    );
    let text = String::from_utf8(bytes).expect("UTF-8");
    add.add(
        ("rye-and-a-seal-edited", ".yaml"),
        "§8.1 steps 2 and 3",
        text.replace("a: 1", "a: 2").as_bytes(),
        Want::new("tampered", &["content_modified", "seal_mismatch"]),
    );
    add.add(
        ("rye-and-a-seal-of-another-provider", ".yaml"),
        "§3: a claim, whatever PROVIDER is",
        text.replace("|threadseal@", "|threadsea1@").as_bytes(),
        Want::new("malformed", &["seal_unreadable"]),
    );
    let (bytes, _) = seal.text(body);
    let sealed = String::from_utf8(bytes).expect("UTF-8");
    let over = format!("# {}\n{sealed}", fields(&sealed));
    add.add(
        ("rye-over-a-seal", ".yaml"),
        "§3 place 1: a text without a Rye header",
        over.as_bytes(),
        Want::new("malformed", &["seal_unreadable"]),
    );
    add.add(
        ("rye-and-a-registry", ".yaml"),
        "§5: PROVIDER and USER are covered by nothing",
        format!("# {good}|hub@me\n{body}").as_bytes(),
        verified(),
    );
}

/// Both signatures in JSON, the seal in a member of its own.
fn two_members(add: &mut Adder) {
    // In the order of Rye's canonical text.
    let (bytes, _) = Seal::of("json").json("\"A\":1");
    let sealed = String::from_utf8(bytes).expect("UTF-8");
    let over = sealed.trim_end().trim_end_matches('}');
    let signature = fields(&format!("{over}}}"));
    let over = format!("{over},\"_signature\":\"{signature}\"}}\n");
    add.add(
        ("rye-json-over-a-seal", ".json"),
        "§3 place 2: an object without a Rye signature",
        over.as_bytes(),
        Want::new("malformed", &["seal_unreadable"]),
    );
    let signature = fields("{\"a\":1}");
    let (bytes, _) = Seal::of("json").json(&format!("\"a\":1,\"_signature\":\"{signature}\""));
    add.add(
        ("rye-json-under-a-seal", ".json"),
        "§3 place 2: an object without a Rye signature",
        &bytes,
        Want::new("tampered", &["content_modified", "seal_unreadable"]),
    );
    for (name, value, codes) in [
        ("null", "null", &[][..]),
        ("empty", "\"\"", &["signature_empty"]),
    ] {
        let (bytes, _) = Seal::of("json").json(&format!("\"a\":1,\"_signature\":{value}"));
        add.add(
            (&format!("seal-beside-a-signature-{name}"), ".json"),
            "§3 place 2: it is no Rye signature",
            &bytes,
            Want::new("verified", codes),
        );
    }
}

fn key_files(add: &mut Adder) {
    let file = |number: u8, fingerprint: &str| {
        let public = *key(number).public_key();
        format!(
            "fingerprint = \"{fingerprint}\"\n\n[public_key]\npem = \"\"\"\n{}\"\"\"\n",
            public.to_pem()
        )
    };
    let own = |number: u8| key(number).public_key().rye_fingerprint().to_hex();
    let stranger = file(3, &own(3));
    add.add(
        ("key-file-unsigned", ".toml"),
        "§8.3",
        stranger.as_bytes(),
        Want::new("forged", &["key_vouches_for_itself"]),
    );
    add.add(
        ("key-file-of-another-fingerprint", ".toml"),
        "§8.3",
        file(3, &own(1)).as_bytes(),
        Want::new(
            "forged",
            &["fingerprint_mismatch", "key_vouches_for_itself"],
        ),
    );
    add.add(
        ("key-file-that-is-no-toml", ".toml"),
        "§8.3: key files are TOML",
        format!("-----\n{stranger}").as_bytes(),
        Want::new("unsigned", &["unsigned"]),
    );
    let behind = stranger.replacen("-----\n\"\"\"", "-----\n\u{2028}\"\"\"", 1);
    add.add(
        ("key-file-with-a-separator-behind-its-key", ".toml"),
        "§8.3: no blank of keys-and-trust.md §1, so another text",
        behind.as_bytes(),
        Want::new(
            "forged",
            &["fingerprint_mismatch", "key_vouches_for_itself"],
        ),
    );
    let own = &Digest::of(b"no key\n").to_hex()[..16];
    let text = format!("fingerprint = \"{own}\"\n\n[public_key]\npem = \"no key\"\n");
    add.add(
        ("key-file-of-a-text-that-is-no-key", ".toml"),
        "§8.3: the fingerprint of the text, whatever that is",
        text.as_bytes(),
        Want::new("forged", &["key_vouches_for_itself"]),
    );
    let numbers = [
        ("largest-integer", "-9223372036854775808", true),
        ("integer-too-large", "9223372036854775808", false),
        ("integer-too-large-in-hex", "0x8000000000000000", false),
        ("infinity", "-inf", true),
        ("number-too-large", "1e400", false),
    ];
    for (name, number, is_read) in numbers {
        add.add(
            (&format!("key-file-with-{name}"), ".toml"),
            "§8.3: the numbers of a key file",
            format!("version = {number}\n{stranger}").as_bytes(),
            match is_read {
                true => Want::new("forged", &["key_vouches_for_itself"]),
                false => Want::new("unsigned", &["unsigned"]),
            },
        );
    }
    let signed = format!("# {}\n{stranger}", fields(&stranger));
    add.add(
        ("key-file-signed", ".toml"),
        "§8.3",
        signed.as_bytes(),
        verified(),
    );
    let (sealed, _) = Seal::of("toml").text(&stranger);
    add.add(
        ("key-file-sealed", ".toml"),
        "§8.3: the file claims a native seal",
        &sealed,
        verified(),
    );
}
