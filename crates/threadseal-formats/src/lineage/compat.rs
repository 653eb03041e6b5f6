//! The answer of igor for the same files (`compat.igor` in reports; `spec/lineage.md` §8.2).
//!
//! ```text
//! one file   of `igor inspect`   {"inspect":{"version":4,"signature_valid":true}}
//!                                {"inspect":{"error":"parse checkpoint: …"}}
//! a history  of `igor verify`    {"verify":{"valid","checkpoints","first_tick","last_tick",
//!                                           "errors"}}
//! ```
//! igor orders files by name, trusts the key that a file names, and accepts any point as a key. It
//! checks nothing except the results above. No verdict depends on its answer.

use super::chain::Lineage;
use super::facts::{LinkFacts, LinkRead, ReadLink};
use super::hash::ContentHash;
use super::header::Version;
use super::seen::View;
use serde_json::{Value, json};
use threadseal_core::limits::MAX_COMPAT_FAILURES;
use threadseal_core::report::Compat;

/// The name of a file in igor's history: `<anything>.ckpt`.
const ARCHIVED: &str = ".ckpt";

/// igor's answer; none where there is no file that it reads.
pub(super) fn of(lineage: &Lineage<'_>, view: View) -> Option<Compat> {
    if !lineage.files().any(|facts| parsed(facts).is_ok()) && view == View::History {
        return None;
    }
    let answer = match view {
        View::Single => json!({ "inspect": inspected(lineage.files().next()?) }),
        View::History => match archive(lineage) {
            Ok(files) => json!({ "verify": verified(&files) }),
            Err(why) => json!({ "omitted": why }),
        },
    };
    Some(answer.into())
}

/// The result of igor's parser for a file: the link, or its error.
fn parsed(facts: &LinkFacts) -> Result<&ReadLink, String> {
    let known = |byte: &u8| Version::of_byte(*byte).is_some_and(|version| version < Version::V5);
    match (facts.first, &facts.read) {
        (Some(byte), _) if !known(&byte) => Err(format!("unsupported checkpoint version: {byte}")),
        (_, LinkRead::Refused(why)) => Err(why.to_string()),
        (_, LinkRead::Link(link)) => Ok(link),
    }
}

fn inspected(facts: &LinkFacts) -> Value {
    match parsed(facts) {
        Err(why) => json!({ "error": format!("parse checkpoint: {why}") }),
        Ok(link) => json!({
            "version": link.version().byte(),
            "signature_valid": link.version().is_signed().then_some(link.as_original),
        }),
    }
}

/// The files that igor would read, in its order.
fn archive<'a>(lineage: &Lineage<'a>) -> Result<Vec<&'a LinkFacts>, &'static str> {
    let archived = |facts: &&LinkFacts| facts.last_part().ends_with(ARCHIVED);
    let mut files: Vec<&LinkFacts> = lineage.files().filter(archived).collect();
    let Some(first) = files.first() else {
        return Err("no file here is called *.ckpt");
    };
    if files.iter().any(|facts| facts.folder != first.folder) {
        return Err("its files are in several folders, and igor reads only one");
    }
    files.sort_by_key(|facts| facts.last_part());
    Ok(files)
}

/// The state of igor's loop from file to file.
#[derive(Default)]
struct Chain {
    hash: Option<ContentHash>,
    tick: u64,
    key: Option<[u8; 32]>,
    checkpoints: u64,
    first_tick: u64,
    errors: Vec<String>,
    more_errors: u64,
}

fn verified(files: &[&LinkFacts]) -> Value {
    let mut chain = Chain::default();
    for (index, facts) in files.iter().enumerate() {
        match parsed(facts) {
            Err(why) => chain.error(format!("failed to parse {}: {why}", facts.last_part())),
            Ok(link) => chain.follow(index == 0, link),
        }
    }
    let mut answer = json!({
        "valid": chain.errors.is_empty(),
        "checkpoints": chain.checkpoints,
        "first_tick": chain.first_tick,
        "last_tick": chain.tick,
        "errors": chain.errors,
    });
    if chain.more_errors > 0
        && let Some(answer) = answer.as_object_mut()
    {
        answer.insert("more_errors".to_owned(), chain.more_errors.into());
    }
    answer
}

impl Chain {
    fn error(&mut self, text: String) {
        if self.errors.len() < MAX_COMPAT_FAILURES {
            self.errors.push(text);
        } else {
            self.more_errors += 1;
        }
    }

    fn follow(&mut self, is_first: bool, link: &ReadLink) {
        let tick = link.header.tick;
        self.checkpoints += 1;
        if is_first {
            self.first_tick = tick;
            self.key = link.header.signer;
        } else if tick <= self.tick {
            let before = self.tick;
            self.error(format!("tick {tick}: non-monotonic (prev was {before})"));
        }
        if !link.version().is_signed() {
            if !is_first {
                self.error(format!("tick {tick}: missing lineage (not v4)"));
            }
        } else {
            if !link.as_original {
                self.error(format!("tick {tick}: INVALID signature"));
            }
            if !is_first {
                self.joins(tick, link);
            }
        }
        self.hash = Some(link.hash);
        self.tick = tick;
    }

    /// Does a signed link continue from the previous file?
    fn joins(&mut self, tick: u64, link: &ReadLink) {
        let begin = |hash: Option<ContentHash>| {
            let hex = hash.map_or_else(|| "0".repeat(16), |hash| hash.to_hex());
            hex.chars().take(16).collect::<String>()
        };
        if link.header.prev != self.hash {
            let (expected, got) = (begin(self.hash), begin(link.header.prev));
            self.error(format!(
                "tick {tick}: prevHash mismatch (expected {expected}..., got {got}...)"
            ));
        }
        if link.header.signer != self.key {
            self.error(format!("tick {tick}: agent identity changed"));
        }
    }
}
