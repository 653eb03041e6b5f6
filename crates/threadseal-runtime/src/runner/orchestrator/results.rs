//! The states and ends of threads, one by one and together.

use super::reach::Reach;
use super::records::{Need, Records};
use crate::bounds::{MAX_LISTED_THREADS, MAX_TRANSCRIPT_TEXT_BYTES, MAX_WAITED_THREADS};
use crate::limit::Cost;
use crate::registry::{Filter, Thread};
use crate::status::Status;
use serde_json::{Map, Value, json};
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::ThreadId;
use threadseal_formats::transcript::render::render;

impl Records {
    /// The state of a thread: by its `thread.json`, where that may be trusted, else by the registry
    /// alone.
    ///
    /// # Errors
    /// Kind `Refused` when there is no such thread.
    pub fn status(&self, id: &ThreadId) -> Result<Value, Error> {
        let row = self.row(id)?;
        let mut out = json!({"success": true, "thread_id": id.as_str(), "directive": row.directive,
                             "status": word(&row), "turns": row.turns, "spend": row.spend.to_real(),
                             "tokens": row.input_tokens.saturating_add(row.output_tokens), "verified": false});
        if let Some(next) = &row.continuation {
            out["continuation_thread_id"] = next.as_str().into();
        }
        let meta = self
            .past(id, Need::Sealed)
            .and_then(|past| self.meta(id, &past));
        match meta {
            Ok(meta) => {
                let said = meta.get();
                out["verified"] = true.into();
                out["directive"] = said.directive.as_str().into();
                out["status"] = believed(&row, said.status).as_str().into();
                if out["status"] != word(&row) {
                    out["registry_status"] = word(&row).into();
                }
            }
            Err(why) => out["unverified"] = why.to_string().into(),
        }
        Ok(out)
    }

    /// Threads that have not ended, the newest first: `{active_threads, count}`.
    ///
    /// # Errors
    /// Those of the registry.
    pub(super) fn active(&self, reach: &Reach) -> Result<Value, Error> {
        let filter = Filter {
            limit: Some(MAX_LISTED_THREADS),
            ..Filter::active()
        };
        let mut active = Vec::new();
        for row in self.registry.list(&filter)?.threads {
            if reach.check(self, &row.id, "list_active").is_ok() {
                active.push(json!({"thread_id": row.id.as_str(), "directive": row.directive, "status": word(&row),
                                   "turns": row.turns, "created_at": row.created_at}));
            }
        }
        Ok(json!({"success": true, "count": active.len(), "active_threads": active}))
    }

    /// The results of several threads, their total cost, and which are missing.
    ///
    /// # Errors
    /// Kind `Limit` above [`MAX_WAITED_THREADS`]; errors of the registry.
    pub(crate) fn aggregate(&self, threads: &[ThreadId]) -> Result<Value, Error> {
        if threads.len() > MAX_WAITED_THREADS {
            let text = format!("at most {MAX_WAITED_THREADS} results at once");
            return Err(Error::new(ErrorKind::Limit, text));
        }
        let mut results = Map::new();
        let (mut completed, mut failed, mut running, mut refused) = (0, 0, 0, 0);
        let mut cost = Cost::default();
        for id in threads {
            if results.contains_key(id.as_str()) {
                continue;
            }
            let running_now =
                || json!({"success": false, "thread_id": id.as_str(), "status": "running"});
            let result = self.end_of(id)?.unwrap_or_else(running_now);
            match result["status"].as_str() {
                Some("completed") => completed += 1,
                Some("running") => running += 1,
                Some("refused") => refused += 1,
                _ => failed += 1,
            }
            if let Ok(own) = Cost::from_json(&result["cost"]) {
                cost.turns = cost.turns.saturating_add(own.turns);
                cost.input_tokens = cost.input_tokens.saturating_add(own.input_tokens);
                cost.output_tokens = cost.output_tokens.saturating_add(own.output_tokens);
                cost.spend = cost.spend.saturating_add(own.spend);
                cost.spawns = cost.spawns.saturating_add(own.spawns);
            }
            results.insert(id.as_str().to_owned(), result);
        }
        let total = results.len();
        Ok(
            json!({"success": completed == total, "results": results, "cost": cost.to_json(),
                  "summary": {"total": total, "completed": completed, "failed": failed, "running": running,
                              "refused": refused}}),
        )
    }

    /// The threads of a chain: `{chain_length, chain: [{thread_id, status, directive}]}`.
    ///
    /// # Errors
    /// Kind `Refused` when there is no such thread.
    pub fn chain_of(&self, id: &ThreadId) -> Result<Value, Error> {
        let chain = self.registry.chain(id)?;
        let threads: Vec<Value> = chain
            .threads
            .iter()
            .map(|row| json!({"thread_id": row.id.as_str(), "status": word(row), "directive": row.directive}))
            .collect();
        let mut out = json!({"success": chain.fault.is_none(), "thread_id": id.as_str(),
                             "chain_length": threads.len(), "chain": threads});
        if let Some(fault) = chain.fault {
            out["error"] = fault.to_string().into();
        }
        Ok(out)
    }

    /// A thread's record, rendered for people; with `tail_lines` its last lines. For a thread that
    /// still runs, the sealed part.
    ///
    /// # Errors
    /// Kind `Refused` with the verdict, unless the record may be trusted.
    pub fn transcript(&self, id: &ThreadId, tail_lines: Option<usize>) -> Result<Value, Error> {
        let past = self.past(id, Need::Sealed)?;
        let meta = self.meta(id, &past)?;
        let lines = past.lines()?;
        let text = meta.get().covered(|cover| render(&lines, cover))?;
        let (kept, left_out) = tail(&text, tail_lines);
        Ok(
            json!({"success": true, "thread_id": id.as_str(), "verdict": past.verdict().to_string(),
                  "head": past.head(), "transcript": kept, "bytes_left_out": left_out}),
        )
    }
}

/// The last lines of a text, within bounds, and the number of bytes before them.
fn tail(text: &str, lines: Option<usize>) -> (&str, usize) {
    let mut from = text.len().saturating_sub(MAX_TRANSCRIPT_TEXT_BYTES);
    if let Some(lines) = lines {
        let ends = text.trim_end_matches('\n').rmatch_indices('\n');
        let wanted = ends.map(|(at, _)| at + 1).nth(lines.saturating_sub(1));
        from = from.max(wanted.unwrap_or(0));
    }
    while !text.is_char_boundary(from) {
        from += 1;
    }
    (&text[from..], from)
}

/// The status of a thread, given the one in its `thread.json`. The registry is ahead of that file
/// before the end, and of a link.
fn believed(row: &Thread, said: Status) -> Status {
    let over = |status: Status| status.is_terminal() || status == Status::Suspended;
    match row.status {
        Ok(Status::Continued) if over(said) => Status::Continued,
        Ok(status) if !over(status) && !over(said) => status,
        _ => said,
    }
}

/// The status as the registry spells it, also where it is none.
pub(super) fn word(row: &Thread) -> &str {
    match &row.status {
        Ok(status) => status.as_str(),
        Err(word) => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_the_last_ones() {
        assert_eq!(tail("a\nb\nc\n", Some(2)), ("b\nc\n", 2));
        assert_eq!(tail("a\nb\nc", Some(1)), ("c", 4));
        assert_eq!(tail("a\nb", Some(9)), ("a\nb", 0));
        assert_eq!(tail("", Some(1)), ("", 0));
        let long = "\u{e4}".repeat(MAX_TRANSCRIPT_TEXT_BYTES);
        let (kept, left_out) = tail(&long, None);
        assert_eq!(
            (kept.len(), left_out),
            (MAX_TRANSCRIPT_TEXT_BYTES, MAX_TRANSCRIPT_TEXT_BYTES)
        );
    }
}
