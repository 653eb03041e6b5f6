//! `testkit/transcripts/native`: native records and observed logs, through the command.

use crate::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    trusted_key: String,
    vector: Vec<Vector>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    file: String,
    verdict: String,
    #[serde(default)]
    flags: Vec<String>,
    why: String,
}

#[test]
fn every_native_vector_gets_its_verdict_and_none_is_forgotten() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testkit/transcripts/native");
    let text = read(folder.join("expect.toml"));
    let list: List = toml::from_str(&text).unwrap();
    let exits = super::Expectations::read().exit;
    let sandbox = super::testkit(&list.trusted_key, "native");
    let mut named = BTreeSet::from(["expect.toml".to_owned()]);
    for Vector {
        file,
        verdict,
        flags,
        why,
    } in list.vector
    {
        let (code, report) = super::judge(&sandbox, &flags, &folder.join(&file));
        assert_eq!(report["verdict"], verdict, "{file} ({why}): {report:#}");
        assert_eq!(code, exits[&verdict], "{file}");
        named.insert(format!("{file}.seal"));
        named.insert(file);
    }
    for entry in fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(named.contains(&name), "{name} is in no list");
    }
}
