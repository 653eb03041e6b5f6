//! Names that most modules of these tests use: keys by their seeds, examples of specifications,
//! indexes of vectors.

use std::fs;
use std::path::Path;
use threadseal_testkit::in_repository;

pub(crate) use serde_json::Value;
pub(crate) use threadseal_core::digest::Digest;
pub(crate) use threadseal_core::key::{KeyUsage, LocalSigner, PublicKey, Signer};
pub(crate) use threadseal_core::record::{ExpectedHead, RecordId, ThreadId};
pub(crate) use threadseal_core::report::{CheckResult, Expectation, Report, Severity, Verdict};
pub(crate) use threadseal_core::testing::{codes, is, key, micros, now, shown, signer, trust_in};
pub(crate) use threadseal_core::time::Timestamp;
pub(crate) use threadseal_core::trust::Trust;
pub(crate) use threadseal_testkit::beside_repository;

/// The block after `<!-- example: name -->` of a specification.
pub(crate) fn example(spec: &str, name: &str) -> String {
    let spec = fs::read_to_string(in_repository(spec)).unwrap();
    let marker = format!("<!-- example: {name} -->");
    let (_, rest) = spec.split_once(&marker).unwrap_or_else(|| panic!("{name}"));
    let block = rest.split("```").nth(1).unwrap();
    block.strip_prefix('\n').unwrap().to_owned()
}

/// The rest of the line of an example that begins with this word.
pub(crate) fn example_line(spec: &str, name: &str, word: &str) -> String {
    let block = example(spec, name);
    let line = block
        .lines()
        .find(|line| line.split(' ').next() == Some(word));
    line.unwrap()[word.len()..].trim_start().to_owned()
}

pub(crate) fn json_file(path: impl AsRef<Path>) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

pub(crate) fn toml_file(path: impl AsRef<Path>) -> toml::Table {
    fs::read_to_string(path).unwrap().parse().unwrap()
}

/// The key of a PEM file.
pub(crate) fn pem_file(path: impl AsRef<Path>) -> PublicKey {
    PublicKey::from_pem(&fs::read_to_string(path).unwrap()).unwrap()
}
