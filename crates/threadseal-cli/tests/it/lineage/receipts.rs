//! Receipts that igor's nodes sign.

use crate::prelude::*;

/// Two receipts for `counter` by the node with [`NODE`].
const FILE: &[u8] = include_bytes!("../../../../../testkit/lineage/receipts.bin");
const NODE: &str = "6e7a1cdd29b0b78fd13af4c5598feff4ef2a97166e3ca6f2e4fbfccd80505bf1";

fn ask(bytes: &[u8], more: &str) -> Ran {
    let sandbox = Sandbox::new();
    sandbox.write("receipts", bytes);
    let line = format!("lineage receipts receipts --json {more}");
    sandbox.run(line.split_whitespace())
}

#[track_caller]
fn says(bytes: &[u8], more: &str, code: i32, standing: &str) {
    let told = ask(bytes, more).exits(code).json();
    let receipts = told["receipts"].list();
    assert!(
        receipts
            .iter()
            .any(|receipt| receipt["standing"] == standing),
        "{told}"
    );
}

#[test]
fn a_receipt_counts_by_a_node_that_was_named_and_no_other() {
    says(FILE, "", 3, "self_consistent");
    says(FILE, &format!("--node {NODE} --agent counter"), 0, "holds");
    let other = "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c";
    says(FILE, &format!("--node {other}"), 1, "foreign");
    says(FILE, &format!("--node {other} --node {NODE}"), 0, "holds");
    says(FILE, "--agent another", 1, "foreign");
    let mut cheaper = FILE.to_vec();
    let cost = 4 + 4 + (4 + "counter".len()) + (4 + 52) + 16;
    cheaper[cost] ^= 1;
    says(&cheaper, &format!("--node {NODE}"), 1, "forged");
    let mut renamed = FILE.to_vec();
    renamed[4 + 4 + 11 + 4] ^= 1;
    says(&renamed, "", 3, "unknown_node");
    says(&renamed, &format!("--node {NODE}"), 1, "foreign");
}

#[test]
fn what_is_no_file_of_receipts_has_no_verdict_and_costs_nothing() {
    for bytes in [&[0xff; 4][..], b"", &[0; 4], &FILE[..FILE.len() - 1]] {
        ask(bytes, "").exits(2);
    }
}
