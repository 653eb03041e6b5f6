//! [`HomeIdentity`]: which home on which machine, as a second place keeps it.
//!
//! ```text
//! <second place>/<log id>.home    threadseal/1 home of a log LF <64 hex of the machine, or -> LF <path of the home> LF
//! ```

use crate::layout::log_home::LogHome;
use std::path::PathBuf;
use threadseal_core::digest::Digest;
use threadseal_store::sys::{path_text, text_path};

const FIRST_LINE: &str = "threadseal/1 home of a log";

/// A home, and the machine that it is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HomeIdentity {
    pub(crate) host: Option<Digest>,
    path_text: String,
}

impl HomeIdentity {
    pub(crate) fn of(home: &LogHome) -> Self {
        Self {
            host: home.host,
            path_text: path_text(&home.path),
        }
    }

    /// A name for it in files that homes on several machines may share.
    pub(crate) fn name(&self) -> String {
        let host = self.host.map(|host| host.to_hex()).unwrap_or_default();
        let parts = [host.as_bytes(), self.path_text.as_bytes()];
        Digest::tagged("log home", &parts).to_hex()[..16].to_owned()
    }

    /// Where it is. Versions that did not escape names of paths wrote them as they are.
    pub(crate) fn path(&self) -> PathBuf {
        text_path(&self.path_text).unwrap_or_else(|| PathBuf::from(&self.path_text))
    }

    pub(crate) fn to_text(&self) -> String {
        let host = self.host.map_or("-".to_owned(), |host| host.to_hex());
        format!("{FIRST_LINE}\n{host}\n{}\n", self.path_text)
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(FIRST_LINE)?.strip_prefix('\n')?;
        let (host, path) = rest.split_once('\n')?;
        let host = match host {
            "-" => None,
            hex => Some(Digest::parse_hex(hex)?),
        };
        let path_text = path.strip_suffix('\n')?.to_owned();
        Some(Self { host, path_text })
    }
}
