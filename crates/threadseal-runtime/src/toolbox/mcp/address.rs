//! [`Address`]: where an MCP server is reached.

use super::fault::short;
use crate::toolbox::Supervisor;
use crate::toolbox::command::SCRIPT_VARIABLE;
use std::path::PathBuf;

/// How to reach a server: the part that all tools of one server share. Equal addresses are one
/// server; other variables, headers or folders make another one.
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

impl Address {
    /// The server as errors and events name it: its command with the path of its script, or its
    /// address without a query.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Stdio {
                argv, environment, ..
            } => {
                let script = environment
                    .iter()
                    .rfind(|(name, _)| name == SCRIPT_VARIABLE);
                let word = |word: &String| match script {
                    Some((_, path)) if word.starts_with("/dev/fd/") => path.clone(),
                    _ => word.clone(),
                };
                short(&argv.iter().map(word).collect::<Vec<_>>().join(" "))
            }
            Self::Http { url, .. } => short(plain(url)),
        }
    }
}

/// A URL without its query, which may hold a secret.
pub(super) fn plain(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or(url)
}
