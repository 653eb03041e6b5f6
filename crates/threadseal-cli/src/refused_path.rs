//! [`RefusedPath`]: a path of several with which a command did not do what was asked, and why.
//!
//! ```text
//! sealing fails ─► the file is verified ─► evidence: exit 1, the report beside the message
//!                                      └─► none: the failure as it was
//! ```

use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::Out;
use crate::verifying;
use serde::Serialize;
use std::path::Path;
use threadseal_core::report::{FindingCode, NotVerified, Report};
use threadseal_store::sys::path_text;

/// A path, and why it was refused. `code` and `report` are of the record whose verdict forbids it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RefusedPath {
    pub(crate) path: String,
    pub(crate) message: String,
    code: Option<FindingCode>,
    report: Option<Report>,
}

impl RefusedPath {
    /// Of this failure.
    pub(crate) fn of(path: &Path, failure: &Failure) -> Self {
        let refused = failure.not_verified();
        Self {
            path: path_text(path),
            message: failure.to_string(),
            code: refused.and_then(|refused| Some(refused.finding()?.code)),
            report: refused.map(|refused| refused.report().clone()),
        }
    }
}

/// The exit of a command that refused these paths: evidence decides before `otherwise`. Its code is noted for the output.
pub(crate) fn exit(refused: &[RefusedPath], otherwise: Exit, out: &mut Out) -> Exit {
    let mut reports = refused.iter().filter_map(|refused| refused.report.as_ref());
    match reports.find(|report| report.verdict.is_evidence()) {
        Some(report) => {
            out.because(report);
            Exit::Evidence
        }
        None => otherwise,
    }
}

/// `failure` to seal the file at `path`: with the report on it, if it is evidence against itself.
pub(crate) fn with_evidence(failure: Failure, path: &Path, context: &Context) -> Failure {
    if failure.not_verified().is_some() {
        return failure;
    }
    let judged =
        verifying::verifier_of_home(context).and_then(|verifier| Ok(verifier.judge_source(path)?));
    let evidence = judged.as_ref().ok().and_then(|judged| judged.evidence());
    match evidence.filter(|report| report.verdict.is_evidence()) {
        Some(report) => failure.because(NotVerified::of(report)),
        None => failure,
    }
}
