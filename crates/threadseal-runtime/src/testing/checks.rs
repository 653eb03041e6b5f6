//! Checks that show the whole value when they fail, and tables.

use crate::runner::Ran;
use crate::status::Status;
use serde_json::Value;
use std::fmt::Display;
use std::ops::Deref;
use std::path::Path;

/// Parts of a text.
pub(crate) trait Text {
    fn has(&self, part: &str) -> &Self;
    fn lacks(&self, part: &str) -> &Self;
}

impl Text for str {
    #[track_caller]
    fn has(&self, part: &str) -> &Self {
        assert!(self.contains(part), "{part:?} is not in {self}");
        self
    }

    #[track_caller]
    fn lacks(&self, part: &str) -> &Self {
        assert!(!self.contains(part), "{part:?} is in {self}");
        self
    }
}

/// Results that must be errors.
pub(crate) trait Fails {
    /// The text of the error.
    fn why(self) -> String;
    /// Checks that the text of the error contains `part`.
    fn fails_with(self, part: &str);
}

impl<T, E: Display> Fails for Result<T, E> {
    #[track_caller]
    fn why(self) -> String {
        match self {
            Ok(_) => panic!("it did not fail"),
            Err(error) => error.to_string(),
        }
    }

    #[track_caller]
    fn fails_with(self, part: &str) {
        match self {
            Ok(_) => panic!("it did not fail with {part:?}"),
            Err(error) => drop(error.to_string().has(part)),
        }
    }
}

/// Members of JSON.
pub(crate) trait Json {
    fn text(&self) -> &str;
    fn list(&self) -> &[Value];
    /// The member of each object of a list.
    fn each(&self, member: &str) -> Vec<&Value>;
}

impl Json for Value {
    #[track_caller]
    fn text(&self) -> &str {
        let text = self.as_str();
        text.unwrap_or_else(|| panic!("not a string: {self}"))
    }

    #[track_caller]
    fn list(&self) -> &[Value] {
        let list = self.as_array();
        list.unwrap_or_else(|| panic!("not an array: {self}"))
    }

    #[track_caller]
    fn each(&self, member: &str) -> Vec<&Value> {
        self.list().iter().map(|item| &item[member]).collect()
    }
}

/// The events of a transcript.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Events(Vec<Value>);

impl Deref for Events {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        &self.0
    }
}

impl Events {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let lines = bytes.split(|byte| *byte == b'\n');
        let lines = lines.filter(|line| !line.is_empty());
        Self(
            lines
                .map(|line| serde_json::from_slice(line).unwrap())
                .collect(),
        )
    }

    /// The type of each.
    pub(crate) fn kinds(&self) -> Vec<&str> {
        self.iter()
            .map(|event| event["event_type"].text())
            .collect()
    }

    /// The payloads of one type.
    pub(crate) fn of(&self, kind: &str) -> Vec<&Value> {
        let found = self.iter().filter(|event| event["event_type"] == kind);
        found.map(|event| &event["payload"]).collect()
    }

    /// The keys of the calls that a record names as ended, or as of unknown outcome.
    pub(crate) fn keys_of_calls(&self) -> Vec<String> {
        let results = self.of("tool_call_result");
        let has_ended = |start: &Value| {
            let mut results = results.iter();
            results.any(|result| result["call_id"] == start["call_id"])
        };
        let starts = self.of("tool_call_start").into_iter();
        let ended = starts.filter(|start| has_ended(start));
        let calls = ended.chain(self.of("tool_call_unresolved"));
        calls
            .map(|call| call["idempotency_key"].text().to_owned())
            .collect()
    }

    pub(crate) fn count(&self, kind: &str) -> usize {
        self.of(kind).len()
    }

    /// The payload of the only event of this type.
    #[track_caller]
    pub(crate) fn one(&self, kind: &str) -> &Value {
        let found = self.of(kind);
        assert_eq!(found.len(), 1, "{kind}: {:#?}", self.0);
        found[0]
    }
}

/// How threads and runs end.
pub(crate) trait Ended: Sized {
    /// Checks the status.
    fn ended(self, status: Status) -> Self;
    /// Checks that the status is `completed`.
    #[track_caller]
    fn completed(self) -> Self {
        self.ended(Status::Completed)
    }
}

impl Ended for Ran {
    #[track_caller]
    fn ended(self, status: Status) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }
}

/// The text that an attacker makes of the text of a file.
pub(crate) type Attack<'a> = dyn Fn(&str) -> String + 'a;

/// Replaces each `from` in a file.
#[track_caller]
pub(crate) fn edit(path: impl AsRef<Path>, from: &str, to: &str) {
    let text = std::fs::read_to_string(&path).unwrap();
    text.has(from);
    std::fs::write(path, text.replace(from, to)).unwrap();
}

/// The rows of a table, one a line. `=>` separates cells; blanks around them do not count. In a cell,
/// `\n` is a line end and `\s` a blank.
#[track_caller]
pub(crate) fn rows<const N: usize>(table: &str) -> Vec<[String; N]> {
    let lines = table.lines().filter(|line| !line.trim().is_empty());
    let row = |line: &str| {
        let cells = line
            .split("=>")
            .map(|cell| cell.trim().replace("\\n", "\n"));
        let cells: Vec<String> = cells.map(|cell| cell.replace("\\s", " ")).collect();
        let row = <[String; N]>::try_from(cells);
        row.unwrap_or_else(|cells| panic!("{N} cells: {cells:?}"))
    };
    lines.map(row).collect()
}
