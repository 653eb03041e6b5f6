//! One file that proves one entry of a log to any reader (C2SP tlog-proof).
//!
//! ```text
//! c2sp.org/tlog-proof@v1 LF
//! extra <base64> LF             may be absent; nothing vouches for it
//! index <number> LF
//! <base64(hash)> LF             the leaf's sibling first; as many as the proof has
//! LF
//! <the log's checkpoint, a signed note with its cosignatures, as it is>
//! ```
//! The file name ends in `.tlog-proof`. The reader supplies the entry and the keys that it trusts.
//! [`ProofFile::check`] checks the entry against the checkpoint. It does not check who signed the
//! checkpoint.

use super::checkpoint::{Checkpoint, parse_size};
use crate::digest::Digest;
use crate::encoding;
use crate::limits::{MAX_PROOF_EXTRA_BYTES, MAX_PROOF_HASHES};
use crate::merkle::{InclusionProof, ProofError, leaf_hash};
use crate::note::{NoteError, SignedNote};
use std::fmt;

const FIRST_LINE: &str = "c2sp.org/tlog-proof@v1";

/// A proof that an entry is in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProofFile {
    /// Additional data from the maker of the file; nothing vouches for it.
    pub extra: Option<Vec<u8>>,
    /// The entry's number.
    pub index: u64,
    /// The path from the entry to the root.
    pub proof: InclusionProof,
    /// The checkpoint with all signature lines.
    pub note: SignedNote,
}

impl ProofFile {
    /// Reads a file.
    ///
    /// # Errors
    /// [`NoteError::Malformed`].
    pub fn parse(text: &str) -> Result<Self, NoteError> {
        let malformed = NoteError::Malformed;
        let (head, note) = text
            .split_once("\n\n")
            .ok_or(malformed("no blank line ends the hashes of the proof"))?;
        let mut lines = head.split('\n').peekable();
        if lines.next() != Some(FIRST_LINE) {
            return Err(malformed("not a c2sp.org/tlog-proof@v1"));
        }
        let extra = lines.next_if(|line| line.starts_with("extra "));
        let extra = extra.map(|line| {
            let extra = line.strip_prefix("extra ").unwrap_or_default();
            let fits = Some(extra).filter(|extra| extra.len() / 4 * 3 <= MAX_PROOF_EXTRA_BYTES);
            fits.and_then(encoding::parse_base64).ok_or(malformed(
                "the extra of the proof is too long, or not strict base64",
            ))
        });
        let index = lines
            .next()
            .and_then(|line| parse_size(line.strip_prefix("index ")?))
            .ok_or(malformed("the proof has no index"))?;
        let hashes = lines.take(MAX_PROOF_HASHES + 1).map(|line| {
            let hash =
                encoding::parse_base64(line).and_then(|hash| <[u8; 32]>::try_from(hash).ok());
            hash.map(Digest::from_bytes).ok_or(malformed(
                "a hash of the proof is not the base64 of 32 bytes",
            ))
        });
        let hashes = hashes.collect::<Result<_, _>>()?;
        let note = SignedNote::parse(note)?;
        Checkpoint::parse(note.text())?;
        Ok(Self {
            extra: extra.transpose()?,
            index,
            proof: InclusionProof::from_hashes(hashes)
                .map_err(|_| malformed("the proof has too many hashes"))?,
            note,
        })
    }

    /// The checkpoint, if its log contains this entry.
    ///
    /// # Errors
    /// [`NotProved::Checkpoint`] when the note is no checkpoint, [`NotProved::Proof`] when the
    /// entry is not in its tree.
    pub fn check(&self, entry: &[u8]) -> Result<Checkpoint, NotProved> {
        let checkpoint = Checkpoint::parse(self.note.text()).map_err(NotProved::Checkpoint)?;
        let proved = self
            .proof
            .check(&leaf_hash(entry), self.index, checkpoint.tree());
        proved.map_err(NotProved::Proof)?;
        Ok(checkpoint)
    }
}

/// Why a file does not prove an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotProved {
    /// Its note is no checkpoint.
    Checkpoint(NoteError),
    /// The entry does not lead to the checkpoint's root.
    Proof(ProofError),
}

impl fmt::Display for NotProved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checkpoint(why) => why.fmt(f),
            Self::Proof(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for NotProved {}

impl fmt::Display for ProofFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{FIRST_LINE}")?;
        if let Some(extra) = &self.extra {
            writeln!(f, "extra {}", encoding::base64(extra))?;
        }
        writeln!(f, "index {}", self.index)?;
        for hash in self.proof.hashes() {
            writeln!(f, "{}", encoding::base64(hash.as_bytes()))?;
        }
        write!(f, "\n{}", self.note)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ORIGIN, checkpoint_of, signed};
    use super::*;
    use crate::merkle::{TreeHead, root};

    const ENTRIES: [&[u8]; 5] = [b"one", b"two", b"three", b"", b"five"];

    fn file(index: u64, extra: Option<&[u8]>) -> ProofFile {
        let leaves: Vec<_> = ENTRIES.iter().map(|entry| leaf_hash(entry)).collect();
        let tree = TreeHead {
            size: 5,
            root: root(&leaves),
        };
        ProofFile {
            extra: extra.map(<[u8]>::to_vec),
            index,
            proof: InclusionProof::of_leaves(&leaves, index).unwrap(),
            note: signed(&checkpoint_of(ORIGIN, tree)),
        }
    }

    #[test]
    fn each_entry_is_proved_by_its_file_alone() {
        for (index, entry) in (0..).zip(ENTRIES) {
            for extra in [None, Some(&b""[..]), Some(b"who asked")] {
                let file = file(index, extra);
                let read = ProofFile::parse(&file.to_string()).unwrap();
                assert_eq!(read, file);
                assert_eq!(read.check(entry).unwrap().tree().size, 5);
                let other = read.check(b"other");
                assert_eq!(other, Err(NotProved::Proof(ProofError::OtherRoot)));
            }
        }
    }

    #[test]
    fn no_changed_character_proves_the_entry_under_the_same_checkpoint() {
        let whole = file(2, None);
        let text = whole.to_string();
        for at in 0..text.len() {
            for flip in [1_u8, 0x20] {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= flip;
                let read = String::from_utf8(bytes)
                    .ok()
                    .and_then(|text| ProofFile::parse(&text).ok());
                let believed = read
                    .is_some_and(|read| read.note == whole.note && read.check(b"three").is_ok());
                assert!(!believed, "byte {at}");
            }
        }
    }

    #[test]
    fn other_spellings_are_refused() {
        let text = file(2, Some(b"x")).to_string();
        for (from, to) in [
            ("@v1", "@v2"),
            ("index 2", "index 02"),
            ("index 2", "index -2"),
            ("index 2\n", ""),
            ("extra eA==", "extra eB=="),
            ("extra eA==\n", "extra eA==\nextra eA==\n"),
            ("\n\n", "\nAAAA\n\n"),
            ("\n\n", "\n\n\n"),
        ] {
            let other = text.replacen(from, to, 1);
            assert_ne!(other, text);
            assert!(ProofFile::parse(&other).is_err(), "{other}");
        }
        let hash = "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n".repeat(MAX_PROOF_HASHES + 1);
        let long = text.replacen("\n\n", &format!("\n{hash}\n"), 1);
        assert!(ProofFile::parse(&long).is_err());
    }
}
