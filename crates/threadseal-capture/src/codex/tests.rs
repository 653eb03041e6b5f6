//! A program that speaks as Codex does, and a `config.toml` that was edited.

use super::*;
use crate::agent::machine::tests::machine;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use threadseal_store::sys::RealFs;

fn record_of(keys: &[&str], before: Option<&str>) -> Record {
    let mut record = record(Path::new("/c"), before, &Journal::default());
    record.entries = keys.iter().map(|key| (*key).to_owned()).collect();
    record
}

fn entry(key: &str) -> String {
    format!("[hooks.state.\"{key}\"]\ntrusted_hash = \"sha256:00\"\n")
}

// T-CAP-09
#[test]
fn entries_of_ours_are_removed_and_all_else_of_the_file_stays() {
    let mine = entry("/h:stop:0:0");
    let [a, b] = ["/h:stop:1:0", "/h:post_tool_use:0:0"];
    let before = format!("# mine\nmodel = \"x\"\n\n[hooks.state]\n\n{mine}");
    let (ours_a, ours_b) = (entry(a), entry(b));
    let after =
        format!("{before}\n{ours_a}\n{ours_b}\n[projects.\"/p\"]\ntrust_level = \"trusted\"\n");
    let left = without_entries(&after, &record_of(&[a, b], Some(&before)));
    assert_eq!(
        left,
        format!("{before}\n[projects.\"/p\"]\ntrust_level = \"trusted\"\n")
    );
    let alone = format!("[hooks.state]\n\n{ours_a}\n{ours_b}");
    assert_eq!(without_entries(&alone, &record_of(&[a, b], None)), "");
    let gone = without_trust(&alone, &record_of(&[a, b], None));
    assert!(matches!(gone, RemovalAction::Strip { text: None, .. }));
    let appended = format!("model = \"x\"\n\n[hooks.state]\n\n{ours_a}\n[tui]\nx = 1\n");
    let left = without_entries(&appended, &record_of(&[a], Some("model = \"x\"\n")));
    assert_eq!(left, "model = \"x\"\n\n[tui]\nx = 1\n");
    assert_eq!(
        without_trust(&mine, &record_of(&[a], None)),
        RemovalAction::Nothing
    );
}

/// A program that speaks as `codex app-server` does, with `hooks` as its list. It trusts what it is
/// asked to.
fn fake_codex(folder: &Path, hooks: &str) -> PathBuf {
    let program = folder.join("codex");
    let script = format!(
        r#"#!/bin/sh
while read -r line; do
  case $line in
    *'"initialize"'*) echo '{{"method":"notice","params":{{}}}}'; echo '{{"id":1,"result":{{}}}}' ;;
    *hooks/list*)
      id=${{line#*'"id":'}}; id=${{id%%[,\}}]*}}
      status=untrusted; [ ! -f "$CODEX_HOME/config.toml" ] || status=trusted
      printf '%s\n' '{hooks}' | sed "s/STATUS/$status/g; s/NUMBER/$id/" ;;
    *config/batchWrite*) printf '%s\n' "$line" > "$CODEX_HOME/config.toml"; echo '{{"id":3,"result":{{}}}}' ;;
  esac
done
"#
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

// T-CAP-14
#[test]
fn only_hooks_of_ours_in_our_file_are_trusted() {
    let user = tempfile::tempdir().unwrap();
    let machine = machine(user.path());
    let home = user.path().join(".codex");
    fs::create_dir(&home).unwrap();
    let file = home.join("hooks.json");
    let hook = |key: &str, command: &str, source: &Path| {
        format!(
            r#"{{"key":"{key}","eventName":"stop","command":"{command}","sourcePath":"{}","enabled":true,"currentHash":"sha256:{key}","trustStatus":"STATUS"}}"#,
            source.display()
        )
    };
    let other = Path::new("/project/.codex/hooks.json");
    let hooks = [
        hook("ours", "/opt/threadseal hook codex", &file),
        hook("theirs", "curl evil", &file),
        hook("project", "/opt/threadseal hook codex", other),
    ];
    let list = format!(
        r#"{{"id":NUMBER,"result":{{"data":[{{"hooks":[{}]}}]}}}}"#,
        hooks.join(",")
    );
    let program = fake_codex(user.path(), &list);
    let folder = user.path().join("capture");
    assert_eq!(
        trust_hooks(&program, &machine, &folder, &RealFs).unwrap(),
        1
    );
    let written = fs::read_to_string(home.join("config.toml")).unwrap();
    assert!(written.contains("sha256:ours"), "{written}");
    assert!(
        !written.contains("theirs") && !written.contains("project"),
        "{written}"
    );
    let journal = Journal::read(&RealFs, &folder).unwrap();
    let record = journal.file(&home.join("config.toml")).unwrap();
    assert_eq!(
        (record.before.as_ref(), record.entries.as_slice()),
        (None, &["ours".to_owned()][..])
    );
    assert!(record.wrote(&written));
}

#[test]
fn a_codex_without_this_protocol_is_an_error_with_a_reason() {
    let user = tempfile::tempdir().unwrap();
    let program = user.path().join("codex");
    for (script, why) in [
        ("exit 1", "no answer"),
        (
            "read a; echo '{\"id\":1,\"error\":{\"message\":\"too old\"}}'; read b",
            "too old",
        ),
    ] {
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let refused = AppServer::start(&program, user.path(), user.path()).unwrap_err();
        let text = refused.to_string();
        assert!(
            text.contains(why) || text.contains("takes no input"),
            "{text}"
        );
    }
}
