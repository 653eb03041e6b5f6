//! A format that can be mapped, and the beginning of a source by which it is detected.

use super::mapped::Mapped;
use super::{source, thread};
use threadseal_core::canon::json::Value;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::{
    MAX_DETECT_BYTES, MAX_DETECT_LINES, MAX_LINE_BYTES, MAX_SOURCE_BYTES,
};

/// A format that can be mapped.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// The name on the command line.
    pub name: &'static str,
    /// The program that writes it.
    pub about: &'static str,
    pub(crate) detect: fn(&Head<'_>) -> bool,
    pub(crate) map: fn(&[u8]) -> Result<Mapped, Error>,
}

/// The beginning of a source, for detection.
pub(crate) struct Head<'a> {
    /// All of it, as on disk.
    pub(crate) bytes: &'a [u8],
    /// The first lines that are JSON objects.
    pub(crate) lines: Vec<Value>,
    /// The source, if all of it is one JSON text.
    pub(crate) document: Option<Value>,
}

impl Format {
    /// The turns of `source`, and the account.
    ///
    /// # Errors
    /// [`ErrorKind::Limit`] beyond [`MAX_SOURCE_BYTES`]; [`ErrorKind::InvalidInput`] if the source
    /// as a whole is not of this format. Faults of single lines are in the account.
    pub fn map(&self, source: &[u8]) -> Result<Mapped, Error> {
        if source.len() > MAX_SOURCE_BYTES {
            let message = format!("source is larger than {MAX_SOURCE_BYTES} bytes; hint: split it");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        (self.map)(source)
    }
}

impl<'a> Head<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        let bytes = source::without_mark(bytes);
        let mut lines = Vec::new();
        let mut looked_at = 0;
        let candidates = bytes.split(|byte| *byte == b'\n').take(MAX_DETECT_LINES);
        for line in candidates.filter(|line| line.len() <= MAX_LINE_BYTES) {
            if looked_at > MAX_DETECT_BYTES {
                break;
            }
            looked_at += line.len();
            lines.extend(
                source::read_json(line)
                    .ok()
                    .filter(|value| value.as_object().is_some()),
            );
        }
        // Lines inside a pretty-printed document may be objects too, but its first line is not.
        let mut all = bytes.split(|byte| *byte == b'\n');
        let first = all.find(|line| !line.iter().all(u8::is_ascii_whitespace));
        let opens = first.is_some_and(|line| source::read_json(line).is_err());
        let whole = (lines.is_empty() || opens) && bytes.len() <= MAX_SOURCE_BYTES;
        let document = match lines.as_slice() {
            [only] if bytes.iter().filter(|byte| **byte == b'\n').count() <= 1 => {
                Some(only.clone())
            }
            _ if whole => thread::document(bytes).ok(),
            _ => None,
        };
        Self {
            bytes,
            lines,
            document,
        }
    }
}
