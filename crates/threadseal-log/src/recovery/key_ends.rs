//! [`KeyEnds`]: where keys ended in the logs before this one.
//!
//! ```text
//! <log id>/ends      <64 hex: a public key> <number of an entry> LF
//! ```
//! A trust store names the entry at which a key ended. A restart gives that entry another number, and the trust store is
//! changed later: a crash may come between. This file is durable before the new log continues, so a number of an earlier
//! log is understood then, too.

use crate::layout::log_dir::LogDir;
use std::collections::BTreeSet;
use threadseal_core::encoding;
use threadseal_core::error::Error;
use threadseal_core::key::PublicKey;

const FILE: &str = "ends";
/// Largest such file in bytes.
const MAX_ENDS_BYTES: usize = 4 << 20;

/// Keys, and the entries of earlier logs at which they ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KeyEnds(BTreeSet<(PublicKey, u64)>);

impl KeyEnds {
    /// The file beside a log; nothing if it is missing or is no such file.
    pub(crate) fn read(dir: &LogDir) -> Self {
        let read = dir.read(&dir.file(FILE), MAX_ENDS_BYTES);
        let bytes = read.ok().flatten().unwrap_or_default();
        let text = String::from_utf8(bytes).unwrap_or_default();
        Self(text.lines().map_while(line).collect())
    }

    /// Durable when it returns.
    pub(crate) fn write(&self, dir: &LogDir) -> Result<(), Error> {
        let lines = self.0.iter();
        let lines =
            lines.map(|(key, number)| format!("{} {number}\n", encoding::hex(key.as_bytes())));
        dir.replace(&dir.file(FILE), lines.collect::<String>().as_bytes())
    }

    /// Adds where keys ended in one log.
    pub(crate) fn add(&mut self, ended: impl IntoIterator<Item = (PublicKey, u64)>) {
        self.0.extend(ended);
    }

    /// Was this the number of the entry at which a key ended in an earlier log?
    pub(crate) fn holds(&self, key: &PublicKey, number: u64) -> bool {
        self.0.contains(&(*key, number))
    }
}

fn line(line: &str) -> Option<(PublicKey, u64)> {
    let (key, number) = line.split_once(' ')?;
    let key = encoding::parse_hex_array(key)?;
    Some((PublicKey::from_bytes(&key).ok()?, number.parse().ok()?))
}
