//! The bounds of a turn, as its seals set them.
//!
//! ```text
//! seal of N-1 turns │ events … seal of N turns … events, seal of N turns │ … seal of more turns
//! └ opening           └ the turn, seals among its lines                    │   (or the last seal)
//!                                                                          └ closing, if it is not
//!                                                                            the turn's own last
//! ```
//! Each seal links to the one before it, so that none is left out, and states its position.

use super::ShownLine;
use crate::transcript::event::Frame;
use crate::transcript::seal::Seal;
use threadseal_core::digest::Digest;
use threadseal_core::report::FindingCode;

/// Code and sentence of a mismatch.
type Fault = (FindingCode, &'static str);

const MISPLACED: Fault = (
    FindingCode::TurnBoundsWrong,
    "the seals that are shown do not bound this turn",
);

/// The shown lines that were read so far.
#[derive(Default)]
pub(super) struct Turn {
    /// Those of the turn.
    pub(super) lines: Vec<ShownLine>,
    /// Seals among the shown lines.
    pub(super) seals: u64,
    /// Did a recorder adopt bytes here?
    pub(super) adopted: bool,
    last: Option<LastSeal>,
}

/// The last seal, and the lines after it.
struct LastSeal {
    seq: u64,
    digest: Digest,
    /// Line and byte after the last line that was read, both from 0.
    line: u64,
    byte: u64,
    /// Was that line the seal itself?
    ends_here: bool,
}

impl Turn {
    /// Takes the next line; `seal` has its values if it is a checkpoint.
    pub(super) fn take(
        &mut self,
        turn: u64,
        (line, number): (&str, u64),
        frame: &Frame<'_>,
        seal: Option<&Seal>,
    ) -> Result<(), Fault> {
        let is_opening = self.last.is_none();
        match (&mut self.last, seal) {
            (None, None) => return Err(MISPLACED),
            (Some(last), None) => {
                last.line = number;
                last.byte = end_of(last.byte, line);
                last.ends_here = false;
            }
            (last, Some(seal)) => {
                let fits = match last {
                    None => seal.turn.checked_add(1) == Some(turn) && seal.lines == number - 1,
                    Some(_) => seal.turn == turn,
                };
                if !fits {
                    return Err(MISPLACED);
                }
                if let Some(last) = last {
                    last.is_followed_by(seal)?;
                    last.is_right_before(seal)?;
                }
                self.seals += 1;
                self.last = Some(LastSeal {
                    seq: seal.seq,
                    digest: Digest::of(line.as_bytes()),
                    line: number,
                    byte: end_of(seal.byte_offset, line),
                    ends_here: true,
                });
            }
        }
        self.adopted |= frame.event_type == "tail_adopted";
        if !is_opening {
            self.lines.push(ShownLine {
                number,
                event_type: frame.event_type.to_owned(),
                text: line.to_owned(),
                restored: None,
            });
        }
        Ok(())
    }

    /// Ends the turn by the closing seal.
    pub(super) fn close(&self, turn: u64, closing: &Seal) -> Result<(), Fault> {
        let last = self.last.as_ref().ok_or(MISPLACED)?;
        last.is_followed_by(closing)?;
        if closing.turn == turn {
            return last.is_right_before(closing);
        }
        // Otherwise the turn has a seal of its own after its last line, and the closing seal links
        // to it.
        match closing.turn > turn && last.ends_here && !self.lines.is_empty() {
            true => Ok(()),
            false => Err(MISPLACED),
        }
    }
}

impl LastSeal {
    fn is_followed_by(&self, seal: &Seal) -> Result<(), Fault> {
        match seal.prev == Some(self.digest) && self.seq.checked_add(1) == Some(seal.seq) {
            true => Ok(()),
            false => Err((
                FindingCode::LinkBroken,
                "the seal before is not the one that the next one links to",
            )),
        }
    }

    fn is_right_before(&self, seal: &Seal) -> Result<(), Fault> {
        match (self.line, self.byte) == (seal.lines, seal.byte_offset) {
            true => Ok(()),
            false => Err(MISPLACED),
        }
    }
}

/// The end of the line that begins at `offset`: the start of the next one.
pub(super) fn end_of(offset: u64, line: &str) -> u64 {
    offset.saturating_add(line.len() as u64 + 1)
}
