//! The transparency log of a host: every head that it stores is in the log, so that none can be taken back (`spec/host-log.md`).
//!
//! Rooms, lowest first; each uses only rooms before it.
//!
//! | module | owns |
//! |---|---|
//! | `layout` | the files of a home's logs, and how each is spelled |
//! | [`http_server`] | services to peers that may be hostile (feature `serve`) |
//! | `http_client` | requests that are bounded in time and size (feature `peer`) |
//! | `tree` | tiles and journal as one tree; signing it; reading it without its lock; mirrors of it |
//! | `index` | where the heads of a record are, and which entries are no heads |
//! | `entries` | typed views of forks, redactions, tombstones, key events and second places |
//! | [`witness`] | asking witnesses for cosignatures, and being one for other logs |
//! | `marks` | second places, which show that a log went back |
//! | `timestamps` | time stamps of RFC 3161 authorities (feature `timestamp`) |
//! | `commit` | heads that wait, and the thread that commits them |
//! | `recovery` | how a log begins, and the ways out for one that commits nothing |
//! | `log_registry` | [`LogRegistry`]: the logs of a home |
//! | `standing` | [`Standing`]: whether the log counts in judgements |
//! | `fsck` | all of a log, checked |
//! | `seal_log` | [`SealLog`]: the log, which joins these parts |
//! | `logged_heads` | [`LoggedHeads`]: the log as a store of heads |
//! | `judged_places` | the log as evidence about keys |
#![forbid(unsafe_code)]

mod commit;
mod entries;
mod fsck;
#[cfg(feature = "peer")]
mod http_client;
#[cfg(feature = "serve")]
pub mod http_server;
mod index;
mod judged_places;
mod layout;
mod log_registry;
mod logged_heads;
mod marks;
mod recovery;
mod seal_log;
mod standing;
#[cfg(test)]
mod tests;
#[cfg(feature = "timestamp")]
pub mod timestamps;
mod tree;
pub mod witness;

pub use commit::batch::Fork;
pub use commit::committer::Published;
pub use commit::spool_quarantine::SetAside;
pub use entries::evidence_files::Accused;
pub use judged_places::JudgedPlaces;
pub use layout::description::{Description, LogId};
pub use layout::log_home::{LogHome, machine, new_id, refuse_shared};
pub use layout::mark_location::MarkLocation;
pub use log_registry::LogRegistry;
pub use logged_heads::LoggedHeads;
pub use marks::fault::Fault;
pub use marks::mark_set::MarkReport;
pub use marks::place_list::Forgotten;
pub use recovery::restart::OldLog;
pub use seal_log::SealLog;
pub use standing::Standing;
#[cfg(feature = "timestamp")]
pub use timestamps::{JudgedStamp, KeptStamp};
pub use tree::checked::Checked;
pub use tree::mirror::{Compared, Mirrored};
pub use tree::record_log::write_record_log;
pub use tree::view::LogView;
pub use tree::writer::LogKey;
pub use witness::cosigned_notes::CosignedNote;
