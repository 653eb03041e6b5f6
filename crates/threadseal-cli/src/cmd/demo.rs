//! `demo`: makes a record, attacks it, and shows that verification detects each attack.
//!
//! ```text
//! threadseal-demo/home/      keys, trust and heads of the demonstration alone
//! threadseal-demo/records/   the record, and a copy for each attack, kept for inspection
//! ```

use crate::cmd::init;
use crate::cmd::log::init::LogArgs;
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::keyring::Keyring;
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use crate::render::text;
use crate::verifying;
use serde::Serialize;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::key::{KeyUsage, Signer as _};
use threadseal_core::record::ThreadId;
use threadseal_core::report::{Report, Verdict};
use threadseal_formats::transcript::Ending;
use threadseal_formats::transcript::event::{EventType, Payload};
use threadseal_formats::transcript::ext::Ext;
use threadseal_formats::transcript::manifest::Manifest;
use threadseal_store::recorder::{Keys, Recorder};
use threadseal_verify::verifier::FileResult;

/// The actions of the demonstration's agent: event type and payload, a seal after each turn.
const TURNS: [&[(&str, &str)]; 3] = [
    &[
        (
            "cognition_in",
            r#"{"text":"Run the tests, then deploy.","role":"user"}"#,
        ),
        ("cognition_out", r#"{"text":"I run the tests first."}"#),
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
            "cognition_in",
            r#"{"text":"3 failed, 41 passed","role":"tool"}"#,
        ),
        (
            "cognition_out",
            r#"{"text":"Three tests fail. May I deploy anyway?"}"#,
        ),
    ],
    &[
        (
            "cognition_in",
            r#"{"text":"No. Do not deploy.","role":"user"}"#,
        ),
        (
            "cognition_out",
            r#"{"text":"Understood, nothing was deployed."}"#,
        ),
    ],
];

/// An attack on a copy of the record, and the verdict that verification must give.
struct Step {
    title: &'static str,
    file: &'static str,
    expected: Verdict,
    attack: fn(&str) -> String,
}

const STEPS: [Step; 6] = [
    Step {
        title: "An agent ran; each turn and the end were sealed.",
        file: "transcript.jsonl",
        expected: Verdict::Verified,
        attack: str::to_owned,
    },
    Step {
        title: "One byte is changed: 3 failed tests become 0.",
        file: "changed-byte.jsonl",
        expected: Verdict::Tampered,
        attack: |text| text.replace("3 failed, 41 passed", "0 failed, 41 passed"),
    },
    Step {
        title: "The record is cut off after the seal of the first turn.",
        file: "cut-tail.jsonl",
        expected: Verdict::RolledBack,
        attack: |text| text.split_inclusive('\n').take(7).collect(),
    },
    Step {
        title: "One seal is removed, so that two turns look like one.",
        file: "stripped-seal.jsonl",
        expected: Verdict::Tampered,
        attack: |text| {
            let lines = text.split_inclusive('\n').enumerate();
            lines
                .filter(|(index, _)| *index != 9)
                .map(|(_, line)| line)
                .collect()
        },
    },
    Step {
        title: "An event is inserted: the user agrees.",
        file: "smuggled-event.jsonl",
        expected: Verdict::Tampered,
        attack: |text| {
            text.split_inclusive('\n')
                .take(11)
                .chain([SMUGGLED])
                .chain(text.split_inclusive('\n').skip(11))
                .collect()
        },
    },
    Step {
        title: "The same event is appended after the last seal.",
        file: "appended-event.jsonl",
        expected: Verdict::UnsignedTail,
        attack: |text| format!("{text}{SMUGGLED}"),
    },
];

/// A line in good form, which an attacker can write without keys.
const SMUGGLED: &str = "{\"timestamp\":1771356405.000000,\"thread_id\":\"demo/thread\",\"event_type\":\"cognition_in\",\"salt\":\"00000000000000000000000000000000\",\"payload\":{\"text\":\"Yes, deploy.\",\"role\":\"user\"}}\n";

/// The most names that are tried for the folder of a demonstration.
const MAX_FOLDERS: u32 = 1000;

/// Where the demonstration is left to look at.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Folder to create [default: threadseal-demo, or that name with the next free number]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

#[derive(Serialize)]
struct StepOutput {
    title: &'static str,
    expected: Verdict,
    report: Report,
}

#[derive(Serialize)]
struct DemoOutput {
    schema: &'static str,
    folder: String,
    steps: Vec<StepOutput>,
}

/// Runs all steps and leaves the files; exits 0 if every attack was detected.
pub(crate) fn run(args: &DemoArgs, context: &Context, out: &mut Out) -> Outcome {
    let folder = make_folder(args.dir.as_deref())?;
    let context = context.with_home(folder.join("home"));
    // The demonstration is the only user of this folder, even on a network file system.
    let log = LogArgs {
        single_host: true,
        ..LogArgs::default()
    };
    init::make(Some(&log), &PassphraseArgs::default(), &context)?;
    let records = folder.join("records");
    fs::create_dir(&records).map_err(|error| Failure::io("make", &records, &error))?;
    let path = records.join(STEPS[0].file);
    record(&path, &context)?;
    context.settle_log();
    let honest = fs::read_to_string(&path).map_err(|error| Failure::io("read", &path, &error))?;
    let mut steps = Vec::new();
    for step in &STEPS {
        let path = records.join(step.file);
        fs::write(&path, (step.attack)(&honest))
            .map_err(|error| Failure::io("write", &path, &error))?;
        let report = verify(&path, &context)?;
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
        .any(|step| step.report.verdict != step.expected);
    let exit = if missed { Exit::NoVerdict } else { Exit::Done };
    if context.json {
        let folder = folder.display().to_string();
        out.json(&DemoOutput {
            schema: "threadseal.demo/1",
            folder,
            steps,
        });
    } else {
        let (home, records) = (folder.join("home"), records.display());
        out.line(format!("Records to inspect: {records}. Try:"));
        out.line(format!(
            "  threadseal --home {} verify {records}",
            home.display()
        ));
        out.line(format!(
            "  threadseal --home {} messages {}",
            home.display(),
            path.display()
        ));
    }
    Ok(exit)
}

/// Makes the given folder, or else the first free one.
fn make_folder(asked: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(path) = asked {
        fs::create_dir(path).map_err(|error| Failure::io("make", path, &error))?;
        return Ok(path.to_owned());
    }
    let names = std::iter::once("threadseal-demo".to_owned());
    let names = names.chain((2..MAX_FOLDERS).map(|number| format!("threadseal-demo-{number}")));
    for path in names.map(PathBuf::from) {
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Failure::io("make", &path, &error)),
        }
    }
    Err(Failure::new(
        "cannot make the demo folder: all default names exist already; hint: name a folder with --dir",
    ))
}

fn record(path: &Path, context: &Context) -> Result<(), Failure> {
    let keyring = Keyring::of(&context.existing_home()?);
    let passphrase = PassphraseArgs::default();
    let native = keyring.signer(None, KeyUsage::Native, &passphrase, context)?;
    let rye = keyring.rye_half(None, &passphrase)?;
    let host = context.host()?;
    let (authority, rye_key) = (*native.public_key(), *rye.public_key());
    let manifest = Manifest::new(host.new_record()?, authority, rye_key);
    let keys = Keys {
        native: Arc::new(native),
        rye: Arc::new(rye),
        epochs: None,
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
    let cost = Payload::parse(br#"{"cost":{"turns":3}}"#)?;
    recorder.end(Ending::Completed, &cost, 3)?;
    Ok(())
}

fn verify(path: &Path, context: &Context) -> Result<Report, Failure> {
    match verifying::verifier_of_home(context)?.verify_path(path) {
        FileResult::Reports(mut reports) if reports.len() == 1 => Ok(reports.remove(0)),
        FileResult::Failed(error) => Err(error.into()),
        _ => Err(Failure::new("the record of the demo was not recognised")),
    }
}
