//! Scenes of tests; only for tests.
//!
//! | module | owns |
//! |---|---|
//! | `ending_keys` | [`EndingKeys`]: keys that end right before a seal |
//! | `scene` | [`Scene`]: a host with keys and trust that writes and verifies native records |
//! | [`child`] | this test program, started again as a process that is killed or that competes |
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking and says where, also in its helpers"
)]

pub mod child;
mod ending_keys;
mod scene;

pub use ending_keys::EndingKeys;
pub use scene::{CALM, Scene, end, host, nothing, options, say, signer, trust};
