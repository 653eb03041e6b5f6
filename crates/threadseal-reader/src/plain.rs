//! [`plain_text`]: a log as plain text, which an exported page shows without scripts (`spec/page.md` §4).
//!
//! ```text
//! [turn 3] assistant  2026-11-21T20:41:22Z
//!   | I will list the files.
//!   > Bash
//!   | {"command":"ls"}
//!   < ok
//!   | README.md
//! ```
//! Invariant: the same bytes give the same text, in the command and in a page. So a page that shows another text than its
//! record has is noticed. Every line of the log's own has a margin before it.

use crate::clean::is_unsafe;
use crate::events::Event;
use crate::turns::Turn;
use std::fmt::Write as _;
use threadseal_convert as convert;
use threadseal_core::encoding::parse_base64;

/// Bytes of a text; what is beyond is left out, and the text mentions it.
pub const MAX_PLAIN_BYTES: usize = 16 << 20;
/// Characters of one result.
const MAX_RESULT_CHARS: usize = 4000;
/// What a proof of a turn begins with (`spec/proofs.md`).
const PROOF: &[u8] = b"threadseal/1 proof of ";

/// The text of several logs, each under its name.
pub fn plain_texts<'l>(logs: impl IntoIterator<Item = (&'l str, &'l [u8])>) -> String {
    let texts = logs
        .into_iter()
        .map(|(name, bytes)| format!("{}\n\n{}", one_line(name), plain_text(bytes)));
    texts.collect::<Vec<_>>().join("\n")
}

/// The text of one log, of whatever format; of a proof that of the lines that it shows.
pub fn plain_text(bytes: &[u8]) -> String {
    match bytes.starts_with(PROOF) {
        true => log_text(&shown_lines(bytes)),
        false => log_text(bytes),
    }
}

fn log_text(bytes: &[u8]) -> String {
    let mut text = Text::default();
    match convert::detect(bytes).and_then(|format| format.map(bytes).ok()) {
        Some(mapped) => {
            for (number, draft) in (0..).zip(mapped.drafts.iter()) {
                if !text.turn(&Turn::of(number, &draft)) {
                    break;
                }
            }
        }
        None => text.lines(bytes.split(|byte| *byte == b'\n')),
    }
    text.0
}

/// The lines that a proof shows: of a transcript as text, of an observed log in base64.
fn shown_lines(proof: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(proof);
    let shown = text.lines().filter_map(|line| {
        line.strip_prefix("manifest ")
            .or_else(|| line.strip_prefix("line "))
    });
    let plain = |line: &str| match line.starts_with('{') {
        true => Some(line.as_bytes().to_vec()),
        false => parse_base64(line),
    };
    shown
        .filter_map(plain)
        .flat_map(|line| [line, b"\n".to_vec()].concat())
        .collect()
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn lines<'b>(&mut self, lines: impl Iterator<Item = &'b [u8]>) {
        for (number, line) in (1..).zip(lines) {
            let event = Event::alone(number, line);
            if line.is_empty() || event.is_seal() {
                continue;
            }
            self.head("line", number, &event.event_type, None);
            self.quote(&event.readable());
            if !self.end() {
                return;
            }
        }
    }

    /// Adds a turn; `false` when there is no room for more.
    fn turn(&mut self, turn: &Turn) -> bool {
        self.head("turn", turn.turn, &turn.role, turn.time.as_deref());
        for item in &turn.texts {
            if item.kind != "text" {
                self.mark(' ', &item.kind);
            }
            self.quote(&item.text);
        }
        for call in &turn.calls {
            self.mark('>', &call.name);
            self.quote(&call.args);
        }
        for result in &turn.results {
            self.mark('<', if result.ok { "ok" } else { "failed" });
            let count = result.text.chars().count();
            let shown: String = result.text.chars().take(MAX_RESULT_CHARS).collect();
            self.quote(&shown);
            if let Some(more) = count.checked_sub(MAX_RESULT_CHARS).filter(|more| *more > 0) {
                self.mark(' ', &format!("… {more} more characters"));
            }
        }
        self.end()
    }

    fn head(&mut self, place: &str, number: u64, name: &str, time: Option<&str>) {
        let time = time.map_or_else(String::new, |time| format!("  {time}"));
        // A text takes everything.
        let _ = writeln!(self.0, "[{place} {number}] {}{time}", one_line(name));
    }

    fn mark(&mut self, sign: char, name: &str) {
        let _ = writeln!(self.0, "  {sign} {}", one_line(name));
    }

    fn quote(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        for line in text.lines() {
            let _ = writeln!(self.0, "  | {}", one_line(line));
        }
    }

    fn end(&mut self) -> bool {
        self.0.push('\n');
        let is_room = self.0.len() < MAX_PLAIN_BYTES;
        if !is_room {
            self.0.push_str("… the rest is in the record only\n");
        }
        is_room
    }
}

/// Without characters that move a cursor, reorder or hide text.
fn one_line(text: &str) -> String {
    let shown = |letter: char| {
        if is_unsafe(letter) {
            '\u{fffd}'
        } else {
            letter
        }
    };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = concat!(
        r#"{"type":"user","uuid":"a","parentUuid":null,"sessionId":"3f9c1a2e-0000-4000-8000-000000000001","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/p","version":"2.0.0","message":{"role":"user","content":"List\n[9] forged"}}"#,
        "\n",
    );

    #[test]
    fn each_line_of_a_log_has_a_margin() {
        let text = plain_text(LOG.as_bytes());
        assert_eq!(
            text,
            "[turn 0] user  2026-01-01T00:00:00Z\n  | List\n  | [9] forged\n\n"
        );
        assert_eq!(
            plain_texts([("a\nb", LOG.as_bytes())]),
            format!("a\u{fffd}b\n\n{text}")
        );
    }

    #[test]
    fn what_no_mapping_reads_is_shown_by_lines() {
        assert_eq!(
            plain_text("{\"type\":\"x\u{202e}\",\"text\":1}\nplain\n".as_bytes()),
            "[line 1] x\u{fffd}\n  | 1\n\n[line 2] \n  | plain\n\n"
        );
        assert_eq!(plain_text(b""), "");
    }

    #[test]
    fn of_a_proof_the_lines_that_it_shows_are_text() {
        let proof = "threadseal/1 proof of turn\nmanifest {\"event_type\":\"x\",\"payload\":{\"a\":1}}\nline eyJ0eXBlIjoieSJ9\nhash abc\n";
        assert_eq!(
            plain_text(proof.as_bytes()),
            "[line 1] x\n  | {\"a\":1}\n\n[line 2] y\n  | {\"type\":\"y\"}\n\n"
        );
    }

    #[test]
    fn a_text_has_an_end() {
        let log = "word\n".repeat(MAX_PLAIN_BYTES / 8);
        let text = plain_text(log.as_bytes());
        assert!(
            text.len() < MAX_PLAIN_BYTES + 100 && text.ends_with("only\n"),
            "{}",
            text.len()
        );
    }
}
