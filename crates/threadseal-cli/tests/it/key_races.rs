//! Keys that end beside writers: no order of honest commands makes a forgery.

use crate::prelude::*;
use std::sync::Barrier;
use std::thread;
use threadseal_core::error::ErrorKind;
use threadseal_core::key::KeyUsage;
use threadseal_core::record::ThreadId;
use threadseal_formats::ledger::{RunId, Signatures, StepRecord};
use threadseal_formats::transcript::manifest::Manifest;
use threadseal_store::clock::{Clock as _, SystemClock};
use threadseal_store::heads::HeadStore as _;
use threadseal_store::home::Home;
use threadseal_store::ledger::{
    ActorSigners, ChainedLedger as _, HashChainedLedgerStore, JsonlLedgerStore,
};
use threadseal_store::observer::{self, Sealed};
use threadseal_store::recorder::{Keys, Recorder};
use threadseal_store::sys::RealFs;
use threadseal_verify::home_log::HomeLog;
use threadseal_verify::hosts;

const STEP: &str = "{\"node\":\"plan\",\"effect\":{\"type\":\"llm_call\",\"payload\":{\"p\":\"hi\"}},\"result\":{\"text\":\"ho\"}}\n";

/// A command whose input stays open.
struct Waiting(Child);

impl Waiting {
    fn new(sandbox: &Sandbox, line: &str) -> Self {
        let mut command = sandbox.command();
        command.args(words(line)).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    fn feed(&mut self, input: &str) {
        let stdin = self.0.stdin.as_mut().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    fn ends(mut self) -> Ran {
        drop(self.0.stdin.take());
        Ran::of(self.0.wait_with_output().unwrap())
    }
}

/// Waits until the file has so many lines.
#[track_caller]
fn wait_for_lines(path: &Path, count: usize) {
    let there = || fs::read_to_string(path).is_ok_and(|text| text.lines().count() >= count);
    let came = (0..3000).any(|_| {
        thread::sleep(Duration::from_millis(10));
        there()
    });
    assert!(came, "{}", path.display());
}

/// Nothing in the working folder is accused, whatever verified before.
#[track_caller]
fn nothing_is_accused(sandbox: &Sandbox) {
    let ran = sandbox.sh("verify . --json");
    for result in ran.json()["results"].list() {
        assert_ne!(exit_of(result["verdict"].text()), 1, "{result:#}");
    }
    assert_ne!(ran.code, 1, "{}", ran.stderr);
}

// T-KLOG-35
#[test]
fn a_key_that_ends_while_a_ledger_waits_for_records_signs_no_more() {
    for end in ["key rotate self", "key revoke self --reason stolen"] {
        let sandbox = ready();
        let append = "ledger append file:runs --run r1 --sign";
        let mut writer = Waiting::new(&sandbox, append);
        writer.feed(STEP);
        let ledger = sandbox.path("runs/ledger_r1.jsonl");
        wait_for_lines(&ledger, 2);
        sandbox.ok(end);
        let before = fs::read(&ledger).unwrap();
        writer.feed(STEP);
        writer.ends().fails_with("has ended");
        assert_eq!(fs::read(&ledger).unwrap(), before, "{end}");
        nothing_is_accused(&sandbox);
        assert_eq!(sandbox.verdict("verify runs/ledger_r1.jsonl"), "verified");
    }
}

const TURN: &str = r#"{"version":"scroll/0.1","turn":N,"role":"user","model":{"vendor":"v","id":"m"},"params":{"temperature":1,"top_p":1},"messages":[{"role":"user","content":"hi"}],"timestamp_ns":1000}"#;

// T-KLOG-35
#[test]
fn a_key_that_ends_while_a_scroll_waits_for_turns_signs_no_more() {
    let sandbox = ready();
    sandbox.ok("key new --usage scroll --name mine");
    let key = sandbox.key("mine")["did"].text().to_owned();
    sandbox.ok(format!("trust add {key} --name mine --usage scroll"));
    let turn = |number: u64| format!("{}\n", TURN.replace('N', &number.to_string()));
    let mut writer = Waiting::new(&sandbox, "scroll seal --append live.jsonl --key mine");
    // The head of the second turn is known before the command waits for the third one.
    writer.feed(&turn(0));
    writer.feed(&turn(1));
    let live = sandbox.path("live.jsonl");
    wait_for_lines(&live, 2);
    sandbox.ok("trust revoke mine");
    let before = fs::read(&live).unwrap();
    writer.feed(&turn(2));
    writer.ends().exits(2).warns("has ended");
    assert_eq!(fs::read(&live).unwrap(), before);
    nothing_is_accused(&sandbox);
    assert_eq!(sandbox.verdict("verify live.jsonl"), "verified");
}

// T-KLOG-48
#[test]
fn a_program_that_holds_a_key_learns_of_its_end_before_the_next_seal() {
    let sandbox = ready();
    let home = Home::open(RealFs::shared(), &sandbox.home()).unwrap();
    let host = hosts::of_home(&home, &HomeLog::Never);
    // A log that another program writes.
    let signer = crate::scene::signer(&home, "self-observed.observed", KeyUsage::Observed);
    let log = sandbox.write("log.jsonl", "{\"a\":1}\n");
    let seal = || observer::seal(&host, &log, false, Duration::ZERO, &signer, &|_| {});
    assert!(matches!(seal().unwrap().sealed, Sealed::Added(_)));
    sandbox.write("log.jsonl", "{\"a\":1}\n{\"a\":2}\n");
    sandbox.ok("trust revoke self-observed");
    let refused = seal().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused);
    assert!(refused.to_string().contains("has ended"), "{refused}");
    nothing_is_accused(&sandbox);
    // A record of a thread.
    let keys = Keys {
        native: Arc::new(crate::scene::signer(&home, "self.native", KeyUsage::Native)),
        rye: Arc::new(crate::scene::signer(&home, "self-rye.rye", KeyUsage::Rye)),
        epochs: Some(home.epochs()),
    };
    let (native, rye) = (*keys.native.public_key(), *keys.rye.public_key());
    let manifest = Manifest::new(host.new_record().unwrap(), native, rye);
    let thread = ThreadId::parse("demo/thread-1").unwrap();
    let path = sandbox.path("t.jsonl");
    let mut recorder = Recorder::create(host.clone(), &path, thread, manifest, keys).unwrap();
    say(&mut recorder, "cognition_in", "one");
    recorder.seal(1, Ext::default()).unwrap();
    say(&mut recorder, "cognition_in", "two");
    sandbox.ok("key revoke self --reason stolen");
    let refused = recorder.seal(2, Ext::default()).unwrap_err();
    assert!(refused.to_string().contains("has ended"), "{refused}");
    drop(recorder);
    nothing_is_accused(&sandbox);
    assert_eq!(sandbox.verdict("verify t.jsonl"), "unsigned_tail");
}

// T-KLOG-35
#[test]
fn no_order_of_seals_and_ends_of_keys_makes_a_forgery() {
    const ROUNDS: usize = 8;
    let sandbox = project();
    for round in 0..ROUNDS {
        let documents: Vec<String> = (0..6).map(|one| format!("{round}-{one}.md")).collect();
        for name in &documents {
            sandbox.write(name, "text\n");
        }
        let append = format!("ledger append file:runs --run r{round} --sign");
        let lines = [
            format!("seal {}", documents.join(" ")),
            "run demo/greet --project p -i name=Ada --script answers.yaml".to_owned(),
            append,
            match round % 2 {
                0 => "key rotate self --anyway".to_owned(),
                _ => "key revoke self --reason x".to_owned(),
            },
        ];
        let start = Barrier::new(lines.len());
        let ended: Vec<Ran> = thread::scope(|scope| {
            let (sandbox, start) = (&sandbox, &start);
            let run = move |line: &str| {
                start.wait();
                piped(sandbox, line, STEP)
            };
            let all: Vec<_> = lines
                .iter()
                .map(|line| scope.spawn(move || run(line)))
                .collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        for (line, ran) in lines.iter().zip(&ended) {
            let stopped = ran.code == 2 && !ran.stderr.is_empty();
            assert!(ran.code == 0 || stopped, "{line}: {ran:?}");
        }
        nothing_is_accused(&sandbox);
        if round % 2 == 1 {
            sandbox.ok("key rotate self --anyway");
        }
    }
}

// T-KLOG-19
#[test]
fn a_rotation_publishes_the_head_of_a_ledger_with_its_signatures() {
    let sandbox = ready();
    piped(&sandbox, "ledger append file:runs --run r1 --sign", STEP).exits(0);
    let path = sandbox.path("runs/ledger_r1.jsonl");
    // Another process stores a signed record, and is killed before it publishes the head.
    let home = Home::open(RealFs::shared(), &sandbox.home()).unwrap();
    let actor = json_lines(&path)[1]["actor_id"].text().to_owned();
    let key = Arc::new(crate::scene::signer(&home, "self.native", KeyUsage::Native));
    let store = JsonlLedgerStore::open(RealFs::shared(), &sandbox.path("runs")).unwrap();
    let ledger = HashChainedLedgerStore::new(store)
        .with_signer(Arc::new(ActorSigners::new().with(actor.clone(), key)));
    let run = RunId::parse("r1").unwrap();
    let now = SystemClock.now().unwrap();
    let mut step = StepRecord::start(run.clone(), "s", "node", None, now);
    step.actor_id = Some(actor);
    step.finish_success(None, now);
    ledger.append(&step).unwrap();
    drop(ledger);
    sandbox.ok("key rotate self");
    let mut signatures = Signatures::default();
    let records = json_lines(&path);
    for (index, record) in (0..).zip(&records) {
        signatures.take(index, record["signature"].as_str());
    }
    let known = home.heads().fetch(&run.record_id()).unwrap().unwrap();
    assert_eq!(known.head.size, records.len() as u64);
    assert_eq!(known.root, Some(signatures.digest()));
    nothing_is_accused(&sandbox);
    // A signature that is gone is noticed.
    let last = records.last().unwrap()["signature"].text().to_owned();
    replace(&path, &format!("\"{last}\""), "null");
    sandbox.sh("verify runs").exits(1);
}
