//! Decides which records a recorder continues, and with which keys.

use super::epoch::Keys;
use super::tail::TailPolicy;
use crate::host::Host;
use threadseal_core::error::Error;
use threadseal_core::key::{KeyUsage, PublicKey};
use threadseal_core::record::ThreadId;
use threadseal_core::report::{NotVerified, Report, Verdict};
use threadseal_core::tlog::entry::key_event::KeyEvent;
use threadseal_core::trust::{Purpose, ScopeFormat, Standing};
use threadseal_formats::transcript::{Sealer, Signers, VerifyOptions};

/// Refuses keys that ended: their earlier seals stay valid, and a new seal by them would not count.
///
/// Returns the key events by which the recorder's own key took the place of the authority of an
/// ended record.
pub(super) fn admit_keys(
    keys: &Keys,
    sealer: &Sealer,
    options: &VerifyOptions<'_>,
) -> Result<Vec<KeyEvent>, Error> {
    let own = keys.native.public_key();
    refuse_ended(own, sealer.thread(), options)?;
    if !sealer.is_ended() {
        refuse_ended(sealer.authority(), sealer.thread(), options)?;
        return Ok(Vec::new());
    }
    if sealer.may_seal(own) {
        return Ok(Vec::new());
    }
    let history = options.trust.places.as_ref().and_then(|log| log.keys());
    let key_events = history.and_then(|history| history.succession(sealer.authority(), own));
    Ok(key_events
        .unwrap_or_default()
        .into_iter()
        .cloned()
        .collect())
}

/// Was the key revoked, so that only seals that are known to be older count?
fn refuse_ended(
    key: &PublicKey,
    thread: &ThreadId,
    options: &VerifyOptions<'_>,
) -> Result<(), Error> {
    let purpose = Purpose {
        usage: KeyUsage::Native,
        format: ScopeFormat::Transcript,
        thread: Some(thread.as_str()),
        evidence: None,
        heads: &[],
    };
    match options
        .trust
        .judge_unpinned(key, &purpose, options.now)
        .standing
    {
        Standing::Revoked { .. } => Err(Error::refused(format!(
            "key {} ended: its earlier seals remain valid, but new ones do not count; continue in a new record",
            key.key_id()
        ))),
        _ => Ok(()),
    }
}

/// May a writer continue from here?
pub(super) fn accept(report: &Report, tail: TailPolicy) -> Result<(), Error> {
    match report.verdict {
        Verdict::Verified | Verdict::Open | Verdict::Partial => Ok(()),
        Verdict::UnsignedTail if tail != TailPolicy::Refuse => Ok(()),
        Verdict::UnsignedTail => {
            let way_out = "; hint: threadseal seal sets the tail aside and records that";
            Err(NotVerified::of(report).error("the record", way_out))
        }
        _ => Err(refusal(report)),
    }
}

/// Refuses keys that may not make the next seal, once these key events are recorded.
pub(super) fn check_signers(
    host: &Host,
    sealer: &Sealer,
    key_events: &[KeyEvent],
    signers: Signers<'_>,
) -> Result<(), Error> {
    let mut asked = sealer.clone();
    for key_event in key_events {
        asked.succeed(host.stamp()?, key_event, &mut Vec::new())?;
    }
    asked.check_signers(signers)
}

pub(super) fn refusal(report: &Report) -> Error {
    NotVerified::of(report).error("the record", "")
}
