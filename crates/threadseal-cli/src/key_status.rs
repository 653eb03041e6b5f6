//! Keys that ended seal nothing more: a verifier that knows of the end would call the seal forged.
//!
//! A key ends when the trust store of the home revokes it, or by its own entry in the home's log.
//! Every command that signs asks here first, before it writes. Such a key signs only entries about
//! its own end: `key revoke`, `key rotate`.

use crate::context::Context;
use crate::exit::Failure;
use crate::keyring::{Keyring, OwnKey};
use crate::render::clean::Clean;
use crate::trust_file;
use threadseal_core::key::{KeyUsage, PublicKey};
use threadseal_core::tlog::entry::key_event::KeyChange;
use threadseal_core::trust::Revocation;
use threadseal_store::home::Home;
use threadseal_verify::home_log::HomeLog;

/// How a key ended.
enum End {
    /// By its own event, at this entry of the log.
    Said(u64, KeyChange),
    /// The user revoked it.
    Revoked(Revocation),
}

/// Refuses to sign with a `key` that ended.
///
/// # Errors
/// When it ended; or when trust store or log cannot be read, so that its state is unknown.
pub(crate) fn refuse(key: &PublicKey, context: &Context) -> Result<(), Failure> {
    let Some(home) = context.home_where_named()? else {
        return Ok(());
    };
    let Some(end) = end_of(key, &home, context)? else {
        return Ok(());
    };
    let own = Keyring::of(&home).list()?;
    let name = |key: &PublicKey| own.iter().find(|own| own.public == *key);
    let who = match name(key) {
        Some(own) => Clean(&own.name).to_string(),
        None => key.key_id().to_hex(),
    };
    let how = match &end {
        End::Said(entry, KeyChange::Rotate(_)) => format!("entry {entry}: rotated"),
        End::Said(entry, _) => format!("entry {entry}: revoked"),
        End::Revoked(revoked) => {
            format!(
                "revoked {}: {}",
                revoked.at.to_iso_seconds(),
                Clean(&revoked.reason)
            )
        }
    };
    let next = match &end {
        End::Said(_, KeyChange::Rotate(next)) => {
            name(next).map(|next| format!("seal with its successor, {}", Clean(&next.name)))
        }
        _ => None,
    };
    let next = next
        .or_else(|| name(key).map(replace))
        .map(|next| format!("; hint: {next}"));
    Err(Failure::new(format!(
        "the key {who} has ended ({how}) and cannot seal any more{}",
        next.unwrap_or_default()
    )))
}

/// The command that replaces a key that ended.
pub(crate) fn replace(key: &OwnKey) -> String {
    let name = Clean(&key.name);
    match key.usage {
        KeyUsage::Native => format!("threadseal key rotate {name}"),
        usage => {
            format!(
                "threadseal key new --usage {usage} --name {name}-2, then seal with --key {name}-2"
            )
        }
    }
}

/// Did the key end, by its own event or by the user's revocation?
///
/// # Errors
/// When trust store or log cannot be read.
pub(crate) fn is_over(key: &PublicKey, home: &Home, context: &Context) -> Result<bool, Failure> {
    Ok(end_of(key, home, context)?.is_some())
}

fn end_of(key: &PublicKey, home: &Home, context: &Context) -> Result<Option<End>, Failure> {
    if let HomeLog::There(log) = context.reading_host()?.1 {
        let events = log.key_events()?;
        let mut ends = events.iter().filter(|(_, event)| event.change().ends());
        // Only the first end counts.
        if let Some((entry, event)) = ends.find(|(_, event)| event.public() == key) {
            return Ok(Some(End::Said(*entry, *event.change())));
        }
    }
    let store = trust_file::of_home(home)?;
    let revoked = store.by_key(key).filter_map(|entry| entry.revoked.clone());
    Ok(revoked.min_by_key(|revoked| revoked.at).map(End::Revoked))
}
