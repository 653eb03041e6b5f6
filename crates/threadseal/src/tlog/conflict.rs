//! Two checkpoints that one key signed and that cannot both be: evidence that needs no other data.
//!
//! ```text
//! threadseal/1 conflict of checkpoints LF
//! key <vkey> LF                          of the log, or of a witness that cosigned both
//! note <bytes> LF                        so many bytes follow: the checkpoint of fewer entries, or with the lesser root
//! <a signed note>
//! note <bytes> LF
//! <a signed note>
//! ```
//! Both have one origin; the key signed both. They have one size and two roots; or the one of fewer entries has the later time, while
//! each time says that nothing larger was seen by then. A key of records is not convicted: what it signs in the
//! form of a checkpoint is the head of a record on one host, and two hosts may each have a record of one name. Two trees of different sizes convict nobody by
//! themselves else: that no proof leads from one to the other can only be claimed. Whose key it is, whoever reads must know.
//! One conflict has one text, but for the signature lines in its notes, which are kept as they are.

use super::checkpoint::{Checkpoint, parse_size};
use super::cosignature::{CosignatureTime, MAX_CLOCK_STEP_SECONDS};
use super::verifier::{self, VerifierKey};
use crate::note::{NoteError, SignedNote};
use std::fmt;

/// What a file begins with.
pub const FIRST_LINE: &str = "threadseal/1 conflict of checkpoints";

/// Proof that the holder of a key signed two trees in the place of one, or went back to a smaller one. To hold one is to have
/// checked it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    key: VerifierKey,
    notes: [SignedNote; 2],
    checkpoints: [Checkpoint; 2],
    /// The times of both, where they are of two sizes.
    went_back: Option<[CosignatureTime; 2]>,
}

/// Why two notes convict nobody.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoConflict {
    /// It does not follow the format, or one of them is no checkpoint, or holds a bad line of the key.
    Note(NoteError),
    /// The text of the key is not understood; says why.
    Key(String),
    /// The key is of no log and no witness.
    OtherKey,
    /// The key did not sign both.
    NotSigned,
    /// They are of two logs or of the same tree; or of two sizes, and the smaller one is not said to be the newest later.
    Compatible,
}

impl fmt::Display for NoConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Note(why) => why.fmt(f),
            Self::Key(why) => f.write_str(why),
            Self::OtherKey => f.write_str("the key is of no log and no witness"),
            Self::NotSigned => f.write_str("the key did not sign both checkpoints"),
            Self::Compatible => {
                f.write_str("the checkpoints are not two trees of one log and one size, nor was the smaller one signed as the newest later")
            }
        }
    }
}

impl std::error::Error for NoConflict {}

impl Conflict {
    /// What these two notes prove against the holder of `key`.
    ///
    /// # Errors
    /// [`NoConflict`] when they prove nothing.
    pub fn find(key: VerifierKey, one: SignedNote, other: SignedNote) -> Result<Self, NoConflict> {
        if !key.is_of_log() && !key.is_of_witness() {
            return Err(NoConflict::OtherKey);
        }
        let open = |note: &SignedNote| {
            let (checkpoint, signers) = verifier::open(note, &[&key]).map_err(NoConflict::Note)?;
            let signer = signers.first().ok_or(NoConflict::NotSigned)?;
            Ok((checkpoint, signer.time))
        };
        let mut both = [(open(&one)?, one), (open(&other)?, other)];
        both.sort_by_key(|((checkpoint, _), _)| {
            let tree = checkpoint.tree();
            (tree.size, *tree.root.as_bytes())
        });
        let [((first, earlier), one), ((second, later), other)] = both;
        if first.origin() != second.origin() {
            return Err(NoConflict::Compatible);
        }
        let (fewer, more) = (first.tree(), second.tree());
        let times = earlier.zip(later).filter(|(fewer, more)| {
            fewer.seconds() > more.seconds().saturating_add(MAX_CLOCK_STEP_SECONDS)
        });
        let went_back = match (fewer.size == more.size, times) {
            (true, _) if fewer.root != more.root => None,
            (false, Some((fewer, more))) => Some([fewer, more]),
            _ => return Err(NoConflict::Compatible),
        };
        Ok(Self {
            key,
            notes: [one, other],
            checkpoints: [first, second],
            went_back,
        })
    }

    /// Reads a file, and checks it.
    ///
    /// # Errors
    /// [`NoConflict`].
    pub fn parse(text: &str) -> Result<Self, NoConflict> {
        let malformed = |why| NoConflict::Note(NoteError::Malformed(why));
        let body = text
            .strip_prefix(FIRST_LINE)
            .and_then(|rest| rest.strip_prefix("\nkey "));
        let body = body.ok_or_else(|| malformed("not a conflict of checkpoints"))?;
        let (vkey, rest) = body
            .split_once('\n')
            .ok_or_else(|| malformed("the conflict has no notes"))?;
        let key = VerifierKey::parse(vkey).map_err(|error| NoConflict::Key(error.to_string()))?;
        let counted = || malformed("a note of the conflict is not as long as it says");
        let (one, rest) = counted_note(rest).ok_or_else(counted)?;
        let (other, rest) = counted_note(rest).ok_or_else(counted)?;
        if !rest.is_empty() {
            return Err(malformed("more than two notes"));
        }
        let read = |note: &str| SignedNote::parse(note).map_err(NoConflict::Note);
        let found = Self::find(key, read(one)?, read(other)?)?;
        match found.to_string() == text {
            true => Ok(found),
            false => Err(malformed("the notes stand in another order")),
        }
    }

    /// The key that signed both.
    pub fn key(&self) -> &VerifierKey {
        &self.key
    }

    /// The two checkpoints, of one origin: that of fewer entries first, of one size that with the lesser root.
    pub fn checkpoints(&self) -> &[Checkpoint; 2] {
        &self.checkpoints
    }

    /// When the key signed each of them as the largest tree that it had seen, where they are of two sizes.
    pub fn went_back(&self) -> Option<[CosignatureTime; 2]> {
        self.went_back
    }
}

/// A note behind its length, and what follows.
fn counted_note(text: &str) -> Option<(&str, &str)> {
    let (length, rest) = text.strip_prefix("note ")?.split_once('\n')?;
    rest.split_at_checked(usize::try_from(parse_size(length)?).ok()?)
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{FIRST_LINE}\nkey {}\n", self.key)?;
        self.notes.iter().try_for_each(|note| {
            let note = note.to_string();
            write!(f, "note {}\n{note}", note.len())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{
        bit_flips, checkpoint, log, log_key, name, note, origin, other_checkpoint, signed, time,
        witness_key,
    };
    use super::*;
    use crate::key::Signer as _;

    fn conflict() -> Conflict {
        let (one, other) = (signed(&checkpoint(5)), signed(&other_checkpoint(5)));
        Conflict::find(log_key(), one, other).unwrap()
    }

    #[test]
    fn two_trees_of_one_size_convict_the_log_in_whatever_order_they_are_found() {
        let found = conflict();
        let again = Conflict::find(
            log_key(),
            note(&other_checkpoint(5), &[]),
            signed(&checkpoint(5)),
        );
        assert_eq!(again.as_ref(), Ok(&found));
        assert_eq!(Conflict::parse(&found.to_string()).as_ref(), Ok(&found));
        assert_eq!(found.key(), &log_key());
        let [one, other] = found.checkpoints();
        assert_eq!(one.tree().size, other.tree().size);
        assert_ne!(one.tree().root, other.tree().root);
    }

    #[test]
    fn a_conflict_that_another_implementation_signed_is_read() {
        let text = include_str!("../../../../testkit/tlog/forked.tlog-conflict");
        let found = Conflict::parse(text).unwrap();
        assert_eq!(found.key().name().as_str(), "example.com/forked");
        assert_eq!(found.to_string(), text);
    }

    #[test]
    fn a_witness_that_cosigned_both_is_convicted_too() {
        let (one, other) = (
            note(&checkpoint(5), &[(1, 7)]),
            note(&other_checkpoint(5), &[(1, 9)]),
        );
        let find = |number| Conflict::find(witness_key(number), one.clone(), other.clone());
        let found = find(1).unwrap();
        assert_eq!(Conflict::parse(&found.to_string()), Ok(found));
        assert_eq!(find(2), Err(NoConflict::NotSigned));
    }

    /// A time says that nothing larger was seen by then.
    #[test]
    fn a_witness_that_went_back_to_a_smaller_tree_is_convicted() {
        let find = |fewer, more| {
            let (one, other) = (
                note(&checkpoint(5), &[(1, fewer)]),
                note(&checkpoint(6), &[(1, more)]),
            );
            Conflict::find(witness_key(1), other, one)
        };
        let found = find(68, 7).unwrap();
        assert_eq!(found.went_back(), Some([time(68), time(7)]));
        assert_eq!(found.checkpoints()[0].tree().size, 5);
        let text = found.to_string();
        assert_eq!(Conflict::parse(&text).as_ref(), Ok(&found));
        // Only lines of the key are judged: those of the log say nothing of time.
        for (at, changed) in bit_flips(&text).enumerate() {
            let read = Conflict::parse(&changed);
            let same = read
                .as_ref()
                .is_ok_and(|read| read.checkpoints() == found.checkpoints());
            assert!(read.is_err() || same, "{at}");
        }
        // Nor does a clock that was set back convict anybody.
        for (fewer, more) in [(7, 9), (7, 7), (9, 7), (67, 7)] {
            assert_eq!(find(fewer, more), Err(NoConflict::Compatible));
        }
        // A log names no time, and a tree may be signed again.
        let (one, other) = (
            note(&checkpoint(5), &[(1, 99)]),
            note(&checkpoint(6), &[(1, 7)]),
        );
        assert_eq!(
            Conflict::find(log_key(), one, other),
            Err(NoConflict::Compatible)
        );
        let (one, other) = (
            note(&checkpoint(5), &[(1, 9)]),
            note(&checkpoint(5), &[(1, 7)]),
        );
        assert_eq!(
            Conflict::find(witness_key(1), one, other),
            Err(NoConflict::Compatible)
        );
    }

    #[test]
    fn every_changed_bit_of_the_evidence_is_noticed() {
        let text = conflict().to_string();
        for changed in bit_flips(&text) {
            assert!(Conflict::parse(&changed).is_err(), "{changed}");
        }
    }

    #[test]
    fn what_an_honest_log_signs_convicts_nobody() {
        let find = |one: &Checkpoint, other: &Checkpoint| {
            Conflict::find(log_key(), signed(one), signed(other))
        };
        let elsewhere =
            Checkpoint::new(origin("example.com/other"), *other_checkpoint(5).tree()).unwrap();
        assert_eq!(
            find(&checkpoint(5), &checkpoint(5)),
            Err(NoConflict::Compatible)
        );
        assert_eq!(
            find(&checkpoint(5), &checkpoint(6)),
            Err(NoConflict::Compatible)
        );
        assert_eq!(
            find(&checkpoint(5), &other_checkpoint(6)),
            Err(NoConflict::Compatible)
        );
        assert_eq!(find(&checkpoint(5), &elsewhere), Err(NoConflict::NotSigned));
    }

    /// A log may sign several logs' checkpoints where its key is known by one name only.
    #[test]
    fn checkpoints_of_two_logs_convict_nobody_even_by_one_key() {
        let elsewhere =
            Checkpoint::new(origin("example.com/other"), *other_checkpoint(5).tree()).unwrap();
        let (one, other) = (note(&checkpoint(5), &[(1, 7)]), {
            let mut note = signed(&elsewhere);
            note.add(super::super::testing::cosigned(&elsewhere, 1, 9))
                .unwrap();
            note
        });
        let found = Conflict::find(witness_key(1), one, other);
        assert_eq!(found, Err(NoConflict::Compatible));
    }

    #[test]
    fn a_key_of_records_is_convicted_by_no_checkpoints() {
        let key = *log().public_key();
        let named = VerifierKey::of_log(name("threadseal/1/ledger/r1"), key);
        let found = Conflict::find(named, signed(&checkpoint(5)), signed(&other_checkpoint(5)));
        assert_eq!(found, Err(NoConflict::OtherKey));
    }

    #[test]
    fn nobody_is_convicted_by_what_somebody_else_signed() {
        let text = conflict().to_string();
        let other = text.replace(&log_key().to_string(), &witness_key(1).to_string());
        assert_eq!(Conflict::parse(&other), Err(NoConflict::NotSigned));
        let mut unsigned = text.clone();
        unsigned.truncate(text.len() - 1);
        assert!(Conflict::parse(&unsigned).is_err());
        assert!(Conflict::parse(&format!("{text}\n")).is_err());
        let notes: Vec<_> = text.split("note ").collect();
        let [head, one, two] = notes.as_slice() else {
            panic!("{text}");
        };
        assert!(Conflict::parse(&format!("{head}note {two}note {one}")).is_err());
        assert!(Conflict::parse(&format!("{head}note {one}note {one}")).is_err());
        assert!(Conflict::parse(&format!("{head}note {one}")).is_err());
        assert!(Conflict::parse(&format!("{head}note 0{one}note {two}")).is_err());
    }
}
