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
use super::far::Said;
use threadseal::error::{Error, ErrorKind};
use threadseal::limits::MAX_NOTE_BYTES;
use threadseal::note::SignedNote;

const GOES_ON: &str = "threadseal/1 mark\n";
const ENDED: &str = "threadseal/1 mark of a log that ended\n";
/// Most bytes of a mark.
const MAX_MARK_BYTES: usize = MAX_NOTE_BYTES + ENDED.len();

fn to_text(note: Option<&SignedNote>, ended: bool) -> String {
    let first = if ended { ENDED } else { GOES_ON };
    let note = note.map(ToString::to_string).unwrap_or_default();
    format!("{first}{note}")
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
