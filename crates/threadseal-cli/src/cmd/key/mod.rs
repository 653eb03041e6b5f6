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
use threadseal_store::home::Home;
use threadseal_verify::home_key_ends::End;

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
    /// Replace a key by a new one, and end the old key
    ///
    /// The old key signs its end for the log of this home, and the trust store records it. Earlier
    /// seals of the old key stay valid, and the new key continues its records. For other homes, export
    /// your identity: there, older records whose age nothing shows are then of an unknown signer.
    Rotate(rotate::RotateArgs),
    /// End a key, in the log of this home
    ///
    /// Seals that the log shows to be earlier stay valid. Without evidence of its age, a record of the
    /// key is forged: here, and in each home that imports your next identity.
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
    /// How the key ended; null while it may seal.
    ended: Option<EndOutput>,
}

/// How a key ended: in the log at an entry, or in the trust store at a moment.
#[derive(Debug, Serialize)]
struct EndOutput {
    entry: Option<u64>,
    at: Option<String>,
    why: String,
}

/// A key of this home, and how it ended.
pub(crate) struct ListedKey {
    key: OwnKey,
    end: Option<End>,
}

impl ListedKey {
    /// The keys with their ends. Where the log cannot be read, a warning reports it, and the trust
    /// store alone decides.
    ///
    /// # Errors
    /// When the trust store cannot be read.
    pub(crate) fn all(
        keys: &[OwnKey],
        home: &Home,
        context: &Context,
    ) -> Result<Vec<Self>, Failure> {
        let ends = context.key_ends(home)?;
        let mut doubt = None;
        let listed = keys.iter().map(|key| {
            let end = match ends.end_of(&key.public) {
                Ok(end) => end,
                Err(error) => {
                    doubt.get_or_insert(error);
                    ends.revoked(&key.public)?
                }
            };
            let key = key.clone();
            Ok(Self { key, end })
        });
        let listed = listed.collect::<Result<_, Failure>>()?;
        if let Some(error) = doubt {
            complain(&format!(
                "warning: the log may know of more keys that ended, and cannot be read: {error}"
            ));
        }
        Ok(listed)
    }
}

impl KeyOutput {
    /// All names of a key.
    pub(crate) fn of(listed: &ListedKey) -> Self {
        let key = &listed.key;
        Self {
            name: key.name.clone(),
            usage: key.usage.as_str(),
            key_id: key.public.key_id().to_hex(),
            public: key.public.to_hex(),
            did: key.public.to_did_key(),
            rye_fingerprint: key.public.rye_fingerprint().to_hex(),
            private: key.has_private,
            ended: listed.end.as_ref().map(EndOutput::of),
        }
    }
}

impl EndOutput {
    fn of(end: &End) -> Self {
        match end {
            End::Logged(entry, change) => Self {
                entry: Some(*entry),
                at: None,
                why: change.as_str().to_owned(),
            },
            End::Revoked(revoked) => Self {
                entry: revoked.entry,
                at: Some(revoked.at.to_iso_seconds()),
                why: revoked.reason.clone(),
            },
        }
    }
}

#[derive(Serialize)]
struct KeysOutput {
    schema: &'static str,
    keys: Vec<KeyOutput>,
}

/// `self  native  <key id>`
pub(crate) fn key_line(listed: &ListedKey) -> String {
    let ListedKey { key, end } = listed;
    let half = match key.has_private {
        true => "",
        false => "  (public half only)",
    };
    let end = end.as_ref().map(|end| format!("  ended: {end}"));
    format!(
        "{:<16}  {:<8}  {}{half}{}",
        Clean(&key.name).to_string(),
        key.usage.as_str(),
        key.public.key_id(),
        end.unwrap_or_default()
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
    print_keys(&keys, context, out)?;
    Ok(Exit::Done)
}

fn print_keys(keys: &[OwnKey], context: &Context, out: &mut Out) -> Result<(), Failure> {
    let keys = ListedKey::all(keys, &context.existing_home()?, context)?;
    if context.json {
        out.json(&KeysOutput {
            schema: "threadseal.key.list/1",
            keys: keys.iter().map(KeyOutput::of).collect(),
        });
    } else {
        for key in &keys {
            out.line(key_line(key));
        }
    }
    Ok(())
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
