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
use crate::detect;
use crate::error::VerifyError;
use crate::inputs::Candidate;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use threadseal_core::record::ExpectedHead;
use threadseal_core::report::Report;
use threadseal_core::report::{Expectation, FindingCode};
use threadseal_core::time::Timestamp;
use threadseal_formats::lineage::{
    FileReader, Judging, Lineage, Lineages, LinkFacts, Outcome, View, conclude,
};
use threadseal_store::examine::known_forks;
use threadseal_store::heads::{RecordKind, StoredHead};
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

/// Reads checkpoints: each file that was named, and of folders each file that is one by its
/// content or is called one.
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
            || detect::is_named_checkpoint(&candidate.path)
            || detect::is_checkpoint(&file)?;
        if !is_one {
            return Ok(None);
        }
        let facts = look(context, &file)?;
        Ok(Some(ReadCheckpoint {
            path: candidate.path.clone(),
            facts,
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
    let lineages = Lineages::join(numbered(found))?;
    let mut outcomes = Vec::new();
    for lineage in lineages.iter() {
        outcomes.push(judge_lineage(
            context,
            &lineage,
            view,
            context.request.lineage.head,
        )?);
    }
    let misses = |outcome: &Outcome| {
        let mut findings = outcome.report.findings.iter();
        findings.any(|found| OF_ANOTHER.contains(&found.code))
    };
    // An expected head is of one lineage: where one has it, the others were not meant.
    if context.request.lineage.head.is_some() && outcomes.iter().any(|outcome| !misses(outcome)) {
        for (outcome, lineage) in outcomes.iter_mut().zip(lineages.iter()) {
            if misses(outcome) {
                *outcome = judge_lineage(context, &lineage, view, None)?;
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
    outcome.report.path = place_of(lineage);
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

/// The folder of the store of a file: links are archived in `history/<agent>` below it.
fn home_of(path: &Path) -> &Path {
    let folder = folder_of(path);
    let history = folder.parent().filter(|above| above.ends_with("history"));
    history.map_or(folder, folder_of)
}

/// The file of a lineage of one link, else the folder that all its files lie in.
fn place_of(lineage: &Lineage<'_>) -> String {
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
