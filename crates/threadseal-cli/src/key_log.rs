//! What keys say of themselves in the log of this home, and what that is worth against a revocation.

use crate::cmd::anchor;
use crate::context::Context;
use crate::examine::Anchors;
use crate::exit::{Failure, complain};
use crate::rotation;
use crate::seal_log::HomeLog;
use crate::trusting;
use std::sync::Arc;
use threadseal_core::key::Signer;
use threadseal_core::time::Timestamp;
use threadseal_core::tlog::entry::key_event::{KeyChange, KeyEvent, KeyHistory};
use threadseal_core::trust::{SealPlaces, TrustStore, TrustedKey};
use threadseal_log::{JudgedPlaces, SealLog, Standing};
use threadseal_store::home::Home;

/// The log of this home, if it has one.
///
/// # Errors
/// When there was one and it is gone, or it cannot be read.
pub(crate) fn log(context: &Context) -> Result<Option<Arc<SealLog>>, Failure> {
    context.host()?;
    Ok(context.known_log())
}

/// Refuses while the log of this home takes no word, for a command that has to write elsewhere first.
///
/// # Errors
/// When it is gone, went back, or cannot be read or held against its second places.
pub(crate) fn refuse_silent(context: &Context) -> Result<(), Failure> {
    let Some(log) = log(context)? else {
        return Ok(());
    };
    let why = match log.standing() {
        Standing::Good | Standing::MarkGone => return Ok(()),
        Standing::Faulty(fault) => fault.to_string(),
        Standing::Damaged(why) | Standing::MarkUnread(why) => why,
    };
    Err(Failure::new(format!(
        "the log of this home takes no word now ({why}); see: threadseal log status"
    )))
}

/// Has a key say what becomes of it; answers with the number of the entry. None, with a warning, where there is no log.
///
/// # Errors
/// When the log commits nothing, or cannot be written.
pub(crate) fn say(
    change: KeyChange,
    signer: &dyn Signer,
    context: &Context,
) -> Result<Option<u64>, Failure> {
    let event = KeyEvent::sign(change, signer)?;
    let Some(log) = log(context)? else {
        if !context.quiet {
            complain(
                "warning: this home has no log: nothing will show what was sealed while the key lived",
            );
        }
        return Ok(None);
    };
    let at = log.commit_key_event(&event)?;
    // A key that ended earlier stays so: the first end counts.
    let ended = KeyHistory::of(&log.key_events()?).ended(signer.public_key());
    Ok(Some(match change {
        KeyChange::Create | KeyChange::Delegate { .. } => at,
        KeyChange::Rotate(_) | KeyChange::Revoke => ended.unwrap_or(at),
    }))
}

/// Has the trust store name the entries of `log`, which took the place of another one, where it named those at which keys ended in the
/// logs before.
///
/// # Errors
/// When the log cannot be read, or the trust store not be written.
pub(crate) fn follow(home: &Home, log: &SealLog, context: &Context) -> Result<(), Failure> {
    trusting::change(home, context, |store| renumber(store, log))?;
    Ok(())
}

/// The same in a store that is in memory; whether something changed.
fn renumber(store: &mut TrustStore, log: &SealLog) -> Result<bool, Failure> {
    let now = KeyHistory::of(&log.key_events()?);
    let old: Vec<TrustedKey> = store.iter().cloned().collect();
    let mut changed = false;
    for mut entry in old {
        let (key, after) = (entry.key, now.ended(&entry.key));
        let Some(revoked) = entry.revoked.as_mut() else {
            continue;
        };
        let before = revoked.entry.filter(|at| log.ended_before(&key, *at));
        if before.is_some() && after.is_some() && before != after {
            revoked.entry = after;
            store.remove(&entry.name);
            store.add(entry)?;
            changed = true;
        }
    }
    Ok(changed)
}

/// The log of this home, to judge keys of `store` by: those that ended in it, and, where somebody stamps it, those that moments decide on;
/// None where it has no say in any. The store is read as if it said all that keys say there: somebody may have been killed before it did, or
/// have put an older one back. What it says of a log before this one is understood, where a restart was cut short before the store on the disk
/// followed.
///
/// # Errors
/// When the home must not be trusted.
pub(crate) fn places(
    store: &mut TrustStore,
    context: &Context,
) -> Result<Option<Arc<dyn SealPlaces>>, Failure> {
    if store.is_empty() {
        return Ok(None);
    }
    let there = context.reading_host()?.1;
    let log = match &there {
        HomeLog::There(log) => Some(log),
        HomeLog::Never | HomeLog::Missing(_) | HomeLog::Damaged(_) => None,
    };
    if let Some(log) = log {
        // A log that cannot be read says nothing of keys, and is told of elsewhere.
        let _ = renumber(store, log);
        if let Ok(events) = log.key_events() {
            rotation::end(store, &KeyHistory::of(&events), Timestamp::UNIX_EPOCH)?;
        }
    }
    let ended = |entry: &TrustedKey| {
        let revoked = entry.revoked.as_ref();
        revoked.is_some_and(|revoked| revoked.entry.is_some())
    };
    let Some(log) = log else {
        return Ok(None);
    };
    let authorities = match context.home()? {
        Some(home) if store.iter().any(TrustedKey::is_bound_in_time) => {
            match anchor::authorities(&home, context) {
                Ok(kept) => kept.telling(context),
                Err(failure) => {
                    context.warn_once(&failure.to_string());
                    Vec::new()
                }
            }
        }
        _ => Vec::new(),
    };
    if authorities.is_empty() && !store.iter().any(ended) {
        return Ok(None);
    }
    // What nobody can judge now vouches for nothing.
    let witnessed = match Anchors::of(&there, context) {
        Ok(Anchors::Seen { tree, .. }) => tree.size,
        Ok(Anchors::None(_)) | Err(_) => 0,
    };
    let log = Arc::clone(log);
    let bad_stamp = |why: &str| complain(&format!("warning: {why}"));
    Ok(Some(Arc::new(JudgedPlaces::of(
        log,
        witnessed,
        authorities,
        bad_stamp,
    ))))
}
