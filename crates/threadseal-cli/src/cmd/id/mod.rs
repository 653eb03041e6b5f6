//! `id export|show|import|recover`: identities, the public keys of one party in one file.

mod export;
mod import;
mod own;
mod recover;
mod show;

pub(crate) use import::{Imported, Taken};

use crate::context::Context;
use crate::exit::Outcome;
use crate::output::Out;
use crate::render::clean::Clean;
use clap::Subcommand;
use serde::Serialize;
use threadseal_core::identity::{Identity, IdentityKey};
use threadseal_core::time::Timestamp;

/// What to do with identities.
#[derive(Debug, Subcommand)]
pub(crate) enum IdCommand {
    /// Write all public keys of this home into one signed file, to give to others
    Export(export::ExportArgs),
    /// Show your identity and the imported ones, or one of them with its keys
    Show(show::ShowArgs),
    /// Keep the identity of another person; this trusts no key
    Import(import::ImportArgs),
    /// Replace a lost or stolen native key in your identity, with the recovery key
    Recover(recover::RecoverArgs),
}

pub(crate) fn run(command: &IdCommand, context: &Context, out: &mut Out) -> Outcome {
    match command {
        IdCommand::Export(args) => export::run(args, context, out),
        IdCommand::Show(args) => show::run(args, context, out),
        IdCommand::Import(args) => import::run(args, context, out),
        IdCommand::Recover(args) => recover::run(args, context, out),
    }
}

/// An identity in JSON.
#[derive(Debug, Serialize)]
pub(crate) struct IdentityOutput {
    id: String,
    name: String,
    words: String,
    seq: u64,
    issued: String,
    recovery: Option<String>,
    /// How many native keys were replaced, and by whom.
    links: Vec<&'static str>,
    keys: Vec<IdentityKeyOutput>,
}

#[derive(Debug, Serialize)]
struct IdentityKeyOutput {
    key_id: String,
    public: String,
    usage: &'static str,
    /// Does the key itself prove that it belongs to the identity?
    proven: bool,
    from: Option<String>,
    until: Option<String>,
    ended: Option<IdentityEndOutput>,
}

#[derive(Debug, Serialize)]
struct IdentityEndOutput {
    at: String,
    why: String,
    /// The key that took its place, where its owner rotated it.
    next: Option<String>,
}

impl IdentityOutput {
    pub(crate) fn of(identity: &Identity) -> Self {
        let content = identity.content();
        Self {
            id: identity.id().to_string(),
            name: content.name.to_string(),
            words: words(identity),
            seq: content.seq,
            issued: content.issued.to_iso_seconds(),
            recovery: content.recovery.map(|key| key.to_hex()),
            links: content.links.iter().map(|link| link.by.as_str()).collect(),
            keys: content.keys.iter().map(IdentityKeyOutput::of).collect(),
        }
    }
}

impl IdentityKeyOutput {
    fn of(listed: &IdentityKey) -> Self {
        let time = |time: Option<Timestamp>| time.map(Timestamp::to_iso_seconds);
        let ended = listed.ended.as_ref().map(|ended| IdentityEndOutput {
            at: ended.at.to_iso_seconds(),
            why: ended.how.line(),
            next: ended.how.next().map(|next| next.to_hex()),
        });
        Self {
            key_id: listed.key.key_id().to_hex(),
            public: listed.key.to_hex(),
            usage: listed.usage.as_str(),
            proven: listed.proof.is_some(),
            from: time(listed.from),
            until: time(listed.until),
            ended,
        }
    }

    /// `native    <key id>  until …; ended …`
    fn line(&self) -> String {
        let mut remarks = Vec::new();
        if !self.proven {
            remarks.push("claimed without a proof".to_owned());
        }
        if let Some(from) = &self.from {
            remarks.push(format!("from {from}"));
        }
        if let Some(until) = &self.until {
            remarks.push(format!("until {until}"));
        }
        if let Some(ended) = &self.ended {
            remarks.push(format!("ended {} {}", ended.at, ended.why));
        }
        let line = format!("{:<8}  {}  {}", self.usage, self.key_id, remarks.join("; "));
        Clean(line.trim_end()).to_string()
    }
}

/// The twelve words in one line.
pub(crate) fn words(identity: &Identity) -> String {
    identity.id().words().join(" ")
}

/// What two people compare, and how.
pub(crate) fn compare_line(identity: &Identity) -> String {
    format!(
        "compare these words with the owner, by voice or in person: {}",
        words(identity)
    )
}

/// The lines about one identity, for people.
fn describe(identity: &Identity, out: &mut Out) {
    let shown = IdentityOutput::of(identity);
    out.line(format_args!("identity     {}", Clean(&shown.name)));
    out.line(format_args!("id           {}", shown.id));
    out.line(format_args!("words        {}", shown.words));
    out.line(format_args!(
        "issued       {} (number {})",
        shown.issued, shown.seq
    ));
    let recovery = match &shown.recovery {
        Some(_) => "a recovery key can replace a lost key",
        None => "none: a lost native key ends this identity",
    };
    out.line(format_args!("recovery     {recovery}"));
    for key in &shown.keys {
        out.line(key.line());
    }
}
