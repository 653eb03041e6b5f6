//! Checkpoints in transcripts.

use super::{Action, Sealed, Sealing, SetAside};
use crate::events::Events;
use crate::exit::Failure;
use crate::progress::Bar;
use crate::record;
use crate::verifying::{verifier, verifier_by};
use std::path::Path;
use std::sync::Arc;
use threadseal_core::canon::json;
use threadseal_core::error::Error;
use threadseal_core::key::{KeyId, KeyUsage, Signer as _};
use threadseal_core::record::{RecordId, ThreadId};
use threadseal_core::report::{Report, Verdict};
use threadseal_core::trust::ScopeFormat;
use threadseal_formats::transcript::Ending;
use threadseal_formats::transcript::event::Payload;
use threadseal_formats::transcript::ext::Ext;
use threadseal_formats::transcript::manifest;
use threadseal_formats::transcript::rye::RyeSealer;
use threadseal_store::address::Intent;
use threadseal_store::append::Log;
use threadseal_store::examine;
use threadseal_store::heads::{Durability, RecordKind};
use threadseal_store::host::Published;
use threadseal_store::lock::WriterLock;
use threadseal_store::read::{RegularFile, Source as _, open_regular};
use threadseal_store::recorder::{Keys, Recorder, TailPolicy};
use threadseal_store::sys::Access;
use threadseal_store::sys::path_text;
use threadseal_verify::VerifyRequest;
use threadseal_verify::verifier::Verifier;

/// Seals a native record. Only its recorder could confirm the lines after the last seal, and that
/// process is gone. So the tail is moved out or, on request, adopted; the record states which.
pub(super) fn seal_native(sealing: &Sealing<'_>, path: &Path) -> Result<Sealed, Failure> {
    let args = sealing.args;
    let first = examine::first_line(&record::open(&*sealing.host.fs, path)?)?;
    let manifest = first.as_deref().and_then(manifest::parse_line);
    // Without a line 1, opening the record reports the error.
    let named = manifest.map(|manifest| manifest.rye_key);
    let rye = sealing.keyring.rye_half(named.as_ref(), &args.passphrase)?;
    let epochs = sealing.home.epochs();
    let keys = Keys {
        native: sealing.signer(KeyUsage::Native)?,
        rye: Arc::new(rye),
        epochs: Some(match args.take_over {
            true => epochs.taking_over(),
            false => epochs,
        }),
    };
    let verifier = verifier_by(sealing.trust.clone(), sealing.context)?;
    let tail = if args.adopt_tail {
        TailPolicy::Adopt
    } else {
        TailPolicy::SetAside
    };
    let host = sealing.host.clone();
    let opened = match record::address_of(path) {
        None => Recorder::open(host, path, keys, &verifier, tail),
        Some(address) => {
            let (store, name) = record::one(address, Intent::Write)?;
            Recorder::open_in(host, &*store, &name, keys, &verifier, tail)
        }
    };
    let opened = opened.map_err(|error| Failure::from(error).about(path))?;
    let mut recorder = opened.recorder;
    let sealed_before = opened.report.head.map_or(0, |head| head.size);
    let tail = [sealed_before, opened.report.stats.bytes];
    let has_tail = tail[1] > tail[0];
    let turn = args.turn.unwrap_or(recorder.state().turn());
    let head = if args.is_final && !recorder.state().is_ended() {
        recorder.end(Ending::Completed, &Payload::parse(b"{}")?, turn)
    } else if has_tail && recorder.state().is_ended() {
        // Opening the ended record has already put the note on its tail under a final seal.
        recorder.state().head().copied().ok_or_else(no_seal)
    } else if has_tail || (args.take_over && !recorder.state().is_ended()) {
        recorder.seal(turn, Ext::default())
    } else {
        return Ok(
            Sealed::new(path, "native", Action::Unchanged).with_head(recorder.state().head())
        );
    };
    let head = head.map_err(|error| Failure::from(error).about(path))?;
    let mut sealed = Sealed::new(path, "native", Action::Sealed).with_head(Some(&head));
    sealed.adopted = (has_tail && args.adopt_tail).then_some(tail);
    sealed.set_aside = opened.moved.map(|moved| SetAside {
        bytes: tail,
        path: path_text(&moved.path),
    });
    Ok(sealed)
}

fn no_seal() -> Error {
    Error::refused("the record has no seal")
}

/// Appends a Rye checkpoint, under the lock, to the bytes that were verified.
pub(super) fn seal_rye(sealing: &Sealing<'_>, path: &Path) -> Result<Sealed, Failure> {
    let signer = sealing.signer(KeyUsage::Rye)?;
    let wait = sealing.args.wait();
    let lock = WriterLock::acquire_within(Arc::clone(&sealing.host.fs), path, wait)?;
    let file = lock.reader()?;
    let verifier = rye_verifier(sealing)?;
    let report = verifier.transcript_file(&file)?.report;
    let floor = durable_floor(sealing, &file, report.record.as_ref())?;
    match report.verdict {
        Verdict::Verified | Verdict::Open if report.stats.checkpoints > 0 => {
            return Ok(Sealed::new(path, "rye", Action::Unchanged));
        }
        Verdict::Unsigned | Verdict::UnsignedTail | Verdict::Open => {}
        // Under the strict reading, Rye's own coverage is at most `partial`.
        Verdict::Partial if !ends_sealed(&report) => {}
        Verdict::Partial => return Ok(Sealed::new(path, "rye", Action::Unchanged)),
        _ => {
            let hint = "; hint: threadseal verify";
            return Err(Failure::refused("the transcript", &report, hint).about(path));
        }
    }
    refuse_displacing(sealing, path, &report)?;
    if report.stats.checkpoints > 0 {
        let what = format!("the transcript is {}", report.verdict);
        let doubted = sealing.host.refuse_doubted(&what, None);
        doubted.map_err(|error| Failure::from(error).about(path))?;
    }
    if let Some(record) = &report.record {
        let of = (record, RecordKind::Transcript);
        let naming = examine::naming_leaves(&file)?;
        let number = (report.stats.checkpoints, file.size());
        let admitted = sealing.host.admit(of, number, &naming);
        admitted.map_err(|error| Failure::from(error).about(path))?;
    }
    let (thread, turns) = thread_and_turns(&file)?;
    let mut sealer = RyeSealer::new(thread);
    push_all(&file, &mut sealer)?;
    let turn = sealing.args.turn.unwrap_or(turns);
    let section = sealing.host.enter_seal(&[signer.public_key()]);
    let _section = section.map_err(|error| Failure::from(error).about(path))?;
    let line = sealer
        .checkpoint(&*signer, sealing.host.clock.now()?, turn)
        .map_err(|error| Failure::from(error).about(path))?;
    let mut log = Log::open(lock, floor)?;
    if let Err(error) = log.append(&line).and_then(|_| log.sync()) {
        // Half a checkpoint is useless, so it is cut off. The log still has the lock, and promises
        // nothing about these bytes.
        cut_back(sealing, path, file.size());
        return Err(error.into());
    }
    drop(log);
    publish(sealing, &verifier, path, &signer.public_key().key_id())
}

/// Rye's own runs replace transcripts, so only a record that this host sealed elsewhere is
/// displaced here.
fn refuse_displacing(sealing: &Sealing<'_>, path: &Path, report: &Report) -> Result<(), Failure> {
    let Some(record) = report.record else {
        return Ok(());
    };
    if sealing.host.heads.fetch(&record)?.is_some() {
        examine::refuse_displacing(&sealing.host, path, RecordKind::Transcript, &record)?;
    }
    Ok(())
}

/// Remembers the new head. Rye's records have no id, so the first line serves as one.
fn publish(
    sealing: &Sealing<'_>,
    verifier: &Verifier,
    path: &Path,
    key: &KeyId,
) -> Result<Sealed, Failure> {
    let file = open_regular(&*sealing.host.fs, path)?;
    let head = verifier.transcript_file(&file)?.report.head;
    if let Some(head) = head {
        sealing.host.publish(&Published {
            head,
            root: None,
            salts: None,
            key: Some(*key),
            kind: RecordKind::Transcript,
            is_final: false,
            thread: None,
            path: Some(path),
            aliases: &examine::naming_leaves(&file)?,
            durability: Durability::Durable,
        })?;
    }
    Ok(Sealed::new(path, "rye", Action::Sealed).with_head(head.as_ref()))
}

/// Cuts the file back to `size` after a failed append. If that fails, too, `verify` reports a torn
/// line.
fn cut_back(sealing: &Sealing<'_>, path: &Path, size: u64) {
    let Ok(file) = sealing.host.fs.open(path, Access::Rewrite) else {
        return;
    };
    if file.metadata().is_ok_and(|found| found.size > size) {
        let _ = file.set_len(size);
    }
}

fn ends_sealed(report: &Report) -> bool {
    report
        .trusted_until
        .is_some_and(|until| until.byte == report.stats.bytes)
}

/// The verifier of a transcript in Rye's format, which may also be a plain log of lines.
fn rye_verifier(sealing: &Sealing<'_>) -> Result<Verifier, Failure> {
    let request = VerifyRequest {
        format: Some(ScopeFormat::Transcript),
        ..VerifyRequest::by(sealing.trust.clone())
    };
    verifier(request, &Bar::hidden(), sealing.context)
}

/// How many bytes of the file are known to have reached the disk under the head of this host.
fn durable_floor(
    sealing: &Sealing<'_>,
    file: &RegularFile,
    record: Option<&RecordId>,
) -> Result<u64, Failure> {
    let known = record.map(|record| sealing.host.heads.fetch(record));
    let stored = known.transpose()?.flatten();
    Ok(stored.map_or(0, |stored| stored.head.size.min(file.size())))
}

fn push_all(file: &RegularFile, sealer: &mut RyeSealer) -> Result<(), Failure> {
    let (mut chunks, mut buffer) = (file.chunks(), Vec::new());
    loop {
        chunks.next_chunk(&mut buffer)?;
        if buffer.is_empty() {
            return Ok(());
        }
        sealer.push(&buffer);
    }
}

/// The thread that the first line names, and the number of turns in the lines.
fn thread_and_turns(file: &RegularFile) -> Result<(ThreadId, u64), Failure> {
    let mut events = Events::of(file);
    let (mut thread, mut turns) = (None, 0);
    while let Some(event) = events.next()? {
        turns = event.turn;
        if event.line == 1 {
            let value = json::parse(&event.bytes).ok();
            let id = value.as_ref().and_then(|value| value.get("thread_id"));
            thread = id.and_then(json::Value::as_str).map(ThreadId::parse);
        }
    }
    match thread {
        Some(thread) => Ok((thread?, turns)),
        None => Err(Failure::new("line 1 names no thread").about(file.path())),
    }
}
