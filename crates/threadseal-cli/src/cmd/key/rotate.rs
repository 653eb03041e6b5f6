//! `key rotate`

use super::{ending, print_keys};
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::fleet::DatabaseArgs;
use crate::key_log;
use crate::key_status;
use crate::keyring::{self, Keyring, OwnKey, self_name};
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use crate::render::clean::Clean;
use crate::rotation;
use crate::trust_file;
use clap::Args;
use threadseal_core::key::{KeyUsage, LocalSigner, PublicKey};
use threadseal_core::tlog::entry::key_event::KeyChange;
use threadseal_core::trust::TrustName;
use threadseal_store::home::{Home, KeyFileName};

/// What `key rotate` takes.
#[derive(Debug, Args)]
pub(crate) struct RotateArgs {
    /// Name that the new key takes over; the old key keeps it with eight digits of its id appended
    name: String,
    /// Rotate even if threads of this key are open, seals cannot be logged, or the private half is
    /// gone: such seals, and later ones of the threads, will be refused
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
        print_keys(std::slice::from_ref(now), context, out)?;
        return Ok(Exit::Done);
    }
    let has_file = old.is_some();
    let old = match old {
        None => gone(&home, &args.name)?,
        there => there,
    };
    if let (Some(old), false) = (&old, args.anyway) {
        refuse_speechless(&home, old)?;
    }
    let next = match (&old, next) {
        (_, Some(next)) => next,
        (Some(old), None) => make_next(&keyring, old, &waiting, args, context)?,
        (None, None) => keyring.find(&args.name)?,
    };
    let old = old.filter(|old| old.public != next.public);
    let is_other = |old: &OwnKey| next.usage != old.usage || !next.has_private;
    if old.as_ref().is_some_and(is_other) {
        return Err(Failure::new(format!(
            "the rotation needs the key name {waiting:?}, but another key has it; give that key another name"
        )));
    }
    if let Some(old) = &old {
        end(&home, &keyring, old, &next, args, context)?;
    }
    let renamed = old.as_ref().filter(|_| has_file);
    rotation::take_over(&home, renamed, &next, &args.name)?;
    print_keys(&[keyring.find(&args.name)?], context, out)?;
    Ok(Exit::Done)
}

/// The key of this name, of which the home has no file but trusts it.
fn gone(home: &Home, name: &str) -> Result<Option<OwnKey>, Failure> {
    let store = trust_file::of_home(home)?;
    let named = TrustName::parse(name).ok();
    let entry = named.and_then(|name| store.by_name(&name));
    let own = |usage: &KeyUsage| self_name(*usage) == name;
    let found = entry.and_then(|entry| Some((entry, *entry.usage.iter().find(|one| own(one))?)));
    let gone = found.map(|(entry, usage)| {
        Ok(OwnKey {
            name: name.to_owned(),
            usage,
            public: entry.key,
            has_private: false,
            file: KeyFileName::parse(&format!("{name}.{usage}"))?,
        })
    });
    gone.transpose()
}

/// Ends the old key, and passes the trust in it to the next one. The old key signs its end for the
/// log where its private half is here.
fn end(
    home: &Home,
    keyring: &Keyring,
    old: &OwnKey,
    next: &OwnKey,
    args: &RotateArgs,
    context: &Context,
) -> Result<(), Failure> {
    let signer = match old.has_private {
        true => Some(LocalSigner::new(
            keyring.open(old, &args.passphrase)?,
            old.usage,
        )),
        false => None,
    };
    let _alone = key_status::begin_end(home, context)?;
    ending::settle(home, old, args.anyway, &args.database, context)?;
    let entry = match &signer {
        Some(signer) => key_log::say(KeyChange::Rotate(next.public), signer, context)?,
        None => None,
    };
    let at = key_status::moment_of_end(context)?;
    let mut revocation = rotation::revocation(&next.public, entry, at);
    // A private half that is gone may be in other hands.
    revocation.next = revocation.next.filter(|_| signer.is_some());
    trust_file::change(home, context, |store| {
        rotation::hand_over(store, old, &next.public, &revocation)
    })?;
    tell(old, &next.public, entry, context);
    Ok(())
}

/// Refuses a key whose private half is gone: it cannot sign its end for the log, so that
/// seals that a thief dates back still count. If the trust store has the end already, a rotation was
/// interrupted, or the user ended the key before.
fn refuse_speechless(home: &Home, old: &OwnKey) -> Result<(), Failure> {
    if old.has_private {
        return Ok(());
    }
    let store = trust_file::of_home(home)?;
    let mut trusted = store.by_key(&old.public);
    if trusted.all(|entry| entry.revoked.is_some()) {
        return Ok(());
    }
    let path = home.keys().private_path(&old.file);
    Err(Failure::new(format!(
        "the private half of {:?} is missing, and only its signature can end the key in the log; hint: restore {}, or \
         replace the key without that entry: threadseal key rotate {} --anyway",
        old.name,
        Clean(&path.to_string_lossy()),
        Clean(&old.name)
    )))
}

fn make_next(
    keyring: &Keyring,
    old: &OwnKey,
    name: &str,
    args: &RotateArgs,
    context: &Context,
) -> Result<OwnKey, Failure> {
    match old.usage {
        KeyUsage::Native | KeyUsage::Rye | KeyUsage::Observed | KeyUsage::Scroll => {}
        // Logs, witnesses and agents are known elsewhere by their key alone.
        usage => {
            let owner = match usage {
                KeyUsage::Igor => "agent",
                usage => usage.as_str(),
            };
            return Err(Failure::new(format!(
                "the key {:?} cannot be rotated: others know the {owner} by this key alone; hint: threadseal key new",
                old.name
            )));
        }
    }
    let passphrase = args.passphrase.for_new_key()?;
    let key = keyring::generate(context)?;
    keyring.create(name, old.usage, &key, passphrase.as_ref(), context)
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
        "the previous key {name} has ended{at}; {name} is now {did}; verifiers elsewhere also need the new key, for later seals; hint: threadseal id export -o me.id"
    ));
    if old.usage == KeyUsage::Observed && entry.is_none() {
        complain(
            "a log that the previous key sealed begins a new record; hint: threadseal seal --restart --why TEXT LOG",
        );
    }
}
