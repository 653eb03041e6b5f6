//! What a redaction leaves behind the last seal that was cut short before its own: by a crash, or a disk that is full.

use super::{TailPolicy, read_tail};
use crate::read::RegularFile;
use memchr::memmem;
use threadseal::error::Error;
use threadseal::report::{Report, Verdict};

/// Types of the lines that a redaction writes.
const OF_REDACTIONS: [&str; 3] = ["authority", "redacted", "checkpoint"];

/// What is done with the tail of the record in `file`, of which verification said `report`.
pub(super) fn policy(file: &RegularFile, report: &Report) -> Result<TailPolicy, Error> {
    let (Verdict::UnsignedTail, Some(head)) = (report.verdict, report.head) else {
        return Ok(TailPolicy::Refuse);
    };
    let tail = read_tail(file, head.size)?;
    Ok(
        match tail.split(|byte| *byte == b'\n').all(is_of_redaction) {
            true => TailPolicy::SetAside,
            false => TailPolicy::Refuse,
        },
    )
}

/// Can a redaction have written this line, or as much of it as reached the disk?
fn is_of_redaction(line: &[u8]) -> bool {
    const MEMBER: &[u8] = b"\"event_type\":\"";
    let Some(place) = memmem::find(line, MEMBER) else {
        // Cut before it says anything.
        return memmem::find(line, b"\"payload\"").is_none();
    };
    let named = line.get(place + MEMBER.len()..).unwrap_or_default();
    OF_REDACTIONS.iter().any(|word| {
        let word = format!("{word}\"");
        named.starts_with(word.as_bytes()) || word.as_bytes().starts_with(named)
    })
}
