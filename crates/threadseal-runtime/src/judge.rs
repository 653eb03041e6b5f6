//! The verifier of a project's records: the same that `threadseal verify` uses.

use threadseal_core::error::Error;
use threadseal_core::record::{ExpectedHead, Head, ThreadId};
use threadseal_core::trust::{ScopeFormat, Trust};
use threadseal_store::host::Host;
use threadseal_verify::home_log::HomeLog;
use threadseal_verify::{Verifier, VerifyRequest};

/// Judges transcripts of thread `id`, which hold the seal `named` where one is.
///
/// # Errors
/// Kind `External` when the clock fails.
pub(crate) fn of_transcripts(
    (host, log, trust): (&Host, &HomeLog, &Trust),
    id: &ThreadId,
    named: Option<Head>,
) -> Result<Verifier, Error> {
    let request = VerifyRequest {
        format: Some(ScopeFormat::Transcript),
        thread: Some(id.clone()),
        expect_head: named.map(ExpectedHead::Head),
        ..VerifyRequest::by(trust.clone())
    };
    let now = host.clock.now()?;
    Ok(Verifier::new(request, host.clone(), log.clone(), now))
}

/// Judges step ledgers, which hold the record `named` where one is.
///
/// # Errors
/// As [`of_transcripts`].
pub(crate) fn of_ledgers(
    (host, log, trust): (&Host, &HomeLog, &Trust),
    named: Option<Head>,
) -> Result<Verifier, Error> {
    let request = VerifyRequest {
        expect_head: named.map(ExpectedHead::Head),
        ..VerifyRequest::by(trust.clone())
    };
    let now = host.clock.now()?;
    Ok(Verifier::new(request, host.clone(), log.clone(), now))
}
