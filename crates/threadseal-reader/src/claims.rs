//! All claims about a file that is held in memory: a report for each, as `verify` of that file alone makes them.

use crate::asked::{Asked, GivenKind, RequestedProfile};
use crate::content::{Content as _, InMemory};
use crate::passes::{
    Closer, Ended, LedgerPass, NativePass, OwnPass, ScrollPass, SealedPass, bundled,
};
use crate::recognise::{self, Kind, LedgerShape};
use std::path::Path;
use threadseal_core::error::{Error, ErrorKind, Unbuilt};
use threadseal_core::limits::{MAX_DOCUMENT_BYTES, MAX_SOURCE_BYTES};
use threadseal_core::report::{
    CheckName, CheckResult, Expectation, Finding, FindingCode, Format, Profile, Report, Severity,
    Verdict,
};
use threadseal_core::trust::ScopeFormat;
use threadseal_formats::document::{self, DocumentKind, ProfileChoice, is_beside};
use threadseal_formats::ledger::{Bundle, SignedHead};
use threadseal_formats::lineage;
use threadseal_formats::transcript::observed;
use threadseal_formats::transcript::rye;
use threadseal_formats::transcript::rye_compat::{self, Pass};

/// Are these the first bytes of the seal of a document?
pub(crate) fn is_document_seal(seal_file: &[u8]) -> bool {
    let most = document::MAX_BESIDE_BYTES + 1;
    is_beside(seal_file.get(..most).unwrap_or(seal_file))
}

/// All reports on a file, or why there is none.
pub(crate) fn of_file(asked: &Asked, bytes: &[u8]) -> Result<Vec<Report>, Error> {
    let file = InMemory {
        name: &asked.name,
        bytes,
        is_sealed: asked.beside.seal.is_some(),
    };
    let kind = kind(asked, &file)?;
    if let Some(report) = left_alone(asked, &file, kind)? {
        return Ok(vec![finished(asked, report)]);
    }
    let is_link = kind == Some(Kind::Checkpoint) && asked.profile != RequestedProfile::Observed;
    let is_scroll = matches!(kind, Some(Kind::Scroll(_)));
    if asked.scroll.is_some() && !is_scroll && !is_link {
        let text = "a length or an age was requested, but only scrolls have them";
        return Err(file.error(ErrorKind::Refused, text));
    }
    let mut reports = all_claims(asked, &file, kind)?;
    excuse_from_head(asked, &file, kind, &mut reports)?;
    if is_link {
        reports.insert(0, link(asked, bytes)?);
    }
    if reports.is_empty() {
        return Err(no_record(&file)?);
    }
    let finish = |report| finished(asked, report);
    Ok(reports.into_iter().map(finish).collect())
}

/// Why a file without any claim has no verdict.
fn no_record(file: &InMemory<'_>) -> Result<Error, Error> {
    let text = match recognise::other(file)? {
        Some((what, command)) => {
            let name = crate::clean::Clean(file.name).to_string();
            format!("{what} is not a record; hint: threadseal {command} {name}")
        }
        None if recognise::is_page(file)? => recognise::PAGE_IS_NO_RECORD.to_owned(),
        None => "unknown format".to_owned(),
    };
    Ok(file.error(ErrorKind::Refused, &text))
}

/// What the file is. A text under one good seal may quote the lines of transcripts.
pub(crate) fn kind(asked: &Asked, file: &InMemory<'_>) -> Result<Option<Kind>, Error> {
    Ok(match asked.kind {
        None => match (recognise::kind(file)?, DocumentKind::of_name(&asked.name)) {
            (Some(Kind::Native | Kind::Events), Some(text))
                if text != DocumentKind::Json && is_sealed_text(asked, file, text) =>
            {
                Some(Kind::Document(text))
            }
            // It should be a ledger, whatever it holds now.
            (None | Some(Kind::Log), _) if has_ledger_head(asked) => {
                Some(Kind::Ledger(LedgerShape::Lines))
            }
            (found, _) => found,
        },
        Some(GivenKind::Native) => Some(Kind::Native),
        Some(GivenKind::Events) => Some(Kind::Events),
        Some(GivenKind::Document) => {
            let found = DocumentKind::detect(&asked.name, &file.whole(MAX_DOCUMENT_BYTES)?);
            found.map(Kind::Document)
        }
        Some(GivenKind::Format(ScopeFormat::Transcript)) => Some(recognise::transcript(file)?),
        Some(GivenKind::Format(ScopeFormat::Log)) => Some(Kind::Log),
        Some(GivenKind::Format(ScopeFormat::Scroll)) => {
            Some(Kind::Scroll(recognise::container(file)?))
        }
        Some(GivenKind::Format(ScopeFormat::Ledger)) => {
            Some(Kind::Ledger(recognise::ledger_shape(file)?))
        }
        Some(GivenKind::Format(ScopeFormat::Lineage)) => Some(Kind::Checkpoint),
        Some(GivenKind::Format(ScopeFormat::Json)) => Some(Kind::Document(DocumentKind::Json)),
        Some(GivenKind::Format(ScopeFormat::Text)) => {
            let by_name = DocumentKind::of_name(&asked.name);
            let text = by_name.filter(|kind| *kind != DocumentKind::Json);
            Some(Kind::Document(text.unwrap_or(DocumentKind::Markdown)))
        }
    })
}

/// Is a signed head of a ledger beside the file?
pub(crate) fn has_ledger_head(asked: &Asked) -> bool {
    let head = asked.beside.head.as_deref().unwrap_or_default();
    head.starts_with(threadseal_formats::ledger::HEAD_ORIGIN.as_bytes())
}

fn is_sealed_text(asked: &Asked, file: &InMemory<'_>, kind: DocumentKind) -> bool {
    let looked = own_document(asked, file, kind);
    looked.is_ok_and(|report| report.verdict == Verdict::Verified)
}

/// Seals, or a head, that were given without their file: it is missing.
fn left_alone(
    asked: &Asked,
    file: &InMemory<'_>,
    kind: Option<Kind>,
) -> Result<Option<Report>, Error> {
    let missing = |format, profile, record, code, message: &str| {
        let mut report = Report::begin(format, profile);
        let stem = Path::new(&asked.name).with_extension("");
        report.path = threadseal_core::encoding::path_text(&stem);
        report.trust = Some(asked.trust.digest());
        report.record = Some(record);
        report.downgrade(Verdict::Missing, Finding::error(code, message));
        report
    };
    Ok(match kind {
        Some(Kind::Sidecar) if is_document_seal(file.bytes) => {
            let Some(sealed) = document::read_beside(file.bytes) else {
                return Err(file.error(ErrorKind::Refused, "it is not a seal file"));
            };
            let format = match sealed.kind {
                DocumentKind::Json => Format::Json,
                _ => Format::Text,
            };
            let text = "its seal is here, but the document is missing";
            let code = FindingCode::LogMissing;
            Some(missing(format, Profile::Native, sealed.record, code, text))
        }
        Some(Kind::Sidecar) => {
            let seals = observed::parse(file.bytes)
                .map_err(|finding| file.error(ErrorKind::Refused, &finding.message))?;
            let text = "its seals are here, but the log is missing";
            let code = FindingCode::LogMissing;
            Some(missing(
                Format::Log,
                Profile::Observed,
                seals.record,
                code,
                text,
            ))
        }
        Some(Kind::LedgerHead) => {
            let signed = SignedHead::parse(&String::from_utf8_lossy(file.bytes))
                .map_err(|error| file.error(ErrorKind::Refused, &error.to_string()))?;
            let record = signed.statement.run.record_id();
            let text = "its signed head is here, but the ledger is missing";
            let (format, code) = (Format::Ledger, FindingCode::LedgerMissing);
            Some(missing(
                format,
                Profile::AbstractRuntime,
                record,
                code,
                text,
            ))
        }
        Some(Kind::LedgerIndex) => return Err(no_record(file)?),
        _ => None,
    })
}

/// The claims that the profile asks for.
fn all_claims(
    asked: &Asked,
    file: &InMemory<'_>,
    kind: Option<Kind>,
) -> Result<Vec<Report>, Error> {
    let mut reports: Vec<Report> = claim_beside(asked, file, kind)?.into_iter().collect();
    if asked.profile == RequestedProfile::Observed {
        if reports.is_empty() {
            reports.push(unsealed(asked, file.size()));
        }
        return Ok(reports);
    }
    if let Some(Kind::Ledger(shape)) = kind {
        reports.extend(ledgers(asked, file, shape)?);
        return Ok(reports);
    }
    if let Some(report) = own_claim(asked, file, kind)?
        && (reports.is_empty() || !claims_nothing(&report))
    {
        reports.push(report);
    }
    Ok(reports)
}

/// The claim of the seal file beside the file.
fn claim_beside(
    asked: &Asked,
    file: &InMemory<'_>,
    kind: Option<Kind>,
) -> Result<Option<Report>, Error> {
    let Some(seal) = &asked.beside.seal else {
        return Ok(None);
    };
    let profile = asked.profile;
    // What should be the seal of a document is none of a log, whatever it holds.
    let is_document = is_document_seal(seal) || asked.kind == Some(GivenKind::Document);
    if !is_document {
        let counts = matches!(profile, RequestedProfile::Auto | RequestedProfile::Observed);
        return Ok(counts.then(|| {
            let mut pass = SealedPass::new(seal);
            pass.push(file.bytes);
            pass.finish(asked)
        }));
    }
    if !matches!(profile, RequestedProfile::Auto | RequestedProfile::Native) {
        return Ok(None);
    }
    let kind = match kind {
        Some(Kind::Document(kind)) => Some(kind),
        _ => document::read_beside(seal).map(|sealed| sealed.kind),
    };
    let options = document_options(asked, kind.unwrap_or(DocumentKind::Markdown));
    let bytes = file.whole(MAX_DOCUMENT_BYTES)?;
    Ok(Some(document::verify_beside(&bytes, seal, &options).report))
}

/// An expected head is of one record. Of a file that is several, those that it was not meant for are
/// looked at without it.
fn excuse_from_head(
    asked: &Asked,
    file: &InMemory<'_>,
    kind: Option<Kind>,
    reports: &mut [Report],
) -> Result<(), Error> {
    let is_meant = reports.iter().any(|report| !misses_head(report));
    if asked.expect_head.is_none() || !is_meant || !reports.iter().any(misses_head) {
        return Ok(());
    }
    let without = Asked {
        expect_head: None,
        exact_head: false,
        ..asked.clone()
    };
    let again = all_claims(&without, file, kind)?;
    for (report, again) in reports.iter_mut().zip(again) {
        if misses_head(report) {
            *report = again;
        }
    }
    Ok(())
}

/// Is the expected head none of this record's?
fn misses_head(report: &Report) -> bool {
    const OTHERS: [FindingCode; 4] = [
        FindingCode::RecordDiffers,
        FindingCode::HeadMissing,
        FindingCode::OtherRecord,
        FindingCode::OtherHead,
    ];
    let mut findings = report.findings.iter();
    findings.any(|found| OTHERS.contains(&found.code))
}

/// What the file itself carries.
fn own_claim(
    asked: &Asked,
    file: &InMemory<'_>,
    kind: Option<Kind>,
) -> Result<Option<Report>, Error> {
    let own = |start: &dyn Fn(&Closer) -> Result<OwnPass, Error>| run(asked, file.bytes, start);
    Ok(Some(match kind {
        Some(Kind::Native) => own(&|closer| Ok(native(asked, file.bytes, closer)))?,
        // Rye's checkpoints are nothing to who asks for native seals.
        Some(Kind::Events) if asked.profile != RequestedProfile::Native => {
            rye_transcript(asked, file.bytes)
        }
        Some(Kind::Events | Kind::Log) => unsealed(asked, file.size()),
        Some(Kind::Document(kind)) => own_document(asked, file, kind)?,
        Some(Kind::Scroll(container)) => {
            own(&|_| Ok(OwnPass::Scroll(Box::new(ScrollPass::new(asked, container)))))?
        }
        _ => return Ok(None),
    }))
}

/// A pass over a native record that begins so.
pub(crate) fn native(asked: &Asked, beginning: &[u8], closer: &Closer) -> OwnPass {
    let mut lines = beginning.split(|byte| *byte == b'\n');
    let first = lines.next().unwrap_or_default();
    OwnPass::Native(Box::new(NativePass::new(asked, first, closer)))
}

/// Runs passes over all bytes until one ends with a report.
fn run(
    asked: &Asked,
    bytes: &[u8],
    start: &dyn Fn(&Closer) -> Result<OwnPass, Error>,
) -> Result<Report, Error> {
    let mut closer = Closer::default();
    loop {
        let mut pass = start(&closer)?;
        pass.push(bytes);
        match pass.finish(asked)? {
            Ended::Report(report) => return Ok(*report),
            Ended::Again(again) => closer = again,
        }
    }
}

fn rye_transcript(asked: &Asked, bytes: &[u8]) -> Report {
    let mut options = rye::Options {
        thread: asked.thread.as_ref(),
        expect: asked.expect(),
        every_signature: asked.every_signature,
        ..rye::Options::new(&asked.trust, asked.now)
    };
    let pass = |options: &rye::Options<'_>| {
        let mut verifier = rye::Verifier::new(options.clone());
        verifier.push(bytes);
        verifier.finish()
    };
    let mut outcome = pass(&options);
    if outcome.look_closer {
        options.every_signature = true;
        outcome = pass(&options);
    }
    let keys = rye_compat::keys_of(&asked.trust);
    let mut original = rye_compat::Scanner::new(&keys);
    original.push(bytes);
    let answers = match original.finish() {
        Pass::Done(answers) => answers,
        Pass::Again(mut second) => {
            second.push(bytes);
            second.finish()
        }
    };
    let mut report = outcome.report;
    report.compat.insert("rye", answers.to_compat());
    report
}

fn document_options(asked: &Asked, kind: DocumentKind) -> document::Options<'_> {
    document::Options {
        path: &asked.name,
        profile: match asked.profile {
            RequestedProfile::Native => ProfileChoice::Native,
            RequestedProfile::Rye => ProfileChoice::Rye,
            RequestedProfile::Auto | RequestedProfile::Observed | RequestedProfile::ScrollV01 => {
                ProfileChoice::Auto
            }
        },
        expect_thread: asked.thread.as_ref(),
        expect_head: asked.expect_head,
        exact_head: asked.exact_head,
        item_type: asked.item,
        ..document::Options::new(kind, &asked.trust, asked.now)
    }
}

fn own_document(asked: &Asked, file: &InMemory<'_>, kind: DocumentKind) -> Result<Report, Error> {
    let bytes = file.whole(MAX_DOCUMENT_BYTES)?;
    Ok(document::verify(&bytes, &document_options(asked, kind))?.report)
}

fn ledgers(asked: &Asked, file: &InMemory<'_>, shape: LedgerShape) -> Result<Vec<Report>, Error> {
    match shape {
        LedgerShape::Lines => {
            let start = |closer: &Closer| {
                let pass = LedgerPass::new(asked, closer)?;
                Ok(OwnPass::Ledger(Box::new(pass)))
            };
            Ok(vec![run(asked, file.bytes, &start)?])
        }
        LedgerShape::Bundle => bundle(asked, file),
        LedgerShape::Sqlite => Err(Unbuilt::Sqlite.error(format!("read {}", file.name))),
    }
}

fn bundle(asked: &Asked, file: &InMemory<'_>) -> Result<Vec<Report>, Error> {
    let bytes = file.whole(MAX_SOURCE_BYTES)?;
    let bundle = match Bundle::parse(&bytes) {
        Ok(bundle) => bundle,
        Err(error) => {
            let mut report = Report::begin(Format::Ledger, Profile::AbstractRuntime);
            report.trust = Some(asked.trust.digest());
            report.stats.bytes = file.size();
            let finding = Finding::error(FindingCode::BundleMalformed, error.to_string());
            report.downgrade(Verdict::Malformed, finding);
            return Ok(vec![report]);
        }
    };
    let is_asked = |run| asked.ledger.run.as_ref().is_none_or(|asked| asked == run);
    let mut reports = Vec::new();
    for found in bundle.ledgers.iter().filter(|found| is_asked(&found.run)) {
        let mut report = bundled(asked, found)?;
        report.path = format!("{}#{}", shown(&asked.name), found.run);
        if let Some(offset) = bundle.repeated {
            let text = "a member of the bundle occurs twice: readers differ on which one counts";
            let finding = Finding::error(FindingCode::NameRepeated, text);
            let at = offset as u64;
            report.downgrade(Verdict::Tampered, finding.at_bytes(at, at));
        }
        reports.push(report);
    }
    Ok(reports)
}

/// A checkpoint is the one link of a lineage that is known.
fn link(asked: &Asked, bytes: &[u8]) -> Result<Report, Error> {
    let mut reader = lineage::FileReader::new();
    reader.push(bytes);
    let name = shown(&asked.name);
    let lineages = lineage::Lineages::join(vec![reader.finish(&name, 0)])?;
    let given = asked.expect_head;
    let judging = lineage::Judging {
        expect: given
            .map(|head| Expectation::given(head, asked.exact_head))
            .into_iter()
            .collect(),
        code: &asked.code,
        view: lineage::View::Single,
        ..lineage::Judging::new(&asked.trust, asked.now)
    };
    let first = lineages.iter().next();
    let first = first.ok_or_else(|| Error::invalid("the checkpoint has no lineage"))?;
    let mut report = lineage::conclude(&first, &judging).report;
    report.path = name;
    Ok(report)
}

/// A log without seals.
pub(crate) fn unsealed(asked: &Asked, bytes: u64) -> Report {
    let mut report = Report::begin(Format::Log, Profile::None);
    report.trust = Some(asked.trust.digest());
    report.stats.bytes = bytes;
    let finding = Finding::note(FindingCode::Unsigned, "nothing seals this log");
    report.downgrade(Verdict::Unsigned, finding);
    report
}

/// Does nothing in the file claim to protect it, and nothing else speak of it?
pub(crate) fn claims_nothing(report: &Report) -> bool {
    let mut findings = report.findings.iter();
    report.verdict == Verdict::Unsigned
        && findings.all(|found| {
            found.severity == Severity::Note || found.code == FindingCode::NoCheckpoint
        })
}

/// The report with what every report of a file alone gets at its end.
pub(crate) fn finished(asked: &Asked, mut report: Report) -> Report {
    if report.path.is_empty() {
        report.path = shown(&asked.name);
    }
    if asked.thread.is_some() && !report.format.may_name_a_thread() {
        names_no_thread(&mut report);
        if report.format == Format::Text {
            report.trusted_until = None;
        }
    }
    if !asked.has_log {
        without_log(&mut report);
    }
    report
}

/// Holds it against a record of no thread that one was requested.
pub(crate) fn names_no_thread(report: &mut Report) {
    let text = "a thread was requested, but this kind of record does not name one";
    let finding = Finding::error(FindingCode::ThreadUnnamed, text);
    report.downgrade(Verdict::Foreign, finding);
}

/// Notes that no log was asked about the record.
pub(crate) fn without_log(report: &mut Report) {
    let mut checks = report.checks.iter();
    if !checks.any(|check| check.name == CheckName::Log) {
        let why = "this home has no log".to_owned();
        report.check(CheckName::Log, CheckResult::Skipped, Some(why));
    }
}

fn shown(name: &str) -> String {
    threadseal_core::encoding::path_text(Path::new(name))
}
