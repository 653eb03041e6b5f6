//! Copies of one home, and which of them is the log's own.
//!
//! ```text
//! <second place>/<log id>.home    threadseal/1 home of a log LF <64 hex of the machine, or -> LF <path of the home> LF
//! ```
//! Copies have the second places of their log in common: which of them goes on, the marks decide, and which is a copy, nothing in
//! it says. So the second place remembers which home came first, for as long as that stands where it stood and has this log. A copy
//! that begins a log of its own ends the old one for itself alone where that home goes on with it, and for all where it does
//! not: it moved, is gone, or fell behind a copy that has gone on in its place.

use super::LogPlaces;
use super::description::{Description, LogId};
use super::mark::Mark;
use super::view::read_committed;
use std::path::PathBuf;
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_store::sys::{path_text, text_path};

const FIRST_LINE: &str = "threadseal/1 home of a log";

/// A home, and the machine that it is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dwelling {
    host: Option<Digest>,
    home: String,
}

impl Dwelling {
    pub(super) fn of(places: &LogPlaces) -> Self {
        Self {
            host: places.host,
            home: path_text(&places.home),
        }
    }

    /// A name for it in files that homes on several machines may share.
    pub(super) fn name(&self) -> String {
        let host = self.host.map(|host| host.to_hex()).unwrap_or_default();
        let digest = Digest::tagged("log home", &[host.as_bytes(), self.home.as_bytes()]);
        digest.to_hex()[..16].to_owned()
    }

    pub(super) fn to_text(&self) -> String {
        let host = self.host.map_or("-".to_owned(), |host| host.to_hex());
        format!("{FIRST_LINE}\n{host}\n{}\n", self.home)
    }

    /// Where it is. Who wrote it down before names of paths were escaped wrote them as they are.
    fn path(&self) -> PathBuf {
        text_path(&self.home).unwrap_or_else(|| PathBuf::from(&self.home))
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(FIRST_LINE)?.strip_prefix('\n')?;
        let (host, home) = rest.split_once('\n')?;
        let host = match host {
            "-" => None,
            hex => Some(Digest::parse_hex(hex)?),
        };
        let home = home.strip_suffix('\n')?.to_owned();
        Some(Self { host, home })
    }
}

impl LogPlaces {
    /// Has a second place remember this home as the log's own, unless it knows another one that still has this log, as far as can
    /// be seen from here.
    pub(super) fn claim(&self, mark: &Mark, id: LogId) -> Result<(), Error> {
        let here = Dwelling::of(self);
        match mark.dwelling() {
            Some(known) if known == here || self.has(&known, id) => Ok(()),
            _ => mark.remember(&here),
        }
    }

    /// Does the log belong to another home, which goes on with it? One on another machine is not asked: that does not
    /// go on here.
    pub(super) fn lives_elsewhere(
        &self,
        id: LogId,
        description: Option<&Description>,
        marks: &[Mark],
    ) -> bool {
        let others: Vec<Dwelling> = marks.iter().filter_map(Mark::dwelling).collect();
        let others = others.iter().filter(|known| **known != Dwelling::of(self));
        let mut others = others.filter(|known| !self.is_this_home(known));
        others.any(|known| {
            known.host != self.host
                || self.has(known, id)
                    && self.goes_on(known, id, description, marks).unwrap_or(false)
        })
    }

    /// Is this home there, on this machine, and does it have this log?
    fn has(&self, known: &Dwelling, id: LogId) -> bool {
        known.host == self.host
            && !self.is_this_home(known)
            && self.at(known).current_id().ok().flatten() == Some(id)
    }

    /// By another name, or where it stood before.
    fn is_this_home(&self, known: &Dwelling) -> bool {
        let [there, here] = [&known.path(), &self.home].map(|path| self.fs.canonicalize(path).ok());
        known.host == self.host && there.is_some() && there == here
    }

    /// Does the log there continue all that the second places know?
    fn goes_on(
        &self,
        known: &Dwelling,
        id: LogId,
        description: Option<&Description>,
        marks: &[Mark],
    ) -> Result<bool, Error> {
        let place = self.at(known).place(id);
        let there = Description::read(&place, id)?;
        if description.is_some_and(|here| here.key != there.key) {
            return Ok(false);
        }
        let log = read_committed(&place, &there)?;
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

    fn at(&self, known: &Dwelling) -> Self {
        Self {
            fs: Arc::clone(&self.fs),
            home: known.path(),
            ..self.clone()
        }
    }
}
