//! OTLP in protobuf, read into the JSON that OTLP defines for it.
//!
//! ```text
//! field   key (varint: number << 3 | type)  value
//! type 0  varint          1  8 bytes, little-endian
//!      2  length, bytes   5  4 bytes, little-endian
//!
//! TracesData   1 ResourceSpans*    ResourceSpans 1 Resource  2 ScopeSpans*  3 schema_url
//! LogsData     1 ResourceLogs*     ScopeSpans    1 Scope     2 Span*        3 schema_url
//! ```
//!
//! The body of an export request has the same fields as the data. Field 1 distinguishes spans from
//! log records: it is the bytes of a trace's id, or a moment. A field that the table of its
//! message lacks is kept as `field N` with its bytes, so that the account lists it.
//!
//! Only the messages of OTLP are read. Each message is read once, so that time and memory grow with
//! the bytes; nesting and the number of values are bounded.

use threadseal_core::canon::json::{Number, Text, Value};
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_JSON_VALUES;

/// Deepest nesting of messages.
const MAX_MESSAGE_DEPTH: usize = 64;
/// Most bytes of a varint.
const MAX_VARINT_BYTES: usize = 10;

/// How a field is written in JSON.
#[derive(Clone, Copy)]
enum Form {
    Text,
    /// Bytes in hexadecimal: the ids of traces and spans.
    Hex,
    /// Bytes in Base64.
    Base64,
    Bool,
    /// A number of at most 32 bits.
    Small,
    /// An integer of 64 bits: a string of its digits.
    Unsigned,
    Signed,
    Double,
    Message(&'static Table),
    /// A message that is the value itself, in a list.
    Many(&'static Table),
}

/// The fields of a message: number, name in JSON, form.
type Table = &'static [(u64, &'static str, Form)];

static ANY_VALUE: Table = &[
    (1, "stringValue", Form::Text),
    (2, "boolValue", Form::Bool),
    (3, "intValue", Form::Signed),
    (4, "doubleValue", Form::Double),
    (5, "arrayValue", Form::Message(&ARRAY)),
    (6, "kvlistValue", Form::Message(&KEY_VALUES)),
    (7, "bytesValue", Form::Base64),
];
static ARRAY: Table = &[(1, "values", Form::Many(&ANY_VALUE))];
static KEY_VALUES: Table = &[(1, "values", Form::Many(&KEY_VALUE))];
static KEY_VALUE: Table = &[
    (1, "key", Form::Text),
    (2, "value", Form::Message(&ANY_VALUE)),
];
static RESOURCE: Table = &[
    (1, "attributes", Form::Many(&KEY_VALUE)),
    (2, "droppedAttributesCount", Form::Small),
];
static SCOPE: Table = &[
    (1, "name", Form::Text),
    (2, "version", Form::Text),
    (3, "attributes", Form::Many(&KEY_VALUE)),
    (4, "droppedAttributesCount", Form::Small),
];
static EVENT: Table = &[
    (1, "timeUnixNano", Form::Unsigned),
    (2, "name", Form::Text),
    (3, "attributes", Form::Many(&KEY_VALUE)),
    (4, "droppedAttributesCount", Form::Small),
];
static LINK: Table = &[
    (1, "traceId", Form::Hex),
    (2, "spanId", Form::Hex),
    (3, "traceState", Form::Text),
    (4, "attributes", Form::Many(&KEY_VALUE)),
    (5, "droppedAttributesCount", Form::Small),
    (6, "flags", Form::Small),
];
static STATUS: Table = &[(2, "message", Form::Text), (3, "code", Form::Small)];
static SPAN: Table = &[
    (1, "traceId", Form::Hex),
    (2, "spanId", Form::Hex),
    (3, "traceState", Form::Text),
    (4, "parentSpanId", Form::Hex),
    (5, "name", Form::Text),
    (6, "kind", Form::Small),
    (7, "startTimeUnixNano", Form::Unsigned),
    (8, "endTimeUnixNano", Form::Unsigned),
    (9, "attributes", Form::Many(&KEY_VALUE)),
    (10, "droppedAttributesCount", Form::Small),
    (11, "events", Form::Many(&EVENT)),
    (12, "droppedEventsCount", Form::Small),
    (13, "links", Form::Many(&LINK)),
    (14, "droppedLinksCount", Form::Small),
    (15, "status", Form::Message(&STATUS)),
    (16, "flags", Form::Small),
];
static LOG_RECORD: Table = &[
    (1, "timeUnixNano", Form::Unsigned),
    (2, "severityNumber", Form::Small),
    (3, "severityText", Form::Text),
    (5, "body", Form::Message(&ANY_VALUE)),
    (6, "attributes", Form::Many(&KEY_VALUE)),
    (7, "droppedAttributesCount", Form::Small),
    (8, "flags", Form::Small),
    (9, "traceId", Form::Hex),
    (10, "spanId", Form::Hex),
    (11, "observedTimeUnixNano", Form::Unsigned),
    (12, "eventName", Form::Text),
];
static SCOPE_SPANS: Table = &[
    (1, "scope", Form::Message(&SCOPE)),
    (2, "spans", Form::Many(&SPAN)),
    (3, "schemaUrl", Form::Text),
];
static SCOPE_LOGS: Table = &[
    (1, "scope", Form::Message(&SCOPE)),
    (2, "logRecords", Form::Many(&LOG_RECORD)),
    (3, "schemaUrl", Form::Text),
];
static RESOURCE_SPANS: Table = &[
    (1, "resource", Form::Message(&RESOURCE)),
    (2, "scopeSpans", Form::Many(&SCOPE_SPANS)),
    (3, "schemaUrl", Form::Text),
];
static RESOURCE_LOGS: Table = &[
    (1, "resource", Form::Message(&RESOURCE)),
    (2, "scopeLogs", Form::Many(&SCOPE_LOGS)),
    (3, "schemaUrl", Form::Text),
];
static TRACES: Table = &[(1, "resourceSpans", Form::Many(&RESOURCE_SPANS))];
static LOGS: Table = &[(1, "resourceLogs", Form::Many(&RESOURCE_LOGS))];

/// Whether `bytes` begin as OTLP in protobuf does: a resource with scopes that have records.
pub(super) fn looks_like(bytes: &[u8]) -> bool {
    bytes.first() == Some(&0x0a) && kind_of(bytes).is_some()
}

/// The JSON of traces or logs in protobuf.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] if the bytes are neither, [`ErrorKind::Limit`] beyond the bounds.
pub(super) fn read(bytes: &[u8]) -> Result<Value, Error> {
    let table = kind_of(bytes).ok_or_else(|| invalid("neither traces nor logs of OTLP"))?;
    let mut reader = Reader { values: 0 };
    reader.message(bytes, table, 0)
}

/// The table of a body, by the first record in it. A body without records has none.
fn kind_of(bytes: &[u8]) -> Option<Table> {
    for resource in messages(bytes, 1) {
        for scope in messages(resource, 2) {
            if let Some(record) = messages(scope, 2).next() {
                let first = Fields(record).next()?.ok()?;
                return match (first.number, first.payload) {
                    (1, Payload::Bytes(id)) if id.len() == 16 => Some(TRACES),
                    (1 | 11, Payload::Fixed64(_)) => Some(LOGS),
                    _ => None,
                };
            }
        }
    }
    None
}

/// The payloads of the fields `number` that are bytes, as far as the message can be read.
fn messages(bytes: &[u8], number: u64) -> impl Iterator<Item = &[u8]> {
    let fields = Fields(bytes).map_while(Result::ok);
    fields.filter_map(move |field| match field.payload {
        Payload::Bytes(inner) if field.number == number => Some(inner),
        _ => None,
    })
}

struct Reader {
    values: usize,
}

impl Reader {
    /// The object of one message.
    fn message(&mut self, bytes: &[u8], table: Table, depth: usize) -> Result<Value, Error> {
        if depth >= MAX_MESSAGE_DEPTH {
            return Err(limit("messages nest too deep"));
        }
        let mut members: Vec<(Text, Value)> = Vec::new();
        for field in Fields(bytes) {
            let field = field?;
            self.values += 1;
            if self.values > MAX_JSON_VALUES {
                return Err(limit("too many values"));
            }
            let known = table.iter().find(|(number, ..)| *number == field.number);
            let Some((_, name, form)) = known else {
                let name = format!("field {}", field.number);
                push(&mut members, &name, field.payload.raw());
                continue;
            };
            match form {
                Form::Many(inner) => {
                    let value = self.message(field.payload.bytes()?, inner, depth + 1)?;
                    match members.iter_mut().find(|(known, _)| *known == **name) {
                        Some((_, Value::Array(list))) => list.push(value),
                        _ => members.push(((*name).into(), Value::Array(vec![value]))),
                    }
                }
                Form::Message(inner) => {
                    let value = self.message(field.payload.bytes()?, inner, depth + 1)?;
                    push(&mut members, name, value);
                }
                form => push(&mut members, name, field.payload.value(*form)?),
            }
        }
        Ok(Value::Object(members))
    }
}

/// Sets a member: of a field that occurs again, the last counts.
fn push(members: &mut Vec<(Text, Value)>, name: &str, value: Value) {
    match members.iter_mut().find(|(known, _)| known == name) {
        Some((_, old)) => *old = value,
        None => members.push((name.into(), value)),
    }
}

/// The fields of a message, one after the other.
struct Fields<'a>(&'a [u8]);

struct Field<'a> {
    number: u64,
    payload: Payload<'a>,
}

#[derive(Clone, Copy)]
enum Payload<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Result<Field<'a>, Error> {
        let key = self.varint()?;
        let payload = match key & 7 {
            0 => Payload::Varint(self.varint()?),
            1 => Payload::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = self.varint()?;
                let length = usize::try_from(length).map_err(|_| invalid("field too long"))?;
                Payload::Bytes(self.take(length)?)
            }
            5 => Payload::Fixed32(u32::from_le_bytes(self.array()?)),
            _ => return Err(invalid("unknown type of field")),
        };
        Ok(Field {
            number: key >> 3,
            payload,
        })
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self
            .0
            .split_at_checked(length)
            .ok_or_else(|| invalid("field is cut"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let taken = self.take(N)?;
        taken.try_into().map_err(|_| invalid("field is cut"))
    }

    fn varint(&mut self) -> Result<u64, Error> {
        let mut value = 0_u64;
        for place in 0..MAX_VARINT_BYTES {
            let [byte] = self.array::<1>()?;
            let bits = u64::from(byte & 0x7f);
            let shift = place * 7;
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(invalid("varint is too long"))
    }
}

impl<'a> Payload<'a> {
    fn bytes(self) -> Result<&'a [u8], Error> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(invalid("field has another type")),
        }
    }

    /// The value of a field that is no message.
    fn value(self, form: Form) -> Result<Value, Error> {
        Ok(match (form, self) {
            (Form::Text, Self::Bytes(bytes)) => {
                let text = std::str::from_utf8(bytes);
                text.map_err(|_| invalid("text is not UTF-8"))?.into()
            }
            (Form::Hex, Self::Bytes(bytes)) => hex(bytes).into(),
            (Form::Base64, Self::Bytes(bytes)) => base64(bytes).into(),
            (Form::Bool, Self::Varint(bits)) => (bits != 0).into(),
            (Form::Small, Self::Varint(bits)) => u32::try_from(bits).map_or_else(
                |_| Value::from(bits.to_string()),
                |bits| u64::from(bits).into(),
            ),
            (Form::Small, Self::Fixed32(bits)) => u64::from(bits).into(),
            (Form::Unsigned, Self::Fixed64(bits) | Self::Varint(bits)) => bits.to_string().into(),
            (Form::Signed, Self::Varint(bits)) => bits.cast_signed().to_string().into(),
            (Form::Double, Self::Fixed64(bits)) => double(f64::from_bits(bits)),
            _ => return Err(invalid("field has another type")),
        })
    }

    /// The value of a field that no table knows.
    fn raw(self) -> Value {
        match self {
            Self::Varint(bits) | Self::Fixed64(bits) => bits.to_string().into(),
            Self::Fixed32(bits) => u64::from(bits).into(),
            Self::Bytes(bytes) => base64(bytes).into(),
        }
    }
}

/// A number, or the word that JSON of protobuf has for a value that is none.
fn double(value: f64) -> Value {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.into();
    }
    let mut buffer = ryu_js::Buffer::new();
    let text = buffer.format_finite(value);
    Number::parse(text).map_or_else(|| text.into(), Value::Number)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk
            .iter()
            .fold(0_u32, |word, byte| word << 8 | u32::from(*byte));
        let word = word << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let index = (word >> (18 - 6 * place)) & 0x3f;
            let letter = usize::try_from(index).map_or(b'=', |index| ALPHABET[index]);
            text.push(if place <= chunk.len() {
                char::from(letter)
            } else {
                '='
            });
        }
    }
    text
}

fn invalid(what: &str) -> Error {
    let message = format!("OTLP protobuf: {what}");
    Error::new(ErrorKind::InvalidInput, message)
}

fn limit(what: &str) -> Error {
    let message = format!("OTLP protobuf: {what}; hint: split the file");
    Error::new(ErrorKind::Limit, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2];
        let mut length = bytes.len();
        while length >= 0x80 {
            out.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
            length >>= 7;
        }
        out.push(u8::try_from(length).unwrap());
        out.extend(bytes);
        out
    }

    fn attribute(key: &str, value: &[u8]) -> Vec<u8> {
        [field(1, key.as_bytes()), field(2, value)].concat()
    }

    fn body(record: &[u8]) -> Vec<u8> {
        field(1, &field(2, &field(2, record)))
    }

    fn span(attributes: &[Vec<u8>]) -> Vec<u8> {
        let mut span = [field(1, &[0xab; 16]), field(2, &[0xcd; 8])].concat();
        span.extend(field(5, b"chat"));
        span.push(7 << 3 | 1);
        span.extend(1_700_000_000_000_000_001_u64.to_le_bytes());
        for attribute in attributes {
            span.extend(field(9, attribute));
        }
        body(&span)
    }

    #[test]
    fn a_span_becomes_the_json_of_otlp() {
        let texts = field(1, "hé".as_bytes());
        let number = [
            3 << 3,
            0xff,
            0xff,
            0xff,
            0xff,
            0xff,
            0xff,
            0xff,
            0xff,
            0xff,
            1,
        ];
        let list = field(
            5,
            &[field(1, &field(1, b"x")), field(1, &[2 << 3, 1])].concat(),
        );
        let double = [&[4 << 3 | 1][..], &1.5_f64.to_le_bytes()].concat();
        let bytes = span(&[
            attribute("text", &texts),
            attribute("int", &number),
            attribute("list", &list),
            attribute("double", &double),
            attribute("bytes", &field(7, b"\xff\x00")),
        ]);
        assert!(looks_like(&bytes));
        let span = read(&bytes).unwrap();
        let span = &span.get("resourceSpans").unwrap().as_array().unwrap()[0];
        let span = &span.get("scopeSpans").unwrap().as_array().unwrap()[0];
        let span = &span.get("spans").unwrap().as_array().unwrap()[0];
        assert_eq!(
            span.get("traceId").unwrap().as_str(),
            Some("ab".repeat(16).as_str())
        );
        let start = span.get("startTimeUnixNano").unwrap();
        assert_eq!(start.as_str(), Some("1700000000000000001"));
        let attributes = span.get("attributes").unwrap().as_array().unwrap();
        let value = |index: usize| attributes[index].get("value").unwrap();
        assert_eq!(value(0).get("stringValue").unwrap().as_str(), Some("hé"));
        assert_eq!(value(1).get("intValue").unwrap().as_str(), Some("-1"));
        let list = value(2).get("arrayValue").unwrap().get("values").unwrap();
        assert_eq!(list.as_array().unwrap().len(), 2);
        assert_eq!(
            value(3)
                .get("doubleValue")
                .unwrap()
                .as_number()
                .unwrap()
                .literal(),
            "1.5"
        );
        assert_eq!(value(4).get("bytesValue").unwrap().as_str(), Some("/wA="));
    }

    #[test]
    fn log_records_are_told_from_spans() {
        let mut record = vec![1 << 3 | 1];
        record.extend(5_u64.to_le_bytes());
        record.extend(field(12, b"event"));
        let log = read(&body(&record)).unwrap();
        assert!(log.get("resourceLogs").is_some());
        assert!(read(b"{\"resourceSpans\":[]}").is_err());
        assert!(!looks_like(b""));
        assert!(!looks_like(b"\n{\"a\":1}\n"));
    }

    #[test]
    fn a_field_that_no_table_has_is_kept() {
        let mut record = vec![1 << 3 | 1];
        record.extend(5_u64.to_le_bytes());
        record.extend(field(15, b"new"));
        let log = read(&body(&record)).unwrap();
        let text = String::from_utf8(threadseal_core::canon::python::rye_line(&log)).unwrap();
        assert!(text.contains(r#""field 15": "bmV3""#), "{text}");
    }

    // T-SCR-55
    #[test]
    fn nesting_counts_and_cuts_are_bounded() {
        let mut value = field(1, b"deep");
        for _ in 0..MAX_MESSAGE_DEPTH {
            value = field(5, &field(1, &value));
        }
        let deep = span(&[attribute("k", &value)]);
        assert_eq!(read(&deep).unwrap_err().kind(), ErrorKind::Limit);
        let whole = span(&[attribute("k", &field(1, b"v"))]);
        for cut in 1..whole.len() {
            let _ = read(&whole[..cut]);
            let mut changed = whole.clone();
            changed[cut] ^= 0xff;
            let _ = read(&changed);
        }
        let long = [&whole[..], &[0xff; 12][..]].concat();
        assert!(read(&long).is_err(), "a varint of twelve bytes");
        let huge = [0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f];
        assert!(read(&huge).is_err(), "a length beyond the bytes");
    }
}
