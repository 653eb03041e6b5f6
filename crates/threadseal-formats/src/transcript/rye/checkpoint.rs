//! The members of a checkpoint line, each required, well-typed and spelled in one way.
//!
//! Rye's verifier reads the members that it needs and ignores the rest, so it accepts unknown
//! members and impossible values. Here the line must be one that Rye's writer can have written
//! (`transcript_signer.py`, `checkpoint`). `ts` may be missing: it is optional in the format.

use threadseal_core::canon::json::{self, Text, Value};
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::key::{RyeFingerprint, Signature};
use threadseal_core::record::parse_decimal;
use threadseal_core::time::Timestamp;

/// A checkpoint as it is written; nothing of it is verified yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Checkpoint {
    pub(super) thread: String,
    pub(super) turn: u64,
    pub(super) byte_offset: u64,
    pub(super) hash: Digest,
    pub(super) signature: Signature,
    pub(super) fingerprint: RyeFingerprint,
    /// `timestamp` as spelled, and `ts`: no hash ever covers these of the last checkpoint.
    pub(super) timestamp: String,
    pub(super) ts: Option<Timestamp>,
}

/// The member that is missing, of another type, or misspelled; or a member too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);

const FRAME: [&str; 4] = ["timestamp", "thread_id", "event_type", "payload"];
const PAYLOAD: [&str; 6] = ["turn", "byte_offset", "hash", "sig", "fp", "ts"];

impl Checkpoint {
    /// Reads a line without its LF.
    pub(super) fn parse(line: &[u8]) -> Result<Self, Malformed> {
        let line = json::parse(line).map_err(|_| Malformed("line"))?;
        let members = line.as_object().ok_or(Malformed("line"))?;
        only(members, &FRAME)?;
        let payload = line.get("payload").ok_or(Malformed("payload"))?;
        only(payload.as_object().ok_or(Malformed("payload"))?, &PAYLOAD)?;
        let number = |name| {
            let literal = payload.get(name)?.as_number()?.literal();
            parse_decimal(literal)
        };
        let string = |name| payload.get(name)?.as_str();
        let ts = match payload.get("ts") {
            None => None,
            Some(ts) => Some(
                ts.as_str()
                    .and_then(Timestamp::parse_iso_seconds)
                    .ok_or(Malformed("ts"))?,
            ),
        };
        let signature = string("sig").and_then(encoding::parse_base64url_either);
        let timestamp = line.get("timestamp").and_then(Value::as_number);
        Ok(Self {
            thread: line
                .get("thread_id")
                .and_then(Value::as_str)
                .ok_or(Malformed("thread_id"))?
                .to_owned(),
            turn: number("turn").ok_or(Malformed("turn"))?,
            byte_offset: number("byte_offset").ok_or(Malformed("byte_offset"))?,
            hash: string("hash")
                .and_then(Digest::parse_hex)
                .ok_or(Malformed("hash"))?,
            signature: signature
                .and_then(|bytes| Signature::from_slice(&bytes))
                .ok_or(Malformed("sig"))?,
            fingerprint: string("fp")
                .and_then(RyeFingerprint::parse_hex)
                .ok_or(Malformed("fp"))?,
            timestamp: timestamp
                .ok_or(Malformed("timestamp"))?
                .literal()
                .to_owned(),
            ts,
        })
    }
}

/// The first byte of a checkpoint's line that a writer of Rye does not put there: a blank, a missing
/// blank, or an escape. No hash covers the line of the last checkpoint, and its signature covers one
/// member only.
///
/// Writers put one space after each `:` and `,`, or none at all. They escape nothing but the text of
/// the thread. The line is strict JSON.
pub(super) fn odd_byte(line: &[u8]) -> Option<usize> {
    let is_blank = |byte: u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let (mut spaced, mut name, mut last): (Option<bool>, &[u8], &[u8]) = (None, b"", b"");
    let mut at = 0;
    while let Some(byte) = line.get(at) {
        let before = at.checked_sub(1).and_then(|before| line.get(before));
        match byte {
            b'"' => {
                let inside = line.get(at + 1..).unwrap_or_default();
                let end = end_of_string(inside);
                last = inside.get(..end).unwrap_or_default();
                let escape = last.iter().position(|byte| *byte == b'\\');
                if let Some(escape) = escape.filter(|_| name != b"thread_id") {
                    return Some(at + 1 + escape);
                }
                at += end + 1;
            }
            b':' | b',' => {
                name = if *byte == b':' { last } else { b"" };
                let next = line.get(at + 1).copied();
                let spaced = *spaced.get_or_insert(next == Some(b' '));
                if spaced && next != Some(b' ') {
                    return Some(at + 1);
                }
            }
            b'{' => name = b"",
            byte if is_blank(*byte) => {
                let is_separated = matches!(before, Some(b':' | b','));
                if !(is_separated && *byte == b' ' && spaced == Some(true)) {
                    return Some(at);
                }
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Where the quote is that ends a string.
fn end_of_string(inside: &[u8]) -> usize {
    let mut escaped = false;
    let end = inside.iter().position(|byte| {
        let is_end = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        is_end
    });
    end.unwrap_or(inside.len())
}

fn only(members: &[(Text, Value)], known: &[&str]) -> Result<(), Malformed> {
    let strange = |(name, _): &(Text, Value)| !known.iter().any(|known| name == *known);
    if members.iter().any(strange) {
        return Err(Malformed("unknown member"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"timestamp": 1.5, "thread_id": "t", "event_type": "checkpoint", "payload": {"turn": 1, "byte_offset": 93, "hash": "cce1e51e984a0733c8818c26def990deb4be92d99f9116b991730d2176b67981", "sig": "N27676-sTqiUXMWP0G73T2kiaMGq7f5dCFfQEgRqvncVzdLpcNrC-CDP1tW01rvWYRqG2yX0mu-DmkkQJzS6CQ==", "fp": "3ef44d1ee334ace7", "ts": "2026-02-18T10:30:00Z"}}"#;

    #[test]
    fn what_rye_writes_is_read() {
        let checkpoint = Checkpoint::parse(GOOD.as_bytes()).unwrap();
        assert_eq!((checkpoint.turn, checkpoint.byte_offset), (1, 93));
        let seed = GOOD
            .replace(r#", "ts": "2026-02-18T10:30:00Z""#, "")
            .replace("CQ==", "CQ");
        assert_eq!(Checkpoint::parse(seed.as_bytes()).unwrap().ts, None);
    }

    #[test]
    fn a_byte_that_no_writer_puts_there_is_found() {
        let compact = GOOD.replace(": ", ":").replace(", ", ",");
        let thread = GOOD.replace("\"t\"", r#""caf\u00e9 \" , : \\\\""#);
        for good in [GOOD, &compact, &thread] {
            assert_eq!(odd_byte(good.as_bytes()), None, "{good}");
        }
        for (from, to, at) in [
            ("{\"timestamp", " {\"timestamp", 0),
            ("{\"timestamp", "{ \"timestamp", 1),
            ("\"t\", ", "\"t\",  ", 37),
            ("\"t\", ", "\"t\",", 36),
            ("\"t\", ", "\"t\" , ", 35),
            ("\"t\", ", "\"t\",\t", 36),
            ("\"turn\"", "\"\\u0074urn\"", 78),
            ("\"checkpoint\"", "\"\\u0063heckpoint\"", 52),
            ("\"}}", "\"}} ", GOOD.len()),
            ("\"}}", "\"} }", GOOD.len() - 1),
        ] {
            let text = GOOD.replacen(from, to, 1);
            assert_eq!(odd_byte(text.as_bytes()), Some(at), "{text}");
        }
    }

    #[test]
    fn every_other_spelling_names_its_member() {
        for (from, to, member) in [
            ("\"turn\": 1", "\"turn\": 1.0", "turn"),
            ("\"turn\": 1", "\"turn\": -0", "turn"),
            ("\"turn\": 1, ", "", "turn"),
            ("\"turn\": 1", "\"turn\": true", "turn"),
            (": 93", ": \"93\"", "byte_offset"),
            (": 93", ": -93", "byte_offset"),
            (": 93", ": 1000000000000000000000000000000", "byte_offset"),
            ("cce1e5", "CCE1E5", "hash"),
            ("CQ==", "CR==", "sig"),
            ("CQ==", "CQ=", "sig"),
            ("N27676", "N2767", "sig"),
            ("3ef44d", "3EF44D", "fp"),
            ("3ef44d1ee334ace7", "../../../../etc/x", "fp"),
            ("02-18T", "02-30T", "ts"),
            ("1.5", "\"1.5\"", "timestamp"),
            ("\"t\"", "7", "thread_id"),
            ("\"turn\"", "\"note\": \"x\", \"turn\"", "unknown member"),
            (
                "\"event_type\"",
                "\"more\": 1, \"event_type\"",
                "unknown member",
            ),
            (
                "\"event_type\"",
                "\"event_type\": 1, \"event_type\"",
                "line",
            ),
        ] {
            let text = GOOD.replacen(from, to, 1);
            assert_ne!(text, GOOD, "{from}");
            assert_eq!(
                Checkpoint::parse(text.as_bytes()),
                Err(Malformed(member)),
                "{to}"
            );
        }
    }
}
