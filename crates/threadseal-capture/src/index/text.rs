//! The text of a turn: what `search` looks for and `show` prints.

use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::io::Read as _;
use threadseal_convert::Draft;
use threadseal_core::canon::json::Value;
use threadseal_core::canon::python::rye_line;
use threadseal_core::digest::Digest;

/// Most bytes of one part of a turn that are indexed: the beginning of a long output.
const MAX_PART_BYTES: usize = 64 << 10;
/// Most bytes of a turn that are indexed.
const MAX_TURN_TEXT_BYTES: usize = 1 << 20;
/// A shorter text is not compressed.
const MIN_PACKED_BYTES: usize = 256;

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

impl TurnText {
    pub(super) fn digest(&self) -> Vec<u8> {
        let role = self.role.as_bytes();
        Digest::tagged("threadseal/1 indexed turn", &[role, self.text.as_bytes()])
            .as_bytes()
            .to_vec()
    }
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
            content => add(&mut text, &value_text(content)),
        }
    }
    for call in &draft.tool_calls {
        add(&mut text, &call.name);
        if let Some(args) = &call.args {
            add(&mut text, &value_text(args));
        }
    }
    for result in &draft.tool_results {
        if let Some(response) = &result.response {
            add(&mut text, &value_text(response));
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

/// A value as text: a string as it is, anything else as JSON.
fn value_text(value: &Value) -> String {
    match value.as_str() {
        Some(text) => text.to_owned(),
        None => String::from_utf8_lossy(&rye_line(value)).into_owned(),
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

/// A text as it is stored: `0` and the text, or `1` and the compressed text.
pub(super) fn pack(text: &str) -> Vec<u8> {
    if text.len() >= MIN_PACKED_BYTES {
        let packed = compress_to_vec(text.as_bytes(), CompressionLevel::Fastest);
        if packed.len() < text.len() {
            return [&[1], packed.as_slice()].concat();
        }
    }
    [&[0], text.as_bytes()].concat()
}

/// The text that [`pack`] stored; empty if it is damaged.
pub(super) fn unpack(stored: &[u8]) -> String {
    let bytes = match stored.split_first() {
        Some((1, packed)) => {
            let mut bytes = Vec::new();
            let most = MAX_TURN_TEXT_BYTES as u64;
            let read = StreamingDecoder::new(packed)
                .map(|decoder| decoder.take(most).read_to_end(&mut bytes));
            match read {
                Ok(Ok(_)) => bytes,
                _ => Vec::new(),
            }
        }
        Some((_, text)) => text.to_vec(),
        None => Vec::new(),
    };
    String::from_utf8_lossy(&bytes).into_owned()
}
