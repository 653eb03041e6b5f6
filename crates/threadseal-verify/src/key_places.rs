//! Which keys ended in the log of a home, and which of their seals still count.

use crate::anchor_files;
use crate::anchors::Anchors;
use crate::error::VerifyError;
use crate::home_log::HomeLog;
use crate::trust_sources::TrustSources;
use std::collections::BTreeSet;
#[cfg(not(feature = "timestamp"))]
use std::convert::Infallible;
use std::sync::Arc;
#[cfg(not(feature = "timestamp"))]
use threadseal_core::error::Unbuilt;
use threadseal_core::key::PublicKey;
use threadseal_core::time::Timestamp;
use threadseal_core::tlog::entry::key_event::KeyHistory;
use threadseal_core::trust::{Revocation, SealPlaces, TrustName, TrustStore, TrustedKey};
#[cfg(feature = "timestamp")]
use threadseal_log::timestamps::Authority;
use threadseal_log::{JudgedPlaces, SealLog};
use threadseal_store::home::Home;

/// The log of `home`, to judge keys of `store` by: those that ended in it and, where an authority stamps the log, those that are
/// valid for a time. None where the log decides on no key and no authority stamps it.
///
/// The store is read as if it had all that keys declared in the log: a process may have been killed before it wrote that down, or an
/// older store was put back. Entry numbers of an earlier log are understood, too.
///
/// # Errors
/// When the home must not be trusted.
pub(crate) fn places(
    store: &mut TrustStore,
    home: &Home,
    sources: &TrustSources<'_>,
) -> Result<Option<Arc<dyn SealPlaces>>, VerifyError> {
    if store.is_empty() {
        return Ok(None);
    }
    let there = (sources.log)()?;
    let HomeLog::There(log) = &there else {
        return Ok(None);
    };
    // A log that cannot be read decides on no key; every report warns of it.
    let _ = renumber(store, log);
    if let Ok(events) = log.key_events() {
        end(store, &KeyHistory::of(&events), Timestamp::UNIX_EPOCH)?;
    }
    #[cfg(not(feature = "timestamp"))]
    doubt_first_days(store, home, sources)?;
    judged(store, home, &there, log, sources)
}

fn judged(
    store: &TrustStore,
    home: &Home,
    there: &HomeLog,
    log: &Arc<SealLog>,
    sources: &TrustSources<'_>,
) -> Result<Option<Arc<dyn SealPlaces>>, VerifyError> {
    let notices = sources.notices;
    let ended = |entry: &TrustedKey| {
        let revoked = entry.revoked.as_ref();
        revoked.is_some_and(|revoked| revoked.entry.is_some())
    };
    let authorities = authorities(home, sources);
    if authorities.is_empty() && !store.iter().any(ended) {
        return Ok(None);
    }
    // Witnesses that cannot be judged now vouch for nothing.
    let witnessed = match Anchors::of(there, Some(home), &**sources.fs, notices) {
        Ok(Anchors::Seen { tree, .. }) => tree.size,
        Ok(Anchors::None(_)) | Err(_) => 0,
    };
    let places = JudgedPlaces::of(Arc::clone(log), witnessed);
    #[cfg(feature = "timestamp")]
    let places = places.stamped_by(authorities, notices.of_stamps());
    Ok(Some(Arc::new(places)))
}

#[cfg(feature = "timestamp")]
fn authorities(home: &Home, sources: &TrustSources<'_>) -> Vec<(String, Authority)> {
    match anchor_files::authorities(home, &**sources.fs) {
        Ok(kept) => kept.telling(sources.notices),
        Err(failure) => {
            sources.notices.warn(&failure.to_string());
            Vec::new()
        }
    }
}

/// No stamp counts here.
#[cfg(not(feature = "timestamp"))]
fn authorities(_home: &Home, _sources: &TrustSources<'_>) -> Vec<Infallible> {
    Vec::new()
}

/// A stamp that this program cannot read may show that a seal is older than the first day of its key. So no such key is trusted where
/// an authority stamps the log. All other bounds are only stricter without stamps.
#[cfg(not(feature = "timestamp"))]
fn doubt_first_days(
    store: &mut TrustStore,
    home: &Home,
    sources: &TrustSources<'_>,
) -> Result<(), VerifyError> {
    let bound: Vec<TrustedKey> = store
        .iter()
        .filter(|entry| entry.is_bound_in_time())
        .cloned()
        .collect();
    if bound.is_empty() || !anchor_files::has_authorities(home, &**sources.fs) {
        return Ok(());
    }
    let why = Unbuilt::TimeStamps;
    let text = format!("the time stamps of this home do not count: {why}");
    sources.notices.warn(&text);
    for mut entry in bound {
        if entry.not_before.is_some() {
            entry.not_before = Timestamp::parse_iso_seconds("9999-12-31T00:00:00Z");
            entry.not_after = None;
            store.remove(&entry.name);
            store.add(entry)?;
        }
    }
    Ok(())
}

/// Has `store` name entries of `log`, where it names those at which keys ended in earlier logs; whether an entry changed.
///
/// # Errors
/// When the log cannot be read.
pub fn renumber(store: &mut TrustStore, log: &SealLog) -> Result<bool, VerifyError> {
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

/// Revokes each key of the store that ended in the log and did not so in the store; whether there was one. An end that the store has
/// stays, but a key that revoked itself is not merely rotated.
///
/// # Errors
/// When an entry cannot be written.
pub fn end(
    store: &mut TrustStore,
    history: &KeyHistory,
    at: Timestamp,
) -> Result<bool, VerifyError> {
    let lacking = lacking(store, history);
    for key in &lacking {
        let names: Vec<TrustName> = store.by_key(key).map(|one| one.name.clone()).collect();
        for name in names {
            let revocation = Revocation {
                at,
                reason: "it said in the log that it ended".to_owned(),
                entry: history.ended(key),
                next: history.next(key),
            };
            store.revoke(&name, revocation)?;
        }
    }
    Ok(!lacking.is_empty())
}

/// Keys of the store that ended in the log, and that the store does not know to have ended, or to have done so by a theft.
pub fn lacking(store: &TrustStore, history: &KeyHistory) -> BTreeSet<PublicKey> {
    let ended = |entry: &&TrustedKey| history.ended(&entry.key).is_some();
    let keys: BTreeSet<PublicKey> = store.iter().filter(ended).map(|entry| entry.key).collect();
    let is_known = |key: &PublicKey| {
        let end = store.end_of(key);
        end.is_some_and(|end| end.next.is_none() || !history.is_revoked(key))
    };
    keys.into_iter().filter(|key| !is_known(key)).collect()
}
