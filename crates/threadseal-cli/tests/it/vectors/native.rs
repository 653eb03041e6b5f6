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
    let sandbox = Sandbox::new();
    let key = &list.trusted_key;
    let store = format!(
        "version = 1\n\n[[key]]\nname = \"testkit\"\nkey = \"{key}\"\nusage = [\"native\"]\n"
    );
    let trust = sandbox.write("trust.toml", store);
    let mut named = BTreeSet::from(["expect.toml".to_owned()]);
    for Vector {
        file,
        verdict,
        flags,
        why,
    } in list.vector
    {
        let path = folder.join(&file);
        let mut command = sandbox.command();
        command
            .args(["verify", "--json", "--trust"])
            .arg(&trust)
            .args(flags)
            .arg(&path);
        let output = command.output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            report["results"][0]["verdict"], verdict,
            "{file} ({why}): {report:#}"
        );
        assert_eq!(output.status.code(), Some(exits[&verdict]), "{file}");
        named.insert(format!("{file}.seal"));
        named.insert(file);
    }
    for entry in fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(named.contains(&name), "{name} is in no list");
    }
}
