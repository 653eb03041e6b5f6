//! Records whose recorder ended after a seal was durable and before it was published.

use super::admit::{accept, refusal};
use super::{Published, RecordKind, TailPolicy};
use crate::append::Log;
use crate::bodies;
use crate::examine;
use crate::heads::Durability;
use crate::host::Host;
use crate::lock::WriterLock;
use std::path::Path;
use std::sync::Arc;
use threadseal_core::error::Error;
use threadseal_core::record::Head;
use threadseal_formats::transcript::{ScanOptions, VerifyOptions};

/// Publishes the last seal of the native record at `path` as its known head, and returns that head.
///
/// It does what the recorder that made the seal would have done. Nothing is sealed or written into
/// the record, but its bytes are durable afterwards.
///
/// # Errors
/// Kind `Refused` when the record does not verify up to its last seal or the log of this host was
/// rolled back. Kind `External` when another process writes it or the system fails.
pub fn publish_last_seal(
    host: &Host,
    path: &Path,
    options: &VerifyOptions<'_>,
) -> Result<Head, Error> {
    let lock = WriterLock::acquire(Arc::clone(&host.fs), path)?;
    let file = lock.reader()?;
    let first = examine::first_line(&file)?.ok_or_else(|| examine::not_native(&file))?;
    let record = examine::native_record(&first).ok_or_else(|| examine::not_native(&file))?;
    let known = examine::known(Some(&*host.heads), Some(&record), None, false)?;
    let scan = ScanOptions {
        expect: known.expect,
        bodies: bodies::beside(&*host.fs, &file, &first)?,
        ..ScanOptions::default()
    };
    let outcome = examine::native(&file, &scan, options, &|_| {})?;
    let report = outcome.report;
    // The bytes after the last seal have no promise, and stay where they are.
    accept(&report, TailPolicy::Hold)?;
    let what = format!("the record is {}", report.verdict);
    host.refuse_doubted(&what, known.stored.as_ref())?;
    let sealed = report.head.map_or(0, |head| head.size);
    let sealer = match outcome.sealer {
        Some(sealer) => Some(sealer),
        None => examine::native_range(&file, sealed, &scan, options, &|_| {})?.sealer,
    };
    let sealer = sealer.ok_or_else(|| refusal(&report))?;
    let head = *sealer.head().ok_or_else(|| refusal(&report))?;
    let aliases = examine::naming_leaves(&file)?;
    let durable_floor = known.stored.map_or(0, |stored| stored.head.size);
    // The lock is held until the head is known, so that no other process seals more meanwhile.
    let _log = Log::open(lock, durable_floor.min(file.size()))?;
    let stated = sealer.stated();
    host.publish(&Published {
        head,
        root: stated.map(|(root, _)| root),
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
