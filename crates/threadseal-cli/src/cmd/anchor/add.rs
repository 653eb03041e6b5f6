//! `anchor add`: adds a C2SP tlog-policy, or a time-stamping authority, to this home.

use super::check::log_of;
use super::{AUTHORITY, POLICY, folder, path_of};
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Out;
use crate::policies::names;
use clap::Args;
use std::path::{Path, PathBuf};
use threadseal_core::limits::MAX_POLICY_BYTES;
use threadseal_core::tlog::policy::Policy;
use threadseal_log::timestamps::{Authority, MAX_AUTHORITY_BYTES};
use threadseal_store::atomic::PRIVATE_DIRECTORY;
use threadseal_store::atomic::{self, Mode, PRIVATE_FILE};
use threadseal_store::home::{Home, KeyFileName};
use threadseal_store::read::read_small;

/// What `anchor add` takes.
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// The policy file: `log`, `witness`, `group` and `quorum` lines with the addresses of the
    /// witnesses
    #[arg(
        value_name = "POLICYFILE",
        required_unless_present = "tsa",
        conflicts_with = "tsa"
    )]
    policy: Option<PathBuf>,
    /// Add a time-stamping authority (RFC 3161) instead, by its https or http address
    #[arg(long, value_name = "URL", requires = "root")]
    tsa: Option<String>,
    /// PEM file with the root certificates of the authority
    #[arg(long, value_name = "PEM", requires = "tsa")]
    root: Option<PathBuf>,
    /// Name in this home; replaces an entry of the same name [default: the file's name without its
    /// ending, or the authority's host]
    #[arg(long)]
    name: Option<String>,
}

/// Checks the file, and keeps its bytes unchanged.
pub(super) fn run(args: &AddArgs, context: &Context, out: &mut Out) -> Outcome {
    let home = context.existing_home()?;
    let (default, ending, bytes) = match (&args.policy, &args.tsa, &args.root) {
        (Some(policy), ..) => {
            let stem = policy.file_stem().unwrap_or_default().to_string_lossy();
            (
                stem.into_owned(),
                POLICY,
                policy_for(&home, policy, context)?,
            )
        }
        (None, Some(url), Some(root)) => {
            let pem = read_small(&*context.fs, root, MAX_AUTHORITY_BYTES / 2)?;
            let authority = Authority::new(url, &pem)
                .map_err(|error| Failure::new(error.to_string()).about(root))?;
            (host_of(url), AUTHORITY, authority.to_text().into_bytes())
        }
        _ => return Err(Failure::new("give a policy, or --tsa and --root")),
    };
    let name = args.name.clone().unwrap_or(default);
    // The rules for names of key files apply here, too.
    let name = KeyFileName::parse(&name).map_err(|_| {
        Failure::new(format!(
            "{name:?} is not valid as a name; hint: give another one with --name"
        ))
    })?;
    atomic::create_directories(&*context.fs, &folder(&home), PRIVATE_DIRECTORY)?;
    let path = path_of(&home, name.as_str(), ending);
    atomic::replace(&*context.fs, &path, &bytes, Mode::Set(PRIVATE_FILE))?;
    if context.json {
        let value = serde_json::json!({"schema": "threadseal.anchor.add/1", "name": name.as_str()});
        out.json(&value);
    } else if !context.quiet {
        out.line(format_args!("kept: {name}"));
    }
    Ok(Exit::Done)
}

/// The bytes of a policy that names the log of this home.
fn policy_for(home: &Home, path: &Path, context: &Context) -> Result<Vec<u8>, Failure> {
    let bytes = read_small(&*context.fs, path, MAX_POLICY_BYTES)?;
    let policy =
        Policy::parse(&bytes).map_err(|error| Failure::new(error.to_string()).about(path))?;
    let log = log_of(home, context)?;
    let ours = log.verifier()?;
    if !names(&policy, &ours) {
        let text =
            format!("the policy does not name the log of this home; add the line: log {ours}");
        return Err(Failure::new(text).about(path));
    }
    Ok(bytes)
}

/// The host in an address, without its port.
fn host_of(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split(['/', ':', '?', '#']).next();
    host.unwrap_or_default().to_owned()
}
