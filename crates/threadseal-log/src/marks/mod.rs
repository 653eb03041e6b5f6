//! The high-water mark of a log: its last checkpoint in second places, outside of the home.
//!
//! ```text
//! folder_mark ─ home_clones ─┐
//! mark_state ─ store, keyring, witness ─ remote_marks ─ known_logs ─ mark_set, place_list ─► Fault, or none
//! ```
//! A log that is restored from a copy is correct in itself. Only a place that was not restored with it shows that the
//! log went back. The strength of that proof depends on the place: a folder beside the home is restored with the disk, one
//! on another disk is not, and a witness belongs to another operator.

pub(crate) mod fault;
pub(crate) mod folder_mark;
pub(crate) mod home_clones;
#[cfg(feature = "keyring")]
pub(crate) mod keyring_mark;
pub(crate) mod known_logs;
pub(crate) mod mark_set;
pub(crate) mod mark_state;
pub(crate) mod place_list;
pub(crate) mod remote_marks;
pub(crate) mod store_mark;
#[cfg(feature = "peer")]
pub(crate) mod witness_mark;
