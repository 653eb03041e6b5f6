//! Names that most modules of these tests use.

pub(crate) use crate::fixtures::{
    ended_record, open_record, ready, recorder, recorder_at, reopened, rye_events, say, steal,
    thief,
};
pub(crate) use crate::sandbox::{
    Json, Ran, Sandbox, Shell, Text, copy, files_digest, lines, read, replace, shared, snapshot,
    take_log_away, tree_digest, walk, words,
};
pub(crate) use serde_json::{Value, json};
pub(crate) use std::fs;
pub(crate) use std::path::{Path, PathBuf};
pub(crate) use std::process::Stdio;
