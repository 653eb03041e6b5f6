//! The spelling of a value of a row (`spec/database-sources.md` §2).

use rusqlite::types::ValueRef;
use threadseal_core::encoding;

/// Spells a value.
pub(super) fn spell(value: ValueRef<'_>, out: &mut Vec<u8>) {
    match value {
        ValueRef::Null => out.extend_from_slice(b"null"),
        ValueRef::Integer(number) => out.extend_from_slice(number.to_string().as_bytes()),
        ValueRef::Real(number) => {
            let bits = format!("{{\"real\":\"{:016x}\"}}", number.to_bits());
            out.extend_from_slice(bits.as_bytes());
        }
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => string(text, out),
            Err(_) => wrapped("text", bytes, out),
        },
        ValueRef::Blob(bytes) => wrapped("blob", bytes, out),
    }
}

/// Spells a string.
pub(super) fn string(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x09 => out.extend_from_slice(b"\\t"),
            0x0a => out.extend_from_slice(b"\\n"),
            0x0c => out.extend_from_slice(b"\\f"),
            0x0d => out.extend_from_slice(b"\\r"),
            0x00..0x20 => {
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(byte >> 4)]);
                out.push(HEX[usize::from(byte & 0xf)]);
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

fn wrapped(name: &str, bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("{{\"{name}\":\"").as_bytes());
    out.extend_from_slice(encoding::base64(bytes).as_bytes());
    out.extend_from_slice(b"\"}");
}
