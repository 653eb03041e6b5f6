//! The witness policies that a home keeps (`spec/tlog.md`).

use crate::context::Context;
use crate::exit::Failure;
use threadseal_core::tlog::policy::Policy;
use threadseal_core::tlog::verifier::VerifierKey;
use threadseal_store::home::Home;
use threadseal_verify::anchor_files::{self, Kept};

/// Does the policy name this key of a log?
pub(crate) fn names(policy: &Policy, log: &VerifierKey) -> bool {
    policy.logs().iter().any(|known| known.key == *log)
}

/// All policies of a home.
///
/// # Errors
/// When the folder cannot be read.
pub(crate) fn policies(home: &Home, context: &Context) -> Result<Kept<Policy>, Failure> {
    Ok(anchor_files::policies(home, &*context.fs)?)
}
