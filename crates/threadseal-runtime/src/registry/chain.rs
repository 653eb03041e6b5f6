//! Chains of threads, each continuing the one before.
//!
//! ```text
//! first ⇄ … ⇄ last     forward: continuation_thread_id     back: continuation_of
//! ```
//! Both walks remember the threads that they visited. Pointers of a damaged registry may lead in a
//! circle, to nothing, or to a text that must not become a path. Rye returns the missing id as the
//! end of the chain; here a chain that leads nowhere has no end.

use super::Thread;
use crate::bounds::MAX_CHAIN_THREADS;
use crate::status::Status;
use std::collections::HashSet;
use std::fmt;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::ThreadId;

/// A chain.
#[derive(Debug, Clone, PartialEq)]
pub struct Chain {
    /// Its threads, the first one first, as far as pointers lead.
    pub threads: Vec<Thread>,
    /// The fault that breaks it.
    pub fault: Option<ChainFault>,
}

/// A fault of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChainFault {
    /// Pointers lead back to this thread.
    Cycle(ThreadId),
    /// A pointer leads to this thread, which the registry does not have.
    Missing(ThreadId),
    /// A pointer is this text, which is no id.
    NoId(String),
    /// The thread before this one has another successor.
    Forked(ThreadId),
    /// It has more than [`MAX_CHAIN_THREADS`] threads.
    TooLong,
}

impl fmt::Display for ChainFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cycle(id) => write!(f, "the chain leads back to {id}"),
            Self::Missing(id) => write!(f, "the chain leads to {id}, which is not registered"),
            Self::NoId(text) => write!(f, "the chain leads to {text:?}, which is not a thread id"),
            Self::Forked(id) => write!(f, "the predecessor of {id} is continued by another thread"),
            Self::TooLong => write!(f, "the chain has more than {MAX_CHAIN_THREADS} threads"),
        }
    }
}

/// The chain of `id`, from its first thread on.
pub(super) fn whole(
    id: &ThreadId,
    get: impl Fn(&ThreadId) -> Result<Option<Thread>, Error>,
) -> Result<Chain, Error> {
    let asked = known(id, &get)?;
    let (mut first, back) = walk(asked, |thread| thread.continuation_of.clone(), &get)?;
    let Some(root) = first.pop() else {
        return Err(unknown(id));
    };
    let (threads, forward) = walk(root, |thread| thread.continuation.clone(), &get)?;
    let member = threads.iter().any(|thread| thread.id == *id);
    let fork = (!member).then(|| {
        // The thread at which the way back left the way forward.
        let branch = first.iter().rev().find(|thread| {
            let on = |other: &Thread| other.id == thread.id;
            !threads.iter().any(on)
        });
        ChainFault::Forked(branch.map_or_else(|| id.clone(), |thread| thread.id.clone()))
    });
    Ok(Chain {
        threads,
        fault: back.or(forward).or(fork),
    })
}

/// The thread to which `continued` ones lead from `id` on.
pub(super) fn last(
    id: &ThreadId,
    get: impl Fn(&ThreadId) -> Result<Option<Thread>, Error>,
) -> Result<Thread, Error> {
    let next = |thread: &Thread| match thread.status {
        Ok(Status::Continued) => thread.continuation.clone(),
        _ => None,
    };
    let (mut threads, fault) = walk(known(id, &get)?, next, &get)?;
    match (threads.pop(), fault) {
        (Some(last), None) if last.status == Ok(Status::Continued) => Err(Error::refused(format!(
            "{} is continued, but its successor is not recorded",
            last.id
        ))),
        (Some(last), None) => Ok(last),
        (_, Some(fault)) => Err(Error::refused(fault.to_string())),
        (None, None) => Err(unknown(id)),
    }
}

/// Follows `next` from `start`: the threads on the way, with `start`, and why the walk stopped too
/// early.
fn walk(
    start: Thread,
    next: impl Fn(&Thread) -> Option<String>,
    get: impl Fn(&ThreadId) -> Result<Option<Thread>, Error>,
) -> Result<(Vec<Thread>, Option<ChainFault>), Error> {
    let mut seen = HashSet::from([start.id.clone()]);
    let mut passed = vec![start];
    loop {
        let Some(text) = passed.last().and_then(&next) else {
            return Ok((passed, None));
        };
        let Ok(id) = ThreadId::parse(&text) else {
            return Ok((passed, Some(ChainFault::NoId(text))));
        };
        if !seen.insert(id.clone()) {
            return Ok((passed, Some(ChainFault::Cycle(id))));
        }
        if passed.len() >= MAX_CHAIN_THREADS {
            return Ok((passed, Some(ChainFault::TooLong)));
        }
        match get(&id)? {
            Some(thread) => passed.push(thread),
            None => return Ok((passed, Some(ChainFault::Missing(id)))),
        }
    }
}

fn known(
    id: &ThreadId,
    get: impl Fn(&ThreadId) -> Result<Option<Thread>, Error>,
) -> Result<Thread, Error> {
    get(id)?.ok_or_else(|| unknown(id))
}

pub(super) fn unknown(id: &ThreadId) -> Error {
    Error::new(
        ErrorKind::Refused,
        format!("no thread {id} is registered here"),
    )
}
