//! Keys that ended seal nothing more: whoever heard of the end would call it forged.
//!
//! A key ended where the trust store of the home revoked it, or where it said so in the home's log. Whoever signs asks here first,
//! before anything is written. Only of its own end such a key still speaks: `key revoke`, `key rotate`.

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
    /// It said so, at this entry of the log.
    Said(u64, KeyChange),
    /// The user said so.
    Revoked(Revocation),
}

/// Refuses to sign with `key` where it ended.
///
/// # Errors
/// When it did; or when trust store or log cannot be read, and nobody can say.
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
        End::Said(_, KeyChange::Rotate(next)) => name(next).map(|next| {
            format!(
                "seal with the key that took its place, {}",
                Clean(&next.name)
            )
        }),
        _ => None,
    };
    let next = next
        .or_else(|| name(key).map(replace))
        .map(|next| format!("; next: {next}"));
    Err(Failure::new(format!(
        "the key {who} ended ({how}) and seals nothing more{}",
        next.unwrap_or_default()
    )))
}

/// What puts another key in the place of one that ended.
pub(crate) fn replace(key: &OwnKey) -> String {
    let name = Clean(&key.name);
    match key.usage {
        KeyUsage::Native => format!("threadseal key rotate {name}"),
        usage => {
            format!(
                "threadseal key new --usage {usage} --name {name}-2, and seal with --key {name}-2"
            )
        }
    }
}

/// Did the key end, by its own word or the user's?
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
        // The first end stands.
        if let Some((entry, event)) = ends.find(|(_, event)| event.public() == key) {
            return Ok(Some(End::Said(*entry, *event.change())));
        }
    }
    let store = trust_file::of_home(home)?;
    let revoked = store.by_key(key).filter_map(|entry| entry.revoked.clone());
    Ok(revoked.min_by_key(|revoked| revoked.at).map(End::Revoked))
}
