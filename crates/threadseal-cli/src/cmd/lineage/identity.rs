//! `lineage identity …`: the key of an agent, and session keys under it.
//!
//! ```text
//! DIR/<agent>.identity   0600, made once and never overwritten (igor's form, or PEM)
//! delegation             the text of `spec/lineage.md` §6, for the machine with the session key
//! ```
//! A file that cannot be read is an error and never the reason for a new key.

use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::key_status;
use crate::keyring;
use crate::output::Out;
use crate::trust_file;
use crate::verifying;
use clap::{Args, Subcommand};
use serde::Serialize;
use std::path::{Path, PathBuf};
use threadseal_core::error::Error;
use threadseal_core::key::{KeyUsage, PublicKey, Signer as _};
use threadseal_core::limits::MAX_KEY_FILE_BYTES;
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{ScopeFormat, TrustName, TrustedKey};
use threadseal_formats::lineage::{AgentId, AgentIdentity, AgentName, Delegation, IdentityForm};
use threadseal_store::atomic;
use threadseal_store::read::read_small;

/// Permission bits of private keys and of public files.
const PRIVATE: u32 = 0o600;
const PUBLIC: u32 = 0o644;
/// The default lifetime of a delegation.
const DEFAULT_DAYS: u64 = 90;
const DAY_MICROS: u64 = 24 * 60 * 60 * 1_000_000;

/// What to do with identities.
#[derive(Debug, Subcommand)]
pub(crate) enum IdentityCommand {
    /// Create the key of an agent that has none
    New(NewArgs),
    /// Show the key in an identity file
    Show(ShowArgs),
    /// Let a session key sign for an agent, for a limited time
    Delegate(DelegateArgs),
}

/// What `lineage identity new` takes.
#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// The agent's name; the new file is NAME.identity
    #[arg(value_name = "AGENT", value_parser = AgentName::parse)]
    agent: AgentName,
    /// The folder
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Write PKCS#8 PEM instead of igor's 68 bytes
    #[arg(long)]
    pem: bool,
}

/// What `lineage identity show` takes.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The identity file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The agent's name [default: from the file's name]
    #[arg(long, value_name = "NAME", value_parser = AgentName::parse)]
    agent: Option<AgentName>,
}

/// What `lineage identity delegate` takes.
#[derive(Debug, Args)]
pub(crate) struct DelegateArgs {
    /// The identity file with the agent's root key
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The session key: PEM file, 64 hex digits, did:key, or a name of the trust store
    #[arg(long, value_name = "KEY")]
    to: String,
    /// Number of the delegation, from 1; each later one needs a larger number
    #[arg(long, value_name = "N")]
    key_epoch: u64,
    /// Start of validity: 2026-01-31T12:00:00Z [default: now]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    not_before: Option<Timestamp>,
    /// End of validity: 2026-01-31T12:00:00Z [default: 90 days after the start]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    not_after: Option<Timestamp>,
    /// The agent's name [default: from the file's name]
    #[arg(long, value_name = "NAME", value_parser = AgentName::parse)]
    agent: Option<AgentName>,
    /// New file for the delegation
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

#[derive(Serialize)]
struct IdentityOutput<'a> {
    schema: &'static str,
    agent: &'a str,
    agent_id: String,
    key: String,
    did: String,
    path: String,
    /// The name under which this home trusts the new key.
    #[serde(skip_serializing_if = "Option::is_none")]
    trusted_as: Option<String>,
}

pub(super) fn run(command: &IdentityCommand, context: &Context, out: &mut Out) -> Outcome {
    match command {
        IdentityCommand::New(args) => new(args, context, out),
        IdentityCommand::Show(args) => {
            let agent = name_of(&args.file, args.agent.as_ref())?;
            let identity = read(&args.file, context)?;
            let key = identity.public_key();
            print(&agent, key, (key, None), &args.file, context, out);
            Ok(Exit::Done)
        }
        IdentityCommand::Delegate(args) => delegate(args, context, out),
    }
}

fn new(args: &NewArgs, context: &Context, out: &mut Out) -> Outcome {
    let form = if args.pem {
        IdentityForm::Pem
    } else {
        IdentityForm::Igor
    };
    let path = args.dir.join(format!("{}.identity", args.agent));
    let identity = AgentIdentity::new(keyring::generate(context)?, form);
    atomic::create_new(&*context.fs, &path, &identity.to_file(), PRIVATE)?;
    let key = identity.public_key();
    let trusted = trust_made(&args.agent, key, context)?;
    print(&args.agent, key, (key, trusted), &path, context, out);
    Ok(Exit::Done)
}

/// Trusts the key that was made here for an agent, for lineages and nothing else. Returns its name
/// in the trust store; none without a home.
///
/// # Errors
/// When the trust store cannot be read or written.
pub(super) fn trust_made(
    agent: &AgentName,
    key: &PublicKey,
    context: &Context,
) -> Result<Option<TrustName>, Failure> {
    let Some(home) = context.home()? else {
        return Ok(None);
    };
    let id = key.key_id().to_hex();
    let now = context.now()?;
    let mut name = None;
    trust_file::change(&home, context, |store| {
        // Another agent of this name, or another key, may have it.
        let names = [
            agent.as_str().to_owned(),
            format!("agent-{}", &id[..8]),
            id.clone(),
        ];
        let mut names = names.iter().filter_map(|name| TrustName::parse(name).ok());
        let free = names.find(|name| store.by_name(name).is_none());
        let free = free.ok_or_else(|| Failure::new("every name for the new key is taken"))?;
        let usages = [KeyUsage::Native, KeyUsage::Igor];
        let mut entry = TrustedKey::new(free.clone(), *key, usages);
        entry.scope.formats = [ScopeFormat::Lineage].into();
        entry.added = Some(now);
        store.add(entry)?;
        name = Some(free);
        Ok(true)
    })?;
    Ok(name)
}

fn delegate(args: &DelegateArgs, context: &Context, out: &mut Out) -> Outcome {
    let agent = name_of(&args.file, args.agent.as_ref())?;
    let session = verifying::public_key(&args.to, context)?;
    let from = match args.not_before {
        Some(from) => from,
        None => context.now()?,
    };
    let to = match args.not_after {
        Some(to) => to,
        None => Timestamp::from_micros(from.as_micros() + DEFAULT_DAYS * DAY_MICROS)?,
    };
    let root = read(&args.file, context)?.into_native_signer();
    key_status::refuse(root.public_key(), context)?;
    let window = [nanos(from)?, nanos(to)?];
    let delegation = Delegation::sign(&root, agent, session, args.key_epoch, window)?;
    let text = delegation.to_text();
    atomic::create_new(&*context.fs, &args.output, text.as_bytes(), PUBLIC)?;
    let (root, session) = (&delegation.root, &delegation.signer);
    print(
        &delegation.name,
        root,
        (session, None),
        &args.output,
        context,
        out,
    );
    Ok(Exit::Done)
}

/// Reads an identity file.
///
/// # Errors
/// When it cannot be read, or is damaged: the file stays as it is.
pub(super) fn read(path: &Path, context: &Context) -> Result<AgentIdentity, Failure> {
    let bytes = read_small(&*context.fs, path, MAX_KEY_FILE_BYTES)?;
    let readable = |mode: u32| mode & 0o077 != 0;
    let found = context.fs.metadata(path);
    let found = found.map_err(|error| Failure::io("read", path, &error))?;
    if readable(found.mode) && !context.quiet {
        complain(&format!(
            "warning: other users may read {}: it contains the agent's private key",
            path.display()
        ));
    }
    let read = AgentIdentity::read(&bytes).map_err(Failure::from);
    read.map_err(|failure| failure.about(path))
}

/// The given name, or else the name of the agent in the file's name.
///
/// # Errors
/// When the file's name is not that of an agent.
pub(super) fn name_of(path: &Path, given: Option<&AgentName>) -> Result<AgentName, Failure> {
    if let Some(given) = given {
        return Ok(given.clone());
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    AgentName::parse(&stem).map_err(|error: Error| Failure::from(error).about(path))
}

fn nanos(moment: Timestamp) -> Result<i64, Failure> {
    let nanos = i64::try_from(moment.as_micros()).ok();
    let nanos = nanos.and_then(|micros| micros.checked_mul(1000));
    nanos.ok_or_else(|| Failure::new("the time is out of range"))
}

fn moment(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse_iso_seconds(text)
        .ok_or_else(|| format!("{text:?} is not a time: write 2026-01-31T12:00:00Z"))
}

/// Prints the agent, whose name is under `root`, and the `key` that signs, with its name in the
/// trust store if it was just added there.
fn print(
    agent: &AgentName,
    root: &PublicKey,
    (key, trusted): (&PublicKey, Option<TrustName>),
    path: &Path,
    context: &Context,
    out: &mut Out,
) {
    let output = IdentityOutput {
        schema: "threadseal.lineage.identity/1",
        agent: agent.as_str(),
        agent_id: AgentId::new(root, agent).to_hex(),
        key: key.to_hex(),
        did: key.to_did_key(),
        path: path.display().to_string(),
        trusted_as: trusted.map(|name| name.to_string()),
    };
    if context.json {
        out.json(&output);
        return;
    }
    let row = |label: &str| context.palette.faint(&format!("{label:<10}"));
    let rows = [
        ("agent", output.agent),
        ("agent id", &output.agent_id),
        ("key", &output.key),
        ("did", &output.did),
        ("file", &output.path),
    ];
    let trusted = output.trusted_as.as_deref().map(|name| ("trusted", name));
    for (label, text) in rows.into_iter().chain(trusted) {
        out.line(format_args!(
            "{}{}",
            row(label),
            crate::render::clean::Clean(text)
        ));
    }
}
