//! What witnesses said of a log, beside it.
//!
//! ```text
//! <size>.cosigned          a signed note: the checkpoint of that size with the log's line and those of witnesses (`kept_notes`)
//! <16 hex>.tlog-conflict   two checkpoints that this log signed, as a witness showed them
//! ```
//! The first is for whoever reads; the log itself goes on without it. With the second it goes on no more: it signed two histories.

use super::description::Description;
use super::place::Place;
use super::{LogView, SealLog};
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_CONFLICT_BYTES;
use threadseal_core::merkle::{ConsistencyProof, TreeHead};
use threadseal_core::record::Head;
use threadseal_core::tlog::conflict::Conflict;
use threadseal_core::tlog::policy::Policy;
use threadseal_core::tlog::proof_file::ProofFile;
use threadseal_core::tlog::verifier::VerifierKey;

const CONFLICT_ENDING: &str = ".tlog-conflict";
/// Files of conflicts beside one log that are read.
const MAX_KEPT_CONFLICTS: usize = 64;

/// The trees of which what is kept beside a log shows that it signed them, though no history has all of them.
pub(super) fn convicting(place: &Place, description: &Description) -> Vec<TreeHead> {
    let names = place.fs.read_dir(&place.root).unwrap_or_default();
    let names = names.into_iter().filter_map(|name| name.into_string().ok());
    let kept = names.filter(|name| name.ends_with(CONFLICT_ENDING));
    let conflicts = kept.take(MAX_KEPT_CONFLICTS).filter_map(|name| {
        let bytes = place.read(&place.file(&name), MAX_CONFLICT_BYTES).ok()??;
        let conflict = Conflict::parse(std::str::from_utf8(&bytes).ok()?).ok()?;
        (*conflict.key() == description.verifier().ok()?).then_some(conflict)
    });
    let trees =
        conflicts.flat_map(|conflict| conflict.checkpoints().each_ref().map(|one| *one.tree()));
    trees.collect()
}

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
        self.description().verifier()
    }

    /// The entry for this head, and the proof of it for others: in the last tree that meets one of these policies, else in the last one that
    /// a witness cosigned, where such a tree has it and the log continues it; else in the log as it stands. None where the log does not
    /// have the head.
    ///
    /// # Errors
    /// As [`SealLog::newest`].
    pub fn proof_of(
        &self,
        head: &Head,
        policies: &[(String, Policy)],
    ) -> Result<Option<(Vec<u8>, ProofFile)>, Error> {
        let at = self.head_at(&head.record, head.seq)?;
        let Some(at) = at.filter(|at| at.logged.head == *head) else {
            return Ok(None);
        };
        let view = self.view()?;
        let entry = view.entry(at.number)?;
        let mut chosen = (view.checkpoint().clone(), view.tree());
        // The last of those that meet a policy stands last.
        let mut cosigned = self.cosigned(policies, &mut |_| {})?;
        cosigned.sort_by_key(|one| (one.is_witnessed, one.tree.size));
        for one in cosigned.into_iter().rev() {
            if at.number < one.tree.size && view.continues(&one.tree)? {
                chosen = (one.note, one.tree);
                break;
            }
        }
        let (note, tree) = chosen;
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
        let path = place.file(&format!("{}{CONFLICT_ENDING}", &digest[..16]));
        place.replace(&path, conflict.to_string().as_bytes())?;
        Ok(path)
    }
}
