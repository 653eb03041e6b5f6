//! `key new`

use super::{UsageArg, name_of, print_keys, tell_untrusted};
use crate::context::Context;
use crate::exit::{Exit, Outcome};
use crate::key_log;
use crate::keyring::{self, Keyring};
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use clap::Args;
use threadseal_core::key::{KeyUsage, LocalSigner};
use threadseal_core::tlog::entry::key_event::KeyChange;

/// What `key new` takes.
#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// Name in this home: a-z, 0-9, '-' and '_' [default: key- and eight digits of its id]
    #[arg(long)]
    name: Option<String>,
    /// Use of the key
    #[arg(long, value_enum, default_value = "native")]
    usage: UsageArg,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

/// Makes the key. It is not trusted until `trust add`.
pub(crate) fn run(args: &NewArgs, context: &Context, out: &mut Out) -> Outcome {
    let home = context.made_home()?;
    let passphrase = args.passphrase.for_new_key()?;
    let key = keyring::generate(context)?;
    let name = args
        .name
        .clone()
        .unwrap_or_else(|| name_of(key.public_key()));
    let made =
        Keyring::of(&home).create(&name, args.usage.into(), &key, passphrase.as_ref(), context)?;
    if made.usage == KeyUsage::Native && key_log::log(context)?.is_some() {
        let signer = LocalSigner::new(key, made.usage);
        key_log::say(KeyChange::Create, &signer, context)?;
    }
    print_keys(std::slice::from_ref(&made), context, out)?;
    tell_untrusted(&made, context)?;
    Ok(Exit::Done)
}
