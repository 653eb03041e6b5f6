//! Python's `json.dumps`, in the four settings that records use.
//!
//! | dialect | `sort_keys` | separators | `ensure_ascii` | used for |
//! |---|---|---|---|---|
//! | [`rye`] | yes | `","` `":"` | yes | the bytes that Rye hashes of a JSON document |
//! | [`ledger`] | yes | `","` `":"` | no | the bytes that `AbstractRuntime` hashes of a record |
//! | [`ledger_line`] | no | `","` `":"` | no | one line of an `AbstractRuntime` ledger |
//! | [`rye_line`] | no | `", "` `": "` | yes | one line of a Rye transcript |
//!
//! Names sort by code point (RFC 8785 sorts by UTF-16 code unit). An integer keeps its spelling,
//! except that `-0` becomes `0`. A number with fraction or exponent is a Python `float`. It is
//! written as `float.__repr__` writes it, or as `NaN`, `Infinity`, `-Infinity`.

mod object;

pub use object::LedgerObject;

use super::Unrepresentable;
use super::json::{
    Number, Text, Value, write_ascii_text, write_minimal_string, write_minimal_wtf8,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Rye,
    Ledger,
    LedgerLine,
    /// `Ledger` with lone surrogates in WTF-8.
    Wtf8,
    RyeLine,
}

impl Dialect {
    fn sorts(self) -> bool {
        matches!(self, Self::Rye | Self::Ledger | Self::Wtf8)
    }
}

/// `json.dumps(value, sort_keys=True, separators=(",", ":"))`.
///
/// A lone surrogate is written `\udxxx`, as Python does.
pub fn rye(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out, value, Dialect::Rye);
    out
}

/// `json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()`.
///
/// # Errors
/// [`Unrepresentable::LoneSurrogate`], where Python raises `UnicodeEncodeError`.
pub fn ledger(value: &Value) -> Result<Vec<u8>, Unrepresentable> {
    let mut out = Vec::new();
    if write(&mut out, value, Dialect::Ledger) {
        Ok(out)
    } else {
        Err(Unrepresentable::LoneSurrogate)
    }
}

/// [`ledger`] of the object that has these members.
pub fn ledger_of(members: Vec<(&Text, &Value)>) -> Result<Vec<u8>, Unrepresentable> {
    let mut out = Vec::new();
    if write_members(&mut out, members, Dialect::Ledger) {
        Ok(out)
    } else {
        Err(Unrepresentable::LoneSurrogate)
    }
}

/// `json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()`: members in order.
///
/// # Errors
/// As [`ledger`].
pub fn ledger_line(value: &Value) -> Result<Vec<u8>, Unrepresentable> {
    let mut out = Vec::new();
    if write(&mut out, value, Dialect::LedgerLine) {
        Ok(out)
    } else {
        Err(Unrepresentable::LoneSurrogate)
    }
}

/// `json.dumps(value)`.
pub fn rye_line(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out, value, Dialect::RyeLine);
    out
}

/// The text that `json.dumps` writes for a `float`.
///
/// Its digits are the shortest that read back as the same double. From 1e16 up and below 1e-4 it
/// has an exponent of at least two digits. Else it always has a point.
pub fn repr_float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if value.is_infinite() {
        return format!("{sign}Infinity");
    }
    let (digits, point) = shortest(value.abs());
    // `float_repr_style` "short" of CPython, Python/pystrtod.c, format code 'r'.
    match point {
        -3..=0 => {
            let zeros = "0".repeat(point.unsigned_abs() as usize);
            format!("{sign}0.{zeros}{digits}")
        }
        1..=16 => {
            let point = point.unsigned_abs() as usize;
            if digits.len() <= point {
                let zeros = "0".repeat(point - digits.len());
                format!("{sign}{digits}{zeros}.0")
            } else {
                let (whole, fraction) = digits.split_at(point);
                format!("{sign}{whole}.{fraction}")
            }
        }
        _ => {
            let (first, rest) = digits.split_at(1);
            let dot = if rest.is_empty() { "" } else { "." };
            let exponent = point - 1;
            let exponent_sign = if exponent < 0 { '-' } else { '+' };
            let exponent = exponent.unsigned_abs();
            format!("{sign}{first}{dot}{rest}e{exponent_sign}{exponent:02}")
        }
    }
}

/// Shortest digits of a finite value that is not negative, and the place of the point.
///
/// The digits have no zeros at either end (`"0"` for zero). The second value counts the digits
/// before the point: 0.05 is `("5", -1)`.
fn shortest(value: f64) -> (String, i32) {
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(value);
    let (decimal, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (whole, fraction) = decimal.split_once('.').unwrap_or((decimal, ""));
    let all = format!("{whole}{fraction}");
    let digits = all.trim_start_matches('0');
    if digits.is_empty() {
        return ("0".to_owned(), 1);
    }
    let leading_zeros = all.len() - digits.len();
    // At most 17 digits and three of exponent: neither conversion can fail.
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let before_point = i32::try_from(whole.len()).unwrap_or_default()
        - i32::try_from(leading_zeros).unwrap_or_default();
    let digits = digits.trim_end_matches('0').to_owned();
    (digits, before_point + exponent)
}

/// Appends `value`; false if the dialect cannot hold one of its strings.
fn write(out: &mut Vec<u8>, value: &Value, dialect: Dialect) -> bool {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => return write_text(out, text, dialect),
        Value::Array(elements) => {
            out.push(b'[');
            for (index, element) in elements.iter().enumerate() {
                separate(out, index, dialect);
                if !write(out, element, dialect) {
                    return false;
                }
            }
            out.push(b']');
        }
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| (name, value));
            return write_members(out, members.collect(), dialect);
        }
    }
    true
}

fn write_members(out: &mut Vec<u8>, mut members: Vec<(&Text, &Value)>, dialect: Dialect) -> bool {
    if dialect.sorts() {
        members.sort_by(|a, b| a.0.cmp(b.0));
    }
    out.push(b'{');
    for (index, (name, value)) in members.into_iter().enumerate() {
        separate(out, index, dialect);
        if !write_text(out, name, dialect) {
            return false;
        }
        out.extend_from_slice(if dialect == Dialect::RyeLine {
            b": "
        } else {
            b":"
        });
        if !write(out, value, dialect) {
            return false;
        }
    }
    out.push(b'}');
    true
}

fn separate(out: &mut Vec<u8>, index: usize, dialect: Dialect) {
    if index > 0 {
        out.push(b',');
        if dialect == Dialect::RyeLine {
            out.push(b' ');
        }
    }
}

fn write_text(out: &mut Vec<u8>, text: &Text, dialect: Dialect) -> bool {
    match (dialect, text.as_str()) {
        (Dialect::Ledger | Dialect::LedgerLine, Some(text)) => write_minimal_string(out, text),
        (Dialect::Ledger | Dialect::LedgerLine, None) => return false,
        (Dialect::Wtf8, _) => write_minimal_wtf8(out, text.as_bytes()),
        _ => write_ascii_text(out, text),
    }
    true
}

fn write_number(out: &mut Vec<u8>, number: &Number) {
    match number.literal() {
        "-0" => out.push(b'0'),
        literal if number.is_integer() => out.extend_from_slice(literal.as_bytes()),
        _ => out.extend_from_slice(repr_float(number.as_f64()).as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::json::parse_python;
    use super::*;

    fn read(text: &str) -> Value {
        parse_python(text.as_bytes()).unwrap().value
    }

    #[test]
    fn floats_are_written_as_python_writes_them() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (123.25, "123.25"),
            (1e15, "1000000000000000.0"),
            (9_007_199_254_740_993.0, "9007199254740992.0"),
            (9_999_999_999_999_998.0, "9999999999999998.0"),
            (1e16, "1e+16"),
            (1e22, "1e+22"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.000_12, "0.00012"),
            (0.000_01, "1e-05"),
            (1.25e-7, "1.25e-07"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(repr_float(value), text);
        }
    }

    #[test]
    fn names_sort_by_code_point_and_not_by_utf16() {
        let value = read("{\"\u{1f980}\":1,\"\u{ffff}\":2,\"b\":3,\"a\":4,\"\":5}");
        let escaped = br#"{"":5,"a":4,"b":3,"\uffff":2,"\ud83e\udd80":1}"#;
        assert_eq!(rye(&value), escaped);
        let raw = "{\"\":5,\"a\":4,\"b\":3,\"\u{ffff}\":2,\"\u{1f980}\":1}";
        assert_eq!(ledger(&value).unwrap(), raw.as_bytes());
    }

    #[test]
    fn lines_keep_order_and_blanks_of_json_dumps() {
        let value = read(r#"{"b":[1,-0,1E5,{}],"a":{"c":null,"d":[]}}"#);
        assert_eq!(
            String::from_utf8(rye_line(&value)).unwrap(),
            r#"{"b": [1, 0, 100000.0, {}], "a": {"c": null, "d": []}}"#
        );
        assert_eq!(
            ledger_line(&value).unwrap(),
            br#"{"b":[1,0,100000.0,{}],"a":{"c":null,"d":[]}}"#
        );
    }

    #[test]
    fn a_lone_surrogate_survives_in_ascii_and_is_refused_in_utf8() {
        let value = read(r#"["\udead", "\uD83e"]"#);
        assert_eq!(rye(&value), br#"["\udead","\ud83e"]"#);
        assert_eq!(ledger(&value), Err(Unrepresentable::LoneSurrogate));
    }

    #[test]
    fn delete_is_escaped_in_ascii_and_raw_in_utf8() {
        let value = read("\"\u{7f}\\u0001/\"");
        assert_eq!(rye(&value), br#""\u007f\u0001/""#);
        assert_eq!(ledger(&value).unwrap(), b"\"\x7f\\u0001/\"");
    }
}
