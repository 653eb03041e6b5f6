//! [`MarkState`]: the content of a second place that is no folder, and [`RemoteMark`]: one such place.
//!
//! ```text
//! threadseal/1 mark LF               or: threadseal/1 mark of a log that ended LF
//! <the log's last checkpoint, a signed note>
//! ```
//! is the content of places that keep bytes; of a log that ended the note may be absent.

use crate::layout::description::Description;
use crate::tree::view::LogView;
use std::fmt;
use std::ops::ControlFlow;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_NOTE_BYTES;
use threadseal_core::merkle::TreeHead;
use threadseal_core::note::SignedNote;

const CONTINUES: &str = "threadseal/1 mark\n";
const ENDED: &str = "threadseal/1 mark of a log that ended\n";
/// Most bytes of a mark.
pub(crate) const MAX_MARK_BYTES: usize = MAX_NOTE_BYTES + ENDED.len();

/// What a place knows of the log.
#[derive(Debug, Clone, Default)]
pub(crate) struct MarkState {
    /// The last checkpoint there.
    pub(crate) known: Option<(SignedNote, TreeHead)>,
    /// Was another log put in the place of this one?
    pub(crate) ended: bool,
}

/// The result of bringing a place up to the log.
#[derive(Debug)]
pub(crate) enum UpdateResult {
    /// It has this tree.
    Updated(MarkState),
    /// The log does not continue the checkpoint there, or the log has ended. Nothing was changed.
    Contradicted(MarkState),
}

/// A second place that does not answer at once.
pub(crate) trait RemoteMark: fmt::Debug + Send + Sync {
    /// What the place knows.
    fn read(&self, description: &Description) -> Result<MarkState, Error>;

    /// Brings the place up to the log. The implementation takes the view after it read the place: then the view has
    /// every entry that a process of this host brought there.
    fn update(
        &self,
        description: &Description,
        view: &dyn Fn() -> Result<LogView, Error>,
    ) -> Result<UpdateResult, Error>;

    /// Could the end of the log be recorded there now, whatever the content is?
    fn can_end(&self) -> Result<(), Error>;

    /// Records that the log has ended.
    fn end(&self, description: &Description) -> Result<(), Error>;
}

impl MarkState {
    /// The content that is to replace this one, or the result if no write is due: a mark is never lowered, nor replaced by
    /// a checkpoint that does not continue it.
    pub(crate) fn next(self, view: &LogView) -> Result<ControlFlow<UpdateResult, Self>, Error> {
        let known = self.known.as_ref().map(|(_, tree)| *tree);
        let continues = match &known {
            Some(tree) => view.continues(tree)?,
            None => true,
        };
        if self.ended || !continues {
            return Ok(ControlFlow::Break(UpdateResult::Contradicted(self)));
        }
        if known == Some(view.tree()) {
            return Ok(ControlFlow::Break(UpdateResult::Updated(self)));
        }
        Ok(ControlFlow::Continue(Self {
            known: Some((view.checkpoint().clone(), view.tree())),
            ended: false,
        }))
    }

    /// The content of the place once the log has ended.
    pub(crate) fn into_ended(self) -> Self {
        Self {
            ended: true,
            ..self
        }
    }

    pub(crate) fn to_text(&self) -> String {
        let first = if self.ended { ENDED } else { CONTINUES };
        let note = self.known.as_ref().map(|(note, _)| note.to_string());
        format!("{first}{}", note.unwrap_or_default())
    }

    /// Reads the bytes of a place; a place without any knows nothing.
    pub(crate) fn parse(bytes: Option<&[u8]>, description: &Description) -> Result<Self, Error> {
        let Some(bytes) = bytes else {
            return Ok(Self::default());
        };
        let text = std::str::from_utf8(bytes).ok();
        let read = text.and_then(|text| Self::parse_text(text, description));
        read.ok_or_else(|| {
            Error::new(
                ErrorKind::External,
                "the value there is not a mark of this log",
            )
        })
    }

    fn parse_text(text: &str, description: &Description) -> Option<Self> {
        let (ended, note) = match text.strip_prefix(ENDED) {
            Some(note) => (true, note),
            None => (false, text.strip_prefix(CONTINUES)?),
        };
        if ended && note.is_empty() {
            return Some(Self { known: None, ended });
        }
        let note = SignedNote::parse(note).ok()?;
        let tree = *description.checkpoint(&note)?.tree();
        let known = Some((note, tree));
        Some(Self { known, ended })
    }
}
