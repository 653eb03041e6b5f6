//! `witness`: real processes, over real connections.

use crate::prelude::*;
use std::net::TcpStream;
use std::sync::Mutex;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, Signer as _};
use threadseal_core::merkle::{ConsistencyProof, ProofError, TreeHead, leaf_hash, root};
use threadseal_core::note::{KeyName, SignedNote};
use threadseal_core::tlog::checkpoint::{Checkpoint, Origin};
use threadseal_core::tlog::verifier;
use threadseal_core::tlog::verifier::VerifierKey;
use threadseal_core::tlog::witness::{AddCheckpoint, read_cosignatures};

const ORIGIN: &str = "example.com/log";
/// The size up to which the two histories agree.
const COMMON: u64 = 3;

fn log() -> LocalSigner {
    LocalSigner::new(PrivateKey::from_seed([1; 32]), KeyUsage::Log)
}

fn log_key() -> VerifierKey {
    VerifierKey::of_log(KeyName::parse(ORIGIN).unwrap(), *log().public_key())
}

fn leaves(history: char, size: u64) -> Vec<Digest> {
    let leaf = |number: u64| match number < COMMON {
        true => leaf_hash(&number.to_be_bytes()),
        false => leaf_hash(format!("{history}{number}").as_bytes()),
    };
    (0..size).map(leaf).collect()
}

fn request(old: u64, history: char, size: u64) -> AddCheckpoint {
    let leaves = leaves(history, size);
    let proof = ConsistencyProof::make::<ProofError>(old.min(size), size, &mut |node| {
        let from = usize::try_from(node.index << node.level).unwrap();
        Ok(root(&leaves[from..from + (1 << node.level)]))
    });
    let tree = TreeHead {
        size,
        root: root(&leaves),
    };
    let checkpoint = Checkpoint::new(Origin::parse(ORIGIN).unwrap(), tree).unwrap();
    AddCheckpoint::new(old, proof.unwrap(), checkpoint.sign(&log()).unwrap()).unwrap()
}

/// A running witness; it is killed when the value is dropped.
pub(crate) struct Serving {
    child: Child,
    pub(crate) address: String,
    pub(crate) key: VerifierKey,
}

impl Serving {
    /// Starts a witness in the sandbox's home.
    pub(crate) fn start(sandbox: &Sandbox) -> Self {
        let mut command = sandbox.command();
        command.args(["witness", "serve", "--listen", "127.0.0.1:0"]);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut line = |label| {
            let line = lines.next().unwrap().unwrap();
            line.strip_prefix(label).unwrap().trim().to_owned()
        };
        let key = VerifierKey::parse(&line("witness")).unwrap();
        let url = line("listens");
        Self {
            child,
            address: url.strip_prefix("http://").unwrap().to_owned(),
            key,
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status();
        assert!(sent.unwrap().success());
    }

    pub(crate) fn ended(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    fn post(&self, body: &str) -> Answered {
        let head = format!(
            "POST /add-checkpoint HTTP/1.1\r\nHost: w\r\nContent-Length: {}",
            body.len()
        );
        ask(&self.address, &head, body).unwrap()
    }

    fn get(&self, path: &str) -> Answered {
        ask(
            &self.address,
            &format!("GET {path} HTTP/1.1\r\nHost: w"),
            "",
        )
        .unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug)]
struct Answered {
    status: u16,
    head: String,
    body: String,
}

fn ask(address: &str, head: &str, body: &str) -> Option<Answered> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let text = format!("{head}\r\nConnection: close\r\n\r\n{body}");
    stream.write_all(text.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answered {
        status,
        head: head.to_owned(),
        body: body.to_owned(),
    })
}

/// A home with the key of a witness, which watches these logs.
pub(crate) fn witness(logs: &[&str]) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok("init");
    sandbox.ok("key new --name self-witness --usage witness");
    for log in logs {
        sandbox.ok(format!("witness add {log}"));
    }
    sandbox
}

#[test]
fn a_witness_cosigns_what_grows_refuses_what_does_not_and_keeps_what_convicts() {
    let sandbox = witness(&[&log_key().to_string()]);
    sandbox.ok("witness list").prints("not cosigned yet");
    let mut serving = Serving::start(&sandbox);
    let path = format!("/{}/checkpoint", Digest::of(ORIGIN.as_bytes()).to_hex());
    assert_eq!(serving.get(&path).status, 404);
    for (old, size) in [(0, 2), (2, 7), (7, 7)] {
        let asked = request(old, 'a', size);
        let answered = serving.post(&asked.to_string());
        assert_eq!(answered.status, 200, "{answered:?}");
        read_cosignatures(answered.body.as_bytes(), asked.note(), &serving.key).unwrap();
        let published = SignedNote::parse(&serving.get(&path).body).unwrap();
        let keys = [log_key(), serving.key.clone()];
        let (checkpoint, signers) = verifier::open(&published, &keys.each_ref()).unwrap();
        assert_eq!((checkpoint.tree().size, signers.len()), (size, 2));
    }
    let rolled_back = serving.post(&request(2, 'a', 5).to_string());
    assert_eq!(
        (rolled_back.status, rolled_back.body.as_str()),
        (409, "7\n")
    );
    let kind = "\r\nContent-Type: text/x.tlog.size\r\n";
    rolled_back.head.has(kind);
    assert_eq!(serving.post(&request(7, 'b', 9).to_string()).status, 422);
    assert_eq!(serving.post(&request(7, 'b', 7).to_string()).status, 422);
    let listed = sandbox.exits(1, "witness list --json").json();
    assert_eq!(listed["logs"][0]["size"], 7);
    let kept = listed["logs"][0]["conflicts"][0].text();
    let conflict = Conflict::parse(&read(kept)).unwrap();
    assert_eq!(conflict.key(), &log_key());
    serving.signal("TERM");
    assert_eq!(serving.ended(), Some(0));
    // Another process of the same home has the same state.
    let serving = Serving::start(&sandbox);
    assert_eq!(serving.post(&request(0, 'b', 9).to_string()).body, "7\n");
}

// T-WIT-23
#[test]
fn what_is_no_request_is_told_so_and_the_witness_goes_on() {
    let sandbox = witness(&[]);
    let serving = Serving::start(&sandbox);
    let asked = request(0, 'a', 2).to_string();
    assert_eq!(serving.post(&asked).status, 404);
    // A log that is added while it serves is known at once.
    let vkey = log_key().to_string();
    sandbox.ok(format!("witness add {vkey}"));
    sandbox
        .ok(format!("witness add {vkey}"))
        .prints("known already");
    for (body, status) in [
        ("", 400),
        ("old 0\n", 400),
        (&asked.replacen("old 0", "old 9", 1), 400),
        (&asked.replacen("\n2\n", "\n3\n", 1), 403),
        (&"x".repeat(300 << 10), 413),
    ] {
        assert_eq!(serving.post(body).status, status, "{body:.60}");
    }
    for (head, status) in [
        ("GET / HTTP/1.1\r\nHost: w", 404),
        ("GET /add-checkpoint HTTP/1.1\r\nHost: w", 405),
        ("POST /x/checkpoint HTTP/1.1\r\nHost: w", 405),
        ("GET /../logs/checkpoint HTTP/1.1\r\nHost: w", 404),
        ("GET / HTTP/1.1", 400),
        ("\u{0}", 400),
    ] {
        let answered = ask(&serving.address, head, "").unwrap();
        assert_eq!(answered.status, status, "{head:?}");
    }
    // A client that begins a request and sends no more delays no other client.
    let _idle = TcpStream::connect(&serving.address).unwrap();
    assert_eq!(serving.post(&asked).status, 200);
    sandbox.ok("key new --name other --usage log");
    let wrong = sandbox.sh("witness serve --key other");
    wrong.fails_with("for log records");
}

/// Every response that a witness sent before it was killed, at any moment, belongs to one history.
// T-WIT-22
#[test]
fn a_witness_that_is_killed_again_and_again_signs_one_history() {
    let sandbox = witness(&[&log_key().to_string()]);
    let answers = Mutex::new(Vec::new());
    for round in 0..20_u64 {
        let serving = Serving::start(&sandbox);
        std::thread::scope(|scope| {
            for history in ['a', 'b'] {
                let (serving, answers) = (&serving, &answers);
                scope.spawn(move || {
                    let mut old = 0;
                    for size in (1 + 3 * round)..(200 + round) {
                        let asked = request(old, history, size.max(old));
                        let text = asked.to_string();
                        let length = text.len();
                        let head = format!(
                            "POST /add-checkpoint HTTP/1.1\r\nHost: w\r\nContent-Length: {length}"
                        );
                        let Some(answered) = ask(&serving.address, &head, &text) else {
                            return;
                        };
                        match answered.status {
                            200 => {
                                let read = read_cosignatures(
                                    answered.body.as_bytes(),
                                    asked.note(),
                                    &serving.key,
                                );
                                let time = read.unwrap()[0].time;
                                answers.lock().unwrap().push((time, asked.note().clone()));
                                old = size.max(old);
                            }
                            409 => old = answered.body.trim().parse().unwrap(),
                            status => assert_eq!(status, 422, "{answered:?}"),
                        }
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(15 + 7 * round % 60));
            serving.signal("KILL");
        });
    }
    let answers = answers.into_inner().unwrap();
    assert!(answers.len() > 20, "{}", answers.len());
    let key = log_key();
    let trees = answers.iter().map(|(_, note)| {
        let (checkpoint, _) = verifier::open(note, &[&key]).unwrap();
        *checkpoint.tree()
    });
    let trees: Vec<TreeHead> = trees.collect();
    let all_of = |history: char| {
        let is_its = |tree: &TreeHead| root(&leaves(history, tree.size)) == tree.root;
        trees.iter().all(is_its)
    };
    assert!(all_of('a') || all_of('b'));
    let last = sandbox.sh("witness list --json").json();
    let last = last["logs"][0]["size"].number();
    assert!(trees.iter().all(|tree| tree.size <= last));
}
