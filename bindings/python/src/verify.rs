//! Verdicts on files and on bytes, proofs and seals: JSON texts, as the command prints them.

use crate::errors::{not_verified, raised};
use crate::home::{Home, Identity, Trust};
use pyo3::prelude::{FromPyObject, PyErr, PyResult, Python, pyfunction};
use std::path::{Path, PathBuf};
use threadseal::core::record::ExpectedHead;
use threadseal::core::trust::ScopeFormat;
use threadseal::formats::transcript::VerifyOptions;
use threadseal::formats::transcript::turn_proof::TurnProof;
use threadseal::reader::alone::Step;
use threadseal::reader::asked::{Asked, Beside, GivenKind, RequestedProfile, ScrollRequest};
use threadseal::reader::output::to_vec;
use threadseal::reader::{FileVerifier, proof};
use threadseal::store::clock::{Clock as _, SystemClock};
use threadseal::{Error, Need, OpenError, RecordId, ThreadId, VerifyRequest};

/// What is asked of each record besides trust, by the names of the command's options.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Options {
    profile: String,
    format: Option<String>,
    thread: Option<String>,
    expect_head: Option<String>,
    exact_head: bool,
    every_signature: bool,
    expect_length: Option<u64>,
}

/// What is asked, parsed.
struct Request {
    profile: RequestedProfile,
    format: Option<ScopeFormat>,
    thread: Option<ThreadId>,
    expect_head: Option<ExpectedHead>,
    scroll: ScrollRequest,
}

impl Options {
    fn parse(&self) -> Result<Request, Error> {
        let format = self.format.as_deref().map(|word| {
            let format = ScopeFormat::parse(word);
            format.ok_or_else(|| Error::invalid(format!("there is no format {word:?}")))
        });
        let head = self.expect_head.as_deref().map(|text| {
            ExpectedHead::parse(text).map_err(|why| Error::invalid(format!("expect_head: {why}")))
        });
        Ok(Request {
            profile: profile(&self.profile)?,
            format: format.transpose()?,
            thread: self.thread.as_deref().map(ThreadId::parse).transpose()?,
            expect_head: head.transpose()?,
            scroll: ScrollRequest {
                length: self.expect_length,
                ..ScrollRequest::default()
            },
        })
    }
}

fn profile(word: &str) -> Result<RequestedProfile, Error> {
    Ok(match word {
        "auto" => RequestedProfile::Auto,
        "native" => RequestedProfile::Native,
        "rye" => RequestedProfile::Rye,
        "observed" => RequestedProfile::Observed,
        "scroll-v0.1" => RequestedProfile::ScrollV01,
        _ => return Err(Error::invalid(format!("there is no profile {word:?}"))),
    })
}

/// A text of the library: it is UTF-8.
pub(crate) fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_default()
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "map_err gives the error away"
)]
pub(crate) fn thrown(error: Error) -> PyErr {
    Python::attach(|py| raised(py, &error))
}

/// Verifies files and folders with what `home` knows.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 gives values")]
pub(crate) fn verify_paths(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    home: &Home,
    trust: &Trust,
    options: Options,
) -> PyResult<String> {
    py.detach(|| of_paths(paths, home, trust, &options))
        .map_err(thrown)
}

fn of_paths(
    paths: Vec<PathBuf>,
    home: &Home,
    trust: &Trust,
    options: &Options,
) -> Result<String, Error> {
    let asked = options.parse()?;
    let request = VerifyRequest {
        profile: asked.profile,
        format: asked.format,
        thread: asked.thread,
        expect_head: asked.expect_head,
        exact_head: options.exact_head,
        every_signature: options.every_signature,
        scroll: asked.scroll,
        ..VerifyRequest::by(trust.0.clone())
    };
    Ok(text(home.0.verifier(request)?.verify_all(paths)?.to_json()))
}

/// Verifies one file that is in memory; `beside` are the contents of its `.seal`, bodies and `.head`.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 gives values")]
pub(crate) fn verify_bytes(
    py: Python<'_>,
    content: &[u8],
    name: &str,
    trust: &Trust,
    options: Options,
    beside: (Option<Vec<u8>>, Option<Vec<u8>>, Option<Vec<u8>>),
) -> PyResult<String> {
    py.detach(|| of_bytes(content, name, trust, &options, beside))
        .map_err(thrown)
}

fn of_bytes(
    content: &[u8],
    name: &str,
    trust: &Trust,
    options: &Options,
    (seal, bodies, head): (Option<Vec<u8>>, Option<Vec<u8>>, Option<Vec<u8>>),
) -> Result<String, Error> {
    let given = options.parse()?;
    let asked = Asked {
        kind: given.format.map(GivenKind::Format),
        profile: given.profile,
        thread: given.thread,
        expect_head: given.expect_head,
        exact_head: options.exact_head,
        every_signature: options.every_signature,
        scroll: given.scroll,
        beside: Beside {
            seal,
            bodies,
            without_bodies: false,
            head,
        },
        ..Asked::of(name, trust.0.clone(), SystemClock.now()?)?
    };
    let mut verifier = FileVerifier::new(asked);
    loop {
        verifier.push(content)?;
        if let Step::Done(outcome) = verifier.finish()? {
            return Ok(text(outcome.to_json()));
        }
    }
}

/// Writes a proof of one turn of the record at `path`, if all of it is verified.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 gives values")]
pub(crate) fn prove(
    py: Python<'_>,
    path: PathBuf,
    turn: u64,
    home: &Home,
    trust: &Trust,
) -> PyResult<Vec<u8>> {
    py.detach(|| proof_of(&path, turn, home, trust))
}

fn proof_of(path: &Path, turn: u64, home: &Home, trust: &Trust) -> PyResult<Vec<u8>> {
    let request = VerifyRequest::by(trust.0.clone());
    let verifier = home.0.verifier(request).map_err(thrown)?;
    let record = verifier.open_verified(path, Need::Whole).map_err(refused)?;
    let proof = TurnProof::make(record.verified(), record.bytes(), turn);
    Ok(proof.map_err(thrown)?.to_string().into_bytes())
}

/// Why a record was not opened.
pub(crate) fn refused(error: OpenError) -> PyErr {
    match error {
        OpenError::NotVerified(report) => Python::attach(|py| not_verified(py, &report)),
        OpenError::Failed(error) => thrown(error.into()),
    }
}

/// Checks a proof, a copy with lines left out, evidence of a fork, or a tombstone.
#[pyfunction]
pub(crate) fn check_proof(
    py: Python<'_>,
    content: &[u8],
    name: &str,
    trust: &Trust,
    thread: Option<&str>,
) -> PyResult<String> {
    py.detach(|| checked(content, name, trust, thread))
        .map_err(thrown)
}

fn checked(
    content: &[u8],
    name: &str,
    trust: &Trust,
    thread: Option<&str>,
) -> Result<String, Error> {
    let thread = thread.map(ThreadId::parse).transpose()?;
    let options = VerifyOptions {
        trust: &trust.0,
        now: SystemClock.now()?,
        held_since: None,
        thread: thread.as_ref(),
    };
    let mut checked = proof::check(name, content, &options, None, &[])?;
    name.clone_into(&mut checked.checked.report.path);
    Ok(text(to_vec(&checked.output())))
}

/// Seals a document and gives it with its seal.
#[pyfunction]
pub(crate) fn seal(
    py: Python<'_>,
    content: &[u8],
    name: &str,
    identity: &Identity,
) -> PyResult<Vec<u8>> {
    py.detach(|| sealed(content, name, identity))
        .map_err(thrown)
}

fn sealed(content: &[u8], name: &str, identity: &Identity) -> Result<Vec<u8>, Error> {
    let writer = &identity.0;
    let record: RecordId = writer.host().new_record()?;
    threadseal::seal(content, name, record, writer.now()?, writer.signer())
}
