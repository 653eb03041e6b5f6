//! What kind of record a file on a disk is: the rules are those of [`threadseal_reader::recognise`].

use crate::error::VerifyError;
use std::borrow::Cow;
use std::ops::ControlFlow;
use std::path::Path;
use threadseal_formats::scroll::Container;
use threadseal_reader::content::{Content, LineTooLong};
use threadseal_reader::recognise;
pub use threadseal_reader::recognise::{
    Kind, LedgerShape, PAGE_IS_NO_RECORD, container_of, is_named_checkpoint, may_have_signature,
};
use threadseal_store::observer::seal_path;
use threadseal_store::read::{RegularFile, Source as _};
#[cfg(feature = "sqlite")]
use threadseal_store::sqlite::Contents;

/// A file on a disk, with what is beside it.
struct OnDisk<'f>(&'f RegularFile);

impl Content for OnDisk<'_> {
    type Error = VerifyError;

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read(
        &self,
        from: u64,
        to: u64,
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), VerifyError> {
        let (mut chunks, mut chunk) = (self.0.range(from, to), Vec::new());
        loop {
            chunks.next_chunk(&mut chunk)?;
            if chunk.is_empty() || each(&chunk).is_break() {
                return Ok(());
            }
        }
    }

    fn whole(&self, most: usize) -> Result<Cow<'_, [u8]>, VerifyError> {
        Ok(Cow::Owned(self.0.read_whole(most)?))
    }

    fn is_sealed(&self) -> bool {
        seal_path(self.0.path()).exists()
    }

    #[cfg(feature = "sqlite")]
    fn holds_records(&self, marks: &[&[u8]]) -> Result<bool, VerifyError> {
        match Contents::of(self.0.path()) {
            Ok(Contents { ledgers, objects }) => Ok(ledgers || objects),
            Err(_) => recognise::holds_any(self, marks),
        }
    }

    /// Without SQLite such a file is never passed over: reading it fails.
    #[cfg(not(feature = "sqlite"))]
    fn holds_records(&self, _: &[&[u8]]) -> Result<bool, VerifyError> {
        Ok(true)
    }

    fn line_too_long(&self, line: LineTooLong) -> VerifyError {
        VerifyError::refused(line.to_string()).about(self.0.path())
    }
}

/// Looks at the file; `None` when it is no record.
///
/// # Errors
/// When it cannot be read, or a line of a log without seals is too long.
pub fn kind(file: &RegularFile) -> Result<Option<Kind>, VerifyError> {
    recognise::kind(&OnDisk(file))
}

/// What a file is that proves something and is no record, if it is one: `check-proof` judges it.
///
/// # Errors
/// When it cannot be read.
pub fn proof(file: &RegularFile) -> Result<Option<&'static str>, VerifyError> {
    recognise::proof(&OnDisk(file))
}

/// What else that is no record a file is, and the command that takes it.
///
/// # Errors
/// When it cannot be read.
pub fn other(file: &RegularFile) -> Result<Option<(&'static str, &'static str)>, VerifyError> {
    recognise::other(&OnDisk(file))
}

/// Is the file made of lines, to which a program adds more?
///
/// # Errors
/// When it cannot be read.
pub fn is_of_lines(file: &RegularFile) -> Result<bool, VerifyError> {
    recognise::is_of_lines(&OnDisk(file))
}

/// Is it an exported page, which holds records inside?
///
/// # Errors
/// When it cannot be read.
pub fn is_page(file: &RegularFile) -> Result<bool, VerifyError> {
    recognise::is_page(&OnDisk(file))
}

/// Is it a copy of a record with lines left out: no record, though it holds lines and seals of one?
///
/// # Errors
/// When it cannot be read.
pub fn is_copy(file: &RegularFile) -> Result<bool, VerifyError> {
    recognise::is_copy(&OnDisk(file))
}

/// Is the file a checkpoint, whatever it is called?
///
/// # Errors
/// When it cannot be read.
pub fn is_checkpoint(file: &RegularFile) -> Result<bool, VerifyError> {
    recognise::is_checkpoint(&OnDisk(file))
}

/// How ledgers are stored in a file that should hold some.
///
/// # Errors
/// When it cannot be read.
pub fn ledger_shape(file: &RegularFile) -> Result<LedgerShape, VerifyError> {
    recognise::ledger_shape(&OnDisk(file))
}

/// How turns would stand in this file.
///
/// # Errors
/// When it cannot be read.
pub fn container(file: &RegularFile) -> Result<Container, VerifyError> {
    recognise::container(&OnDisk(file))
}

/// Which transcript it is, for a file that should be one.
///
/// # Errors
/// As [`kind`].
pub fn transcript(file: &RegularFile) -> Result<Kind, VerifyError> {
    recognise::transcript(&OnDisk(file))
}

/// Does the seal of a native transcript stand anywhere in the file?
///
/// # Errors
/// When it cannot be read.
pub fn has_native_seal(file: &RegularFile) -> Result<bool, VerifyError> {
    recognise::has_native_seal(&OnDisk(file))
}

#[cfg(test)]
mod tests;
