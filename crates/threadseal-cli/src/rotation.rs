//! Keys that ended in the log, and their state in the trust store and in the names of keys.
//!
//! ```text
//! the key's event in the log ─► trust store ─► names of keys
//! ```
//! The log decides; the other two follow it. An interrupted command leaves them outdated. So every
//! command that opens the home to write updates them first. A command that judges by the trust
//! store reads it as if it were updated (`key_log`).

use crate::context::Context;
use crate::exit::Failure;
use crate::keyring::{Keyring, OwnKey};
use crate::trust_file;
use threadseal_core::key::PublicKey;
use threadseal_core::time::Timestamp;
use threadseal_core::tlog::entry::key_event::{KeyChange, KeyEvent, KeyHistory};
use threadseal_core::trust::{Revocation, TrustName, TrustStore, TrustedKey};
use threadseal_log::SealLog;
use threadseal_store::home::{Home, KeyFileName};
use threadseal_store::lock::Exclusive;
use threadseal_verify::home_keys::NEXT;
use threadseal_verify::key_places;

/// The name that the next key has until it takes over `name`.
pub(crate) fn waiting_name(name: &str) -> String {
    format!("{name}{NEXT}")
}

/// Lets only one process at a time end a key.
///
/// # Errors
/// When another process holds the lock too long.
pub(crate) fn enter(home: &Home, context: &Context) -> Result<Exclusive, Failure> {
    Ok(Exclusive::enter(
        &*context.fs,
        &home.path().join("keys.lock"),
    )?)
}

/// Updates trust store and names to the key events in the log, after an interrupted command.
///
/// # Errors
/// When the log or a key cannot be read, or the trust store or a name cannot be written.
pub(crate) fn follow(home: &Home, log: &SealLog, context: &Context) -> Result<(), Failure> {
    let events = log.key_events()?;
    if events.iter().all(|(_, event)| !event.change().ends()) {
        return Ok(());
    }
    let history = KeyHistory::of(&events);
    let is_behind = || -> Result<bool, Failure> {
        let behind = !key_places::lacking(&trust_file::of_home(home)?, &history).is_empty();
        Ok(behind || !halves(home, &events)?.is_empty())
    };
    if !is_behind()? {
        return Ok(());
    }
    // A process that is still at it may complete it.
    let _alone = enter(home, context)?;
    for half in halves(home, &events)? {
        if let Some(old) = &half.old {
            let revocation = revocation(&half.next.public, half.entry, context.now()?);
            trust_file::change(home, context, |store| {
                hand_over(store, old, &half.next.public, &revocation)
            })?;
        }
        take_over(home, half.old.as_ref(), &half.next, &half.name)?;
    }
    let now = context.now()?;
    trust_file::change(home, context, |store| {
        Ok(key_places::end(store, &history, now)?)
    })?;
    Ok(())
}

/// The entry of the trust store for a rotation to `next`, at this entry of the log.
pub(crate) fn revocation(next: &PublicKey, entry: Option<u64>, at: Timestamp) -> Revocation {
    Revocation {
        at,
        reason: format!("its place was taken by {}", next.key_id()),
        entry,
        next: Some(*next),
    }
}

/// The old key speaks of the next one, and names do not say so.
struct Half {
    /// The final name of the next key.
    name: String,
    /// The old key, if it still has that name.
    old: Option<OwnKey>,
    next: OwnKey,
    entry: Option<u64>,
}

/// Rotations of this home's keys that are in the log and were interrupted.
fn halves(home: &Home, events: &[(u64, KeyEvent)]) -> Result<Vec<Half>, Failure> {
    let keyring = Keyring::of(home);
    let keys = keyring.list()?;
    let mut halves = Vec::new();
    for next in &keys {
        let Some(name) = next.name.strip_suffix(NEXT) else {
            continue;
        };
        let old = keys.iter().find(|key| key.name == name);
        let is_word = |event: &&(u64, KeyEvent)| {
            let public = event.1.public();
            let is_ours = match old {
                Some(old) => old.public == *public && old.usage == next.usage,
                // It was already renamed.
                None => keys
                    .iter()
                    .any(|key| key.public == *public && key.name == kept_name(name, public)),
            };
            is_ours
                && event.1.usage() == next.usage
                && *event.1.change() == KeyChange::Rotate(next.public)
        };
        if events.iter().any(|event| is_word(&event)) {
            let old = old.cloned();
            let entry = old
                .as_ref()
                .and_then(|old| KeyHistory::of(events).ended(&old.public));
            let (name, next) = (name.to_owned(), next.clone());
            halves.push(Half {
                name,
                old,
                next,
                entry,
            });
        }
    }
    Ok(halves)
}

/// Passes the entry that trusts the old key for its usage to the next key, unless that has one of
/// its own. Returns whether there was one. An existing end of the old key stays as it is.
///
/// # Errors
/// When an entry cannot be written.
pub(crate) fn hand_over(
    store: &mut TrustStore,
    old: &OwnKey,
    next: &PublicKey,
    revocation: &Revocation,
) -> Result<bool, Failure> {
    let is_of_usage = |entry: &&TrustedKey| entry.usage.contains(&old.usage);
    let is_next_trusted = store.by_key(next).any(|entry| is_of_usage(&entry));
    let Some(entry) = store.by_key(&old.public).find(is_of_usage).cloned() else {
        return Ok(false);
    };
    let kept = TrustName::parse(&kept_name(&old.name, &old.public))?;
    if entry.name == kept && entry.revoked.is_some() {
        return Ok(false);
    }
    store.remove(&entry.name);
    let mut ended = entry.clone();
    ended.name = kept;
    ended.revoked.get_or_insert_with(|| revocation.clone());
    store.add(ended)?;
    if is_next_trusted {
        return Ok(true);
    }
    let mut follower = entry;
    follower.key = *next;
    follower.revoked = None;
    follower.added = Some(revocation.at);
    store.add(follower)?;
    Ok(true)
}

/// Renames the old key, and gives `name` to the next one.
///
/// # Errors
/// When a file cannot be renamed.
pub(crate) fn take_over(
    home: &Home,
    old: Option<&OwnKey>,
    next: &OwnKey,
    name: &str,
) -> Result<(), Failure> {
    if let Some(old) = old {
        let kept = kept_name(&old.name, &old.public);
        let kept = KeyFileName::parse(&format!("{kept}.{}", old.usage))?;
        home.keys().rename(&old.file, &kept)?;
    }
    let name = KeyFileName::parse(&format!("{name}.{}", next.usage))?;
    Ok(home.keys().rename(&next.file, &name)?)
}

/// `self-1a2b3c4d`
fn kept_name(name: &str, public: &PublicKey) -> String {
    kept_name_of(name, &public.key_id().to_hex())
}

/// The name that the key with this id gets when another one takes over `name`.
pub(crate) fn kept_name_of(name: &str, id: &str) -> String {
    format!("{name}-{}", id.get(..8).unwrap_or(id))
}
