//! Every file of `testkit/ledger` has the verdict, and the finding, that `expect.toml` names.

use crate::scene::*;
use std::collections::BTreeSet;
use std::fs;
use threadseal_formats::ledger::{ChainOptions, Judging, RunId, judge};
use threadseal_testkit::in_repository;

fn options(flags: &[&str]) -> ChainOptions {
    let mut options = ChainOptions::default();
    match flags {
        [] => {}
        ["--run", run] => options.run = Some(RunId::parse(run).unwrap()),
        ["--expect-head", head] => options.expect.push(Expectation::given(
            ExpectedHead::parse(head).unwrap(),
            false,
        )),
        other => panic!("{other:?}"),
    }
    options
}

// T-LED-06 T-LED-11
#[test]
fn each_file_has_the_verdict_that_is_written_beside_it() {
    let folder = in_repository("testkit/ledger");
    let expect = toml_file(folder.join("expect.toml"));
    let (mut named, mut wrong) = (BTreeSet::new(), Vec::new());
    for vector in expect["vector"].as_array().unwrap() {
        let file = vector["file"].as_str().unwrap();
        named.insert(file.to_owned());
        let flags = vector.get("flags").and_then(|flags| flags.as_array());
        let flags = flags.into_iter().flatten().filter_map(|flag| flag.as_str());
        let flags: Vec<_> = flags.collect();
        let bytes = fs::read(folder.join(file)).unwrap();
        let trust = Trust::default();
        let report = judge(&bytes, options(&flags), &Judging::new(&trust, now())).report;
        let codes = codes(&report);
        let finding = vector.get("finding").and_then(|finding| finding.as_str());
        let told = finding.is_none_or(|finding| codes.contains(&finding));
        if report.verdict.as_str() != vector["verdict"].as_str().unwrap() || !told {
            wrong.push(format!("{file} {flags:?}: {} {codes:?}", report.verdict));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    for part in ["chains", "attacks"] {
        for entry in fs::read_dir(folder.join(part)).unwrap() {
            let name = entry.unwrap().file_name();
            let name = format!("{part}/{}", name.to_str().unwrap());
            assert!(named.contains(&name), "{name} has no verdict");
        }
    }
}
