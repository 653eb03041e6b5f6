//! [`FileVerifier`]: the verdict on one file alone, from bytes that are pushed in chunks of any size.
//!
//! ```text
//! push ─► held ─┬─ at most HELD_BYTES ──────────────────────────────► claims ─► reports
//!               └─ more: what is it? ─┬─ native, scroll, log, ledger ─► passes ─► reports, or again
//!                                     └─ anything else: held to its end ──────► claims ─► reports
//! ```
//! A streamed record is held only until its kind is certain. A fault in it may need a second look; then
//! [`FileVerifier::finish`] asks for the same bytes again. Rye's transcripts, documents, bundles and
//! checkpoints are held whole: their rules need all bytes at once.
//!
//! Invariant: the reports are the same whatever the chunks, and whether the bytes were held or streamed.

use crate::asked::{Asked, GivenKind, RequestedProfile};
use crate::claims;
use crate::content::InMemory;
use crate::output::{PathError, VerifyOutput, to_vec};
use crate::passes::{Closer, Ended, LedgerPass, OwnPass, ScrollPass, SealedPass};
use crate::recognise::{self, Early, Kind, LedgerShape, LineLook};
use memchr::memchr;
use std::path::Path;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_LINE_BYTES;
use threadseal_core::report::{Report, combined_exit_code};
use threadseal_core::trust::ScopeFormat;
use threadseal_formats::document::DocumentKind;

/// A file of at most so many bytes is held until its end.
pub const HELD_BYTES: usize = 4 << 20;
/// The most bytes of a file that is not streamed.
pub const MAX_HELD_BYTES: usize = 512 << 20;
/// The most passes over a file: a kind that shows at the end, and a closer look.
const MAX_PASSES: u32 = 4;

/// Verifies one file. Push its bytes in order, then call [`FileVerifier::finish`].
pub struct FileVerifier {
    asked: Asked,
    state: State,
    bytes: u64,
    pass: u32,
}

enum State {
    /// What came so far; no attempt to recognise it before it has `next_look` bytes.
    Held {
        bytes: Vec<u8>,
        next_look: usize,
    },
    Streamed(Box<Stream>),
    /// Why there is no verdict.
    Failed(Error),
    Done,
}

/// How far a verification is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that were pushed in this pass.
    pub bytes: u64,
    /// The number of the pass, from 1.
    pub pass: u32,
    /// Bytes that are held in memory.
    pub held: u64,
    /// Are the bytes looked at as they come, and not kept?
    pub is_streamed: bool,
}

/// What comes after the last byte.
#[derive(Debug)]
pub enum Step {
    /// Push the same bytes again, from the first.
    Again,
    /// This is the result.
    Done(FileOutcome),
}

/// The result of a file.
#[derive(Debug)]
pub struct FileOutcome {
    /// One report for each claim.
    pub results: Vec<Report>,
    /// Why there is none.
    pub errors: Vec<PathError>,
}

impl FileOutcome {
    pub(crate) fn of(asked: &Asked, found: Result<Vec<Report>, Error>) -> Self {
        match found {
            Ok(results) => Self {
                results,
                errors: Vec::new(),
            },
            Err(error) => Self {
                results: Vec::new(),
                errors: vec![PathError::of(Some(Path::new(&asked.name)), &error)],
            },
        }
    }

    /// 0 verified, 1 evidence against the record, 2 no verdict, 3 not confirmed.
    pub fn exit_code(&self) -> u8 {
        let verdicts: Vec<_> = self.results.iter().map(|report| report.verdict).collect();
        combined_exit_code(&verdicts, self.errors.len())
    }

    /// As `threadseal verify --json` prints it.
    pub fn to_json(&self) -> Vec<u8> {
        let exit = self.exit_code();
        to_vec(&VerifyOutput::new(&self.results, &self.errors, 0, exit))
    }
}

impl FileVerifier {
    /// A verifier before the first byte.
    pub fn new(asked: Asked) -> Self {
        Self::holding(asked, HELD_BYTES)
    }

    /// The same, which holds fewer or more bytes before it streams.
    pub fn holding(asked: Asked, held_bytes: usize) -> Self {
        Self {
            asked,
            state: State::held(held_bytes),
            bytes: 0,
            pass: 1,
        }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// After [`FileVerifier::finish`] gave the result.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), Error> {
        self.bytes += chunk.len() as u64;
        match &mut self.state {
            State::Held { bytes, next_look } => {
                if bytes.len() + chunk.len() > MAX_HELD_BYTES {
                    let name = &self.asked.name;
                    let text = format!(
                        "{name} has more than the {MAX_HELD_BYTES} bytes that are held of a file of its kind"
                    );
                    self.state = State::Failed(Error::new(ErrorKind::Limit, text));
                    return Ok(());
                }
                bytes.extend_from_slice(chunk);
                if bytes.len() <= *next_look {
                    return Ok(());
                }
                *next_look = bytes.len().saturating_mul(2);
                let begun = Stream::begin(&self.asked, bytes);
                self.state = match begun {
                    Ok(Some(stream)) => State::Streamed(Box::new(stream)),
                    Ok(None) => return Ok(()),
                    Err(error) => State::Failed(error),
                };
            }
            State::Streamed(stream) => stream.push(chunk),
            State::Failed(_) => {}
            State::Done => return Err(ended()),
        }
        Ok(())
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        Progress {
            bytes: self.bytes,
            pass: self.pass,
            held: match &self.state {
                State::Held { bytes, .. } => bytes.len() as u64,
                _ => 0,
            },
            is_streamed: matches!(self.state, State::Streamed(_)),
        }
    }

    /// Ends the bytes.
    ///
    /// # Errors
    /// When it gave the result before, or the bytes of a later pass are others.
    pub fn finish(&mut self) -> Result<Step, Error> {
        let found = match std::mem::replace(&mut self.state, State::Done) {
            State::Done => return Err(ended()),
            State::Failed(error) => Err(error),
            State::Held { bytes, .. } => claims::of_file(&self.asked, &bytes),
            State::Streamed(stream) => match stream.finish(&self.asked) {
                Ok(Seen::Reports(reports)) => Ok(reports),
                Ok(Seen::Again(next)) => {
                    if self.pass == MAX_PASSES {
                        let text = "the bytes of this pass are not those of the pass before";
                        return Err(Error::invalid(text));
                    }
                    self.state = next;
                    (self.pass, self.bytes) = (self.pass + 1, 0);
                    return Ok(Step::Again);
                }
                Err(error) => Err(error),
            },
        };
        Ok(Step::Done(FileOutcome::of(&self.asked, found)))
    }
}

impl State {
    fn held(next_look: usize) -> Self {
        Self::Held {
            bytes: Vec::new(),
            next_look,
        }
    }

    /// The state before another pass over a record of this kind.
    fn again(asked: &Asked, kind: Kind, closer: &Closer, first: &[u8]) -> Result<Self, Error> {
        Ok(match Stream::of(asked, kind, closer, first)? {
            Some(stream) => Self::Streamed(Box::new(stream)),
            None => Self::held(usize::MAX),
        })
    }
}

fn ended() -> Error {
    Error::invalid("this verification ended; hint: make a new one for another file")
}

/// A record that is looked at as it comes.
struct Stream {
    /// Its kind, as far as it is certain.
    kind: Option<Kind>,
    /// What all lines of a log show of its kind.
    look: Option<LineLook>,
    own: Option<OwnPass>,
    beside: Option<SealedPass>,
    /// Line 1, for another pass; as far as it came, and whether it ended.
    first: (Vec<u8>, bool),
    bytes: u64,
    failed: Option<Error>,
}

enum Seen {
    Reports(Vec<Report>),
    Again(State),
}

impl Stream {
    /// A stream of the file that begins so, if its beginning shows that it can be streamed.
    fn begin(asked: &Asked, beginning: &[u8]) -> Result<Option<Self>, Error> {
        let seal = asked.beside.seal.as_deref();
        let is_document = seal.is_some_and(claims::is_document_seal);
        let name = DocumentKind::of_name(&asked.name);
        let is_text = name.is_some_and(|kind| kind != DocumentKind::Json);
        // Of two claims the expected head may be meant for one.
        let is_double = seal.is_some() && asked.expect_head.is_some();
        if is_document || is_double || (is_text && asked.kind.is_none()) {
            return Ok(None);
        }
        let file = InMemory {
            name: &asked.name,
            bytes: beginning,
            is_sealed: seal.is_some(),
        };
        let has_line = memchr(b'\n', beginning).is_some();
        let is_enough = recognise::shows_container(beginning.len());
        let (kind, look) = match asked.kind {
            None => match recognise::early(&file)? {
                Early::Certain(kind) => (Some(kind), false),
                Early::ByLines => (Self::log_or_ledger(asked, &file), true),
                Early::NotYet => (None, false),
            },
            Some(GivenKind::Native) => (Some(Kind::Native).filter(|_| has_line), false),
            Some(GivenKind::Format(ScopeFormat::Log)) => (Some(Kind::Log), false),
            Some(GivenKind::Format(ScopeFormat::Scroll)) if is_enough => {
                (Some(Kind::Scroll(recognise::container(&file)?)), false)
            }
            Some(GivenKind::Format(ScopeFormat::Ledger)) if is_enough => {
                (Some(Kind::Ledger(recognise::ledger_shape(&file)?)), false)
            }
            Some(_) => (None, false),
        };
        let Some(kind) = kind else { return Ok(None) };
        let mut stream = Self::of(asked, kind, &Closer::default(), beginning)?;
        if look && let Some(stream) = &mut stream {
            stream.look = Some(LineLook::new(seal.is_some()));
        }
        if let Some(stream) = &mut stream {
            stream.push(beginning);
        }
        Ok(stream)
    }

    /// A file of lines that is a log or a ledger so far; a later line may make it a transcript.
    fn log_or_ledger(asked: &Asked, file: &InMemory<'_>) -> Option<Kind> {
        let is_lines = Path::new(&asked.name).extension();
        let is_lines = is_lines.is_some_and(|ending| ending.eq_ignore_ascii_case("jsonl"));
        match recognise::kind(file) {
            Ok(Some(Kind::Log)) if claims::has_ledger_head(asked) => {
                Some(Kind::Ledger(LedgerShape::Lines))
            }
            Ok(Some(kind @ (Kind::Log | Kind::Ledger(LedgerShape::Lines)))) if is_lines => {
                Some(kind)
            }
            _ => None,
        }
    }

    /// A stream of a record of this kind, if such a record can be streamed.
    fn of(
        asked: &Asked,
        kind: Kind,
        closer: &Closer,
        beginning: &[u8],
    ) -> Result<Option<Self>, Error> {
        let is_observed = asked.profile == RequestedProfile::Observed;
        let own = match kind {
            _ if is_observed => None,
            Kind::Native => Some(claims::native(asked, beginning, closer)),
            Kind::Scroll(container) => {
                Some(OwnPass::Scroll(Box::new(ScrollPass::new(asked, container))))
            }
            Kind::Ledger(LedgerShape::Lines) => {
                Some(OwnPass::Ledger(Box::new(LedgerPass::new(asked, closer)?)))
            }
            Kind::Log => None,
            _ => return Ok(None),
        };
        let profile = asked.profile;
        let counts = matches!(profile, RequestedProfile::Auto | RequestedProfile::Observed);
        let seal = asked.beside.seal.as_deref().filter(|_| counts);
        Ok(Some(Self {
            kind: Some(kind),
            look: None,
            own,
            beside: seal.map(SealedPass::new),
            first: (Vec::new(), false),
            bytes: 0,
            failed: None,
        }))
    }

    fn push(&mut self, chunk: &[u8]) {
        self.bytes += chunk.len() as u64;
        self.keep_first_line(chunk);
        let look = self.look.as_mut();
        if let Some(Err(long)) = look.map(|look| look.push(chunk)) {
            self.failed.get_or_insert(Error::refused(long.to_string()));
        }
        if let Some(own) = &mut self.own {
            own.push(chunk);
        }
        if let Some(beside) = &mut self.beside {
            beside.push(chunk);
        }
    }

    fn keep_first_line(&mut self, chunk: &[u8]) {
        let (line, has_ended) = &mut self.first;
        if *has_ended {
            return;
        }
        let end = memchr(b'\n', chunk);
        line.extend_from_slice(&chunk[..end.unwrap_or(chunk.len())]);
        *has_ended = end.is_some() || line.len() > MAX_LINE_BYTES;
    }

    fn finish(self, asked: &Asked) -> Result<Seen, Error> {
        let first = self.first.0;
        let about = |error: Error| Error::new(error.kind(), format!("{}: {error}", asked.name));
        if let Some(error) = self.failed {
            return Err(about(error));
        }
        let mut kind = self.kind;
        if let Some(look) = self.look {
            let has_steps = look.has_steps() || claims::has_ledger_head(asked);
            let found = look.finish();
            let found = found.map_err(|long| about(Error::refused(long.to_string())))?;
            let found = match found {
                Kind::Log if has_steps => Kind::Ledger(LedgerShape::Lines),
                found => found,
            };
            if kind != Some(found) {
                return Ok(Seen::Again(State::again(
                    asked,
                    found,
                    &Closer::default(),
                    &first,
                )?));
            }
            kind = Some(found);
        }
        if asked.scroll.is_some() && !matches!(kind, Some(Kind::Scroll(_))) {
            let text = "a length or an age was requested, but only scrolls have them";
            return Err(about(Error::refused(text)));
        }
        let own = match self.own.map(|own| own.finish(asked)).transpose()? {
            Some(Ended::Again(closer)) => {
                let kind = kind.unwrap_or(Kind::Log);
                return Ok(Seen::Again(State::again(asked, kind, &closer, &first)?));
            }
            Some(Ended::Report(report)) => Some(*report),
            None => None,
        };
        let mut reports: Vec<Report> = self
            .beside
            .map(|pass| pass.finish(asked))
            .into_iter()
            .collect();
        let is_ledger = matches!(kind, Some(Kind::Ledger(_)));
        match own {
            Some(own) if is_ledger || reports.is_empty() || !claims::claims_nothing(&own) => {
                reports.push(own);
            }
            Some(_) => {}
            None if reports.is_empty() => reports.push(claims::unsealed(asked, self.bytes)),
            None => {}
        }
        let finish = |report| claims::finished(asked, report);
        Ok(Seen::Reports(reports.into_iter().map(finish).collect()))
    }
}
