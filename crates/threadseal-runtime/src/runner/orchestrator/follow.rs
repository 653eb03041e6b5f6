//! Following a thread while it runs: its lines as they come, and what the seals then confirm.
//!
//! ```text
//! notice of a folder, of the registry or of a database; a poll, in any case
//!   ─► bytes after the last seal ─► whole lines: shown as not sealed yet
//!        └─ a checkpoint is among them ─► the whole record verified ─► its lines shown as sealed
//!             ├─ a child began ─► followed too, if its line 1 is that of the named record
//!             └─ a link, or the end by a successor ─► followed next, if its line 1 names this record
//! ```
//! Each line is shown once. What was shown before its seal is compared with what the seal covers. A
//! record that does not verify ends the look at it: nothing of it is shown any more. A tail decides
//! nothing: neither an end, nor a successor, nor a child is taken from there.

use super::records::{Need, Past, Records};
use super::wait::{Changes, TIMEOUT, WAITING_STOPPED};
use crate::bounds::{MAX_CONVERSATION_BYTES, MAX_FOLLOWED_THREADS, POLL_INTERVAL, REGISTRY_POLL};
use crate::registry::{Subject, Thread};
use crate::toolbox::Cancel;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::{Head, RecordId, ThreadId};
use threadseal_formats::transcript::event::is_terminal;
use threadseal_store::read::{Source as _, open_regular};

/// How often a record is verified before it is refused: a seal may come in between.
const MAX_LOOKS: usize = 4;
/// The status of a thread that runs by its row, and whose process is gone.
pub const ORPHANED: &str = "orphaned";

/// How to follow a thread.
#[derive(Debug, Clone, Copy)]
pub struct Following {
    /// Its children, and theirs.
    pub children: bool,
    /// Of the lines that are there already, show so many of each thread.
    pub tail: Option<u64>,
}

/// A thread that is followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed {
    /// The thread.
    pub id: ThreadId,
    /// How many generations below the thread that was asked for, or its successors.
    pub depth: usize,
}

/// What a follower sees of a thread.
#[derive(Debug)]
pub enum Seen<'a> {
    /// A line of its record, without its LF.
    Line {
        /// Its number, from 1.
        number: u64,
        /// Is it under a seal that verified?
        sealed: bool,
        /// The line: of a sealed one with its bodies, of another as it is in the file.
        bytes: &'a [u8],
    },
    /// A seal verified, and covers all lines so far.
    Sealed {
        /// The seal.
        head: Head,
        /// How many lines it covers.
        lines: u64,
        /// The row of the thread, which proves nothing.
        row: Option<Box<Thread>>,
    },
    /// So many lines that were shown as not sealed are not in the record any more.
    Withdrawn(u64),
    /// This thread continues it.
    Continued(&'a ThreadId),
    /// The record of this child cannot be shown, for this reason.
    Refused(&'a Error),
}

/// What must be true of line 1 of a record.
#[derive(Debug, Clone, Copy)]
enum Expected {
    Any,
    /// The record that its parent began.
    Child(RecordId),
    /// One that continues this record.
    After(RecordId),
}

struct Follower {
    thread: Followed,
    path: PathBuf,
    expected: Expected,
    /// Its record, once its line 1 verified.
    record: Option<RecordId>,
    /// Bytes and lines under the last seal that verified.
    covered: u64,
    lines: u64,
    /// The whole lines after it that were shown.
    shown: Vec<u8>,
    /// The size of the file at the last look.
    size: u64,
    is_over: bool,
    /// Is it looked at no more?
    is_refused: bool,
}

/// Other threads that verified lines name.
#[derive(Default)]
struct Named {
    children: Vec<(ThreadId, RecordId)>,
    successor: Option<ThreadId>,
}

impl Records {
    /// Shows a thread, its children and its successors as they run, until the end of the last
    /// successor. Returns its result, as [`Records::wait`] does. The status is [`ORPHANED`] where
    /// its process is gone, and `waiting_stopped` where `cancel` ended the look.
    ///
    /// # Errors
    /// Kind `Refused` when it is unknown, or its record may not be trusted; errors of registry and
    /// disk.
    pub fn follow(
        &self,
        id: &ThreadId,
        how: Following,
        cancel: &Cancel,
        see: &mut dyn FnMut(&Followed, Seen<'_>),
    ) -> Result<Value, Error> {
        self.row(id)?;
        let mut changes = Changes::of(self, Subject::Change);
        let mut all = vec![Follower::of(self, id, 0, Expected::Any)];
        let mut last = 0;
        loop {
            let mark = changes.mark();
            let mut has_news = false;
            let mut at = 0;
            while at < all.len() {
                changes.also(&all[at].path);
                let (is_new, named) = all[at].look(self, how.tail, see)?;
                has_news |= is_new;
                let (depth, record) = (all[at].thread.depth, all[at].record);
                for (child, record) in named.children.into_iter().filter(|_| how.children) {
                    if all.len() < MAX_FOLLOWED_THREADS {
                        let expected = Expected::Child(record);
                        all.push(Follower::of(self, &child, depth + 1, expected));
                    }
                }
                if let (Some(next), Some(record), true) = (named.successor, record, at == last) {
                    see(&all[at].thread, Seen::Continued(&next));
                    last = all.len();
                    all.push(Follower::of(self, &next, 0, Expected::After(record)));
                }
                at += 1;
            }
            let now = &all[last];
            if now.is_over || now.record.is_none() {
                let waited = self.wait(std::slice::from_ref(id), Duration::ZERO, cancel)?;
                let status = waited["results"][id.as_str()]["status"].as_str();
                if status != Some(TIMEOUT) && status != Some(WAITING_STOPPED) {
                    return Ok(waited);
                }
            }
            if cancel.is_set() {
                return Ok(left(id, WAITING_STOPPED));
            }
            if !has_news && self.is_left_alone(&now.thread.id)? {
                return Ok(left(id, ORPHANED));
            }
            changes.wait(mark, REGISTRY_POLL, cancel);
        }
    }

    /// Is the process of a thread in files gone?
    fn is_left_alone(&self, id: &ThreadId) -> Result<bool, Error> {
        if matches!(self.registry.notices(Subject::Change), Ok(Some(_))) {
            return Ok(false);
        }
        let row = self.registry.get(id)?;
        row.map_or(Ok(false), |row| self.is_orphaned(&row))
    }
}

/// The result of a thread that has none.
fn left(id: &ThreadId, status: &str) -> Value {
    json!({"success": false, "results": {
        id.as_str(): {"success": false, "thread_id": id.as_str(), "status": status},
    }})
}

impl Follower {
    fn of(records: &Records, id: &ThreadId, depth: usize, expected: Expected) -> Self {
        Self {
            path: records.project.thread(id).transcript(),
            thread: Followed {
                id: id.clone(),
                depth,
            },
            expected,
            record: None,
            covered: 0,
            lines: 0,
            shown: Vec::new(),
            size: 0,
            is_over: false,
            is_refused: false,
        }
    }

    /// Shows what is new, and returns whether anything is, and the threads that sealed lines name.
    fn look(
        &mut self,
        records: &Records,
        tail: Option<u64>,
        see: &mut dyn FnMut(&Followed, Seen<'_>),
    ) -> Result<(bool, Named), Error> {
        match self.try_look(records, tail, see) {
            Err(error) if self.thread.depth > 0 => {
                self.is_refused = true;
                see(&self.thread, Seen::Refused(&error));
                Ok((true, Named::default()))
            }
            looked => looked,
        }
    }

    fn try_look(
        &mut self,
        records: &Records,
        tail: Option<u64>,
        see: &mut dyn FnMut(&Followed, Seen<'_>),
    ) -> Result<(bool, Named), Error> {
        let found = records.host.fs.symlink_metadata(&self.path);
        let Some(found) = found.ok().filter(|_| !self.is_refused) else {
            return Ok((false, Named::default()));
        };
        if found.size == self.size {
            return Ok((false, Named::default()));
        }
        self.size = found.size;
        let mut named = Named::default();
        let mut rest = self.after_seal(records)?;
        let grown = rest.get(self.shown.len()..);
        let grown = grown.filter(|_| rest.starts_with(&self.shown));
        if self.record.is_none() || grown.is_none_or(has_seal) {
            let past = self.verified(records)?;
            named = self.show_sealed(records, &past, tail, see)?;
            let rest_of = usize::try_from(self.covered).ok();
            rest = rest_of
                .and_then(|from| past.bytes().get(from..))
                .unwrap_or_default()
                .to_vec();
            self.size = past.bytes().len() as u64;
        }
        self.show_unsealed(&rest, see);
        Ok((true, named))
    }

    /// The bytes after the last seal that verified.
    fn after_seal(&self, records: &Records) -> Result<Vec<u8>, Error> {
        let file = open_regular(&*records.host.fs, &self.path)?;
        let most = self.covered.saturating_add(MAX_CONVERSATION_BYTES as u64);
        let mut bytes = Vec::new();
        let (mut chunks, mut chunk) = (file.range(self.covered, most), Vec::new());
        loop {
            chunks.next_chunk(&mut chunk)?;
            if chunk.is_empty() {
                return Ok(bytes);
            }
            bytes.extend_from_slice(&chunk);
        }
    }

    /// The record, if it verifies and is the expected one.
    fn verified(&self, records: &Records) -> Result<Past, Error> {
        let mut looks = 1;
        let past = loop {
            match records.past(&self.thread.id, Need::Sealed) {
                // A head that is newer than the bytes that were read.
                Err(error) if error.kind() == ErrorKind::Refused && looks < MAX_LOOKS => {
                    looks += 1;
                    std::thread::sleep(POLL_INTERVAL);
                }
                looked => break looked?,
            }
        };
        let line_1 = &past.manifest;
        let is_expected = match self.expected {
            Expected::Any => true,
            Expected::Child(record) => line_1.record == record,
            Expected::After(record) => line_1.predecessor.map(|head| head.record) == Some(record),
        };
        if !is_expected || self.record.is_some_and(|record| record != line_1.record) {
            return Err(Error::refused(format!(
                "{} has another record than the one that names it",
                self.thread.id
            )));
        }
        Ok(past)
    }

    /// Shows the lines that seals cover since the last look.
    fn show_sealed(
        &mut self,
        records: &Records,
        past: &Past,
        tail: Option<u64>,
        see: &mut dyn FnMut(&Followed, Seen<'_>),
    ) -> Result<Named, Error> {
        let (lines, head) = (past.lines()?, past.sealed());
        let fresh = past
            .bytes()
            .get(usize::try_from(self.covered).unwrap_or(usize::MAX)..);
        let is_kept = fresh.is_some_and(|fresh| fresh.starts_with(&self.shown));
        let shown = count_lines(&self.shown);
        if !is_kept {
            see(&self.thread, Seen::Withdrawn(shown));
        }
        let last = lines.iter().last().map_or(0, |line| line.number);
        let mut known = self.lines + if is_kept { shown } else { 0 };
        if let (None, Some(tail)) = (self.record, tail) {
            known = known.max(last.saturating_sub(tail));
        }
        let mut named = Named::default();
        for line in lines.iter().filter(|line| line.number > self.lines) {
            let event = serde_json::from_slice::<Value>(&line.bytes).unwrap_or_default();
            self.is_over |= named.take(&event);
            if line.number > known {
                let (number, bytes) = (line.number, &*line.bytes);
                let sealed = true;
                see(
                    &self.thread,
                    Seen::Line {
                        number,
                        sealed,
                        bytes,
                    },
                );
            }
        }
        let is_new = head.size > self.covered;
        (self.record, self.lines) = (Some(past.manifest.record), last);
        self.covered = head.size;
        self.shown.clear();
        if is_new {
            let row = records.registry.get(&self.thread.id)?.map(Box::new);
            let lines = last;
            see(&self.thread, Seen::Sealed { head, lines, row });
        }
        Ok(named)
    }

    /// Shows the whole lines after the last seal that were not shown yet.
    fn show_unsealed(&mut self, rest: &[u8], see: &mut dyn FnMut(&Followed, Seen<'_>)) {
        let whole = rest.iter().rposition(|byte| *byte == b'\n');
        let whole = &rest[..whole.map_or(0, |at| at + 1)];
        let fresh = whole.get(self.shown.len()..).unwrap_or_default();
        let first = self.lines + count_lines(&self.shown) + 1;
        for (line, number) in fresh.split_inclusive(|byte| *byte == b'\n').zip(first..) {
            let bytes = line.strip_suffix(b"\n").unwrap_or(line);
            let sealed = false;
            see(
                &self.thread,
                Seen::Line {
                    number,
                    sealed,
                    bytes,
                },
            );
        }
        self.shown.extend_from_slice(fresh);
    }
}

impl Named {
    /// Takes the threads that a sealed event names. Does it end its own?
    fn take(&mut self, event: &Value) -> bool {
        let kind = event["event_type"].as_str().unwrap_or_default();
        let payload = &event["payload"];
        let thread = |name: &str| {
            let id = payload[name].as_str();
            id.and_then(|id| ThreadId::parse(id).ok())
        };
        if kind == "child_thread_started" {
            let record = payload["child_record"]
                .as_str()
                .and_then(RecordId::parse_hex);
            self.children.extend(thread("child_thread_id").zip(record));
        }
        if matches!(
            kind,
            "thread_resumed" | "thread_handoff" | "thread_continued"
        ) {
            self.successor = thread("new_thread_id").or_else(|| self.successor.take());
        }
        is_terminal(kind)
    }
}

/// Is one of these whole lines a checkpoint, or would be one?
fn has_seal(lines: &[u8]) -> bool {
    let mut lines = lines.split(|byte| *byte == b'\n');
    lines.any(|line| {
        let event = serde_json::from_slice::<Value>(line).unwrap_or_default();
        event["event_type"] == "checkpoint"
    })
}

fn count_lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}
