//! Renderings: everything that leaves the process in a form for somebody.

pub(crate) mod clean;
pub(crate) mod json;
pub(crate) mod markdown;
pub(crate) mod style;
pub(crate) mod text;
