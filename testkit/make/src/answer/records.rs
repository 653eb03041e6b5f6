//! Questions about records: each is answered by a report.

use super::{OfRun, Question, judged};
use crate::Fallible;
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::record::ThreadId;
use threadseal_core::report::{
    Completeness, Finding, FindingCode, Format, Profile, Report, Verdict,
};
use threadseal_core::time::Timestamp;
use threadseal_core::tlog::policy::Policy;
use threadseal_core::trust::Trust;
use threadseal_formats::document::{self, DocumentKind, ItemType, ProfileChoice};
use threadseal_formats::ledger::{
    self, Bundle, BundledLedger, ChainOptions, FileDigest, HeadAtHand, Judging, KnownKeys,
    LineReader, Place, RunId, SignedHead,
};
use threadseal_formats::scroll;
use threadseal_formats::transcript::bodies::{Bodies, BodiesReader};
use threadseal_formats::transcript::log::LogReader;
use threadseal_formats::transcript::{
    ScanOptions, VerifyOptions, observe, observed, observed_proof, rye, turn_proof,
};

impl Question {
    pub(super) fn report(&self) -> Fallible<Report> {
        let trust = self.trust()?;
        let now = Timestamp::from_micros(self.now * 1_000_000)?;
        match self.kind.as_str() {
            "scroll" => return self.scroll(&trust, now),
            "ledger" => return self.ledger(&trust, now),
            _ => {}
        }
        let thread = self.thread.as_deref().map(ThreadId::parse).transpose()?;
        let options = VerifyOptions {
            trust: &trust,
            now,
            held_since: None,
            thread: thread.as_ref(),
        };
        Ok(match self.kind.as_str() {
            "native" => self.native(&options)?,
            "observed" => self.observed(&options)?,
            "turn_proof" => {
                let policy = self.file("policy")?;
                let policy = policy.as_deref().map(Policy::parse).transpose()?;
                let proof = self.required("proof")?;
                turn_proof::check_file_by(&proof, &options, policy.as_ref()).report
            }
            "observed_proof" => {
                observed_proof::check_file(&self.required("proof")?, &options).report
            }
            "rye" => self.rye(&options)?,
            "document" => self.document(&options)?,
            other => return Err(format!("kind {other:?} is not known").into()),
        })
    }

    fn native(&self, options: &VerifyOptions<'_>) -> Fallible<Report> {
        let bodies = self.file("bodies")?.map_or_else(Bodies::absent, |bytes| {
            let mut reader = BodiesReader::new();
            reader.push(&bytes);
            reader.finish()
        });
        let scan = ScanOptions {
            every_signature: false,
            expect: self.expect()?,
            bodies: Some(Arc::new(bodies)),
        };
        let record = self.required("record")?;
        let outcome = threadseal_formats::transcript::verify(&record, &scan, options);
        Ok(outcome.report)
    }

    fn observed(&self, options: &VerifyOptions<'_>) -> Fallible<Report> {
        let seals = match observed::parse(&self.required("seals")?) {
            Ok(seals) => seals,
            Err(finding) => {
                let mut report = Report::begin(Format::Log, Profile::Observed);
                report.downgrade(Verdict::Malformed, finding);
                return Ok(report);
            }
        };
        let mut reader = LogReader::new(Some(&seals), false);
        reader.push(&self.required("log")?);
        let log = reader.finish();
        Ok(observe::report(&seals, &log, &self.expect()?, options))
    }

    fn rye(&self, options: &VerifyOptions<'_>) -> Fallible<Report> {
        let bytes = self.required("record")?;
        let mut rye = rye::Options {
            thread: options.thread,
            expect: self.expect()?,
            ..rye::Options::new(options.trust, options.now)
        };
        loop {
            let mut verifier = rye::Verifier::new(rye.clone());
            verifier.push(&bytes);
            let outcome = verifier.finish();
            if !outcome.look_closer || rye.every_signature {
                return Ok(outcome.report);
            }
            rye.every_signature = true;
        }
    }

    fn scroll(&self, trust: &Trust, now: Timestamp) -> Fallible<Report> {
        let bytes = self.required("scroll")?;
        let oldest = self.oldest.as_deref().map(str::parse).transpose()?;
        let chain = scroll::ChainOptions {
            expect: self.expect()?,
            pinned: self.pinned()?,
            not_before_ns: oldest,
            strict_digits: self.strict_digits,
        };
        let judging = scroll::Judging {
            length: self.length,
            as_v01: self.profile.as_deref() == Some("scroll-v0.1"),
            ..scroll::Judging::new(trust, now)
        };
        let container = scroll::container_of(&bytes);
        Ok(scroll::judge(&bytes, container, chain, &judging).report)
    }

    fn document(&self, asked: &VerifyOptions<'_>) -> Fallible<Report> {
        let bytes = self.required("document")?;
        let kind = DocumentKind::detect(&self.name, &bytes).ok_or("no document")?;
        let mut options = document::Options::new(kind, asked.trust, asked.now);
        options.path = &self.name;
        options.expect_thread = asked.thread;
        options.expect_head = self.head()?;
        options.exact_head = self.exact;
        options.profile = match self.profile.as_deref() {
            None | Some("auto") => ProfileChoice::Auto,
            Some("native") => ProfileChoice::Native,
            Some("rye") => ProfileChoice::Rye,
            Some(_) => return Err("no profile of documents".into()),
        };
        if let Some(item) = &self.item {
            options.item_type = Some(ItemType::parse(item).ok_or("no type of an item")?);
        }
        let mut report = match self.file("seal")? {
            Some(seal) => document::verify_beside(&bytes, &seal, &options).report,
            None => document::verify(&bytes, &options)?.report,
        };
        if asked.thread.is_some() && kind != DocumentKind::Json {
            let text = "a text names no thread";
            let finding = Finding::error(FindingCode::ThreadUnnamed, text);
            report.downgrade(Verdict::Foreign, finding);
            report.trusted_until = None;
        }
        Ok(report)
    }

    fn ledger(&self, trust: &Trust, now: Timestamp) -> Fallible<Report> {
        let bytes = self.required("ledger")?;
        let file = self.file("head")?;
        let text = file.as_deref().map(std::str::from_utf8);
        let read = text.map(|text| text.ok().and_then(|text| SignedHead::parse(text).ok()));
        let signed = read.as_ref().and_then(Option::as_ref);
        // A head with a bad signature states nothing.
        let stated = signed.filter(|signed| signed.holds);
        let stated = stated.map(|signed| &signed.statement);
        let signatures = stated.and_then(|stated| Some((stated.head()?, stated.signatures?)));
        let mut options = ChainOptions {
            expect: self.expect()?,
            run: self.run()?,
            all_signed: !trust.pinned.is_empty() && signed.is_none(),
            signed_head: signed.and_then(|signed| signed.statement.head()),
            signatures: signatures.into_iter().collect(),
            ..Default::default()
        };
        let judging = Judging {
            length: self.length,
            signed_head: signed.map(|head| HeadAtHand {
                head,
                file: head
                    .statement
                    .file
                    .map(|file| beginning(&bytes, file.bytes)),
            }),
            ..Judging::new(trust, now)
        };
        let mut outcome = ledger::judge(&bytes, options.clone(), &judging);
        if !outcome.later_beginnings.is_empty() {
            options.later_beginnings = std::mem::take(&mut outcome.later_beginnings);
            outcome = ledger::judge(&bytes, options, &judging);
        }
        let mut report = outcome.report;
        if let Some(None) = read {
            let text = "the file beside the ledger is not a signed head of a ledger";
            let finding = Finding::error(FindingCode::HeadMalformed, text);
            report.downgrade(Verdict::Malformed, finding);
        }
        Ok(report)
    }

    /// Each ledger of a bundle, or that of the run that is asked for.
    pub(super) fn bundle(&self) -> Fallible<Vec<OfRun>> {
        let trust = self.trust()?;
        let now = Timestamp::from_micros(self.now * 1_000_000)?;
        let asked = self.thread.as_deref().map(RunId::parse).transpose()?;
        let alone = |run: Option<&RunId>, verdict: Verdict, code: FindingCode| {
            let mut report = Report::begin(Format::Ledger, Profile::AbstractRuntime);
            report.downgrade(verdict, Finding::error(code, "of the bundle as a whole"));
            of_run(run, &report)
        };
        let Ok(bundle) = Bundle::parse(&self.required("bundle")?) else {
            let malformed = alone(None, Verdict::Malformed, FindingCode::BundleMalformed)?;
            return Ok(vec![malformed]);
        };
        let mut reports = Vec::new();
        for ledger in &bundle.ledgers {
            if asked.as_ref().is_some_and(|run| *run != ledger.run) {
                continue;
            }
            let mut report = self.bundled(ledger, &trust, now)?;
            if bundle.repeated.is_some() {
                let finding = Finding::error(FindingCode::NameRepeated, "a name occurs twice");
                report.downgrade(Verdict::Tampered, finding);
                (report.head, report.trusted_until) = (None, None);
                report.completeness = Completeness::Unproved;
            }
            reports.push(of_run(Some(&ledger.run), &report)?);
        }
        if let (true, Some(run)) = (reports.is_empty(), &asked) {
            reports.push(alone(
                Some(run),
                Verdict::Missing,
                FindingCode::LedgerMissing,
            )?);
        }
        Ok(reports)
    }

    fn bundled(&self, ledger: &BundledLedger, trust: &Trust, now: Timestamp) -> Fallible<Report> {
        let mut options = ChainOptions {
            expect: self.expect()?,
            run: Some(ledger.run.clone()),
            view: ledger.view,
            first: ledger.first,
            all_signed: !trust.pinned.is_empty(),
            ..ChainOptions::default()
        };
        let judging = Judging {
            length: self.length,
            ..Judging::new(trust, now)
        };
        let judge = |options: ChainOptions| {
            let mut verifier = ledger::Verifier::new(options);
            let mut reader = LineReader::knowing(&KnownKeys::of_trust(judging.trust));
            let mut bytes = 0;
            for (number, line) in (1..).zip(&ledger.lines) {
                bytes += line.len() as u64;
                let place = Place::row(number, line.len() as u64);
                verifier.take(&reader.read_row(line), line, place);
            }
            ledger::conclude(verifier, bytes, &judging)
        };
        let mut outcome = judge(options.clone());
        if !outcome.later_beginnings.is_empty() {
            options.later_beginnings = std::mem::take(&mut outcome.later_beginnings);
            outcome = judge(options);
        }
        Ok(outcome.report)
    }

    /// The run that was asked for, else the one that the file's name names.
    fn run(&self) -> Fallible<Option<RunId>> {
        if let Some(run) = &self.thread {
            return Ok(Some(RunId::parse(run)?));
        }
        let name = self.name.rsplit('/').next().unwrap_or_default();
        let run = name.strip_prefix("ledger_");
        let run = run.and_then(|rest| rest.strip_suffix(".jsonl"));
        Ok(run.and_then(|run| RunId::parse(run).ok()))
    }
}

fn of_run(run: Option<&RunId>, report: &Report) -> Fallible<OfRun> {
    Ok(OfRun {
        run: run.map(|run| run.as_str().to_owned()),
        judged: judged(report)?,
    })
}

/// The first bytes of a file, or all where it has fewer.
fn beginning(file: &[u8], bytes: u64) -> FileDigest {
    let length = usize::try_from(bytes).unwrap_or(usize::MAX).min(file.len());
    FileDigest {
        sha256: Digest::of(&file[..length]),
        bytes: length as u64,
    }
}
