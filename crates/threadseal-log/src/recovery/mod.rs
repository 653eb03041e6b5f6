//! How a log begins, and the ways out for a log that commits nothing.
//!
//! ```text
//! key_ends ─ creation ─ carry_over ─ restart     another log in its place
//! catch_up                                       the missing entries, from a copy
//! ```

pub(crate) mod carry_over;
pub(crate) mod catch_up;
pub(crate) mod creation;
pub(crate) mod key_ends;
pub(crate) mod restart;
