//! One pass over the bytes of a record, pushed in order: native records, scrolls, ledgers, logs under their seals.
//!
//! A pass ends with a report, or asks for another pass that looks closer.

use crate::asked::{Asked, RequestedProfile};
use crate::given::refuse_pinned_id;
use std::path::Path;
use std::sync::Arc;
use threadseal_core::digest::Hasher;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::KeyUsage;
use threadseal_core::limits::MAX_NOTE_BYTES;
use threadseal_core::note::NoteError;
use threadseal_core::record::RecordId;
use threadseal_core::report::{Conversion, Finding, FindingCode, Format, Profile, Report, Verdict};
use threadseal_formats::ledger::{self, FileDigest, HeadAtHand, LaterBeginning, RunId, SignedHead};
use threadseal_formats::scroll;
use threadseal_formats::transcript::bodies::{Bodies, BodiesReader};
use threadseal_formats::transcript::log::LogReader;
use threadseal_formats::transcript::manifest::{self, Bodies as Where};
use threadseal_formats::transcript::observed::{self, SealFile};
use threadseal_formats::transcript::{
    Outcome, PrefixHasher, ScanOptions, Scanner, VerifyOptions, conclude, observe,
};

/// What an earlier pass found out, for the next one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Closer {
    every_signature: bool,
    later_beginnings: Vec<LaterBeginning>,
}

/// How a pass ends.
pub(crate) enum Ended {
    /// With a report.
    Report(Box<Report>),
    /// The same bytes are needed again.
    Again(Closer),
}

/// The signed head that is beside a ledger.
pub(crate) fn signed_head(asked: &Asked) -> Result<Option<Result<SignedHead, NoteError>>, Error> {
    let Some(bytes) = &asked.beside.head else {
        return Ok(None);
    };
    if bytes.len() > MAX_NOTE_BYTES {
        let text = format!("a signed head has at most {MAX_NOTE_BYTES} bytes");
        return Err(Error::new(ErrorKind::Limit, text));
    }
    Ok(Some(SignedHead::parse(&String::from_utf8_lossy(bytes))))
}

/// The options by which transcripts and logs are judged.
pub(crate) fn verify_options(asked: &Asked) -> VerifyOptions<'_> {
    VerifyOptions {
        trust: &asked.trust,
        now: asked.now,
        held_since: None,
        thread: asked.thread.as_ref(),
    }
}

/// A native record.
pub(crate) struct NativePass {
    scanner: Scanner,
    prefix: PrefixHasher,
}

impl NativePass {
    /// A pass over the record with this first line, as far as it is known.
    pub(crate) fn new(asked: &Asked, first_line: &[u8], closer: &Closer) -> Self {
        let manifest = manifest::parse_line(first_line);
        let is_detached = manifest.is_some_and(|manifest| manifest.bodies == Where::Detached);
        let is_asked = is_detached && !asked.beside.without_bodies;
        let bodies = is_asked.then(|| match &asked.beside.bodies {
            None => Arc::new(Bodies::absent()),
            Some(bytes) => {
                let mut reader = BodiesReader::new();
                reader.push(bytes);
                Arc::new(reader.finish())
            }
        });
        Self {
            scanner: Scanner::new(ScanOptions {
                every_signature: asked.every_signature || closer.every_signature,
                expect: asked.expect(),
                bodies,
            }),
            prefix: PrefixHasher::new(),
        }
    }

    pub(crate) fn push(&mut self, chunk: &[u8]) {
        let points = self.scanner.push(chunk);
        self.prefix.push(chunk, &points);
    }

    pub(crate) fn outcome(self, asked: &Asked) -> Outcome {
        conclude(self.scanner, &self.prefix, &verify_options(asked))
    }

    fn finish(self, asked: &Asked) -> Ended {
        let outcome = self.outcome(asked);
        match outcome.look_closer {
            true => Ended::Again(Closer::every_signature()),
            false => Ended::Report(Box::new(outcome.report)),
        }
    }
}

impl Closer {
    pub(crate) fn every_signature() -> Self {
        Self {
            every_signature: true,
            ..Self::default()
        }
    }
}

/// A scroll.
pub(crate) struct ScrollPass {
    splitter: scroll::Splitter,
    verifier: scroll::Verifier,
    reader: scroll::TurnReader,
    form: scroll::Form,
    /// The record that the first turn begins, and the claim of a converter in it.
    first: Option<(Option<RecordId>, Option<Conversion>)>,
}

impl ScrollPass {
    pub(crate) fn new(asked: &Asked, container: scroll::Container) -> Self {
        let pinned: Vec<_> = asked.trust.pinned.keys_for(KeyUsage::Scroll).collect();
        let form = container.form();
        Self {
            splitter: scroll::Splitter::new(container),
            reader: scroll::TurnReader::new(form, &pinned),
            verifier: scroll::Verifier::new(scroll::ChainOptions {
                expect: asked.expect(),
                pinned,
                not_before_ns: asked.scroll.not_before_ns,
                strict_digits: asked.scroll.strict_digits,
            }),
            form,
            first: None,
        }
    }

    pub(crate) fn push(&mut self, chunk: &[u8]) {
        let Self {
            splitter,
            verifier,
            reader,
            form,
            first,
        } = self;
        splitter.push(chunk, &mut |turn, place| {
            first.get_or_insert_with(|| first_turn(turn, *form));
            verifier.take(&reader.read(turn), place);
        });
    }

    fn finish(self, asked: &Asked) -> Result<Ended, Error> {
        let Self {
            splitter,
            mut verifier,
            mut reader,
            form,
            mut first,
        } = self;
        let end = splitter.finish(&mut |turn, place| {
            first.get_or_insert_with(|| first_turn(turn, form));
            verifier.take(&reader.read(turn), place);
        });
        let judging = scroll::Judging {
            length: asked.scroll.length,
            as_v01: asked.profile == RequestedProfile::ScrollV01,
            ..scroll::Judging::new(&asked.trust, asked.now)
        };
        let mut report = scroll::conclude(verifier, &end, &judging).report;
        refuse_pinned_id(&asked.trust, &report)?;
        let (record, conversion) = first.unwrap_or_default();
        // It is shown with the scroll that it begins, and changes no verdict.
        if record.is_some() && report.record == record {
            report.conversion = conversion.map(Box::new);
        }
        Ok(Ended::Report(Box::new(report)))
    }
}

fn first_turn(turn: &[u8], form: scroll::Form) -> (Option<RecordId>, Option<Conversion>) {
    let hash = scroll::read_turn(turn, form, &[]).hash();
    let record = hash.map(|hash| RecordId::from_bytes(*hash.as_bytes()));
    (
        record,
        hash.and_then(|_| scroll::read_conversion(turn, form)),
    )
}

/// A ledger in lines.
pub(crate) struct LedgerPass {
    splitter: ledger::LineSplitter,
    verifier: ledger::Verifier,
    reader: ledger::LineReader,
    head: Option<Result<SignedHead, NoteError>>,
    /// The bytes that the signed head names, as far as they came.
    beginning: Option<Beginning>,
    /// Were later beginnings given? One second look is enough.
    is_second: bool,
}

struct Beginning {
    hasher: Hasher,
    bytes: u64,
    left: u64,
}

impl Beginning {
    fn new(bytes: u64) -> Self {
        Self {
            hasher: Hasher::new(),
            bytes: 0,
            left: bytes,
        }
    }

    fn push(&mut self, chunk: &[u8]) {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        let piece = &chunk[..chunk.len().min(left)];
        self.hasher.update(piece);
        self.bytes += piece.len() as u64;
        self.left -= piece.len() as u64;
    }

    fn finish(self) -> FileDigest {
        FileDigest {
            sha256: self.hasher.finish(),
            bytes: self.bytes,
        }
    }
}

impl LedgerPass {
    pub(crate) fn new(asked: &Asked, closer: &Closer) -> Result<Self, Error> {
        let head = signed_head(asked)?;
        let signed = head.as_ref().and_then(|head| head.as_ref().ok());
        let options = ledger::ChainOptions {
            run: asked
                .ledger
                .run
                .clone()
                .or_else(|| run_of_name(&asked.name)),
            ..chain_options(asked, signed, closer)
        };
        let stated = signed.and_then(|head| head.statement.file);
        Ok(Self {
            splitter: ledger::LineSplitter::new(),
            verifier: ledger::Verifier::new(options),
            reader: ledger::LineReader::knowing(&ledger::KnownKeys::of_trust(&asked.trust)),
            beginning: stated.map(|stated| Beginning::new(stated.bytes)),
            head,
            is_second: !closer.later_beginnings.is_empty(),
        })
    }

    pub(crate) fn push(&mut self, chunk: &[u8]) {
        if let Some(beginning) = &mut self.beginning {
            beginning.push(chunk);
        }
        let (verifier, reader) = (&mut self.verifier, &mut self.reader);
        self.splitter.push(chunk, &mut |line, place| {
            verifier.take(&reader.read_line(line), line, place);
        });
    }

    fn finish(self, asked: &Asked) -> Result<Ended, Error> {
        let Self {
            splitter,
            mut verifier,
            mut reader,
            head,
            beginning,
            is_second,
        } = self;
        let bytes = splitter.finish(&mut |line, place| {
            verifier.take(&reader.read_line(line), line, place);
        });
        let signed = head.as_ref().and_then(|head| head.as_ref().ok());
        let file = beginning.map(Beginning::finish);
        let at_hand = signed.map(|head| HeadAtHand { head, file });
        let mut outcome = conclude_ledger(verifier, bytes, at_hand, asked)?;
        if let Some(closer) = closer_of(&mut outcome).filter(|_| !is_second) {
            return Ok(Ended::Again(closer));
        }
        if let Some(Err(_)) = head {
            let text = "the file beside the ledger is not a signed head of a ledger";
            let finding = Finding::error(FindingCode::HeadMalformed, text);
            outcome.report.downgrade(Verdict::Malformed, finding);
        }
        Ok(Ended::Report(Box::new(outcome.report)))
    }
}

/// The chain that is expected of a ledger with this head.
fn chain_options(
    asked: &Asked,
    signed: Option<&SignedHead>,
    closer: &Closer,
) -> ledger::ChainOptions {
    // A head with a bad signature states nothing.
    let stated = signed.filter(|signed| signed.holds);
    let stated = stated.map(|signed| &signed.statement);
    let signatures = stated.and_then(|stated| Some((stated.head()?, stated.signatures?)));
    ledger::ChainOptions {
        expect: asked.expect(),
        // A head by a key that was asked for covers records that no key signed.
        all_signed: !asked.trust.pinned.is_empty() && signed.is_none(),
        signed_head: signed.and_then(|signed| signed.statement.head()),
        signatures: signatures.into_iter().collect(),
        later_beginnings: closer.later_beginnings.clone(),
        ..ledger::ChainOptions::default()
    }
}

fn conclude_ledger(
    verifier: ledger::Verifier,
    bytes: u64,
    signed_head: Option<HeadAtHand<'_>>,
    asked: &Asked,
) -> Result<ledger::Outcome, Error> {
    let judging = ledger::Judging {
        length: asked.ledger.length,
        signed_head,
        ..ledger::Judging::new(&asked.trust, asked.now)
    };
    let outcome = ledger::conclude(verifier, bytes, &judging);
    refuse_pinned_id(&asked.trust, &outcome.report)?;
    Ok(outcome)
}

/// What a second look needs, where the ledger admits later beginnings.
fn closer_of(outcome: &mut ledger::Outcome) -> Option<Closer> {
    let later_beginnings = std::mem::take(&mut outcome.later_beginnings);
    (!later_beginnings.is_empty()).then(|| Closer {
        later_beginnings,
        ..Closer::default()
    })
}

/// The report on one ledger of a bundle.
///
/// # Errors
/// When an id is pinned in the place of a key.
pub(crate) fn bundled(asked: &Asked, found: &ledger::BundledLedger) -> Result<Report, Error> {
    let mut closer = Closer::default();
    loop {
        let options = ledger::ChainOptions {
            run: Some(found.run.clone()),
            view: found.view,
            ..chain_options(asked, None, &closer)
        };
        let mut verifier = ledger::Verifier::new(options);
        let keys = ledger::KnownKeys::of_trust(&asked.trust);
        let (mut reader, mut bytes) = (ledger::LineReader::knowing(&keys), 0);
        for (number, text) in (1..).zip(&found.lines) {
            let length = text.len() as u64;
            bytes += length;
            let place = ledger::Place::row(number, length);
            verifier.take(&reader.read_row(text), text, place);
        }
        let mut outcome = conclude_ledger(verifier, bytes, None, asked)?;
        match closer_of(&mut outcome) {
            Some(again) if closer.later_beginnings.is_empty() => closer = again,
            _ => return Ok(outcome.report),
        }
    }
}

/// The run in the name of a file of a store of files.
pub(crate) fn run_of_name(name: &str) -> Option<RunId> {
    let name = Path::new(name).file_name()?.to_str()?;
    let run = name.strip_prefix("ledger_")?.strip_suffix(".jsonl")?;
    RunId::parse(run).ok()
}

/// A log under the seals beside it.
pub(crate) struct SealedPass {
    seals: Result<(Arc<SealFile>, LogReader<Arc<SealFile>>), Finding>,
    bytes: u64,
}

impl SealedPass {
    pub(crate) fn new(seal_file: &[u8]) -> Self {
        let seals = observed::parse(seal_file).map(|seals| {
            let seals = Arc::new(seals);
            let reader = LogReader::new(Some(Arc::clone(&seals)), false);
            (seals, reader)
        });
        Self { seals, bytes: 0 }
    }

    pub(crate) fn push(&mut self, chunk: &[u8]) {
        self.bytes += chunk.len() as u64;
        if let Ok((_, reader)) = &mut self.seals {
            reader.push(chunk);
        }
    }

    pub(crate) fn finish(self, asked: &Asked) -> Report {
        match self.seals {
            Ok((seals, reader)) => {
                let scan = reader.finish();
                observe::report(&seals, &scan, &asked.expect(), &verify_options(asked))
            }
            Err(finding) => {
                let mut report = Report::begin(Format::Log, Profile::Observed);
                report.trust = Some(asked.trust.digest());
                report.stats.bytes = self.bytes;
                report.downgrade(Verdict::Malformed, finding);
                report
            }
        }
    }
}

/// The record in a file itself, by a pass that needs no more than each chunk.
pub(crate) enum OwnPass {
    Native(Box<NativePass>),
    Scroll(Box<ScrollPass>),
    Ledger(Box<LedgerPass>),
}

impl OwnPass {
    pub(crate) fn push(&mut self, chunk: &[u8]) {
        match self {
            Self::Native(pass) => pass.push(chunk),
            Self::Scroll(pass) => pass.push(chunk),
            Self::Ledger(pass) => pass.push(chunk),
        }
    }

    pub(crate) fn finish(self, asked: &Asked) -> Result<Ended, Error> {
        match self {
            Self::Native(pass) => Ok(pass.finish(asked)),
            Self::Scroll(pass) => pass.finish(asked),
            Self::Ledger(pass) => pass.finish(asked),
        }
    }
}
