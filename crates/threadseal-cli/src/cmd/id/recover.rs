//! `id recover`: the recovery key replaces a native key that is lost or stolen.

use super::export;
use super::own::{Draft, Maker};
use super::show::find;
use crate::cmd::trust::first_moment;
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::key_status;
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use crate::recovery;
use clap::Args;
use std::path::PathBuf;
use threadseal_core::identity::{Content, Ended, EndedHow, Link, LinkBy};
use threadseal_core::key::{KeyUsage, LocalSigner, PublicKey, Signer as _};
use threadseal_core::time::Timestamp;

/// What `id recover` takes.
#[derive(Debug, Args)]
pub(crate) struct RecoverArgs {
    /// The private recovery key, which init made
    #[arg(value_name = "RECOVERY-KEY-FILE")]
    key: PathBuf,
    /// A file of your identity, if this home does not have it [default: that of this home]
    #[arg(long, value_name = "FILE")]
    from: Option<String>,
    /// Time since which the lost key may be in other hands: 2026-01-31 or 2026-01-31T12:00:00Z
    /// [default: now]
    #[arg(long, value_name = "TIME", value_parser = first_moment)]
    since: Option<Timestamp>,
    /// File to write [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

pub(super) fn run(args: &RecoverArgs, context: &Context, out: &mut Out) -> Outcome {
    if context.json && args.out.is_none() {
        return Err(Failure::new(
            "an identity is a file of its own; hint: add -o FILE, or remove --json",
        ));
    }
    let maker = Maker::begin(&args.passphrase, context)?;
    let own = maker.known()?;
    let known = match (&args.from, &own) {
        (Some(from), _) => find(from, None, context)?,
        (None, Some(own)) => own.clone(),
        (None, None) => {
            return Err(Failure::new(
                "this home has no identity yet; hint: give an earlier file of it: --from NAME.id",
            ));
        }
    };
    if own.is_some_and(|own| own.id() != known.id()) {
        return Err(Failure::new(
            "this home has another identity; hint: use a home of its own",
        ));
    }
    let content = known.content();
    let key = recovery::read(&args.key, &args.passphrase, context)?;
    let recovery = LocalSigner::new(key, KeyUsage::Recovery);
    if content.recovery.as_ref() != Some(recovery.public_key()) {
        return Err(Failure::new("it is not the recovery key of this identity").about(&args.key));
    }
    let signer = maker.signer()?;
    let lost = lost(content, signer.public_key())?;
    let kept = content.links.iter().take_while(|link| link.from != lost);
    let mut links: Vec<Link> = kept.copied().collect();
    let id = known.id();
    links.push(Link::recover(id, lost, *signer.public_key(), &recovery)?);
    let draft = Draft {
        name: content.name.clone(),
        recovery: content.recovery,
        links,
    };
    let end = Ended {
        at: match args.since {
            Some(since) => since,
            None => key_status::moment_of_end(context)?,
        },
        how: EndedHow::revoked("replaced by the recovery key".to_owned()),
    };
    let (identity, changed) = maker.write(Some(&known), &signer, draft, Some(&(lost, end)))?;
    export::write(args.out.as_deref(), &identity, changed, context, out)?;
    Ok(Exit::Done)
}

/// The key that is lost: the present one of the identity, or the one that this home rotated last.
fn lost(content: &Content, present: &PublicKey) -> Result<PublicKey, Failure> {
    if content.signer != *present {
        return Ok(content.signer);
    }
    match content.links.last() {
        Some(link) if link.by == LinkBy::Key => Ok(link.from),
        _ => Err(Failure::new(
            "the native key of this identity is the one of this home; hint: if it is lost or stolen, first: threadseal key rotate self --anyway",
        )),
    }
}
