//! Detached seals of logs that other programs write.

use super::{Action, Sealed, Sealing};
use crate::exit::Failure;
use std::path::Path;
use threadseal_core::key::KeyUsage;
use threadseal_store::observer;

pub(super) fn seal(sealing: &Sealing<'_>, path: &Path) -> Result<Sealed, Failure> {
    let signer = sealing.signer(KeyUsage::Observed)?;
    let is_final = sealing.args.is_final;
    let done = observer::seal(&sealing.host, path, is_final, &signer, &|_| {})?;
    Ok(match done {
        observer::Sealed::Added(seal) => {
            Sealed::new(path, "observed", Action::Sealed).with_head(Some(&seal.head))
        }
        observer::Sealed::Unchanged => Sealed::new(path, "observed", Action::Unchanged),
        observer::Sealed::Nothing => Sealed::new(path, "observed", Action::NothingYet),
    })
}
