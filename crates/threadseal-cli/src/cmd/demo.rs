//! `demo`: a record, and what is noticed when it is attacked.
//!
//! Everything happens in a folder of its own with a home of its own, both gone at the end.

use crate::cmd::init;
use crate::context::Context;
use crate::examine::{Asked, Examiner, Seen};
use crate::exit::{Exit, Failure, Outcome};
use crate::gather;
use crate::keyring::{Keyring, self_name};
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use crate::render::text;
use crate::walk::Candidate;
use indicatif::ProgressBar;
use serde::Serialize;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use threadseal::key::{KeyUsage, Signer as _};
use threadseal::record::ThreadId;
use threadseal::report::{Report, Verdict};
use threadseal::transcript::event::{EventType, Payload};
use threadseal::transcript::ext::Ext;
use threadseal::transcript::manifest::Manifest;
use threadseal_store::recorder::{Keys, Recorder};

/// What the agent of the demonstration did: event type and payload, a seal after each turn.
const TURNS: [&[(&str, &str)]; 3] = [
    &[
        ("cognition_in", r#"{"text":"Run the tests.","role":"user"}"#),
        (
            "tool_call_start",
            r#"{"tool":"bash","call_id":"1","input":{"command":"cargo test"}}"#,
        ),
        (
            "tool_call_result",
            r#"{"call_id":"1","output":"3 failed, 41 passed"}"#,
        ),
    ],
    &[
        (
            "cognition_out",
            r#"{"text":"Three tests fail. May I deploy anyway?"}"#,
        ),
        (
            "cognition_in",
            r#"{"text":"No. Do not deploy.","role":"user"}"#,
        ),
    ],
    &[(
        "cognition_out",
        r#"{"text":"Understood, nothing was deployed."}"#,
    )],
];

/// Something done to the record, and what verification must then say.
struct Step {
    title: &'static str,
    expected: Verdict,
    attack: fn(&str) -> String,
}

const STEPS: [Step; 5] = [
    Step {
        title: "An agent ran, and each turn was sealed.",
        expected: Verdict::Verified,
        attack: str::to_owned,
    },
    Step {
        title: "Somebody edits a tool result: \"0 failed, 44 passed\".",
        expected: Verdict::Tampered,
        attack: |text| text.replace("3 failed, 41 passed", "0 failed, 44 passed"),
    },
    Step {
        title: "Somebody deletes the line in which the user says no.",
        expected: Verdict::Tampered,
        attack: |text| {
            let lines = text.split_inclusive('\n');
            lines
                .filter(|line| !line.contains("Do not deploy"))
                .collect()
        },
    },
    Step {
        title: "Somebody cuts the record back to its first turn, seal and all.",
        expected: Verdict::RolledBack,
        attack: |text| text.split_inclusive('\n').take(6).collect(),
    },
    Step {
        title: "Somebody appends an answer that was never given.",
        expected: Verdict::UnsignedTail,
        attack: |text| {
            let line = r#"{"timestamp":1.000000,"thread_id":"demo/thread","event_type":"cognition_in","salt":"00000000000000000000000000000000","payload":{"text":"Yes, deploy.","role":"user"}}"#;
            format!("{text}{line}\n")
        },
    },
];

#[derive(Serialize)]
struct StepOutput {
    title: &'static str,
    expected: Verdict,
    report: Report,
}

#[derive(Serialize)]
struct DemoOutput {
    schema: &'static str,
    steps: Vec<StepOutput>,
    exit: u8,
}

/// Plays all steps; 0 when everything was noticed.
pub(crate) fn run(context: &Context, out: &mut Out) -> Outcome {
    let failure = |error| Failure::io("make a folder in", &std::env::temp_dir(), &error);
    let folder = tempfile::tempdir().map_err(failure)?;
    let context = context.with_home(folder.path().join("home"));
    init::make(&PassphraseArgs::default(), &context)?;
    let path = folder.path().join("transcript.jsonl");
    record(&path, &context)?;
    let honest = fs::read_to_string(&path).map_err(|error| Failure::io("read", &path, &error))?;
    let mut steps = Vec::new();
    for step in &STEPS {
        fs::write(&path, (step.attack)(&honest))
            .map_err(|error| Failure::io("write", &path, &error))?;
        let mut report = verify(&path, &context)?;
        "transcript.jsonl".clone_into(&mut report.path);
        if !context.json {
            out.line(context.palette.strong(step.title));
            out.line(text::report(&report, context.palette));
            out.line("");
        }
        steps.push(StepOutput {
            title: step.title,
            expected: step.expected,
            report,
        });
    }
    let missed = steps
        .iter()
        .find(|step| step.report.verdict != step.expected);
    let exit = if missed.is_none() {
        Exit::Done
    } else {
        Exit::NoVerdict
    };
    if context.json {
        out.json(&DemoOutput {
            schema: "threadseal.demo/1",
            steps,
            exit: exit.code(),
        });
    }
    Ok(exit)
}

fn record(path: &Path, context: &Context) -> Result<(), Failure> {
    let keyring = Keyring::of(&context.existing_home()?);
    let passphrase = PassphraseArgs::default();
    let signer = |usage| keyring.signer(Some(self_name(usage)), usage, &passphrase);
    let (native, rye) = (signer(KeyUsage::Native)?, signer(KeyUsage::Rye)?);
    let host = context.host()?;
    let (authority, rye_key) = (*native.public_key(), *rye.public_key());
    let manifest = Manifest::new(host.new_record()?, authority, rye_key);
    let keys = Keys {
        native: Arc::new(native),
        rye: Arc::new(rye),
    };
    let thread = ThreadId::parse("demo/thread")?;
    let mut recorder = Recorder::create(host, path, thread, manifest, keys)?;
    for (events, turn) in TURNS.iter().zip(1..) {
        for (event_type, payload) in *events {
            let payload = Payload::parse(payload.as_bytes())?;
            recorder.append(&EventType::parse(event_type)?, &payload)?;
        }
        recorder.seal(turn, Ext::default())?;
    }
    Ok(())
}

fn verify(path: &Path, context: &Context) -> Result<Report, Failure> {
    let trust = gather::gather(&[], None, &[], false, context)?;
    let examiner = Examiner::new(Asked::by(trust), ProgressBar::hidden(), context)?;
    let candidate = Candidate {
        path: path.to_owned(),
        named: true,
        bytes: 0,
    };
    match examiner.examine(&candidate) {
        Seen::Reports(mut reports) if reports.len() == 1 => Ok(reports.remove(0)),
        Seen::Failed(error) => Err(Failure::new(error.message)),
        _ => Err(Failure::new(
            "the record of the demonstration was not recognised",
        )),
    }
}
