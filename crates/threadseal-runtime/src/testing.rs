//! Helpers that the tests of this crate share. A test imports [`prelude`].
//!
//! ```text
//! Scene::new()             a project in which threads and graphs run; unsigned items count
//! Scene::new().signed()    only signed items count; `demo/say` reads files
//! Scene::failing()         the same on a disk that can fail
//! web()                    an MCP server over HTTP
//! tool(), ok(), counted()  tools by a closure; `Listener` is the model of each scene
//! has(), fails_with()      checks that show the whole value
//! rows()                   tables, one row a line
//! ```

mod checks;
mod doubles;
mod mcp_server;
mod scene;

/// Names that most tests use.
pub(crate) mod prelude {
    pub(crate) use super::checks::{Attack, Ended, Events, Fails, Json, Text, edit, rows};
    pub(crate) use super::doubles::{
        Acting, Count, Heard, Ignore, Listener, NoChildren, Only, ask, assistant, call, counted,
        failing, noting_tool, ok, stub, tool, tool_call, tool_result, user,
    };
    pub(crate) use super::mcp_server::{SERVER, Web, web};
    pub(crate) use super::scene::{
        GLADLY, READS, Scene, again, folder, graph_order, listed, order, ordered, resume_graph,
        row, told,
    };
    pub(crate) use crate::item::{ItemId, ItemPolicy};
    pub(crate) use crate::limit::{Cost, Limits};
    pub(crate) use crate::model::ChatMessage;
    pub(crate) use crate::money::Nanos;
    pub(crate) use crate::registry::Filter;
    pub(crate) use crate::runner::{Engine, Order, Ran, Unresolved, Watch};
    pub(crate) use crate::signed_file::SignedFile;
    pub(crate) use crate::status::Status;
    pub(crate) use crate::toolbox::{Cancel, Invocation, Outcome, Tool};
    pub(crate) use serde_json::{Map, Value, json};
    pub(crate) use std::fs;
    pub(crate) use std::os::unix::fs::symlink;
    pub(crate) use std::path::{Path, PathBuf};
    pub(crate) use std::sync::{Arc, Mutex};
    pub(crate) use std::time::Duration;
    pub(crate) use threadseal_core::error::{Error, ErrorKind};
    pub(crate) use threadseal_core::record::ThreadId;
    pub(crate) use threadseal_core::report::Verdict;
    pub(crate) use threadseal_formats::document::{DocumentKind, ItemType};
    pub(crate) use threadseal_store::clock::{Clock, SystemClock};
    pub(crate) use threadseal_store::fault::{FaultFs, FaultKind, Keep};
    pub(crate) use threadseal_store::heads::MemoryHeadStore;
    pub(crate) use threadseal_store::sys::RealFs;
    pub(crate) use threadseal_testkit::beside_repository;
}
