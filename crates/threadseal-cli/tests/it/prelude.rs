//! Names that most modules of these tests use.

pub(crate) use crate::sandbox::{
    Json, Ran, Sandbox, Shell, Text, copy, cut_line, cut_to_seal, empty, exit_of, files_digest,
    json_file, json_lines, lines, name_of, put_back, read, replace, set_aside, shared, snapshot,
    take_log_away, tree_digest, walk, while_it_holds, words,
};
pub(crate) use crate::scene::{
    OUTPUTS, TOOLS, detached, directive, ended_record, greet, greeted, once_more, open_record,
    project, ready, recorder, recorder_at, reopened, running, rye_events, say, seal_all, steal,
    thief, thread, thread_id, transcript,
};
pub(crate) use crate::schemas;
pub(crate) use crate::scroll::piped;
pub(crate) use crate::witness::{Serving, witness};
pub(crate) use serde_json::{Value, json};
pub(crate) use std::collections::{BTreeMap, BTreeSet};
pub(crate) use std::ffi::OsStr;
pub(crate) use std::fs;
pub(crate) use std::io::{BufRead as _, BufReader, Read as _, Write as _};
pub(crate) use std::os::unix::fs::symlink;
pub(crate) use std::path::{Path, PathBuf};
pub(crate) use std::process::Stdio;
pub(crate) use std::process::{Child, Command};
pub(crate) use std::sync::Arc;
pub(crate) use std::time::Duration;
pub(crate) use threadseal_core::digest::Digest;
pub(crate) use threadseal_core::tlog::conflict::Conflict;
pub(crate) use threadseal_formats::transcript::event::{EventType, Payload};
pub(crate) use threadseal_formats::transcript::ext::Ext;
pub(crate) use threadseal_formats::transcript::{Ending, Link};
