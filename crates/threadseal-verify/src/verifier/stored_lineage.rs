//! Lineages in stores: SQLite, PostgreSQL, object storage.
//!
//! ```text
//! STORE ─► survey ─► each link that is there ─► LinkFacts, as of a file ─┐
//!                                                                        ├─► lineage ─► one report for each lineage
//!                    files of the same run ─► LinkFacts ─────────────────┘
//!        └► what cannot be a link ─► malformed; what this host sealed there, and is gone ─► missing
//! ```
//! A link has the name that its file would have in a folder, after the store and the agent. So the rules
//! of a folder hold: `<agent>.checkpoint` is the newest link, and older ones are its history.

use super::context::Context;
use super::finish;
use super::gone;
use super::lineage::{self, ReadCheckpoint};
use crate::address::without_secrets;
use crate::error::VerifyError;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::{RecordId, RecordKind};
use threadseal_core::report::{Finding, FindingCode, Format, Profile, Report, Verdict};
use threadseal_formats::lineage::{AgentName, ContentHash, FileReader, HEAD_MAGIC, View};
use threadseal_store::lineage::{CheckpointStore, Newest, Surveyed};

/// What a store has of lineages.
#[derive(Debug, Default)]
pub struct StoredLineages {
    /// The links that can be read.
    pub links: Vec<ReadCheckpoint>,
    /// A report of each object that is no link, or not the one of its name.
    pub faults: Vec<Report>,
    /// The newest links of deleted agents.
    deleted: BTreeSet<ContentHash>,
    /// The store, and its own name of its place.
    place: (String, Option<String>),
}

impl StoredLineages {
    /// The same, of a store that has this name for its own place.
    #[cfg(feature = "sqlite")]
    pub(super) fn at(mut self, own: String) -> Self {
        self.place.1 = Some(own);
        self
    }

    /// Is there nothing of a lineage?
    pub fn is_empty(&self) -> bool {
        self.links.is_empty() && self.faults.is_empty()
    }
}

/// Reads all links of the store at `address`, or those of one agent.
///
/// # Errors
/// When no store has this address, or it cannot be read.
pub(super) fn read(
    context: &Context,
    address: &str,
    only: Option<&AgentName>,
) -> Result<StoredLineages, VerifyError> {
    read_from(context, &*context.stores.lineages(address)?, address, only)
}

/// The same of a store that is open.
///
/// # Errors
/// When it cannot be read.
pub(super) fn read_from(
    context: &Context,
    store: &dyn CheckpointStore,
    address: &str,
    only: Option<&AgentName>,
) -> Result<StoredLineages, VerifyError> {
    let survey = store.survey()?;
    let mut found = StoredLineages {
        place: (address.to_owned(), store.own_place()),
        ..StoredLineages::default()
    };
    for stray in survey.strays.iter().filter(|_| only.is_none()) {
        let text = "something is stored under a name that no link of this store has";
        found.faults.push(fault(context, address, stray, text));
    }
    for surveyed in &survey.agents {
        if only.is_some_and(|only| *only != surveyed.agent) {
            continue;
        }
        let agent = &surveyed.agent;
        let newest = match &surveyed.newest {
            Ok(Newest::Deleted(hash)) => {
                found.deleted.insert(*hash);
                continue;
            }
            Ok(Newest::Link(hash)) => Some(*hash),
            Ok(Newest::Nothing) => None,
            Err(error) => {
                let text = of_store(error)?;
                found
                    .faults
                    .push(fault(context, address, agent.as_str(), &text));
                None
            }
        };
        let read: Vec<Read> = links(surveyed, newest)
            .par_iter()
            .map(|(hash, name)| look(context, store, address, agent, hash, name))
            .collect::<Result<_, VerifyError>>()?;
        for read in read {
            found.links.extend(read.link);
            found.faults.extend(read.fault);
        }
    }
    Ok(found)
}

/// The links of an agent, each with the name of its file in a folder.
fn links(surveyed: &Surveyed, newest: Option<ContentHash>) -> Vec<(ContentHash, String)> {
    let agent = &surveyed.agent;
    let live = newest.map(|hash| (hash, format!("{agent}.checkpoint")));
    let older = surveyed.older.iter().filter(|hash| Some(**hash) != newest);
    let older = older.map(|hash| (*hash, format!("history/{agent}/{hash}.ckpt")));
    live.into_iter().chain(older).collect()
}

/// What a look at one link came to.
#[derive(Default)]
struct Read {
    link: Option<ReadCheckpoint>,
    fault: Option<Report>,
}

fn look(
    context: &Context,
    store: &dyn CheckpointStore,
    address: &str,
    agent: &AgentName,
    hash: &ContentHash,
    name: &str,
) -> Result<Read, VerifyError> {
    let told = |text: &str| {
        let name = format!("{agent}/{hash}");
        Ok(Read {
            fault: Some(fault(context, address, &name, text)),
            link: None,
        })
    };
    let link = match store.load(agent, hash) {
        Ok(Some(link)) => link,
        Ok(None) => {
            // It may have been deleted since the store was asked.
            return match store.newest(agent) {
                Ok(Newest::Deleted(_)) => Ok(Read::default()),
                _ => told("the link that has this name is another one, or is gone"),
            };
        }
        Err(error) => return told(&of_store(&error)?),
    };
    let mut reader = FileReader::new();
    if link.state.is_none() {
        reader.push(HEAD_MAGIC);
    }
    reader.push(&link.head);
    let (mut chunk, mut broken) = (Vec::new(), None);
    if let Some(mut state) = link.state {
        loop {
            match state.next_chunk(&mut chunk) {
                Ok(()) if chunk.is_empty() => break,
                Ok(()) => reader.push(&chunk),
                // The facts show that the state is not the sealed one; what was read is all of it.
                Err(error) => {
                    broken = Some(of_store(&error)?);
                    break;
                }
            }
            context.advance(chunk.len() as u64);
        }
    }
    let place = format!("{}#{agent}", without_secrets(address));
    let name = format!("{place}/{name}");
    let facts = reader.finish(&name, 0);
    let fault = broken.map(|text| fault(context, address, &format!("{agent}/{hash}"), &text));
    Ok(Read {
        link: Some(ReadCheckpoint {
            path: PathBuf::from(name),
            facts,
            place: Some(place),
        }),
        fault,
    })
}

/// The text of an error about what is stored; other errors are returned.
fn of_store(error: &Error) -> Result<String, VerifyError> {
    match error.kind() {
        ErrorKind::Refused | ErrorKind::Limit => Ok(error.to_string()),
        _ => Err(error.clone().into()),
    }
}

fn fault(context: &Context, address: &str, name: &str, text: &str) -> Report {
    let mut report = Report::begin(Format::Lineage, Profile::ThreadSeal);
    report.path = format!("{}#{name}", without_secrets(address));
    report.trust = Some(context.request.trust.digest());
    let finding = Finding::error(FindingCode::CheckpointMalformed, text);
    report.downgrade(Verdict::Malformed, finding);
    finish::finish(context, &mut report, Path::new(""));
    report
}

/// Judges the links of a store alone, and reports what is gone from it.
///
/// # Errors
/// When there are too many links, or the heads, the log or its index of places cannot be read.
pub(super) fn reports(
    context: &Context,
    mut found: StoredLineages,
) -> Result<Vec<Report>, VerifyError> {
    let links = std::mem::take(&mut found.links);
    let outcomes = lineage::lineages(context, links, View::History)?;
    let mut reports: Vec<Report> = outcomes.into_iter().map(|outcome| outcome.report).collect();
    let here = reports.iter().filter_map(|report| report.record).collect();
    reports.append(&mut found.faults);
    reports.extend(gone(context, &found, &here)?);
    Ok(reports)
}

/// A report of each lineage that this host sealed last in the store, and that neither `here` nor any
/// other part of the run is.
///
/// # Errors
/// When the heads, the log or its index of places cannot be read; when an agent was deleted there at a
/// link that this host does not know, which may be any of them.
pub(super) fn gone(
    context: &Context,
    found: &StoredLineages,
    here: &BTreeSet<RecordId>,
) -> Result<Vec<Report>, VerifyError> {
    let joined = context.joined.lock();
    let mut here = here.clone();
    here.extend(joined.unwrap_or_else(PoisonError::into_inner).iter());
    let (address, own) = &found.place;
    let place = (address.as_str(), own.as_deref());
    let sealed = gone::sealed_in(context, RecordKind::Lineage, place)?;
    let lines: BTreeMap<RecordId, Digest> = sealed
        .iter()
        .map(|stored| (stored.head.record, stored.head.line))
        .collect();
    let deleted: BTreeSet<Digest> = found.deleted.iter().map(ContentHash::digest).collect();
    let is_deleted = |report: &Report| {
        let line = report.record.and_then(|record| lines.get(&record));
        line.is_some_and(|line| deleted.contains(line))
    };
    let mut kept = gone::gone_from(context, RecordKind::Lineage, place, &here)?;
    kept.retain(|report| !is_deleted(report));
    let mut unknown = found.deleted.iter();
    let unknown = unknown.find(|hash| !lines.values().any(|line| *line == hash.digest()));
    if !kept.is_empty()
        && let Some(hash) = unknown
    {
        let text = format!(
            "{}: an agent was deleted there at link {hash}, which this host does not know, and it misses lineages there",
            without_secrets(address)
        );
        return Err(VerifyError::refused(text));
    }
    Ok(kept)
}
