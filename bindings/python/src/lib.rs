//! ThreadSeal for Python: the module `threadseal._native`, on which the package `threadseal` is written.
//!
//! ```text
//! Home ─► Identity ─► Recorder          keys, and records that they seal
//!    └──► Trust ──┬─► verify_paths, verify_bytes     reports, as the command prints them
//!                 ├─► Session                        verified events
//!                 └─► prove, check_proof
//! ```
//! There is no logic of formats here: the crate `threadseal` has it. Results are JSON texts, which the
//! package reads into typed values. The interpreter's lock is released wherever a file is read or written
//! and wherever something is verified.
#![forbid(unsafe_code)]

mod canonical;
mod compat;
mod errors;
mod home;
mod json;
mod recorder;
mod session;
mod verify;

use pyo3::prelude::pymodule;

#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::canonical::{canonical, canonical_msgpack, checkpoint_digests};
    #[pymodule_export]
    use crate::compat::{jcs_text, new_key, public_of_seed, rye_sign, scroll_seal};
    #[pymodule_export]
    use crate::home::{Home, Identity, Trust, default_home};
    #[pymodule_export]
    use crate::json::event;
    #[pymodule_export]
    use crate::recorder::{Event, Recorder};
    #[pymodule_export]
    use crate::session::{Session, open_session};
    #[pymodule_export]
    use crate::verify::{check_proof, prove, seal, verify_bytes, verify_paths};

    /// The version of ThreadSeal.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
