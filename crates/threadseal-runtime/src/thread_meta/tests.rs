//! thread.json and capabilities.md: written, read again, and attacked.

use super::*;
use crate::testing::prelude::*;
use threadseal_core::record::RecordId;

fn meta() -> ThreadMeta {
    ThreadMeta {
        thread_id: ThreadId::parse("demo/say-1").unwrap(),
        directive: "demo/say".to_owned(),
        status: Status::Running,
        created_at: Timestamp::from_micros(1_771_322_456_000_000).unwrap(),
        updated_at: Timestamp::from_micros(1_771_322_456_000_000).unwrap(),
        model: Some("caf\u{e9}".to_owned()),
        limits: Limits::shipped(),
        capabilities: Capabilities::parse(["rye.execute.tool.rye.file-system.*"]).unwrap(),
        cost: None,
        outputs: None,
    }
}

fn write(scene: &Scene, file: &mut SignedFile, meta: &ThreadMeta) {
    let thread = Some(&meta.thread_id);
    file.write(&scene.host, &scene.keys, thread, &meta.to_bytes())
        .unwrap();
}

/// A scene with the metadata of `demo/say-1`.
fn written(meta: &ThreadMeta) -> (Scene, SignedFile) {
    let scene = Scene::new();
    let folder = scene
        .project
        .thread(&ThreadId::parse("demo/say-1").unwrap());
    fs::create_dir_all(folder.path()).unwrap();
    let path = folder.metadata();
    let mut file = SignedFile::new(&scene.host, &path, DocumentKind::Json, None).unwrap();
    write(&scene, &mut file, meta);
    (scene, file)
}

fn read(scene: &Scene, manifest: Option<&Manifest>) -> Result<TrustedMeta, Error> {
    let thread = meta().thread_id;
    let folder = scene.project.thread(&thread);
    ThreadMeta::read(&scene.host, &folder, &thread, manifest, &scene.trust)
}

#[test]
fn what_is_written_is_read_again_and_signed_anew_each_time() {
    let (scene, mut file) = written(&meta());
    assert_eq!(*read(&scene, None).unwrap().get(), meta());
    let text = scene.text(file.path());
    assert!(text.is_ascii());
    text.has("\"created_at\": \"2026-02-17T10:00:56+00:00\"");
    let later = ThreadMeta {
        status: Status::Completed,
        cost: Some(Cost::default()),
        outputs: json!({"path": "a"}).as_object().cloned(),
        ..meta()
    };
    write(&scene, &mut file, &later);
    let trusted = read(&scene, None).unwrap();
    assert_eq!((trusted.get(), trusted.head().unwrap().seq), (&later, 1));
}

// T-FIL-04
#[test]
fn every_changed_byte_is_refused() {
    let (scene, file) = written(&meta());
    let whole = scene.read(file.path());
    for place in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[place] ^= 1;
        fs::write(file.path(), &bytes).unwrap();
        let shown = String::from_utf8_lossy(&bytes);
        assert!(read(&scene, None).is_err(), "byte {place}: {shown:?}");
    }
}

// T-FIL-04
#[test]
fn an_older_version_and_one_without_its_native_seal_are_refused() {
    let (scene, mut file) = written(&meta());
    let old = scene.read(file.path());
    write(&scene, &mut file, &meta());
    let new = scene.text(file.path());
    fs::write(file.path(), old).unwrap();
    read(&scene, None).fails_with("rolled_back");
    // Rye's signature alone in the place of a sealed file.
    let at = new.find("|threadseal").or_else(|| new.find("|ts")).unwrap();
    let end = at + new[at..].find('"').unwrap();
    fs::write(file.path(), format!("{}{}", &new[..at], &new[end..])).unwrap();
    assert!(read(&scene, None).is_err());
}

// T-FIL-04
#[test]
fn the_metadata_of_another_thread_or_of_another_line_1_is_refused() {
    let (scene, _) = written(&ThreadMeta {
        thread_id: ThreadId::parse("demo/say-2").unwrap(),
        ..meta()
    });
    assert!(read(&scene, None).is_err());
    let (scene, _) = written(&meta());
    let (native, rye) = (
        *scene.keys.native.public_key(),
        *scene.keys.rye.public_key(),
    );
    let mut manifest = Manifest::new(RecordId::from_bytes([7; 32]), native, rye);
    manifest.directive = Some("demo/say".to_owned());
    manifest.capabilities = meta().capabilities.to_texts();
    let limits = meta().limits.to_json().to_string();
    manifest.limits = threadseal_core::canon::json::parse(limits.as_bytes()).unwrap();
    read(&scene, Some(&manifest)).unwrap();
    let more = "rye.execute.tool.rye.bash".to_owned();
    manifest.capabilities.push(more);
    assert!(read(&scene, Some(&manifest)).is_err());
}

// T-TOL-16
#[test]
fn no_tool_breaks_out_of_its_fence() {
    let tools = [ToolSchema {
        name: "t".to_owned(),
        description: "```\n# Not a heading\n````".to_owned(),
        parameters: json!({}),
    }];
    let text = capabilities_file(&tools, &meta().capabilities);
    text.has("\n`````json\n");
    let end = "```\nexecute\n└── tool.rye.file-system.*\n\n```\n";
    assert!(text.ends_with(end), "{text}");
}

#[test]
fn a_capabilities_file_is_signed_as_knowledge() {
    let scene = Scene::new();
    let path = scene.path("capabilities.md");
    let kind = DocumentKind::Markdown;
    let mut file = SignedFile::new(&scene.host, &path, kind, Some(ItemType::Knowledge)).unwrap();
    let text = capabilities_file(&[], &Capabilities::NONE);
    file.write(&scene.host, &scene.keys, None, text.as_bytes())
        .unwrap();
    let options = Options::new(kind, &scene.trust, scene.host.clock.now().unwrap());
    let checked = read_verified(&scene.host, &path, &options).unwrap();
    assert!(checked.bytes.starts_with(b"<!-- rye:signed:"));
}
