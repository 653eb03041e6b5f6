//! Checkpoints of logs (C2SP tlog-checkpoint): the size of a log, and its root.
//!
//! ```text
//! <origin> LF                   the name of the log: not empty, no LF
//! <size> LF                     decimal, no leading zeros, below 2^63
//! <base64(root)> LF             44 characters
//! <extension> LF                any number, none empty; kept, not understood
//! ```
//! It is the text of a signed note. Each checkpoint has one text: `parse(x)?.to_string() == x`. Two
//! checkpoints of one origin and size with two roots prove equivocation by the log.

use crate::digest::Digest;
use crate::encoding;
use crate::error::Error;
use crate::key::{COSIGNATURE_DOMAIN, RECORD_DOMAIN, Signer};
use crate::limits::{MAX_CHECKPOINT_EXTENSIONS, MAX_ORIGIN_BYTES};
use crate::merkle::TreeHead;
use crate::note::{self, KeyName, NoteError, NoteText, SignedNote};
use std::fmt;

/// The identity of a log: a schema-less address, as C2SP requires, or any other line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin(String);

impl Origin {
    /// Checks and takes `text`: 1 to [`MAX_ORIGIN_BYTES`] bytes, nothing below 0x20. It must not be
    /// the first line of a witness's signed message.
    ///
    /// # Errors
    /// [`NoteError::Malformed`].
    pub fn parse(text: &str) -> Result<Self, NoteError> {
        if text.is_empty() || text.len() > MAX_ORIGIN_BYTES || text.bytes().any(|b| b < b' ') {
            return Err(NoteError::Malformed(
                "an origin is empty, too long, or holds a control character",
            ));
        }
        if COSIGNATURE_DOMAIN.strip_suffix('\n') == Some(text) {
            return Err(NoteError::Malformed(
                "an origin may not be the first line of the message that a witness signs",
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The statement of a log about its size and root. The type alone proves no signer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    origin: Origin,
    tree: TreeHead,
    extensions: Vec<String>,
}

impl Checkpoint {
    /// The checkpoint of a tree below 2^63 leaves.
    ///
    /// # Errors
    /// [`NoteError::Malformed`] when the tree is larger.
    pub fn new(origin: Origin, tree: TreeHead) -> Result<Self, NoteError> {
        if tree.size > i64::MAX.unsigned_abs() {
            return Err(NoteError::Malformed("a log has less than 2^63 entries"));
        }
        Ok(Self {
            origin,
            tree,
            extensions: Vec::new(),
        })
    }

    /// Reads the text of a note.
    ///
    /// # Errors
    /// [`NoteError::Malformed`].
    pub fn parse(text: &NoteText) -> Result<Self, NoteError> {
        let read = Self::parse_with_any_root(text)?;
        match read.is_of_an_empty_log_with_leaves() {
            true => Err(NoteError::Malformed("an empty log cannot have this root")),
            false => Ok(read),
        }
    }

    /// Reads it also with an impossible root for the empty log: a witness distinguishes the two
    /// cases.
    pub(super) fn parse_with_any_root(text: &NoteText) -> Result<Self, NoteError> {
        let mut lines = text.lines();
        let mut line = |missing| lines.next().ok_or(NoteError::Malformed(missing));
        let origin = Origin::parse(line("a checkpoint has no origin")?)?;
        let size = line("a checkpoint has no size")?;
        let root = line("a checkpoint has no root")?;
        let size = parse_size(size).ok_or(NoteError::Malformed(
            "the size of a checkpoint is not a decimal number below 2^63",
        ))?;
        let root = encoding::parse_base64(root).and_then(|root| <[u8; 32]>::try_from(root).ok());
        let root = root.map(Digest::from_bytes).ok_or(NoteError::Malformed(
            "the root of a checkpoint is not the base64 of 32 bytes",
        ))?;
        let tree = TreeHead { size, root };
        let extensions: Vec<String> = lines.map(str::to_owned).collect();
        if extensions.len() > MAX_CHECKPOINT_EXTENSIONS {
            return Err(NoteError::Malformed("a checkpoint has too many extensions"));
        }
        if extensions.iter().any(String::is_empty) {
            return Err(NoteError::Malformed(
                "an extension of a checkpoint is empty",
            ));
        }
        Ok(Self {
            origin,
            tree,
            extensions,
        })
    }

    /// Whether it has size 0 and the root of another tree.
    pub(super) fn is_of_an_empty_log_with_leaves(&self) -> bool {
        self.tree.size == 0 && self.tree != TreeHead::empty()
    }

    /// Signs it as its log, under the name that is its origin.
    ///
    /// # Errors
    /// Kind `InvalidInput` when the origin is not the name of a key, or begins with
    /// [`RECORD_DOMAIN`]. Also those of [`Signer::sign`], which refuses when the key is not for
    /// logs.
    pub fn sign(&self, signer: &dyn Signer) -> Result<SignedNote, Error> {
        let invalid = |error: NoteError| Error::invalid(error.to_string());
        if self.origin.as_str().starts_with(RECORD_DOMAIN) {
            return Err(Error::invalid(format!(
                "the origin of a log may not begin with {RECORD_DOMAIN:?}"
            )));
        }
        let name = KeyName::parse(self.origin.as_str()).map_err(invalid)?;
        note::sign(self.to_note_text().map_err(invalid)?, &name, signer)
    }

    /// The log that it describes.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Size and root.
    pub fn tree(&self) -> &TreeHead {
        &self.tree
    }

    /// The lines after the root.
    pub fn extensions(&self) -> &[String] {
        &self.extensions
    }

    /// The text that is signed.
    ///
    /// # Errors
    /// [`NoteError::Malformed`] when it is too long for a note.
    pub fn to_note_text(&self) -> Result<NoteText, NoteError> {
        NoteText::parse(&self.to_string())
    }
}

impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TreeHead { size, root } = &self.tree;
        let root = encoding::base64(root.as_bytes());
        write!(f, "{}\n{size}\n{root}\n", self.origin)?;
        self.extensions
            .iter()
            .try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// A number as these texts spell it: decimal, no sign, no leading zeros, below 2^63.
pub fn parse_size(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let plain = digits && (text == "0" || !text.starts_with('0'));
    let size = text.parse().ok().filter(|_| plain)?;
    (size <= i64::MAX.unsigned_abs()).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The example of C2SP tlog-checkpoint.
    const EXAMPLE: &str =
        "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n";

    fn parse(text: &str) -> Result<Checkpoint, NoteError> {
        Checkpoint::parse(&NoteText::parse(text)?)
    }

    #[test]
    fn the_example_of_the_specification_is_read_and_written() {
        let read = parse(EXAMPLE).unwrap();
        assert_eq!(read.origin().as_str(), "example.com/behind-the-sofa");
        assert_eq!(read.tree().size, 20_852_163);
        assert_eq!(read.to_string(), EXAMPLE);
        let again = Checkpoint::new(read.origin().clone(), *read.tree()).unwrap();
        assert_eq!(again.to_note_text().unwrap().as_str(), EXAMPLE);
    }

    #[test]
    fn extensions_are_kept() {
        let text = format!("{EXAMPLE}one more\nand another\n");
        let read = parse(&text).unwrap();
        assert_eq!(read.extensions(), ["one more", "and another"]);
        assert_eq!(read.to_string(), text);
    }

    #[test]
    fn every_other_spelling_is_refused() {
        let root = "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=";
        for text in [
            "a\n1\n".to_owned(),
            format!("\n1\n{root}\n"),
            format!("a\n01\n{root}\n"),
            format!("a\n+1\n{root}\n"),
            format!("a\n-1\n{root}\n"),
            format!("a\n 1\n{root}\n"),
            format!("a\n\n{root}\n"),
            format!("a\n9223372036854775808\n{root}\n"),
            format!("a\n99999999999999999999\n{root}\n"),
            format!("a\n0\n{root}\n"),
            "a\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2J=\n".to_owned(),
            "a\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I\n".to_owned(),
            format!("a\n1\n{root}\n\nlate\n"),
            format!(
                "a\n1\n{root}\n{}",
                "x\n".repeat(MAX_CHECKPOINT_EXTENSIONS + 1)
            ),
            format!("{}\n1\n{root}\n", "a".repeat(MAX_ORIGIN_BYTES + 1)),
        ] {
            assert!(parse(&text).is_err(), "{text:?}");
        }
        let large = TreeHead {
            size: 1 << 63,
            ..TreeHead::empty()
        };
        assert!(Checkpoint::new(Origin::parse("a").unwrap(), large).is_err());
    }

    proptest! {
        #[test]
        fn one_checkpoint_has_one_text(text in "[a-z \n0-9A-Za-z+/=]{0,120}\n") {
            if let Ok(read) = parse(&text) {
                prop_assert_eq!(read.to_string(), text);
            }
        }
    }
}
