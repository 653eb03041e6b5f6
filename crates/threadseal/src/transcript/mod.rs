//! Transcripts: append-only logs of one JSON event a line, sealed by checkpoints.
//!
//! | module | owns |
//! |---|---|
//! | [`rye`] | the seed's format: strict verdicts, writing |
//! | [`rye_compat`] | the exact answer of Rye's own verifier |

pub mod rye;
pub mod rye_compat;
