//! Writes a backup: the files of a home as a ustar archive, encrypted.

use super::snapshot::{self, Taker};
use super::{Amount, DESCRIPTION, Description, Sealer};
use crate::context::Context;
use crate::exit::Failure;
use std::io::{self, Read, Write};
use std::path::Path;
use tar::{Builder, EntryType, Header};
use threadseal_store::atomic::{NewFile, PRIVATE_FILE};
use threadseal_store::home::Home;
use threadseal_store::read::{Chunks, RegularFile, Source as _};

/// Backs `home` up into the new file `to`.
///
/// # Errors
/// When a file cannot be read, or the backup not be written.
pub(crate) fn write(
    home: &Home,
    to: &Path,
    description: &Description,
    sealer: &Sealer,
    context: &Context,
) -> Result<Amount, Failure> {
    let mut file = NewFile::begin(&*context.fs, to, PRIVATE_FILE)?;
    let amount = pack(home, to, &mut file, description, sealer, context)?;
    file.commit_new()?;
    Ok(amount)
}

fn pack(
    home: &Home,
    to: &Path,
    file: &mut NewFile<'_>,
    description: &Description,
    sealer: &Sealer,
    context: &Context,
) -> Result<Amount, Failure> {
    let failed = |error: io::Error| Failure::io("write", to, &error);
    let mut packer = Packer {
        archive: Builder::new(sealer.wrap(Sink(file))?),
        amount: Amount::default(),
        failed: &failed,
    };
    let text = serde_json::to_vec(description)
        .map_err(|error| Failure::new(format!("cannot describe the backup: {error}")))?;
    packer.append(DESCRIPTION, text.len() as u64, &*text)?;
    snapshot::of(home, context, &mut packer)?;
    let amount = packer.amount;
    let stream = packer.archive.into_inner().map_err(failed)?;
    stream.finish().map_err(failed)?;
    Ok(amount)
}

struct Packer<'p, W: Write> {
    archive: Builder<W>,
    amount: Amount,
    failed: &'p dyn Fn(io::Error) -> Failure,
}

impl<W: Write> Packer<'_, W> {
    fn append(&mut self, path: &str, size: u64, bytes: impl Read) -> Result<(), Failure> {
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(PRIVATE_FILE);
        header.set_size(size);
        header.set_path(path).map_err(self.failed)?;
        header.set_cksum();
        self.archive.append(&header, bytes).map_err(self.failed)
    }
}

impl<W: Write> Taker for Packer<'_, W> {
    fn take(&mut self, path: &str, file: &RegularFile) -> Result<(), Failure> {
        self.append(path, file.size(), Bytes::of(file))?;
        self.amount.files += 1;
        self.amount.bytes += file.size();
        Ok(())
    }
}

/// The bytes that a file had when it was opened.
pub(super) struct Bytes<'f> {
    chunks: Chunks<'f>,
    chunk: Vec<u8>,
    at: usize,
}

impl<'f> Bytes<'f> {
    fn of(file: &'f RegularFile) -> Self {
        Self::of_range(file, 0, file.size())
    }

    pub(super) fn of_range(file: &'f RegularFile, start: u64, end: u64) -> Self {
        Self {
            chunks: file.range(start, end),
            chunk: Vec::new(),
            at: 0,
        }
    }
}

impl Read for Bytes<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.chunk.len() {
            let next = self.chunks.next_chunk(&mut self.chunk);
            next.map_err(|error| io::Error::other(error.to_string()))?;
            self.at = 0;
        }
        let left = self.chunk.get(self.at..).unwrap_or_default();
        let count = left.len().min(buffer.len());
        buffer[..count].copy_from_slice(&left[..count]);
        self.at += count;
        Ok(count)
    }
}

/// The new file, as a writer.
struct Sink<'s, 'f>(&'s mut NewFile<'f>);

impl Write for Sink<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.0.write(bytes);
        written.map_err(|error| io::Error::other(error.to_string()))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
