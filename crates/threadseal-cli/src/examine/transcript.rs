//! Transcripts: native records and Rye's.

use super::{Examiner, SECOND_LOOKS, log, logged, place, seems_older};
use crate::believed::MAX_TAKEN_UP_BYTES;
use crate::detect::{self, Kind};
use crate::exit::Failure;
use crate::record;
use std::path::Path;
use threadseal_core::record::RecordId;
use threadseal_core::report::{Report, Verdict};
use threadseal_formats::transcript::rye::{self, Verifier};
use threadseal_formats::transcript::rye_compat::{self, Answers, Pass, Scanner};
use threadseal_formats::transcript::{Coverage, ScanOptions, VerifyOptions};
use threadseal_formats::verified::Verified;
use threadseal_store::bodies;
use threadseal_store::examine::{self, Known};
use threadseal_store::read::{RegularFile, Source as _};

/// A report, and the part of the record that may be believed: all of a verified one, the sealed
/// part of one whose seals all hold.
pub(crate) struct Looked {
    /// What to tell.
    pub(crate) report: Report,
    /// What to take up.
    pub(crate) believed: Option<Verified<Coverage>>,
}

/// A transcript that was verified.
pub(crate) struct TakenUp {
    /// The file that was looked at.
    pub(crate) file: RegularFile,
    /// Its detached bodies, as they were when it was; empty where it has none.
    pub(crate) bodies: Vec<u8>,
    /// What came of it.
    pub(crate) looked: Looked,
}

impl TakenUp {
    /// The bytes that were looked at, as they are in the file now; what was verified tells whether they are the same. What was added since
    /// is not among them.
    ///
    /// # Errors
    /// When they cannot be read, or are too many.
    pub(crate) fn bytes(&self) -> Result<Vec<u8>, Failure> {
        let (mut bytes, mut chunks, mut chunk) = (Vec::new(), self.file.chunks(), Vec::new());
        loop {
            chunks.next_chunk(&mut chunk)?;
            if chunk.is_empty() {
                return Ok(bytes);
            }
            if bytes.len() + chunk.len() > MAX_TAKEN_UP_BYTES {
                let text = format!("more than {MAX_TAKEN_UP_BYTES} bytes are not taken up");
                return Err(Failure::new(text).about(self.file.path()));
            }
            bytes.extend_from_slice(&chunk);
        }
    }
}

impl Examiner {
    /// Verifies the transcript at `path` so that its believed part can be taken up.
    ///
    /// # Errors
    /// When it cannot be read, or is no transcript.
    pub(crate) fn transcript(&self, path: &Path) -> Result<TakenUp, Failure> {
        // As in [`Examiner::examine`]: it was sealed or redacted while it was read.
        for _ in 0..SECOND_LOOKS {
            match self.take_up(path) {
                Ok(taken) if !seems_older(&taken.looked.report) => return Ok(taken),
                Ok(_) | Err(_) => {}
            }
        }
        self.take_up(path)
    }

    fn take_up(&self, path: &Path) -> Result<TakenUp, Failure> {
        let file = record::open(&*self.host.fs, path)?;
        // Before they are held against the record: what is redacted behind that is still in them, as its lines say.
        let bodies = record::bodies_of(&*self.host.fs, &file, MAX_TAKEN_UP_BYTES)?;
        let looked = self.look_at_transcript(&file)?;
        Ok(TakenUp {
            file,
            bodies,
            looked,
        })
    }

    fn look_at_transcript(&self, file: &RegularFile) -> Result<Looked, Failure> {
        let mut looked = match detect::kind(file)? {
            Some(Kind::Native) => native(self, file)?,
            Some(Kind::Events) => rye(self, file)?,
            _ => return Err(Failure::new("not a transcript").about(file.path())),
        };
        if looked.report.verdict == Verdict::Unsigned {
            log::hold_if_stripped(self, file, &mut looked.report)?;
        }
        place::hold(self, file.path(), std::slice::from_mut(&mut looked.report))?;
        if looked.report.verdict == Verdict::Foreign {
            looked.believed = None;
        }
        self.finish(&mut looked.report, file.path());
        Ok(looked)
    }
}

/// Verifies a native record. A second look, with what this host held, follows where a key was
/// revoked: only the seals held before count then.
///
/// # Errors
/// When it cannot be read, changes meanwhile, or the heads are damaged.
pub(super) fn native(examiner: &Examiner, file: &RegularFile) -> Result<Looked, Failure> {
    let asked = &examiner.asked;
    let line = examine::first_line(file)?;
    let record = line.as_deref().and_then(examine::native_record);
    let known = known(examiner, record.as_ref())?;
    let scan = ScanOptions {
        every_signature: asked.every_signature,
        expect: known.expect.clone(),
        bodies: bodies::beside(
            &*examiner.host.fs,
            file,
            line.as_deref().unwrap_or_default(),
        )?,
    };
    let mut options = VerifyOptions {
        trust: &asked.trust,
        now: examiner.now,
        held_since: None,
        thread: asked.thread.as_ref(),
    };
    let look = if examiner.among_many {
        examine::native_among_many
    } else {
        examine::native
    };
    let mut outcome = look(file, &scan, &options, &examiner.tick())?;
    options.held_since = Examiner::held_since(&known, &outcome.report);
    if options.held_since.is_some() && super::has_revoked_signer(&outcome.report) {
        outcome = look(file, &scan, &options, &|_| {})?;
    }
    let mut report = outcome.report.clone();
    logged::hold_redactions(&mut report, &outcome.redactions, &examiner.log)?;
    logged::hold_delegations(&mut report, &outcome.delegations, &examiner.log)?;
    Ok(Looked {
        report,
        believed: match outcome.verified {
            Some(verified) => Some(verified),
            None => outcome.lenient().map(|parts| parts.verified),
        },
    })
}

/// Verifies a transcript in Rye's format. Its record is known only after a first look; a head
/// that this host holds is then held against it.
///
/// # Errors
/// As [`native`].
pub(super) fn rye(examiner: &Examiner, file: &RegularFile) -> Result<Looked, Failure> {
    let asked = &examiner.asked;
    let mut options = rye::Options {
        thread: asked.thread.as_ref(),
        expect: known(examiner, None)?.expect,
        every_signature: asked.every_signature,
        ..rye::Options::new(&asked.trust, examiner.now)
    };
    let keys = rye_compat::keys_of(&asked.trust);
    let mut original = Scanner::new(&keys);
    let tick = examiner.tick();
    let mut outcome = pass(file, options.clone(), &mut |chunk| {
        tick(chunk.len() as u64);
        original.push(chunk);
    })?;
    let original = originally(original, file)?;
    let known = known(examiner, outcome.report.record.as_ref())?;
    let revoked = super::has_revoked_signer(&outcome.report);
    options.held_since = Examiner::held_since(&known, &outcome.report).filter(|_| revoked);
    let again = known.stored.is_some() || options.held_since.is_some();
    if outcome.look_closer || again {
        options.every_signature |= outcome.look_closer;
        options.expect = known.expect;
        outcome = pass(file, options.clone(), &mut |_| {})?;
    }
    if outcome.look_closer {
        options.every_signature = true;
        outcome = pass(file, options, &mut |_| {})?;
    }
    outcome.report.compat.insert("rye", original.to_compat());
    Ok(Looked {
        report: outcome.report.clone(),
        believed: match outcome.verified {
            Some(verified) => Some(verified),
            None => outcome.lenient().map(|parts| parts.verified),
        },
    })
}

fn known(examiner: &Examiner, record: Option<&RecordId>) -> Result<Known, Failure> {
    let asked = &examiner.asked;
    let heads = Some(&*examiner.host.heads);
    let mut known = examine::known(heads, record, asked.expect_head, asked.exact_head)?;
    known.expect = examiner.without_later(known.expect);
    Ok(known)
}

/// What Rye's own verifier says; it seldom needs the file a second time.
fn originally(first: Scanner<'_>, file: &RegularFile) -> Result<Answers, Failure> {
    match first.finish() {
        Pass::Done(answers) => Ok(answers),
        Pass::Again(mut second) => {
            read(file, &mut |chunk| second.push(chunk))?;
            Ok(second.finish())
        }
    }
}

fn pass(
    file: &RegularFile,
    options: rye::Options<'_>,
    beside: &mut dyn FnMut(&[u8]),
) -> Result<rye::Outcome, Failure> {
    let mut verifier = Verifier::new(options);
    read(file, &mut |chunk| {
        verifier.push(chunk);
        beside(chunk);
    })?;
    Ok(verifier.finish())
}

fn read(file: &RegularFile, each: &mut dyn FnMut(&[u8])) -> Result<(), Failure> {
    let (mut chunks, mut buffer) = (file.chunks(), Vec::new());
    loop {
        chunks.next_chunk(&mut buffer)?;
        if buffer.is_empty() {
            return Ok(());
        }
        each(&buffer);
    }
}
