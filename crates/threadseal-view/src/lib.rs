//! The viewer as a service on this machine: assets of the page, and the bytes that it verifies.
//!
//! ```text
//! browser ─► loopback ─► host and token ─► router ─┬─► assets          the page, its worker, WebAssembly
//!                                                  ├─► api/…  JSON     rows, sessions, hits: what the page lists
//!                                                  ├─► api/…  bytes    logs and seals: what the page verifies
//!                                                  └─► api/live        a log changed on the disk
//! ```
//! Invariants: nothing is written; no request leaves the machine; a page of another origin gets nothing. The page judges
//! the bytes itself: a report of this side is shown apart, as the server's.
//!
//! | module | owns |
//! |---|---|
//! | [`assets`] | the files of the page, embedded |
//! | [`shelf`] | [`shelf::Shelf`]: what a viewer shows, and its JSON |
//! | [`guard`] | who may ask, and the policy of every answer |
//! | [`range`] | a part of a log, by RFC 9110 §14 |
//! | [`export`] | one file that has a session and the page: made, and taken apart |
//! | [`serve`] | connections, routes, the end of the service |
#![forbid(unsafe_code)]

pub mod assets;
pub mod export;
pub mod guard;
pub mod range;
pub mod serve;
pub mod shelf;

pub use guard::Token;
pub use serve::Viewer;
pub use shelf::Shelf;
