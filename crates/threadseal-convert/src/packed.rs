//! Drafts in few bytes.
//!
//! A source of a million short lines makes as many turns. As a tree of values each takes a hundred
//! times the memory of its line.
//!
//! ```text
//! draft    role:u8 vendor:TEXT id:TEXT? fingerprint:TEXT? temperature:TEXT? top_p:TEXT?
//!          seed:TEXT? max_tokens:TEXT? moment:TEXT?
//!          n (role:TEXT content:VALUE)ⁿ               messages
//!          n (id:TEXT name:TEXT hash:32 args:VALUE?)ⁿ      calls
//!          n (id:TEXT ok:u8 hash:32 response:VALUE?)ⁿ      results
//! VALUE    0 null | 1 false | 2 true | 3 number:TEXT | 4 string:TEXT
//!          | 5 n VALUEⁿ | 6 n (name:TEXT VALUE)ⁿ
//! TEXT     length + WORDS, then WTF-8 bytes; below WORDS: the word of that place
//! x?       0, or 1 x          n, length: LEB128
//! ```
//!
//! These bytes never leave the process: [`Drafts`] alone writes and reads them. Truncated bytes
//! read as empty, so that reading cannot fail.

use super::draft::{Draft, Message, Model, Params, ToolCall, ToolResult};
use threadseal_core::canon::json::{Number, Text, Value};
use threadseal_core::digest::Digest;
use threadseal_formats::scroll::Role;

/// Frequent texts, sorted; each takes one byte.
const WORDS: [&str; 49] = [
    "",
    "agent",
    "anthropic",
    "assistant",
    "atif",
    "chat",
    "claude-code",
    "codex",
    "content",
    "data",
    "follows",
    "format",
    "gemini-cli",
    "google",
    "id",
    "ids",
    "input",
    "inspect",
    "kind",
    "lines",
    "message",
    "name",
    "openai",
    "openai-chat",
    "openai-responses",
    "opencode",
    "otlp",
    "output",
    "params",
    "parent",
    "part",
    "request",
    "role",
    "session",
    "settings",
    "sidechain",
    "source",
    "stop_reason",
    "system",
    "text",
    "thinking",
    "time",
    "times",
    "tokens",
    "tool",
    "tool_call",
    "tool_result",
    "type",
    "user",
];

/// A bound on the bytes of a turn's canonical JSON, seal included, for each byte of its draft.
///
/// Most are 20, for a word in quotes. A byte that JSON escapes becomes six. The bytes of hashes and
/// names of members are counted in the bytes that they accompany.
pub(super) const MAX_GROWTH: usize = 32;

/// The turns of a source, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Drafts {
    packed: Vec<Box<[u8]>>,
}

impl Drafts {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.packed.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.packed.is_empty()
    }

    /// Adds one as the last, and returns its place.
    pub fn push(&mut self, draft: &Draft) -> usize {
        self.packed.push(pack(draft));
        self.packed.len() - 1
    }

    /// Reserves a place for a draft that is added later.
    pub(super) fn reserve(&mut self) -> usize {
        self.packed.push(Box::default());
        self.packed.len() - 1
    }

    /// Replaces the draft at a place.
    pub(super) fn set(&mut self, place: usize, draft: &Draft) {
        if let Some(packed) = self.packed.get_mut(place) {
            *packed = pack(draft);
        }
    }

    /// The draft at a place.
    pub fn get(&self, place: usize) -> Option<Draft> {
        Some(unpack(self.packed.get(place)?))
    }

    /// May a text of the draft at a place hold `word`, whatever the case of its ASCII letters? False
    /// is certain. The packed bytes are searched, which is quick.
    pub fn may_hold(&self, place: usize, word: &str) -> bool {
        let Some(packed) = self.packed.get(place) else {
            return false;
        };
        // Another case of other letters may have other bytes, and a frequent text is one byte.
        let is_frequent = WORDS
            .iter()
            .any(|frequent| holds(frequent.as_bytes(), word.as_bytes()));
        !word.is_ascii() || is_frequent || holds(packed, word.as_bytes())
    }

    /// All of them, one at a time.
    pub fn iter(&self) -> impl Iterator<Item = Draft> + '_ {
        self.packed.iter().map(|packed| unpack(packed))
    }

    /// The drafts that take more than `bytes`, with their numbers.
    pub(super) fn large(&self, bytes: usize) -> impl Iterator<Item = (u64, Draft)> + '_ {
        let numbered = (0..).zip(&self.packed);
        let large = numbered.filter(move |(_, packed)| packed.len() > bytes);
        large.map(|(number, packed)| (number, unpack(packed)))
    }

    /// Changes each draft, in order.
    pub(super) fn rewrite(&mut self, mut change: impl FnMut(u64, &mut Draft)) {
        for (number, packed) in (0..).zip(&mut self.packed) {
            let mut draft = unpack(packed);
            change(number, &mut draft);
            *packed = pack(&draft);
        }
    }
}

impl IntoIterator for Drafts {
    type Item = Draft;
    type IntoIter = std::iter::Map<std::vec::IntoIter<Box<[u8]>>, fn(Box<[u8]>) -> Draft>;

    /// Frees each draft when it is returned.
    fn into_iter(self) -> Self::IntoIter {
        self.packed.into_iter().map(|packed| unpack(&packed))
    }
}

impl FromIterator<Draft> for Drafts {
    fn from_iter<I: IntoIterator<Item = Draft>>(drafts: I) -> Self {
        let packed = drafts.into_iter().map(|draft| pack(&draft));
        Self {
            packed: packed.collect(),
        }
    }
}

fn pack(draft: &Draft) -> Box<[u8]> {
    let mut out = Packing(Vec::with_capacity(256));
    let role = Role::ALL.iter().position(|role| *role == draft.role);
    out.size(role.unwrap_or_default());
    out.text(&draft.model.vendor);
    out.option(draft.model.id.as_deref(), Packing::text);
    let fingerprint = draft.model.fingerprint.as_deref();
    out.option(fingerprint, Packing::text);
    for number in [&draft.params.temperature, &draft.params.top_p] {
        out.option(number.as_ref(), |out, number| out.text(number.literal()));
    }
    for number in [draft.params.seed, draft.params.max_tokens] {
        out.option(number, |out, number| out.text(&number.to_string()));
    }
    out.option(draft.timestamp_ns, |out, moment| {
        out.text(&moment.to_string());
    });
    out.size(draft.messages.len());
    for message in &draft.messages {
        out.text(&message.role);
        out.value(&message.content);
    }
    out.size(draft.tool_calls.len());
    for call in &draft.tool_calls {
        out.text(&call.id);
        out.text(&call.name);
        out.0.extend_from_slice(call.args_hash.as_bytes());
        out.option(call.args.as_ref(), Packing::value);
    }
    out.size(draft.tool_results.len());
    for result in &draft.tool_results {
        out.text(&result.id);
        out.0.push(result.ok.into());
        out.0.extend_from_slice(result.response_hash.as_bytes());
        out.option(result.response.as_ref(), Packing::value);
    }
    // With some allocators a boxed slice of a vector with spare room keeps that room.
    Box::from(out.0.as_slice())
}

fn unpack(packed: &[u8]) -> Draft {
    let mut read = Unpacking(packed);
    let role = Role::ALL.get(read.size()).copied();
    let model = Model {
        vendor: read.string(),
        id: read.option(Unpacking::string),
        fingerprint: read.option(Unpacking::string),
    };
    let params = Params {
        temperature: read.option(Unpacking::number),
        top_p: read.option(Unpacking::number),
        seed: read.option(|read| read.string().parse().ok()).flatten(),
        max_tokens: read.option(|read| read.string().parse().ok()).flatten(),
    };
    let timestamp_ns = read.option(|read| read.string().parse().ok()).flatten();
    let messages = read.list(|read| Message {
        role: read.string(),
        content: read.value(),
    });
    let tool_calls = read.list(|read| ToolCall {
        id: read.string(),
        name: read.string(),
        args_hash: read.digest(),
        args: read.option(Unpacking::value),
    });
    let tool_results = read.list(|read| ToolResult {
        id: read.string(),
        ok: read.byte() == 1,
        response_hash: read.digest(),
        response: read.option(Unpacking::value),
    });
    Draft {
        role: role.unwrap_or(Role::User),
        model,
        params,
        messages,
        tool_calls,
        tool_results,
        timestamp_ns,
    }
}

struct Packing(Vec<u8>);

impl Packing {
    fn size(&mut self, mut size: usize) {
        while size >= 0x80 {
            self.0.push(size.to_le_bytes()[0] | 0x80);
            size >>= 7;
        }
        self.0.push(size.to_le_bytes()[0]);
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        match WORDS.binary_search_by(|word| word.as_bytes().cmp(bytes)) {
            Ok(place) => self.size(place),
            Err(_) => {
                self.size(bytes.len().saturating_add(WORDS.len()));
                self.0.extend_from_slice(bytes);
            }
        }
    }

    fn option<T>(&mut self, value: Option<T>, put: impl FnOnce(&mut Self, T)) {
        self.0.push(value.is_some().into());
        if let Some(value) = value {
            put(self, value);
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.0.push(0),
            Value::Bool(truth) => self.0.push(1 + u8::from(*truth)),
            Value::Number(number) => {
                self.0.push(3);
                self.text(number.literal());
            }
            Value::String(text) => {
                self.0.push(4);
                self.bytes(text.as_bytes());
            }
            Value::Array(elements) => {
                self.0.push(5);
                self.size(elements.len());
                elements.iter().for_each(|element| self.value(element));
            }
            Value::Object(members) => {
                self.0.push(6);
                self.size(members.len());
                for (name, value) in members {
                    self.bytes(name.as_bytes());
                    self.value(value);
                }
            }
        }
    }
}

struct Unpacking<'a>(&'a [u8]);

impl<'a> Unpacking<'a> {
    fn take(&mut self, size: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(size.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or_default()
    }

    fn size(&mut self) -> usize {
        let mut size = 0;
        for shift in (0..usize::BITS).step_by(7) {
            let byte = self.byte();
            size |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        size
    }

    fn bytes(&mut self) -> &'a [u8] {
        let size = self.size();
        match WORDS.get(size) {
            Some(word) => word.as_bytes(),
            None => self.take(size - WORDS.len()),
        }
    }

    fn text(&mut self) -> Text {
        Text::from_wtf8(self.bytes().to_vec())
    }

    fn string(&mut self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }

    fn number(&mut self) -> Number {
        Number::danger_from_literal(&self.string())
    }

    fn digest(&mut self) -> Digest {
        let mut bytes = [0; 32];
        for (byte, taken) in bytes.iter_mut().zip(self.take(32)) {
            *byte = *taken;
        }
        Digest::from_bytes(bytes)
    }

    fn option<T>(&mut self, take: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.byte() == 1).then(|| take(self))
    }

    fn list<T>(&mut self, mut take: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.size()).map(|_| take(self)).collect()
    }

    fn value(&mut self) -> Value {
        match self.byte() {
            1 => Value::Bool(false),
            2 => Value::Bool(true),
            3 => Value::Number(self.number()),
            4 => Value::String(self.text()),
            5 => Value::Array(self.list(Self::value)),
            6 => Value::Object(self.list(|read| (read.text(), read.value()))),
            _ => Value::Null,
        }
    }
}

/// Letters and digits, the most frequent first.
const FREQUENT: &[u8] = b"etaoinsrhldcumfpgwybvk0123456789xjqz";

/// Does `bytes` have `word`, whatever the case of its ASCII letters?
pub fn holds(bytes: &[u8], word: &[u8]) -> bool {
    let rank = |byte: &u8| {
        let byte = byte.to_ascii_lowercase();
        FREQUENT
            .iter()
            .position(|known| *known == byte)
            .unwrap_or(FREQUENT.len())
    };
    // The rarest letter of the word is looked for.
    let Some((at, rarest)) = word.iter().enumerate().max_by_key(|(_, byte)| rank(byte)) else {
        return true;
    };
    let (lower, upper) = (rarest.to_ascii_lowercase(), rarest.to_ascii_uppercase());
    memchr::memchr2_iter(lower, upper, bytes).any(|found| {
        let begin = found.checked_sub(at);
        let piece = begin.and_then(|begin| bytes.get(begin..begin + word.len()));
        piece.is_some_and(|piece| piece.eq_ignore_ascii_case(word))
    })
}

#[cfg(test)]
mod tests {
    use super::super::draft::Source;
    use super::super::find;
    use super::*;
    use threadseal_core::canon::json::{parse, parse_python};

    fn draft(content: Value) -> Draft {
        let mut draft = Draft::new(Role::Assistant, "anthropic");
        draft.messages = vec![Message::items(Role::Assistant, vec![content])];
        draft.close(Source::new("claude-code"));
        draft
    }

    #[test]
    fn words_are_sorted_and_one_byte_each() {
        assert!(WORDS.is_sorted_by(|one, other| one < other));
        assert!(WORDS.len() < 0x80);
    }

    #[test]
    fn what_is_packed_comes_out_as_it_was() {
        let odd = parse_python(br#"{"a":[null,true,false,-0.0,1e400,""],"\ud800":"x\udc00"}"#);
        let long = "é".repeat(5000);
        let mut full = draft(odd.unwrap().value);
        full.model.id = Some(String::new());
        full.model.fingerprint = Some("text".into());
        full.params.temperature = Number::parse("0.70");
        full.params.seed = Some(i64::MIN);
        full.params.max_tokens = Some(i64::MAX);
        full.timestamp_ns = Some(u64::MAX);
        full.tool_calls = vec![ToolCall::new("i".into(), long, parse(b"{}").unwrap())];
        full.tool_calls[0].args = None;
        full.tool_results = vec![
            ToolResult::new(String::new(), true, Value::Null),
            ToolResult::new("\0".into(), false, 7_u64.into()),
        ];
        let all = vec![full, draft("text".into()), Draft::new(Role::Tool, "")];
        let mut drafts: Drafts = all.iter().cloned().collect();
        assert_eq!(drafts.iter().collect::<Vec<_>>(), all);
        drafts.rewrite(|number, draft| draft.timestamp_ns = Some(number));
        let place = drafts.reserve();
        assert_eq!(drafts.iter().nth(place), Some(Draft::new(Role::User, "")));
        drafts.set(place, &all[1]);
        let moments: Vec<_> = drafts.into_iter().map(|draft| draft.timestamp_ns).collect();
        assert_eq!(moments, [Some(0), Some(1), Some(2), None]);
    }

    #[test]
    fn no_turn_is_larger_than_its_draft_may_grow() {
        let words = Value::Array(vec!["openai-responses".into(); 5000]);
        let controls = Value::from("\u{1}".repeat(5000));
        let empty = Value::Array(vec![Value::Null; 5000]);
        let mut many = draft(Value::Null);
        many.messages = vec![Message::items(Role::Assistant, Vec::new()); 1000];
        many.tool_calls = vec![ToolCall::new(String::new(), String::new(), Value::Null); 1000];
        many.tool_results = vec![ToolResult::new(String::new(), true, Value::Null); 1000];
        for draft in [draft(words), draft(controls), draft(empty), many] {
            let packed = pack(&draft).len();
            let turn = draft.into_turn(0).unwrap();
            let grown = turn.canonical().len() / packed;
            assert!(grown < MAX_GROWTH, "{grown}");
        }
    }

    /// The memory of a source's turns in bytes, with list places and allocator overhead.
    fn held(format: &str, lines: usize, line: impl Fn(usize) -> String) -> (usize, usize) {
        let source: String = (0..lines).map(|number| line(number) + "\n").collect();
        let mapped = find(format).unwrap().map(source.as_bytes()).unwrap();
        let drafts = &mapped.drafts.packed;
        assert!(drafts.len() >= lines, "{format}");
        assert_eq!(mapped.account.unmapped_lines(), 0, "{format}");
        let held = drafts.iter().map(|packed| packed.len() + 32).sum();
        (held, source.len())
    }

    // T-SCR-28
    #[test]
    fn the_turns_of_short_lines_take_a_few_times_the_bytes_of_the_lines() {
        type Line = fn(usize) -> String;
        let formats: [(&str, Line); 8] = [
            ("claude-code", |n| {
                format!(r#"{{"type":"user","message":{{"content":"{n}"}}}}"#)
            }),
            ("claude-code", |n| {
                format!(r#"{{"type":"assistant","message":{{"id":"{n}","content":"{n}"}}}}"#)
            }),
            ("codex", |n| {
                format!(r#"{{"type":"message","role":"user","content":"{n}"}}"#)
            }),
            ("gemini-cli", |n| {
                format!(r#"{{"type":"user","content":"{n}"}}"#)
            }),
            ("anthropic", |n| {
                format!(r#"{{"max_tokens":1,"messages":[{{"role":"user","content":"{n}"}}]}}"#)
            }),
            ("openai-chat", |n| {
                format!(r#"{{"messages":[{{"role":"user","content":"{n}"}}]}}"#)
            }),
            ("openai-responses", |n| {
                format!(r#"{{"model":"m","input":"{n}"}}"#)
            }),
            ("google", |n| {
                format!(r#"{{"contents":[{{"parts":[{{"text":"{n}"}}]}}]}}"#)
            }),
        ];
        for (format, line) in formats {
            let (once, source) = held(format, 1000, line);
            assert!(once <= 5 * source, "{format}: {once} of {source}");
            let (twice, _) = held(format, 2000, line);
            assert!(
                twice <= 2 * once + once / 10,
                "{format}: {twice} after {once}"
            );
        }
    }
}
