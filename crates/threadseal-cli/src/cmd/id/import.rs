//! `id import`, and the part of it that `trust add` shares.
//!
//! An import trusts no key. It ends keys: where the trust store has entries that were made from the
//! identity, those that ended in it, or left it by a recovery, are revoked.

use super::{IdentityOutput, compare_line};
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::output::Out;
use crate::render::clean::Clean;
use crate::trust_file;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use threadseal_core::identity::{Conflict, Ended, Identity, IdentityKey, Step};
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{Revocation, TrustName, TrustStore, TrustedKey};
use threadseal_store::home::Home;
use threadseal_store::lock::Exclusive;
use threadseal_verify::identities::Identities;

/// What `id import` takes.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The file that the owner exported
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Serialize)]
struct ImportOutput {
    schema: &'static str,
    identity: IdentityOutput,
    step: &'static str,
    /// Names of entries of the trust store that trust keys of it now.
    trusted: Vec<String>,
    /// Names of entries that ended by this import.
    ended: Vec<String>,
    /// Ids of its keys that no entry trusts.
    untrusted: Vec<String>,
}

/// An identity that was kept, or is no successor of the known one.
pub(crate) enum Taken {
    /// It is kept.
    Kept(Imported),
    /// It must not take the place of the known one.
    Refused(Conflict),
}

/// What an import changed.
pub(crate) struct Imported {
    /// None for an identity that was not known.
    pub(crate) step: Option<Step>,
    /// The names of entries that ended by it.
    pub(crate) ended: Vec<TrustName>,
}

impl Imported {
    /// Keeps an identity, and ends the keys that it ended.
    ///
    /// # Errors
    /// When the home cannot be read or written.
    pub(crate) fn take(
        identity: &Identity,
        home: &Home,
        context: &Context,
    ) -> Result<Taken, Failure> {
        let lock = home.path().join("identity.lock");
        let _alone = Exclusive::enter(&*context.fs, &lock)?;
        let known = Identities::of(home, &context.fs);
        let step = match known.import(identity)? {
            Ok(step) => step,
            Err(conflict) => return Ok(Taken::Refused(conflict)),
        };
        let mut ended = Vec::new();
        trust_file::change(home, context, |store| {
            ended = end_keys(store, identity)?;
            Ok(!ended.is_empty())
        })?;
        Ok(Taken::Kept(Self { step, ended }))
    }
}

pub(super) fn run(args: &ImportArgs, context: &Context, out: &mut Out) -> Outcome {
    let identity = trust_file::read_identity(&args.file, &*context.fs)?;
    let identity = identity.ok_or_else(|| {
        Failure::new("not an identity; hint: its owner makes one with threadseal id export")
            .about(&args.file)
    })?;
    let home = context.made_home()?;
    let taken = Imported::take(&identity, &home, context)?;
    let (step, ended, exit) = match &taken {
        Taken::Kept(kept) => (step_word(kept.step), &kept.ended[..], Exit::Done),
        Taken::Refused(conflict) => refuse(*conflict, args),
    };
    let store = trust_file::of_home(&home)?;
    let trusted = trusted(&store, &identity);
    let untrusted: Vec<&IdentityKey> = untrusted(&store, &identity).collect();
    if context.json {
        let names =
            |names: &mut dyn Iterator<Item = &TrustName>| names.map(ToString::to_string).collect();
        out.json(&ImportOutput {
            schema: "threadseal.id.import/1",
            identity: IdentityOutput::of(&identity),
            step,
            trusted: names(&mut trusted.iter().map(|entry| &entry.name)),
            ended: names(&mut ended.iter()),
            untrusted: untrusted
                .iter()
                .map(|key| key.key.key_id().to_hex())
                .collect(),
        });
        return Ok(exit);
    }
    if exit == Exit::Done && !context.quiet {
        let name = Clean(identity.content().name.as_str()).to_string();
        out.line(format_args!("{step}  {name}"));
        out.line(compare_line(&identity));
        for name in ended {
            out.line(format_args!("ended     {name}: no longer trusted"));
        }
        for entry in &trusted {
            let usage: Vec<&str> = entry.usage.iter().map(|usage| usage.as_str()).collect();
            out.line(format_args!(
                "trusted   {} ({})",
                entry.name,
                usage.join(",")
            ));
        }
        if !untrusted.is_empty() {
            let n = untrusted.len();
            out.line(format_args!(
                "{n} of its keys are not trusted; to trust them, once the words agree: threadseal trust add {}",
                Clean(&args.file.to_string_lossy())
            ));
        }
    }
    Ok(exit)
}

fn refuse(conflict: Conflict, args: &ImportArgs) -> (&'static str, &'static [TrustName], Exit) {
    let (word, exit) = refusal(conflict);
    complain(&format!(
        "{}: not imported: {conflict}; hint: ask its owner for the newest file, and compare the words",
        Clean(&args.file.to_string_lossy())
    ));
    (word, &[], exit)
}

/// The word for a conflict, and the exit: two statements of one key that contradict each other are
/// evidence.
pub(crate) fn refusal(conflict: Conflict) -> (&'static str, Exit) {
    match conflict {
        Conflict::Other => ("other", Exit::NoVerdict),
        Conflict::Older => ("older", Exit::NoVerdict),
        Conflict::Forked => ("forked", Exit::Evidence),
        Conflict::Replaced => ("replaced", Exit::Evidence),
        Conflict::TakesBack => ("takes-back", Exit::Evidence),
    }
}

fn step_word(step: Option<Step>) -> &'static str {
    match step {
        None => "new",
        Some(Step::Same) => "known",
        Some(Step::Newer) => "updated",
        Some(Step::Recovered) => "recovered",
    }
}

/// Revokes entries that were made from the identity, of keys that ended in it or that it does not
/// have any more.
fn end_keys(store: &mut TrustStore, identity: &Identity) -> Result<Vec<TrustName>, Failure> {
    let note = identity.note();
    let is_of_it = |entry: &&TrustedKey| entry.note.as_deref() == Some(&note);
    let of_it: Vec<TrustedKey> = store.iter().filter(is_of_it).cloned().collect();
    let mut ended = Vec::new();
    for entry in of_it {
        let end = match identity.content().key(&entry.key) {
            Some(listed) => listed.ended.as_ref().map(Ended::revocation),
            // Only a recovery drops keys: a thief had listed them.
            None => Some(Revocation {
                at: Timestamp::UNIX_EPOCH,
                reason: "not a key of this identity".to_owned(),
                entry: None,
                next: None,
            }),
        };
        let Some(end) = end else { continue };
        let known = entry.revoked;
        store.revoke(&entry.name, end)?;
        let now = store
            .by_name(&entry.name)
            .and_then(|entry| entry.revoked.as_ref());
        if now != known.as_ref() {
            ended.push(entry.name);
        }
    }
    Ok(ended)
}

/// Entries by which keys of the identity count for their usage.
fn trusted(store: &TrustStore, identity: &Identity) -> Vec<TrustedKey> {
    let keys = identity.content().keys.iter();
    keys.flat_map(|listed| {
        let entries = store.by_key(&listed.key);
        entries.filter(|entry| entry.revoked.is_none() && entry.usage.contains(&listed.usage))
    })
    .cloned()
    .collect()
}

fn untrusted<'a>(
    store: &'a TrustStore,
    identity: &'a Identity,
) -> impl Iterator<Item = &'a IdentityKey> {
    let keys = identity.content().keys.iter();
    keys.filter(|listed| listed.ended.is_none() && store.by_key(&listed.key).next().is_none())
}
