//! Compares the quick way through a turn with the careful one.

use super::super::facts::both_ways;
use super::super::keys::Keys;
use super::*;
use std::path::Path;

/// Both ways give the same result for `text`; true when the quick one gave a result.
fn agree(text: &[u8]) -> bool {
    let mut keys = Keys::new(&[]);
    let (quick, careful) = both_ways(text, &mut keys);
    match quick {
        None => false,
        Some(quick) => {
            assert_eq!(quick, careful, "{}", String::from_utf8_lossy(text));
            true
        }
    }
}

/// A sealed turn with all that a turn may have, as canonical text.
fn full(signed: bool) -> Vec<u8> {
    let body = br#"{"a":[1,"x"]}"#;
    let hash = hash_text(&Digest::of(body));
    let json = format!(
        r#"{{"version":"scroll/0.1","turn":7,"role":"tool","model":{{"vendor":"v","id":"m","fingerprint":"f"}},"params":{{"temperature":0.5,"top_p":1,"seed":-3,"max_tokens":9}},"messages":[{{"role":"u","content":"é\n"}},{{"role":"u","content":[{{"t":null}}]}}],"tool_calls":[{{"id":"i","name":"n","args_hash":"{hash}","args":{{"a":[1,"x"]}}}}],"tool_results":[{{"id":"i","status":"ok","response_hash":"{hash}"}}],"timestamp_ns":1700000000000001000,"x":{{"y":true}}}}"#
    );
    let signer = signer(1);
    let signer = signed.then_some(&signer as &dyn Signer);
    let turn = deserialize(json.as_bytes()).unwrap();
    seal(turn, Some(Digest::of(b"p")), signer)
        .unwrap()
        .canonical()
        .to_vec()
}

#[test]
fn every_value_of_every_byte_of_a_sealed_turn_has_one_answer() {
    let text = full(false);
    assert!(agree(&text));
    let mut changed = text.clone();
    let mut quick = 0;
    for at in 0..text.len() {
        for byte in 0..=u8::MAX {
            changed[at] = byte;
            quick += usize::from(agree(&changed));
        }
        changed[at] = text[at];
    }
    assert!(quick > text.len(), "{quick}");
}

#[test]
fn every_bit_of_a_signature_has_one_answer() {
    let text = full(true);
    assert!(agree(&text));
    let from = text
        .windows(6)
        .position(|window| window == b"\"sig\":")
        .unwrap();
    let mut changed = text.clone();
    for at in from..text.len() {
        for bit in 0..8 {
            changed[at] ^= 1 << bit;
            agree(&changed);
            changed[at] = text[at];
        }
    }
}

#[test]
fn a_turn_cut_anywhere_or_with_a_member_twice_has_one_answer() {
    let text = full(true);
    for end in 0..text.len() {
        agree(&text[..end]);
        agree(&[&text[..end], b" ", &text[end..]].concat());
    }
    let whole = String::from_utf8(text).unwrap();
    let Value::Object(members) = json::parse(whole.as_bytes()).unwrap() else {
        panic!("a turn is an object");
    };
    for (name, _) in &members {
        let name = name.as_str().unwrap();
        let twice = format!(r#"{{"{name}":null,{}"#, &whole[1..]);
        assert!(!agree(twice.as_bytes()));
    }
}

#[test]
fn order_blanks_and_spellings_do_not_slow_a_turn_down() {
    let chain = json::parse(&full(true)).unwrap();
    let Value::Object(mut members) = chain else {
        panic!("a turn is an object");
    };
    members.reverse();
    let mut text = Vec::new();
    for (name, value) in &members {
        let value = String::from_utf8(jcs::to_vec(value).unwrap()).unwrap();
        let value = value
            .replace("0.5", "5.0e-1")
            .replace(',', " ,\t")
            .replace("\"t\"", "\"\\u0074x\"");
        text.extend_from_slice(format!("\n,\"{}\" : {value}", name.as_str().unwrap()).as_bytes());
    }
    text[1] = b'{';
    text.push(b'}');
    // The names in `content` have escapes now, which is unusual.
    assert!(!agree(&text));
    let plain = String::from_utf8(text).unwrap().replace("\\u0074x", "t");
    assert!(agree(plain.as_bytes()), "{plain}");
}

#[test]
fn every_member_with_every_kind_of_value_has_one_answer() {
    let values = r#"null true 0 -0 1.0 1e0 -1 1e400 9007199254740993 1e19 18446744073709551615
        18446744073709551616 1700000000000000001 9223372036854775808 0.1 "" "x" "ok" "o\u006b" "user"
        [] {} [1] [[]] [{}] [{"role":"u","content":""},3] {"vendor":"v","id":""}
        {"temperature":1,"top_p":1e999} "cbor" "\u001F""#;
    let mut seen = 0;
    for signed in [false, true] {
        let whole = json::parse(&full(signed)).unwrap();
        each_place(&whole, &mut Vec::new(), &mut |path| {
            for value in values.split_whitespace() {
                let mut text = Vec::new();
                spell(&whole, path, value, &mut text);
                agree(&text);
                seen += 1;
            }
        });
    }
    assert!(seen > 1000);
}

/// Passes the path of each value below `value`, as indexes.
fn each_place(value: &Value, path: &mut Vec<usize>, each: &mut impl FnMut(&[usize])) {
    let inner: Vec<&Value> = match value {
        Value::Object(members) => members.iter().map(|(_, value)| value).collect(),
        Value::Array(elements) => elements.iter().collect(),
        _ => return,
    };
    for (index, inner) in inner.into_iter().enumerate() {
        path.push(index);
        each(path);
        each_place(inner, path, each);
        path.pop();
    }
}

/// Writes `value` with the text `other` in place of the value at `path`.
fn spell(value: &Value, path: &[usize], other: &str, out: &mut Vec<u8>) {
    let Some((first, rest)) = path.split_first() else {
        return out.extend_from_slice(other.as_bytes());
    };
    let (open, close) = match value {
        Value::Object(_) => (b'{', b'}'),
        _ => (b'[', b']'),
    };
    let one = |out: &mut Vec<u8>, index: usize, inner: &Value| {
        if index == *first {
            spell(inner, rest, other, out);
        } else {
            out.extend_from_slice(&jcs::to_vec(inner).unwrap());
        }
    };
    out.push(open);
    match value {
        Value::Object(members) => {
            for (index, (name, inner)) in members.iter().enumerate() {
                out.extend_from_slice(if index > 0 { b"," } else { b"" });
                out.extend_from_slice(format!("\"{}\":", name.as_str().unwrap()).as_bytes());
                one(out, index, inner);
            }
        }
        Value::Array(elements) => {
            for (index, inner) in elements.iter().enumerate() {
                out.extend_from_slice(if index > 0 { b"," } else { b"" });
                one(out, index, inner);
            }
        }
        _ => {}
    }
    out.push(close);
}

#[test]
fn all_scrolls_of_the_testkit_have_one_answer() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testkit/scroll");
    let (mut turns, mut quick) = (0, 0);
    for inner in ["chains", "attacks"] {
        for entry in std::fs::read_dir(folder.join(inner)).unwrap() {
            let path = entry.unwrap().path();
            let container = match path.extension().and_then(|name| name.to_str()) {
                Some("json") => Container::Array,
                Some("jsonl") => Container::Lines,
                _ => continue,
            };
            let mut each = |piece: &[u8], _| {
                turns += 1;
                quick += usize::from(agree(piece));
            };
            let mut splitter = Splitter::new(container);
            splitter.push(&std::fs::read(path).unwrap(), &mut each);
            splitter.finish(&mut each);
        }
    }
    assert!(quick * 2 > turns && turns > 50, "{quick} of {turns}");
}
