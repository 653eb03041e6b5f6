//! `anchor …`: who else saw the log of this home (`spec/anchors.md`).

mod add;
mod check;
mod list;

use crate::context::Context;
use crate::exit::{Failure, Outcome};
use crate::output::Out;
use clap::Subcommand;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use threadseal::limits::MAX_POLICY_BYTES;
use threadseal::tlog::policy::Policy;
use threadseal_store::home::{Home, read_trusted_file};

const ENDING: &str = "policy";

/// What to do with witnesses of the log.
#[derive(Debug, Subcommand)]
pub(crate) enum AnchorCommand {
    /// Keep a policy: which witnesses are asked, and how many must have cosigned
    Add(add::AddArgs),
    /// List the policies and their witnesses
    List,
    /// Ask the witnesses to cosign the log as it is, and say whether enough did
    Check(check::CheckArgs),
}

/// Runs one of them.
pub(super) fn run(command: &AnchorCommand, context: &Context, out: &mut Out) -> Outcome {
    match command {
        AnchorCommand::Add(args) => add::run(args, context, out),
        AnchorCommand::List => list::run(context, out),
        AnchorCommand::Check(args) => check::run(args, context, out),
    }
}

fn folder(home: &Home) -> PathBuf {
    home.path().join("anchors")
}

fn path_of(home: &Home, name: &str) -> PathBuf {
    folder(home).join(format!("{name}.{ENDING}"))
}

/// All policies of a home, by name.
fn policies(home: &Home, context: &Context) -> Result<Vec<(String, Policy)>, Failure> {
    let folder = folder(home);
    let names = match context.fs.read_dir(&folder) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(Failure::io("read", &folder, &error)),
    };
    let mut policies = Vec::new();
    for name in names {
        let path = Path::new(&name);
        let Some(stem) = path.file_stem().and_then(OsStr::to_str) else {
            continue;
        };
        if path.extension() != Some(OsStr::new(ENDING)) {
            continue;
        }
        let path = path_of(home, stem);
        let Some(bytes) = read_trusted_file(&*context.fs, &path, MAX_POLICY_BYTES)? else {
            continue;
        };
        let policy = Policy::parse(&bytes);
        let policy = policy.map_err(|error| Failure::new(error.to_string()).about(&path))?;
        policies.push((stem.to_owned(), policy));
    }
    policies.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(policies)
}
