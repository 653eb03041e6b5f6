//! The trust of the home: whose signatures count when nothing else is named.

use crate::context::Context;
use crate::exit::Failure;
use threadseal_core::trust::{Trust, TrustStore};
use threadseal_store::home::Home;
use threadseal_store::lock::Exclusive;
use threadseal_verify::trust_sources::TrustSources;

pub(crate) use threadseal_verify::trust_file::{is_toml, of_home, read_identity, read_public};

/// The home's trust store, and the log by which its keys are judged.
///
/// # Errors
/// When either cannot be read, others could have written it, or it is damaged.
pub(crate) fn trust_of_home(home: &Home, context: &Context) -> Result<Trust, Failure> {
    let log = || Ok(context.reading_host()?.1);
    Ok(TrustSources {
        fs: &context.fs,
        home: Some(home),
        log: &log,
        notices: context,
    }
    .of_home()?)
}

/// Changes the home's trust store; `change` returns whether it did. One change at a time.
///
/// # Errors
/// Those of `change`, or when the store cannot be read or written.
pub(crate) fn change(
    home: &Home,
    context: &Context,
    change: impl FnOnce(&mut TrustStore) -> Result<bool, Failure>,
) -> Result<bool, Failure> {
    let _alone = Exclusive::enter(&*context.fs, &home.path().join("trust.lock"))?;
    let mut store = of_home(home)?;
    let changed = change(&mut store)?;
    if changed {
        home.write_trust(store.to_toml().as_bytes())?;
    }
    Ok(changed)
}
