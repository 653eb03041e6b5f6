//! [`Shelf`]: what a viewer shows, and the JSON in which the page gets it.
//!
//! ```text
//! api/sessions         rows, newest first            threadseal.view.sessions/1
//! api/sessions/ID      the logs of a session         threadseal.view.session/1
//! api/search           turns with words              threadseal.view.search/1
//! api/trust            the keys of this host         threadseal.view.trust/1
//! api/graphs/ID, api/lineages/ID   to be drawn       threadseal.view.drawing/1
//! api/logs/LOG/bytes, seals, bodies                  as they are on the disk
//! api/logs/LOG/report  what this side found          threadseal.verify/1
//! api/live?log=LOG     an event for each change
//! ```

use serde::Serialize;
use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;

/// Most rows of one answer.
pub const MAX_ROWS: usize = 10_000;
/// Most hits of one answer.
pub const MAX_HITS: usize = 500;

/// Hex digits of a stamp.
const STAMP_DIGITS: usize = 16;
/// Most logs that a list follows.
pub const MAX_FOLLOWED: usize = 200;

/// Sessions, or the files that a person named.
pub trait Shelf: Send + Sync + 'static {
    /// Up to `most` rows behind the first `skip`, newest first.
    ///
    /// # Errors
    /// When they cannot be read.
    fn sessions(&self, skip: usize, most: usize) -> Result<Sessions, Error>;

    /// One session; `None` if there is none with this id.
    ///
    /// # Errors
    /// When it cannot be read.
    fn session(&self, id: &str) -> Result<Option<Session>, Error>;

    /// The bytes of a log, or what is beside it; `None` if there is none.
    ///
    /// # Errors
    /// When they cannot be read.
    fn open(&self, log: &str, what: What) -> Result<Option<Opened>, Error>;

    /// What changes with every change of a log or of its seals; `None` if there is none.
    fn stamp(&self, log: &str) -> Option<Stamp>;

    /// The logs of the newest sessions, each with its session; at most [`MAX_FOLLOWED`].
    fn newest(&self) -> Vec<(String, String)>;

    /// The report on a log, as `verify --json` prints it; `None` if there is no such log.
    ///
    /// # Errors
    /// When there is no verdict.
    fn report(&self, log: &str) -> Result<Option<Vec<u8>>, Error>;

    /// The keys by which [`Shelf::report`] judges.
    ///
    /// # Errors
    /// When they cannot be read.
    fn trust(&self) -> Result<Keys, Error>;

    /// Turns that have all words.
    ///
    /// # Errors
    /// When there is nothing to look for, or too much.
    fn search(&self, words: &str, most: usize) -> Result<Hits, Error>;

    /// A run of a graph, or a lineage, to be drawn; `None` if there is none with this id.
    ///
    /// # Errors
    /// When it cannot be read.
    fn drawing(&self, of: Drawn, id: &str) -> Result<Option<Drawing>, Error>;
}

/// Rows that were asked for.
#[derive(Debug, Default, Serialize)]
pub struct Sessions {
    /// How many there are in all.
    pub total: usize,
    /// The rows.
    pub sessions: Vec<Row>,
}

/// One session.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Row {
    /// Its id: `AGENT:ID`.
    pub id: String,
    /// What it is: `session`, `thread`, `graph`, `lineage` or `file`.
    pub kind: &'static str,
    /// The agent.
    pub agent: String,
    /// The folder of the project.
    pub project: Option<String>,
    /// The first words of the user.
    pub title: Option<String>,
    /// Times of its first and last turn, as 2026-01-31T12:00:00Z.
    pub begun: Option<String>,
    /// As `begun`.
    pub updated: Option<String>,
    /// Turns of its own log.
    pub turns: Option<u64>,
    /// Calls of tools, those of subagents included.
    pub tools: Option<u64>,
    /// Tokens of input and output, likewise.
    pub tokens: Option<u64>,
    /// Dollars, where the agent noted them.
    pub cost: Option<f64>,
    /// The model of the last turn that names one.
    pub model: Option<String>,
    /// How many subagents.
    pub sub_agents: usize,
    /// The word for its state.
    pub state: String,
    /// The same for a person.
    pub state_text: String,
    /// `green`, `amber` or `red`.
    pub light: &'static str,
}

/// The logs of a session.
#[derive(Debug, Serialize)]
pub struct Session {
    /// Its row.
    #[serde(flatten)]
    pub row: Row,
    /// Its own log, then those of subagents.
    pub logs: Vec<Log>,
    /// Sessions and threads that it is connected to.
    pub links: Vec<Link>,
    /// Lines that hold what looks like a secret.
    pub secrets: u64,
}

/// One log.
#[derive(Debug, Clone, Serialize)]
pub struct Log {
    /// Its name, in addresses.
    pub log: String,
    /// The log whose agent began this one's.
    pub parent: Option<String>,
    /// Its path on this machine.
    pub path: Option<String>,
    /// Its bytes.
    pub bytes: u64,
    /// The bytes of the seals beside it; 0 where it has its seals within.
    pub seals: u64,
    /// The bytes of its detached bodies; 0 where it has none.
    pub bodies: u64,
    /// `SEQ:DIGEST` of the newest seal of the record that this host knows.
    pub head: Option<String>,
    /// The mapping that reads it.
    pub format: Option<String>,
    /// As of a row.
    pub state: String,
    /// As of a row.
    pub state_text: String,
    /// As of a row.
    pub light: &'static str,
}

/// A connection to another session.
#[derive(Debug, Clone, Serialize)]
pub struct Link {
    /// `continues`, `continued_by`, `parent`, `child`, `graph` or `lineage`.
    pub kind: &'static str,
    /// The other's id.
    pub id: String,
}

/// What is opened of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The log.
    Bytes,
    /// The seals beside it.
    Seals,
    /// Its detached bodies.
    Bodies,
}

/// An opened file of a known size. More bytes than that are not read.
pub struct Opened {
    /// Its size.
    pub size: u64,
    /// Reads from the byte whose number is given on.
    pub read: Box<dyn FnOnce(u64) -> Result<Box<dyn Read + Send>, Error> + Send>,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened")
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

/// A state of a log on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Its bytes.
    pub bytes: u64,
    /// The bytes of its seals.
    pub seals: u64,
    /// Nanoseconds since 1970 of the last change of the log, its seals and its bodies.
    pub changed: [i128; 3],
}

impl Stamp {
    /// Another text for other bytes of the log, also for as many.
    pub fn of_log(&self) -> String {
        short(&[self.changed[0], i128::from(self.bytes)])
    }

    /// Another text for other seals or bodies.
    pub fn of_beside(&self) -> String {
        short(&[self.changed[1], self.changed[2], i128::from(self.seals)])
    }
}

fn short(numbers: &[i128]) -> String {
    let mut hex = Digest::of(format!("{numbers:?}").as_bytes()).to_hex();
    hex.truncate(STAMP_DIGITS);
    hex
}

/// The keys that this host trusts.
#[derive(Debug, Default, Serialize)]
pub struct Keys {
    /// Each of them.
    pub keys: Vec<Key>,
    /// The file of the trust store.
    pub store: String,
}

/// One of them.
#[derive(Debug, Serialize)]
pub struct Key {
    /// Its name.
    pub name: String,
    /// What it may sign.
    pub usage: Vec<&'static str>,
    /// 64 hex digits.
    pub public: String,
}

/// What is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drawn {
    /// The nodes of a run of a graph, or the threads of a chain.
    Graph,
    /// The links of an agent.
    Lineage,
}

/// Boxes and arrows.
#[derive(Debug, Default, Serialize)]
pub struct Drawing {
    /// The boxes.
    pub nodes: Vec<Node>,
    /// The arrows.
    pub edges: Vec<Edge>,
}

/// One box.
#[derive(Debug, Serialize)]
pub struct Node {
    /// Its name among the others.
    pub id: String,
    /// What is written in it.
    pub label: String,
    /// Its state, in one word.
    pub state: String,
    /// The session that it shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// One arrow.
#[derive(Debug, Serialize)]
pub struct Edge {
    /// The box where it begins.
    pub from: String,
    /// The box where it ends.
    pub to: String,
    /// `fork` where two histories begin.
    pub kind: &'static str,
}

/// Turns that were found.
#[derive(Debug, Default, Serialize)]
pub struct Hits {
    /// The turns.
    pub hits: Vec<Hit>,
    /// Are there more?
    pub more: bool,
}

/// One turn that was found.
#[derive(Debug, Clone, Serialize)]
pub struct Hit {
    /// The session.
    pub id: String,
    /// Its log.
    pub log: String,
    /// The turn, from 0.
    pub turn: u64,
    /// Its role.
    pub role: String,
    /// Its time.
    pub time: Option<String>,
    /// Text around the first word.
    pub snippet: String,
}

/// Several shelves as one. What one does not have is asked of the next.
pub struct Several {
    shelves: Vec<Arc<dyn Shelf>>,
    /// The rows of all, as they were when the first ones were asked for.
    rows: Mutex<Vec<Row>>,
}

impl Several {
    /// These, in this order.
    pub fn new(shelves: Vec<Arc<dyn Shelf>>) -> Self {
        Self {
            shelves,
            rows: Mutex::default(),
        }
    }

    fn first<T>(
        &self,
        ask: impl Fn(&dyn Shelf) -> Result<Option<T>, Error>,
    ) -> Result<Option<T>, Error> {
        for shelf in &self.shelves {
            if let Some(found) = ask(&**shelf)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

impl Shelf for Several {
    fn sessions(&self, skip: usize, most: usize) -> Result<Sessions, Error> {
        if skip == 0 {
            let mut all = Vec::new();
            for shelf in &self.shelves {
                all.extend(shelf.sessions(0, usize::MAX)?.sessions);
            }
            all.sort_by(|one, other| other.updated.cmp(&one.updated));
            *self.rows.lock().unwrap_or_else(PoisonError::into_inner) = all;
        }
        // The later pages of a list are of the same state.
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Sessions {
            total: rows.len(),
            sessions: rows.iter().skip(skip).take(most).cloned().collect(),
        })
    }

    fn session(&self, id: &str) -> Result<Option<Session>, Error> {
        self.first(|shelf| shelf.session(id))
    }

    fn open(&self, log: &str, what: What) -> Result<Option<Opened>, Error> {
        self.first(|shelf| shelf.open(log, what))
    }

    fn stamp(&self, log: &str) -> Option<Stamp> {
        self.shelves.iter().find_map(|shelf| shelf.stamp(log))
    }

    fn newest(&self) -> Vec<(String, String)> {
        let all = self.shelves.iter().flat_map(|shelf| shelf.newest());
        all.take(MAX_FOLLOWED).collect()
    }

    fn report(&self, log: &str) -> Result<Option<Vec<u8>>, Error> {
        self.first(|shelf| shelf.report(log))
    }

    fn trust(&self) -> Result<Keys, Error> {
        self.shelves
            .first()
            .map_or_else(|| Ok(Keys::default()), |shelf| shelf.trust())
    }

    fn search(&self, words: &str, most: usize) -> Result<Hits, Error> {
        let mut all = Hits::default();
        for shelf in &self.shelves {
            let found = shelf.search(words, most)?;
            all.more |= found.more;
            all.hits.extend(found.hits);
        }
        all.more |= all.hits.len() > most;
        all.hits.truncate(most);
        Ok(all)
    }

    fn drawing(&self, of: Drawn, id: &str) -> Result<Option<Drawing>, Error> {
        self.first(|shelf| shelf.drawing(of, id))
    }
}
