//! Files of a project, and everything that tries to lead out of it.

use super::*;
use crate::testing::prelude::*;

/// A project, and the tools for its files.
struct Files {
    scene: Scene,
    read: ReadFile,
    write: WriteFile,
}

impl Files {
    fn new() -> Self {
        let scene = Scene::new();
        let (fs, project) = (&scene.host.fs, Arc::new(scene.project.clone()));
        Self {
            read: ReadFile::new(Arc::clone(fs), Arc::clone(&project)),
            write: WriteFile::new(Arc::clone(fs), project),
            scene,
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.scene.path(path)
    }

    fn reads(&self, input: impl Into<Value>) -> Outcome {
        call(&self.read, input)
    }

    /// The error of a write in this mode.
    fn error_of(&self, path: &str, mode: &str) -> Option<String> {
        call(
            &self.write,
            json!({"path": path, "content": "x", "mode": mode}),
        )
        .error
    }

    #[track_caller]
    fn refuses(&self, path: &str) -> String {
        let error = self.error_of(path, "overwrite");
        error.unwrap_or_else(|| panic!("{path:?} was written"))
    }
}

#[test]
fn a_file_is_written_and_read_again_in_parts() {
    let files = Files::new();
    let path = "out/a.txt";
    let wrote = call(&files.write, json!({"path": path, "content": "1\n2\n3\n"}));
    assert_eq!(wrote, Outcome::ok(json!({"path": path, "bytes": 6})));
    let more = json!({"path": path, "content": "4\n", "mode": "append"});
    call(&files.write, more);
    let whole = files.path("").canonicalize().unwrap().join(path);
    for (input, text) in [
        (json!({"path": "./out/a.txt"}), "1\n2\n3\n4\n"),
        (json!({"path": whole.to_str().unwrap()}), "1\n2\n3\n4\n"),
        (json!({"path": path, "offset": 2, "limit": 1}), "2\n"),
        (json!({"path": path, "offset": 4}), "4\n"),
    ] {
        assert_eq!(files.reads(input), Outcome::ok(text));
    }
    for mode in ["create", "w"] {
        assert!(files.error_of(path, mode).is_some(), "{mode}");
    }
}

// T-TOL-05
#[test]
fn nothing_outside_the_project_is_read_or_written() {
    let (files, outside) = (Files::new(), folder());
    let secret = outside.path().join("secret");
    fs::write(&secret, "s").unwrap();
    symlink(outside.path(), files.path("link")).unwrap();
    symlink(&secret, files.path("file")).unwrap();
    let absolute = secret.to_str().unwrap();
    for path in [
        "../x",
        "a/../../x",
        "link/secret",
        "file",
        absolute,
        "",
        ".",
        "a\0b",
    ] {
        assert!(
            files.reads(json!({ "path": path })).error.is_some(),
            "{path:?}"
        );
        files.refuses(path);
    }
    assert_eq!(fs::read(&secret).unwrap(), b"s");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

// T-TOL-05
#[test]
fn records_settings_and_trust_are_not_for_models_to_write() {
    let files = Files::new();
    for path in [
        ".ai/agent/threads/t/transcript.jsonl",
        "./.ai/agent/threads/registry.db",
        ".ai/config/keys/trusted/x.toml",
        ".ai/config/agent/hooks.yaml",
        ".ai/config/agent/resilience.yaml",
        ".ai/config/x",
        ".ai/config",
        ".ai/knowledge/agent/threads/x.md",
        ".ai/knowledge/agent/graphs/x.md",
        ".AI/Config/agent/hooks.yaml",
        ".ai\u{200b}/conf\u{ad}ig/agent/hooks.yaml",
        ".ai/Agent/threads/x",
        ".ai/config./x",
    ] {
        files.refuses(path);
    }
    assert_eq!(files.error_of(".ai/notes.md", "overwrite"), None);
}

// T-TOL-06
#[test]
fn an_item_is_written_by_who_may_sign_it_however_its_folder_is_spelled() {
    let files = Files::new();
    fs::create_dir_all(files.path(".ai/own")).unwrap();
    symlink("own", files.path(".ai/graphs")).unwrap();
    symlink(".ai/tools", files.path("ln")).unwrap();
    let may = |capability: &str, path: &str| {
        let capabilities = Capabilities::parse([capability]).unwrap();
        let tool = files.write.under(&capabilities).unwrap();
        call(&*tool, json!({"path": path, "content": "x"})).error
    };
    for (path, needed) in [
        (".ai/tools/safe/rm.yaml", "rye.sign.tool.safe.rm"),
        (".ai/tools/safe/rm.YML", "rye.sign.tool.safe.rm"),
        (".ai/tools/safe/rm.py", "rye.sign.tool.safe.rm"),
        (".ai/tools/safe/lib.txt", "rye.sign.tool.safe.lib.txt"),
        (".ai/tools/rm.yaml", "rye.sign.tool.rm"),
        ("ln/safe/rm.yaml", "rye.sign.tool.safe.rm"),
        (".ai/directives/a/b.md", "rye.sign.directive.a.b"),
        (".ai/knowledge/a/b.md", "rye.sign.knowledge.a.b"),
        (".ai/graphs/a/b.yaml", "rye.sign.graph.a.b"),
        (".ai/own/a/b.yaml", "rye.sign.graph.a.b"),
        (".AI/Tools/safe/rm.yaml", "rye.sign.tool.safe.rm"),
        (".ai/too\u{200b}ls/safe/rm.yaml", "rye.sign.tool.safe.rm"),
        (".ai/\u{212a}nowledge/a.md", "rye.sign.knowledge.a"),
        (".ai/tool\u{17f}/a.yaml", "rye.sign.tool.a"),
    ] {
        for other in ["rye.execute.*", "rye.sign.tool.other.*", "rye.load.*"] {
            let why = may(other, path).unwrap();
            assert!(why.ends_with(&format!("capability {needed}")), "{why}");
        }
        assert_eq!(may(needed, path), None, "{path}");
        files.refuses(path);
    }
    for path in [
        ".ai/tools",
        ".ai/tools/a/.x.yaml",
        ".ai/tools/a\u{200b}.yaml",
        ".ai/tools/a b.yaml",
    ] {
        assert!(may("rye.*", path).is_some(), "{path}");
    }
}

// T-TOL-06
#[test]
fn an_items_folder_under_another_name_is_its_folder() {
    let files = Files::new();
    fs::rename(files.path(".ai"), files.path("declared")).unwrap();
    symlink("declared", files.path(".ai")).unwrap();
    for path in [
        "declared/tools/safe/rm.yaml",
        "declared/config/agent/hooks.yaml",
    ] {
        files.refuses(path);
        assert!(!files.path(path).exists());
    }
}

// T-FIL-15
#[test]
fn no_file_is_written_through_a_link_even_within_the_project() {
    let files = Files::new();
    let target = files.path("target");
    fs::write(&target, "t").unwrap();
    symlink("target", files.path("link")).unwrap();
    for mode in ["overwrite", "append", "create"] {
        files.error_of("link", mode).unwrap().has("remove the link");
    }
    // A link that appears after the check has no effect: the file is opened under its own name.
    assert!(store(&target, "append", b"+").is_ok());
    assert_eq!(fs::read(target).unwrap(), b"t+");
}

// T-TOL-05
#[test]
fn a_link_to_records_does_not_make_them_writable() {
    let files = Files::new();
    symlink(".ai/agent/threads", files.path("ln")).unwrap();
    symlink(".ai", files.path("settings")).unwrap();
    let registry = files.path(".ai/agent/threads/registry.db");
    fs::write(&registry, "r").unwrap();
    for path in [
        "ln/registry.db",
        "ln/new/transcript.jsonl",
        "settings/config/agent/hooks.yaml",
    ] {
        files.refuses(path);
    }
    assert_eq!(fs::read(registry).unwrap(), b"r");
}

#[test]
fn what_is_no_text_file_is_not_read() {
    let files = Files::new();
    fs::write(files.path("bytes"), [0xff, 0xfe]).unwrap();
    let mut mkfifo = std::process::Command::new("mkfifo");
    assert!(mkfifo.arg(files.path("pipe")).status().unwrap().success());
    for input in [
        json!({"path": "bytes"}),
        json!({"path": ".ai"}),
        json!({"path": "absent"}),
        json!({"path": "pipe"}),
        json!({"path": "bytes", "offset": 0}),
        json!({"path": 3}),
    ] {
        assert!(files.reads(input.clone()).error.is_some(), "{input}");
    }
}
