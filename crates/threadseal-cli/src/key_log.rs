//! What keys say of themselves in the log of this home, and what that is worth against a revocation.

use crate::context::Context;
use crate::exit::{Failure, complain};
use crate::trust_file;
use std::sync::Arc;
use threadseal_core::key::Signer;
use threadseal_core::tlog::entry::key_event::{KeyChange, KeyEvent, KeyHistory};
use threadseal_log::{SealLog, Standing};
use threadseal_store::home::Home;
use threadseal_verify::key_places::renumber;

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
        "the log of this home cannot record key events now ({why}); hint: threadseal log status"
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
                "warning: this home has no log: no evidence will show which seals the key made before its end",
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
    trust_file::change(home, context, |store| Ok(renumber(store, log)?))?;
    Ok(())
}
