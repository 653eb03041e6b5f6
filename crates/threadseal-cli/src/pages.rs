//! `verify FILE.html`: the record inside an exported page, and what the page shows of it (`spec/page.md`).
//!
//! ```text
//! page ─► title, text, index, parts ─► each log: verdict of the reader ─► report of FILE.html#LOG
//!    └► frame, text, title: those of this record, in a page that is known? ─► a finding of the first report
//! ```
//! A forger can edit a page as well as a record. Nothing of the page runs here, and its own verdict is not looked at. The
//! record is judged alone: a page is a copy of one day, and later heads do not count against it. Where this host knows its
//! last head as the newest, nothing is missing.

use crate::context::Context;
use crate::passphrase::PassphraseArgs;
use crate::render::clean::Clean;
use std::path::Path;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::ExpectedHead;
use threadseal_core::report::{CheckName, CheckResult, Finding, FindingCode, Report, Verdict};
use threadseal_formats::transcript::VerifyOptions;
use threadseal_reader::alone::Step;
use threadseal_reader::asked::GivenKind;
use threadseal_reader::plain::plain_texts;
use threadseal_reader::{Asked, FileVerifier, proof};
use threadseal_store::heads::HeadStore as _;
use threadseal_store::read::read_small;
use threadseal_store::sys::path_text;
use threadseal_verify::output::PathError;
use threadseal_verify::request::VerifyRequest;
use threadseal_verify::run::VerifyRun;
use threadseal_verify::{Verifier, VerifyError};
use threadseal_view::assets;
use threadseal_view::export::{LOCKED_TEXT, LogBytes, MAX_FILE_BYTES, PageFile, Role};

/// Characters of the ending of a file's name.
const MAX_ENDING: usize = 8;
/// Most bytes of a file beside a page that has one of its parts.
const MAX_BESIDE_BYTES: usize = 1 << 30;

/// Verifies a page: one report for each log inside.
pub(crate) fn verify(
    path: &Path,
    passphrase: &PassphraseArgs,
    verifier: &Verifier,
    run: &mut VerifyRun,
    context: &Context,
) {
    match reports(path, passphrase, verifier, context) {
        Ok(reports) => run.results.extend(reports),
        Err(error) => run
            .errors
            .push(PathError::of(Some(path), &VerifyError::from(error))),
    }
}

fn reports(
    path: &Path,
    passphrase: &PassphraseArgs,
    verifier: &Verifier,
    context: &Context,
) -> Result<Vec<Report>, Error> {
    let bytes = read_small(&*context.fs, path, MAX_FILE_BYTES)?;
    let page = PageFile::read(&bytes)?;
    let words = match page.is_locked() {
        true => {
            let words = passphrase.for_existing_key("the page");
            Some(words.map_err(|failure| Error::invalid(failure.to_string()))?)
        }
        false => None,
    };
    let beside = |name: &str| {
        let place = path.parent().unwrap_or(Path::new("")).join(name);
        read_small(&*context.fs, &place, MAX_BESIDE_BYTES)
    };
    let opened = page.open(words.as_ref().map(|words| words.as_bytes()), &beside)?;
    let mut reports = Vec::new();
    let asked = Expected::of(verifier.request(), opened.logs.len())?;
    for log in &opened.logs {
        let left_out = &opened.index.left_out;
        let mut found = judge(log, None, left_out, verifier)?;
        if asked.head.is_some() && asked.is_about(&found) {
            found = judge(log, asked.head.as_ref(), left_out, verifier)?;
        }
        // A head that this host knows proves that nothing follows it.
        if let Some(known) = found.iter().find_map(|report| known(report, context)) {
            found = judge(log, Some(&known), left_out, verifier)?;
        }
        let place = format!("{}#{}", path_text(path), log.log);
        reports.extend(found.into_iter().map(|mut report| {
            report.path = place.clone();
            verifier.finish_copy(&mut report);
            report
        }));
    }
    asked.must_be_in(&reports)?;
    let first = reports
        .first_mut()
        .ok_or_else(|| Error::invalid("the page has no record inside"))?;
    let text = match page.is_locked() {
        true => LOCKED_TEXT.to_owned(),
        false => plain_texts(
            opened
                .logs
                .iter()
                .map(|log| (log.log.as_str(), log.bytes.as_slice())),
        ),
    };
    compare(first, &page, &text, &opened.title(page.is_locked()));
    Ok(reports)
}

/// The head that the caller expects in a page.
struct Expected {
    head: Option<ExpectedHead>,
    is_alone: bool,
}

impl Expected {
    /// What `request` expects of a page with so many logs.
    ///
    /// # Errors
    /// When a digest is expected of several logs: nothing shows which of them it is about.
    fn of(request: &VerifyRequest, logs: usize) -> Result<Self, Error> {
        let as_of = request.as_of.map(ExpectedHead::Head);
        let expected = Self {
            head: request.expect_head.or(as_of),
            is_alone: logs == 1,
        };
        match expected.head {
            Some(ExpectedHead::Line(_)) if !expected.is_alone => Err(Error::invalid(
                "the page has several records: write the expected head as <record>:<seq>:<size>:<sha256>",
            )),
            _ => Ok(expected),
        }
    }

    /// Is it expected of the log of these reports?
    fn is_about(&self, reports: &[Report]) -> bool {
        let is_named = |report: &Report| match self.head {
            Some(ExpectedHead::Head(head)) => report.record == Some(head.record),
            _ => false,
        };
        self.is_alone || reports.iter().any(is_named)
    }

    /// # Errors
    /// When no record of a page with several is the expected one.
    fn must_be_in(&self, reports: &[Report]) -> Result<(), Error> {
        match self.head.is_some() && !self.is_about(reports) {
            true => Err(Error::refused(
                "no record in the page is that of the expected head",
            )),
            false => Ok(()),
        }
    }
}

/// The last head of a record that has not ended, if this host knows it as the newest.
fn known(report: &Report, context: &Context) -> Option<ExpectedHead> {
    let (record, head) = (report.record?, report.head?);
    let home = context.home().ok()??;
    let stored = home.heads().fetch(&record).ok()??;
    (report.verdict == Verdict::Open && stored.head == head).then_some(ExpectedHead::Head(head))
}

/// The verdict on a log inside, alone.
fn judge(
    log: &LogBytes,
    head: Option<&ExpectedHead>,
    left_out: &[String],
    verifier: &Verifier,
) -> Result<Vec<Report>, Error> {
    let request = verifier.request();
    let (trust, now) = (request.trust.clone(), verifier.now());
    if log.role == Role::Proof {
        if head.is_some() || request.scroll.is_some() {
            let text = "a head, a length or an age was requested, and a proof has none; hint: threadseal check-proof";
            return Err(Error::refused(text));
        }
        let options = VerifyOptions {
            trust: &trust,
            now,
            held_since: None,
            thread: request.thread.as_ref(),
        };
        return Ok(vec![
            proof::check(&log.log, &log.bytes, &options, None, &[])?
                .checked
                .report,
        ]);
    }
    let mut asked = Asked::of(&name_of(&log.log), trust, now)?;
    asked.has_log = true;
    asked.kind = request.format.map(GivenKind::Format);
    asked.profile = request.profile;
    asked.thread.clone_from(&request.thread);
    asked.expect_head = head.copied();
    asked.exact_head = head.is_some() && (request.exact_head || request.as_of.is_some());
    asked.every_signature = request.every_signature;
    asked.scroll = request.scroll;
    asked.ledger = request.ledger.clone();
    asked.code.clone_from(&request.lineage.code);
    asked.beside.seal.clone_from(&log.seals);
    asked.beside.bodies.clone_from(&log.bodies);
    asked.beside.without_bodies = left_out.iter().any(|part| part == "bodies");
    let mut alone = FileVerifier::holding(asked, log.bytes.len());
    loop {
        alone.push(&log.bytes)?;
        match alone.finish()? {
            Step::Again => {}
            Step::Done(outcome) => match outcome.errors.into_iter().next() {
                Some(error) => return Err(Error::new(ErrorKind::InvalidInput, error.message)),
                None => return Ok(outcome.results),
            },
        }
    }
}

/// What the file of a log may be called: by its ending some kinds are recognised.
fn name_of(log: &str) -> String {
    let name = log.replace(['/', ':'], "-");
    let has_ending = Path::new(&name)
        .extension()
        .is_some_and(|ending| ending.len() <= MAX_ENDING);
    if has_ending {
        name
    } else {
        format!("{name}.jsonl")
    }
}

/// Holds what the page shows against its record.
fn compare(report: &mut Report, page: &PageFile, text: &str, title: &str) {
    let is_same = page.text == text && page.title == title;
    let is_known = page.frame == assets::frame();
    if !is_same {
        let message = first_difference(&page.text, text).unwrap_or_else(|| {
            format!(
                "its title is {}, and not {}",
                Clean(&page.title),
                Clean(title)
            )
        });
        report.downgrade(
            Verdict::Tampered,
            Finding::error(FindingCode::PageTextDiffers, message),
        );
    }
    if !is_known {
        let message = "the code of the page is not that of this program: what a browser shows of it proves nothing";
        report.downgrade(
            Verdict::Partial,
            Finding::warning(FindingCode::PageCodeUnknown, message),
        );
    }
    report.check(CheckName::Page, CheckResult::of(is_same && is_known), None);
}

fn first_difference(shown: &str, own: &str) -> Option<String> {
    let mut pairs = (1..).zip(shown.lines().zip(own.lines()));
    if let Some((number, (shown, own))) = pairs.find(|(_, (shown, own))| shown != own) {
        let short = |line: &str| line.chars().take(120).collect::<String>();
        let (shown, own) = (short(shown), short(own));
        return Some(format!(
            "line {number} of its text is {:?}; its record has {:?}",
            shown, own
        ));
    }
    (shown != own).then(|| "its text has another length than its record's".to_owned())
}
