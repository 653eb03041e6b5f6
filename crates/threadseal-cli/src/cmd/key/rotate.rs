//! `key rotate`

use super::print_keys;
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::key_log;
use crate::keyring::{self, Keyring, OwnKey};
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use crate::render::clean::Clean;
use crate::trusting;
use clap::Args;
use std::path::Path;
use threadseal::key::{KeyUsage, LocalSigner, PublicKey};
use threadseal::record::{RecordId, RecordKind};
use threadseal::tlog::entry::key_event::KeyChange;
use threadseal::transcript::manifest;
use threadseal::trust::{Revocation, TrustName, TrustStore, TrustedKey};
use threadseal_store::examine;
use threadseal_store::home::{Home, KeyFileName};
use threadseal_store::read::open_regular;

/// What `key rotate` takes.
#[derive(Debug, Args)]
pub(crate) struct RotateArgs {
    /// The key whose name the next one takes over; it keeps eight digits of its id behind the name
    name: String,
    /// Also where threads that the key answers for have not ended: what they seal from then on is refused
    #[arg(long)]
    anyway: bool,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

/// Puts a new key in the place of another: key, log, trust store, names. Cut short, it goes on where it is run again.
pub(crate) fn run(args: &RotateArgs, context: &Context, out: &mut Out) -> Outcome {
    let home = context.existing_home()?;
    let keyring = Keyring::of(&home);
    let waiting = format!("{}-next", args.name);
    let (old, next) = (keyring.get(&args.name)?, keyring.get(&waiting)?);
    let next = match (&old, next) {
        (_, Some(next)) => next,
        (Some(old), None) => make_next(&keyring, old, &waiting, args, context)?,
        (None, None) => keyring.find(&args.name)?,
    };
    let old = old.filter(|old| old.public != next.public);
    if next.usage != KeyUsage::Native || (old.is_some() && !next.has_private) {
        return Err(Failure::new(format!(
            "{waiting:?} is the name of another key, and the next one needs it; give that another name"
        )));
    }
    if let Some(old) = old {
        if old.has_private && !args.anyway {
            refuse_open_threads(&home, &old.public, context)?;
        }
        if old.has_private {
            hand_over(&home, &keyring, &old, &next.public, args, context)?;
        } else {
            refuse_speechless(&home, &old)?;
        }
        let kept = KeyFileName::parse(&format!("{}.{}", kept_name(&old), old.usage))?;
        home.keys().rename(&old.file, &kept)?;
    }
    let name = KeyFileName::parse(&format!("{}.{}", args.name, next.usage))?;
    home.keys().rename(&next.file, &name)?;
    print_keys(&[keyring.find(&args.name)?], context, out);
    Ok(Exit::Done)
}

/// A key whose private half is gone cannot say that it ended; nothing would, and what was done with it before it was lost would count for ever.
/// Where the home has its end already, a rotation was cut short.
fn refuse_speechless(home: &Home, old: &OwnKey) -> Result<(), Failure> {
    let store = trusting::of_home(home)?;
    let mut trusted = store.by_key(&old.public);
    let Some(entry) = trusted.find(|entry| entry.revoked.is_none()) else {
        return Ok(());
    };
    Err(Failure::new(format!(
        "the private half of {:?} is not here, and its owner's word is what ends a key in the log: bring it back, or end the \
         home's trust in it (threadseal trust revoke {}), and run this again",
        old.name, entry.name
    )))
}

/// What a thread seals behind the end of its authority counts for nobody, so that it would end as a forgery. Threads that lie in a database, or
/// that another home seals, are not known here.
fn refuse_open_threads(home: &Home, old: &PublicKey, context: &Context) -> Result<(), Failure> {
    let mut open = Vec::new();
    for stored in home.heads().stored()? {
        let Some(place) = stored.path_hint.filter(|_| !stored.is_final) else {
            continue;
        };
        if stored.kind == RecordKind::Transcript
            && authority_at(Path::new(&place), &stored.head.record, context) == Some(*old)
        {
            open.push(place);
        }
    }
    let Some(first) = open.first() else {
        return Ok(());
    };
    let more = match open.len() {
        1 => String::new(),
        all => format!(" and {} others", all - 1),
    };
    Err(Failure::new(format!(
        "threads that this key answers for have not ended: {}{more}; let them end (threadseal thread recover, thread cancel, \
         seal --final), or say --anyway: what they seal from then on is refused",
        Clean(first)
    )))
}

/// Who answers for the record, as far as it still lies there.
fn authority_at(path: &Path, record: &RecordId, context: &Context) -> Option<PublicKey> {
    let file = open_regular(&*context.fs, path).ok()?;
    let first = examine::first_line(&file).ok()??;
    let manifest = manifest::parse_line(&first)?;
    (manifest.record == *record).then_some(manifest.authority)
}

fn make_next(
    keyring: &Keyring,
    old: &OwnKey,
    name: &str,
    args: &RotateArgs,
    context: &Context,
) -> Result<OwnKey, Failure> {
    if old.usage != KeyUsage::Native || !old.has_private {
        return Err(Failure::new(format!(
            "the key {:?} is none that speaks in the log: that takes the private half of a native key",
            old.name
        )));
    }
    let passphrase = args.passphrase.for_new_key()?;
    let key = keyring::generate(context)?;
    keyring.create(name, old.usage, &key, passphrase.as_ref(), context)
}

/// The old key says in the log that it ended; whom the home trusted by it, it trusts by the next one.
fn hand_over(
    home: &Home,
    keyring: &Keyring,
    old: &OwnKey,
    next: &PublicKey,
    args: &RotateArgs,
    context: &Context,
) -> Result<(), Failure> {
    let signer = LocalSigner::new(keyring.open(old, &args.passphrase)?, old.usage);
    let entry = key_log::say(KeyChange::Rotate(*next), &signer, context)?;
    let revocation = Revocation {
        at: context.now()?,
        reason: format!("its place was taken by {}", next.key_id()),
        entry,
    };
    let kept = TrustName::parse(&kept_name(old))?;
    trusting::change(home, context, |store| {
        trust_next(store, old, next, &kept, &revocation)
    })?;
    Ok(())
}

/// The entry that trusts the old key for native records goes over to the next one, unless that has one of its own; whether there was one. An
/// end that the old key has already stays as it is.
fn trust_next(
    store: &mut TrustStore,
    old: &OwnKey,
    next: &PublicKey,
    kept: &TrustName,
    revocation: &Revocation,
) -> Result<bool, Failure> {
    let native = |entry: &&TrustedKey| entry.usage.contains(&old.usage);
    let is_next_trusted = store.by_key(next).any(|entry| native(&entry));
    let Some(entry) = store.by_key(&old.public).find(native).cloned() else {
        return Ok(false);
    };
    store.remove(&entry.name);
    let mut ended = entry.clone();
    ended.name = kept.clone();
    ended.revoked.get_or_insert_with(|| revocation.clone());
    store.add(ended)?;
    if is_next_trusted {
        return Ok(true);
    }
    let mut follower = entry;
    follower.key = *next;
    follower.revoked = None;
    follower.added = Some(revocation.at);
    store.add(follower)?;
    Ok(true)
}

/// `self-1a2b3c4d`
fn kept_name(old: &OwnKey) -> String {
    let id = old.public.key_id().to_hex();
    format!("{}-{}", old.name, &id[..8])
}
