//! What keys say of themselves in the log of this home, and what that is worth against a revocation.

use crate::context::Context;
use crate::exit::{Failure, complain};
use crate::trusting;
use std::collections::BTreeSet;
use std::sync::Arc;
use threadseal::key::{KeyId, Signer};
use threadseal::report::{Report, SignerStatus};
use threadseal::tlog::entry::LogEntry;
use threadseal::tlog::entry::key_event::{KeyChange, KeyEvent, KeyHistory};
use threadseal::trust::{Trust, TrustedKey};
use threadseal_store::home::Home;
use threadseal_store::seal_log::SealLog;

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

/// The trust by which the report's revoked signers count, where the log shows that the record's last seal stood in it before each
/// of them said that it ended, and a second place vouches for that. None where it does not. The clock is not asked.
///
/// # Errors
/// When the log cannot be read.
pub(crate) fn trust_before_end(
    log: &SealLog,
    trust: &Trust,
    report: &Report,
) -> Result<Option<Trust>, Failure> {
    let Some(at) = place_of(log, report)? else {
        return Ok(None);
    };
    let mut ended_later = BTreeSet::new();
    let history = KeyHistory::of(&log.key_events()?);
    for signer in &report.signers {
        let id = Some(signer).filter(|signer| signer.status == SignerStatus::Revoked);
        let id = id.and_then(|signer| KeyId::parse_hex(&signer.key));
        let Some(key) = id.and_then(|id| trust.by_key_id(id)) else {
            continue;
        };
        let ended = trust.store.ended_at(&key);
        // An earlier revocation by the user stands, and one that another log was the ground of.
        if ended.is_some_and(|end| at < end) && history.ended(&key) == ended {
            ended_later.insert(key);
        }
    }
    Ok((!ended_later.is_empty()).then(|| Trust {
        ended_later,
        ..trust.clone()
    }))
}

/// The entry that holds the record's last seal, where a second place vouches for it.
fn place_of(log: &SealLog, report: &Report) -> Result<Option<u64>, Failure> {
    let Some(head) = report.head else {
        return Ok(None);
    };
    let (view, marked) = (log.view()?, log.marked()?);
    for number in log.entries_of(&head.record)? {
        let entry = LogEntry::read(&view.entry(number)?);
        let is_it = matches!(entry, Ok(LogEntry::Head(logged)) if logged.head == head);
        if is_it && number < marked {
            return Ok(Some(number));
        }
    }
    Ok(None)
}
