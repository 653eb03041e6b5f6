//! What witnesses said of a log, beside it.
//!
//! ```text
//! cosigned              a signed note: the checkpoint with the log's line and those of witnesses
//! <16 hex>.tlog-conflict   two checkpoints that this log signed, as a witness showed them
//! ```
//! Both are for whoever reads; the log itself goes on without them.

use super::{LogView, SealLog};
use threadseal::digest::Digest;
use threadseal::error::{Error, ErrorKind};
use threadseal::limits::MAX_NOTE_BYTES;
use threadseal::merkle::ConsistencyProof;
use threadseal::note::SignedNote;
use threadseal::record::Head;
use threadseal::tlog::conflict::Conflict;
use threadseal::tlog::proof_file::ProofFile;
use threadseal::tlog::verifier::VerifierKey;

const FILE: &str = "cosigned";

impl LogView {
    /// The proof that the tree grew out of its own first `old` leaves, for who knows that tree; None when it has less.
    ///
    /// # Errors
    /// Kind `External` when the files cannot be read.
    pub fn growth(&self, old: u64) -> Result<Option<ConsistencyProof>, Error> {
        if old > self.tree().size {
            return Ok(None);
        }
        let proof = self.contents().consistency(old, self.tree().size);
        proof.map(Some)
    }
}

impl SealLog {
    /// The key by which others know it.
    ///
    /// # Errors
    /// None that a log id can give.
    pub fn verifier(&self) -> Result<VerifierKey, Error> {
        let description = self.description();
        Ok(VerifierKey::of_log(description.name()?, description.key))
    }

    /// The checkpoint for which cosignatures were kept last, with these; None where there is none, or it is no note.
    ///
    /// # Errors
    /// Kind `External` when it cannot be read.
    pub fn cosigned(&self) -> Result<Option<SignedNote>, Error> {
        let place = &self.shared.place;
        let bytes = place.read(&place.file(FILE), MAX_NOTE_BYTES)?;
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        Ok(text.and_then(|text| SignedNote::parse(&text).ok()))
    }

    /// The entry for this head, and the proof of it for others: in the tree that witnesses cosigned last, where that has it and the
    /// log continues it, else in the log as it stands. None where the log does not have the head.
    ///
    /// # Errors
    /// As [`SealLog::newest`].
    pub fn proof_of(&self, head: &Head) -> Result<Option<(Vec<u8>, ProofFile)>, Error> {
        let at = self.head_at(&head.record, head.seq)?;
        let Some(at) = at.filter(|at| at.logged.head == *head) else {
            return Ok(None);
        };
        let view = self.view()?;
        let entry = view.entry(at.number)?;
        let cosigned = self.cosigned()?.and_then(|note| {
            let tree = *self.description().checkpoint(&note)?.tree();
            Some((note, tree)).filter(|(_, tree)| at.number < tree.size)
        });
        let (note, tree) = match cosigned {
            Some((note, tree)) if view.contents().begins_with(&tree)? => (note, tree),
            _ => (view.checkpoint().clone(), view.tree()),
        };
        let proof = view.contents().inclusion(at.number, tree.size)?;
        let file = ProofFile {
            extra: None,
            index: at.number,
            proof,
            note,
        };
        let held = file.check(&entry);
        held.map_err(|error| Error::new(ErrorKind::External, error.to_string()))?;
        Ok(Some((entry, file)))
    }

    /// Keeps a cosigned checkpoint in the place of the last one.
    ///
    /// # Errors
    /// Kind `External` when the system fails.
    pub fn keep_cosigned(&self, note: &SignedNote) -> Result<(), Error> {
        let place = &self.shared.place;
        place.replace(&place.file(FILE), note.to_string().as_bytes())
    }

    /// Keeps what convicts this log, and says where.
    ///
    /// # Errors
    /// Kind `External` when the system fails.
    pub fn keep_conflict(&self, conflict: &Conflict) -> Result<std::path::PathBuf, Error> {
        let [one, other] = conflict.checkpoints();
        let roots = [one, other].map(ToString::to_string);
        let parts = roots.each_ref().map(String::as_bytes);
        let digest = Digest::tagged("conflict of this log", &parts).to_hex();
        let place = &self.shared.place;
        let path = place.file(&format!("{}.tlog-conflict", &digest[..16]));
        place.replace(&path, conflict.to_string().as_bytes())?;
        Ok(path)
    }
}
