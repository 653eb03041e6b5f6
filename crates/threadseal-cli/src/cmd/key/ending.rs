//! What is done before a key ends: all that it sealed must stand in the log, and nothing may be left open that only it can end.

use crate::context::Context;
use crate::examine::all::place_of;
use crate::examine::{self, Examiner, Unpublished};
use crate::exit::{Failure, complain};
use crate::render::clean::Clean;
use crate::trusting;
use indicatif::ProgressBar;
use std::collections::BTreeMap;
use std::path::Path;
use threadseal::key::PublicKey;
use threadseal::record::{RecordId, RecordKind};
use threadseal::transcript::manifest;
use threadseal_store::examine::first_line;
use threadseal_store::heads::StoredHead;
use threadseal_store::home::Home;
use threadseal_store::read::open_regular;
use threadseal_store::seal_log::SealLog;
use threadseal_store::sys::path_text;

/// Has everything that the home knows to be sealed stand in its log before `old` ends, and refuses what would be lost: seals that cannot be
/// written down there, and threads that have not ended. With `anyway` it only says so.
///
/// # Errors
/// When something would be lost, or the home cannot be read.
pub(super) fn settle(
    home: &Home,
    old: &PublicKey,
    anyway: bool,
    context: &Context,
) -> Result<(), Failure> {
    let left = publish(home, context)?;
    if let Some(first) = left.first() {
        let Unpublished { place, why } = first;
        let text = format!(
            "{}{} sealed what the log does not have, and it cannot be written down: {why}",
            Clean(place),
            and_others(left.len()),
        );
        match anyway {
            true => complain(&format!(
                "warning: {text}; if this key sealed it, it is refused from now on"
            )),
            false => {
                return Err(Failure::new(format!(
                    "{text}; verify it, or say --anyway: if this key sealed it, it is refused from then on"
                )));
            }
        }
    }
    match anyway {
        true => Ok(()),
        false => refuse_open_threads(home, old, context),
    }
}

/// Writes down what records hold beyond the heads that are known of them; answers with what could not be.
fn publish(home: &Home, context: &Context) -> Result<Vec<Unpublished>, Failure> {
    context.host()?;
    let Some(log) = context.known_log() else {
        return Ok(Vec::new());
    };
    let known = home.heads().stored()?;
    let places = places(&known, &log);
    let trust = trusting::trust_of_home(home, context)?;
    let asked = examine::Asked::by(trust);
    let examiner = Examiner::new(asked, ProgressBar::hidden(), context)?;
    Ok(examiner.publish_ahead(&known, &places))
}

/// Where those records lie that have no place in the store of heads.
fn places(known: &[StoredHead], log: &SealLog) -> BTreeMap<RecordId, Vec<String>> {
    let placeless = known.iter().filter(|known| known.path_hint.is_none());
    let records = placeless.map(|known| known.head.record);
    records
        .map(|record| (record, log.places_of(&record)))
        .collect()
}

/// What a thread seals behind the end of its authority counts for nobody, so that it would end as a forgery. Threads that lie in a database, or
/// that another home seals, are not known here.
fn refuse_open_threads(home: &Home, old: &PublicKey, context: &Context) -> Result<(), Failure> {
    let mut open = Vec::new();
    for stored in home.heads().stored()? {
        let Some(path) = place_of(&stored).filter(|_| !stored.is_final) else {
            continue;
        };
        if stored.kind == RecordKind::Transcript
            && authority_at(&path, &stored.head.record, context) == Some(*old)
        {
            open.push(path_text(&path));
        }
    }
    let Some(first) = open.first() else {
        return Ok(());
    };
    let more = and_others(open.len());
    Err(Failure::new(format!(
        "threads that this key answers for have not ended: {}{more}; let them end (threadseal thread recover, thread cancel, \
         seal --final), or say --anyway: what they seal from then on is refused",
        Clean(first)
    )))
}

/// Who answers for the record, as far as it still lies there.
fn authority_at(path: &Path, record: &RecordId, context: &Context) -> Option<PublicKey> {
    let file = open_regular(&*context.fs, path).ok()?;
    let first = first_line(&file).ok()??;
    let manifest = manifest::parse_line(&first)?;
    (manifest.record == *record).then_some(manifest.authority)
}

fn and_others(all: usize) -> String {
    match all {
        1 => String::new(),
        all => format!(" and {} others", all - 1),
    }
}
