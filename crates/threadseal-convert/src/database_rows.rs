//! Rows of a session in a database, as the log of its states has them (`spec/database-sources.md`).
//!
//! ```text
//! {"format":"threadseal-rows/1","kind":"opencode"|"openai-agents","session":ID,…}
//! {"table":T,"key":[…],"row":{"COLUMN":VALUE,…}}   {"table":T,"key":[…],"gone":true}   {"state":N,…}
//! ```
//!
//! The last line of each row counts. OpenCode's rows become the document of `opencode export`, those of
//! the Agents SDK its items, and the mappings of these read them. A "line" is the line of the log.
//!
//! `spec/scroll-mappings.md` C22 has the table.

use super::account::{Account, Reason, object};
use super::format::{Confidence, Format, Head, Mark};
use super::mapped::Mapped;
use super::source::{json_objects, read_json, weight};
use super::thread::fingerprint;
use super::{openai_agents, opencode};
use std::collections::{BTreeMap, HashMap};
use threadseal_core::canon::json::{Number, Text, Value};
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_JSON_VALUES;

const NAME: &str = "database-rows";
const LOG: &str = "threadseal-rows/1";
/// Columns of OpenCode that hold JSON.
const JSON_COLUMNS: [&str; 6] = [
    "data",
    "model",
    "metadata",
    "permission",
    "revert",
    "summary_diffs",
];

pub(super) const FORMAT: Format = Format {
    name: NAME,
    about: "Rows of a session in a database of OpenCode or the OpenAI Agents SDK",
    detect,
    map,
};

fn detect(head: &Head<'_>) -> Option<Mark> {
    let first = head.lines.first()?;
    let text = |name| first.get(name).and_then(Value::as_str);
    let is_known = matches!(text("kind"), Some("opencode" | "openai-agents"));
    let why = "a first line with `threadseal-rows/1`";
    Mark::when(
        is_known && text("format") == Some(LOG),
        Confidence::Certain,
        why,
    )
}

/// One row.
pub(super) struct Row {
    pub(super) line: u64,
    pub(super) table: String,
    pub(super) columns: Value,
}

impl Row {
    pub(super) fn text(&self, column: &str) -> Option<&str> {
        self.columns.get(column)?.as_str()
    }

    fn number(&self, column: &str) -> i64 {
        let value = self.columns.get(column).and_then(Value::as_i64);
        value.unwrap_or_default()
    }
}

fn map(source: &[u8]) -> Result<Mapped, Error> {
    let mut account = Account::default();
    let mut kind = String::new();
    let mut rows: HashMap<Digest, Row> = HashMap::new();
    json_objects(
        source,
        MAX_JSON_VALUES,
        &mut account,
        |account, line, value| {
            if value.get("state").is_some() || value.get("format").is_some() {
                if let Some(named) = value.get("kind").and_then(Value::as_str) {
                    named.clone_into(&mut kind);
                }
                return account.drop_part(line, "", Reason::Metadata);
            }
            let named = ["table", "key", "nth"].map(|name| {
                let part = value.get(name).cloned();
                (name, part.unwrap_or(Value::Null))
            });
            let name = fingerprint(&object(named));
            let table = value.get("table").and_then(Value::as_str);
            let before = match (table, value.get("row")) {
                (Some(table), Some(row)) => {
                    let row = Row {
                        line,
                        table: table.to_owned(),
                        columns: decoded(row),
                    };
                    rows.insert(name, row)
                }
                (Some(_), None) if value.get("gone").is_some() => {
                    account.drop_part(line, "", Reason::Metadata);
                    rows.remove(&name)
                }
                _ => {
                    account.lose_record(weight(&value));
                    return account.unmapped(line, "neither a row nor the end of a state");
                }
            };
            if let Some(before) = before {
                account.drop_part(before.line, "", Reason::Superseded);
            }
        },
    );
    let mut rows: Vec<Row> = rows.into_values().collect();
    rows.sort_by_key(|row| row.line);
    match kind.as_str() {
        "opencode" => Ok(opencode(rows, account)),
        "openai-agents" => Ok(agents(rows, account)),
        _ => {
            let message = "not the rows of a session of an agent that is known";
            Err(Error::new(ErrorKind::InvalidInput, message))
        }
    }
}

/// The columns of a row, with numbers and JSON texts as values.
fn decoded(row: &Value) -> Value {
    let members = row.as_object().unwrap_or_default().iter();
    let columns = members.map(|(name, value)| {
        let is_json = name
            .as_str()
            .is_some_and(|name| JSON_COLUMNS.contains(&name));
        let json = value.as_str().filter(|_| is_json);
        let json = json.and_then(|text| read_json(text.as_bytes()).ok());
        (
            name.clone(),
            json.or_else(|| real(value))
                .unwrap_or_else(|| value.clone()),
        )
    });
    Value::Object(columns.collect())
}

/// The number in `{"real":"3ff8000000000000"}`, if JSON can spell it.
fn real(value: &Value) -> Option<Value> {
    let bits = value.get("real")?.as_str()?;
    let number = f64::from_bits(u64::from_str_radix(bits, 16).ok()?);
    if !number.is_finite() {
        return None;
    }
    Some(Value::Number(Number::parse(&format!("{number:?}"))?))
}

fn unknown(row: &Row, account: &mut Account) {
    account.lose_record(weight(&row.columns));
    account.unmapped(row.line, &format!("a row of table {}", row.table));
}

/// The document that `opencode export` makes of these rows.
fn opencode(rows: Vec<Row>, mut account: Account) -> Mapped {
    let (mut session, mut messages) = (None, Vec::new());
    let mut parts: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for row in rows {
        match row.table.as_str() {
            "session" => session = Some(row),
            "message" => messages.push(row),
            "part" => {
                let message = row.text("message_id").unwrap_or_default().to_owned();
                parts.entry(message).or_default().push(row);
            }
            // Tools write the list, and their calls are in the parts.
            "todo" => account.drop_part(row.line, "", Reason::View),
            _ => unknown(&row, &mut account),
        }
    }
    messages.sort_by(|a, b| {
        let order = |row: &Row| {
            (
                row.number("time_created"),
                row.text("id").map(str::to_owned),
            )
        };
        order(a).cmp(&order(b))
    });
    let mut built = Vec::new();
    for message in messages {
        let id = message.text("id").unwrap_or_default();
        let mut own = parts.remove(id).unwrap_or_default();
        own.sort_by(|a, b| a.text("id").cmp(&b.text("id")));
        let lines = std::iter::once(message.line).chain(own.iter().map(|part| part.line));
        let lines: Vec<u64> = lines.collect();
        let own = own.iter().map(|part| {
            with_ids(
                part,
                &[
                    ("id", "id"),
                    ("sessionID", "session_id"),
                    ("messageID", "message_id"),
                ],
            )
        });
        let info = with_ids(&message, &[("id", "id"), ("sessionID", "session_id")]);
        let value = object([("info", info), ("parts", Value::Array(own.collect()))]);
        built.push((lines, value));
    }
    for part in parts.into_values().flatten() {
        account.lose_record(weight(&part.columns));
        account.unmapped(part.line, "a part of no message");
    }
    let session = session.map(|row| (row.line, row.columns));
    opencode::map_rows(session.as_ref(), &built, account)
}

/// The JSON of a row, with the ids that OpenCode keeps in columns.
fn with_ids(row: &Row, ids: &[(&str, &str)]) -> Value {
    let data = row.columns.get("data");
    let mut members = match data.and_then(Value::as_object) {
        Some(members) => members.to_vec(),
        None => Vec::new(),
    };
    for (name, column) in ids {
        let id = row.columns.get(column);
        let is_there = members
            .iter()
            .any(|(known, _)| known.as_str() == Some(name));
        if let Some(id) = id.filter(|_| !is_there) {
            members.push((Text::from(*name), id.clone()));
        }
    }
    Value::Object(members)
}

fn agents(rows: Vec<Row>, mut account: Account) -> Mapped {
    let mut items = Vec::new();
    for row in rows {
        match row.table.as_str() {
            "agent_messages" => items.push(row),
            "agent_sessions" => account.drop_part(row.line, "", Reason::Metadata),
            _ => unknown(&row, &mut account),
        }
    }
    items.sort_by_key(|row| row.number("id"));
    let items = items.into_iter().map(|row| (row.line, row.columns));
    openai_agents::map_rows(&items.collect::<Vec<_>>(), account)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPENCODE: &str = r#"{"format":"threadseal-rows/1","kind":"opencode","session":"ses_1","database":"/d"}
{"table":"message","key":["msg_1"],"row":{"data":"{\"role\":\"user\",\"time\":{\"created\":5}}","id":"msg_1","session_id":"ses_1","time_created":5}}
{"table":"message","key":["msg_2"],"row":{"data":"{\"role\":\"assistant\",\"modelID\":\"m\"}","id":"msg_2","session_id":"ses_1","time_created":6}}
{"table":"part","key":["prt_1"],"row":{"data":"{\"type\":\"text\",\"text\":\"hello\"}","id":"prt_1","message_id":"msg_1","session_id":"ses_1"}}
{"table":"part","key":["prt_2"],"row":{"data":"{\"type\":\"tool\",\"tool\":\"bash\",\"callID\":\"c\",\"state\":{\"status\":\"running\",\"input\":{}}}","id":"prt_2","message_id":"msg_2","session_id":"ses_1"}}
{"table":"session","key":["ses_1"],"row":{"cost":{"real":"3ff8000000000000"},"id":"ses_1"}}
{"state":0,"rows":5,"sha256":"x"}
{"table":"part","key":["prt_2"],"row":{"data":"{\"type\":\"tool\",\"tool\":\"bash\",\"callID\":\"c\",\"state\":{\"status\":\"completed\",\"input\":{},\"output\":\"done\"}}","id":"prt_2","message_id":"msg_2","session_id":"ses_1"}}
{"state":1,"rows":5,"sha256":"x"}
"#;

    #[test]
    fn the_last_line_of_each_row_is_mapped_and_turns_name_their_lines() {
        let format = crate::detect(OPENCODE.as_bytes()).unwrap();
        assert_eq!(format.name, NAME);
        let mapped = format.map(OPENCODE.as_bytes()).unwrap();
        let turns = mapped.turns();
        assert_eq!((turns.len(), mapped.account.tool_results), (2, 1));
        let lines = |turn: usize| {
            let source = turns[turn]
                .messages
                .iter()
                .find(|message| message.role == "source");
            source.unwrap().content.as_array().unwrap()[0]
                .get("lines")
                .cloned()
                .unwrap()
        };
        let numbers = |numbers: &[u64]| {
            Value::Array(numbers.iter().map(|number| Value::from(*number)).collect())
        };
        assert_eq!(lines(0), numbers(&[2, 4]));
        assert_eq!(lines(1), numbers(&[3, 8]));
        let gone = format!(
            "{OPENCODE}{}\n",
            r#"{"table":"message","key":["msg_1"],"gone":true}"#
        );
        let mapped = format.map(gone.as_bytes()).unwrap();
        assert_eq!(mapped.turns().len(), 1);
        assert_eq!(mapped.account.unmapped_lines(), 1, "its part is left");
    }

    #[test]
    fn rows_of_the_agents_sdk_are_its_items_in_their_order() {
        let line = |id: u64, data: &str| {
            format!(
                "{{\"table\":\"agent_messages\",\"key\":[{id}],\"row\":{{\"id\":{id},\"message_data\":\"{}\",\"session_id\":\"s\"}}}}\n",
                data.replace('"', "\\\"")
            )
        };
        let source = [
            "{\"format\":\"threadseal-rows/1\",\"kind\":\"openai-agents\",\"session\":\"s\",\"database\":\"/d\"}\n".to_owned(),
            line(10, r#"{"call_id":"c","type":"function_call_output","output":"x"}"#),
            line(2, r#"{"role":"user","content":"run it"}"#),
            line(9, r#"{"call_id":"c","type":"function_call","name":"bash","arguments":"{}"}"#),
        ]
        .concat();
        let mapped = crate::detect(source.as_bytes())
            .unwrap()
            .map(source.as_bytes())
            .unwrap();
        let roles: Vec<_> = mapped
            .turns()
            .iter()
            .map(|turn| turn.role.as_str())
            .collect();
        assert_eq!(roles, ["user", "assistant", "tool"]);
        assert_eq!(
            (mapped.account.tool_calls, mapped.account.tool_results),
            (1, 1)
        );
    }

    #[test]
    fn rows_of_langgraph_are_no_turns() {
        let source = "{\"format\":\"threadseal-rows/1\",\"kind\":\"langgraph\",\"session\":\"s\",\"database\":\"/d\"}\n";
        assert!(crate::detect(source.as_bytes()).is_none());
    }
}
