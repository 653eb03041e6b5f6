//! The result of a mapping: turns in order, and the account of the source.

use super::account::Account;
use super::draft::Draft;
use super::packed::{self, Drafts};
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_TURN_BYTES;
use threadseal_formats::scroll::Turn;

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

impl Drafts {
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
    // The seal adds hash and signature, well below 1 KiB.
    if turn.canonical().len() + (1 << 10) > MAX_TURN_BYTES {
        let message = format!("turn {index} is larger than {MAX_TURN_BYTES} bytes");
        return Err(Error::new(ErrorKind::Limit, message));
    }
    Ok(turn)
}
