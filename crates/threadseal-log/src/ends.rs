//! [`Ends`]: where keys ended in the logs before this one.
//!
//! ```text
//! <log id>/ends      <64 hex: a public key> <number of an entry> LF
//! ```
//! A trust store names the entry at which a key ended. A restart gives that entry another number, and the trust store follows: later,
//! and a crash may come between. The file is durable before the log goes on, so what names an entry of a log before this one is
//! understood also then.

use super::SealLog;
use super::place::Place;
use std::collections::BTreeSet;
use threadseal_core::encoding;
use threadseal_core::error::Error;
use threadseal_core::key::PublicKey;

const FILE: &str = "ends";
/// Largest such file in bytes.
const MAX_ENDS_BYTES: usize = 4 << 20;

/// Keys, and the entries of earlier logs at which they ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ends(BTreeSet<(PublicKey, u64)>);

impl Ends {
    /// What stands beside a log; nothing where there is no such file, or it is none.
    pub(super) fn read(place: &Place) -> Self {
        let read = place.read(&place.file(FILE), MAX_ENDS_BYTES);
        let bytes = read.ok().flatten().unwrap_or_default();
        let text = String::from_utf8(bytes).unwrap_or_default();
        Self(text.lines().map_while(line).collect())
    }

    /// Durable when it returns.
    pub(super) fn write(&self, place: &Place) -> Result<(), Error> {
        let lines = self.0.iter();
        let lines =
            lines.map(|(key, number)| format!("{} {number}\n", encoding::hex(key.as_bytes())));
        place.replace(&place.file(FILE), lines.collect::<String>().as_bytes())
    }

    /// Adds where keys ended in one log.
    pub(super) fn add(&mut self, ended: impl IntoIterator<Item = (PublicKey, u64)>) {
        self.0.extend(ended);
    }
}

fn line(line: &str) -> Option<(PublicKey, u64)> {
    let (key, number) = line.split_once(' ')?;
    let key = encoding::parse_hex_array(key)?;
    Some((PublicKey::from_bytes(&key).ok()?, number.parse().ok()?))
}

impl SealLog {
    /// Was this the number of the entry at which a key ended in a log before this one?
    pub fn ended_before(&self, key: &PublicKey, number: u64) -> bool {
        Ends::read(&self.shared.place).0.contains(&(*key, number))
    }
}
