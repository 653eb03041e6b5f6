//! The scenes of these tests, each made by one expression.
//!
//! ```text
//! ready()                     a home
//! open_record(), ended_record(), rye_events()     records in it, of the library's own making
//! project()                   a home with the project `p`, in which nothing ran
//! greeted()                   a thread in it that ended, and its child
//! running()                   a thread in the middle of a call
//! thief(), steal()            another home with a copy of a key, which seals the owner's files
//! ```

use crate::prelude::*;
use std::sync::Arc;
use std::time::Duration;
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
use threadseal_store::key_ends::NoKeyEnds;
use threadseal_store::random::SystemRandom;
use threadseal_store::recorder::{Keys, Recorder, TailPolicy};
use threadseal_store::sys::RealFs;

/// A sandbox after `init`.
pub(crate) fn ready() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok("init");
    sandbox
}

/// The private key in this file of a home.
pub(crate) fn signer(home: &Home, file: &str, usage: KeyUsage) -> LocalSigner {
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
        keys: Arc::new(NoKeyEnds),
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
        keys: Arc::new(NoKeyEnds),
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

pub(crate) fn directive(name: &str, permissions: &str, outputs: &str) -> String {
    format!(
        "# {name}\n\n```xml\n<directive name=\"{name}\" version=\"1.0.0\">\n  <metadata>\n    \
         <description>d</description>\n    <category>demo</category>\n    <model id=\"claude-haiku-4-5\" />\n    \
         <limits turns=\"6\" spend=\"0.05\" />\n    <permissions>{permissions}</permissions>\n  </metadata>\n  \
         <inputs><input name=\"name\" type=\"string\" required=\"true\">w</input></inputs>\n  {outputs}\n\
         </directive>\n```\n\nGreet {{input:name}}.\n"
    )
}

pub(crate) const TOOLS: &str = "<execute><tool>rye.file-system.*</tool><tool>demo.count</tool>\
                     <tool>rye.agent.threads.thread_directive</tool></execute>";
pub(crate) const OUTPUTS: &str =
    "<outputs><output name=\"path\" required=\"true\">p</output></outputs>";
pub(crate) const SCRIPT: &str = "answers:\n\
    - {text: I write it., calls: [{tool: rye_file-system_write, input: {path: out.txt, content: Hello}}]}\n\
    - {calls: [{tool: rye_execute, input: {item_id: demo/count, parameters: {file: out.txt}}}]}\n\
    - {calls: [{tool: rye_agent_threads_thread_directive, input: {directive_id: demo/child, inputs: {name: Bob}}}]}\n\
    - {text: I am the child.}\n\
    - {calls: [{tool: directive_return, input: {path: out.txt}}]}\n";

const COUNT: &str = "tool_type: command\ncommand: [/usr/bin/wc, -c, \"${inputs.file}\"]\nconfig_schema:\n  type: object\n  \
    properties: {file: {type: string}}\n  required: [file]\n";

/// A home with the project `p`: two directives and a tool, all sealed, and the scripts
/// `answers.yaml` and `more.yaml`.
pub(crate) fn project() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok("init -q");
    let files = [
        sandbox.write(
            "p/.ai/directives/demo/greet.md",
            directive("greet", TOOLS, OUTPUTS),
        ),
        sandbox.write(
            "p/.ai/directives/demo/child.md",
            directive("child", TOOLS, ""),
        ),
        sandbox.write("p/.ai/tools/demo/count.yaml", COUNT),
    ];
    seal_all(&sandbox, &files);
    sandbox.write("answers.yaml", SCRIPT);
    sandbox.write("more.yaml", "answers: [{when: Once more., text: Gladly.}]");
    sandbox
}

/// Seals files with one command.
pub(crate) fn seal_all(sandbox: &Sandbox, files: &[PathBuf]) {
    let files: Vec<String> = files.iter().map(|path| format!("{path:?}")).collect();
    sandbox.ok(format!("seal --inline {}", files.join(" ")));
}

/// Runs `demo/greet`, with the answers of `answers.yaml` unless `more` names others.
pub(crate) fn greet(sandbox: &Sandbox, more: &str) -> Ran {
    let script = match more.contains("--script") || more.contains("--replay") {
        true => "",
        false => "--script answers.yaml",
    };
    sandbox.sh(format!(
        "run demo/greet --project p -i name=Ada {script} {more}"
    ))
}

/// Runs `demo/greet` to its end; the id of the thread. It began the thread of `demo/child`.
#[track_caller]
pub(crate) fn greeted(sandbox: &Sandbox, more: &str) -> String {
    let ran = greet(sandbox, &format!("{more} --json")).exits(0).json();
    ran["thread_id"].text().to_owned()
}

/// The command that resumes a thread of project `p`, with the answers of `more.yaml`.
pub(crate) fn once_more(thread: &str) -> String {
    format!("thread resume {thread} --project p -m 'Once more.' --script more.yaml")
}

/// The folder of the only thread of a directive.
pub(crate) fn thread(sandbox: &Sandbox, directive: &str) -> PathBuf {
    let threads = fs::read_dir(sandbox.path("p/.ai/agent/threads/demo")).unwrap();
    let mut threads = threads.map(|entry| entry.unwrap().path());
    let of_it = |path: &PathBuf| thread_id(path).starts_with(&format!("demo/{directive}"));
    threads.find(of_it).unwrap()
}

/// The transcript of the only thread of a directive.
pub(crate) fn transcript(sandbox: &Sandbox, directive: &str) -> PathBuf {
    thread(sandbox, directive).join("transcript.jsonl")
}

/// A thread with detached bodies; the transcript of its child, which answered.
pub(crate) fn detached() -> (Sandbox, PathBuf) {
    let sandbox = project();
    greeted(&sandbox, "--bodies detached");
    let transcript = transcript(&sandbox, "child");
    (sandbox, transcript)
}

/// The id of the thread with this folder.
pub(crate) fn thread_id(folder: &Path) -> String {
    format!("demo/{}", name_of(folder))
}

/// A process in the middle of a call of its thread; it is killed with the value.
pub(crate) struct Running {
    pub(crate) process: Child,
    pub(crate) thread: String,
    pub(crate) folder: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs `demo/greet` with these answers and a last one, whose call sleeps: the thread's call of this
/// number.
pub(crate) fn running(sandbox: &Sandbox, answers: &str, call: usize) -> Running {
    let tool = "tool_type: command\ncommand: [/bin/sleep, '60']\n";
    sandbox.sealed("p/.ai/tools/demo/count.yaml", tool);
    let last = "- {calls: [{tool: demo_count}]}";
    sandbox.write("slow.yaml", format!("answers:\n{answers}{last}\n"));
    let threads = || {
        let threads = fs::read_dir(sandbox.path("p/.ai/agent/threads/demo"));
        threads
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().path())
    };
    let before: Vec<PathBuf> = threads().collect();
    let process = sandbox.spawn("run demo/greet --project p -i name=Ada --script slow.yaml");
    let in_call = |folder: &PathBuf| {
        let text = fs::read_to_string(folder.join("transcript.jsonl")).unwrap_or_default();
        !before.contains(folder) && text.matches("tool_call_start").count() == call
    };
    let folder = (0..600).find_map(|_| {
        std::thread::sleep(Duration::from_millis(50));
        threads().find(in_call)
    });
    let folder = folder.unwrap();
    Running {
        process,
        thread: thread_id(&folder),
        folder,
    }
}
