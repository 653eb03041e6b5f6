//! Lines of a log in the terms of people: line, byte, turn, type, payload.
//!
//! For display and comparison only: nothing here is verified. A turn begins with each
//! `cognition_in`, so events before the first have turn 0.

use crate::context::Context;
use crate::exit::Failure;
use crate::record;
use threadseal_formats::transcript::bodies::Restorer;
use threadseal_formats::transcript::manifest::{Bodies, parse_line};
pub(crate) use threadseal_reader::events::Event;
use threadseal_store::read::RegularFile;
use threadseal_verify::lines::Lines;
use threadseal_verify::verifier::MAX_TAKEN_UP_BYTES;

/// Reads a log event by event, in the memory of one line.
pub(crate) struct Events<'f> {
    lines: Lines<'f>,
    turn: u64,
    restorer: Option<Restorer<'static>>,
}

impl<'f> Events<'f> {
    /// The events of `file`, from the first.
    pub(crate) fn of(file: &'f RegularFile) -> Self {
        Self {
            lines: Lines::of(file),
            turn: 0,
            restorer: None,
        }
    }

    /// The same with detached bodies in their places; a missing body is shown as a hole.
    ///
    /// # Errors
    /// When the file of bodies cannot be read, or as [`Lines::next`].
    pub(crate) fn whole(file: &'f RegularFile, context: &Context) -> Result<Self, Failure> {
        let text = record::bodies_of(&*context.fs, file, MAX_TAKEN_UP_BYTES)?;
        let mut lines = Lines::of(file);
        let mut restorer = None;
        while let Some(line) = lines.next_line()? {
            if line.number == 1 {
                let manifest = parse_line(line.bytes);
                let Some(manifest) = manifest.filter(|m| m.bodies == Bodies::Detached) else {
                    break;
                };
                restorer = Some(Restorer::new(&manifest.record, &text));
            }
            if let Some(restorer) = &mut restorer {
                restorer.note(line.bytes);
            }
        }
        Ok(Self {
            restorer: restorer.map(Restorer::into_owned),
            ..Self::of(file)
        })
    }

    /// The next event; `None` at the end.
    ///
    /// # Errors
    /// As [`Lines::next`].
    pub(crate) fn next(&mut self) -> Result<Option<Event>, Failure> {
        let Some(line) = self.lines.next_line()? else {
            return Ok(None);
        };
        let bytes = match &self.restorer {
            Some(restorer) => restorer.restore(line.bytes).into_owned(),
            None => line.bytes.to_vec(),
        };
        let mut event = Event::of(line.number, line.start, bytes);
        if event.event_type == "cognition_in" {
            self.turn += 1;
        }
        event.turn = self.turn;
        Ok(Some(event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadseal_store::read::open_regular;
    use threadseal_store::sys::RealFs;

    #[test]
    fn turns_begin_with_cognition_in_and_broken_lines_are_shown_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let lines = [
            r#"{"event_type":"system_prompt","payload":{"a":1}}"#,
            r#"{"event_type":"cognition_in","payload":{"b":2}}"#,
            r#"{"type":"user"}"#,
            r#"{"event_type":"x","payload":"#,
            r#"{"event_type":"cognition_in"}"#,
        ];
        std::fs::write(&path, lines.join("\n")).unwrap();
        let file = open_regular(&RealFs, &path).unwrap();
        let mut events = Events::of(&file);
        let mut seen = Vec::new();
        while let Some(event) = events.next().unwrap() {
            let payload = String::from_utf8(event.payload().to_vec()).unwrap();
            seen.push((event.turn, event.event_type, payload));
        }
        let expected = [
            (0, "system_prompt", r#"{"a":1}"#),
            (1, "cognition_in", r#"{"b":2}"#),
            (1, "user", lines[2]),
            (1, "", lines[3]),
            (2, "cognition_in", lines[4]),
        ];
        let expected = expected.map(|(turn, t, p)| (turn, t.to_owned(), p.to_owned()));
        assert_eq!(seen, expected);
    }
}
