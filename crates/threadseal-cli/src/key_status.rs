//! Keys that ended seal nothing more: a verifier that knows of the end would call the seal forged.
//!
//! A key ends when the trust store of the home revokes it, or by its own entry in the home's log.
//! Every command that signs asks here first, before it writes, and again under the lock of the record
//! right before each seal ([`threadseal_store::key_ends`]). Such a key signs only entries about its
//! own end: `key revoke`, `key rotate`.

use crate::context::Context;
use crate::exit::Failure;
use threadseal_core::key::PublicKey;
use threadseal_core::time::Timestamp;
use threadseal_store::home::Home;
use threadseal_store::key_ends::EndSection;

pub(crate) use threadseal_verify::home_key_ends::replace;

/// Refuses to sign with a `key` that ended.
///
/// # Errors
/// When it ended; or when trust store or log cannot be read, so that its state is unknown.
pub(crate) fn refuse(key: &PublicKey, context: &Context) -> Result<(), Failure> {
    match context.home_where_named()? {
        Some(home) => Ok(context.key_ends(&home)?.refuse_ended(key)?),
        None => Ok(()),
    }
}

/// Did the key end, by its own event or by the user's revocation?
///
/// # Errors
/// When trust store or log cannot be read.
pub(crate) fn is_over(key: &PublicKey, home: &Home, context: &Context) -> Result<bool, Failure> {
    Ok(context.key_ends(home)?.is_over(key)?)
}

/// Begins the end of a key: no seal is made with a key of this home until it is dropped.
///
/// # Errors
/// When another process holds the locks too long; those of [`Context::host`].
pub(crate) fn begin_end(home: &Home, context: &Context) -> Result<EndSection, Failure> {
    // A rotation that was interrupted is completed first: that takes the same lock.
    context.host()?;
    Ok(context.key_ends(home)?.gate().begin_end()?)
}

/// The moment of the end of a key that ends now: the next full second. Trust stores keep no
/// fractions, and each head that was stored before the end must be older.
///
/// # Errors
/// When the system's clock is out of range.
pub(crate) fn moment_of_end(context: &Context) -> Result<Timestamp, Failure> {
    let second = context.now()?.floor_to_second();
    Ok(Timestamp::from_micros(second.as_micros() + 1_000_000)?)
}
