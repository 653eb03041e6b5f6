//! `MessagePack` as LangGraph's checkpointers write it, read as JSON within bounds.
//!
//! ```text
//! ext 0-5   [module, class, argument, …]   the argument; of a message its members, with its type
//! ext 7     one value                      that value
//! bin, other ext                           {"bin": base64}, {"ext": code, "bin": base64}
//! ```
//! Invariant: nothing is made of a length that was only declared, and no class is looked at.

use super::account::object;
use super::thread::unique;
use rmp::Marker;
use rmp::decode;
use threadseal_core::canon::json::{Number, Text, Value};
use threadseal_core::encoding;
use threadseal_core::limits::{MAX_JSON_DEPTH, MAX_JSON_VALUES};

/// The place of the argument among the parts of an object.
const ARGUMENT: usize = 2;
const CONSTRUCTED: std::ops::RangeInclusive<i8> = 0..=5;
const SNAPSHOT: i8 = 7;

/// The value that `bytes` are, whole.
///
/// # Errors
/// Why they are none: cut, nested too deep, too many values, or not UTF-8.
pub(super) fn unpack(bytes: &[u8]) -> Result<Value, &'static str> {
    let mut reader = Reader {
        left: MAX_JSON_VALUES,
    };
    reader.whole(bytes, MAX_JSON_DEPTH)
}

struct Reader {
    /// How many more values may be made.
    left: usize,
}

impl Reader {
    fn whole(&mut self, mut bytes: &[u8], depth: usize) -> Result<Value, &'static str> {
        let value = self.value(&mut bytes, depth)?;
        match bytes.is_empty() {
            true => Ok(value),
            false => Err("bytes follow the value"),
        }
    }

    fn value(&mut self, bytes: &mut &[u8], depth: usize) -> Result<Value, &'static str> {
        self.left = self.left.checked_sub(1).ok_or("too many values")?;
        let depth = depth.checked_sub(1).ok_or("nested too deep")?;
        let first = *bytes.first().ok_or(CUT)?;
        match Marker::from_u8(first) {
            Marker::Null => decode::read_nil(bytes).map(|()| Value::Null).map_err(cut),
            Marker::True | Marker::False => decode::read_bool(bytes).map(Value::from).map_err(cut),
            Marker::FixPos(_) | Marker::U8 | Marker::U16 | Marker::U32 | Marker::U64 => {
                let number: u64 = decode::read_int(bytes).map_err(cut)?;
                Ok(number.into())
            }
            Marker::FixNeg(_) | Marker::I8 | Marker::I16 | Marker::I32 | Marker::I64 => {
                let number: i64 = decode::read_int(bytes).map_err(cut)?;
                Ok(number.into())
            }
            Marker::F32 => decode::read_f32(bytes).map(|n| real(n.into())).map_err(cut),
            Marker::F64 => decode::read_f64(bytes).map(real).map_err(cut),
            Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32 => {
                let length = decode::read_str_len(bytes).map_err(cut)?;
                let text = std::str::from_utf8(taken(bytes, length)?).map_err(|_| "not UTF-8")?;
                Ok(text.into())
            }
            Marker::Bin8 | Marker::Bin16 | Marker::Bin32 => {
                let length = decode::read_bin_len(bytes).map_err(cut)?;
                Ok(object([("bin", base64(taken(bytes, length)?))]))
            }
            Marker::FixArray(_) | Marker::Array16 | Marker::Array32 => {
                let length = decode::read_array_len(bytes).map_err(cut)?;
                self.array(bytes, length, depth)
            }
            Marker::FixMap(_) | Marker::Map16 | Marker::Map32 => {
                let length = decode::read_map_len(bytes).map_err(cut)?;
                self.map(bytes, length, depth)
            }
            Marker::Reserved => Err("a reserved byte"),
            _ => {
                let head = decode::read_ext_meta(bytes).map_err(cut)?;
                let inside = taken(bytes, head.size)?;
                self.extension(head.typeid, inside, depth)
            }
        }
    }

    fn array(
        &mut self,
        bytes: &mut &[u8],
        length: u32,
        depth: usize,
    ) -> Result<Value, &'static str> {
        let mut elements = Vec::new();
        for _ in 0..length {
            elements.push(self.value(bytes, depth)?);
        }
        Ok(Value::Array(elements))
    }

    fn map(&mut self, bytes: &mut &[u8], length: u32, depth: usize) -> Result<Value, &'static str> {
        let mut members = Vec::new();
        for _ in 0..length {
            let name = match self.value(bytes, depth)? {
                Value::String(text) => text,
                // A name that is no text is its JSON.
                other => Text::from(python_text(&other)),
            };
            members.push((name, self.value(bytes, depth)?));
        }
        Ok(unique(members))
    }

    fn extension(&mut self, code: i8, inside: &[u8], depth: usize) -> Result<Value, &'static str> {
        if code == SNAPSHOT {
            return self.whole(inside, depth);
        }
        if CONSTRUCTED.contains(&code) {
            let Value::Array(mut parts) = self.whole(inside, depth)? else {
                return Err("an object without parts");
            };
            return match parts.len() > ARGUMENT {
                true => Ok(parts.swap_remove(ARGUMENT)),
                false => Err("an object without parts"),
            };
        }
        let code = Value::from(i64::from(code));
        Ok(object([("ext", code), ("bin", base64(inside))]))
    }
}

const CUT: &str = "ends inside a value";

fn cut<E>(_: E) -> &'static str {
    CUT
}

fn taken<'b>(bytes: &mut &'b [u8], length: u32) -> Result<&'b [u8], &'static str> {
    let length = usize::try_from(length).map_err(cut)?;
    let (taken, rest) = bytes.split_at_checked(length).ok_or(CUT)?;
    *bytes = rest;
    Ok(taken)
}

fn base64(bytes: &[u8]) -> Value {
    encoding::base64(bytes).into()
}

/// A number that JSON can spell; any other as a text.
fn real(number: f64) -> Value {
    let text = format!("{number:?}");
    match Number::parse(&text) {
        Some(number) => Value::Number(number),
        None => text.into(),
    }
}

fn python_text(value: &Value) -> String {
    let spelled = threadseal_core::canon::python::rye_line(value);
    String::from_utf8_lossy(&spelled).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(bytes: &[u8]) -> String {
        python_text(&unpack(bytes).unwrap())
    }

    /// An extension with `inside`, of at most 255 bytes.
    fn ext(code: u8, inside: &[u8]) -> Vec<u8> {
        let length = u8::try_from(inside.len()).unwrap();
        [&[0xc7, length, code], inside].concat()
    }

    #[test]
    fn each_kind_of_value_is_read() {
        assert_eq!(spelled(b"\x93\xc0\xc3\xff"), "[null, true, -1]");
        assert_eq!(
            spelled(b"\x92\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xd0\x80"),
            "[18446744073709551615, -128]"
        );
        assert_eq!(spelled(b"\xcb\x3f\xf8\0\0\0\0\0\0"), "1.5");
        assert_eq!(spelled(b"\xcb\x7f\xf8\0\0\0\0\0\0"), "\"NaN\"");
        assert_eq!(
            spelled(b"\x82\xa1a\xc4\x01\xff\x01\xa1b"),
            r#"{"a": {"bin": "/w=="}, "1": "b"}"#
        );
        assert_eq!(spelled(&ext(9, b"\x01")), r#"{"ext": 9, "bin": "AQ=="}"#);
        assert_eq!(spelled(&ext(7, b"\x91\x01")), "[1]");
        let object = ext(5, b"\x94\xa1m\xa1C\x81\xa4type\xa2ai\xa1v");
        assert_eq!(spelled(&object), r#"{"type": "ai"}"#);
    }

    // T-CAP-92
    #[test]
    fn depth_declared_lengths_and_numbers_of_values_have_bounds() {
        for (bytes, why) in [
            (vec![0x91; 100_000], "nested too deep"),
            (b"\xdd\xff\xff\xff\xff".to_vec(), CUT),
            (b"\xdf\xff\xff\xff\xff".to_vec(), CUT),
            (b"\xdb\xff\xff\xff\xffx".to_vec(), CUT),
            (b"\xc9\xff\xff\xff\xff\x05".to_vec(), CUT),
            (b"\xc1".to_vec(), "a reserved byte"),
            (b"\xa1\xff".to_vec(), "not UTF-8"),
            (b"\x01\x01".to_vec(), "bytes follow the value"),
            (Vec::new(), CUT),
            (ext(5, b"\xa1x"), "an object without parts"),
            (ext(0, b"\x91\x01"), "an object without parts"),
        ] {
            assert_eq!(unpack(&bytes), Err(why), "{bytes:02x?}");
        }
        let many = u32::try_from(MAX_JSON_VALUES).unwrap();
        let head = [&[0xdd], many.to_be_bytes().as_slice()].concat();
        let bytes = [head, vec![0xc0; MAX_JSON_VALUES]].concat();
        assert_eq!(unpack(&bytes), Err("too many values"));
        // Objects inside of objects are as deep as lists.
        let mut nested = b"\xc0".to_vec();
        for _ in 0..MAX_JSON_DEPTH {
            let length = u32::try_from(nested.len() + 3).unwrap();
            let head = [&[0xc9], length.to_be_bytes().as_slice(), &[5, 0x93, 0, 0]].concat();
            nested = [head, nested].concat();
        }
        assert_eq!(unpack(&nested), Err("nested too deep"));
    }
}
