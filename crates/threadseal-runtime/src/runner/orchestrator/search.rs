//! Finding words in the records of a chain's threads.
//!
//! ```text
//! the threads of the chain, on all cores ─► each record, verified ─► its lines
//!   ─► texts of each event ─► hits
//! ```
//! Texts are searched unescaped, not as JSON, without regard to case, and in linear time for every
//! pattern. A record that does not verify has no hits: it is named, with its fault.

use super::records::{Need, Past, Records};
use crate::bounds::{
    MAX_CHAIN_SEARCH_HITS, MAX_REGEX_BYTES, MAX_REGEX_COMPILED_BYTES, MAX_SEARCH_SNIPPET_CHARS,
    MAX_SEARCH_TIME,
};
use crate::registry::Thread;
use crate::toolbox::Cancel;
use rayon::prelude::*;
use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::{Value, json};
use std::borrow::Cow;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::{RecordId, ThreadId};
use threadseal_formats::transcript::lines::VerifiedLine;

/// The number of hits when the caller gives none.
const DEFAULT_HITS: usize = 50;
/// Lines that one core searches between two checks for cancellation.
const LINES_AT_ONCE: usize = 256;

/// The kind of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchType {
    /// Words, letter by letter.
    Text,
    /// A regular expression.
    Regex,
}

impl SearchType {
    /// The kind of a word; None when it is none.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "text" => Some(Self::Text),
            "regex" => Some(Self::Regex),
            _ => None,
        }
    }
}

/// A compiled search.
#[derive(Debug, Clone)]
pub struct Search {
    pattern: Regex,
    most: usize,
}

impl Search {
    /// Finds `query`, at most `most` times.
    ///
    /// # Errors
    /// Kind `InvalidInput` when it is empty or no pattern, `Limit` when it or `most` is too large.
    pub fn new(query: &str, kind: SearchType, most: Option<usize>) -> Result<Self, Error> {
        if query.is_empty() {
            return Err(Error::invalid("nothing to search for"));
        }
        if query.len() > MAX_REGEX_BYTES {
            let text = format!("a query has at most {MAX_REGEX_BYTES} bytes");
            return Err(Error::new(ErrorKind::Limit, text));
        }
        if most.is_some_and(|most| most > MAX_CHAIN_SEARCH_HITS) {
            let text = format!("max_results is at most {MAX_CHAIN_SEARCH_HITS}");
            return Err(Error::new(ErrorKind::Limit, text));
        }
        let pattern = match kind {
            SearchType::Text => regex::escape(query),
            SearchType::Regex => query.to_owned(),
        };
        let pattern = RegexBuilder::new(&pattern)
            .case_insensitive(true)
            .size_limit(MAX_REGEX_COMPILED_BYTES)
            .dfa_size_limit(MAX_REGEX_COMPILED_BYTES)
            .build()
            .map_err(|error| {
                let shown = error.to_string();
                let last = shown.lines().last().unwrap_or_default();
                Error::invalid(format!("{query:?} does not compile: {last}"))
            })?;
        Ok(Self {
            pattern,
            most: most.unwrap_or(DEFAULT_HITS).max(1),
        })
    }
}

/// An event, as far as it is searched.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    event_type: Cow<'a, str>,
    #[serde(borrow)]
    payload: Payload<'a>,
}

#[derive(Deserialize)]
struct Payload<'a> {
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    output: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    error: Option<Cow<'a, str>>,
    #[serde(default)]
    input: Option<Value>,
    #[serde(default)]
    outputs: Option<Value>,
}

struct Looked {
    record: RecordId,
    /// The record that its line 1 continues.
    before: Option<RecordId>,
    hits: Vec<Hit>,
}

struct Hit {
    line: u64,
    event_type: String,
    member: &'static str,
    snippet: String,
}

impl Records {
    /// Searches the records of the chain of `id`. Returns `{results: [{thread_id, line, event_type,
    /// member, snippet}], count, truncated, chain_length, skipped: [{thread_id, reason}]}`.
    ///
    /// # Errors
    /// Kind `Refused` when there is no such thread, `External` when it takes too long or is
    /// cancelled.
    pub fn search(&self, id: &ThreadId, search: &Search, cancel: &Cancel) -> Result<Value, Error> {
        let chain = self.registry.chain(id)?;
        let began = self.host.clock.elapsed();
        let late = || {
            let elapsed = self.host.clock.elapsed().saturating_sub(began);
            cancel.is_set() || elapsed > MAX_SEARCH_TIME
        };
        let looked = |row: &Thread| match late() {
            true => None,
            false => self.looked(&row.id, search, &late).transpose(),
        };
        let looked: Option<Vec<_>> = chain.threads.par_iter().map(looked).collect();
        let looked = looked.ok_or_else(|| {
            let text = format!(
                "the search was stopped: it was cancelled, or took {} s",
                MAX_SEARCH_TIME.as_secs()
            );
            Error::new(ErrorKind::External, text)
        })?;
        let mut joined = Joined::default();
        for (row, looked) in chain.threads.iter().zip(looked) {
            joined.add(&row.id, looked, search.most);
        }
        let Joined {
            results,
            skipped,
            truncated,
            ..
        } = joined;
        let mut out = json!({"success": skipped.is_empty() && chain.fault.is_none(), "thread_id": id.as_str(),
                             "chain_length": chain.threads.len(), "count": results.len(), "results": results,
                             "truncated": truncated, "skipped": skipped});
        if let Some(fault) = chain.fault {
            out["error"] = fault.to_string().into();
        }
        Ok(out)
    }

    /// The record of a thread and its hits; None when it got late.
    fn looked(
        &self,
        id: &ThreadId,
        search: &Search,
        late: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Looked>, Error> {
        let past = self.past(id, Need::Whole)?;
        Ok(hits(&past, search, late)?.map(|hits| Looked {
            record: past.manifest.record,
            before: past.manifest.predecessor.map(|head| head.record),
            hits,
        }))
    }
}

/// The hits in the threads so far, in their order.
#[derive(Default)]
struct Joined {
    results: Vec<Value>,
    skipped: Vec<Value>,
    truncated: bool,
    /// The record that the next one must continue, unless that of the last thread was skipped.
    before: Option<RecordId>,
}

impl Joined {
    fn add(&mut self, id: &ThreadId, looked: Result<Looked, Error>, most: usize) {
        let looked = looked.and_then(|looked| match self.before.take() {
            // A record is of this chain if its own line 1 proves it.
            Some(before) if looked.before != Some(before) => Err(Error::refused(
                "its record does not continue the thread before it",
            )),
            _ => Ok(looked),
        });
        match looked {
            Ok(looked) => {
                let left = most - self.results.len();
                self.truncated |= looked.hits.len() > left;
                self.results
                    .extend(looked.hits.into_iter().take(left).map(|hit| {
                    json!({"thread_id": id.as_str(), "line": hit.line, "event_type": hit.event_type,
                           "member": hit.member, "snippet": hit.snippet})
                }));
                self.before = Some(looked.record);
            }
            Err(why) => {
                self.before = None;
                self.skipped
                    .push(json!({"thread_id": id.as_str(), "reason": why.to_string()}));
            }
        }
    }
}

/// The first hits, one more than fits, which shows that there are more; None when it got late.
fn hits(
    past: &Past,
    search: &Search,
    late: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Vec<Hit>>, Error> {
    let lines = past.lines()?;
    let lines: Vec<VerifiedLine<'_>> = lines.iter().collect();
    let most = search.most.saturating_add(1);
    let found: Option<Vec<Vec<Hit>>> = lines
        .par_chunks(LINES_AT_ONCE)
        .map(|lines| {
            if late() {
                return None;
            }
            let found = lines.iter().flat_map(|line| in_line(line, &search.pattern));
            Some(found.take(most).collect())
        })
        .collect();
    Ok(found.map(|found| found.into_iter().flatten().take(most).collect()))
}

fn in_line(line: &VerifiedLine<'_>, pattern: &Regex) -> Vec<Hit> {
    let Ok(event) = serde_json::from_slice::<Event<'_>>(&line.bytes) else {
        return Vec::new();
    };
    let payload = &event.payload;
    let as_json = |value: &Option<Value>| value.as_ref().map(Value::to_string);
    let (input, outputs) = (as_json(&payload.input), as_json(&payload.outputs));
    let members = [
        ("text", payload.text.as_deref()),
        ("output", payload.output.as_deref()),
        ("error", payload.error.as_deref()),
        ("input", input.as_deref()),
        ("outputs", outputs.as_deref()),
    ];
    members
        .into_iter()
        .filter_map(|(member, text)| {
            let text = text?;
            let found = pattern.find(text)?;
            Some(Hit {
                line: line.number,
                event_type: event.event_type.clone().into_owned(),
                member,
                snippet: around(text, found.start(), found.end()),
            })
        })
        .collect()
}

fn around(text: &str, start: usize, end: usize) -> String {
    let found = text[start..end]
        .chars()
        .count()
        .min(MAX_SEARCH_SNIPPET_CHARS);
    let beside = (MAX_SEARCH_SNIPPET_CHARS - found) / 2;
    let before = text[..start].char_indices().rev().take(beside).last();
    let from = before.map_or(start, |(at, _)| at);
    text[from..].chars().take(beside * 2 + found).collect()
}
