//! `init`: a home with one key of each usage, trusted by itself.

use crate::cmd::key::{KeyOutput, key_line};
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::keyring::{self, Keyring, OwnKey, self_name};
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use crate::render::clean::Clean;
use crate::trusting;
use clap::Args;
use serde::Serialize;
use threadseal::key::KeyUsage;
use threadseal::trust::{TrustName, TrustStore, TrustedKey};

/// What `init` takes.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

#[derive(Serialize)]
struct InitOutput {
    schema: &'static str,
    home: String,
    changed: bool,
    keys: Vec<KeyOutput>,
}

/// Makes what is missing, changes nothing that is there.
pub(crate) fn run(args: &InitArgs, context: &Context, out: &mut Out) -> Outcome {
    let home = context.made_home()?;
    let keyring = Keyring::of(&home);
    let mut passphrase = None;
    let mut changed = false;
    let mut keys = Vec::new();
    for usage in KeyUsage::ALL {
        let key = match keyring.get(self_name(usage))? {
            Some(key) => key,
            None => {
                if passphrase.is_none() {
                    passphrase = args.passphrase.for_new_key()?;
                }
                changed = true;
                let key = keyring::generate(context)?;
                keyring.create(self_name(usage), usage, &key, passphrase.as_ref(), context)?
            }
        };
        keys.push(key);
    }
    let now = context.now()?.floor_to_second();
    changed |= trusting::change(&home, context, |store| {
        let mut added = false;
        for key in &keys {
            added |= trust_own(store, key, now)?;
        }
        Ok(added)
    })?;
    let path = home.path().to_string_lossy().into_owned();
    if context.json {
        out.json(&InitOutput {
            schema: "threadseal.init/1",
            home: path,
            changed,
            keys: keys.iter().map(KeyOutput::of).collect(),
        });
        return Ok(Exit::Done);
    }
    for key in &keys {
        out.line(key_line(key));
    }
    if !context.quiet {
        let said = if changed { "ready" } else { "nothing to do" };
        out.line(format_args!("{said}: {}", Clean(&path)));
    }
    Ok(Exit::Done)
}

/// Trusts an own key for its usage unless that was ever decided: a revoked or narrowed entry is
/// the user's word.
fn trust_own(
    store: &mut TrustStore,
    key: &OwnKey,
    now: threadseal::time::Timestamp,
) -> Result<bool, Failure> {
    if store.by_key(&key.public).next().is_some() {
        return Ok(false);
    }
    let mut entry = TrustedKey::new(TrustName::parse(&key.name)?, key.public, [key.usage]);
    entry.added = Some(now);
    entry.note = Some("made here by init".to_owned());
    store.add(entry)?;
    Ok(true)
}
