//! Questions about notes, checkpoints and proofs of logs: a word is answered, because they have no report.

use super::{Question, Short};
use crate::Fallible;
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::merkle::TreeHead;
use threadseal_core::note::{NoteError, SignedNote, parse_vkey, vkey};
use threadseal_core::tlog::checkpoint::parse_size;
use threadseal_core::tlog::policy::{Judgement, NotAccepted, Policy};
use threadseal_core::tlog::proof_file::ProofFile;
use threadseal_core::tlog::verifier::VerifierKey;
use threadseal_core::tlog::witness::{AddCheckpoint, Refusal, judge};

impl Question {
    /// Who signed a note: `spec/keys-and-trust.md` §6.
    pub(super) fn note(&self) -> Fallible<Short> {
        let keys = self.keys.iter().map(|key| Ok(parse_vkey(key)?));
        let keys = keys.collect::<Fallible<Vec<_>>>()?;
        let Some(note) = read(&self.required("note")?, SignedNote::parse) else {
            return Ok(Short::new("malformed"));
        };
        Ok(match note.verify(&keys) {
            Ok(signers) => Short {
                signers: Some(signers.iter().map(|(name, key)| vkey(name, key)).collect()),
                ..Short::new("verified")
            },
            Err(NoteError::BadSignature(_)) => Short::new("bad_signature"),
            Err(NoteError::NoKnownSigner) => Short::new("no_known_signer"),
            Err(error) => return Err(error.to_string().into()),
        })
    }

    /// "Judging a note" of `spec/tlog.md`.
    pub(super) fn checkpoint(&self) -> Fallible<Short> {
        let Ok(policy) = Policy::parse(&self.required("policy")?) else {
            return Ok(Short::new("policy_refused"));
        };
        let Some(note) = read(&self.required("note")?, SignedNote::parse) else {
            return Ok(Short::new("bad"));
        };
        Ok(match policy.judge(&note) {
            Ok(Judgement::Witnessed(witnessed)) => Short {
                at: Some(witnessed.at().seconds().to_string()),
                ..Short::new("witnessed")
            },
            Ok(Judgement::LogOnly(_)) => Short::new("log_alone"),
            Err(NotAccepted::Note(_)) => Short::new("bad"),
            Err(_) => Short::new("not_met"),
        })
    }

    /// "Proofs as files" of `spec/tlog.md`, 1 and 2.
    pub(super) fn inclusion(&self) -> Fallible<Short> {
        let Some(proof) = read(&self.required("proof")?, ProofFile::parse) else {
            return Ok(Short::new("malformed"));
        };
        Ok(match proof.check(&self.required("entry")?) {
            Ok(_) => Short::new("proved"),
            Err(_) => Short::new("not_proved"),
        })
    }

    /// "Asking a witness" of `spec/tlog.md`: the status.
    pub(super) fn consistency(&self) -> Fallible<Short> {
        let keys = self.keys.iter().map(|key| Ok(VerifierKey::parse(key)?));
        let keys = keys.collect::<Fallible<Vec<_>>>()?;
        let last = self.file("last")?;
        let last = last.map(|last| tree(&last).ok_or("the last tree is none"));
        let last = last.transpose()?;
        let Ok(request) = AddCheckpoint::parse(&self.required("request")?) else {
            return Ok(Short::new("400"));
        };
        Ok(match judge(&request, &keys, last.as_ref()) {
            Ok(_) => Short::new("200"),
            Err(refusal) => Short {
                size: match refusal {
                    Refusal::OtherSize(size) => Some(size.to_string()),
                    _ => None,
                },
                ..Short::new(&refusal.status().to_string())
            },
        })
    }
}

fn read<T, E>(bytes: &[u8], parse: fn(&str) -> Result<T, E>) -> Option<T> {
    parse(std::str::from_utf8(bytes).ok()?).ok()
}

/// The size, LF, the base64 of the root, LF.
fn tree(bytes: &[u8]) -> Option<TreeHead> {
    let text = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
    let (size, root) = text.split_once('\n')?;
    let root: [u8; 32] = encoding::parse_base64(root)?.try_into().ok()?;
    Some(TreeHead {
        size: parse_size(size)?,
        root: Digest::from_bytes(root),
    })
}
