//! Signed documents: JSON objects, Markdown, YAML, TOML, scripts.
//!
//! | profile | the signature | covers |
//! |---|---|---|
//! | native | `threadseal:signed:…` | every byte of the file, time, kind, record and seal number |
//! | rye | `rye:signed:…` header line, `_signature` member | bytes that Rye hashes, by kind |
//!
//! [`verify`] handles both profiles; a file may carry both. Under [`ProfileChoice::Auto`] a native seal
//! decides where there is one, else Rye's signature. Content that Rye's signature does not cover
//! makes the verdict `partial`. [`ProfileChoice::Rye`] accepts Rye's own coverage. A signature that is
//! provably wrong counts against the file under every profile.
//!
//! | module | owns |
//! |---|---|
//! | `kind` | the kind of a file |
//! | `seal`, `native` | the native seal: text, places, coverage, checking |
//! | `beside` | a native seal in a file of its own |
//! | `rye` | Rye's grammar, placement, coverage |
//! | `text`, `json`, `trusted_key` | reading the carriers |
//! | `sign`, `edit` | writing both |
//!
//! Normative: `spec/documents.md`.

mod beside;
mod edit;
mod json;
mod kind;
mod native;
mod part;
mod reading;
mod rye;
mod seal;
mod sign;
mod signer;
mod text;
mod trusted_key;

pub use beside::{MAX_BESIDE_BYTES, is_beside, read_beside, sign_beside, verify_beside};
pub use kind::{DocumentKind, ItemType};
pub use seal::NativeSeal;
pub use seal::begins_like_a_seal;
pub use sign::{NativeSealing, RyeSigning, sign_native, sign_rye};

use crate::verified::{Grounds, Verified};
use part::Part;
use reading::Reading;
use std::ops::Range;
use threadseal_core::canon::json::{JsonError, Value, parse_python};
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::limits::MAX_DOCUMENT_BYTES;
use threadseal_core::record::{ExpectedHead, ThreadId};
use threadseal_core::report::{
    CheckName, CheckResult, Completeness, Finding, FindingCode, Format, Profile, Report, Stats,
    TrustedUntil, Verdict,
};
use threadseal_core::time::Timestamp;
use threadseal_core::trust::Trust;

/// Which signature counts, and how much it must cover.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ProfileChoice {
    /// The native seal, else Rye's signature; gaps in its coverage count against the file.
    #[default]
    Auto,
    /// Rye's signature, as much as Rye covers.
    Rye,
    /// The native seal and nothing else.
    Native,
}

/// The document's kind, the trust, and the other inputs of a verification.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// The kind of the file; see [`DocumentKind::detect`].
    pub kind: DocumentKind,
    /// The file's name, as the report shall give it. A Rye key file is also judged by it.
    pub path: &'a str,
    /// Which signature counts.
    pub profile: ProfileChoice,
    /// The item type under which Rye signed a text; None to find it out.
    pub item_type: Option<ItemType>,
    /// Whose signature counts.
    pub trust: &'a Trust,
    /// The moment by which keys are judged.
    pub now: Timestamp,
    /// The thread to which a JSON document must belong.
    pub expect_thread: Option<&'a ThreadId>,
    /// A head that the caller holds: the file must be that one or a newer one.
    pub expect_head: Option<ExpectedHead>,
    /// The file must be that very one.
    pub exact_head: bool,
    /// When this verifier held that head before: evidence against later revocations.
    pub held_since: Option<Timestamp>,
}

impl<'a> Options<'a> {
    /// Verifies as `kind`, with everything else at its default.
    pub fn new(kind: DocumentKind, trust: &'a Trust, now: Timestamp) -> Self {
        Self {
            kind,
            path: "",
            profile: ProfileChoice::Auto,
            item_type: None,
            trust,
            now,
            expect_thread: None,
            expect_head: None,
            exact_head: false,
            held_since: None,
        }
    }
}

/// A report, and the document where the verdict is `verified`.
#[derive(Debug)]
pub struct Outcome<'a> {
    /// The result of the verification.
    pub report: Report,
    /// The document, for the verdict `verified` alone.
    pub verified: Option<Verified<Document<'a>>>,
}

/// A document that verified.
#[derive(Debug, Clone, PartialEq)]
pub struct Document<'a> {
    bytes: &'a [u8],
    kind: DocumentKind,
    item_type: Option<ItemType>,
    covered: Vec<Range<u64>>,
    seal: Option<NativeSeal>,
}

impl<'a> Document<'a> {
    /// The file. Under [`ProfileChoice::Rye`] only [`Document::covered`] of it is vouched for.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Its kind.
    pub fn kind(&self) -> DocumentKind {
        self.kind
    }

    /// The item type under which Rye signed it, if Rye's signature vouches for this text.
    pub fn item_type(&self) -> Option<ItemType> {
        self.item_type
    }

    /// The bytes that the signature covers, in order.
    pub fn covered(&self) -> &[Range<u64>] {
        &self.covered
    }

    /// The native seal, if that vouches for the document.
    pub fn seal(&self) -> Option<&NativeSeal> {
        self.seal.as_ref()
    }

    /// The value of a JSON document, read from the bytes that verified.
    ///
    /// # Errors
    /// Where the document is not JSON.
    pub fn json(&self) -> Result<Value, JsonError> {
        parse_python(self.bytes).map(|document| document.value)
    }
}

/// Verifies one document. Time and memory are linear in its size.
///
/// # Errors
/// [`threadseal_core::error::ErrorKind::InvalidInput`] when Rye signs no such kind as `item_type`.
/// A defect of the document is never an error: the report contains it.
pub fn verify<'a>(bytes: &'a [u8], options: &Options<'_>) -> Result<Outcome<'a>, Error> {
    if let Some(item) = options.item_type
        && !options.kind.fits(item)
    {
        return Err(Error::invalid(format!(
            "Rye does not sign a {} file as a {}",
            options.kind,
            item.as_str()
        )));
    }
    let reading = if bytes.len() > MAX_DOCUMENT_BYTES {
        too_large(bytes.len())
    } else if options.kind == DocumentKind::Json {
        json::read(bytes, options)
    } else {
        text::read(bytes, options)
    };
    Ok(Case::new(bytes, options).decide(reading))
}

/// Whether anything in the file claims to be a signature that [`verify`] knows, however broken.
pub fn is_signed_document(bytes: &[u8], kind: DocumentKind) -> bool {
    let trust = Trust::default();
    let Ok(now) = Timestamp::from_micros(0) else {
        return false;
    };
    verify(bytes, &Options::new(kind, &trust, now))
        .is_ok_and(|outcome| outcome.report.profile != Profile::None)
}

fn too_large(size: usize) -> Reading {
    let mut reading = Reading::default();
    let message = format!("a document has at most {MAX_DOCUMENT_BYTES} bytes, this one has {size}");
    let finding = Finding::error(FindingCode::TooLarge, message);
    reading.file.fault(Verdict::Malformed, finding);
    reading
}

/// One file on its way from evidence to verdict.
struct Case<'a, 'o> {
    bytes: &'a [u8],
    options: &'o Options<'o>,
    trust: Digest,
    report: Report,
    /// Does an expected head name this version of the record, or an earlier one?
    is_held: bool,
    /// Does the signature that counts leave gaps?
    has_gaps: bool,
}

impl<'a, 'o> Case<'a, 'o> {
    fn new(bytes: &'a [u8], options: &'o Options<'o>) -> Self {
        let format = match options.kind {
            DocumentKind::Json => Format::Json,
            _ => Format::Text,
        };
        let mut report = Report::begin(format, Profile::None);
        options.path.clone_into(&mut report.path);
        let trust = options.trust.digest();
        report.trust = Some(trust);
        Self {
            bytes,
            options,
            trust,
            report,
            is_held: false,
            has_gaps: false,
        }
    }

    fn decide(mut self, reading: Reading) -> Outcome<'a> {
        let Reading {
            file,
            native,
            rye,
            compat,
            thread,
        } = reading;
        let native_counts = native.is_some() && self.options.profile != ProfileChoice::Rye;
        let rye_counts = match self.options.profile {
            ProfileChoice::Auto => native.is_none() && rye.is_some(),
            ProfileChoice::Rye => rye.is_some(),
            ProfileChoice::Native => false,
        };
        self.report.stats = Stats {
            bytes: self.bytes.len() as u64,
            events: 0,
            checkpoints: u64::from(native.is_some()) + u64::from(rye.is_some()),
        };
        self.report.profile = match (native_counts, rye_counts) {
            (true, _) => Profile::Native,
            (false, true) => Profile::Rye,
            (false, false) => Profile::None,
        };
        if !native_counts && !rye_counts && file.holds() {
            self.nothing_counts();
        }
        file.enter(&mut self.report, true, true);
        let mut document = self.document();
        if let Some(native) = native {
            self.checks(&native.part, native_counts);
            native.part.enter(&mut self.report, native_counts, false);
            self.head(native.seal.map(|(_, head)| head), native_counts);
            if native_counts {
                self.report.dates.sealed = native.seal.map(|(seal, _)| seal.time);
            }
            document.seal = native.seal.map(|(seal, _)| seal).filter(|_| native_counts);
        } else {
            self.head(None, true);
        }
        if let Some(rye) = rye {
            if rye_counts {
                self.has_gaps = !rye.part.covers_all();
                self.checks(&rye.part, true);
                document.item_type = rye.item;
                document.covered = rye.covered;
            }
            let accept = self.options.profile == ProfileChoice::Rye;
            rye.part.enter(&mut self.report, rye_counts, accept);
        }
        self.thread(thread.as_deref());
        if let Some(answer) = compat {
            self.report.compat.insert("rye", answer.into());
        }
        self.finish(document)
    }

    fn nothing_counts(&mut self) {
        let message = match self.options.profile {
            ProfileChoice::Auto => "this file has no signature",
            ProfileChoice::Rye => "this file has no Rye signature that Rye would find",
            ProfileChoice::Native => "this file has no native seal",
        };
        self.report.downgrade(
            Verdict::Unsigned,
            Finding::note(FindingCode::Unsigned, message),
        );
    }

    fn document(&self) -> Document<'a> {
        let whole = 0..self.bytes.len() as u64;
        Document {
            bytes: self.bytes,
            kind: self.options.kind,
            item_type: None,
            covered: vec![whole],
            seal: None,
        }
    }

    fn checks(&mut self, part: &Part, counts: bool) {
        if !counts {
            return;
        }
        let result = |ok| match ok {
            true => CheckResult::Pass,
            false => CheckResult::Fail,
        };
        self.report
            .check(CheckName::Signature, result(part.holds()), None);
        self.report
            .check(CheckName::Signer, result(part.vouched_for()), None);
        // The caller asked for Rye's own coverage, so a good signature with gaps is no fault.
        let accepted = part.holds() && self.options.profile == ProfileChoice::Rye;
        if accepted && !part.covers_all() {
            let why = "Rye's own coverage was asked for, and it leaves parts out".to_owned();
            return self
                .report
                .check(CheckName::Coverage, CheckResult::Skipped, Some(why));
        }
        self.report
            .check(CheckName::Coverage, result(part.covers_all()), None);
    }

    /// Compares with a head that the caller holds.
    fn head(&mut self, head: Option<threadseal_core::record::Head>, counts: bool) {
        let known = self.options.expect_head;
        if let Some(head) = head.filter(|_| counts) {
            self.report.record = Some(head.record);
            self.report.head = Some(head);
        }
        let Some(known) = known else {
            let why = "no head of this record was given".to_owned();
            self.report
                .check(CheckName::Head, CheckResult::Skipped, Some(why));
            return;
        };
        let against = match head {
            Some(head) => native::compare(&head, &known, self.options.exact_head),
            None => Some((
                Verdict::Tampered,
                Finding::error(
                    FindingCode::SealGone,
                    "the known file is sealed, but this one has no seal",
                ),
            )),
        };
        match against {
            None => {
                self.is_held = true;
                self.report.check(CheckName::Head, CheckResult::Pass, None);
            }
            Some((verdict, finding)) => {
                self.report.downgrade(verdict, finding);
                self.report.check(CheckName::Head, CheckResult::Fail, None);
            }
        }
    }

    fn thread(&mut self, thread: Option<&str>) {
        let Some(expected) = self.options.expect_thread else {
            return;
        };
        if self.options.kind != DocumentKind::Json {
            let why = "only JSON documents name their thread".to_owned();
            self.report
                .check(CheckName::Thread, CheckResult::Skipped, Some(why));
        } else if thread == Some(expected.as_str()) {
            self.report
                .check(CheckName::Thread, CheckResult::Pass, None);
        } else {
            self.report
                .check(CheckName::Thread, CheckResult::Fail, None);
            self.report.downgrade(
                Verdict::Foreign,
                Finding::error(
                    FindingCode::OtherThread,
                    "the document does not belong to the expected thread",
                ),
            );
        }
    }

    fn finish(mut self, document: Document<'a>) -> Outcome<'a> {
        if self.is_held && !self.report.verdict.is_evidence() {
            self.report.completeness = Completeness::Head;
        }
        let verified = (self.report.verdict == Verdict::Verified).then(|| {
            let whole = TrustedUntil {
                line: lines(self.bytes),
                byte: self.bytes.len() as u64,
                turn: None,
            };
            self.report.trusted_until = Some(whole).filter(|_| !self.has_gaps);
            let grounds = Grounds {
                record: self.report.record,
                head: self.report.head,
                trusted_until: self.report.trusted_until.unwrap_or(NOTHING),
                trust: self.trust,
                now: self.options.now,
            };
            Verified::mint(document, grounds)
        });
        Outcome {
            report: self.report,
            verified,
        }
    }
}

/// The extent of coverage with gaps, of which the first may be at the beginning.
const NOTHING: TrustedUntil = TrustedUntil {
    line: 0,
    byte: 0,
    turn: None,
};

fn lines(bytes: &[u8]) -> u64 {
    let torn = !bytes.is_empty() && !bytes.ends_with(b"\n");
    memchr::memchr_iter(b'\n', bytes).count() as u64 + u64::from(torn)
}

#[cfg(test)]
mod tests;
