//! `key revoke`: ends a key, in the log and in the trust store.

use super::print_keys;
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::key_log;
use crate::key_status;
use crate::keyring::Keyring;
use crate::options;
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use crate::render::clean::Clean;
use crate::trust_file;
use clap::Args;
use threadseal_core::key::{KeyUsage, LocalSigner};
use threadseal_core::tlog::entry::key_event::KeyChange;
use threadseal_core::trust::Revocation;

/// What `key revoke` takes.
#[derive(Debug, Args)]
pub(crate) struct RevokeArgs {
    /// The key
    name: String,
    /// Reason, as people will read it
    #[arg(long, alias = "reason", value_name = "TEXT", value_parser = options::reason)]
    why: String,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

/// The key itself signs its end for the log; then the trust store follows.
pub(crate) fn run(args: &RevokeArgs, context: &Context, out: &mut Out) -> Outcome {
    let home = context.existing_home()?;
    let keyring = Keyring::of(&home);
    let key = keyring.find(&args.name)?;
    if matches!(key.usage, KeyUsage::Log | KeyUsage::Witness) {
        return Err(Failure::new(format!(
            "the key {:?} has the usage {}, and such a key signs no event for a log; hint: threadseal trust revoke",
            key.name, key.usage
        )));
    }
    let signer = LocalSigner::new(keyring.open(&key, &args.passphrase)?, key.usage);
    let _alone = key_status::begin_end(&home, context)?;
    let entry = key_log::say(KeyChange::Revoke, &signer, context)?;
    let now = key_status::moment_of_end(context)?;
    let mut trusted = false;
    trust_file::change(&home, context, |store| {
        let names: Vec<_> = store
            .by_key(&key.public)
            .map(|one| one.name.clone())
            .collect();
        trusted = !names.is_empty();
        for name in &names {
            let revocation = Revocation {
                at: now,
                reason: args.why.clone(),
                entry,
                next: None,
            };
            store.revoke(name, revocation)?;
        }
        Ok(trusted)
    })?;
    if !trusted && !context.quiet {
        complain(
            "note: the key is not in the trust store of this home; other homes that trust it must revoke it there",
        );
    }
    if !context.quiet {
        complain(&format!(
            "the key {} has ended and cannot seal any more; hint: {}",
            Clean(&key.name),
            key_status::replace(&key)
        ));
    }
    print_keys(&[key], context, out)?;
    Ok(Exit::Done)
}
