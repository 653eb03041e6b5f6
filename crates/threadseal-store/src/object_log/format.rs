//! [`Format`]: where the logs of one kind differ from the others.

use super::levels::Span;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use threadseal_core::digest::Digest;
use threadseal_core::encoding;

/// The folders of a format.
pub(crate) struct Folders {
    pub(crate) heads: &'static str,
    /// Empty objects that mark deleted logs.
    pub(crate) gone: &'static str,
    pub(crate) segments: &'static str,
    pub(crate) indexes: &'static str,
}

/// One kind of log.
pub(crate) trait Format: fmt::Debug + Clone + PartialEq + Eq + Send + Sync {
    /// The name of one log.
    type Name: fmt::Debug + Clone + Send + Sync;
    /// What a head holds beside its references and items.
    type Facts: Facts;
    /// A reference to a sealed object.
    type Ref: Reference;
    /// What the log consists of.
    type Item: fmt::Debug + Clone + PartialEq + Eq + Send + Sync;

    const FOLDERS: Folders;
    /// Begins each head.
    const HEAD: &'static str;
    /// Begins each index, with its LF.
    const INDEX: &'static str;
    /// The member of an index that holds the name of the log.
    const NAME_MEMBER: &'static str;
    const MAX_HEAD_BYTES: usize;
    const MAX_INDEX_BYTES: usize;
    const MAX_SEGMENT_BYTES: usize;
    /// Must a head have the very bytes that this program would write?
    const ONE_SPELLING: bool;
    /// Does the fault of an orphan have the number of its first item?
    const ORPHANS_ARE_NUMBERED: bool;

    /// The text whose hex names the objects of the log.
    fn text(name: &Self::Name) -> &str;

    /// The line of JSON of a head, with its LF.
    fn form(name: &Self::Name, facts: &Self::Facts, levels: &[Vec<Self::Ref>]) -> String;

    /// The facts and references in such a line; `None` for another log's.
    fn parse_form(name: &Self::Name, line: &[u8]) -> Option<(Self::Facts, Vec<Vec<Self::Ref>>)>;

    /// Do the facts agree with the items that are not sealed, beyond their number?
    fn agrees(facts: &Self::Facts, open: &[Self::Item]) -> bool;

    /// Adds the items as a head and a segment hold them.
    fn write_items(items: &[Self::Item], out: &mut Vec<u8>);

    /// The items in bytes that hold nothing else.
    fn parse_items(bytes: &[u8]) -> Option<Vec<Self::Item>>;

    /// Has a head so many items that they are sealed?
    fn is_full(open: &[Self::Item]) -> bool;

    /// Cuts items into segments.
    fn segments(items: &[Self::Item]) -> Vec<&[Self::Item]>;

    /// The bytes of a segment.
    fn encode_segment(name: &Self::Name, first: u64, items: &[Self::Item]) -> Vec<u8>;

    /// The items of the segment of `found`; `None` where it is another one.
    fn parse_segment(
        name: &Self::Name,
        found: &Self::Ref,
        bytes: Vec<u8>,
    ) -> Option<Vec<Self::Item>>;

    /// The reference to a sealed object of these bytes, with the items of a segment.
    fn reference(
        facts: &Self::Facts,
        first: u64,
        count: u64,
        bytes: &[u8],
        items: Option<&[Self::Item]>,
    ) -> Self::Ref;

    /// May a head, or one after it, come to name this object, which it does not name? Its items are
    /// sealed up to number `sealed`.
    fn may_come_to_name(
        facts: &Self::Facts,
        levels: &[Vec<Self::Ref>],
        sealed: u64,
        object: &SealedName<'_>,
    ) -> bool;
}

/// What a head holds beside its references and items.
pub(crate) trait Facts: fmt::Debug + Clone + PartialEq + Eq + Send + Sync {
    /// The number of items.
    fn end(&self) -> u64;

    /// Was the log deleted?
    fn is_deleted(&self) -> bool;
}

/// A reference to a sealed object.
pub(crate) trait Reference:
    Span + fmt::Debug + Clone + PartialEq + Eq + Send + Sync + Serialize + DeserializeOwned
{
    /// SHA-256 of the object's bytes, in hex.
    fn sha256(&self) -> &str;

    /// The end of the object's name, after the digest.
    fn suffix(&self) -> String {
        String::new()
    }

    /// Is this the end of a name that [`Reference::suffix`] can make?
    fn is_suffix(text: &str) -> bool {
        text.is_empty()
    }

    /// Does it make a name that a sealed object can have?
    fn is_spelled(&self) -> bool {
        Digest::parse_hex(self.sha256()).is_some() && Self::is_suffix(&self.suffix())
    }
}

/// The parts of the name of a sealed object in its folder.
pub(crate) struct SealedName<'n> {
    /// Of an index: the level of the objects that it names.
    pub(crate) level: Option<usize>,
    pub(crate) first: u64,
    /// The end of the name, after the digest.
    pub(crate) suffix: &'n str,
}

impl<'n> SealedName<'n> {
    pub(super) fn parse<R: Reference>(name: &'n str, is_index: bool) -> Option<Self> {
        let (level, rest) = match is_index {
            false => (None, name),
            true => {
                let (level, rest) = name.split_once('-')?;
                (Some(usize::try_from(number(level, 2)?).ok()?), rest)
            }
        };
        let (first, rest) = rest.split_once('-')?;
        let (sha256, suffix) = rest.split_at_checked(64)?;
        Digest::parse_hex(sha256)?;
        let first = number(first, 20)?;
        R::is_suffix(suffix).then_some(Self {
            level,
            first,
            suffix,
        })
    }
}

/// A number that fills exactly `digits` decimal digits.
fn number(text: &str, digits: usize) -> Option<u64> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

/// The names of the objects of one log.
pub(super) struct Names<F: Format>(std::marker::PhantomData<F>);

impl<F: Format> Names<F> {
    fn in_folder(folder: &str, name: &F::Name) -> String {
        format!("{folder}/{}", encoding::hex(F::text(name).as_bytes()))
    }

    pub(super) fn head(name: &F::Name) -> String {
        Self::in_folder(F::FOLDERS.heads, name)
    }

    pub(super) fn gone(name: &F::Name) -> String {
        Self::in_folder(F::FOLDERS.gone, name)
    }

    pub(super) fn segments(name: &F::Name) -> String {
        Self::in_folder(F::FOLDERS.segments, name)
    }

    pub(super) fn indexes(name: &F::Name) -> String {
        Self::in_folder(F::FOLDERS.indexes, name)
    }

    pub(super) fn segment(name: &F::Name, found: &F::Ref) -> String {
        let (first, sha256, suffix) = (found.first(), found.sha256(), found.suffix());
        format!("{}/{first:020}-{sha256}{suffix}", Self::segments(name))
    }

    pub(super) fn index(name: &F::Name, level: usize, found: &F::Ref) -> String {
        let (first, sha256, suffix) = (found.first(), found.sha256(), found.suffix());
        let folder = Self::indexes(name);
        format!("{folder}/{level:02}-{first:020}-{sha256}{suffix}")
    }
}
