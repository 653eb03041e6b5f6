//! Rye's transcripts.
//!
//! Elsewhere: the answer of Rye's own verifier ([`super::rye_compat`]).

pub(crate) mod lines;
