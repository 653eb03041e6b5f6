//! A format that can be mapped, and the beginning of a source by which it is detected.

use super::mapped::Mapped;
use super::{source, thread};
use threadseal_core::canon::json::Value;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::{
    MAX_DETECT_BYTES, MAX_DETECT_LINES, MAX_LINE_BYTES, MAX_SOURCE_BYTES,
};

/// The largest share of a source that a mapping may not know, in percent: of its records, and of its
/// bytes (`spec/scroll-mappings.md` §1). Records that it knows may have large members of a vendor.
const MAX_LOST_RECORDS: u64 = 50;
const MAX_LOST_BYTES: u64 = 75;

/// A format that can be mapped.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// The name on the command line.
    pub name: &'static str,
    /// The program that writes it.
    pub about: &'static str,
    pub(crate) detect: fn(&Head<'_>) -> Option<Mark>,
    pub(crate) map: fn(&[u8]) -> Result<Mapped, Error>,
}

/// How sure a detection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// The shape fits; other programs write such files, too.
    Guess,
    /// Several members or words of the program's.
    Likely,
    /// A mark that no other known program writes.
    Certain,
}

/// A mark of a format in a source.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    pub(crate) confidence: Confidence,
    pub(crate) why: &'static str,
}

/// A format that was recognised in a source.
#[derive(Debug, Clone, Copy)]
pub struct Detection {
    /// The format.
    pub format: &'static Format,
    /// How sure this is.
    pub confidence: Confidence,
    /// What was found in the source.
    pub why: &'static str,
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
    /// as a whole is not of this format, or the mapping does not know most of it. Faults of single
    /// lines are in the account.
    pub fn map(&self, source: &[u8]) -> Result<Mapped, Error> {
        if source.len() > MAX_SOURCE_BYTES {
            let message = format!("source is larger than {MAX_SOURCE_BYTES} bytes; hint: split it");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let mapped = (self.map)(source)?;
        self.refuse_if_lost(source, &mapped)?;
        Ok(mapped)
    }

    /// Refuses a mapping that does not know most of its source.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] with the share.
    pub(crate) fn refuse_if_lost(&self, source: &[u8], mapped: &Mapped) -> Result<(), Error> {
        // A source without turns makes no scroll, and its account gives the reasons.
        if mapped.drafts.is_empty() {
            return Ok(());
        }
        let account = &mapped.account;
        let bytes = u64::try_from(source.len()).unwrap_or(u64::MAX);
        let shares = [
            (
                account.lost_records(),
                account.records,
                MAX_LOST_RECORDS,
                "records",
            ),
            (
                account.lost_bytes().min(bytes),
                bytes,
                MAX_LOST_BYTES,
                "bytes",
            ),
        ];
        for (lost, all, most, what) in shares {
            if lost.saturating_mul(100) > all.saturating_mul(most) {
                let message = format!(
                    "the mapping {} does not know {lost} of {all} {what}, and would drop them; \
                     hint: name another format with --format",
                    self.name
                );
                return Err(Error::new(ErrorKind::InvalidInput, message));
            }
        }
        Ok(())
    }
}

impl Confidence {
    /// The word in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Guess => "guess",
            Self::Likely => "likely",
            Self::Certain => "certain",
        }
    }
}

impl Mark {
    /// A mark, if it was found.
    pub(crate) fn when(found: bool, confidence: Confidence, why: &'static str) -> Option<Self> {
        found.then_some(Self { confidence, why })
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

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use crate::{Confidence, recognise};

    const TURN: &str =
        r#"{"type":"message","message":{"role":"user","content":"hello, what is here?"}}"#;

    // T-SCR-51
    #[test]
    fn a_mapping_that_does_not_know_most_of_its_source_refuses() {
        let pi = find("pi").unwrap();
        let half = format!("{TURN}\n{}\n", r#"{"type":"teleport","x":1}"#);
        assert!(pi.map(half.as_bytes()).is_ok(), "half of the records");
        let lines = format!("{half}{}\n", r#"{"type":"teleport","x":2}"#);
        let error = pi.map(lines.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("2 of 3 records"), "{error}");
        assert!(error.contains("--format"), "{error}");
        let long = "x".repeat(8 * TURN.len());
        let bytes = format!(
            "{TURN}\n{}\n",
            TURN.replace("\"role\"", &format!("\"new\":\"{long}\",\"role\""))
        );
        let error = pi.map(bytes.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("bytes"), "{error}");
        let broken = format!("{TURN}\n{{\n{{\n");
        assert!(pi.map(broken.as_bytes()).is_err(), "lines that are no JSON");
    }

    // T-SCR-53
    #[test]
    fn each_format_is_recognised_by_a_mark_of_its_own() {
        let parts = r#"{"uuid":"u","parentUuid":null,"sessionId":"s","timestamp":"t","type":"user","message":{"role":"user","parts":[{"text":"x"}]}}"#;
        let content = parts.replace("\"parts\":[{\"text\":\"x\"}]", "\"content\":\"x\"");
        let cline = r#"{"agent":"a","sessionId":"s","updated_at":"t","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"c"}]}]}"#;
        for (source, name, confidence) in [
            (parts, "qwen-code", Confidence::Certain),
            (content.as_str(), "claude-code", Confidence::Certain),
            (
                r#"{"type":"user","timestamp":"t","message":{"content":"x"}}"#,
                "claude-code",
                Confidence::Likely,
            ),
            (TURN, "pi", Confidence::Likely),
            (cline, "cline", Confidence::Certain),
            (
                r#"{"model":"m","messages":[{"role":"user","content":"x"}]}"#,
                "openai-chat",
                Confidence::Guess,
            ),
        ] {
            let found = recognise(source.as_bytes()).unwrap();
            assert_eq!((found.format.name, found.confidence), (name, confidence));
            assert!(!found.why.is_empty());
        }
        assert!(recognise(b"{}").is_none());
    }
}
