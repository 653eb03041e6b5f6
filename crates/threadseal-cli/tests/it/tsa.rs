//! `anchor` and time-stamping authorities: real processes, and an authority of `openssl ts` over
//! HTTP.

#[path = "../../../threadseal-log/src/timestamps/openssl.rs"]
mod openssl;

use crate::anchor::{logged, seal};
use crate::prelude::*;
use openssl::{FIT, OpenSsl};
use std::io::{BufRead, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::thread;

/// Changes the answer of the authority.
pub(crate) type Change = fn(Vec<u8>) -> (u16, Vec<u8>);

/// An authority that answers requests on a loopback address until the test ends.
pub(crate) struct Stamping {
    pub(crate) url: String,
    pub(crate) change: Arc<Mutex<Change>>,
    asked: Arc<Mutex<usize>>,
}

pub(crate) fn honest(response: Vec<u8>) -> (u16, Vec<u8>) {
    (200, response)
}

impl Stamping {
    fn start(openssl: OpenSsl) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/tsr", listener.local_addr().unwrap());
        let change = Arc::new(Mutex::new(honest as Change));
        let asked = Arc::new(Mutex::new(0));
        let (changing, counting) = (Arc::clone(&change), Arc::clone(&asked));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let change = *changing.lock().unwrap();
                *counting.lock().unwrap() += 1;
                serve(&stream.unwrap(), &openssl, change);
            }
        });
        Self { url, change, asked }
    }

    pub(crate) fn asked(&self) -> usize {
        *self.asked.lock().unwrap()
    }
}

fn serve(stream: &TcpStream, openssl: &OpenSsl, change: Change) {
    let mut reader = BufReader::new(stream);
    let (mut length, mut query) = (0, false);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(text) = line.strip_prefix("content-length:") {
            length = text.trim().parse().unwrap();
        }
        query |= line == "content-type: application/timestamp-query";
    }
    assert!(query);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let (status, answer) = change(openssl.reply(&body));
    let head = format!(
        "HTTP/1.1 {status} x\r\ncontent-type: application/timestamp-reply\r\ncontent-length: {}\r\n\r\n",
        answer.len()
    );
    let mut stream = stream;
    stream
        .write_all(&[head.as_bytes(), &answer].concat())
        .unwrap();
}

pub(crate) fn authority(folder: &Path) -> (Stamping, Vec<u8>) {
    let openssl = OpenSsl::new(folder, "P-256", "sha256", FIT);
    let root = openssl.root();
    (Stamping::start(openssl), root)
}

pub(crate) fn add(sandbox: &Sandbox, name: &str, url: &str, root: &[u8]) {
    sandbox.write("root.pem", root);
    sandbox.ok(format!(
        "anchor add --tsa {url} --root root.pem --name {name}"
    ));
}

/// The report of `anchor check` on its one authority.
fn check(sandbox: &Sandbox, more: &str, exit: i32) -> Value {
    let arguments = format!("anchor check --json {more}");
    sandbox.exits(exit, arguments).json()["authorities"][0].clone()
}

// T-WIT-27
#[test]
fn the_log_is_stamped_once_for_each_size_and_judged_again_without_the_authority() {
    let (sandbox, log) = logged();
    let tools = tempfile::tempdir().unwrap();
    let (stamping, root) = authority(&tools.path().join("a"));
    add(&sandbox, "tsa", &stamping.url, &root);
    assert_eq!(check(&sandbox, "--offline", 3)["state"], "not_stamped");
    let told = check(&sandbox, "", 0);
    told.is(json!({"state": "stamped", "size": 2}));
    let dates = sandbox.report("verify first.json")["dates"].clone();
    assert!(dates["sealed"].text() <= dates["stamped"].text(), "{dates}");
    check(&sandbox, "", 0);
    assert_eq!(stamping.asked(), 1);
    assert_eq!(check(&sandbox, "--offline tsa", 0)["time"], told["time"]);
    // OpenSSL accepts the stored response.
    let files = sandbox
        .home()
        .join("log")
        .join(&log[15..47])
        .join("timestamps");
    let openssl = OpenSsl::new(&tools.path().join("b"), "P-256", "sha256", FIT);
    fs::copy(
        tools.path().join("a/root.pem"),
        tools.path().join("b/root.pem"),
    )
    .unwrap();
    let [note, response] = ["2.checkpoint", "2.tsa.tsr"].map(|n| fs::read(files.join(n)).unwrap());
    assert!(openssl.takes(&note, &response));
    seal(&sandbox, "second");
    let behind = check(&sandbox, "--offline", 3);
    behind.is(json!({"state": "behind", "size": 2}));
    sandbox
        .ok("anchor list")
        .prints(&stamping.url)
        .prints("2 entries, no later than");
    check(&sandbox, "", 0);
    // A changed response is no stamp; the stamp before it still is.
    let path = files.join("3.tsa.tsr");
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    let told = check(&sandbox, "--offline", 3);
    told.is(json!({"state": "behind", "size": 2}));
    assert!(
        told["why"].text().contains("the signature is not valid"),
        "{told}"
    );
}

/// The store of heads is gone, so no clock of the host shows when it held a seal.
// T-KLOG-10
#[test]
fn what_a_stamp_shows_to_be_older_than_a_revocation_by_a_clock_counts_and_nothing_else() {
    let (sandbox, _) = logged();
    let tools = tempfile::tempdir().unwrap();
    let (stamping, root) = authority(&tools.path().join("a"));
    drop(recorder(&sandbox, "before.jsonl", 1));
    sandbox.ok("seal before.jsonl --final");
    add(&sandbox, "tsa", &stamping.url, &root);
    check(&sandbox, "", 0);
    drop(recorder(&sandbox, "after.jsonl", 1));
    sandbox.ok("seal after.jsonl --final");
    sandbox.forget_heads();
    let trust = sandbox.home().join("trust.toml");
    let trusted = fs::read(&trust).unwrap();
    let revoke = |at: &str| {
        fs::write(&trust, &trusted).unwrap();
        sandbox.ok(format!("trust revoke self --reason stolen --at {at:?}"));
    };
    let forged = |path: &str| {
        sandbox
            .exits(1, format!("verify {path}"))
            .prints("key_revoked");
    };
    revoke("2999-01-01");
    sandbox.ok("verify before.jsonl");
    forged("after.jsonl");
    revoke("2020-01-01");
    forged("before.jsonl");
    // The same without the stamp, and after the end of trust in the authority.
    revoke("2999-01-01");
    let policy = sandbox.home().join("anchors/tsa.tsa");
    let aside = sandbox.home().join("tsa.tsa");
    fs::rename(&policy, &aside).unwrap();
    forged("before.jsonl");
    fs::rename(&aside, &policy).unwrap();
    sandbox.ok("verify before.jsonl");
    // The accepted record stays readable, and no command seals with the key any more.
    drop(recorder(&sandbox, "open.jsonl", 1));
    sandbox.exits(2, "seal open.jsonl --final");
}

// T-WIT-13
#[test]
fn an_unreadable_stamp_or_authority_is_reported_and_hides_no_other() {
    let (sandbox, log) = logged();
    let tools = tempfile::tempdir().unwrap();
    let (stamping, root) = authority(&tools.path().join("a"));
    drop(recorder(&sandbox, "before.jsonl", 1));
    sandbox.ok("seal before.jsonl --final");
    add(&sandbox, "tsa", &stamping.url, &root);
    let first = check(&sandbox, "", 0)["size"].clone();
    seal(&sandbox, "more");
    let second = check(&sandbox, "", 0)["size"].clone();
    sandbox.forget_heads();
    sandbox.ok("trust revoke self --reason stolen --at 2999-01-01");
    let anchors = sandbox.home().join("anchors");
    let stamps = sandbox.home().join("log").join(&log[15..47]);
    let stamp = |size: &Value| stamps.join(format!("timestamps/{size}.tsa.tsr"));
    let others = [
        anchors.join("broken.tsa"),
        anchors.join("broken.policy"),
        stamp(&first),
    ];
    for path in &others {
        fs::write(path, "nothing that can be read").unwrap();
    }
    let cosigned = stamps.join("9.cosigned");
    fs::create_dir(&cosigned).unwrap();
    let said = sandbox.ok("verify before.jsonl").stderr;
    for path in others.iter().chain([&cosigned]) {
        let name = name_of(path);
        assert_eq!(said.matches(name).count(), 1, "{name}: {said}");
    }
    // Readable authorities are asked and listed, and the others are reported.
    let ran = sandbox.exits(3, "anchor check --json").json();
    assert_eq!(ran["policies"][0]["state"], "unreadable");
    assert_eq!(
        [0, 1].map(|at| ran["authorities"][at]["state"].clone()),
        ["stamped", "unreadable"]
    );
    check(&sandbox, "tsa", 0);
    assert_eq!(check(&sandbox, "broken", 3)["state"], "unreadable");
    sandbox
        .ok("anchor list")
        .prints(&stamping.url)
        .warns("broken.tsa");
    // Without a readable stamp there is no evidence.
    fs::write(stamp(&second), "nor this").unwrap();
    sandbox
        .exits(1, "verify before.jsonl")
        .prints("key_revoked");
}

// T-WIT-29
#[test]
fn what_does_not_verify_is_neither_kept_nor_counted() {
    let (sandbox, _) = logged();
    let tools = tempfile::tempdir().unwrap();
    let (stamping, root) = authority(&tools.path().join("a"));
    let (_, other) = authority(&tools.path().join("b"));
    add(&sandbox, "tsa", &stamping.url, &other);
    let why = |exit| {
        check(&sandbox, "", exit)["why"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert!(why(3).contains("no chain leads to a pinned root"));
    add(&sandbox, "tsa", &stamping.url, &root);
    let changes: [(Change, &str); 4] = [
        (|_| (500, Vec::new()), "answered 500"),
        (|_| (200, b"no".to_vec()), "bad response"),
        (|_| (200, vec![0; 400 << 10]), "too long"),
        (
            |mut response| {
                *response.last_mut().unwrap() ^= 1;
                (200, response)
            },
            "the signature is not valid",
        ),
    ];
    for (change, said) in changes {
        *stamping.change.lock().unwrap() = change;
        let why = why(3);
        why.has(said);
    }
    assert_eq!(check(&sandbox, "--offline", 3)["state"], "not_stamped");
    *stamping.change.lock().unwrap() = honest;
    check(&sandbox, "", 0);
    // No server answers at this address.
    add(&sandbox, "tsa", "http://127.0.0.1:9/", &root);
    seal(&sandbox, "more");
    let told = check(&sandbox, "", 3);
    assert_eq!(told["state"], "behind");
    assert!(told["why"].text().contains("cannot be reached"), "{told}");
}

// T-WIT-25 T-WIT-31
#[test]
fn a_stamp_shows_a_log_that_went_back_without_its_stamps() {
    let (sandbox, _) = logged();
    let tools = tempfile::tempdir().unwrap();
    let (stamping, root) = authority(&tools.path().join("a"));
    add(&sandbox, "tsa", &stamping.url, &root);
    let copied = sandbox.path("copied");
    copy(&sandbox.home(), &copied);
    seal(&sandbox, "second");
    check(&sandbox, "", 0);
    // Log and mark roll back, the stamps stay.
    let log = fs::read_dir(sandbox.home().join("log")).unwrap();
    let log = log
        .map(|entry| entry.unwrap().path())
        .find(|path| path.join("journal").exists())
        .unwrap();
    let stamps = tools.path().join("stamps");
    copy(&log.join("timestamps"), &stamps);
    put_back(&copied, &sandbox.home());
    fs::remove_dir_all(sandbox.home().with_extension("marks")).unwrap();
    copy(&stamps, &log.join("timestamps"));
    let told = check(&sandbox, "--offline", 1);
    assert_eq!(told["state"], "contradicted");
    assert!(told["why"].text().contains("log_rolled_back"), "{told}");
    seal(&sandbox, "another");
    let told = check(&sandbox, "", 1);
    assert!(told["why"].text().contains("forked"), "{told}");
    // The loop of requests ends, too.
    let told = check(&sandbox, "--every 60", 1);
    assert_eq!(told["state"], "contradicted");
}

#[test]
fn an_authority_is_named_with_address_and_root() {
    let (sandbox, _) = logged();
    sandbox.exits(2, "anchor add --tsa http://localhost/");
    sandbox.write("root.pem", "no certificate");
    sandbox
        .exits(2, "anchor add --tsa http://localhost/ --root root.pem")
        .warns("root.pem");
    sandbox.exits(2, "anchor check nobody");
    sandbox.exits(2, "anchor check");
}
