//! Words in turns: the text of a turn that is searched, queries, and the text around a hit.

use crate::turns::text_of;
use threadseal_convert::Draft;
use threadseal_core::canon::json::Value;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::fold::{find_folded, folded};

/// Most bytes of one part of a turn that are indexed: the beginning of a long output.
const MAX_PART_BYTES: usize = 64 << 10;
/// Most bytes of a turn that are indexed.
pub const MAX_TURN_TEXT_BYTES: usize = 1 << 20;
/// Most bytes of a query.
const MAX_QUERY_BYTES: usize = 4 << 10;
/// Most words of a query.
const MAX_QUERY_WORDS: usize = 64;
/// Characters of a snippet before and after the first word that was found.
const SNIPPET_BEFORE: usize = 40;
const SNIPPET_AFTER: usize = 120;

/// A turn as one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnText {
    /// The role of the turn.
    pub role: String,
    /// Its model, if it names one.
    pub model: Option<String>,
    /// Microseconds since 1970.
    pub time: Option<u64>,
    /// All its texts: messages, calls with their arguments, results.
    pub text: String,
}

/// The text of a turn, within bounds.
pub fn turn_text(draft: &Draft) -> TurnText {
    let mut text = String::new();
    for message in draft
        .messages
        .iter()
        .filter(|message| message.role != "source")
    {
        match &message.content {
            Value::Array(items) => {
                for item in items {
                    add(&mut text, &item_text(item));
                }
            }
            content => add(&mut text, &text_of(content)),
        }
    }
    for call in &draft.tool_calls {
        add(&mut text, &call.name);
        if let Some(args) = &call.args {
            add(&mut text, &text_of(args));
        }
    }
    for result in &draft.tool_results {
        if let Some(response) = &result.response {
            add(&mut text, &text_of(response));
        }
    }
    TurnText {
        role: draft.role.as_str().to_owned(),
        model: draft.model.id.clone(),
        time: draft.timestamp_ns.map(|nanos| nanos / 1000),
        text,
    }
}

/// The readable part of an item of a message; nothing of a place holder or a blob.
fn item_text(item: &Value) -> String {
    let member = |name: &str| item.get(name).and_then(Value::as_str);
    match member("type") {
        Some("text") => member("text").unwrap_or_default().to_owned(),
        Some("thinking") => member("thinking").unwrap_or_default().to_owned(),
        _ => String::new(),
    }
}

fn add(text: &mut String, part: &str) {
    let room = MAX_TURN_TEXT_BYTES.saturating_sub(text.len() + 1);
    let most = part.len().min(MAX_PART_BYTES).min(room);
    let end = part.floor_char_boundary(most);
    if end > 0 {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&part[..end]);
    }
}

/// One word or sequence of words.
#[derive(Debug, Clone)]
pub struct Term {
    text: String,
    is_prefix: bool,
}

impl Term {
    /// Its words, folded.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Is the last word only a beginning?
    pub fn is_prefix(&self) -> bool {
        self.is_prefix
    }

    /// Has a text these words in this order, as the index would find them?
    pub fn is_in(&self, text: &str) -> bool {
        let asked = words(&self.text);
        let all = words(text);
        all.windows(asked.len().max(1)).any(|found| {
            let mut pairs = found.iter().zip(&asked).enumerate();
            pairs.all(|(number, (found, word))| {
                let may_go_on = self.is_prefix && number + 1 == asked.len();
                found == word || (may_go_on && found.starts_with(word.as_str()))
            })
        })
    }
}

/// The terms of a query: words, `word*` for a beginning, words in `"` for a sequence.
///
/// # Errors
/// Kind `InvalidInput` when there is nothing to look for, `Limit` when it is too much.
pub fn terms(words: &str) -> Result<Vec<Term>, Error> {
    if words.len() > MAX_QUERY_BYTES {
        let text = format!("a search has {MAX_QUERY_BYTES} bytes at most");
        return Err(Error::new(ErrorKind::Limit, text));
    }
    let mut terms = Vec::new();
    for (number, part) in words.split('"').enumerate() {
        let is_quoted = number % 2 == 1;
        let texts: Vec<&str> = match is_quoted {
            true => vec![part],
            false => part.split_whitespace().collect(),
        };
        for text in texts {
            let is_prefix = !is_quoted && text.ends_with('*');
            let text = text.trim_end_matches(|c| is_prefix && c == '*');
            if text.chars().any(char::is_alphanumeric) {
                terms.push(Term {
                    text: folded(text),
                    is_prefix,
                });
            }
        }
    }
    if terms.is_empty() {
        return Err(Error::invalid("there is no word to look for"));
    }
    if terms.len() > MAX_QUERY_WORDS {
        let text = format!("a search has {MAX_QUERY_WORDS} words at most");
        return Err(Error::new(ErrorKind::Limit, text));
    }
    Ok(terms)
}

/// The words of a text, folded.
fn words(text: &str) -> Vec<String> {
    let text = folded(text);
    let words = text.split(|letter: char| !letter.is_alphanumeric());
    words
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The text around the first term, with blanks in place of line ends.
pub fn snippet(text: &str, terms: &[Term]) -> String {
    let places = terms
        .iter()
        .filter_map(|term| find_folded(text, &term.text));
    let place = places.min().unwrap_or(0);
    let before = text[..place]
        .chars()
        .rev()
        .take(SNIPPET_BEFORE)
        .map(char::len_utf8)
        .sum::<usize>();
    let after = text[place..]
        .chars()
        .take(SNIPPET_AFTER)
        .map(char::len_utf8)
        .sum::<usize>();
    let (start, end) = (place - before, place + after);
    let words: Vec<&str> = text[start..end].split_whitespace().collect();
    let first = if start > 0 { "… " } else { "" };
    let last = if end < text.len() { " …" } else { "" };
    format!("{first}{}{last}", words.join(" "))
}
