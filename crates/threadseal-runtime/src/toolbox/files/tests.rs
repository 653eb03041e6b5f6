//! Files of a project, and everything that tries to lead out of it.

use super::*;
use crate::testing::NoChildren;
use crate::toolbox::Cancel;
use std::fs;
use threadseal_store::sys::RealFs;

struct Bench {
    folder: tempfile::TempDir,
    read: ReadFile,
    write: WriteFile,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let fs: Arc<dyn Fs> = RealFs::shared();
        let project = Arc::new(Project::init(&*fs, folder.path()).unwrap());
        Self {
            read: ReadFile::new(Arc::clone(&fs), Arc::clone(&project)),
            write: WriteFile::new(fs, project),
            folder,
        }
    }

    fn call(tool: &dyn Tool, input: &Value) -> Outcome {
        tool.run(&mut Invocation {
            idempotency_key: "k",
            input,
            cancel: &Cancel::default(),
            record: &mut NoChildren,
        })
    }

    fn reads(&self, input: impl Into<Value>) -> Outcome {
        Self::call(&self.read, &input.into())
    }

    fn writes(&self, input: impl Into<Value>) -> Outcome {
        Self::call(&self.write, &input.into())
    }
}

#[test]
fn a_file_is_written_and_read_again_in_parts() {
    let bench = Bench::new();
    let wrote = bench.writes(json!({"path": "out/a.txt", "content": "1\n2\n3\n"}));
    assert_eq!(wrote, Outcome::ok(json!({"path": "out/a.txt", "bytes": 6})));
    assert_eq!(
        bench.reads(json!({"path": "./out/a.txt"})),
        Outcome::ok("1\n2\n3\n")
    );
    assert_eq!(
        bench.reads(json!({"path": "out/a.txt", "offset": 2, "limit": 1})),
        Outcome::ok("2\n")
    );
    let whole = bench
        .folder
        .path()
        .canonicalize()
        .unwrap()
        .join("out/a.txt");
    assert!(
        bench
            .reads(json!({"path": whole.to_str().unwrap()}))
            .error
            .is_none()
    );
    bench.writes(json!({"path": "out/a.txt", "content": "4\n", "mode": "append"}));
    assert_eq!(
        bench.reads(json!({"path": "out/a.txt", "offset": 4})),
        Outcome::ok("4\n")
    );
    assert!(
        bench
            .writes(json!({"path": "out/a.txt", "content": "", "mode": "create"}))
            .error
            .is_some()
    );
    assert!(
        bench
            .writes(json!({"path": "out/a.txt", "content": "", "mode": "w"}))
            .error
            .is_some()
    );
}

// T-TOL-05
#[test]
fn nothing_outside_the_project_is_read_or_written() {
    let (bench, outside) = (Bench::new(), tempfile::tempdir().unwrap());
    let root = bench.folder.path();
    fs::write(outside.path().join("secret"), "s").unwrap();
    std::os::unix::fs::symlink(outside.path(), root.join("link")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret"), root.join("file")).unwrap();
    let absolute = outside.path().join("secret");
    for path in [
        "../x",
        "a/../../x",
        "link/secret",
        "file",
        absolute.to_str().unwrap(),
        "",
        ".",
        "a\0b",
    ] {
        assert!(
            bench.reads(json!({"path": path})).error.is_some(),
            "read {path:?}"
        );
        assert!(
            bench
                .writes(json!({"path": path, "content": "x"}))
                .error
                .is_some(),
            "write {path:?}"
        );
    }
    assert_eq!(fs::read(absolute).unwrap(), b"s");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

// T-TOL-05
#[test]
fn records_settings_and_trust_are_not_for_models_to_write() {
    let bench = Bench::new();
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
        assert!(
            bench
                .writes(json!({"path": path, "content": "x"}))
                .error
                .is_some(),
            "{path}"
        );
    }
    assert!(
        bench
            .writes(json!({"path": ".ai/notes.md", "content": "x"}))
            .error
            .is_none()
    );
}

// T-TOL-06
#[test]
fn an_item_is_written_by_who_may_sign_it_however_its_folder_is_spelled() {
    let bench = Bench::new();
    let root = bench.folder.path();
    fs::create_dir_all(root.join(".ai/own")).unwrap();
    std::os::unix::fs::symlink("own", root.join(".ai/graphs")).unwrap();
    std::os::unix::fs::symlink(".ai/tools", root.join("ln")).unwrap();
    let may = |capability: &str, path: &str| {
        let capabilities = Capabilities::parse([capability]).unwrap();
        let tool = bench.write.under(&capabilities).unwrap();
        Bench::call(&*tool, &json!({"path": path, "content": "x"}))
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
            let why = may(other, path).error.unwrap();
            assert!(why.ends_with(&format!("capability {needed}")), "{why}");
        }
        let wrote = may(needed, path);
        assert_eq!(wrote.error, None, "{path}");
        assert!(
            bench
                .writes(json!({"path": path, "content": "x"}))
                .error
                .is_some()
        );
    }
    for path in [
        ".ai/tools",
        ".ai/tools/a/.x.yaml",
        ".ai/tools/a\u{200b}.yaml",
        ".ai/tools/a b.yaml",
    ] {
        assert!(may("rye.*", path).error.is_some(), "{path}");
    }
}

// T-TOL-06
#[test]
fn an_items_folder_under_another_name_is_its_folder() {
    let bench = Bench::new();
    let root = bench.folder.path();
    fs::rename(root.join(".ai"), root.join("declared")).unwrap();
    std::os::unix::fs::symlink("declared", root.join(".ai")).unwrap();
    for path in [
        "declared/tools/safe/rm.yaml",
        "declared/config/agent/hooks.yaml",
    ] {
        assert!(
            bench
                .writes(json!({"path": path, "content": "x"}))
                .error
                .is_some(),
            "{path}"
        );
        assert!(!root.join(path).exists());
    }
}

// T-FIL-15
#[test]
fn no_file_is_written_through_a_link_even_within_the_project() {
    let bench = Bench::new();
    let root = bench.folder.path();
    fs::write(root.join("target"), "t").unwrap();
    std::os::unix::fs::symlink("target", root.join("link")).unwrap();
    for mode in ["overwrite", "append", "create"] {
        let wrote = bench.writes(json!({"path": "link", "content": "x", "mode": mode}));
        let why = wrote.error.unwrap();
        assert!(why.contains("remove the link"), "{mode}: {why}");
    }
    // A link that appears after the check has no effect: the file is opened under its own name.
    assert!(store(&root.join("target"), "append", b"+").is_ok());
    assert_eq!(fs::read(root.join("target")).unwrap(), b"t+");
}

// T-TOL-05
#[test]
fn a_link_to_records_does_not_make_them_writable() {
    let bench = Bench::new();
    let root = bench.folder.path();
    std::os::unix::fs::symlink(".ai/agent/threads", root.join("ln")).unwrap();
    std::os::unix::fs::symlink(".ai", root.join("settings")).unwrap();
    fs::write(root.join(".ai/agent/threads/registry.db"), "r").unwrap();
    for path in [
        "ln/registry.db",
        "ln/new/transcript.jsonl",
        "settings/config/agent/hooks.yaml",
    ] {
        let wrote = bench.writes(json!({"path": path, "content": "x"}));
        assert!(wrote.error.is_some(), "{path}");
    }
    assert_eq!(
        fs::read(root.join(".ai/agent/threads/registry.db")).unwrap(),
        b"r"
    );
}

#[test]
fn what_is_no_text_file_is_not_read() {
    let bench = Bench::new();
    fs::write(bench.folder.path().join("bytes"), [0xff, 0xfe]).unwrap();
    let pipe = bench.folder.path().join("pipe");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(pipe)
            .status()
            .unwrap()
            .success()
    );
    for path in ["bytes", ".ai", "absent", "pipe"] {
        assert!(bench.reads(json!({"path": path})).error.is_some(), "{path}");
    }
    assert!(
        bench
            .reads(json!({"path": "bytes", "offset": 0}))
            .error
            .is_some()
    );
    assert!(bench.reads(json!({"path": 3})).error.is_some());
}
