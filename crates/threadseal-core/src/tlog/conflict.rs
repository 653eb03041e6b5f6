//! Two checkpoints that contradict each other under one key: evidence that needs no other data.
//!
//! ```text
//! threadseal/1 conflict of checkpoints LF
//! key <vkey> LF                          of the log, or of a witness that cosigned both
//! parted <number> LF                     the entry that differs, where one is shown: from 0 …
//! leaf <base64> LF hash <base64> LF …    … its leaf hash under the next note, and its proof
//! note <bytes> LF                        length; fewer entries or the lesser root come first
//! <a signed note>
//! leaf … hash …
//! note <bytes> LF
//! <a signed note>
//! ```
//! The key signed both checkpoints, and both have one origin. One of three facts makes them
//! contradict each other:
//!
//! * They have one size and two roots.
//! * They have two sizes and different entries in one place.
//! * The checkpoint of fewer entries has the later time. Each cosignature states that the witness
//!   had seen no larger tree by its time.
//!
//! Without an entry or times, two trees of different sizes prove nothing: the absence of a
//! consistency proof can only be claimed.
//!
//! The evidence never counts against a key of records. Such a key signs the head of a record on one
//! host in the form of a checkpoint, and two hosts may each have a record of one name. The reader
//! must know the owner of the key.
//!
//! Evidence from the same notes and the same entry has one text, except for the signature lines in
//! the notes. Those lines are kept unchanged.

use super::checkpoint::{Checkpoint, parse_size};
use super::cosignature::{CosignatureTime, MAX_CLOCK_STEP_SECONDS};
use super::verifier::{self, VerifierKey};
use crate::digest::Digest;
use crate::encoding;
use crate::limits::MAX_PROOF_HASHES;
use crate::merkle::InclusionProof;
use crate::note::{NoteError, SignedNote};
use std::fmt;

/// The first line of a file.
pub const FIRST_LINE: &str = "threadseal/1 conflict of checkpoints";
const PARTED: &str = "parted ";
const LEAF: &str = "leaf ";
const HASH: &str = "hash ";

/// Proof that the holder of a key signed two trees in one place, or went back to a smaller tree.
///
/// Only a successful check makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    key: VerifierKey,
    notes: [SignedNote; 2],
    checkpoints: [Checkpoint; 2],
    by: By,
}

/// The contradiction between the two checkpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
enum By {
    /// They have one size and two roots.
    Roots,
    /// The times of both checkpoints, that of the smaller one first.
    Times([CosignatureTime; 2]),
    /// The number of an entry, and its leaf under each checkpoint.
    Entry(u64, [ShownEntry; 2]),
}

/// One entry of a tree, with its proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownEntry {
    /// The leaf hash of the entry.
    pub leaf: Digest,
    /// The inclusion proof of the leaf.
    pub proof: InclusionProof,
}

/// Why two notes are not evidence against a key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoConflict {
    /// The file does not follow the format, one note is no checkpoint, or a line of the key is
    /// invalid.
    Note(NoteError),
    /// The text of the key is invalid; the value gives the reason.
    Key(String),
    /// The key belongs to neither a log nor a witness.
    OtherKey,
    /// The key did not sign both.
    NotSigned,
    /// An entry is not at its stated place.
    NotShown,
    /// They do not contradict each other.
    ///
    /// They are of two logs or of the same tree. Or they have two sizes: the smaller one was not
    /// signed later as the largest, and no differing entry is shown.
    Compatible,
}

impl fmt::Display for NoConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Note(why) => why.fmt(f),
            Self::Key(why) => f.write_str(why),
            Self::OtherKey => f.write_str("the key belongs neither to a log nor to a witness"),
            Self::NotSigned => f.write_str("the key did not sign both checkpoints"),
            Self::NotShown => f.write_str("an entry is not in the tree of its checkpoint"),
            Self::Compatible => f.write_str(
                "the checkpoints are not two trees of one log and one size, the smaller one was not signed as the newest later, and no \
                 entry differs",
            ),
        }
    }
}

impl std::error::Error for NoConflict {}

impl Conflict {
    /// Builds the evidence that these two notes give against the holder of `key`.
    ///
    /// # Errors
    /// [`NoConflict`] when they prove nothing.
    pub fn find(key: VerifierKey, one: SignedNote, other: SignedNote) -> Result<Self, NoConflict> {
        Self::of(key, [(one, None), (other, None)], None)
    }

    /// Builds the evidence of two notes of different sizes with different leaves at `entry`.
    ///
    /// # Errors
    /// [`NoConflict`] when they prove nothing.
    pub fn find_parted(
        key: VerifierKey,
        entry: u64,
        one: (SignedNote, ShownEntry),
        other: (SignedNote, ShownEntry),
    ) -> Result<Self, NoConflict> {
        let both = [one, other].map(|(note, shown)| (note, Some(shown)));
        Self::of(key, both, Some(entry))
    }

    fn of(
        key: VerifierKey,
        both: [(SignedNote, Option<ShownEntry>); 2],
        entry: Option<u64>,
    ) -> Result<Self, NoConflict> {
        if !key.is_of_log() && !key.is_of_witness() {
            return Err(NoConflict::OtherKey);
        }
        let open = |note: &SignedNote| {
            let (checkpoint, signers) = verifier::open(note, &[&key]).map_err(NoConflict::Note)?;
            let signer = signers.first().ok_or(NoConflict::NotSigned)?;
            Ok((checkpoint, signer.time))
        };
        let [one, other] = both;
        let mut both = [(open(&one.0)?, one), (open(&other.0)?, other)];
        both.sort_by_key(|((checkpoint, _), _)| {
            let tree = checkpoint.tree();
            (tree.size, *tree.root.as_bytes())
        });
        let [((first, earlier), one), ((second, later), other)] = both;
        let ((one, here), (other, there)) = (one, other);
        if first.origin() != second.origin() {
            return Err(NoConflict::Compatible);
        }
        let (fewer, more) = (first.tree(), second.tree());
        let times = earlier.zip(later).filter(|(fewer, more)| {
            fewer.seconds() > more.seconds().saturating_add(MAX_CLOCK_STEP_SECONDS)
        });
        let by = match (fewer.size == more.size, entry.zip(here.zip(there)), times) {
            (true, None, _) if fewer.root != more.root => By::Roots,
            (false, Some((entry, (here, there))), _) => {
                for (shown, tree) in [(&here, fewer), (&there, more)] {
                    let held = shown.proof.check(&shown.leaf, entry, tree);
                    held.map_err(|_| NoConflict::NotShown)?;
                }
                if here.leaf == there.leaf {
                    return Err(NoConflict::Compatible);
                }
                By::Entry(entry, [here, there])
            }
            (false, None, Some((fewer, more))) => By::Times([fewer, more]),
            _ => return Err(NoConflict::Compatible),
        };
        Ok(Self {
            key,
            notes: [one, other],
            checkpoints: [first, second],
            by,
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
        let (entry, rest) = match rest.strip_prefix(PARTED) {
            None => (None, rest),
            Some(rest) => {
                let number = rest.split_once('\n');
                let number = number.and_then(|(text, rest)| Some((parse_size(text)?, rest)));
                let unsaid = || malformed("it does not name the entry that differs");
                let (entry, rest) = number.ok_or_else(unsaid)?;
                (Some(entry), rest)
            }
        };
        let mut rest = rest;
        let mut side = || -> Result<_, NoConflict> {
            let shown = entry.map(|_| shown_entry(rest)).transpose()?;
            let (shown, after) = shown.map_or((None, rest), |(shown, after)| (Some(shown), after));
            let counted = || malformed("a note of the conflict does not have its stated length");
            let (note, after) = counted_note(after).ok_or_else(counted)?;
            rest = after;
            Ok((SignedNote::parse(note).map_err(NoConflict::Note)?, shown))
        };
        let both = [side()?, side()?];
        if !rest.is_empty() {
            return Err(malformed("more than two notes"));
        }
        let found = Self::of(key, both, entry)?;
        match found.to_string() == text {
            true => Ok(found),
            false => Err(malformed("the notes are in the wrong order")),
        }
    }

    /// The key that signed both.
    pub fn key(&self) -> &VerifierKey {
        &self.key
    }

    /// The two checkpoints, of one origin. The one of fewer entries comes first; of one size, the
    /// one with the lesser root.
    pub fn checkpoints(&self) -> &[Checkpoint; 2] {
        &self.checkpoints
    }

    /// The times of a rollback: when the key signed each checkpoint as the largest tree that it had
    /// seen. `None` for other evidence.
    pub fn went_back(&self) -> Option<[CosignatureTime; 2]> {
        match self.by {
            By::Times(times) => Some(times),
            By::Roots | By::Entry(..) => None,
        }
    }

    /// The number of the entry that differs between the two trees. `None` for other evidence.
    pub fn parted(&self) -> Option<u64> {
        match self.by {
            By::Entry(entry, _) => Some(entry),
            By::Roots | By::Times(_) => None,
        }
    }
}

/// Reads the entry that precedes a note, and returns the rest of the text.
fn shown_entry(text: &str) -> Result<(ShownEntry, &str), NoConflict> {
    let malformed = |why| NoConflict::Note(NoteError::Malformed(why));
    let digest = |text: &str| {
        let bytes = encoding::parse_base64(text)?;
        bytes.try_into().ok().map(Digest::from_bytes)
    };
    let no_leaf = || malformed("a leaf of the conflict is not the base64 of 32 bytes");
    let leaf = text
        .strip_prefix(LEAF)
        .and_then(|text| text.split_once('\n'));
    let (leaf, mut rest) = leaf.ok_or_else(no_leaf)?;
    let (leaf, mut hashes) = (digest(leaf).ok_or_else(no_leaf)?, Vec::new());
    while let Some((hash, after)) = rest
        .strip_prefix(HASH)
        .and_then(|text| text.split_once('\n'))
    {
        let hash = digest(hash).filter(|_| hashes.len() < MAX_PROOF_HASHES);
        hashes.push(
            hash.ok_or_else(|| {
                malformed("a hash of the conflict is not valid, or is one too many")
            })?,
        );
        rest = after;
    }
    let proof = InclusionProof::from_hashes(hashes).map_err(|_| NoConflict::NotShown)?;
    Ok((ShownEntry { leaf, proof }, rest))
}

/// Reads a note after its length, and returns the rest of the text.
fn counted_note(text: &str) -> Option<(&str, &str)> {
    let (length, rest) = text.strip_prefix("note ")?.split_once('\n')?;
    rest.split_at_checked(usize::try_from(parse_size(length)?).ok()?)
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{FIRST_LINE}\nkey {}\n", self.key)?;
        let shown = match &self.by {
            By::Entry(entry, [here, there]) => {
                writeln!(f, "{PARTED}{entry}")?;
                [Some(here), Some(there)]
            }
            By::Roots | By::Times(_) => [None, None],
        };
        for (note, shown) in self.notes.iter().zip(shown) {
            if let Some(ShownEntry { leaf, proof }) = shown {
                writeln!(f, "{LEAF}{}", encoding::base64(leaf.as_bytes()))?;
                for hash in proof.hashes() {
                    writeln!(f, "{HASH}{}", encoding::base64(hash.as_bytes()))?;
                }
            }
            let note = note.to_string();
            write!(f, "note {}\n{note}", note.len())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::merkle::{TreeHead, leaf_hash, node_hash, root};
    use crate::testing::key;
    use NoConflict::{Compatible, NotShown, NotSigned, OtherKey};

    fn conflict() -> Conflict {
        let (one, other) = (signed(&checkpoint(5)), signed(&other_checkpoint(5)));
        Conflict::find(log_key(), one, other).unwrap()
    }

    // T-FRK-01
    #[test]
    fn two_trees_of_one_size_convict_the_log_in_whatever_order_they_are_found() {
        let found = conflict();
        let (one, other) = (signed(&other_checkpoint(5)), signed(&checkpoint(5)));
        let again = Conflict::find(log_key(), one, other);
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

    // T-FRK-01
    #[test]
    fn a_witness_that_cosigned_both_is_convicted_too() {
        let one = note(&checkpoint(5), &[(1, 7)]);
        let other = note(&other_checkpoint(5), &[(1, 9)]);
        let find = |number| Conflict::find(witness_key(number), one.clone(), other.clone());
        let found = find(1).unwrap();
        assert_eq!(Conflict::parse(&found.to_string()), Ok(found));
        assert_eq!(find(2), Err(NotSigned));
    }

    /// A cosignature states that the witness had seen no larger tree by its time.
    // T-FRK-06
    #[test]
    fn a_witness_that_went_back_to_a_smaller_tree_is_convicted() {
        let find = |key, fewer, [size, more]: [u64; 2]| {
            let one = note(&checkpoint(5), &[(1, fewer)]);
            Conflict::find(key, note(&checkpoint(size), &[(1, more)]), one)
        };
        let found = find(witness_key(1), 68, [6, 7]).unwrap();
        assert_eq!(found.went_back(), Some([time(68), time(7)]));
        assert_eq!(found.checkpoints()[0].tree().size, 5);
        let text = found.to_string();
        assert_eq!(Conflict::parse(&text).as_ref(), Ok(&found));
        // Only lines of the key are checked: the log's lines contain no time.
        for (at, changed) in bit_flips(&text).enumerate() {
            if let Ok(read) = Conflict::parse(&changed) {
                assert_eq!(read.checkpoints(), found.checkpoints(), "{at}");
            }
        }
        for (key, fewer, more) in [
            // A clock that was set back is not evidence either.
            (witness_key(1), 7, [6, 9]),
            (witness_key(1), 7, [6, 7]),
            (witness_key(1), 9, [6, 7]),
            (witness_key(1), 67, [6, 7]),
            // A log's line contains no time, and a tree may be signed again.
            (log_key(), 99, [6, 7]),
            (witness_key(1), 9, [5, 7]),
        ] {
            assert_eq!(find(key, fewer, more), Err(Compatible), "{fewer} {more:?}");
        }
    }

    // T-FRK-17
    #[test]
    fn every_changed_bit_of_the_evidence_is_noticed() {
        for found in [conflict(), parted(5, 7, 3)] {
            for changed in bit_flips(&found.to_string()) {
                assert!(Conflict::parse(&changed).is_err(), "{changed}");
            }
        }
    }

    /// A tree that differs from the log's in one entry.
    fn side(size: u64, changed: Option<u64>, shown: u64) -> (SignedNote, ShownEntry) {
        let leaf = |at: u64| match changed == Some(at) {
            true => leaf_hash(b"another"),
            false => leaf_hash(&at.to_be_bytes()),
        };
        let leaves: Vec<Digest> = (0..size).map(leaf).collect();
        let tree = TreeHead {
            size,
            root: root(&leaves),
        };
        let checkpoint = checkpoint_of(ORIGIN, tree);
        let shown = ShownEntry {
            leaf: leaf(shown),
            proof: InclusionProof::of_leaves(&leaves, shown).unwrap(),
        };
        (signed(&checkpoint), shown)
    }

    fn parted(fewer: u64, more: u64, at: u64) -> Conflict {
        let (one, other) = (side(fewer, None, at), side(more, Some(at), at));
        Conflict::find_parted(log_key(), at, one, other).unwrap()
    }

    // T-FRK-04
    #[test]
    fn two_trees_of_two_sizes_convict_by_an_entry_that_is_not_the_same() {
        for (fewer, more) in [(1, 2), (3, 4), (5, 7), (8, 9), (8, 16), (7, 100)] {
            for at in 0..fewer {
                let found = parted(fewer, more, at);
                let again = (side(more, Some(at), at), side(fewer, None, at));
                let again = Conflict::find_parted(log_key(), at, again.0, again.1);
                assert_eq!(again.as_ref(), Ok(&found));
                assert_eq!(Conflict::parse(&found.to_string()).as_ref(), Ok(&found));
                assert_eq!((found.parted(), found.went_back()), (Some(at), None));
                let [one, other] = found.checkpoints();
                assert_eq!((one.tree().size, other.tree().size), (fewer, more));
            }
        }
    }

    // T-FRK-10
    #[test]
    fn an_honest_log_is_convicted_by_no_entry() {
        let (one, other) = (side(5, None, 3), side(7, None, 3));
        let with = |leaf, proof: &InclusionProof| {
            let proof = proof.clone();
            (other.0.clone(), ShownEntry { leaf, proof })
        };
        let made_up = with(leaf_hash(b"x"), &other.1.proof);
        let beyond = side(7, None, 5);
        let [beside, above @ ..] = other.1.proof.hashes() else {
            panic!("the tree has one entry");
        };
        let shorter = InclusionProof::from_hashes(above.to_vec()).unwrap();
        let inner = with(node_hash(beside, &other.1.leaf), &shorter);
        let beyond_one = (one.0.clone(), beyond.1.clone());
        let (forked, parted) = (side(5, Some(3), 3), side(7, Some(3), 3));
        for (row, key, entry, one, other, why) in [
            ("the same entry", log_key(), 3, &one, &other, Compatible),
            ("another entry", log_key(), 2, &one, &other, NotShown),
            ("another leaf", log_key(), 3, &one, &made_up, NotShown),
            ("beyond", log_key(), 5, &beyond_one, &beyond, NotShown),
            (
                "an inner hash as a leaf",
                log_key(),
                3,
                &one,
                &inner,
                NotShown,
            ),
            // This evidence needs two sizes: with one size the roots suffice.
            ("one size", log_key(), 3, &one, &forked, Compatible),
            // The evidence counts against no other key.
            ("another key", witness_key(1), 3, &one, &parted, NotSigned),
        ] {
            let found = Conflict::find_parted(key, entry, one.clone(), other.clone());
            assert_eq!(found, Err(why), "{row}");
        }
    }

    // T-FRK-10
    #[test]
    fn evidence_of_an_entry_has_one_form() {
        let text = parted(5, 7, 3).to_string();
        for (from, to) in [
            ("parted 3\n", ""),
            ("parted 3\n", "parted 03\n"),
            ("parted 3\n", "parted 2\n"),
            ("leaf ", "leaf\u{20}\u{20}"),
            ("hash ", "hush "),
            (
                "\nnote ",
                "\nhash AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\nnote ",
            ),
        ] {
            let other = text.replacen(from, to, 1);
            assert_ne!(other, text);
            assert!(Conflict::parse(&other).is_err(), "{other}");
        }
        let plain = conflict().to_string();
        let more = plain.replacen("\nnote ", "\nparted 0\nnote ", 1);
        assert!(Conflict::parse(&more).is_err());
    }

    // T-FRK-17
    #[test]
    fn what_an_honest_log_signs_convicts_nobody() {
        let elsewhere = checkpoint_of("example.com/other", *other_checkpoint(5).tree());
        for (other, why) in [
            (checkpoint(5), Compatible),
            (checkpoint(6), Compatible),
            (other_checkpoint(6), Compatible),
            (elsewhere, NotSigned),
        ] {
            let found = Conflict::find(log_key(), signed(&checkpoint(5)), signed(&other));
            assert_eq!(found, Err(why), "{other:?}");
        }
    }

    /// A log may sign several logs' checkpoints if its key is known by one name only.
    // T-FRK-17
    #[test]
    fn checkpoints_of_two_logs_convict_nobody_even_by_one_key() {
        let elsewhere = checkpoint_of("example.com/other", *other_checkpoint(5).tree());
        let (one, other) = (note(&checkpoint(5), &[(1, 7)]), note(&elsewhere, &[(1, 9)]));
        let found = Conflict::find(witness_key(1), one, other);
        assert_eq!(found, Err(Compatible));
    }

    // T-FRK-17
    #[test]
    fn a_key_of_records_is_convicted_by_no_checkpoints() {
        let named = VerifierKey::of_log(name("threadseal/1/ledger/r1"), key(1));
        let found = Conflict::find(named, signed(&checkpoint(5)), signed(&other_checkpoint(5)));
        assert_eq!(found, Err(OtherKey));
    }

    // T-FRK-17
    #[test]
    fn nobody_is_convicted_by_what_somebody_else_signed() {
        let text = conflict().to_string();
        let other = text.replace(&log_key().to_string(), &witness_key(1).to_string());
        assert_eq!(Conflict::parse(&other), Err(NotSigned));
        let notes: Vec<_> = text.split("note ").collect();
        let [head, one, two] = notes[..] else {
            panic!("{text}");
        };
        for bad in [
            text[..text.len() - 1].to_owned(),
            format!("{text}\n"),
            format!("{head}note {two}note {one}"),
            format!("{head}note {one}note {one}"),
            format!("{head}note {one}"),
            format!("{head}note 0{one}note {two}"),
        ] {
            assert!(Conflict::parse(&bad).is_err(), "{bad}");
        }
    }
}
