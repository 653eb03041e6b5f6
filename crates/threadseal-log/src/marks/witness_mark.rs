//! [`WitnessMark`]: a witness of another host as a second place.
//!
//! Its last cosigned checkpoint is the mark: a witness stores that before it answers, and never goes back (C2SP
//! tlog-witness). So it keeps nothing more than any witness; it must show that checkpoint, as `threadseal witness serve` does.

use crate::layout::description::Description;
use crate::marks::mark_state::{MarkState, RemoteMark, UpdateResult};
use crate::tree::view::LogView;
use crate::witness::{Asked, Asking, last_cosigned};
use std::ops::ControlFlow;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::tlog::verifier::VerifierKey;

/// A witness.
#[derive(Debug)]
pub(crate) struct WitnessMark {
    url: String,
}

impl WitnessMark {
    pub(crate) fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
        }
    }
}

impl RemoteMark for WitnessMark {
    fn read(&self, description: &Description) -> Result<MarkState, Error> {
        let Some(note) = last_cosigned(&self.url, &verifier(description)?)? else {
            return Ok(MarkState::default());
        };
        // Of the lines there the log's counts: a checkpoint that it did not sign is no evidence.
        let checkpoint = description.checkpoint(&note).ok_or_else(|| {
            let text = "it does not show a checkpoint that this log signed";
            Error::new(ErrorKind::External, text)
        })?;
        let tree = *checkpoint.tree();
        Ok(MarkState {
            known: Some((note, tree)),
            ended: false,
        })
    }

    fn update(
        &self,
        description: &Description,
        view: &dyn Fn() -> Result<LogView, Error>,
    ) -> Result<UpdateResult, Error> {
        let key = verifier(description)?;
        let before = self.read(description)?;
        let view = view()?;
        let next = match before.next(&view)? {
            ControlFlow::Break(result) => return Ok(result),
            ControlFlow::Continue(next) => next,
        };
        match Asking::new(&view, &key)?.at(&self.url, None)? {
            Asked::Cosigned(_) => Ok(UpdateResult::Updated(next)),
            // Between both requests another process of this host may have committed: the next update reads the mark again.
            Asked::Contradicted { .. } => Err(external("it advanced meanwhile".to_owned())),
            Asked::LogUnknown(_) => Err(external(format!(
                "it does not know this log; hint: on its host: threadseal witness add '{key}'"
            ))),
            Asked::Not(why) => Err(external(why)),
        }
    }

    fn can_end(&self) -> Result<(), Error> {
        Ok(())
    }

    /// A witness has no record of ends; the old origin is never signed for again all the same.
    fn end(&self, _: &Description) -> Result<(), Error> {
        Ok(())
    }
}

fn verifier(description: &Description) -> Result<VerifierKey, Error> {
    Ok(VerifierKey::of_log(description.name()?, description.key))
}

fn external(why: String) -> Error {
    Error::new(ErrorKind::External, why)
}
