//! Records to look at, made with the keys of a sandbox's own home.

use crate::prelude::*;
use std::sync::Arc;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey};
use threadseal_core::record::ThreadId;
use threadseal_core::trust::{Trust, TrustStore};
use threadseal_formats::transcript::event::{EventType, Payload};
use threadseal_formats::transcript::ext::Ext;
use threadseal_formats::transcript::manifest::Manifest;
use threadseal_formats::transcript::{Ending, VerifyOptions};
use threadseal_store::clock::{Clock, SystemClock};
use threadseal_store::home::{Home, KeyFileName};
use threadseal_store::host::Host;
use threadseal_store::random::SystemRandom;
use threadseal_store::recorder::{Keys, Recorder, TailPolicy};
use threadseal_store::sys::RealFs;

/// A sandbox after `init`.
pub(crate) fn ready() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok("init");
    sandbox
}

fn signer(home: &Home, file: &str, usage: KeyUsage) -> LocalSigner {
    let name = KeyFileName::parse(file).unwrap();
    let pem = String::from_utf8(home.keys().read_private(&name).unwrap()).unwrap();
    LocalSigner::new(PrivateKey::from_pem(&pem).unwrap(), usage)
}

/// The home of a thief, who has a copy of this key under the name `stolen` and no other knowledge.
pub(crate) fn thief(sandbox: &Sandbox, key: &str) -> Sandbox {
    let thief = Sandbox::new();
    thief.ok("init -q --no-log");
    let pem = thief.path("stolen.pem");
    let pem = pem.to_str().unwrap();
    sandbox.ok(format!("key export {key} --private --out {pem:?}"));
    thief.ok(format!("key import {pem:?} --name stolen"));
    thief
}

/// Has a thief seal a file of the sandbox with the key that they stole.
pub(crate) fn steal(thief: &Sandbox, sandbox: &Sandbox, name: &str) {
    let path = sandbox.path(name);
    thief.ok(format!("seal --key stolen {path:?}"));
}

/// A native record of `turns` turns; three events and a seal each.
pub(crate) fn recorder(sandbox: &Sandbox, name: &str, turns: u64) -> Recorder {
    recorder_at(sandbox, name, turns, Arc::new(SystemClock))
}

/// The same, by this clock.
pub(crate) fn recorder_at(
    sandbox: &Sandbox,
    name: &str,
    turns: u64,
    clock: Arc<dyn Clock>,
) -> Recorder {
    let home = Home::open(RealFs::shared(), &sandbox.home()).unwrap();
    let keys = Keys {
        native: Arc::new(signer(&home, "self.native", KeyUsage::Native)),
        rye: Arc::new(signer(&home, "self-rye.rye", KeyUsage::Rye)),
        epochs: Some(home.epochs()),
    };
    let host = Host {
        fs: RealFs::shared(),
        clock,
        random: Arc::new(SystemRandom),
        heads: Arc::new(home.heads()),
    };
    let (native, rye) = (*keys.native.public_key(), *keys.rye.public_key());
    let manifest = Manifest::new(host.new_record().unwrap(), native, rye);
    let path = sandbox.path(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let thread = ThreadId::parse("demo/thread-1").unwrap();
    let mut recorder = Recorder::create(host, &path, thread, manifest, keys).unwrap();
    for turn in 1..=turns {
        say(&mut recorder, "cognition_in", &format!("question {turn}"));
        say(&mut recorder, "cognition_out", &format!("answer {turn}"));
        say(&mut recorder, "tool_call_result", &format!("result {turn}"));
        recorder.seal(turn, Ext::default()).unwrap();
    }
    recorder
}

/// The record at `path`, opened again with this home's own key and its Rye key of this name.
pub(crate) fn reopened(sandbox: &Sandbox, path: &Path, rye: &str) -> Recorder {
    let home = Home::open(RealFs::shared(), &sandbox.home()).unwrap();
    let keys = Keys {
        native: Arc::new(signer(&home, "self.native", KeyUsage::Native)),
        rye: Arc::new(signer(&home, rye, KeyUsage::Rye)),
        epochs: Some(home.epochs()),
    };
    let host = Host {
        fs: RealFs::shared(),
        clock: Arc::new(SystemClock),
        random: Arc::new(SystemRandom),
        heads: Arc::new(home.heads()),
    };
    let trust = String::from_utf8(home.read_trust().unwrap().unwrap()).unwrap();
    let trust = Trust::new(TrustStore::parse(&trust).unwrap());
    let options = VerifyOptions {
        trust: &trust,
        now: SystemClock.now().unwrap(),
        held_since: None,
        thread: None,
    };
    let opened = Recorder::open(host, path, keys, &options, TailPolicy::Refuse);
    opened.unwrap().recorder
}

/// Appends an event with this text.
pub(crate) fn say(recorder: &mut Recorder, event_type: &str, text: &str) {
    let payload = json!({"text": text, "role": "user", "output": text}).to_string();
    recorder
        .append(
            &EventType::parse(event_type).unwrap(),
            &Payload::parse(payload.as_bytes()).unwrap(),
        )
        .unwrap();
}

/// An open native record.
pub(crate) fn open_record(sandbox: &Sandbox, name: &str, turns: u64) -> PathBuf {
    let recorder = recorder(sandbox, name, turns);
    recorder.path().to_owned()
}

/// A native record that has ended.
pub(crate) fn ended_record(sandbox: &Sandbox, name: &str, turns: u64) -> PathBuf {
    let mut recorder = recorder(sandbox, name, turns);
    let nothing = Payload::parse(b"{}").unwrap();
    recorder.end(Ending::Completed, &nothing, turns).unwrap();
    recorder.path().to_owned()
}

/// Events in Rye's spelling, unsigned.
pub(crate) fn rye_events(sandbox: &Sandbox, name: &str, turns: u64) -> PathBuf {
    let mut lines = String::new();
    for turn in 1..=turns {
        for (event, payload) in [
            (
                "cognition_in",
                format!(r#"{{"text": "question {turn}", "role": "user"}}"#),
            ),
            (
                "cognition_out",
                format!(r#"{{"text": "answer {turn}", "model": "m"}}"#),
            ),
        ] {
            lines.push_str(&format!(
                "{{\"timestamp\": 1739820405.5, \"thread_id\": \"demo/rye-1\", \"event_type\": \"{event}\", \"payload\": {payload}}}\n"
            ));
        }
    }
    sandbox.write(name, lines)
}
