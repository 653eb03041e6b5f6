//! Moving agents between machines: the authority goes with the newest link, never with a copy.
//!
//! ```text
//! source                              target
//! release ─► RELEASE durable
//! export  ─► package ───────────────► import: all of it verified, then durable; nobody acts
//!        (again and again)            accept ─► ACCEPT durable ─► acts
//! confirm ◄─────────────── ACCEPT ◄── or refuse ─► REFUSE durable
//! holds again only with REFUSE
//! ```
//! Every step is a compare-and-swap on one store, may be cut off anywhere, and may be done again. What a
//! machine may do is what its newest link says. Lost answers are found in the own history: an offer
//! that comes again is answered again. A target that is lost for good is replaced by the root, in one
//! link (`recover`), on the copy that went furthest; the key of a machine is lost with its store.

mod node;
mod parcel;
#[cfg(any(test, feature = "fault"))]
pub mod sim;
mod transport;

pub use node::{Confirmed, Imported, Node};
pub use parcel::{OutgoingPackage, PackageExtras};
pub use transport::{Answer, MAX_HANDOVER_BYTES, Received, Transport, exchange};
