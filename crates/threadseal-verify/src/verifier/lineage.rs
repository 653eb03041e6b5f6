//! Checkpoints of agents: files and folders of them, joined to lineages by content.
//!
//! ```text
//! each file ─► LinkFacts (any core) ─► all of them ─► one report for each lineage
//! ```
//! A file that is named alone is one link; whatever else is looked at should be a history.

use super::as_of;
use super::context::{Context, shown};
use super::file_result::FileResult;
use super::finish;
use crate::detect::{self, Kind};
use crate::error::VerifyError;
use crate::inputs::Candidate;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use threadseal_core::record::ExpectedHead;
use threadseal_core::report::{
    Expectation, Finding, FindingCode, Format, Profile, Report, Verdict,
};
use threadseal_core::time::Timestamp;
use threadseal_formats::lineage::{
    AgentName, FileReader, Judging, Lineage, Lineages, LinkFacts, Outcome, View, conclude,
};
use threadseal_store::examine::known_forks;
use threadseal_store::heads::{RecordKind, StoredHead};
use threadseal_store::lineage::FileCheckpointStore;
use threadseal_store::read::{RegularFile, Source as _, open_regular};

/// Codes of findings that say that a lineage is not the one of an expected head.
const OF_ANOTHER: [FindingCode; 2] = [FindingCode::RecordDiffers, FindingCode::HeadMissing];

/// Gathers what one file shows.
///
/// # Errors
/// When it cannot be read.
pub(super) fn look(context: &Context, file: &RegularFile) -> Result<LinkFacts, VerifyError> {
    let (mut chunks, mut chunk) = (file.chunks(), Vec::new());
    let mut reader = FileReader::new();
    loop {
        chunks.next_chunk(&mut chunk)?;
        if chunk.is_empty() {
            return Ok(reader.finish(&shown(file.path()), 0));
        }
        reader.push(&chunk);
        context.advance(chunk.len() as u64);
    }
}

/// Reads checkpoints: each file that was named, and of folders each file that is one, as
/// [`detect::kind`] finds.
///
/// # Errors
/// When a file cannot be read.
pub(super) fn links(
    context: &Context,
    candidates: &[Candidate],
) -> Result<Vec<ReadCheckpoint>, VerifyError> {
    let read = |candidate: &Candidate| -> Result<Option<ReadCheckpoint>, VerifyError> {
        let file = open_regular(&*context.host.fs, &candidate.path)?;
        let is_one = candidate.named
            || detect::is_checkpoint(&file)?
            || (detect::is_named_checkpoint(&candidate.path)
                && detect::kind(&file)? == Some(Kind::Checkpoint));
        if !is_one {
            return Ok(None);
        }
        let facts = look(context, &file)?;
        Ok(Some(ReadCheckpoint {
            path: candidate.path.clone(),
            facts,
            place: None,
        }))
    };
    let found: Vec<Option<ReadCheckpoint>> = candidates
        .par_iter()
        .map(read)
        .collect::<Result<_, VerifyError>>()?;
    Ok(found.into_iter().flatten().collect())
}

/// Judges what was read of checkpoints, together.
///
/// # Errors
/// When there are too many, or the heads are damaged.
pub(super) fn lineages(
    context: &Context,
    found: Vec<ReadCheckpoint>,
    view: View,
) -> Result<Vec<Outcome>, VerifyError> {
    let places = places(&found);
    let lineages = Lineages::join(numbered(found))?;
    let mut outcomes = Vec::new();
    let judge = |lineage: &Lineage<'_>, expected| -> Result<Outcome, VerifyError> {
        let mut outcome = judge_lineage(context, lineage, view, expected)?;
        outcome.report.path = place_of(lineage, &places);
        Ok(outcome)
    };
    for lineage in lineages.iter() {
        outcomes.push(judge(&lineage, context.request.lineage.head)?);
    }
    let misses = |outcome: &Outcome| {
        let mut findings = outcome.report.findings.iter();
        findings.any(|found| OF_ANOTHER.contains(&found.code))
    };
    // An expected head is of one lineage: where one has it, the others were not meant.
    if context.request.lineage.head.is_some() && outcomes.iter().any(|outcome| !misses(outcome)) {
        for (outcome, lineage) in outcomes.iter_mut().zip(lineages.iter()) {
            if misses(outcome) {
                *outcome = judge(&lineage, None)?;
            }
        }
    }
    Ok(outcomes)
}

/// What became of the checkpoints among all files of a run, as reports.
///
/// # Errors
/// As [`lineages`].
pub(super) fn lineage_reports(
    context: &Context,
    candidates: &[Candidate],
    seen: &mut [FileResult],
) -> Result<Vec<Report>, VerifyError> {
    let alone = matches!(candidates, [only] if only.named);
    let mut found = Vec::new();
    for (candidate, seen) in candidates.iter().zip(seen) {
        if !matches!(seen, FileResult::Link(..)) {
            continue;
        }
        let taken = std::mem::replace(seen, FileResult::Elsewhere);
        if let FileResult::Link(facts, beside) = taken {
            if !beside.is_empty() {
                *seen = FileResult::Reports(beside);
            }
            found.push(ReadCheckpoint {
                path: candidate.path.clone(),
                facts: *facts,
                place: None,
            });
        }
    }
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let view = if alone { View::Single } else { View::History };
    let outcomes = lineages(context, found, view)?;
    Ok(outcomes.into_iter().map(|outcome| outcome.report).collect())
}

/// A second look, with what this host held, follows where a key was revoked.
fn judge_lineage(
    context: &Context,
    lineage: &Lineage<'_>,
    view: View,
    expected: Option<ExpectedHead>,
) -> Result<Outcome, VerifyError> {
    let known = known_heads(context, lineage)?;
    let joined = context.joined.lock();
    let mut joined = joined.unwrap_or_else(PoisonError::into_inner);
    joined.extend(lineage.records());
    drop(joined);
    let given = expected.map(|head| Expectation::given(head, context.request.exact_head));
    let records = lineage.records();
    let forks = records
        .iter()
        .flat_map(|record| known_forks(&*context.host.heads, record));
    let remembered = known.iter().flat_map(StoredHead::expectations);
    let remembered = as_of::without_later(context, remembered.chain(forks).collect());
    let mut judging = Judging {
        expect: given.into_iter().chain(remembered).collect(),
        code: &context.request.lineage.code,
        view,
        draw: context.request.lineage.draw,
        ..Judging::new(&context.request.trust, context.now)
    };
    let mut outcome = conclude(lineage, &judging);
    let held = |report: &Report| -> Option<Timestamp> {
        let same = known
            .iter()
            .find(|stored| report.head == Some(stored.head))?;
        same.held_since()
    };
    if let Some(since) = held(&outcome.report)
        && outcome.verified.is_none()
    {
        judging.held_since = Some(since);
        outcome = conclude(lineage, &judging);
    }
    finish::finish(context, &mut outcome.report, Path::new(""));
    Ok(outcome)
}

fn known_heads(context: &Context, lineage: &Lineage<'_>) -> Result<Vec<StoredHead>, VerifyError> {
    let mut known = Vec::new();
    for record in lineage.records() {
        let stored = context.host.heads.fetch(&record)?;
        known.extend(stored.filter(|stored| stored.kind == RecordKind::Lineage));
    }
    Ok(known)
}

/// A checkpoint that was read, and where.
#[derive(Debug, Clone)]
pub struct ReadCheckpoint {
    /// Where it is.
    pub path: PathBuf,
    /// Its contents, as far as they matter.
    pub facts: LinkFacts,
    /// The store and the agent, of a link in a store.
    pub place: Option<String>,
}

/// What was read, with a number for each folder.
fn numbered(found: Vec<ReadCheckpoint>) -> Vec<LinkFacts> {
    let mut folders: BTreeMap<PathBuf, u32> = BTreeMap::new();
    let mut number = |folder: &Path| {
        let next = u32::try_from(folders.len()).unwrap_or(u32::MAX);
        *folders.entry(folder.to_owned()).or_insert(next)
    };
    let number = |found: ReadCheckpoint| LinkFacts {
        folder: number(folder_of(&found.path)),
        home: number(home_of(&found.path)),
        ..found.facts
    };
    found.into_iter().map(number).collect()
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// A report of each agent in the folders of `candidates` whose newest link is gone: the lock beside it
/// shows that one was published, and no tombstone shows that the agent was deleted.
///
/// # Errors
/// When a file cannot be read.
pub(super) fn newest_gone(
    context: &Context,
    candidates: &[Candidate],
) -> Result<Vec<Report>, VerifyError> {
    let mut gone = Vec::new();
    for candidate in candidates.iter().filter(|candidate| !candidate.named) {
        let Some((folder, agent)) = agent_of_lock(&candidate.path) else {
            continue;
        };
        let fs = &*context.host.fs;
        if !FileCheckpointStore::has_lost_newest(fs, folder, &agent)? {
            continue;
        }
        let mut report = Report::begin(Format::Lineage, Profile::ThreadSeal);
        report.path = shown(&folder.join(format!("{agent}.checkpoint")));
        let text = format!(
            "the newest link of {agent} is gone: {} shows that there was one",
            shown(&candidate.path)
        );
        let finding = Finding::error(FindingCode::LiveMissing, text);
        report.downgrade(Verdict::Missing, finding);
        finish::finish(context, &mut report, Path::new(""));
        gone.push(report);
    }
    Ok(gone)
}

/// The folder and the agent of the lock of a store of files.
fn agent_of_lock(path: &Path) -> Option<(&Path, AgentName)> {
    let name = path.file_name()?.to_str()?;
    let agent = name.strip_prefix('.')?.strip_suffix(".lock")?;
    Some((path.parent()?, AgentName::parse(agent).ok()?))
}

/// The folder of the store of a file: links are archived in `history/<agent>` below it.
pub(super) fn home_of(path: &Path) -> &Path {
    let folder = folder_of(path);
    let history = folder.parent().filter(|above| above.ends_with("history"));
    history.map_or(folder, folder_of)
}

/// The places of links in stores, by their names.
fn places(found: &[ReadCheckpoint]) -> BTreeMap<String, String> {
    let place = |found: &ReadCheckpoint| Some((found.facts.name.to_string(), found.place.clone()?));
    found.iter().filter_map(place).collect()
}

/// The file of a lineage of one link, else the folder that all its files lie in; of links in stores, the
/// store and the agent that all have.
fn place_of(lineage: &Lineage<'_>, places: &BTreeMap<String, String>) -> String {
    let mut stored = lineage.files().map(|facts| places.get(&*facts.name));
    if let Some(Some(first)) = stored.next()
        && stored.all(|place| place == Some(first))
    {
        return first.clone();
    }
    let mut names = lineage.files().map(|facts| &*facts.name);
    let first = names.next().unwrap_or_default();
    let mut rest = names.peekable();
    if rest.peek().is_none() {
        return first.to_owned();
    }
    let folder = |name: &str| name.rfind('/').map_or(0, |end| end + 1);
    let mut common = first.get(..folder(first)).unwrap_or_default();
    for name in rest {
        while !name.starts_with(common) {
            let above = common.trim_end_matches('/');
            common = common.get(..folder(above)).unwrap_or_default();
        }
    }
    match common.trim_end_matches('/') {
        "" if common.is_empty() => ".".to_owned(),
        "" => "/".to_owned(),
        folder => folder.to_owned(),
    }
}
