//! Each case states by its rule what a verifier answers.

use super::forge::{Scroll, scroll_key, timestamp};
use super::{ALL, Adder, Container, JSON, Want};
use crate::forge::hex;
use crate::list::Options;
use crate::values::{Value, map};
use threadseal_core::digest::Digest;

const LINES: [Container; 1] = [Container::Lines];
const ARRAY: [Container; 1] = [Container::Array];

pub(super) fn add(add: &mut Adder) {
    signers(add);
    links(add);
    turns(add);
    heads(add);
    protection(add);
    uncovered(add);
    containers(add);
}

fn with_head(head: String, exact: bool) -> Options {
    Options {
        head: Some(head),
        exact,
        ..Options::default()
    }
}

fn pinning(key: u8) -> Options {
    Options {
        pins: vec![hex(&scroll_key(key))],
        ..Options::default()
    }
}

fn other_digest() -> String {
    Digest::of(b"other").to_string()
}

fn signers(add: &mut Adder) {
    add.add("signed", "nothing is found", &ALL, |scroll| {
        scroll.signed();
        Want::new("verified", &[], Some(2))
    });
    add.add(
        "key-unknown",
        "§8.4 step 1: no one vouches for the key",
        &ALL,
        |scroll| {
            for _ in 0..2 {
                scroll.turn(Some(3));
            }
            Want::new("unknown_signer", &["key_unknown"], None)
        },
    );
    add.add(
        "key-unknown-beside-a-known",
        "§8.5: every signer must count",
        &ALL,
        |scroll| {
            scroll.turn(Some(1)).turn(Some(3)).turn(Some(1));
            Want::new("unknown_signer", &["key_unknown"], None)
        },
    );
    add.add(
        "key-of-another-usage",
        "§8.4 step 1: the key is trusted for other things",
        &JSON,
        |scroll| {
            scroll.signed();
            let options = Options {
                usage: Some("native"),
                trust: Some(vec![hex(&scroll_key(1))]),
                ..Options::default()
            };
            Want::new("unknown_signer", &["key_out_of_scope"], None).asked(options)
        },
    );
    add.add(
        "key-pinned",
        "§8.4 step 1: the pinned key",
        &ALL,
        |scroll| {
            scroll.signed();
            Want::new("verified", &[], Some(2)).asked(pinning(1))
        },
    );
    add.add(
        "key-other-than-pinned",
        "§8.4 step 1: another key is pinned",
        &ALL,
        |scroll| {
            scroll.signed();
            Want::new("unknown_signer", &["other_signer"], None).asked(pinning(2))
        },
    );
    add.add(
        "signature-of-another-turn",
        "§8.2 step 7.2",
        &ALL,
        |scroll| {
            scroll.turn(Some(1));
            let first = scroll.turns[0].value.get("sig").cloned();
            scroll.turn(Some(1)).spoil(|turn| {
                turn.set("sig", first.expect("a signature"));
            });
            scroll.turn(Some(1));
            Want::new("forged", &["signature_bad"], Some(0))
        },
    );
    add.add(
        "signature-of-another-key",
        "§8.2 step 7.2",
        &ALL,
        |scroll| {
            scroll.turn(Some(1)).turn(Some(1));
            let key = scroll.turns[0]
                .value
                .get("sig")
                .map(|sig| sig.text_of("pubkey"));
            let mut other = Scroll::new(scroll.container);
            other.turn(Some(3));
            let mut sig = other.turns[0]
                .value
                .get("sig")
                .cloned()
                .expect("a signature");
            sig.set("pubkey", key.expect("a key"));
            scroll.turn(Some(1)).spoil(|turn| {
                turn.set("sig", sig);
            });
            Want::new("forged", &["signature_bad"], Some(1))
        },
    );
    add.add(
        "signature-of-a-wrong-hash",
        "§8.2 step 7.2: with a wrong hash it is no second finding",
        &ALL,
        |scroll| {
            scroll.turn(Some(1)).turn(Some(1)).spoil(|turn| {
                turn.set("role", "system");
            });
            scroll.turn(Some(1));
            Want::new("tampered", &["hash_wrong"], Some(0))
        },
    );
    add.add("key-of-small-order", "§8.2 step 7.1", &ALL, |scroll| {
        scroll.turn(Some(1)).turn(Some(1)).spoil(|turn| {
            let mut sig = turn.get("sig").cloned().expect("a signature");
            sig.set("pubkey", format!("AQ{}=", "A".repeat(41)));
            turn.set("sig", sig);
        });
        Want::new("forged", &["key_unusable"], Some(0))
    });
}

fn links(add: &mut Adder) {
    add.add(
        "predecessor-of-turn-0",
        "§8.2 step 3: turn 0 names a predecessor",
        &ALL,
        |scroll| {
            scroll.altered(Some(1), |turn| {
                turn.set("prev_hash", format!("sha256:{}", other_digest()));
            });
            scroll.turn(Some(1));
            Want::new("truncated", &["predecessor_missing"], None)
        },
    );
    add.add(
        "predecessor-and-a-later-number",
        "§8.2 steps 3 and 4: the beginning is gone",
        &ALL,
        |scroll| {
            scroll.signed().turns.remove(0);
            Want::new("truncated", &["predecessor_missing", "turn_gap"], None)
        },
    );
    add.add("link-to-another-turn", "§8.2 step 3", &ALL, |scroll| {
        scroll.turn(Some(1)).altered(Some(1), |turn| {
            turn.set("prev_hash", format!("sha256:{}", other_digest()));
        });
        scroll.turn(Some(1));
        Want::new("tampered", &["chain_broken"], Some(0))
    });
    add.add("link-absent", "§8.2 step 3", &ALL, |scroll| {
        scroll.turn(Some(1)).altered(Some(1), |turn| {
            turn.remove("prev_hash");
        });
        Want::new("tampered", &["chain_broken"], Some(0))
    });
    add.add("turns-swapped", "§8.2 steps 3 and 4", &ALL, |scroll| {
        scroll.signed().turns.swap(1, 2);
        Want::new(
            "tampered",
            &["chain_broken", "turn_gap", "turn_repeated"],
            Some(0),
        )
    });
    add.add("turn-taken", "§8.2 steps 3 and 4", &ALL, |scroll| {
        scroll.signed().turns.remove(1);
        Want::new("tampered", &["chain_broken", "turn_gap"], Some(0))
    });
    add.add("number-with-a-gap", "§8.2 step 4", &ALL, |scroll| {
        scroll.turn(Some(1)).altered(Some(1), |turn| {
            turn.set("turn", 5);
        });
        scroll.altered(Some(1), |turn| {
            turn.set("turn", 6);
        });
        Want::new("truncated", &["turn_gap"], Some(0))
    });
    add.add("number-again", "§8.2 step 4", &ALL, |scroll| {
        scroll.turn(Some(1)).altered(Some(1), |turn| {
            turn.set("turn", 0);
        });
        scroll.altered(Some(1), |turn| {
            turn.set("turn", 1);
        });
        Want::new("tampered", &["turn_repeated"], Some(0))
    });
    add.add(
        "number-behind-a-wrong-hash",
        "§8.1: the number is not known behind a wrong hash",
        &ALL,
        |scroll| {
            scroll.turn(Some(1)).turn(Some(1)).spoil(|turn| {
                turn.set("turn", 9);
            });
            scroll.turn(Some(1));
            Want::new("tampered", &["hash_wrong"], Some(0))
        },
    );
}

fn turns(add: &mut Adder) {
    add.add("role-unknown", "§8.2 step 1", &ALL, |scroll| {
        scroll.turn(Some(1)).altered(Some(1), |turn| {
            turn.set("role", "robot");
        });
        scroll.turn(Some(1));
        Want::new("tampered", &["schema_violation"], Some(0))
    });
    add.add(
        "no-turn-can-be-read",
        "§8.2 step 1: no turn has a right hash",
        &ALL,
        |scroll| {
            scroll.altered(None, |turn| {
                turn.set("version", "scroll/0.2");
            });
            Want::new("malformed", &["schema_violation", "unsigned"], None)
        },
    );
    add.add(
        "sig-of-another-length",
        "§3: base64 of 64 bytes",
        &ALL,
        |scroll| {
            scroll.turn(Some(1)).turn(Some(1)).spoil(|turn| {
                let mut sig = turn.get("sig").cloned().expect("a signature");
                sig.set("sig", "AAAA");
                turn.set("sig", sig);
            });
            Want::new("tampered", &["schema_violation"], Some(0))
        },
    );
    add.add("hash-wrong", "§8.2 step 2", &ALL, |scroll| {
        scroll.turn(Some(1)).turn(Some(1)).spoil(|turn| {
            turn.set("hash", format!("sha256:{}", other_digest()));
        });
        Want::new("tampered", &["hash_wrong"], Some(0))
    });
    add.add("encoding-mixed", "§8.2 step 5", &JSON, |scroll| {
        scroll.turn(Some(1)).altered(Some(1), |turn| {
            turn.set("enc", "cbor");
        });
        Want::new("malformed", &["encoding_mixed"], Some(0))
    });
    add.add(
        "turn-without-enc",
        "§8.2 step 1: in a sequence each turn has it",
        &[Container::Sequence],
        |scroll| {
            scroll.turn(Some(1)).altered(Some(1), |turn| {
                turn.remove("enc");
            });
            Want::new("tampered", &["schema_violation"], Some(0))
        },
    );
    add.add(
        "cbor-in-json",
        "§7: turns in JSON may have `enc`",
        &JSON,
        |scroll| {
            for _ in 0..2 {
                scroll.altered(Some(1), |turn| {
                    turn.set("enc", "cbor");
                });
            }
            Want::new("verified", &[], Some(1))
        },
    );
    add.add("body", "§4: the hash of a body", &ALL, |scroll| {
        scroll.altered(Some(1), |turn| {
            turn.set("tool_calls", calls(&body(1), &body(1)));
        });
        Want::new("verified", &[], Some(0))
    });
    add.add("body-of-another-hash", "§8.2 step 6", &ALL, |scroll| {
        scroll.turn(Some(1)).altered(Some(1), |turn| {
            turn.set("tool_calls", calls(&body(2), &body(1)));
        });
        Want::new("tampered", &["body_hash_wrong"], Some(0))
    });
    add.add("too-old", "§8.2 step 8", &ALL, |scroll| {
        scroll.signed();
        let options = Options {
            oldest: Some((timestamp(1) + 1).to_string()),
            ..Options::default()
        };
        Want::new("rolled_back", &["turn_too_old"], None).asked(options)
    });
    add.add("old-enough", "§8.2 step 8", &JSON, |scroll| {
        scroll.signed();
        let options = Options {
            oldest: Some(timestamp(0).to_string()),
            ..Options::default()
        };
        Want::new("verified", &[], Some(2)).asked(options)
    });
}

fn body(number: i64) -> Value {
    map([("n", number.into())])
}

fn calls(args: &Value, hashed: &Value) -> Value {
    let hash = Digest::of(hashed.sorted().as_bytes());
    Value::List(vec![map([
        ("id", "c".into()),
        ("name", "search".into()),
        ("args_hash", format!("sha256:{hash}").into()),
        ("args", args.clone()),
    ])])
}

fn heads(add: &mut Adder) {
    add.add("head-last", "§8.4 step 3: met", &ALL, |scroll| {
        scroll.signed();
        let head = scroll.head(2);
        Want::new("verified", &[], Some(2)).asked(with_head(head, true))
    });
    add.add(
        "head-digest",
        "§8.4 step 3: a digest is met",
        &ALL,
        |scroll| {
            scroll.signed();
            let head = format!("sha256:{}", scroll.turns[1].hash());
            Want::new("verified", &[], Some(2)).asked(with_head(head, false))
        },
    );
    add.add("head-not-last", "§8.4 step 3", &ALL, |scroll| {
        scroll.signed();
        let head = scroll.head(1);
        Want::new("open", &["head_not_last"], Some(2)).asked(with_head(head, true))
    });
    add.add(
        "head-differs",
        "§8.4 step 3: another size",
        &ALL,
        |scroll| {
            scroll.signed();
            let (record, line) = (scroll.turns[0].hash(), scroll.turns[1].hash());
            let head = format!("{record}:1:9:{line}");
            Want::new("forked", &["head_differs"], Some(0)).asked(with_head(head, false))
        },
    );
    add.add("head-of-another-record", "§8.4 step 3", &ALL, |scroll| {
        scroll.signed();
        let head = format!("{}:1:9:{}", other_digest(), scroll.turns[1].hash());
        Want::new("foreign", &["record_differs"], Some(2)).asked(with_head(head, false))
    });
    add.add(
        "head-ahead",
        "§8.4 step 3: beyond the end",
        &ALL,
        |scroll| {
            scroll.signed();
            let head = format!("{}:3:9:{}", scroll.turns[0].hash(), other_digest());
            Want::new("truncated", &["head_ahead"], Some(2)).asked(with_head(head, false))
        },
    );
    add.add(
        "head-of-a-turn-with-a-wrong-hash",
        "§8.4 step 3: only a right hash meets one",
        &ALL,
        |scroll| {
            scroll.signed();
            let head = scroll.head(1);
            scroll.turns[1].value.set("role", "system");
            Want::new("tampered", &["hash_wrong", "head_ahead"], Some(0))
                .asked(with_head(head, false))
        },
    );
    add.add("head-missing", "§8.4 step 3", &ALL, |scroll| {
        scroll.signed();
        Want::new("truncated", &["head_missing"], Some(2)).asked(with_head(other_digest(), false))
    });
    add.add(
        "head-and-turn-0-unreadable",
        "§7: without turn 0 no head is met",
        &ALL,
        |scroll| {
            scroll.signed();
            let head = scroll.turns[2].hash();
            scroll.turns[0].value.set("role", "robot");
            Want::new("tampered", &["head_missing", "schema_violation"], None)
                .asked(with_head(head, false))
        },
    );
    for (name, length, verdict, codes) in [
        ("length-right", 3, "verified", &[][..]),
        ("length-more", 4, "truncated", &["length_differs"]),
        ("length-fewer", 2, "open", &["length_differs"]),
    ] {
        add.add(name, "§8.4 step 4", &JSON, |scroll| {
            scroll.signed();
            let options = Options {
                length: Some(length),
                ..Options::default()
            };
            Want::new(verdict, codes, Some(2)).asked(options)
        });
    }
}

fn protection(add: &mut Adder) {
    add.add("unsigned", "§8.4 step 5.3", &ALL, |scroll| {
        scroll.turn(None).turn(None);
        Want::new("consistent", &["unsigned"], None)
    });
    add.add("unsigned-held", "§8.4 step 5.3: held", &ALL, |scroll| {
        scroll.turn(None).turn(None);
        let head = scroll.head(1);
        Want::new("verified", &["unsigned"], Some(1)).asked(with_head(head, false))
    });
    add.add(
        "unsigned-held-up-to-a-turn",
        "§8.4 step 5.3: turns follow",
        &ALL,
        |scroll| {
            scroll.turn(None).turn(None).turn(None);
            let head = scroll.head(1);
            Want::new("unsigned_tail", &["unsigned", "unsigned_tail"], Some(1))
                .asked(with_head(head, false))
        },
    );
    add.add("tail-unsigned", "§8.4 step 5.4", &ALL, |scroll| {
        scroll.turn(Some(1)).turn(None);
        Want::new("unsigned_tail", &["unsigned_tail"], Some(0))
    });
    add.add(
        "tail-unsigned-held",
        "§8.4 step 5.4: also where a head covers it",
        &ALL,
        |scroll| {
            scroll.turn(Some(1)).turn(None);
            let head = scroll.head(1);
            Want::new("unsigned_tail", &["unsigned_tail"], Some(1)).asked(with_head(head, false))
        },
    );
    add.add("turn-unsigned", "§8.4 step 6", &ALL, |scroll| {
        scroll.turn(None).turn(Some(1));
        Want::new("partial", &["turn_unsigned"], Some(1))
    });
    add.add(
        "turn-unsigned-by-v01",
        "§8.4: `--profile scroll-v0.1`",
        &JSON,
        |scroll| {
            scroll.turn(None).turn(Some(1));
            let options = Options {
                profile: Some("scroll-v0.1"),
                ..Options::default()
            };
            Want::new("verified", &["turn_unsigned"], Some(1)).asked(options)
        },
    );
    add.add(
        "turn-unsigned-and-a-pinned-key",
        "§8.4 steps 5.2 and 6",
        &ALL,
        |scroll| {
            scroll.turn(None).turn(Some(1));
            Want::new("tampered", &["signature_missing", "turn_unsigned"], Some(1))
                .asked(pinning(1))
        },
    );
    add.add(
        "unsigned-and-a-pinned-key",
        "§8.4 step 5.2",
        &ALL,
        |scroll| {
            scroll.turn(None);
            Want::new("tampered", &["signature_missing"], None).asked(pinning(1))
        },
    );
    add.add(
        "unreadable-behind-the-last-signed",
        "§8.4 step 5: such a turn has its finding",
        &ALL,
        |scroll| {
            scroll.turn(Some(1)).altered(Some(1), |turn| {
                turn.set("role", "robot");
            });
            Want::new("tampered", &["schema_violation"], Some(0))
        },
    );
}

fn uncovered(add: &mut Adder) {
    add.add("number-inexact", "§8.2 step 10", &JSON, |scroll| {
        scroll.turn(Some(1)).respell(":0.5", ":0.50000000000000001");
        Want::new("partial", &["number_inexact"], Some(0))
    });
    add.add(
        "number-spelled-longer",
        "§8.2 step 10: another length is no finding",
        &JSON,
        |scroll| {
            scroll.turn(Some(1)).respell(":0.5", ":5e-1");
            Want::new("verified", &[], Some(0))
        },
    );
    add.add("escape-of-another-case", "§8.2 step 10", &JSON, |scroll| {
        scroll.altered(Some(1), |turn| {
            turn.set("note", "\u{1f}");
        });
        scroll.respell("\\u001f", "\\u001F");
        Want::new("partial", &["spelling_uncovered"], Some(0))
    });
    add.add("sig-with-a-member-more", "§8.2 step 10", &JSON, |scroll| {
        scroll.turn(Some(1)).spoil(|turn| {
            let mut sig = turn.get("sig").cloned().expect("a signature");
            sig.set("by", "me");
            turn.set("sig", sig);
        });
        Want::new("partial", &["sig_member_uncovered"], Some(0))
    });
    add.add("timestamp-inexact", "§8.4 step 7", &JSON, |scroll| {
        scroll.turn(Some(1)).respell("000000000,", "000000001,");
        Want::new("verified", &["timestamp_inexact"], Some(0))
    });
    add.add(
        "timestamp-inexact-strictly",
        "§8.2 step 10: each digit counts",
        &JSON,
        |scroll| {
            scroll.turn(Some(1)).respell("000000000,", "000000001,");
            let options = Options {
                strict_digits: true,
                ..Options::default()
            };
            Want::new("partial", &["number_inexact"], Some(0)).asked(options)
        },
    );
    add.add(
        "number-inexact-by-v01",
        "§8.4: `--profile scroll-v0.1`",
        &JSON,
        |scroll| {
            scroll.turn(Some(1)).respell(":0.5", ":0.50000000000000001");
            let options = Options {
                profile: Some("scroll-v0.1"),
                ..Options::default()
            };
            Want::new("verified", &["number_inexact"], Some(0)).asked(options)
        },
    );
}

fn containers(add: &mut Adder) {
    add.add(
        "torn",
        "§8.3 step 2",
        &[Container::Lines, Container::Sequence],
        |scroll| {
            scroll.signed().change = |bytes| bytes[..bytes.len() - 20].to_vec();
            Want::new("unsigned_tail", &["torn_tail"], Some(1))
        },
    );
    add.add(
        "torn-in-an-array",
        "§8.3 step 2: `array_unended` alone reports it",
        &ARRAY,
        |scroll| {
            scroll.signed().change = |bytes| bytes[..bytes.len() - 20].to_vec();
            Want::new("truncated", &["array_unended"], Some(1))
        },
    );
    add.add(
        "torn-and-blanks",
        "§7: blanks behind a piece are none of it",
        &LINES,
        |scroll| {
            scroll.signed().change = |bytes| [&bytes[..bytes.len() - 20], b" \t "].concat();
            Want::new("unsigned_tail", &["torn_tail"], Some(1))
        },
    );
    add.add("unended", "§8.3 step 2: a whole turn", &LINES, |scroll| {
        scroll.signed().change = |bytes| bytes[..bytes.len() - 1].to_vec();
        Want::new("verified", &["unended_turn"], Some(2))
    });
    add.add(
        "unended-and-blanks",
        "§7: blanks behind a piece are none of it",
        &LINES,
        |scroll| {
            scroll.signed().change = |bytes| [&bytes[..bytes.len() - 1], b"  \r"].concat();
            Want::new("verified", &["unended_turn"], Some(2))
        },
    );
    add.add("unended-array", "§8.3 step 1", &ARRAY, |scroll| {
        scroll.signed().change = |bytes| bytes[..bytes.len() - 1].to_vec();
        Want::new("truncated", &["array_unended"], Some(2))
    });
    add.add(
        "cut-item-of-another-kind",
        "§7: no beginning of a deterministic item",
        &[Container::Sequence],
        |scroll| {
            scroll.signed().change = |bytes| [&bytes[..], b"[]"].concat();
            Want::new("tampered", &["schema_violation", "unended_turn"], Some(2))
        },
    );
    add.add(
        "cut-item-of-any-length",
        "§7: a beginning, whatever it promises",
        &[Container::Sequence],
        |scroll| {
            scroll.signed().change = |bytes| [&bytes[..], &[0xbb, 0xff, 0xff]].concat();
            Want::new("unsigned_tail", &["torn_tail"], Some(2))
        },
    );
    add.add(
        "bytes-that-are-no-item",
        "§7: additional information 28",
        &[Container::Sequence],
        |scroll| {
            scroll.signed().change = |bytes| [&bytes[..], &[0x1c]].concat();
            Want::new("tampered", &["stray_bytes"], Some(2))
        },
    );
    add.add("bytes-behind-the-array", "§8.3 step 1", &ARRAY, |scroll| {
        scroll.signed().change = |bytes| [&bytes[..], b"x"].concat();
        Want::new("tampered", &["stray_bytes"], Some(2))
    });
    add.add("comma-behind-the-last", "§7", &ARRAY, |scroll| {
        scroll.signed().change = |bytes| [&bytes[..bytes.len() - 1], b",]"].concat();
        Want::new("tampered", &["stray_bytes"], Some(2))
    });
    add.add(
        "brace-behind-a-comma",
        "§7: it closes nothing, and is no piece",
        &ARRAY,
        |scroll| {
            scroll.signed().change = |bytes| [&bytes[..bytes.len() - 1], b",}"].concat();
            Want::new("tampered", &["stray_bytes"], Some(2))
        },
    );
    add.add("brace-alone", "§7: it is no piece", &ARRAY, |scroll| {
        scroll.change = |_| b"[}".to_vec();
        Want::new("malformed", &["scroll_empty", "stray_bytes"], None)
    });
    add.add("empty", "§8.4 step 5.1", &ARRAY, |_| {
        Want::new("unsigned", &["scroll_empty"], None)
    });
    add.add(
        "no-array",
        "§8.3 step 1: nothing more is read",
        &ARRAY,
        |scroll| {
            scroll.signed().change = |bytes| [b"(", &bytes[1..]].concat();
            Want::new("malformed", &["no_array", "scroll_empty"], None)
        },
    );
    add.add(
        "first-byte-changed",
        "§7: a sequence stays one",
        &[Container::Sequence],
        |scroll| {
            scroll.signed().change = |bytes| [&[bytes[0] ^ 0x80], &bytes[1..]].concat();
            Want::new("tampered", &["schema_violation"], None)
        },
    );
}
