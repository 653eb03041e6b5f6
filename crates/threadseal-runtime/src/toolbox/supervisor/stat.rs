//! [`Stat`]: what `/proc` has of a process.

use crate::bounds::MAX_PROC_BYTES;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;

/// A line of `/proc/<pid>/stat`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) parent: i32,
    /// In ticks since the system began: with the number, it names one process.
    pub(super) began: u64,
}

/// When the process of this number began.
pub(super) fn began(pid: i32) -> Option<u64> {
    stat(pid).map(|stat| stat.began)
}

/// All processes, by their numbers.
pub(super) fn all() -> BTreeMap<i32, Stat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(|pid| Some((pid, stat(pid)?))).collect()
}

pub(super) fn stat(pid: i32) -> Option<Stat> {
    let mut text = Vec::new();
    let file = File::open(format!("/proc/{pid}/stat")).ok()?;
    file.take(MAX_PROC_BYTES).read_to_end(&mut text).ok()?;
    // A name may have any bytes.
    let text = String::from_utf8_lossy(&text);
    let (_, fields) = text.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        began: fields.get(19)?.parse().ok()?,
    })
}
