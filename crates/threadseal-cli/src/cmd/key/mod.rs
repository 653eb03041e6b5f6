//! `key new|list|show|export|import|delegate|rotate|revoke|history`: the user's own keys.

mod delegate;
mod ending;
mod export;
mod history;
mod import;
mod new;
mod revoke;
mod rotate;
mod show;

use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::keyring::{Keyring, OwnKey};
use crate::output::Out;
use crate::render::clean::Clean;
use crate::trust_file;
use clap::{Subcommand, ValueEnum};
use serde::Serialize;
use threadseal_core::key::KeyUsage;

/// What to do with keys.
#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a new key
    New(new::NewArgs),
    /// List the keys of this home
    List,
    /// Show the public half of a key
    Show(show::ShowArgs),
    /// Export a key as a PEM file (PKCS#8 v1 for the private half)
    Export(export::ExportArgs),
    /// Import a private key: PEM, a Rye key folder, or an igor identity file
    Import(import::ImportArgs),
    /// Let another machine's key continue this record
    ///
    /// The record states it under a seal, and so does the log of this home. The permission ends
    /// with the record, or with that key.
    Delegate(delegate::DelegateArgs),
    /// Replace a native key by a new one, and end the old key
    ///
    /// The log of this home records the end, and the trust store follows. Earlier seals of the old
    /// key stay valid, and the new key continues its records.
    Rotate(rotate::RotateArgs),
    /// End a native key, in the log of this home
    ///
    /// Seals that the log shows to be earlier stay valid.
    Revoke(revoke::RevokeArgs),
    /// List the events of keys in the log of this home, and the evidence for their place
    History(history::HistoryArgs),
}

/// `--usage`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UsageArg {
    /// Seals of native records
    Native,
    /// Signatures in Rye's formats
    Rye,
    /// Detached seals of other programs' logs
    Observed,
    /// Turns of scrolls
    Scroll,
    /// Checkpoints of igor's formats
    Igor,
    /// Checkpoints of a transparency log
    Log,
    /// Cosignatures of other logs' checkpoints
    Witness,
}

impl From<UsageArg> for KeyUsage {
    fn from(usage: UsageArg) -> Self {
        match usage {
            UsageArg::Native => Self::Native,
            UsageArg::Rye => Self::Rye,
            UsageArg::Observed => Self::Observed,
            UsageArg::Scroll => Self::Scroll,
            UsageArg::Igor => Self::Igor,
            UsageArg::Log => Self::Log,
            UsageArg::Witness => Self::Witness,
        }
    }
}

/// A key in JSON.
#[derive(Debug, Serialize)]
pub(crate) struct KeyOutput {
    name: String,
    usage: &'static str,
    key_id: String,
    public: String,
    did: String,
    rye_fingerprint: String,
    private: bool,
}

impl KeyOutput {
    /// All names of a key.
    pub(crate) fn of(key: &OwnKey) -> Self {
        Self {
            name: key.name.clone(),
            usage: key.usage.as_str(),
            key_id: key.public.key_id().to_hex(),
            public: key.public.to_hex(),
            did: key.public.to_did_key(),
            rye_fingerprint: key.public.rye_fingerprint().to_hex(),
            private: key.has_private,
        }
    }
}

#[derive(Serialize)]
struct KeysOutput {
    schema: &'static str,
    keys: Vec<KeyOutput>,
}

/// `self  native  <key id>`
pub(crate) fn key_line(key: &OwnKey) -> String {
    format!(
        "{:<16}  {:<8}  {}{}",
        Clean(&key.name).to_string(),
        key.usage.as_str(),
        key.public.key_id(),
        if key.has_private {
            ""
        } else {
            "  (public half only)"
        }
    )
}

pub(crate) fn run(command: &KeyCommand, context: &Context, out: &mut Out) -> Outcome {
    match command {
        KeyCommand::New(args) => new::run(args, context, out),
        KeyCommand::List => list(context, out),
        KeyCommand::Show(args) => show::run(args, context, out),
        KeyCommand::Export(args) => export::run(args, context, out),
        KeyCommand::Import(args) => import::run(args, context, out),
        KeyCommand::Delegate(args) => delegate::run(args, context, out),
        KeyCommand::Rotate(args) => rotate::run(args, context, out),
        KeyCommand::Revoke(args) => revoke::run(args, context, out),
        KeyCommand::History(args) => history::run(args, context, out),
    }
}

fn list(context: &Context, out: &mut Out) -> Outcome {
    let keys = Keyring::of(&context.existing_home()?).list()?;
    print_keys(&keys, context, out);
    Ok(Exit::Done)
}

fn print_keys(keys: &[OwnKey], context: &Context, out: &mut Out) {
    if context.json {
        out.json(&KeysOutput {
            schema: "threadseal.keys/1",
            keys: keys.iter().map(KeyOutput::of).collect(),
        });
    } else {
        for key in keys {
            out.line(key_line(key));
        }
    }
}

/// Warns that a new key is not trusted yet, and names the command that trusts it. Policies name the
/// keys of logs and witnesses, so those need no entry in the trust store.
fn tell_untrusted(key: &OwnKey, context: &Context) -> Result<(), Failure> {
    let is_of_policies = matches!(key.usage, KeyUsage::Log | KeyUsage::Witness);
    if context.quiet || is_of_policies {
        return Ok(());
    }
    let store = trust_file::of_home(&context.existing_home()?)?;
    if store.by_key(&key.public).next().is_none() {
        let (name, usage) = (Clean(&key.name), key.usage);
        let usage = match usage {
            KeyUsage::Native => String::new(),
            usage => format!(" --usage {usage}"),
        };
        complain(&format!(
            "note: this key is not trusted yet, not even by this home; hint: threadseal trust add {} --name {name}{usage}",
            key.public.to_did_key()
        ));
    }
    Ok(())
}

/// The default name of a key: `key-` and the first eight digits of its id.
fn name_of(public: &threadseal_core::key::PublicKey) -> String {
    let id = public.key_id().to_hex();
    format!("key-{}", &id[..8])
}
