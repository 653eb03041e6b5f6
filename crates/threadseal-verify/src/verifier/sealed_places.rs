//! Records without a place of their own, in the place where this host sealed them last.
//!
//! ```text
//! private index ─► scroll, ledger, lineage ─► last place ─► a file there that is no record, a folder, a link ─► missing
//! ```
//! The heads of transcripts, observed logs and documents name their places, and `displacement` finds
//! those. Scrolls, ledgers and lineages are copied and exported in good faith. So another record in
//! such a place displaces nothing; only a file that is no record does.

use super::context::Context;
use super::displacement;
use super::gone::is_openable;
use super::lineage;
use super::pruned;
use crate::detect;
use crate::error::VerifyError;
use crate::home_log::HomeLog;
use crate::request::RequestedProfile;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use threadseal_core::record::RecordId;
use threadseal_core::report::Report;
use threadseal_log::SealLog;
use threadseal_store::heads::{RecordKind, StoredHead};
use threadseal_store::sys::text_path;

/// A report of each record that this host sealed last in the place of one of `paths`, which are no
/// records now, and that none of `here` is.
///
/// # Errors
/// When the heads, the log or its index of places cannot be read.
pub(super) fn gone(
    context: &Context,
    paths: &[PathBuf],
    here: &BTreeSet<RecordId>,
) -> Result<Vec<Report>, VerifyError> {
    let HomeLog::There(log) = &context.log else {
        return Ok(Vec::new());
    };
    if paths.is_empty() || context.request.profile != RequestedProfile::Auto {
        return Ok(Vec::new());
    }
    let places = places(log)?;
    let (mut gone, mut told) = (Vec::new(), here.clone());
    for path in paths {
        for last in sealed_at(context, path, &places)? {
            if told.insert(last.head.record) {
                gone.push(displacement::displacing(context, path, &last));
            }
        }
    }
    pruned::explain_pruned(context, gone)
}

/// The addresses of the folders of objects among `folders` in which this host sealed records last.
///
/// # Errors
/// When the index of places cannot be read.
pub(super) fn stores_in(
    context: &Context,
    folders: &[PathBuf],
) -> Result<Vec<String>, VerifyError> {
    let HomeLog::There(log) = &context.log else {
        return Ok(Vec::new());
    };
    let places: BTreeSet<String> = folders
        .iter()
        .map(|path| context.host.place(path))
        .collect();
    let address = |noted: &[String]| {
        let last = noted.iter().rev().find(|place| is_openable(place))?;
        let folder = last.strip_prefix("object+file:")?;
        let (folder, _) = folder.split_once('#').unwrap_or((folder, ""));
        places
            .contains(folder)
            .then(|| format!("object+file:{folder}"))
    };
    let records = log.records_in(&|noted| address(noted).is_some())?;
    let addresses = records
        .iter()
        .filter_map(|record| address(&log.places_of(record)));
    let addresses: BTreeSet<String> = addresses.collect();
    Ok(addresses.into_iter().collect())
}

/// The records in each place on this machine: a file, an SQLite file, the folder of a lineage.
fn places(log: &SealLog) -> Result<BTreeMap<PathBuf, Vec<RecordId>>, VerifyError> {
    let mut places: BTreeMap<PathBuf, Vec<RecordId>> = BTreeMap::new();
    for record in log.records_in(&|places| local(places).is_some())? {
        if let Some(place) = local(&log.places_of(&record)) {
            places.entry(place).or_default().push(record);
        }
    }
    Ok(places)
}

/// The path of the last of these places, if it is one.
fn local(places: &[String]) -> Option<PathBuf> {
    let last = places.iter().rev().find(|place| is_openable(place))?;
    let path = text_path(last.strip_prefix("sqlite:").unwrap_or(last))?;
    path.is_absolute().then_some(path)
}

/// The records that this host sealed last at `path`. A file is one record, and the newest of a kind
/// counts; an SQLite file and a folder of lineages are several.
fn sealed_at(
    context: &Context,
    path: &Path,
    places: &BTreeMap<PathBuf, Vec<RecordId>>,
) -> Result<Vec<StoredHead>, VerifyError> {
    let mut keys = BTreeSet::from([
        context.host.place(path),
        displacement::place_itself(context, path),
    ]);
    if detect::is_named_checkpoint(path) {
        keys.insert(context.host.place(lineage::home_of(path)));
    }
    let keys = keys.iter().filter_map(|key| text_path(key));
    let records = keys.filter_map(|key| places.get(&key)).flatten();
    // In the folder of a lineage many files may be.
    let is_file = context.is_file(path);
    let (mut all, mut scroll) = (Vec::new(), None::<StoredHead>);
    for record in records {
        let Some(stored) = context.host.heads.fetch(record)? else {
            continue;
        };
        match stored.kind {
            RecordKind::Ledger => all.push(stored),
            RecordKind::Lineage if is_file => all.push(stored),
            RecordKind::Scroll if scroll.as_ref().is_none_or(|s| s.updated <= stored.updated) => {
                scroll = Some(stored);
            }
            _ => {}
        }
    }
    all.extend(scroll);
    Ok(all)
}
