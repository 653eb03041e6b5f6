//! Machine output, as `threadseal_verify::output` renders it.

pub(crate) use threadseal_verify::output::{PRUNED, PathError, VerifyOutput, summary, to_vec};
