//! Copies of one home, and which of them owns the log.
//!
//! Copies have the second places of their log in common. The marks decide which copy continues the log, and nothing in a
//! copy shows that it is one. So the second place records which home came first, as long as that home is in its place and
//! has this log. A copy that begins a log of its own ends the old one for itself alone if that home continues it. It ends
//! the old log for all homes if that home does not: it moved, is gone, or fell back while a copy continued the log.

use crate::layout::description::{Description, LogId};
use crate::layout::home_identity::HomeIdentity;
use crate::layout::log_home::LogHome;
use crate::marks::folder_mark::FolderMark;
use crate::tree::view::read_committed;
use std::sync::Arc;
use threadseal_core::error::Error;

/// Has a second place record this home as the log's own, unless it knows another one that still has this log, as far as
/// this machine can see.
pub(crate) fn claim(home: &LogHome, mark: &FolderMark, id: LogId) -> Result<(), Error> {
    let here = HomeIdentity::of(home);
    match mark.owner() {
        Some(known) if known == here || has(home, &known, id) => Ok(()),
        _ => mark.set_owner(&here),
    }
}

/// Does the log belong to another home, which continues it? One on another machine is not asked: it does not continue here.
pub(crate) fn lives_elsewhere(
    home: &LogHome,
    id: LogId,
    description: Option<&Description>,
    marks: &[FolderMark],
) -> bool {
    let here = HomeIdentity::of(home);
    let mut others = marks.iter().filter_map(FolderMark::owner);
    others.any(|known| {
        if known == here || is_same(home, &known) {
            return false;
        }
        known.host != home.host
            || has(home, &known, id)
                && continues(home, &known, id, description, marks).unwrap_or(false)
    })
}

/// Is that home there, on this machine, and does it have this log?
fn has(home: &LogHome, known: &HomeIdentity, id: LogId) -> bool {
    known.host == home.host
        && !is_same(home, known)
        && at(home, known).current_id().ok().flatten() == Some(id)
}

/// Is it this home, by another name, or in its earlier place?
fn is_same(home: &LogHome, known: &HomeIdentity) -> bool {
    let [there, here] = [&known.path(), &home.path].map(|path| home.fs.canonicalize(path).ok());
    known.host == home.host && there.is_some() && there == here
}

/// Does the log there continue all that the second places know?
fn continues(
    home: &LogHome,
    known: &HomeIdentity,
    id: LogId,
    description: Option<&Description>,
    marks: &[FolderMark],
) -> Result<bool, Error> {
    let dir = at(home, known).dir(id);
    let there = Description::read(&dir, id)?;
    if description.is_some_and(|here| here.key != there.key) {
        return Ok(false);
    }
    let log = read_committed(&dir, &there)?;
    for mark in marks {
        for (_, tree) in mark.read(&there)? {
            if !log.contents.continues(&tree, &log.frontier.head())? {
                return Ok(false);
            }
        }
        if mark.has_ended_for_all()? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn at(home: &LogHome, known: &HomeIdentity) -> LogHome {
    LogHome {
        fs: Arc::clone(&home.fs),
        path: known.path(),
        ..home.clone()
    }
}
