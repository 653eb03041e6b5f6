//! Machine output of commands that failed; what verification found is rendered by `threadseal_verify::output`.
//!
//! ```text
//! failure  {"schema":"threadseal.error/1","message":"…","exit":2}
//! ```

use crate::exit::{Exit, Failure};
use serde::Serialize;

pub(crate) use threadseal_verify::output::{
    PRUNED, PathError, VerifyOutput, summary, to_vec, write,
};

/// A command that failed, for a reader that expects JSON.
#[derive(Debug, Serialize)]
pub(crate) struct FailureOutput {
    schema: &'static str,
    message: String,
    exit: u8,
}

impl FailureOutput {
    pub(crate) fn new(failure: &Failure) -> Self {
        Self {
            schema: "threadseal.error/1",
            message: failure.to_string(),
            exit: Exit::NoVerdict.code(),
        }
    }
}
