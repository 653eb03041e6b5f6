//! Errors of the library as exceptions of the package, which defines their classes.

use pyo3::prelude::{PyAnyMethods, PyErr, Python};
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyModule, PyType};
use pyo3::{Py, PyResult};
use threadseal::core::report::NotVerified;
use threadseal::reader::output;
use threadseal::{Error, ErrorKind, Report};

/// The module with the classes.
const MODULE: &str = "threadseal._errors";

/// The exception for `error`.
pub(crate) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    let class = match error.kind() {
        ErrorKind::InvalidInput => "InvalidInput",
        ErrorKind::Key => "KeyRefused",
        ErrorKind::Refused => "Refused",
        ErrorKind::Superseded => "Superseded",
        ErrorKind::Limit => "LimitExceeded",
        _ => "StorageFailed",
    };
    of_class(py, class, error.to_string())
}

/// `NotVerified` for the record that `report` is about.
pub(crate) fn not_verified(py: Python<'_>, report: &Report) -> PyErr {
    let path = match report.path.as_str() {
        "" => "the record",
        path => path,
    };
    let hint = match report.path.as_str() {
        "" => String::new(),
        path => format!("; hint: threadseal verify {path}"),
    };
    let text = format!("{path} is {}{hint}", NotVerified::of(report));
    let json = String::from_utf8(output::to_vec(report)).unwrap_or_default();
    match class_of(py, "NotVerified") {
        Ok(class) => PyErr::from_type(class.bind(py).clone(), (text, json)),
        Err(error) => error,
    }
}

/// The exception of this class with this text.
pub(crate) fn of_class(py: Python<'_>, class: &str, text: String) -> PyErr {
    match class_of(py, class) {
        Ok(class) => PyErr::from_type(class.bind(py).clone(), (text,)),
        Err(error) => error,
    }
}

fn class_of(py: Python<'_>, name: &str) -> PyResult<Py<PyType>> {
    static CLASSES: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = CLASSES.get_or_try_init(py, || PyModule::import(py, MODULE).map(Py::from))?;
    Ok(module
        .bind(py)
        .getattr(name)?
        .cast_into::<PyType>()?
        .unbind())
}
