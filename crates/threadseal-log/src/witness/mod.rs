//! Witnesses of logs: asking them about this host's log, and being one for other logs (C2SP tlog-witness).
//!
//! ```text
//! client ─► cosigned_notes, conflict_files      beside this host's log
//! files, last ─► serve                          a witness of other logs: its memory, and its service (feature `serve`)
//! ```

#[cfg(feature = "peer")]
mod client;
pub(crate) mod conflict_files;
pub(crate) mod cosigned_notes;
mod files;
mod last;
#[cfg(feature = "serve")]
mod serve;

#[cfg(feature = "serve")]
pub use crate::http_server::PeerLimit;
#[cfg(feature = "peer")]
pub use client::{Asked, Asking, last_cosigned};
pub use files::{Answer, MAX_KEPT_CONFLICTS, Remembered, WitnessFiles, WitnessKey, folder_name};
#[cfg(feature = "serve")]
pub use serve::{WitnessService, router, serve};
