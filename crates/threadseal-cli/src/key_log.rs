//! What keys say of themselves in the log of this home, and what that is worth against a revocation.

use crate::context::Context;
use crate::examine::Anchors;
use crate::exit::{Failure, complain};
use crate::seal_log::HomeLog;
use crate::trusting;
use std::sync::Arc;
use threadseal::key::Signer;
use threadseal::tlog::entry::key_event::{KeyChange, KeyEvent, KeyHistory};
use threadseal::trust::{SealPlaces, TrustStore, TrustedKey};
use threadseal_store::home::Home;
use threadseal_store::seal_log::{JudgedPlaces, SealLog};

/// The log of this home, if it has one.
///
/// # Errors
/// When there was one and it is gone, or it cannot be read.
pub(crate) fn log(context: &Context) -> Result<Option<Arc<SealLog>>, Failure> {
    context.host()?;
    Ok(context.known_log())
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
        KeyChange::Create => at,
        KeyChange::Rotate(_) | KeyChange::Revoke => ended.unwrap_or(at),
    }))
}

/// Has the trust store name the entries of `log`, which took the place of another one, where it named those of that one, in which
/// keys `ended`.
///
/// # Errors
/// When the log cannot be read, or the trust store not be written.
pub(crate) fn follow(
    home: &Home,
    ended: &KeyHistory,
    log: &SealLog,
    context: &Context,
) -> Result<(), Failure> {
    let now = KeyHistory::of(&log.key_events()?);
    trusting::change(home, context, |store| {
        let old: Vec<TrustedKey> = store.iter().cloned().collect();
        let mut changed = false;
        for mut entry in old {
            let there = ended.ended(&entry.key).zip(now.ended(&entry.key));
            let revoked = entry.revoked.as_mut();
            let Some((revoked, (before, after))) = revoked.zip(there) else {
                continue;
            };
            if revoked.entry == Some(before) && before != after {
                revoked.entry = Some(after);
                store.remove(&entry.name);
                store.add(entry)?;
                changed = true;
            }
        }
        Ok(changed)
    })?;
    Ok(())
}

/// The log of this home, to judge keys of `store` by that ended in it; None where none did.
///
/// # Errors
/// When the home must not be trusted.
pub(crate) fn places(
    store: &TrustStore,
    context: &Context,
) -> Result<Option<Arc<dyn SealPlaces>>, Failure> {
    let ended = |entry: &TrustedKey| {
        let revoked = entry.revoked.as_ref();
        revoked.is_some_and(|revoked| revoked.entry.is_some())
    };
    if !store.iter().any(ended) {
        return Ok(None);
    }
    let there = context.reading_host()?.1;
    // What nobody can judge now vouches for nothing.
    let witnessed = match Anchors::of(&there, context) {
        Ok(Anchors::Seen { tree, .. }) => tree.size,
        Ok(Anchors::None(_)) | Err(_) => 0,
    };
    Ok(match there {
        HomeLog::There(log) => Some(Arc::new(JudgedPlaces::of(log, witnessed))),
        HomeLog::Never | HomeLog::Missing(_) | HomeLog::Damaged(_) => None,
    })
}
