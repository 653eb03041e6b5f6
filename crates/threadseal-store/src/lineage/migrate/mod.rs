//! Moving agents between machines: the authority goes with the newest link, never with a copy.
//!
//! ```text
//! source                              target
//! release ─► RELEASE durable
//! export  ─► package ───────────────► import: all of it verified, then durable; no machine acts
//!        (again and again)            accept ─► ACCEPT durable ─► acts
//! confirm ◄─────────────── ACCEPT ◄── or refuse ─► REFUSE durable
//! holds again only with REFUSE
//! ```
//! Every step is a compare-and-swap on one store, may be cut off anywhere, and may be done again.
//! The newest link of a machine decides what it may do. Lost answers are found in its own history:
//! it answers a repeated offer again. If a target is lost for good, the root replaces it in one
//! link (`recover`), on the most advanced copy. The key of a machine is lost with its store.

mod node;
mod parcel;
mod transport;

pub use node::{Confirmed, Imported, Node};
pub use parcel::{MAX_HANDOVER_BYTES, OutgoingPackage, PackageExtras};
pub use transport::{Answer, Received, Transport, exchange};
