//! The result of a mapping: turns in order, and the account of the source.

use super::account::Account;
use super::draft::{Draft, Message};
use super::packed::{self, Drafts};
use threadseal_core::canon::json::Value;
use threadseal_core::digest::{Digest, Hasher};
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_TURN_BYTES;
use threadseal_core::report::Conversion;
use threadseal_formats::scroll::{CONVERSION_ROLE, Turn};

/// The result of a mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapped {
    /// Turns, in order.
    pub drafts: Drafts,
    /// The fate of every part of the source.
    pub account: Account,
}

impl Mapped {
    /// All turns at once, as trees of values.
    pub fn turns(&self) -> Vec<Draft> {
        self.drafts.iter().collect()
    }

    /// [`Drafts::into_turns`], all at once.
    ///
    /// # Errors
    /// The first turn that exceeds the bounds of a scroll.
    pub fn into_turns(self) -> Result<Vec<Turn>, Error> {
        self.drafts.into_turns().collect()
    }
}

/// Room in a turn for hash, link, signature and the claim about the source.
const SEAL_BYTES: usize = 4 << 10;

impl Drafts {
    /// The digest of all turns before they are linked and sealed: their canonical texts, each with
    /// a line feed.
    ///
    /// # Errors
    /// The first of [`Self::into_turns`].
    pub fn content(&self) -> Result<Digest, Error> {
        let mut hasher = Hasher::new();
        for (index, draft) in (0..).zip(self.iter()) {
            hasher.update(turn(index, draft)?.canonical());
            hasher.update(b"\n");
        }
        Ok(hasher.finish())
    }

    /// Adds the claim about the source, as the last message of the first turn.
    pub fn claim(&mut self, conversion: &Conversion) {
        let first = self.iter().next();
        if let Some(mut first) = first {
            first.messages.push(Message {
                role: CONVERSION_ROLE.to_owned(),
                content: Value::Array(vec![conversion.to_value()]),
            });
            self.set(0, &first);
        }
    }

    /// The turns, numbered from 0, each made on demand.
    ///
    /// A turn beyond [`MAX_TURN_BYTES`] is [`ErrorKind::Limit`]: no scroll may hold it.
    pub fn into_turns(self) -> impl Iterator<Item = Result<Turn, Error>> {
        let numbered = (0..).zip(self);
        numbered.map(|(index, draft)| turn(index, draft))
    }

    /// Checks that a scroll may hold every turn, before the first is written.
    ///
    /// # Errors
    /// The first of [`Self::into_turns`].
    pub fn check(&self) -> Result<(), Error> {
        self.large(MAX_TURN_BYTES / packed::MAX_GROWTH)
            .try_for_each(|(index, draft)| turn(index, draft).map(drop))
    }
}

fn turn(index: u64, draft: Draft) -> Result<Turn, Error> {
    let turn = draft
        .into_turn(index)
        .map_err(|violation| Error::invalid(format!("turn {index}: {violation}")))?;
    if turn.canonical().len() + SEAL_BYTES > MAX_TURN_BYTES {
        let message = format!("turn {index} is larger than {MAX_TURN_BYTES} bytes");
        return Err(Error::new(ErrorKind::Limit, message));
    }
    Ok(turn)
}
