//! Every file that a scripted use of the command leaves: its mode, and its text without random and
//! time-dependent parts.

use crate::prelude::*;
use crate::sandbox::option_env;
use crate::scroll::turns;
use regex::Regex;
use std::os::unix::fs::PermissionsExt as _;

/// The longest text that is shown.
const TEXT_LINES: usize = 60;

/// Patterns for everything that keys, salts, clocks and processes decide, each with its
/// placeholder; applied in this order.
const VARIABLE: [(&str, &str); 23] = [
    (r"<root>/work\b", "<work>"),
    (
        r"(?s)-----BEGIN ([A-Z ]+)-----.*?-----END [A-Z ]+-----",
        "<PEM $1>",
    ),
    (r"did:key:z[1-9A-HJ-NP-Za-km-z]+", "<did>"),
    (
        r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b",
        "<uuid>",
    ),
    (r"[0-9a-f]{32,}", "<hex>"),
    (
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(\.[0-9]+)?(Z|\+00:00)",
        "<time>",
    ),
    (r"\b1[0-9]{15}\b", "<micros>"),
    (r"\bar_[0-9a-f]{24}\b", "<actor>"),
    (r"\+[0-9a-f]{8}\+A[A-Za-z0-9+/]{43}", "+<verifier key>"),
    (r#"("bytes":)[0-9]+(,"kind")"#, "$1<size>$2"),
    (r", [0-9]+\.[0-9]s\b", ", <duration>"),
    (r#""host":(null|"<hex>")"#, r#""host":<host>"#),
    (r"\b[0-9]{8}T[0-9]{6}Z\b", "<time>"),
    (r#"((size|byte_offset)\\*": ?)[0-9]+"#, "$1<size>"),
    (r"(<hex>:[0-9]+):[0-9]+(:<hex>)", "$1:<size>$2"),
    (
        r#"((_ms|_seconds|elapsed|duration)[a-z_]*\\*"?: ?)[0-9.]+"#,
        "$1<duration>",
    ),
    (r"\b1[0-9]{12}\b", "<millis>"),
    (r"\b1[0-9]{9}(\.[0-9]+)?\b", "<seconds>"),
    (r"[A-Za-z0-9+/]{43}=|[A-Za-z0-9+/_-]{86,}={0,2}", "<base64>"),
    (r"\b[0-9a-f]{16}\b", "<id>"),
    (r"\b[0-9a-f]{8}\b", "<short id>"),
    (r"(^|/)[0-9a-f]{2}/", "$1<xx>/"),
    (r"(^|/)[0-9a-f]{2}$", "$1<xx>"),
];

struct Shapes(Vec<(Regex, &'static str)>);

impl Shapes {
    fn new() -> Self {
        Self(
            VARIABLE
                .map(|(found, shown)| (Regex::new(found).unwrap(), shown))
                .into(),
        )
    }

    fn of(&self, text: &str) -> String {
        let shape = |text: String, (found, shown): &(Regex, &str)| {
            found.replace_all(&text, *shown).into_owned()
        };
        self.0.iter().fold(text.to_owned(), shape)
    }
}

/// A scripted use with every kind of record, in the home and the working folder of the sandbox.
fn live() -> Sandbox {
    let sandbox = project();
    fs::remove_file(sandbox.path("more.yaml")).unwrap();
    let run = |arguments: &str| sandbox.ok(arguments);
    let path = |name: &str| sandbox.path(name).to_str().unwrap().to_owned();
    run("key new --name second");
    for name in ["a.json", "b.md", "c.log"] {
        sandbox.write(name, "{\"n\": 1}\n");
    }
    run("seal a.json b.md");
    run("seal --detached c.log");
    greeted(&sandbox, "--bodies detached -q");
    let child = transcript(&sandbox, "child");
    run(&format!(
        "redact {child:?} --match 'the child' --why 'a name' --by Ada"
    ));
    ended_record(&sandbox, "pruned.jsonl", 1);
    run("prune --yes pruned.jsonl --why 'time is up'");
    let append = "ledger append file:runs --run r1 --sign --workflow w";
    piped(
        &sandbox,
        append,
        "{\"node\":\"plan\",\"result\":{\"text\":\"ho\"}}\n",
    )
    .exits(0);
    let scroll = format!("scroll seal --key self-scroll --out {}", path("s.json"));
    piped(&sandbox, &scroll, &turns(2)).exits(0);
    run("log mark add second-disk");
    run("key rotate self");
    open_record(&sandbox, "open.jsonl", 2);
    run("log fsck");
    sandbox
}

fn dump(root: &Path, shapes: &Shapes) -> String {
    let mut files: Vec<String> = Vec::new();
    for path in walk(root) {
        let found = fs::symlink_metadata(&path).unwrap();
        let name = shapes.of(path.strip_prefix(root).unwrap().to_str().unwrap());
        let mode = found.permissions().mode() & 0o7777;
        if found.is_dir() {
            files.push(format!("{name}/ {mode:o}\n"));
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        // Paths, signatures and names of keys vary in length, so the length of the text with
        // placeholders counts.
        let text = String::from_utf8(bytes.clone())
            .ok()
            .filter(|text| !text.contains('\0'));
        let shape = text.map(|text| shapes.of(&text.replace(root.to_str().unwrap(), "<root>")));
        let length = shape.as_ref().map_or(bytes.len(), String::len);
        let mut shown = format!("{name} {mode:o} {length}\n");
        for line in shape
            .iter()
            .flat_map(|shape| shape.lines())
            .take(TEXT_LINES)
        {
            shown += &format!("  | {line}\n");
        }
        files.push(shown);
    }
    files.sort();
    // Chance decides how many records share a folder, and each folder has a lock.
    files.dedup_by(|a, b| a == b && (a.contains("<xx>/ ") || a.contains("<xx>/lock ")));
    files.concat()
}

/// The command that appends the state of this tick to the lineage in `links`.
pub(crate) fn lineage_link(tick: u64) -> String {
    let code = "0".repeat(64);
    format!(
        "lineage append links --agent counter --state state.bin --tick {tick} --budget 900 --price 1 --code {code}"
    )
}

/// Writes home and records as `tests/kept` has them: of each version once, on a machine without an id.
fn keep(sandbox: &Sandbox, root: &Path, archive: &Path) {
    sandbox.ok("log mark remove second-disk");
    ended_record(sandbox, "ended.jsonl", 1);
    sandbox.ok("transcript import ended.jsonl object+file:../objects#one");
    let step = "{\"node\":\"plan\",\"result\":{\"text\":\"ho\"}}\n";
    piped(sandbox, "ledger append sqlite:l.db --run r2 --sign", step).exits(0);
    sandbox.write("state.bin", "one");
    sandbox.ok(lineage_link(1));
    let mut archive = tar::Builder::new(fs::File::create(archive).unwrap());
    archive.append_dir_all(".", root).unwrap();
    archive.finish().unwrap();
}

#[test]
fn a_home_after_a_life_is_frozen() {
    let sandbox = live();
    let root = sandbox.work().parent().unwrap().canonicalize().unwrap();
    if let Some(archive) = option_env("THREADSEAL_KEEP") {
        keep(&sandbox, &root, &archive);
    }
    snapshot("home", &dump(&root, &Shapes::new()));
}
