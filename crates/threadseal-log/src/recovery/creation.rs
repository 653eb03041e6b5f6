//! Making a log, and finding the current one.
//!
//! ```text
//! make   log/<log id>/… with its first entries ─► its key ─► log/current ─► marks   each durable before the next
//! ```
//! Before the key is written nothing has happened: the home has the log that it had, or none. A log whose making ended after
//! its key is whole, and becomes the current one when a log is to be made again ([`finish`]).

use crate::layout::description::{Description, LogId};
use crate::layout::journal::Journal;
use crate::layout::log_home::LogHome;
use crate::marks::folder_mark::FolderMark;
use crate::marks::remote_marks::RemoteMarks;
use crate::marks::{home_clones, known_logs};
use crate::recovery::key_ends::KeyEnds;
use crate::tree::view::read_committed;
use crate::tree::writer::{self, LogKey, Writer};
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::merkle::TreeHead;
use threadseal_core::tlog::entry::{LogEntry, LoggedHead};
use threadseal_store::atomic;
use threadseal_store::atomic::PRIVATE_DIRECTORY;
use threadseal_store::lock::Exclusive;

/// Entries of a log that is made that are in memory at once.
const MADE_AT_ONCE: usize = 8192;

/// The log that is to be made.
pub(crate) struct NewLog<'n> {
    pub(crate) description: &'n Description,
    pub(crate) key: &'n LogKey,
    pub(crate) entries: &'n mut dyn Iterator<Item = Result<Vec<u8>, Error>>,
    /// The current log, in whose place it is made.
    pub(crate) replaces: Option<LogId>,
    /// Where keys ended in the logs before.
    pub(crate) ends: &'n KeyEnds,
    /// Puts its key among those of the home, durably.
    pub(crate) keep_key: &'n dyn Fn() -> Result<(), Error>,
}

/// The current log; None when this home never had one.
///
/// # Errors
/// As [`crate::LogRegistry::current`].
pub(crate) fn current(home: &LogHome) -> Result<Option<Description>, Error> {
    if let Some(id) = home.current_id()? {
        return Description::read(&home.dir(id), id).map(Some);
    }
    if let Some(id) = known_logs::lost(home)? {
        return Err(Error::refused(format!(
            "log_missing: this home had the log {id} (its second place knows it), and it is gone; hint: restore it, or run \
             threadseal log restart"
        )));
    }
    match home.log_keys()?.first() {
        None => Ok(None),
        Some(name) => Err(Error::refused(format!(
            "log_missing: this home has {name}.log.key, the key of a log, but neither the log nor a second place; hint: restore it, \
             or run threadseal log restart"
        ))),
    }
}

/// Makes a log whose making ended after its key the current one; answers whether there was such a log.
///
/// # Errors
/// Kind `External` when the system fails.
pub(crate) fn finish(
    home: &LogHome,
    has_key: &dyn Fn(&Description) -> bool,
) -> Result<bool, Error> {
    if unfinished(home, has_key)?.is_none() {
        return Ok(false);
    }
    let _alone = Exclusive::enter(&*home.fs, &home.logs().join("lock"))?;
    // The process that held the lock may have done the same.
    match unfinished(home, has_key)? {
        Some(id) => home.set_current(id).map(|()| true),
        None => Ok(false),
    }
}

fn unfinished(
    home: &LogHome,
    has_key: &dyn Fn(&Description) -> bool,
) -> Result<Option<LogId>, Error> {
    let keys = home.log_keys()?;
    let [key] = keys.as_slice() else {
        return Ok(None);
    };
    if home.current_id()?.is_some() || known_logs::lost(home)?.is_some() {
        return Ok(None);
    }
    let ids = home.log_ids().into_iter();
    let mut ids = ids.filter(|id| id.key_name() == *key);
    let is_whole = |id: &LogId| {
        let dir = home.dir(*id);
        let description = Description::read(&dir, *id).ok();
        description.is_some_and(|description| {
            has_key(&description) && read_committed(&dir, &description).is_ok()
        })
    };
    Ok(ids.find(is_whole))
}

/// Makes a log, keeps its key, and makes it the current one. Everything of it is durable before that.
pub(crate) fn make(home: &LogHome, new: NewLog<'_>) -> Result<(), Error> {
    let NewLog {
        description,
        key,
        entries,
        replaces,
        ends,
        keep_key,
    } = new;
    atomic::create_directories(&*home.fs, &home.logs(), PRIVATE_DIRECTORY)?;
    let _alone = Exclusive::enter(&*home.fs, &home.logs().join("lock"))?;
    if home.current_id().ok().flatten() != replaces {
        return Err(Error::refused("another log was made meanwhile"));
    }
    // Before anything of it is made: a second place that cannot be written refuses the log.
    let marks = FolderMark::all(home, description);
    let _marking = marks
        .iter()
        .map(FolderMark::enter)
        .collect::<Result<Vec<_>, _>>()?;
    let remote = RemoteMarks::new(home, description);
    let mut states = remote.states(false).into_iter();
    states.try_for_each(|state| state.map(drop))?;
    let dir = home.dir(description.id);
    atomic::create_directories(&*home.fs, &dir.root, PRIVATE_DIRECTORY)?;
    description.write(&dir)?;
    ends.write(&dir)?;
    let empty = writer::sign(description, key, TreeHead::empty())?;
    dir.replace(&dir.checkpoint(), empty.to_string().as_bytes())?;
    dir.replace(&dir.journal(), &Journal::begin(&empty))?;
    // No other process knows it, so the marks need not be asked.
    let mut writer = Writer::open(&dir, description, key, &|| true, &|_, _| Ok(()), false)?;
    loop {
        let some: Vec<Vec<u8>> = (&mut *entries)
            .take(MADE_AT_ONCE)
            .collect::<Result<_, _>>()?;
        if some.is_empty() {
            break;
        }
        writer.commit(&some)?;
    }
    writer.fold()?;
    keep_key()?;
    home.set_current(description.id)?;
    // After `current`: a mark of a log that never became the current one would show that one is missing. The next commit
    // makes up for a mark that a crash kept from being written.
    for mark in &marks {
        mark.write(writer.head())?;
        home_clones::claim(home, mark, description.id)?;
    }
    drop(writer);
    remote.request_update();
    Ok(())
}

/// The entry for this head.
pub(crate) fn head_entry(logged: &LoggedHead) -> Result<Vec<u8>, Error> {
    LogEntry::Head(*logged).to_bytes().ok_or_else(|| {
        let head = logged.head;
        let text = format!("the head {head} has a number that no log can hold");
        Error::new(ErrorKind::Limit, text)
    })
}
