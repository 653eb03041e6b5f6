//! Checks before a key ends: all of its seals must be in the log, and no record may be open that
//! only this key can end.

use crate::context::Context;
use crate::exit::{Failure, complain};
use crate::fleet::DatabaseArgs;
use crate::key_status;
use crate::keyring::OwnKey;
use crate::publish_pending::{PendingPublisher, Unpublished};
use crate::record;
use crate::render::clean::Clean;
use crate::trust_file;
use crate::verifying;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use threadseal_core::key::{KeyUsage, PublicKey};
use threadseal_core::record::{RecordId, RecordKind};
use threadseal_formats::transcript::manifest;
use threadseal_log::SealLog;
use threadseal_store::examine::first_line;
use threadseal_store::heads::StoredHead;
use threadseal_store::home::Home;
use threadseal_store::host::Host;
use threadseal_store::sys::path_text;
use threadseal_verify::all_records::place_of;

/// Publishes every seal that the home knows to its log before `old` ends, and refuses if something
/// would be lost: a seal that cannot be logged, or, of a native key, a thread that has not ended.
/// With `anyway` it only warns. A key that already ended has nothing more to lose: it can end no thread any more.
///
/// # Errors
/// When something would be lost, or the home cannot be read.
pub(super) fn settle(
    home: &Home,
    old: &OwnKey,
    anyway: bool,
    database: &DatabaseArgs,
    context: &Context,
) -> Result<(), Failure> {
    let left = publish(home, context)?;
    if let Some(first) = left.first() {
        let Unpublished { place, why } = first;
        let text = format!(
            "seals of {}{} are not in the log and cannot be logged: {why}",
            Clean(place),
            and_others(left.len()),
        );
        match anyway {
            true => complain(&format!(
                "warning: {text}; if this key made them, they are refused from now on"
            )),
            false => {
                return Err(Failure::new(format!(
                    "{text}; hint: threadseal verify, or add --anyway: if this key made them, they are refused from then on"
                )));
            }
        }
    }
    // Only a native key is the authority of threads.
    let is_authority = old.usage == KeyUsage::Native;
    if !is_authority || anyway || key_status::is_over(&old.public, home, context)? {
        return Ok(());
    }
    refuse_open_threads(home, &old.public, database, context)
}

/// Logs the seals in records that are newer than their known heads; returns those that could not be
/// logged.
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

/// The places of those records that have none in the store of heads.
fn places(known: &[StoredHead], log: &SealLog) -> BTreeMap<RecordId, Vec<String>> {
    let placeless = known.iter().filter(|known| known.path_hint.is_none());
    let records = placeless.map(|known| known.head.record);
    records
        .map(|record| (record, log.places_of(&record)))
        .collect()
}

/// Refuses if a thread of this key is open: its seals after the end of its authority do not count,
/// so it could only end as a forgery. Also reports threads with an unknown state: in a database
/// that was not named, or in storage that does not answer. Seals of other homes are not known here.
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
            // Only ended records are pruned.
            Stands::Unknown if local.heads.pruned(&record)?.is_some() => {}
            Stands::Unknown => unknown.push(place_told(&stored, context)),
        }
    }
    if let Some(first) = open.first() {
        let more = and_others(open.len());
        return Err(Failure::new(format!(
            "threads with this key as their authority have not ended: {}{more}; end them (threadseal thread recover, thread cancel, \
             seal --final), or add --anyway: their later seals are then refused",
            Clean(first)
        )));
    }
    unknown.first().map_or(Ok(()), |first| {
        let more = and_others(unknown.len());
        Err(Failure::new(format!(
            "cannot determine whether this key is the authority of an open thread: {}{more}; name its database (--database), \
             restore the record, or add --anyway: later seals of the thread may then be refused",
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

/// The state of a thread whose authority may be the key.
enum Stands {
    /// It has ended, or has another authority.
    Over,
    /// It is open, at this place.
    Open(String),
    /// The known heads do not show its state.
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
        // A transcript of Rye has no authority.
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

/// The place where the record was sealed last, if it is known.
fn place_told(known: &StoredHead, context: &Context) -> String {
    let record = known.head.record;
    let noted = context.known_log().map(|log| log.places_of(&record));
    let noted = noted.and_then(|mut places| places.pop());
    match known.path_hint.clone().or(noted) {
        Some(place) => format!("record {record} in {place}"),
        None => format!("record {record}"),
    }
}

/// The authority of the record, if the record is still at this place.
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
