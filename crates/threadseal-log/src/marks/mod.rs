//! Kinds of second places that do not answer at once, one file each.
//!
//! ```text
//! threadseal/1 mark LF               or: threadseal/1 mark of a log that ended LF
//! <the log's last checkpoint, a signed note>
//! ```
//! is what those hold that keep bytes; of a log that ended the note may be absent.

#[cfg(feature = "keyring")]
pub(super) mod keyring;
#[cfg(feature = "peer")]
pub(super) mod peer;
pub(super) mod store;

use super::description::Description;
use super::far::{Raised, Said};
use super::view::LogView;
use std::ops::ControlFlow;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_NOTE_BYTES;
use threadseal_core::note::SignedNote;

const GOES_ON: &str = "threadseal/1 mark\n";
const ENDED: &str = "threadseal/1 mark of a log that ended\n";
/// Most bytes of a mark.
const MAX_MARK_BYTES: usize = MAX_NOTE_BYTES + ENDED.len();

/// What is to stand in the place of what is `there`, or what becomes of the raise without a write: a mark is never lowered, nor replaced
/// by what does not continue it.
fn next(there: Said, view: &LogView) -> Result<ControlFlow<Raised, Said>, Error> {
    let known = there.known.as_ref().map(|(_, tree)| *tree);
    let continues = match &known {
        Some(tree) => view.continues(tree)?,
        None => true,
    };
    if there.ended || !continues {
        return Ok(ControlFlow::Break(Raised::Not(there)));
    }
    if known == Some(view.tree()) {
        return Ok(ControlFlow::Break(Raised::To(there)));
    }
    Ok(ControlFlow::Continue(Said {
        known: Some((view.checkpoint().clone(), view.tree())),
        ended: false,
    }))
}

/// What holds that.
fn said_text(said: &Said) -> String {
    let first = if said.ended { ENDED } else { GOES_ON };
    let note = said.known.as_ref().map(|(note, _)| note.to_string());
    format!("{first}{}", note.unwrap_or_default())
}

/// What stands there once the log has ended.
fn ended_text(there: &Said) -> String {
    said_text(&Said {
        ended: true,
        ..there.clone()
    })
}

/// What bytes say of the log: nothing where there are none.
fn read(bytes: Option<&[u8]>, description: &Description) -> Result<Said, Error> {
    let Some(bytes) = bytes else {
        return Ok(Said::default());
    };
    let said = std::str::from_utf8(bytes).ok().and_then(|text| {
        let (ended, note) = match text.strip_prefix(ENDED) {
            Some(note) => (true, note),
            None => (false, text.strip_prefix(GOES_ON)?),
        };
        if ended && note.is_empty() {
            return Some(Said { known: None, ended });
        }
        let note = SignedNote::parse(note).ok()?;
        let tree = *description.checkpoint(&note)?.tree();
        let known = Some((note, tree));
        Some(Said { known, ended })
    });
    said.ok_or_else(|| {
        Error::new(
            ErrorKind::External,
            "what stands there is no mark of this log",
        )
    })
}
