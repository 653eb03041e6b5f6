//! [`Address`]: where an MCP server is reached.

use crate::toolbox::Supervisor;
use std::path::PathBuf;

/// How to reach a server: the part that all tools of one server share.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Address {
    /// A program.
    Stdio {
        argv: Vec<String>,
        directory: PathBuf,
        environment: Vec<(String, String)>,
        /// What ends all that it starts.
        supervisor: Option<Supervisor>,
    },
    /// Streamable HTTP.
    Http {
        url: String,
        headers: Vec<(String, String)>,
    },
}
