//! The JSON reader: one grammar, two sets of rules, three ways to use it.
//!
//! | rules | accepts |
//! |---|---|
//! | strict ([`parse`], [`validate`], [`scan_object`], [`super::jcs`]) | RFC 8259, unambiguous |
//! | Python ([`parse_python`]) | as `json.loads` of Python 3.11; reports each irregularity |
//!
//! Strict refuses every text that two readers could understand differently:
//!
//! * invalid UTF-8, and a byte order mark
//! * a name that occurs twice in one object (compared after unescaping)
//! * lone surrogates, and raw control characters in strings
//! * a number with a fraction or exponent that is not a finite double
//! * anything after the value
//! * input beyond [`MAX_JSON_DEPTH`](crate::limits::MAX_JSON_DEPTH),
//!   [`MAX_NUMBER_BYTES`](crate::limits::MAX_NUMBER_BYTES) or
//!   [`MAX_JSON_VALUES`](crate::limits::MAX_JSON_VALUES)
//!
//! An integer may have any value.
//!
//! `lex` is the careful reader: it names each fault with its place, and builds trees. `fast` is the
//! quick reader for large logs. It accepts nothing that `lex` refuses, and gives up on unusual
//! input.

mod blocks;
mod error;
mod escape;
mod fast;
mod find;
mod keys;
mod lex;
mod parse;
#[cfg(test)]
mod properties;
mod scan;
#[cfg(test)]
mod tests;
mod text;
mod value;

pub use error::{JsonError, JsonErrorKind};
pub use find::member_of;
pub use keys::Key;
pub use parse::{Irregularity, IrregularityKind, PythonDocument, PythonTexts, parse, parse_python};
pub use scan::is_valid_ascii;
pub use scan::{scan_object, validate};
pub use text::{Text, write_ascii_string};
pub use value::{Number, Value};

pub(in crate::canon) use escape::decode_escape;
pub(in crate::canon) use fast::{Str, Visitor, walk};
pub(in crate::canon) use lex::StringToken;
pub(in crate::canon) use text::{
    push_code_point, write_ascii_text, write_escape, write_minimal_string, write_minimal_wtf8,
};
