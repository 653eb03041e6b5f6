//! [`PeerMark`]: a witness of another host as a second place.
//!
//! What it cosigned last is the mark: a witness stores that before it answers, and never goes back (C2SP tlog-witness). So nothing is
//! kept there but what a witness keeps anyway; it must show it, as `threadseal witness serve` does.

use super::super::description::Description;
use super::super::far::{Raised, Said};
use super::super::view::LogView;
use super::next;
use crate::asking::{Asked, Asking, last_cosigned};
use std::ops::ControlFlow;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::tlog::verifier::VerifierKey;

/// A witness.
#[derive(Debug)]
pub(in super::super) struct PeerMark {
    url: String,
}

impl PeerMark {
    pub(in super::super) fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
        }
    }

    pub(in super::super) fn read(&self, description: &Description) -> Result<Said, Error> {
        let Some(note) = last_cosigned(&self.url, &verifier(description)?)? else {
            return Ok(Said::default());
        };
        // Of the lines there the log's counts: what it did not sign accuses nobody.
        let checkpoint = description.checkpoint(&note).ok_or_else(|| {
            let text = "what it shows is no checkpoint that this log signed";
            Error::new(ErrorKind::External, text)
        })?;
        let tree = *checkpoint.tree();
        Ok(Said {
            known: Some((note, tree)),
            ended: false,
        })
    }

    pub(in super::super) fn raise(
        &self,
        description: &Description,
        view: &dyn Fn() -> Result<LogView, Error>,
    ) -> Result<Raised, Error> {
        let key = verifier(description)?;
        let before = self.read(description)?;
        let view = view()?;
        let said = match next(before, &view)? {
            ControlFlow::Break(raised) => return Ok(raised),
            ControlFlow::Continue(said) => said,
        };
        match Asking::new(&view, &key)?.at(&self.url, None)? {
            Asked::Cosigned(_) => Ok(Raised::To(said)),
            // Between both questions another process of this host may have gone on: what stands there now is looked at again.
            Asked::Contradicted { .. } => Err(external("it went on meanwhile".to_owned())),
            Asked::Not(why) if why.starts_with("404") => Err(external(format!(
                "it does not know this log; there run: threadseal witness add '{key}'"
            ))),
            Asked::Not(why) => Err(external(why)),
        }
    }
}

fn verifier(description: &Description) -> Result<VerifierKey, Error> {
    Ok(VerifierKey::of_log(description.name()?, description.key))
}

fn external(why: String) -> Error {
    Error::new(ErrorKind::External, why)
}
