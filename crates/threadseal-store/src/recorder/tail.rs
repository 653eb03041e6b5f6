//! The tail of a record: its bytes, and whether an unfinished redaction wrote them.
//!
//! A crash or a full disk can interrupt a redaction before its own seal.

use crate::read::{RegularFile, Source as _};
use memchr::memmem;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::report::{Report, Verdict};

/// Types of the lines that a redaction writes.
const OF_REDACTIONS: [&str; 3] = ["authority", "redacted", "checkpoint"];

/// Longest tail that can be adopted; it is held in memory.
const MAX_ADOPTED_BYTES: usize = 256 << 20;

/// How to treat bytes after the last seal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TailPolicy {
    /// Do not open the record.
    Refuse,
    /// Move them into a file beside the record, and record that in it.
    SetAside,
    /// Set aside only the rest of a redaction that was interrupted before its seal. Refuse any
    /// other tail.
    SetAsideRedaction,
    /// Keep them, marked as unverified for ever.
    Adopt,
    /// Leave them as they are; nothing is written before [`Recorder::adopt_tail`].
    Hold,
}

/// All bytes from `from` on.
pub(super) fn read(file: &RegularFile, from: u64) -> Result<Vec<u8>, Error> {
    let (mut chunks, mut buffer, mut tail) =
        (file.range(from, file.size()), Vec::new(), Vec::new());
    loop {
        chunks.next_chunk(&mut buffer)?;
        if buffer.is_empty() {
            return Ok(tail);
        }
        tail.extend_from_slice(&buffer);
        if tail.len() > MAX_ADOPTED_BYTES {
            let text = format!("a tail of more than {MAX_ADOPTED_BYTES} bytes cannot be adopted");
            return Err(Error::new(ErrorKind::Limit, text));
        }
    }
}

/// The meaning of [`TailPolicy::SetAsideRedaction`] for the tail of the record in `file`, which
/// verification judged as `report`.
pub(super) fn of_redaction(file: &RegularFile, report: &Report) -> Result<TailPolicy, Error> {
    let (Verdict::UnsignedTail, Some(head)) = (report.verdict, report.head) else {
        // There is no tail, or the record is refused for another reason too.
        return Ok(TailPolicy::SetAside);
    };
    let tail = read(file, head.size)?;
    Ok(
        match tail.split(|byte| *byte == b'\n').all(is_of_redaction) {
            true => TailPolicy::SetAside,
            false => TailPolicy::Refuse,
        },
    )
}

/// Can a redaction have written this line, or the part of it that reached the disk?
fn is_of_redaction(line: &[u8]) -> bool {
    const MEMBER: &[u8] = b"\"event_type\":\"";
    let Some(place) = memmem::find(line, MEMBER) else {
        // The line was cut before its type.
        return memmem::find(line, b"\"payload\"").is_none();
    };
    let named = line.get(place + MEMBER.len()..).unwrap_or_default();
    OF_REDACTIONS.iter().any(|word| {
        let word = format!("{word}\"");
        named.starts_with(word.as_bytes()) || word.as_bytes().starts_with(named)
    })
}
