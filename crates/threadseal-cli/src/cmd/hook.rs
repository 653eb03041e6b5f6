//! `hook AGENT`: takes the payload of a hook, and has the session sealed that it names.
//!
//! ```text
//! payload ─► the watcher holds it ─► answer          a watcher runs
//!        └─► sealed here ─► answer                   none runs
//! ```
//! It is never in the way of its agent: the exit is 0 whatever happens, standard error stays empty,
//! each wait has a limit, and its own troubles go to `status`. Only with `--strict` a tool that the
//! agent asks for is refused while the record cannot be sealed.

use crate::context::Context;
use crate::database_seal;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use crate::session_seal::{SessionSealer, session_of};
use clap::Args;
use std::ffi::OsString;
use std::io::{IsTerminal as _, Read as _, stdin};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;
use threadseal_capture::Agent;
use threadseal_capture::hook::link::{self, Answer, Ask};
use threadseal_capture::hook::requests::Request;
use threadseal_capture::hook::troubles::{Trouble, Troubles};
use threadseal_capture::hook::{MAX_PAYLOAD_BYTES, Payload, answer};
use threadseal_core::time::Timestamp;
use threadseal_store::clock::{Clock as _, SystemClock};
use threadseal_store::read::open_regular;
use threadseal_store::sys::path_text;

/// How long the agent may take to write its payload to the end.
const PAYLOAD_LIMIT: Duration = Duration::from_secs(5);
/// How long the watcher may take to hold a request.
const HOLD_LIMIT: Duration = Duration::from_secs(1);
/// How long it may take for a seal, where the answer waits for it.
const SEAL_LIMIT: Duration = Duration::from_secs(8);
/// Longest wait for another process that seals the same log: the shortest limit of an agent is 3 s.
const SEAL_WAIT: Duration = Duration::from_millis(1500);

/// What `hook` takes.
#[derive(Debug, Args)]
pub(crate) struct HookArgs {
    /// The agent, and --strict to refuse tools while the record cannot be sealed. Other words are
    /// passed over: a hook never fails
    #[arg(value_name = "AGENT", num_args = 0.., trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// What came of a payload.
struct Taken {
    agent: Option<Agent>,
    payload: Payload,
    /// Is it sealed, and not only held?
    result: Result<bool, String>,
}

/// Seals, or has it done, and answers the agent.
pub(crate) fn run(args: &HookArgs, context: &Context, out: &mut Out) -> Outcome {
    let strict = args.words.iter().any(|word| word == "--strict");
    let taken = catch_unwind(AssertUnwindSafe(|| take(args, strict, context)));
    let Ok(taken) = taken else {
        note(None, None, Some("the hook failed".to_owned()), context);
        return Ok(Exit::Done);
    };
    let is_sealed = taken.result == Ok(true);
    let why = taken.result.err();
    let agent = taken.agent.unwrap_or(Agent::ClaudeCode);
    let refusal = why.as_deref().filter(|_| strict);
    let text = answer(agent, &taken.payload, refusal);
    if !text.is_empty() {
        out.bytes(text.as_bytes());
    }
    let about = about(&taken.payload);
    // What the watcher holds may still be refused, and then it is the watcher's trouble.
    if is_sealed || why.is_some() {
        note(taken.agent, about, why, context);
    }
    Ok(Exit::Done)
}

/// What a trouble is about: a log, or a session of a database.
fn about(payload: &Payload) -> Option<String> {
    let of_database = || {
        let database = path_text(payload.database.as_ref()?);
        Some(match &payload.session {
            Some(session) => database_seal::about(&database, session),
            None => database,
        })
    };
    let log = payload.logs.first().map(|log| path_text(log));
    log.or_else(of_database)
}

fn take(args: &HookArgs, strict: bool, context: &Context) -> Taken {
    let failed = |agent, why: String| Taken {
        agent,
        payload: Payload::default(),
        result: Err(why),
    };
    // The agent waits until its payload is read, also where nothing comes of it.
    let read = payload();
    let name = args.words.first().and_then(|word| word.to_str());
    let agent = match name.unwrap_or_default().parse::<Agent>() {
        Ok(agent) => agent,
        Err(error) => return failed(None, error.to_string()),
    };
    let payload = match read {
        Ok(payload) => payload,
        Err(why) => return failed(Some(agent), why),
    };
    let payload = match context.machine() {
        Ok(machine) => payload.located(agent, &machine),
        Err(_) => payload,
    };
    let request = Request::new(agent, payload.clone());
    Taken {
        agent: Some(agent),
        result: seal(request, strict, context).map_err(|failure| failure.to_string()),
        payload,
    }
}

fn payload() -> Result<Payload, String> {
    if stdin().is_terminal() {
        return Err("no payload: standard input is a terminal".to_owned());
    }
    let (sender, receiver) = channel();
    // If the input never ends, the process ends while this thread still reads.
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut input = stdin().lock().take(MAX_PAYLOAD_BYTES as u64 + 1);
        let read = input.read_to_end(&mut bytes);
        // An error means that the deadline has passed.
        let _ = sender.send(read.map(|_| bytes));
    });
    let late = |_| {
        let seconds = PAYLOAD_LIMIT.as_secs();
        format!("cannot read the payload: it did not end in {seconds} s")
    };
    let read = receiver.recv_timeout(PAYLOAD_LIMIT).map_err(late)?;
    let bytes = read.map_err(|error| format!("cannot read the payload: {error}"))?;
    if bytes.len() > MAX_PAYLOAD_BYTES {
        return Err(format!(
            "the payload has more than {MAX_PAYLOAD_BYTES} bytes"
        ));
    }
    Payload::read(&bytes).map_err(|error| error.to_string())
}

/// Gives the request to the watcher, or else seals here; false if it is only held.
fn seal(request: Request, strict: bool, context: &Context) -> Result<bool, Failure> {
    let home = context.existing_home()?;
    let limit = if strict { SEAL_LIMIT } else { HOLD_LIMIT };
    let ask = Ask::Seal { request, strict };
    match link::ask(home.path(), &ask, limit) {
        Ok(Answer::Held) => return Ok(false),
        Ok(Answer::Sealed) => return Ok(true),
        Ok(Answer::Failed { why }) if strict => return Err(Failure::new(why)),
        // No watcher, one that is busy, or one of another version.
        Ok(Answer::Failed { .. } | Answer::Status(_)) | Err(_) => {}
    }
    let Ask::Seal { request, .. } = ask else {
        return Ok(true);
    };
    let present = request.logs.iter().filter(|log| log.exists());
    let present: Vec<_> = present.collect();
    if present.is_empty() && request.database.is_none() {
        return Ok(true);
    }
    let sealer = SessionSealer::open(None, &PassphraseArgs::none(), SEAL_WAIT, context)?.silent();
    for log in present {
        seal_one(&sealer, log, context).map_err(|failure| failure.about(log))?;
    }
    if let Some(database) = &request.database {
        let session = request.session.as_deref();
        database_seal::seal_named(&sealer, database, session, context)?;
    }
    Ok(true)
}

fn seal_one(sealer: &SessionSealer, log: &Path, context: &Context) -> Result<(), Failure> {
    let file = open_regular(&*sealer.host().fs, log)?;
    let Some(session) = session_of(&file, &[])? else {
        return Ok(());
    };
    sealer.seal(log, &session, context).map(drop)
}

/// Notes a trouble for `status`, or that there is none any more. Where this fails, nothing is left
/// to be done: the agent is not to be disturbed.
fn note(agent: Option<Agent>, about: Option<String>, why: Option<String>, context: &Context) {
    let Ok(Some(home)) = context.home() else {
        return;
    };
    let trouble = Trouble {
        at: SystemClock
            .now()
            .map_or_else(|_| String::new(), Timestamp::to_iso_seconds),
        of: agent.map_or("hook", Agent::name).to_owned(),
        about: about.unwrap_or_default(),
        why,
    };
    let _ = Troubles::of(home.path()).add(&*context.fs, trouble);
}
