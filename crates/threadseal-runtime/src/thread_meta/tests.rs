//! thread.json and capabilities.md: written, read again, and attacked.

use super::*;
use crate::signed_file::SignedFile;
use crate::testing::Bench;
use std::fs;
use threadseal_core::record::RecordId;
use threadseal_formats::document::ItemType;

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

fn folder(bench: &Bench) -> ThreadFolder {
    let folder = bench.project.thread(&meta().thread_id);
    fs::create_dir_all(folder.path()).unwrap();
    folder
}

fn write(bench: &Bench, file: &mut SignedFile, meta: &ThreadMeta) {
    file.write(
        &bench.host,
        &bench.keys,
        Some(&meta.thread_id),
        &meta.to_bytes(),
    )
    .unwrap();
}

fn read(bench: &Bench) -> Result<TrustedMeta, Error> {
    let thread = meta().thread_id;
    ThreadMeta::read(
        &bench.host,
        &bench.project.thread(&thread),
        &thread,
        None,
        &bench.trust,
    )
}

fn written(bench: &Bench) -> SignedFile {
    let path = folder(bench).metadata();
    let mut file = SignedFile::new(&bench.host, &path, DocumentKind::Json, None).unwrap();
    write(bench, &mut file, &meta());
    file
}

#[test]
fn what_is_written_is_read_again_and_signed_anew_each_time() {
    let bench = Bench::new();
    let mut file = written(&bench);
    assert_eq!(*read(&bench).unwrap().get(), meta());
    let text = fs::read_to_string(file.path()).unwrap();
    assert!(
        text.is_ascii() && text.contains("\"created_at\": \"2026-02-17T10:00:56+00:00\""),
        "{text}"
    );
    let mut later = meta();
    later.status = Status::Completed;
    later.cost = Some(Cost::default());
    later.outputs = json!({"path": "a"}).as_object().cloned();
    write(&bench, &mut file, &later);
    let trusted = read(&bench).unwrap();
    assert_eq!((trusted.get(), trusted.head().unwrap().seq), (&later, 1));
}

// T-FIL-04
#[test]
fn every_changed_byte_is_refused() {
    let bench = Bench::new();
    let path = written(&bench).path().to_owned();
    let whole = fs::read(&path).unwrap();
    for place in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[place] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert!(
            read(&bench).is_err(),
            "byte {place}: {:?}",
            String::from_utf8_lossy(&bytes)
        );
    }
}

// T-FIL-04
#[test]
fn an_older_version_and_one_without_its_native_seal_are_refused() {
    let bench = Bench::new();
    let mut file = written(&bench);
    let old = fs::read(file.path()).unwrap();
    write(&bench, &mut file, &meta());
    let new = fs::read_to_string(file.path()).unwrap();
    fs::write(file.path(), old).unwrap();
    assert!(
        read(&bench)
            .unwrap_err()
            .to_string()
            .contains("rolled_back")
    );
    let at = new
        .find("|threadseal")
        .or_else(|| new.find("|ts"))
        .unwrap_or_else(|| panic!("{new}"));
    let end = at + new[at..].find('"').unwrap();
    fs::write(file.path(), format!("{}{}", &new[..at], &new[end..])).unwrap();
    assert!(
        read(&bench).is_err(),
        "Rye's signature alone in the place of a sealed file"
    );
}

#[test]
fn the_metadata_of_another_thread_is_refused() {
    let bench = Bench::new();
    let other = ThreadMeta {
        thread_id: ThreadId::parse("demo/say-2").unwrap(),
        ..meta()
    };
    let path = folder(&bench).metadata();
    let mut file = SignedFile::new(&bench.host, &path, DocumentKind::Json, None).unwrap();
    write(&bench, &mut file, &other);
    assert!(read(&bench).is_err());
}

// T-FIL-04
#[test]
fn metadata_that_differs_from_line_1_is_refused() {
    let bench = Bench::new();
    written(&bench);
    let key = *bench.keys.native.public_key();
    let thread = meta().thread_id;
    let mut manifest = Manifest::new(
        RecordId::from_bytes([7; 32]),
        key,
        *bench.keys.rye.public_key(),
    );
    manifest.directive = Some("demo/say".to_owned());
    manifest.capabilities = meta().capabilities.to_texts();
    manifest.limits =
        threadseal_core::canon::json::parse(meta().limits.to_json().to_string().as_bytes())
            .unwrap();
    let read = |manifest: &Manifest| {
        let folder = bench.project.thread(&thread);
        ThreadMeta::read(&bench.host, &folder, &thread, Some(manifest), &bench.trust)
    };
    read(&manifest).unwrap();
    manifest
        .capabilities
        .push("rye.execute.tool.rye.bash".to_owned());
    assert!(read(&manifest).is_err());
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
    assert!(text.contains("\n`````json\n"), "{text}");
    assert!(
        text.ends_with("```\nexecute\n└── tool.rye.file-system.*\n\n```\n"),
        "{text}"
    );
}

#[test]
fn a_capabilities_file_is_signed_as_knowledge() {
    let bench = Bench::new();
    let path = folder(&bench).capabilities();
    let kind = DocumentKind::Markdown;
    let mut file = SignedFile::new(&bench.host, &path, kind, Some(ItemType::Knowledge)).unwrap();
    let text = capabilities_file(&[], &Capabilities::NONE);
    file.write(&bench.host, &bench.keys, None, text.as_bytes())
        .unwrap();
    let options = Options::new(kind, &bench.trust, bench.host.clock.now().unwrap());
    let checked = read_verified(&bench.host, &path, &options).unwrap();
    assert!(checked.bytes.starts_with(b"<!-- rye:signed:"));
}
