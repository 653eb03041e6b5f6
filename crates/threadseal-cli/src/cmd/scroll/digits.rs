//! Digits of numbers that no hash covers: `scroll seal` and `scroll convert` never drop them in silence.

use crate::exit::complain;
use crate::render::text::counted;
use threadseal_core::error::Error;
use threadseal_formats::scroll::uncovered_digits;

/// The most turns with such digits that are listed.
const MAX_LISTED: u64 = 20;
/// The most digits of a number that are shown.
const MAX_SHOWN_DIGITS: usize = 40;

/// Which digits may be left out, and how many turns lost some.
pub(super) struct Digits {
    /// Those of any number, by `--anyway`.
    pub(super) any: bool,
    /// Those of a timestamp; not by `--strict-digits`.
    pub(super) of_timestamps: bool,
    /// The word for what is done with the covered value.
    pub(super) done: &'static str,
    /// Turns that lost digits.
    pub(super) turns: u64,
}

impl Digits {
    /// Reports the digits of the turn at `index` that no hash covers. Its JSON text begins at byte
    /// `from` of the input.
    ///
    /// # Errors
    /// When such digits may not be left out, or the text is no turn.
    pub(super) fn check(&mut self, index: u64, turn: &[u8], from: u64) -> Result<(), Error> {
        let about = |why: String| Error::invalid(format!("turn at index {index}: {why}"));
        let found = uncovered_digits(turn).map_err(|error| about(error.to_string()))?;
        let mut lost = Vec::new();
        if let Some(at) = found.other {
            let text = describe(turn, at, from);
            if !self.any {
                let hint = "hint: --anyway writes only the covered value";
                return Err(about(format!("{text}; {hint}")));
            }
            lost.push(format!("{text}; left out"));
        }
        if let Some(timestamp) = found.timestamp {
            let (covered, done) = (timestamp.covered, self.done);
            let text = describe(turn, timestamp.offset, from);
            if !self.of_timestamps && !self.any {
                let hint = "hint: remove --strict-digits to write the covered value";
                return Err(about(format!("{text}; {hint}")));
            }
            lost.push(format!("{text}; its timestamp {covered} is {done}"));
        }
        if lost.is_empty() {
            return Ok(());
        }
        self.turns += 1;
        if self.turns <= MAX_LISTED {
            for text in lost {
                complain(&format!("warning: turn at index {index}: {text}"));
            }
        }
        Ok(())
    }

    /// Reports how many turns lost digits.
    pub(super) fn finish(&self) {
        if self.turns > 0 {
            complain(&format!(
                "warning: numbers in {} had digits that no hash covers; their canonical value was {}",
                counted(self.turns, "turn", "turns"),
                self.done
            ));
        }
    }
}

/// The sentence about the number at `at` of a turn.
fn describe(turn: &[u8], at: usize, from: u64) -> String {
    let rest = turn.get(at..).unwrap_or_default();
    let is_number = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
    let number: Vec<u8> = rest
        .iter()
        .take_while(is_number)
        .take(MAX_SHOWN_DIGITS)
        .copied()
        .collect();
    format!(
        "the number {} at byte {} has digits that no hash covers",
        String::from_utf8_lossy(&number),
        from + at as u64
    )
}
