//! Ids of sessions, and the search by a unique prefix.

use super::look::hash_name;
use crate::Agent;
use std::fmt;
use std::str::FromStr;
use threadseal_core::error::{Error, ErrorKind};

/// Most bytes of the part after the colon.
pub const MAX_SESSION_ID_BYTES: usize = 128;

/// Digits of the mark in the id of a log that claims the id of another one.
pub const MARK_DIGITS: usize = 8;

/// The id of a session: `claude-code:3f9c1a2e-…`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId {
    agent: Agent,
    own: String,
}

/// The beginning of an id, with or without its agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPrefix {
    agent: Option<Agent>,
    own: String,
}

/// The result of a search by a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found<T> {
    /// No id begins so.
    None,
    /// One id begins so, or is exactly this.
    One(T),
    /// Several ids begin so.
    Many(Vec<T>),
}

impl SessionId {
    /// The session that `agent` calls `own`.
    ///
    /// An id is part of names of files and of commands. One that is not 1 to
    /// [`MAX_SESSION_ID_BYTES`] letters, digits, `-`, `_` and `.`, not at the beginning, is
    /// replaced by `x` and 32 hex digits of its SHA-256.
    pub fn new(agent: Agent, own: &str) -> Self {
        Self {
            agent,
            own: hash_name(own),
        }
    }

    /// The agent.
    pub fn agent(&self) -> Agent {
        self.agent
    }

    /// The part after the colon.
    pub fn own(&self) -> &str {
        &self.own
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&format!("{}:{}", self.agent, self.own))
    }
}

impl FromStr for SessionId {
    type Err = Error;

    /// # Errors
    /// Kind `InvalidInput` if the text is not `agent:id`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let refuse = |why: &str| {
            let text = format!("{text} is not the id of a session: {why}; hint: threadseal list");
            Error::new(ErrorKind::InvalidInput, text)
        };
        let (agent, own) = text
            .split_once(':')
            .ok_or_else(|| refuse("it has no agent before a colon"))?;
        let agent = agent.parse::<Agent>()?;
        if hash_name(own) != own {
            return Err(refuse("letters, digits, - _ and . are allowed"));
        }
        Ok(Self::new(agent, own))
    }
}

impl FromStr for SessionPrefix {
    type Err = Error;

    /// # Errors
    /// Kind `InvalidInput` if no id can begin so.
    fn from_str(text: &str) -> Result<Self, Error> {
        let (agent, own) = match text.split_once(':') {
            Some((agent, own)) => (Some(agent.parse::<Agent>()?), own),
            None => (None, text),
        };
        let fits = own.bytes().all(is_id_byte) && own.len() <= MAX_SESSION_ID_BYTES;
        if !fits || (own.is_empty() && agent.is_none()) {
            let text = format!("no id of a session begins with {text}; hint: threadseal list");
            return Err(Error::new(ErrorKind::InvalidInput, text));
        }
        Ok(Self {
            agent,
            own: own.to_owned(),
        })
    }
}

impl SessionPrefix {
    /// Whether `id` begins so.
    pub fn matches(&self, id: &SessionId) -> bool {
        self.agent.is_none_or(|agent| agent == id.agent) && id.own.starts_with(&self.own)
    }

    /// Whether `id` is exactly this.
    fn is(&self, id: &SessionId) -> bool {
        self.matches(id) && id.own == self.own
    }
}

/// Whether `own` is the id that a log gets which claims the id `of` of another one: `of`, `-` and a mark.
pub fn is_beside(own: &str, of: &str) -> bool {
    let mark = own.strip_prefix(of).and_then(|rest| rest.strip_prefix('-'));
    let is_digit = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
    mark.is_some_and(|mark| mark.len() == MARK_DIGITS && mark.bytes().all(is_digit))
}

/// The sessions among `all` whose id begins with `prefix`. An id that is exactly the prefix is
/// found even if longer ids begin so, and the id that all others claim before them.
pub fn find<T>(
    prefix: &SessionPrefix,
    all: impl IntoIterator<Item = T>,
    id_of: impl Fn(&T) -> &SessionId,
) -> Found<T> {
    let matching = all.into_iter().filter(|one| prefix.matches(id_of(one)));
    let mut matching: Vec<T> = matching.collect();
    let exact = matching.iter().filter(|one| prefix.is(id_of(one))).count();
    if exact == 1 {
        matching.retain(|one| prefix.is(id_of(one)));
    }
    let is_claimed = |of: &SessionId, by: &SessionId| {
        of == by || of.agent == by.agent && is_beside(&by.own, &of.own)
    };
    let claimed = matching.iter().position(|of| {
        let mut others = matching.iter();
        others.all(|other| is_claimed(id_of(of), id_of(other)))
    });
    match claimed {
        Some(place) => Found::One(matching.swap_remove(place)),
        None if matching.is_empty() => Found::None,
        None => Found::Many(matching),
    }
}

pub(super) fn is_id_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}
