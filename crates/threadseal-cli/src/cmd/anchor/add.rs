//! `anchor add`: a policy of C2SP tlog-policy that this home keeps.

use super::{folder, path_of};
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Out;
use crate::seal_log;
use clap::Args;
use std::path::PathBuf;
use threadseal::limits::MAX_POLICY_BYTES;
use threadseal::tlog::policy::Policy;
use threadseal_store::atomic::{self, Mode, PRIVATE_FILE};
use threadseal_store::home::{KeyFileName, PRIVATE_DIRECTORY};
use threadseal_store::read::read_small;

/// What `anchor add` takes.
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// The policy: `log`, `witness`, `group` and `quorum` lines; the addresses of the witnesses are asked
    #[arg(value_name = "POLICYFILE")]
    policy: PathBuf,
    /// Its name in this home; one of the same name is replaced [default: that of the file, without its ending]
    #[arg(long)]
    name: Option<String>,
}

/// Reads it, and keeps it as it is.
pub(super) fn run(args: &AddArgs, context: &Context, out: &mut Out) -> Outcome {
    let home = context.existing_home()?;
    let bytes = read_small(&*context.fs, &args.policy, MAX_POLICY_BYTES)?;
    let policy = Policy::parse(&bytes)
        .map_err(|error| Failure::new(error.to_string()).about(&args.policy))?;
    let log = seal_log::open(&home, context)?
        .ok_or_else(|| Failure::new("this home has no log; run: threadseal log init"))?;
    let ours = log.verifier()?;
    if !policy.logs().iter().any(|log| log.key == ours) {
        let text = format!("it does not name the log of this home; add the line: log {ours}");
        return Err(Failure::new(text).about(&args.policy));
    }
    let name = match &args.name {
        Some(name) => name.clone(),
        None => args
            .policy
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
    };
    // What serves as the name of a key's file serves here.
    let name = KeyFileName::parse(&name)
        .map_err(|_| Failure::new(format!("{name:?} does not serve as a name; give --name")))?;
    atomic::create_directories(&*context.fs, &folder(&home), PRIVATE_DIRECTORY)?;
    let path = path_of(&home, name.as_str());
    atomic::replace(&*context.fs, &path, &bytes, Mode::Set(PRIVATE_FILE))?;
    if context.json {
        out.json(&serde_json::json!({"schema": "threadseal.anchor.add/1", "name": name.as_str()}));
    } else if !context.quiet {
        out.line(format_args!("kept: {name}"));
    }
    Ok(Exit::Done)
}
