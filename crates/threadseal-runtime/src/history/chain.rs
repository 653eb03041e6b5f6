//! [`VerifiedChain`]: threads that continue each other, each verified, each naming the next.
//!
//! ```text
//! line 1 of a thread   predecessor: a seal of the one before;
//!                      meta.predecessor_thread; meta.inherited_messages: how many of the
//!                      predecessor's last messages it inherited
//! event                conversation_opened {text}: the text before those
//! the one before       thread_resumed | thread_handoff {new_thread_id},
//!                      whose seal names the record of this one
//! ```
//! A transcript of Rye cannot be written to: only line 1 of the thread that adopted it names it.

use super::{Archive, VerifiedParent, VerifiedRecord, VerifiedThread, disagree};
use crate::bounds::MAX_CONVERSATION_BYTES;
use crate::model::{ChatMessage, ToolCall};
use serde_json::Value;
use std::collections::HashSet;
use threadseal_core::canon::json;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::{Head, ThreadId};

/// One thread of a verified chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainLink {
    /// Which thread.
    pub id: ThreadId,
    /// Its last seal.
    pub head: Head,
    /// Bytes of it that were taken and that no seal covers.
    pub unverified_bytes: u64,
}

/// A chain of threads, all verified, and its parent.
#[derive(Debug)]
pub struct VerifiedChain {
    threads: Vec<ChainLink>,
    last: VerifiedThread,
    messages: Vec<ChatMessage>,
    prompt: Option<String>,
    parent: Option<VerifiedParent>,
    unresolved: Vec<Value>,
}

impl VerifiedChain {
    /// Its threads, the first one first.
    pub fn threads(&self) -> &[ChainLink] {
        &self.threads
    }

    /// Its last thread.
    pub fn last(&self) -> &VerifiedThread {
        &self.last
    }

    /// The conversation of the last thread, with the inherited messages.
    pub fn messages(&self) -> &[ChatMessage] {
        &self.messages
    }

    /// The first message of the first thread.
    pub fn prompt(&self) -> Option<&str> {
        self.prompt.as_deref()
    }

    /// The thread that started the first thread, and so all of them.
    pub fn parent(&self) -> Option<&VerifiedParent> {
        self.parent.as_ref()
    }

    /// The calls of all its threads with unknown outcomes, the oldest first.
    pub fn unresolved(&self) -> &[Value] {
        &self.unresolved
    }

    /// Is `id` one of its threads?
    pub fn has(&self, id: &ThreadId) -> bool {
        self.threads.iter().any(|thread| thread.id == *id)
    }

    /// Bytes of all its threads that were taken and that no seal covers.
    pub fn unverified_bytes(&self) -> u64 {
        self.threads
            .iter()
            .map(|thread| thread.unverified_bytes)
            .sum()
    }

    /// Its last thread and the conversation.
    pub fn into_parts(self) -> (VerifiedThread, Vec<ChatMessage>) {
        (self.last, self.messages)
    }
}

/// The part of the conversation in one thread.
struct Piece {
    opening: Option<String>,
    /// Messages that it took over from the one before.
    inherited: usize,
    own: Vec<ChatMessage>,
    own_count: usize,
}

impl Piece {
    /// `needed`: how many of its last messages are needed.
    fn of(record: &VerifiedRecord, needed: usize) -> Result<Self, Error> {
        let meta = record.meta_of_line_1()?;
        let inherited = meta["inherited_messages"].as_u64().unwrap_or(0);
        let mut own = record.conversation()?;
        let own_count = own.len();
        own.drain(..own_count.saturating_sub(needed));
        Ok(Self {
            opening: opening(record),
            inherited: usize::try_from(inherited).map_err(|_| broken(record.id()))?,
            own,
            own_count,
        })
    }

    fn count(&self) -> Option<usize> {
        let opening = usize::from(self.opening.is_some());
        opening
            .checked_add(self.inherited)?
            .checked_add(self.own_count)
    }
}

/// Reads the chain that ends with `id`, at most `most` threads of it.
pub(super) fn read(
    archive: &Archive<'_>,
    id: &ThreadId,
    most: usize,
) -> Result<VerifiedChain, Error> {
    let last = archive.thread(id, None)?;
    archive.belongs_here(last.record())?;
    let parent = archive.parent(last.record())?;
    let mut threads = vec![link(last.record())];
    let mut seen = HashSet::from([last.record().head().record]);
    let mut pieces = vec![Piece::of(last.record(), usize::MAX)?];
    let mut held = size_of(&pieces[0].own);
    let mut needed = pieces[0].inherited;
    let mut unresolved = vec![last.record().unresolved()];
    let mut earlier: Option<VerifiedRecord> = None;
    loop {
        let record = earlier.as_ref().unwrap_or_else(|| last.record());
        let Some((before, head)) = before(archive, record)? else {
            break;
        };
        if threads.len() >= most {
            let text = format!("the chain of {id} has more than {most} threads");
            return Err(Error::new(ErrorKind::Limit, text));
        }
        let thread = archive.earlier(&before, head, record)?;
        names_each_other(thread.record(), record)?;
        if !seen.insert(head.record) {
            return Err(broken(record.id()));
        }
        let piece = Piece::of(thread.record(), needed)?;
        let taken = pieces.last().map_or(0, |piece| piece.inherited);
        if piece.count().is_none_or(|count| count < taken) {
            return Err(broken(record.id()));
        }
        held = held.saturating_add(size_of(&piece.own));
        if held > MAX_CONVERSATION_BYTES {
            let text =
                format!("the conversation of {id} has more than {MAX_CONVERSATION_BYTES} bytes");
            return Err(Error::new(ErrorKind::Limit, text));
        }
        needed = needed.saturating_sub(piece.own_count).min(piece.inherited);
        threads.push(link(thread.record()));
        unresolved.push(thread.record().unresolved());
        pieces.push(piece);
        earlier = Some(thread.into_parts().0);
    }
    let prompt = match pieces.last().map(|piece| (piece.own_count, &piece.own)) {
        Some((count, own)) if count == own.len() => told_first(own),
        _ => {
            let first = earlier.as_ref().unwrap_or_else(|| last.record());
            told_first(&first.conversation()?)
        }
    };
    threads.reverse();
    Ok(VerifiedChain {
        threads,
        messages: joined(pieces),
        unresolved: unresolved.into_iter().rev().flatten().collect(),
        prompt,
        parent,
        last,
    })
}

/// The thread that `record` continues, and the seal of it that line 1 names.
fn before(
    archive: &Archive<'_>,
    record: &VerifiedRecord,
) -> Result<Option<(ThreadId, Head)>, Error> {
    let Some(head) = record.manifest().and_then(|manifest| manifest.predecessor) else {
        return Ok(None);
    };
    let id = match record.text_of_line_1("predecessor_thread")? {
        Some(id) => id,
        None => {
            let known = archive.registry.get(record.id())?;
            let before = known.and_then(|thread| thread.continuation_of);
            before.ok_or_else(|| broken(record.id()))?
        }
    };
    Ok(Some((ThreadId::parse(&id)?, head)))
}

/// Does the link of `before` name the record of `after`, and have both the same parent?
fn names_each_other(before: &VerifiedRecord, after: &VerifiedRecord) -> Result<(), Error> {
    let Some(manifest) = before.manifest() else {
        // Rye's, to which nothing may be written any more.
        return Ok(());
    };
    let record = after.head().record;
    let named = before.successors().iter().any(|successor| {
        successor.thread == after.id().as_str() && successor.record == Some(record)
    });
    if !named {
        return Err(Error::refused(format!(
            "{} names the predecessor {}, whose record does not name this successor",
            after.id(),
            before.id()
        )));
    }
    if manifest.parent != after.manifest().and_then(|manifest| manifest.parent) {
        return Err(disagree(after.id()));
    }
    Ok(())
}

/// The conversation: from each thread the part that the next inherited, then the last thread's own.
fn joined(pieces: Vec<Piece>) -> Vec<ChatMessage> {
    let mut messages: Vec<ChatMessage> = Vec::new();
    for piece in pieces.into_iter().rev() {
        let dropped = messages.len().saturating_sub(piece.inherited);
        messages.drain(..dropped);
        if let Some(opening) = piece.opening {
            messages.insert(0, ChatMessage::User(opening));
        }
        messages.extend(piece.own);
    }
    messages
}

fn link(record: &VerifiedRecord) -> ChainLink {
    ChainLink {
        id: record.id().clone(),
        head: record.head(),
        unverified_bytes: record.unverified_bytes(),
    }
}

fn told_first(messages: &[ChatMessage]) -> Option<String> {
    messages.iter().find_map(|message| match message {
        ChatMessage::User(text) => Some(text.clone()),
        _ => None,
    })
}

/// The sealed text of the event `conversation_opened`, which comes before the first question.
fn opening(record: &VerifiedRecord) -> Option<String> {
    for line in record.lines().filter(|line| !line.unverified) {
        let event = json::parse_python(&line.bytes).ok()?.value;
        match event.get("event_type")?.as_str()? {
            "cognition_in" => return None,
            "conversation_opened" => {
                return event
                    .get("payload")?
                    .get("text")?
                    .as_str()
                    .map(str::to_owned);
            }
            _ => {}
        }
    }
    None
}

fn size_of(messages: &[ChatMessage]) -> usize {
    let call = |call: &ToolCall| call.id.len() + call.name.len() + call.input.to_string().len();
    messages
        .iter()
        .map(|message| match message {
            ChatMessage::User(text) => text.len(),
            ChatMessage::Assistant { text, calls } => {
                text.len() + calls.iter().map(call).sum::<usize>()
            }
            ChatMessage::ToolResult { content, .. } => content.len(),
        })
        .sum()
}

fn broken(id: &ThreadId) -> Error {
    Error::refused(format!("the predecessor of {id} does not match its record"))
}
