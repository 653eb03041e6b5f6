//! The canonical bytes of values in checkpoints of LangGraph (`spec/langgraph.md`, "Digests").
//!
//! ```text
//! value of Python ─► canonical ──────────┐
//! MessagePack ─────► canonical_msgpack ──┴─► a letter, a length and the content of each value
//! a whole checkpoint ─► checkpoint_digests ─► digests of its frame, and of the value of each channel
//! ```
//! `MessagePack` is what LangGraph's own serializer just wrote. What it never writes is refused.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::{Bound, PyAny, PyAnyMethods, PyErr, PyResult, Python, pyfunction};
use pyo3::types::{
    PyBool, PyBoolMethods, PyBytes, PyBytesMethods, PyDict, PyDictMethods, PyFloat, PyInt, PyList,
    PyListMethods, PyMapping, PyMappingMethods, PyString, PyTuple, PyTupleMethods, PyTypeMethods,
};
use std::collections::BTreeMap;
use threadseal::core::digest::Digest;

/// The most values within each other. LangGraph's serializer stops at a tenth of it.
const MAX_DEPTH: usize = 1024;
/// The classes whose items have no order, as an extension names them.
const SETS: [&str; 2] = ["set", "frozenset"];

/// The bytes of a value that JSON can hold, or of bytes.
#[pyfunction]
pub(crate) fn canonical(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let mut out = Vec::with_capacity(256);
    write(value, &mut out, 0)?;
    Ok(out)
}

/// The bytes of a value that is spelled in `MessagePack`.
#[pyfunction]
pub(crate) fn canonical_msgpack(data: &[u8]) -> PyResult<Vec<u8>> {
    let mut out = Vec::with_capacity(data.len() + 64);
    whole(data, &mut out, 0)?;
    Ok(out)
}

/// The digest of the frame of a checkpoint that is spelled in `MessagePack`, and those of its channels' values;
/// None where its frame is no value that JSON can hold.
#[pyfunction]
pub(crate) fn checkpoint_digests(
    py: Python<'_>,
    data: &[u8],
) -> PyResult<Option<(String, BTreeMap<String, String>)>> {
    py.detach(|| digests(data))
}

fn digests(data: &[u8]) -> PyResult<Option<(String, BTreeMap<String, String>)>> {
    let mut rest = data;
    let (mut members, mut values) = (Vec::new(), BTreeMap::new());
    let Begun::Map(count) = begun(&mut rest)? else {
        return Ok(None);
    };
    for _ in 0..count {
        let start = rest;
        let Begun::Text(name) = begun(&mut rest)? else {
            return Ok(None);
        };
        if name == b"channel_values" {
            let Begun::Map(count) = begun(&mut rest)? else {
                return Ok(None);
            };
            for _ in 0..count {
                let Begun::Text(channel) = begun(&mut rest)? else {
                    return Ok(None);
                };
                values.insert(
                    String::from_utf8_lossy(channel).into_owned(),
                    digest_of_value(&mut rest)?,
                );
            }
            continue;
        }
        let mut member = Vec::with_capacity(256);
        rest = start;
        value(&mut rest, &mut member, 1)?;
        let mut seen = rest;
        if has_extension(&mut seen)? {
            return Ok(None);
        }
        value(&mut rest, &mut member, 1)?;
        members.push(member);
    }
    let mut frame = b"threadseal-langgraph/1 json".to_vec();
    sorted(b'm', members, &mut frame);
    match rest {
        [] => Ok(Some((Digest::of(&frame).to_hex(), values))),
        _ => Err(unreadable()),
    }
}

/// The digest of a value, as its serializer would store it alone.
fn digest_of_value(rest: &mut &[u8]) -> PyResult<String> {
    let mut after = *rest;
    let (kind, content) = match begun(&mut after)? {
        Begun::Nil => ("null", Vec::new()),
        Begun::Bytes(bytes) => ("bytes", bytes.to_vec()),
        _ => {
            after = *rest;
            let mut content = Vec::with_capacity(256);
            value(&mut after, &mut content, 0)?;
            ("msgpack", content)
        }
    };
    *rest = after;
    let mut bytes = b"threadseal-langgraph/1".to_vec();
    bytes.extend_from_slice(&(kind.len() as u64).to_be_bytes());
    bytes.extend_from_slice(kind.as_bytes());
    bytes.extend_from_slice(&content);
    Ok(Digest::of(&bytes).to_hex())
}

/// Is there an extension in the next value, which is passed over?
fn has_extension(rest: &mut &[u8]) -> PyResult<bool> {
    let mut left = 1_usize;
    let mut found = false;
    while left > 0 {
        left -= 1;
        match begun(rest)? {
            Begun::List(count) => left = left.saturating_add(count),
            Begun::Map(count) => left = left.saturating_add(count.saturating_mul(2)),
            Begun::Extension(..) => found = true,
            _ => {}
        }
    }
    Ok(found)
}

fn write(value: &Bound<'_, PyAny>, out: &mut Vec<u8>, depth: usize) -> PyResult<()> {
    within(depth)?;
    if value.is_none() {
        out.push(b'n');
    } else if let Ok(text) = value.cast::<PyString>() {
        let bytes = text.call_method1("encode", ("utf-8", "surrogatepass"))?;
        sized(b's', bytes.cast::<PyBytes>()?.as_bytes(), out);
    } else if let Ok(flag) = value.cast::<PyBool>() {
        out.push(if flag.is_true() { b't' } else { b'f' });
    } else if let Ok(number) = value.cast::<PyInt>() {
        match number.extract::<i64>() {
            Ok(small) => sized(b'i', small.to_string().as_bytes(), out),
            Err(_) => sized(b'i', number.str()?.extract::<String>()?.as_bytes(), out),
        }
    } else if let Ok(number) = value.cast::<PyFloat>() {
        float(number.extract()?, out);
    } else if let Ok(bytes) = value.cast::<PyBytes>() {
        sized(b'b', bytes.as_bytes(), out);
    } else if let Ok(dict) = value.cast::<PyDict>() {
        write_pairs(dict.iter().map(Ok), dict.len(), out, depth)?;
    } else if let Ok(list) = value.cast::<PyList>() {
        write_items(list.iter(), list.len(), out, depth)?;
    } else if let Ok(tuple) = value.cast::<PyTuple>() {
        write_items(tuple.iter(), tuple.len(), out, depth)?;
    } else if let Ok(mapping) = value.cast::<PyMapping>() {
        let items = mapping.items()?;
        write_pairs(
            items.iter().map(|pair| pair.extract()),
            items.len(),
            out,
            depth,
        )?;
    } else {
        let class = value.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "{class} has no canonical bytes"
        )));
    }
    Ok(())
}

type Pair<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

fn write_pairs<'py>(
    pairs: impl Iterator<Item = PyResult<Pair<'py>>>,
    count: usize,
    out: &mut Vec<u8>,
    depth: usize,
) -> PyResult<()> {
    let mut spelled = Vec::with_capacity(count);
    for pair in pairs {
        let (name, value) = pair?;
        let mut bytes = Vec::with_capacity(64);
        write(&name, &mut bytes, depth + 1)?;
        write(&value, &mut bytes, depth + 1)?;
        spelled.push(bytes);
    }
    sorted(b'm', spelled, out);
    Ok(())
}

fn write_items<'py>(
    items: impl Iterator<Item = Bound<'py, PyAny>>,
    count: usize,
    out: &mut Vec<u8>,
    depth: usize,
) -> PyResult<()> {
    head(b'l', count, out);
    for item in items {
        write(&item, out, depth + 1)?;
    }
    Ok(())
}

/// One value of `MessagePack`, as it begins.
enum Begun<'a> {
    Nil,
    Flag(bool),
    Int(i128),
    Float(f64),
    Text(&'a [u8]),
    Bytes(&'a [u8]),
    List(usize),
    Map(usize),
    Extension(u8, &'a [u8]),
}

/// The bytes of the only value in `data`.
fn whole(data: &[u8], out: &mut Vec<u8>, depth: usize) -> PyResult<()> {
    let mut rest = data;
    value(&mut rest, out, depth)?;
    match rest {
        [] => Ok(()),
        _ => Err(unreadable()),
    }
}

fn value(rest: &mut &[u8], out: &mut Vec<u8>, depth: usize) -> PyResult<()> {
    within(depth)?;
    match begun(rest)? {
        Begun::Nil => out.push(b'n'),
        Begun::Flag(flag) => out.push(if flag { b't' } else { b'f' }),
        Begun::Int(number) => sized(b'i', number.to_string().as_bytes(), out),
        Begun::Float(number) => float(number, out),
        Begun::Text(text) => sized(b's', text, out),
        Begun::Bytes(bytes) => sized(b'b', bytes, out),
        Begun::List(count) => {
            head(b'l', count, out);
            for _ in 0..count {
                value(rest, out, depth + 1)?;
            }
        }
        Begun::Map(count) => {
            let mut pairs = Vec::new();
            for _ in 0..count {
                let mut pair = Vec::with_capacity(64);
                value(rest, &mut pair, depth + 1)?;
                value(rest, &mut pair, depth + 1)?;
                pairs.push(pair);
            }
            sorted(b'm', pairs, out);
        }
        Begun::Extension(code, content) => {
            out.extend_from_slice(&[b'x', code]);
            extension(content, out, depth + 1)?;
        }
    }
    Ok(())
}

/// The content of an extension; the items of a set in the order of their bytes.
fn extension(content: &[u8], out: &mut Vec<u8>, depth: usize) -> PyResult<()> {
    let mut rest = content;
    let Some(class) = set_of(&mut rest)? else {
        return whole(content, out, depth);
    };
    head(b'l', 2, out);
    sized(b's', b"builtins", out);
    sized(b's', class, out);
    let Begun::List(count) = begun(&mut rest)? else {
        return Err(unreadable());
    };
    let mut items = Vec::new();
    for _ in 0..count {
        let mut item = Vec::new();
        value(&mut rest, &mut item, depth + 1)?;
        items.push(item);
    }
    sorted(b'u', items, out);
    match rest {
        [] => Ok(()),
        _ => Err(unreadable()),
    }
}

/// The class of a set where the content of an extension is one: a list of a module, a class and a list.
fn set_of<'a>(rest: &mut &'a [u8]) -> PyResult<Option<&'a [u8]>> {
    let Begun::List(3) = begun(rest)? else {
        return Ok(None);
    };
    let (module, class) = (begun(rest)?, begun(rest)?);
    let (Begun::Text(b"builtins"), Begun::Text(class)) = (module, class) else {
        return Ok(None);
    };
    let listed = rest
        .first()
        .is_some_and(|byte| matches!(byte, 0x90..=0x9f | 0xdc | 0xdd));
    let is_set = listed && SETS.iter().any(|name| name.as_bytes() == class);
    Ok(is_set.then_some(class))
}

fn begun<'a>(rest: &mut &'a [u8]) -> PyResult<Begun<'a>> {
    let byte = take(rest, 1)?[0];
    Ok(match byte {
        0x00..=0x7f => Begun::Int(byte.into()),
        0x80..=0x8f => Begun::Map((byte & 0x0f).into()),
        0x90..=0x9f => Begun::List((byte & 0x0f).into()),
        0xa0..=0xbf => text(rest, (byte & 0x1f).into())?,
        0xc0 => Begun::Nil,
        0xc2 | 0xc3 => Begun::Flag(byte == 0xc3),
        0xc4..=0xc6 => {
            let length = length(rest, 1 << (byte - 0xc4))?;
            Begun::Bytes(take(rest, length)?)
        }
        0xc7..=0xc9 => {
            let length = length(rest, 1 << (byte - 0xc7))?;
            extension_of(rest, length)?
        }
        0xca => Begun::Float(f32::from_be_bytes(array(rest)?).into()),
        0xcb => Begun::Float(f64::from_be_bytes(array(rest)?)),
        0xcc..=0xcf => Begun::Int(unsigned(rest, 1 << (byte - 0xcc))?),
        0xd0 => Begun::Int(i8::from_be_bytes(array(rest)?).into()),
        0xd1 => Begun::Int(i16::from_be_bytes(array(rest)?).into()),
        0xd2 => Begun::Int(i32::from_be_bytes(array(rest)?).into()),
        0xd3 => Begun::Int(i64::from_be_bytes(array(rest)?).into()),
        0xd4..=0xd8 => extension_of(rest, 1 << (byte - 0xd4))?,
        0xd9..=0xdb => {
            let length = length(rest, 1 << (byte - 0xd9))?;
            text(rest, length)?
        }
        0xdc | 0xdd => Begun::List(length(rest, if byte == 0xdc { 2 } else { 4 })?),
        0xde | 0xdf => Begun::Map(length(rest, if byte == 0xde { 2 } else { 4 })?),
        0xe0..=0xff => Begun::Int(i128::from(byte) - 0x100),
        0xc1 => return Err(unreadable()),
    })
}

fn extension_of<'a>(rest: &mut &'a [u8], length: usize) -> PyResult<Begun<'a>> {
    let code = take(rest, 1)?[0];
    Ok(Begun::Extension(code, take(rest, length)?))
}

fn text<'a>(rest: &mut &'a [u8], length: usize) -> PyResult<Begun<'a>> {
    let bytes = take(rest, length)?;
    match std::str::from_utf8(bytes) {
        Ok(_) => Ok(Begun::Text(bytes)),
        Err(_) => Err(unreadable()),
    }
}

fn unsigned(rest: &mut &[u8], bytes: usize) -> PyResult<i128> {
    let digits = take(rest, bytes)?.iter();
    Ok(digits.fold(0, |number, byte| number << 8 | i128::from(*byte)))
}

fn length(rest: &mut &[u8], bytes: usize) -> PyResult<usize> {
    usize::try_from(unsigned(rest, bytes)?).map_err(|_| unreadable())
}

fn array<const N: usize>(rest: &mut &[u8]) -> PyResult<[u8; N]> {
    take(rest, N)?.try_into().map_err(|_| unreadable())
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> PyResult<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(count).ok_or_else(unreadable)?;
    *rest = after;
    Ok(taken)
}

fn within(depth: usize) -> PyResult<()> {
    match depth > MAX_DEPTH {
        true => Err(PyValueError::new_err(
            "the value has too many values within each other",
        )),
        false => Ok(()),
    }
}

fn unreadable() -> PyErr {
    PyValueError::new_err("the bytes are no MessagePack of LangGraph")
}

fn float(number: f64, out: &mut Vec<u8>) {
    out.push(b'd');
    out.extend_from_slice(&number.to_be_bytes());
}

fn head(letter: u8, count: usize, out: &mut Vec<u8>) {
    out.push(letter);
    out.extend_from_slice(&(count as u64).to_be_bytes());
}

fn sized(letter: u8, content: &[u8], out: &mut Vec<u8>) {
    head(letter, content.len(), out);
    out.extend_from_slice(content);
}

fn sorted(letter: u8, mut parts: Vec<Vec<u8>>, out: &mut Vec<u8>) {
    parts.sort_unstable();
    head(letter, parts.len(), out);
    parts.iter().for_each(|part| out.extend_from_slice(part));
}
