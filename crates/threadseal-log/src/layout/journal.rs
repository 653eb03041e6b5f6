//! The journal of a log: what was committed since its tiles were written (`spec/host-log.md`).
//!
//! ```text
//! base <base64 of a signed note> LF                                                   first
//! ( entry <bytes> LF … tree <size> <base64 of the root> LF [ signed <base64 of a signed note> LF ] )…
//! ```
//! A batch is committed with its `tree` line, and signed after that. Bytes after the last `tree` or `signed` line were never
//! signed. Here the lines are read; whether trees and signatures are right is a question for `tree::writer` and `tree::view`.

use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::limits::MAX_LOG_ENTRY_BYTES;
use threadseal_core::merkle::TreeHead;
use threadseal_core::note::SignedNote;
use threadseal_core::tlog::checkpoint::parse_size;

/// Entries that make a journal be folded into tiles.
pub(crate) const FOLD_ENTRIES: usize = 256;
/// Most entries that are committed at once.
pub(crate) const MAX_BATCH_ENTRIES: usize = 256;
/// Largest journal in bytes: each of its entries may be a batch of its own.
pub(crate) const MAX_JOURNAL_BYTES: usize =
    2 * (FOLD_ENTRIES + MAX_BATCH_ENTRIES) * (MAX_LOG_ENTRY_BYTES + 1024);

/// A batch that was committed.
#[derive(Debug)]
pub(crate) struct JournalBatch {
    pub(crate) entries: Vec<Vec<u8>>,
    /// The tree with them, as the journal has it.
    pub(crate) tree: TreeHead,
    pub(crate) signed: Option<SignedNote>,
}

/// The content of a journal.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) base: SignedNote,
    pub(crate) batches: Vec<JournalBatch>,
    /// Bytes up to the end of the last batch.
    pub(crate) committed: u64,
    /// Bytes that were durable when a signature was written after them.
    pub(crate) durable: u64,
}

impl Journal {
    /// Reads a journal; None when it is none, or damaged before its last batch.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut lines = Lines { bytes, at: 0 };
        let base = note(lines.next()?.strip_prefix(b"base ")?)?;
        let mut journal = Self {
            base,
            batches: Vec::new(),
            committed: lines.at,
            durable: lines.at,
        };
        let mut entries = Vec::new();
        while let Some(line) = lines.next() {
            let whole = if let Some(entry) = line.strip_prefix(b"entry ") {
                entries.push(entry.to_vec());
                Some(())
            } else if let Some(text) = line.strip_prefix(b"tree ") {
                tree(text).map(|tree| {
                    let entries = std::mem::take(&mut entries);
                    journal.committed = lines.at;
                    journal.batches.push(JournalBatch {
                        entries,
                        tree,
                        signed: None,
                    });
                })
            } else if let Some(text) = line.strip_prefix(b"signed ") {
                let batch = journal.batches.last_mut().filter(|_| entries.is_empty());
                batch.zip(note(text)).map(|(batch, note)| {
                    batch.signed = Some(note);
                    journal.committed = lines.at;
                    journal.durable = lines.at;
                })
            } else {
                None
            };
            if whole.is_none() {
                // Torn at its end, or damaged within.
                return (!holds_batches(&bytes[lines.at_usize()..])).then_some(journal);
            }
        }
        Some(journal)
    }

    /// The first line.
    pub(crate) fn begin(base: &SignedNote) -> Vec<u8> {
        format!("base {}\n", encoding::base64(base.to_string().as_bytes())).into_bytes()
    }

    /// The lines of a batch, which is committed when they are durable.
    pub(crate) fn batch(entries: &[Vec<u8>], tree: &TreeHead) -> Vec<u8> {
        let mut lines = Vec::new();
        for entry in entries {
            lines.extend_from_slice(b"entry ");
            lines.extend_from_slice(entry);
            lines.push(b'\n');
        }
        let root = encoding::base64(tree.root.as_bytes());
        lines.extend_from_slice(format!("tree {} {root}\n", tree.size).as_bytes());
        lines
    }

    /// The line after a batch that is durable.
    pub(crate) fn signed(note: &SignedNote) -> Vec<u8> {
        format!("signed {}\n", encoding::base64(note.to_string().as_bytes())).into_bytes()
    }
}

fn note(text: &[u8]) -> Option<SignedNote> {
    let bytes = encoding::parse_base64(std::str::from_utf8(text).ok()?)?;
    SignedNote::parse(std::str::from_utf8(&bytes).ok()?).ok()
}

fn tree(text: &[u8]) -> Option<TreeHead> {
    let (size, root) = std::str::from_utf8(text).ok()?.split_once(' ')?;
    let root = encoding::parse_base64(root)?;
    Some(TreeHead {
        size: parse_size(size)?,
        root: Digest::from_bytes(root.try_into().ok()?),
    })
}

/// Does something that was committed stand in these bytes?
fn holds_batches(bytes: &[u8]) -> bool {
    let mut lines = Lines { bytes, at: 0 };
    std::iter::from_fn(|| lines.next())
        .any(|line| line.starts_with(b"tree ") || line.starts_with(b"signed "))
}

/// Lines that end in LF.
struct Lines<'b> {
    bytes: &'b [u8],
    at: u64,
}

impl<'b> Lines<'b> {
    fn at_usize(&self) -> usize {
        usize::try_from(self.at).unwrap_or(usize::MAX)
    }

    fn next(&mut self) -> Option<&'b [u8]> {
        let rest = self.bytes.get(self.at_usize()..)?;
        let end = memchr::memchr(b'\n', rest)?;
        self.at += end as u64 + 1;
        Some(&rest[..end])
    }
}
