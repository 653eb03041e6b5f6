//! What is done before a key ends: all that it sealed must stand in the log, and nothing may be left open that only it can end.

use crate::context::Context;
use crate::ended;
use crate::exit::{Failure, complain};
use crate::fleet::DatabaseArgs;
use crate::publish_pending::{PendingPublisher, Unpublished};
use crate::record;
use crate::render::clean::Clean;
use crate::trust_file;
use crate::verifying;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use threadseal::key::PublicKey;
use threadseal::record::{RecordId, RecordKind};
use threadseal::transcript::manifest;
use threadseal_store::examine::first_line;
use threadseal_store::heads::StoredHead;
use threadseal_store::home::Home;
use threadseal_store::host::Host;
use threadseal_store::seal_log::SealLog;
use threadseal_store::sys::path_text;
use threadseal_verify::all_records::place_of;

/// Has everything that the home knows to be sealed stand in its log before `old` ends, and refuses what would be lost: seals that cannot be
/// written down there, and threads that have not ended. With `anyway` it only says so. Of a key that ended already nothing more is lost: it could
/// end no thread any more.
///
/// # Errors
/// When something would be lost, or the home cannot be read.
pub(super) fn settle(
    home: &Home,
    old: &PublicKey,
    anyway: bool,
    database: &DatabaseArgs,
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
    match anyway || ended::is_over(old, home, context)? {
        true => Ok(()),
        false => refuse_open_threads(home, old, database, context),
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
    let trust = trust_file::trust_of_home(home, context)?;
    let publisher = PendingPublisher::new(verifying::verifier_by(trust, context)?);
    Ok(publisher.publish(&known, &places))
}

/// Where those records lie that have no place in the store of heads.
fn places(known: &[StoredHead], log: &SealLog) -> BTreeMap<RecordId, Vec<String>> {
    let placeless = known.iter().filter(|known| known.path_hint.is_none());
    let records = placeless.map(|known| known.head.record);
    records
        .map(|record| (record, log.places_of(&record)))
        .collect()
}

/// What a thread seals behind the end of its authority counts for nobody, so that it would end as a forgery. A thread of which nobody can
/// say here whether it goes on is told as well: one in a database that was not named, or in storage that does not answer. What another
/// home seals is not known here.
fn refuse_open_threads(
    home: &Home,
    old: &PublicKey,
    database: &DatabaseArgs,
    context: &Context,
) -> Result<(), Failure> {
    let local = context.host()?;
    let fleet = database.existing()?;
    let shared = fleet.map(|fleet| fleet.host(&local, Path::new("/"), None));
    let hosts: Vec<Host> = std::iter::once(Ok(local.clone()))
        .chain(shared)
        .collect::<Result<_, _>>()?;
    let (mut open, mut unknown) = (Vec::new(), Vec::new());
    for stored in known_transcripts(home, context)? {
        let record = stored.head.record;
        match stands(&hosts, &stored, old)? {
            Stands::Over => {}
            Stands::Open(place) => open.push(place),
            // What was pruned was over.
            Stands::Unknown if local.heads.pruned(&record)?.is_some() => {}
            Stands::Unknown => unknown.push(place_told(&stored, context)),
        }
    }
    if let Some(first) = open.first() {
        let more = and_others(open.len());
        return Err(Failure::new(format!(
            "threads that this key answers for have not ended: {}{more}; let them end (threadseal thread recover, thread cancel, \
             seal --final), or say --anyway: what they seal from then on is refused",
            Clean(first)
        )));
    }
    unknown.first().map_or(Ok(()), |first| {
        let more = and_others(unknown.len());
        Err(Failure::new(format!(
            "nobody can say here whether this key answers for a thread that goes on: {}{more}; name the database that it lies in \
             (--database), bring it back, or say --anyway: what it seals from then on may be refused",
            Clean(first)
        )))
    })
}

/// The transcripts of which the home or its log knows a head.
fn known_transcripts(home: &Home, context: &Context) -> Result<Vec<StoredHead>, Failure> {
    let mut known = home.heads().stored()?;
    let here: BTreeSet<RecordId> = known.iter().map(|known| known.head.record).collect();
    if let Some(log) = context.known_log() {
        let logged = log.records()?.into_iter();
        let elsewhere = logged.filter(|at| !here.contains(&at.logged.head.record));
        known.extend(elsewhere.map(StoredHead::of_log));
    }
    known.retain(|known| known.kind == RecordKind::Transcript);
    Ok(known)
}

/// How a thread stands that a key may answer for.
enum Stands {
    /// It has ended, or another key answers for it.
    Over,
    /// It goes on, here.
    Open(String),
    /// What is known says neither.
    Unknown,
}

fn stands(hosts: &[Host], known: &StoredHead, old: &PublicKey) -> Result<Stands, Failure> {
    if known.is_final {
        return Ok(Stands::Over);
    }
    let record = known.head.record;
    for host in hosts {
        let Some(stored) = host.heads.fetch(&record)? else {
            continue;
        };
        // A transcript of Rye names no authority.
        if stored.is_final || (stored.path_hint.is_some() && stored.thread.is_none()) {
            return Ok(Stands::Over);
        }
        let Some(path) = place_of(&stored) else {
            continue;
        };
        match authority_at(host, &path, &record) {
            Some(authority) if authority == *old => return Ok(Stands::Open(path_text(&path))),
            Some(_) => return Ok(Stands::Over),
            None => {}
        }
    }
    Ok(Stands::Unknown)
}

/// Where the record was sealed last, as far as that is known.
fn place_told(known: &StoredHead, context: &Context) -> String {
    let record = known.head.record;
    let noted = context.known_log().map(|log| log.places_of(&record));
    let noted = noted.and_then(|mut places| places.pop());
    match known.path_hint.clone().or(noted) {
        Some(place) => format!("record {record} in {place}"),
        None => format!("record {record}"),
    }
}

/// Who answers for the record, as far as it still lies there.
fn authority_at(host: &Host, path: &Path, record: &RecordId) -> Option<PublicKey> {
    let file = record::open(&*host.fs, path).ok()?;
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
