//! Requests to a witness, which prove that a tree continues another: `spec/tlog.md`, "Asking a
//! witness".

use super::{Adder, answer, signed_by_the_log};
use crate::list::Short;
use crate::proof_forge::{LOG, LogPart, log_key, vkey};
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::merkle::{leaf_hash, node_hash, root};

fn leaves() -> Vec<Digest> {
    let entries = ["one", "two", "three", "four", "five"];
    entries
        .iter()
        .map(|entry| leaf_hash(entry.as_bytes()))
        .collect()
}

/// RFC 6962 §2.1.2: that the first `old` leaves are those of an older tree.
fn proof(leaves: &[Digest], old: usize, whole: bool) -> Vec<Digest> {
    if old == leaves.len() {
        return if whole { Vec::new() } else { vec![top(leaves)] };
    }
    let split = leaves.len().next_power_of_two() / 2;
    let (left, right) = leaves.split_at(split);
    if old <= split {
        [proof(left, old, whole), vec![top(right)]].concat()
    } else {
        [proof(right, old - split, false), vec![top(left)]].concat()
    }
}

fn top(leaves: &[Digest]) -> Digest {
    match leaves {
        [one] => *one,
        _ => {
            let split = leaves.len().next_power_of_two() / 2;
            node_hash(&top(&leaves[..split]), &top(&leaves[split..]))
        }
    }
}

fn request(old: &str, hashes: &[Digest], part: &LogPart) -> String {
    let hashes: String = hashes
        .iter()
        .map(|hash| format!("{}\n", encoding::base64(hash.as_bytes())))
        .collect();
    let (checkpoint, lines) = (&part.checkpoint, part.signatures.concat());
    format!("old {old}\n{hashes}\n{checkpoint}\n{lines}")
}

/// The tree of the first leaves, as a witness holds it.
fn last(size: usize) -> String {
    let root = encoding::base64(root(&leaves()[..size]).as_bytes());
    format!("{size}\n{root}\n")
}

pub(super) fn add(add: &mut Adder) {
    let own = [vkey(LOG, 1, &log_key())];
    let mut case =
        |name: &str, short: Short, request: &str, last: Option<String>, keys: &[String]| {
            let name = format!("consistency-{name}");
            let mut files: Vec<super::File<'_>> = vec![("request", ".request", request.as_bytes())];
            if let Some(last) = &last {
                files.push(("last", ".last", last.as_bytes()));
            }
            let rule = "tlog.md, \"Asking a witness\"";
            add.add(("consistency", &name), rule, keys, short, &files);
        };
    let part = LogPart::of("four");
    let leaves = leaves();
    for old in 1..=4 {
        let good = request(&old.to_string(), &proof(&leaves, old, true), &part);
        case(
            &format!("from-{old}"),
            answer("200"),
            &good,
            Some(last(old)),
            &own,
        );
    }
    let good = request("3", &proof(&leaves, 3, true), &part);
    case(
        "from-nothing",
        answer("200"),
        &request("0", &[], &part),
        None,
        &own,
    );
    case(
        "of-the-same-tree",
        answer("200"),
        &request("5", &[], &part),
        Some(last(5)),
        &own,
    );
    case(
        "from-another-root",
        answer("422"),
        &good,
        Some(last(2).replacen('2', "3", 1)),
        &own,
    );
    case(
        "with-a-hash-less",
        answer("422"),
        &request("3", &proof(&leaves, 3, true)[1..], &part),
        Some(last(3)),
        &own,
    );
    case(
        "with-a-hash-more",
        answer("422"),
        &request(
            "3",
            &[proof(&leaves, 3, true), vec![leaves[0]]].concat(),
            &part,
        ),
        Some(last(3)),
        &own,
    );
    case(
        "with-a-hash-from-nothing",
        answer("422"),
        &request("0", &leaves[..1], &part),
        None,
        &own,
    );
    let other = |size: &str| Short {
        size: Some(size.to_owned()),
        ..answer("409")
    };
    case("from-another-size", other("4"), &good, Some(last(4)), &own);
    case("never-cosigned", other("0"), &good, None, &own);
    case(
        "from-beyond",
        answer("400"),
        &request("6", &[], &part),
        Some(last(5)),
        &own,
    );
    case(
        "of-an-unknown-log",
        answer("404"),
        &good,
        Some(last(3)),
        &[vkey("example.com/other", 1, &log_key())],
    );
    case("without-keys", answer("404"), &good, Some(last(3)), &[]);
    let unsigned = LogPart {
        signatures: vec![part.cosigned(1, 100)],
        ..part.clone()
    };
    case(
        "that-the-log-did-not-sign",
        answer("403"),
        &request("3", &proof(&leaves, 3, true), &unsigned),
        Some(last(3)),
        &own,
    );
    let changed = LogPart {
        checkpoint: part.checkpoint.replacen("\n5\n", "\n6\n", 1),
        ..part.clone()
    };
    case(
        "with-a-bad-line",
        answer("403"),
        &request("3", &proof(&leaves, 3, true), &changed),
        Some(last(3)),
        &own,
    );
    let empty = signed_by_the_log(LogPart {
        checkpoint: part.checkpoint.replacen("\n5\n", "\n0\n", 1),
        ..part.clone()
    });
    case(
        "of-size-0-with-leaves",
        answer("422"),
        &request("0", &[], &empty),
        None,
        &own,
    );
    for (name, from, to) in [
        ("with-old-03", "old 3", "old 03"),
        ("without-old", "old 3\n", ""),
        ("without-a-blank-line", "\n\n", "\n"),
        ("without-a-checkpoint", "\n5\n", "\nfive\n"),
        ("with-a-bad-hash", "old 3\n", "old 3\nAAAA\n"),
    ] {
        let body = good.replacen(from, to, 1);
        assert_ne!(body, good, "{name}");
        case(name, answer("400"), &body, Some(last(3)), &own);
    }
}
