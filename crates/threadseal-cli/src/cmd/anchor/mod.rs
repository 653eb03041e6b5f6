//! `anchor …`: witnesses and authorities that saw the log of this home (`spec/anchors.md`).

mod add;
mod check;
mod list;
mod remove;
mod repeat;
mod stamp;

use crate::context::Context;
use crate::exit::{Failure, Outcome};
use crate::output::Out;
use clap::Subcommand;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use threadseal_core::limits::MAX_POLICY_BYTES;
use threadseal_core::tlog::policy::Policy;
use threadseal_core::tlog::verifier::VerifierKey;
use threadseal_log::timestamps::{Authority, MAX_AUTHORITY_BYTES};
use threadseal_store::home::{Home, read_trusted_file};

const POLICY: &str = "policy";
const AUTHORITY: &str = "tsa";

/// What to do with witnesses and time stamps of the log.
#[derive(Debug, Subcommand)]
pub(crate) enum AnchorCommand {
    /// Keep a policy (which witnesses are asked, and how many must have cosigned), or a time-stamping authority
    Add(add::AddArgs),
    /// List the policies and their witnesses, the time-stamping authorities and what they stamped last
    List,
    /// Keep a policy or an authority no longer; what was collected stays
    Remove(remove::RemoveArgs),
    /// Ask the witnesses to cosign the log as it is and the authorities to stamp it, and say whether enough did
    Check(check::CheckArgs),
}

pub(super) fn run(command: &AnchorCommand, context: &Context, out: &mut Out) -> Outcome {
    match command {
        AnchorCommand::Add(args) => add::run(args, context, out),
        AnchorCommand::List => list::run(context, out),
        AnchorCommand::Remove(args) => remove::run(args, context, out),
        AnchorCommand::Check(args) => check::run(args, context, out),
    }
}

/// Does the policy name this key of a log?
pub(crate) fn names(policy: &Policy, log: &VerifierKey) -> bool {
    policy.logs().iter().any(|known| known.key == *log)
}

fn folder(home: &Home) -> PathBuf {
    home.path().join("anchors")
}

fn path_of(home: &Home, name: &str, ending: &str) -> PathBuf {
    folder(home).join(format!("{name}.{ending}"))
}

/// The files of one kind in a home, by name. An unreadable file hides no other.
#[derive(Debug, Clone)]
pub(crate) struct Kept<T> {
    /// The readable ones.
    pub(crate) good: Vec<(String, T)>,
    /// The unreadable ones, each with the reason.
    pub(crate) bad: Vec<(String, String)>,
}

impl<T> Kept<T> {
    /// The readable ones; warns of each other one, once.
    pub(crate) fn telling(self, context: &Context) -> Vec<(String, T)> {
        for (_, why) in &self.bad {
            context.warn_unread(why);
        }
        self.good
    }

    /// Keeps only those whose name fits.
    fn retain(&mut self, is_meant: impl Fn(&String) -> bool) {
        self.good.retain(|(name, _)| is_meant(name));
        self.bad.retain(|(name, _)| is_meant(name));
    }

    fn names(&self) -> impl Iterator<Item = &String> {
        let good = self.good.iter().map(|(name, _)| name);
        good.chain(self.bad.iter().map(|(name, _)| name))
    }
}

/// All policies of a home.
///
/// # Errors
/// When the folder cannot be read.
pub(crate) fn policies(home: &Home, context: &Context) -> Result<Kept<Policy>, Failure> {
    files(home, context, POLICY, MAX_POLICY_BYTES, |bytes| {
        Policy::parse(bytes).map_err(|error| error.to_string())
    })
}

/// All time-stamping authorities of a home.
///
/// # Errors
/// When the folder cannot be read.
pub(crate) fn authorities(home: &Home, context: &Context) -> Result<Kept<Authority>, Failure> {
    files(home, context, AUTHORITY, MAX_AUTHORITY_BYTES, |bytes| {
        Authority::parse(bytes).map_err(|error| error.to_string())
    })
}

/// The content of all files with this ending.
fn files<T>(
    home: &Home,
    context: &Context,
    ending: &str,
    limit: usize,
    parse: impl Fn(&[u8]) -> Result<T, String>,
) -> Result<Kept<T>, Failure> {
    let folder = folder(home);
    let mut names = match context.fs.read_dir(&folder) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(Failure::io("read", &folder, &error)),
    };
    names.sort();
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for name in names {
        let path = Path::new(&name);
        let Some(stem) = path.file_stem().and_then(OsStr::to_str) else {
            continue;
        };
        if path.extension() != Some(OsStr::new(ending)) {
            continue;
        }
        let path = path_of(home, stem, ending);
        let read = read_trusted_file(&*context.fs, &path, limit).map_err(Failure::from);
        let parsed = read.and_then(|bytes| {
            let parsed = bytes.map(|bytes| parse(&bytes)).transpose();
            parsed.map_err(|error| Failure::new(error).about(&path))
        });
        match parsed {
            Ok(Some(parsed)) => good.push((stem.to_owned(), parsed)),
            Ok(None) => {}
            Err(failure) => bad.push((stem.to_owned(), failure.to_string())),
        }
    }
    Ok(Kept { good, bad })
}
