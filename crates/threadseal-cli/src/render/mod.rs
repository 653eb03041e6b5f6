//! Renderings: every output of the process for people or programs.

pub(crate) mod clean;
pub(crate) mod json;
pub(crate) mod markdown;
pub(crate) mod paper;
pub(crate) mod style;
pub(crate) mod text;
