//! `key rotate`

use super::{ending, print_keys};
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::fleet::DatabaseArgs;
use crate::key_log;
use crate::key_status;
use crate::keyring::{self, Keyring, OwnKey};
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use crate::render::clean::Clean;
use crate::rotation;
use crate::trust_file;
use clap::Args;
use threadseal_core::key::{KeyUsage, LocalSigner, PublicKey};
use threadseal_core::tlog::entry::key_event::KeyChange;
use threadseal_store::home::Home;

/// What `key rotate` takes.
#[derive(Debug, Args)]
pub(crate) struct RotateArgs {
    /// Name that the new key takes over; the old key keeps it with eight digits of its id appended
    name: String,
    /// Rotate even if threads of this key are open, or seals cannot be logged: those seals, and
    /// later ones of the threads, will be refused
    #[arg(long)]
    anyway: bool,
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

/// Replaces a key by a new one: key, log, trust store, names. An interrupted rotation continues
/// when it is run again. After the entry in the log, any command that opens the home to write
/// completes it.
pub(crate) fn run(args: &RotateArgs, context: &Context, out: &mut Out) -> Outcome {
    let home = context.existing_home()?;
    let keyring = Keyring::of(&home);
    let waiting = rotation::waiting_name(&args.name);
    let before = keyring.get(&waiting)?;
    context.host()?;
    let (old, next) = (keyring.get(&args.name)?, keyring.get(&waiting)?);
    let is_done = |now: &OwnKey| {
        before
            .as_ref()
            .is_some_and(|before| before.public == now.public)
    };
    if let (Some(now), None) = (old.as_ref().filter(|now| is_done(now)), &next) {
        print_keys(std::slice::from_ref(now), context, out);
        return Ok(Exit::Done);
    }
    let next = match (&old, next) {
        (_, Some(next)) => next,
        (Some(old), None) => make_next(&keyring, old, &waiting, args, context)?,
        (None, None) => keyring.find(&args.name)?,
    };
    let old = old.filter(|old| old.public != next.public);
    if next.usage != KeyUsage::Native || (old.is_some() && !next.has_private) {
        return Err(Failure::new(format!(
            "the rotation needs the key name {waiting:?}, but another key has it; give that key another name"
        )));
    }
    match &old {
        Some(old) if old.has_private => {
            let signer = LocalSigner::new(keyring.open(old, &args.passphrase)?, old.usage);
            let _alone = key_status::begin_end(&home, context)?;
            ending::settle(&home, &old.public, args.anyway, &args.database, context)?;
            let entry = hand_over(&home, old, &next.public, &signer, context)?;
            rotation::take_over(&home, Some(old), &next, &args.name)?;
            tell(old, &next.public, entry, context);
        }
        Some(old) => {
            refuse_speechless(&home, old)?;
            rotation::take_over(&home, Some(old), &next, &args.name)?;
        }
        None => rotation::take_over(&home, None, &next, &args.name)?,
    }
    print_keys(&[keyring.find(&args.name)?], context, out);
    Ok(Exit::Done)
}

/// Refuses a key whose private half is gone: it cannot sign its end for the log, so that later
/// misuse of it would count for ever. If the trust store has the end already, a rotation was
/// interrupted, and may continue.
fn refuse_speechless(home: &Home, old: &OwnKey) -> Result<(), Failure> {
    let store = trust_file::of_home(home)?;
    let mut trusted = store.by_key(&old.public);
    let Some(entry) = trusted.find(|entry| entry.revoked.is_none()) else {
        return Ok(());
    };
    Err(Failure::new(format!(
        "the private half of {:?} is missing, and only its signature can end the key in the log; hint: restore it, or run \
         threadseal trust revoke {}, then run this command again",
        old.name, entry.name
    )))
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
            "the key {:?} cannot be rotated: a rotation needs the private half of a native key",
            old.name
        )));
    }
    let passphrase = args.passphrase.for_new_key()?;
    let key = keyring::generate(context)?;
    keyring.create(name, old.usage, &key, passphrase.as_ref(), context)
}

/// The old key signs its end for the log; trust in it passes to the next key.
fn hand_over(
    home: &Home,
    old: &OwnKey,
    next: &PublicKey,
    signer: &LocalSigner,
    context: &Context,
) -> Result<Option<u64>, Failure> {
    let entry = key_log::say(KeyChange::Rotate(*next), signer, context)?;
    let revocation = rotation::revocation(next, entry, key_status::moment_of_end(context)?);
    trust_file::change(home, context, |store| {
        rotation::hand_over(store, old, next, &revocation)
    })?;
    Ok(entry)
}

/// Reports the new name of the old key, and who must learn of the next one.
fn tell(old: &OwnKey, next: &PublicKey, entry: Option<u64>, context: &Context) {
    if context.quiet {
        return;
    }
    let (name, did) = (Clean(&old.name), next.to_did_key());
    let at = entry.map_or(String::new(), |entry| {
        format!(" at entry {entry} of the log")
    });
    complain(&format!(
        "the previous key {name} has ended{at}; {name} is now {did}; verifiers elsewhere also need the new key, for later seals"
    ));
}
