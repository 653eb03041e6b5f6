//! Search for words in all indexed turns.

use super::{Index, count, name_of, text, unsigned};
use crate::Agent;
use crate::archive::{Archive, LogName};
use rusqlite::params_from_iter;
use rusqlite::types::Value;
use threadseal_core::error::Error;
use threadseal_reader::words::{Term, snippet, terms, turn_text};

/// What is looked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// Words, all of which a turn must have. A word that ends in `*` means all that begin so,
    /// and words in `"` for exactly this sequence.
    pub words: String,
    /// Only sessions of this agent.
    pub agent: Option<Agent>,
    /// Only sessions whose project's path contains this.
    pub project: Option<String>,
    /// Only turns at or after this moment, in microseconds since 1970.
    pub since: Option<u64>,
    /// Most hits.
    pub most: u64,
}

/// One turn that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// Its log.
    pub name: LogName,
    /// Its number in the log, from 0.
    pub turn: u64,
    /// Its role.
    pub role: String,
    /// Microseconds since 1970.
    pub time: Option<u64>,
    /// The project's folder.
    pub project: Option<String>,
    /// The text around the first word, on one line; as written by the agent, so not safe to print.
    pub snippet: String,
}

impl Index {
    /// The turns that have all words, those that were indexed last first.
    ///
    /// # Errors
    /// Kind `InvalidInput` when there is nothing to look for, `Limit` when it is too much;
    /// `External` when SQLite fails.
    pub fn search(&self, query: &Query) -> Result<Vec<Hit>, Error> {
        let terms = terms(&query.words)?;
        // Else every turn with a frequent word would be looked at in vain.
        let mut logs = self.logs()?.into_iter();
        let is_asked = |log: super::IndexedLog| {
            let project = log.project.unwrap_or_default();
            let mut asked = query.project.iter();
            query
                .agent
                .is_none_or(|agent| agent == log.name.session.agent())
                && asked.all(|text| project.contains(text.as_str()))
                && query.since.is_none_or(|since| log.last >= Some(since))
        };
        if !logs.any(is_asked) {
            return Ok(Vec::new());
        }
        let matching = terms.iter().map(expression).collect::<Vec<_>>().join(" ");
        let mut sql = "SELECT logs.session, logs.part, turns.turn, turns.role, turns.time, logs.project, turns.text
            FROM words CROSS JOIN turns ON turns.id = words.rowid CROSS JOIN logs ON logs.id = turns.log WHERE words MATCH ?1"
            .to_owned();
        let mut values = vec![Value::Text(matching)];
        let conditions = [
            (
                "logs.agent = ?",
                query
                    .agent
                    .map(|agent| Value::Text(agent.name().to_owned())),
            ),
            (
                "instr(logs.project, ?) > 0",
                query.project.clone().map(Value::Text),
            ),
            (
                "turns.time >= ?",
                query
                    .since
                    .map(|since| Value::Integer(super::number(since))),
            ),
        ];
        for (condition, value) in conditions {
            if let Some(value) = value {
                values.push(value);
                let numbered = condition.replace('?', &format!("?{}", values.len()));
                sql.push_str(&format!(" AND {numbered}"));
            }
        }
        values.push(Value::Integer(super::number(query.most)));
        sql.push_str(&format!(
            " ORDER BY words.rowid DESC LIMIT ?{}",
            values.len()
        ));
        let mut statement = self.sql(self.connection.prepare_cached(&sql))?;
        let rows = statement.query_map(params_from_iter(values), |row| {
            let (session, part): (String, String) = (row.get(0)?, row.get(1)?);
            let stored: Vec<u8> = row.get(6)?;
            Ok(session.parse().ok().map(|session| Hit {
                name: name_of(session, &part),
                turn: count(row.get(2)),
                role: row.get(3).unwrap_or_default(),
                time: unsigned(row.get(4)),
                project: row.get(5).unwrap_or_default(),
                snippet: snippet(&text::unpack(&stored), &terms),
            }))
        });
        let rows: Result<Vec<_>, _> = self.sql(rows)?.collect();
        Ok(self.sql(rows)?.into_iter().flatten().collect())
    }
}

/// The same without an index: every archived log is read and mapped, those that were archived last
/// first. For an encrypted archive, whose index holds no text.
///
/// # Errors
/// As [`Index::search`]; or when the archive cannot be read.
pub fn search_archive(archive: &Archive, query: &Query) -> Result<Vec<Hit>, Error> {
    let terms = terms(&query.words)?;
    let mut logs = archive.logs()?;
    logs.retain(|log| {
        query
            .agent
            .is_none_or(|agent| agent == log.name.session.agent())
    });
    logs.retain(|log| {
        let project = log.facts.project.as_deref().unwrap_or_default();
        query
            .project
            .as_ref()
            .is_none_or(|text| project.contains(text.as_str()))
    });
    logs.sort_by_key(|log| std::cmp::Reverse(log.newest().map(|newest| newest.last().kept)));
    let most = usize::try_from(query.most).unwrap_or(usize::MAX);
    let mut hits = Vec::new();
    for log in &logs {
        let Some(mapped) = super::map(archive, log)? else {
            continue;
        };
        let turns: Vec<_> = mapped
            .mapped
            .drafts
            .iter()
            .map(|draft| turn_text(&draft))
            .collect();
        for (turn, text) in turns.iter().enumerate().rev() {
            let is_asked = query
                .since
                .is_none_or(|since| text.time.is_some_and(|time| time >= since));
            if !is_asked || !terms.iter().all(|term| term.is_in(&text.text)) {
                continue;
            }
            if hits.len() == most {
                return Ok(hits);
            }
            hits.push(Hit {
                name: log.name.clone(),
                turn: turn as u64,
                role: text.role.clone(),
                time: text.time,
                project: log.facts.project.clone(),
                snippet: snippet(&text.text, &terms),
            });
        }
    }
    Ok(hits)
}

/// The term in the language of FTS5. Quoted, it has no other meaning than its text.
fn expression(term: &Term) -> String {
    let star = if term.is_prefix() { "*" } else { "" };
    format!("\"{}\"{star}", term.text().replace('"', "\"\""))
}
