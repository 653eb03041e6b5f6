//! The verifier in TypeScript and the one in Rust give one answer.
//!
//! `VERIFIER` names the program of the former, which `web/build.sh` prints. The first byte chooses what
//! the rest is read as.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{LazyLock, Mutex};
use threadseal_core::encoding::base64;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, Signer as _};
use threadseal_vectors::answer_line;

const LOG: &[u8] = include_bytes!("../../testkit/transcripts/native/salted.jsonl");
const SEALS: &[u8] = include_bytes!("../../testkit/transcripts/native/salted.jsonl.seal");

/// The program, which answers until this one ends.
struct Other {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    _child: Child,
}

static OTHER: LazyLock<Mutex<Other>> = LazyLock::new(|| {
    let program = std::env::var_os("VERIFIER").expect("VERIFIER=$(bash web/build.sh)");
    let mut child = Command::new("node")
        .arg(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("node");
    Mutex::new(Other {
        input: child.stdin.take().expect("piped"),
        output: BufReader::new(child.stdout.take().expect("piped")),
        _child: child,
    })
});

static TRUST: LazyLock<String> = LazyLock::new(|| {
    let keys = [(1, KeyUsage::Native), (3, KeyUsage::Observed), (1, KeyUsage::Scroll)];
    let keys = keys.map(|(seed, usage)| {
        let key = LocalSigner::new(PrivateKey::from_seed([seed; 32]), usage);
        let (key, usage) = (key.public_key().to_hex(), usage.as_str());
        format!("{{\"key\":\"{key}\",\"usage\":\"{usage}\"}}")
    });
    keys.join(",")
});

fuzz_target!(|data: &[u8]| {
    let Some((kind, file)) = data.split_first() else {
        return;
    };
    let (kind, files) = match kind % 6 {
        0 => ("native", [("record", file), ("bodies", b"".as_slice())]),
        1 => ("observed", [("log", file), ("seals", SEALS)]),
        2 => ("observed", [("log", LOG), ("seals", file)]),
        3 => ("turn_proof", [("proof", file), ("nothing", b"")]),
        4 => ("observed_proof", [("proof", file), ("nothing", b"")]),
        _ => ("scroll", [("scroll", file), ("nothing", b"")]),
    };
    let files = files.map(|(role, bytes)| format!("\"{role}\":{{\"base64\":\"{}\"}}", base64(bytes)));
    let question = format!(
        "{{\"id\":1,\"kind\":\"{kind}\",\"files\":{{{}}},\"trust\":[{}],\"now\":1800000000}}",
        files.join(","),
        *TRUST
    );
    let ours = answer_line(&question).expect("a question");
    let theirs = OTHER.lock().expect("one at a time").ask(&question);
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
    assert_eq!(read(&ours), read(&theirs), "{kind}");
});

impl Other {
    fn ask(&mut self, question: &str) -> String {
        writeln!(self.input, "{question}").expect("it reads");
        let mut answer = String::new();
        self.output.read_line(&mut answer).expect("it answers");
        answer
    }
}
