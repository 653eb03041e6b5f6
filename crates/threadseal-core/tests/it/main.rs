//! Tests of the crate as its users see it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "all of this is test code; clippy knows only the functions marked #[test]"
)]

mod canon_vectors;
mod spec_canon;
mod spec_keys;
mod testkit_keys;
