//! The worked examples of `spec/scroll.md` and of the CBOR section of `spec/canon.md`, computed
//! again.

use crate::scene::*;
use threadseal_core::canon::{cbor, json};
use threadseal_core::encoding::hex;
use threadseal_formats::scroll::{Encoding, deserialize, seal, serialize};
use threadseal_testkit::in_repository;

fn example(title: &str, name: &str) -> String {
    example_line("spec/scroll.md", title, name)
}

#[test]
fn the_turn_of_the_specification_is_sealed_as_it_says() {
    let turn = deserialize(example("turn", "turn").as_bytes()).unwrap();
    assert_eq!(serialize(&turn), example("turn", "canonical").as_bytes());
    let sealed = seal(turn, None, Some(&signer(1, KeyUsage::Scroll))).unwrap();
    assert_eq!(format!("sha256:{}", sealed.hash()), example("turn", "hash"));
    let sig = sealed.as_value().get("sig").unwrap();
    assert_eq!(
        sig.get("sig").unwrap().as_str(),
        Some(&*example("turn", "sig"))
    );
}

#[test]
fn the_cbor_turn_of_the_specification_is_hashed_as_it_says() {
    let turn = deserialize(example("cbor", "turn").as_bytes()).unwrap();
    assert_eq!(turn.encoding(), Encoding::Cbor);
    assert_eq!(hex(&serialize(&turn)), example("cbor", "covered"));
    assert_eq!(deserialize(&serialize(&turn)).unwrap(), turn);
    let sealed = seal(turn, None, None).unwrap();
    assert_eq!(format!("sha256:{}", sealed.hash()), example("cbor", "hash"));
}

#[test]
fn the_cbor_example_of_canonical_text_is_computed_as_it_says() {
    let spec = std::fs::read_to_string(in_repository("spec/canon.md")).unwrap();
    let block = spec.split("```cbor\n").nth(1).unwrap();
    let value = |head: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(head));
        line.unwrap().to_owned()
    };
    let parsed = json::parse(value("value: ").as_bytes()).unwrap();
    let bytes = cbor::to_vec(&parsed).unwrap();
    assert_eq!(hex(&bytes), value("bytes: ").replace(' ', ""));
    assert_eq!(cbor::to_vec(&cbor::parse(&bytes).unwrap()).unwrap(), bytes);
}
