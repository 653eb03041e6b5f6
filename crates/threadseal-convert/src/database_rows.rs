//! Rows of a session in a database, as the log of its states has them (`spec/database-sources.md`).
//!
//! ```text
//! {"format":"threadseal-rows/1","kind":KIND,"session":ID,…}
//! {"table":T,"key":[…],"row":{"COLUMN":VALUE,…}}   {"table":T,"key":[…],"gone":true}   {"state":N,…}
//! ```
//!
//! The last line of each row counts. OpenCode's rows become the document of `opencode export`, those of
//! the Agents SDK its items, those of Goose its messages, and the mappings of these read them. Those of
//! LangGraph and Cursor have mappings of their own. A "line" is the line of the log.
//!
//! `spec/scroll-mappings.md` C22 has the table.

use super::account::{Account, Reason, Tokens, object};
use super::format::{Confidence, Format, Head, Mark};
use super::mapped::Mapped;
use super::source::{json_objects, read_json, weight};
use super::thread::fingerprint;
use super::{cursor, goose, langgraph, openai_agents, opencode};
use std::collections::{BTreeMap, HashMap};
use threadseal_core::canon::json::{Number, Text, Value};
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_JSON_VALUES;

const NAME: &str = "database-rows";
const LOG: &str = "threadseal-rows/1";
const KINDS: [&str; 6] = [
    "opencode",
    "openai-agents",
    "goose",
    "langgraph",
    "cursor",
    "cursor-agent",
];
/// Columns of OpenCode and Goose that hold JSON.
const JSON_COLUMNS: [&str; 13] = [
    "data",
    "model",
    "metadata",
    "permission",
    "revert",
    "summary_diffs",
    "content_json",
    "metadata_json",
    "extension_data",
    "recipe_json",
    "user_recipe_values_json",
    "model_config_json",
    "parent_delegation",
];

pub(super) const FORMAT: Format = Format {
    name: NAME,
    about: "Rows of a session in a database of OpenCode, the OpenAI Agents SDK, Goose, LangGraph or Cursor",
    detect,
    map,
};

fn detect(head: &Head<'_>) -> Option<Mark> {
    let first = head.lines.first()?;
    let text = |name| first.get(name).and_then(Value::as_str);
    let is_known = text("kind").is_some_and(|kind| KINDS.contains(&kind));
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

    pub(super) fn number(&self, column: &str) -> i64 {
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
        "goose" => Ok(goose(rows, account)),
        "langgraph" => langgraph::map_rows(rows, account),
        "cursor" => cursor::map_composer(rows, account),
        "cursor-agent" => cursor::map_chat(rows, account),
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

pub(super) fn unknown(row: &Row, account: &mut Account) {
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

fn goose(rows: Vec<Row>, mut account: Account) -> Mapped {
    let (mut session, mut messages) = (None, Vec::new());
    let mut spent = Tokens::default();
    for row in rows {
        match row.table.as_str() {
            "sessions" => session = Some((row.line, row.columns)),
            "messages" => messages.push(row),
            "usage_ledger" => {
                spent.add(goose::sums(&row.columns));
                account.drop_part(row.line, "", Reason::Metadata);
            }
            // The messages of several sessions, as the program displays them.
            "thread_messages" => account.drop_part(row.line, "", Reason::View),
            _ => unknown(&row, &mut account),
        }
    }
    messages.sort_by_key(|row| (row.number("created_timestamp"), row.number("id")));
    let messages = messages.iter().map(|row| (row.line, goose_message(row)));
    goose::map_rows(
        session.as_ref(),
        &messages.collect::<Vec<_>>(),
        spent,
        account,
    )
}

/// A message as Goose exports it.
fn goose_message(row: &Row) -> Value {
    const NAMES: [(&str, &str); 5] = [
        ("row", "id"),
        ("id", "message_id"),
        ("created", "created_timestamp"),
        ("content", "content_json"),
        ("metadata", "metadata_json"),
    ];
    let members = row.columns.as_object().unwrap_or_default().iter();
    let members = members.map(|(column, value)| {
        let known = NAMES.iter().find(|(_, known)| column == *known);
        let name = known.map_or_else(|| column.clone(), |(name, _)| Text::from(*name));
        (name, value.clone())
    });
    Value::Object(members.collect())
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

    const GOOSE: &str = r#"{"format":"threadseal-rows/1","kind":"goose","session":"20261101_1","database":"/d"}
{"table":"messages","key":[12],"row":{"content_json":"[{\"type\":\"toolResponse\",\"id\":\"c\",\"toolResult\":{\"status\":\"success\",\"value\":[]}}]","created_timestamp":1767225601000,"id":12,"message_id":"m3","role":"user","session_id":"20261101_1","timestamp":"2026-01-01 00:00:01"}}
{"table":"messages","key":[7],"row":{"content_json":"[{\"type\":\"text\",\"text\":\"list\"}]","created_timestamp":1767225600,"id":7,"metadata_json":"{\"userVisible\":true}","role":"user","session_id":"20261101_1"}}
{"table":"messages","key":[9],"row":{"content_json":"[{\"type\":\"toolRequest\",\"id\":\"c\",\"toolCall\":{\"status\":\"success\",\"value\":{\"name\":\"shell\",\"arguments\":{}}}}]","created_timestamp":1767225601,"id":9,"message_id":"m2","role":"assistant","session_id":"20261101_1"}}
{"table":"usage_ledger","key":[1],"row":{"id":1,"input_tokens":30,"cache_read_tokens":10,"output_tokens":2,"session_id":"20261101_1"}}
{"table":"usage_ledger","key":[2],"row":{"id":2,"input_tokens":40,"output_tokens":3,"session_id":"20261101_1"}}
{"table":"thread_messages","key":[3],"row":{"id":3,"session_id":"20261101_1","content_json":"[]"}}
SESSION
{"state":0,"rows":7,"sha256":"x"}
"#;

    #[test]
    fn rows_of_goose_are_its_messages_by_time_and_id_with_the_sums_of_the_session() {
        let session = r#"{"table":"sessions","key":["20261101_1"],"row":{"accumulated_input_tokens":90,"accumulated_output_tokens":7,"id":"20261101_1","model_config_json":"{\"model_name\":\"m\"}","working_dir":"/p"}}"#;
        // Versions before the sums have the tokens of requests, or none.
        let old = r#"{"table":"sessions","key":["20261101_1"],"row":{"id":"20261101_1","working_dir":"/p"}}"#;
        for (session, sums) in [(session, (90, 7, 0)), (old, (70, 5, 10))] {
            let source = GOOSE.replace("SESSION", session);
            let mapped = crate::detect(source.as_bytes())
                .unwrap()
                .map(source.as_bytes())
                .unwrap();
            let turns = mapped.turns();
            let roles: Vec<_> = turns.iter().map(|turn| turn.role.as_str()).collect();
            assert_eq!(roles, ["user", "assistant", "tool"]);
            let account = &mapped.account;
            assert_eq!((account.tool_calls, account.tool_results), (1, 1));
            let tokens = account.tokens;
            assert_eq!((tokens.input, tokens.output, tokens.cached), sums);
            // Some versions have milliseconds.
            assert_eq!(turns[0].timestamp_ns, Some(1_767_225_600_000_000_000));
            assert_eq!(turns[2].timestamp_ns, Some(1_767_225_601_000_000_000));
            assert_eq!(account.lost_bytes(), 0);
        }
    }
}
