//! Values of Python as JSON text, without a detour over strings of Python.

use crate::errors::{of_class, raised};
use crate::recorder::Event;
use pyo3::prelude::{Bound, PyAny, PyAnyMethods, PyResult, Python, pyfunction};
use pyo3::types::{
    PyBool, PyBoolMethods, PyDict, PyDictMethods, PyFloat, PyInt, PyList, PyListMethods, PyString,
    PyStringMethods, PyTuple, PyTupleMethods, PyTypeMethods,
};
use std::io::Write as _;
use threadseal::{EventType, Payload};

/// The most values within each other: fewer than the strict reader of the library allows.
const MAX_DEPTH: usize = 100;

/// An event, checked and spelled now: what a caller changes later does not change it.
#[pyfunction]
pub(crate) fn event(event_type: &str, payload: &Bound<'_, PyAny>) -> PyResult<Event> {
    let py = payload.py();
    let event_type = EventType::parse(event_type).map_err(|error| raised(py, &error))?;
    let text = object(payload)?;
    let payload = Payload::parse(&text).map_err(|error| raised(py, &error))?;
    Ok(Event {
        event_type,
        payload,
    })
}

/// The text of a dict, as JSON.
pub(crate) fn object(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let mut out = Vec::with_capacity(256);
    let dict = value.cast::<PyDict>();
    let dict = dict.map_err(|_| refused(value.py(), "a payload is a dict"))?;
    write_dict(dict, &mut out, 0)?;
    Ok(out)
}

fn refused(py: Python<'_>, text: &str) -> pyo3::PyErr {
    of_class(py, "InvalidInput", text.to_owned())
}

fn write(value: &Bound<'_, PyAny>, out: &mut Vec<u8>, depth: usize) -> PyResult<()> {
    if depth > MAX_DEPTH {
        return Err(refused(
            value.py(),
            "a payload has at most 100 values within each other",
        ));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return write_text(text, out);
    }
    if let Ok(flag) = value.cast::<PyBool>() {
        out.extend_from_slice(if flag.is_true() { b"true" } else { b"false" });
        return Ok(());
    }
    if let Ok(number) = value.cast::<PyInt>() {
        return write_int(number, out);
    }
    if let Ok(dict) = value.cast::<PyDict>() {
        return write_dict(dict, out, depth);
    }
    if let Ok(list) = value.cast::<PyList>() {
        return write_items(list.iter(), out, depth);
    }
    if let Ok(tuple) = value.cast::<PyTuple>() {
        return write_items(tuple.iter(), out, depth);
    }
    if value.is_none() {
        out.extend_from_slice(b"null");
        return Ok(());
    }
    if let Ok(number) = value.cast::<PyFloat>() {
        return write_float(number, out);
    }
    let class = value.get_type().name()?;
    let text = format!("a payload has JSON values only, and {class} is none");
    Err(refused(value.py(), &text))
}

fn write_int(number: &Bound<'_, PyInt>, out: &mut Vec<u8>) -> PyResult<()> {
    let py = number.py();
    if let Ok(small) = number.extract::<i64>() {
        // A vector takes everything.
        drop(write!(out, "{small}"));
        return Ok(());
    }
    // A subclass may print itself in another way. Python has a bound of its own for digits.
    let digits = py.get_type::<PyInt>().call_method1("__repr__", (number,));
    let digits = digits.map_err(|error| refused(py, &format!("a number is too long: {error}")))?;
    out.extend_from_slice(digits.extract::<&str>()?.as_bytes());
    Ok(())
}

fn write_float(number: &Bound<'_, PyFloat>, out: &mut Vec<u8>) -> PyResult<()> {
    let number: f64 = number.extract()?;
    match serde_json::Number::from_f64(number) {
        Some(finite) => drop(write!(out, "{finite}")),
        None => return Err(of_float(number)),
    }
    Ok(())
}

fn of_float(number: f64) -> pyo3::PyErr {
    Python::attach(|py| refused(py, &format!("JSON has no number {number}")))
}

fn write_text(text: &Bound<'_, PyString>, out: &mut Vec<u8>) -> PyResult<()> {
    let utf8 = text.to_cow();
    let utf8 = utf8.map_err(|_| {
        refused(
            text.py(),
            "a text with half of a surrogate pair is no Unicode",
        )
    })?;
    // A vector takes everything, and text serialises.
    drop(serde_json::to_writer(out, &*utf8));
    Ok(())
}

fn write_dict(dict: &Bound<'_, PyDict>, out: &mut Vec<u8>, depth: usize) -> PyResult<()> {
    out.push(b'{');
    for (at, (key, value)) in dict.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        let key = key.cast::<PyString>();
        let key = key.map_err(|_| refused(dict.py(), "the keys of a payload are str"))?;
        write_text(key, out)?;
        out.push(b':');
        write(&value, out, depth + 1)?;
    }
    out.push(b'}');
    Ok(())
}

fn write_items<'py>(
    items: impl Iterator<Item = Bound<'py, PyAny>>,
    out: &mut Vec<u8>,
    depth: usize,
) -> PyResult<()> {
    out.push(b'[');
    for (at, item) in items.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(&item, out, depth + 1)?;
    }
    out.push(b']');
    Ok(())
}
