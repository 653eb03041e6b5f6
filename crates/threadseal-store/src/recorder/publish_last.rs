//! Records whose recorder ended after a seal was durable and before it was published.

use super::admit::refusal;
use super::judge::{Judge, record_in};
use super::tail::TailPolicy;
use crate::append::Log;
use crate::examine;
use crate::heads::{Durability, RecordKind};
use crate::host::{Host, Published};
use crate::lock::WriterLock;
use std::path::Path;
use std::sync::Arc;
use threadseal_core::error::Error;
use threadseal_core::record::Head;

/// Publishes the last seal of the native record at `path` as its known head if `judge` finds that
/// it verifies, and returns that head.
///
/// It does what the recorder that made the seal would have done. Nothing is sealed or written into
/// the record, but its bytes are durable afterwards.
///
/// # Errors
/// Kind `InvalidInput` when it is no native record. Kind `Refused` when the record does not verify up to its last seal or the log of this host was
/// rolled back. Kind `External` when another process writes it or the system fails.
pub fn publish_last_seal(host: &Host, path: &Path, judge: &dyn Judge) -> Result<Head, Error> {
    let lock = WriterLock::acquire(Arc::clone(&host.fs), path)?;
    let file = lock.reader()?;
    record_in(&file)?;
    let mut judged = judge.judge(host, &file)?;
    // The bytes after the last seal have no promise, and stay where they are.
    judged.accept(host, TailPolicy::Hold)?;
    let sealer = judged.sealer(&file, judge)?;
    let head = *sealer.head().ok_or_else(|| refusal(&judged.report))?;
    let aliases = examine::naming_leaves(&file)?;
    // The lock is held until the head is known, so that no other process seals more meanwhile.
    let _log = Log::open(lock, judged.durable_floor(&file))?;
    let stated = sealer.stated();
    host.publish(&Published {
        head,
        root: stated.map(|(root, _)| root),
        salts: None,
        key: stated.map(|(_, key)| key),
        kind: RecordKind::Transcript,
        is_final: sealer.is_ended(),
        thread: Some(sealer.thread()),
        path: Some(path),
        aliases: &aliases.into_iter().step_by(2).collect::<Vec<_>>(),
        durability: Durability::Durable,
    })?;
    Ok(head)
}
