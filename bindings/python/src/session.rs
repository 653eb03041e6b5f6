//! [`Session`]: the verified lines of a transcript.

use crate::errors::of_class;
use crate::home::{Home, Trust};
use crate::verify::{refused, text, thrown};
use pyo3::prelude::{PyResult, Python, pyclass, pyfunction, pymethods};
use std::path::PathBuf;
use threadseal::formats::transcript::lines::VerifiedLine;
use threadseal::reader::output::to_vec;
use threadseal::{Error, Need, VerifiedRecord, VerifyRequest};

/// A transcript of which a part may be trusted.
#[pyclass(frozen, module = "threadseal._native")]
pub(crate) struct Session {
    report: String,
    head: String,
    lines: Vec<(u64, String)>,
}

#[pymethods]
impl Session {
    /// The report on the whole record: JSON.
    #[getter]
    fn report(&self) -> &str {
        &self.report
    }

    /// The last seal.
    #[getter]
    fn head(&self) -> &str {
        &self.head
    }

    /// The number and text of each verified line, bodies in their places.
    fn lines(&self) -> Vec<(u64, String)> {
        self.lines.clone()
    }
}

/// Opens a transcript if its verdict allows `need`: `whole`, `sealed` or `vouched`.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 gives values")]
pub(crate) fn open_session(
    py: Python<'_>,
    path: PathBuf,
    home: &Home,
    trust: &Trust,
    need: &str,
) -> PyResult<Session> {
    let need = match need {
        "whole" => Need::Whole,
        "sealed" => Need::Sealed,
        "vouched" => Need::Vouched,
        _ => {
            return Err(of_class(
                py,
                "InvalidInput",
                format!("there is no need {need:?}"),
            ));
        }
    };
    py.detach(|| {
        let request = VerifyRequest::by(trust.0.clone());
        let verifier = home.0.verifier(request).map_err(thrown)?;
        let record = verifier.open_verified(&path, need).map_err(refused)?;
        session(&record).map_err(thrown)
    })
}

fn session(record: &VerifiedRecord) -> Result<Session, Error> {
    let lines = record.lines()?;
    let read = |line: VerifiedLine<'_>| {
        (
            line.number,
            String::from_utf8_lossy(&line.bytes).into_owned(),
        )
    };
    Ok(Session {
        report: text(to_vec(record.report())),
        head: record.head().to_string(),
        lines: lines.iter().map(read).collect(),
    })
}
