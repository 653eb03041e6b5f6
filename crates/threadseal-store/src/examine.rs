//! Verifies files: native records on two cores, observed logs against their seals.
//!
//! ```text
//! file ─► reader ─► Scanner (leaves, JSON, seals) ─► PrefixHasher ─► Outcome
//!                   one core                         the other
//! ```
//! After a failure that requires a check of every signature, the same open file is read again. The
//! head store gives the known head of a record by its id. It also names the record that this host
//! sealed in this place, only to notice that another one is there now.

use crate::heads::{HeadStore, RecordKind, StoredHead};
use crate::host::Host;
use crate::moved::{self, SealedLines};
use crate::pipeline;
use crate::read::{CHUNK_BYTES, RegularFile, Source};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::{MAX_DOCUMENT_BYTES, MAX_LINE_BYTES};
use threadseal_core::merkle::leaf_hash;
use threadseal_core::record::{ExpectedHead, RecordId};
use threadseal_core::report::{Expectation, Report};
use threadseal_core::trust::{Trust, TrustStore};
use threadseal_formats::document::{self, DocumentKind};
use threadseal_formats::transcript::log::{LogReader, LogScan};
use threadseal_formats::transcript::observed::SealFile;
use threadseal_formats::transcript::{
    Outcome, PrefixHasher, ScanOptions, Scanner, VerifyOptions, conclude, manifest, observe,
};

/// Files below this size are verified on the caller's thread.
const PARALLEL_FROM_BYTES: u64 = 1 << 20;

/// The same limit while other files are verified at the same time. Two more threads for one file
/// help only if that file would be the last to end.
const PARALLEL_AMONG_MANY_FROM_BYTES: u64 = 32 << 20;

/// Most checkpoint lines are far shorter.
const SHORT_LINE_BYTES: usize = 64 << 10;

/// Leading lines by whose leaves a record is recognised when its seals are gone.
const NAMING_LINES: usize = 3;

/// The first line of `file` without its LF, when it ends within [`MAX_LINE_BYTES`].
///
/// # Errors
/// Kind `External` when reading fails.
pub fn first_line(file: &RegularFile) -> Result<Option<Vec<u8>>, Error> {
    Ok(leading_lines(file, 1)?.into_iter().next())
}

/// Up to `count` leading lines of `file`, without LF, each within [`MAX_LINE_BYTES`].
fn leading_lines(file: &RegularFile, count: usize) -> Result<Vec<Vec<u8>>, Error> {
    let (mut lines, mut line, mut buffer) = (Vec::new(), Vec::new(), Vec::new());
    let mut chunks = file.chunks();
    loop {
        chunks.next_chunk(&mut buffer)?;
        if buffer.is_empty() {
            return Ok(lines);
        }
        for piece in buffer.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(piece);
            if line.len() > MAX_LINE_BYTES + 1 {
                return Ok(lines);
            }
            if line.pop_if(|byte| *byte == b'\n').is_some() {
                lines.push(std::mem::take(&mut line));
                if lines.len() == count {
                    return Ok(lines);
                }
            }
        }
    }
}

/// Facts that this host and the caller know of a record.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// The head in this host's store.
    pub stored: Option<StoredHead>,
    /// The heads that verification must find.
    pub expect: Vec<Expectation>,
}

/// Collects the known facts of `record`: the head in `heads`, the head that the caller expects, and
/// its forks.
///
/// # Errors
/// Kind `External` when the store is damaged: unknown and unreadable are not the same.
pub fn known(
    heads: Option<&dyn HeadStore>,
    record: Option<&RecordId>,
    expected: Option<ExpectedHead>,
    exact: bool,
) -> Result<Known, Error> {
    let stored = match (heads, record) {
        (Some(heads), Some(record)) => heads.fetch(record)?,
        _ => None,
    };
    let remembered = stored.iter().flat_map(StoredHead::expectations);
    let given = expected.map(|head| Expectation::given(head, exact));
    let forks = match (heads, record) {
        (Some(heads), Some(record)) => known_forks(heads, record),
        _ => Vec::new(),
    };
    Ok(Known {
        expect: given.into_iter().chain(remembered).chain(forks).collect(),
        stored,
    })
}

/// Forks of `record` in the log of this host, or the fact that the log cannot be read.
pub fn known_forks(heads: &dyn HeadStore, record: &RecordId) -> Vec<Expectation> {
    match heads.forks(record) {
        Ok(forks) => forks.into_iter().map(Expectation::forked).collect(),
        Err(why) => vec![Expectation::forks_unknown(*record, &why.to_string())],
    }
}

/// The record id in a native manifest.
pub fn native_record(first_line: &[u8]) -> Option<RecordId> {
    manifest::parse_line(first_line).map(|manifest| manifest.record)
}

/// Verifies the native record in `file`, and checks every signature after a failure. `progress`
/// gets the length of every chunk.
///
/// # Errors
/// Kind `External` when reading fails, or the file was cut or rewritten meanwhile.
pub fn native(
    file: &RegularFile,
    scan: &ScanOptions,
    options: &VerifyOptions<'_>,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Outcome, Error> {
    native_range(file, file.size(), scan, options, progress)
}

/// As [`native`], for one of many files that the caller verifies on all cores.
///
/// # Errors
/// As [`native`].
pub fn native_among_many(
    file: &RegularFile,
    scan: &ScanOptions,
    options: &VerifyOptions<'_>,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Outcome, Error> {
    let pass = Pass {
        file,
        size: file.size(),
        parallel: file.size() >= PARALLEL_AMONG_MANY_FROM_BYTES,
    };
    pass.twice_if_needed(scan, options, progress)
}

/// As [`native`], as if the file ended after `size` bytes.
pub(crate) fn native_range(
    file: &RegularFile,
    size: u64,
    scan: &ScanOptions,
    options: &VerifyOptions<'_>,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Outcome, Error> {
    let pass = Pass {
        file,
        size,
        parallel: size >= PARALLEL_FROM_BYTES,
    };
    pass.twice_if_needed(scan, options, progress)
}

/// The input of one pass, and its number of threads.
#[derive(Clone, Copy)]
struct Pass<'f> {
    file: &'f RegularFile,
    size: u64,
    parallel: bool,
}

impl Pass<'_> {
    fn twice_if_needed(
        self,
        scan: &ScanOptions,
        options: &VerifyOptions<'_>,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Outcome, Error> {
        let outcome = look(self, scan.clone(), options, progress)?;
        if !outcome.look_closer {
            return Ok(outcome);
        }
        let closer = ScanOptions {
            every_signature: true,
            ..scan.clone()
        };
        look(self, closer, options, progress)
    }
}

fn look(
    pass: Pass<'_>,
    scan: ScanOptions,
    options: &VerifyOptions<'_>,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Outcome, Error> {
    let Pass {
        file,
        size,
        parallel,
    } = pass;
    let mut scanner = Scanner::new(scan);
    let mut prefix = PrefixHasher::new();
    if let Some(bytes) = file.held(size) {
        progress(size);
        prefix.push(bytes, &scanner.push(bytes));
        return Ok(conclude(scanner, &prefix, options));
    }
    let source = file.range(0, size);
    let stage_a = |chunk: pipeline::Chunk<'_>| {
        progress(chunk.bytes.len() as u64);
        ControlFlow::Continue(scanner.push(chunk.bytes))
    };
    let stage_b = |chunk: pipeline::Chunk<'_>, points: Vec<_>| {
        prefix.push(chunk.bytes, &points);
        ControlFlow::Continue(())
    };
    if parallel {
        pipeline::run(source, stage_a, stage_b)?;
    } else {
        pipeline::run_inline(source, stage_a, stage_b)?;
    }
    Ok(conclude(scanner, &prefix, options))
}

/// Reads an observed log against its seals.
///
/// # Errors
/// Kind `External` when reading fails.
pub fn read_log(
    log: &RegularFile,
    seals: Option<&SealFile>,
    is_final: bool,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<LogScan, Error> {
    let mut reader = LogReader::new(seals, is_final);
    let (mut chunks, mut buffer) = (log.chunks(), Vec::with_capacity(CHUNK_BYTES));
    loop {
        chunks.next_chunk(&mut buffer)?;
        if buffer.is_empty() {
            return Ok(reader.finish());
        }
        progress(buffer.len() as u64);
        reader.push(&buffer);
    }
}

/// Verifies an observed log against its seals.
///
/// # Errors
/// As [`read_log`].
pub fn observed(
    log: &RegularFile,
    seals: &SealFile,
    expect: &[Expectation],
    options: &VerifyOptions<'_>,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Report, Error> {
    let scan = read_log(log, Some(seals), false, progress)?;
    Ok(observe::report(seals, &scan, expect, options))
}

/// The leaves by which `file` may be recognised as a record that was sealed here.
///
/// # Errors
/// Kind `External` when reading fails.
pub fn naming_leaves(file: &RegularFile) -> Result<Vec<Digest>, Error> {
    Ok(leaves_of(&leading_lines(file, NAMING_LINES)?))
}

/// As [`naming_leaves`], of bytes that are not written yet.
pub fn naming_leaves_of(bytes: &[u8]) -> Vec<Digest> {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let whole = lines.map_while(|line| line.strip_suffix(b"\n"));
    let short = whole.take_while(|line| line.len() <= MAX_LINE_BYTES);
    leaves_of(&short.take(NAMING_LINES).collect::<Vec<_>>())
}

fn leaves_of(lines: &[impl AsRef<[u8]>]) -> Vec<Digest> {
    let lines = lines.iter().map(AsRef::as_ref);
    let telling = lines.filter(|line| line.len() > 2);
    telling.map(leaf_hash).collect()
}

/// A record that this host sealed, recognised by its leading lines in a file without seals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stripped {
    /// The record.
    pub record: RecordId,
    /// Were its seals removed, rather than not copied? A transcript carries its seals within, so a
    /// copy without them lost them. An observed log lost them if it is still in the place where it
    /// was sealed. Elsewhere it may be a copy of the log alone.
    pub certain: bool,
    /// The place where it was sealed last, where this host knows it.
    pub sealed_at: Option<PathBuf>,
}

/// Does `file` carry the very seal that is the known head of its record?
fn bears_seal(file: &RegularFile, known: &StoredHead, host: &Host) -> Result<bool, Error> {
    let head = &known.head;
    match known.kind {
        // Scrolls are known by their first turn and ledgers by their run, never by a place.
        RecordKind::Observed | RecordKind::Scroll | RecordKind::Ledger | RecordKind::Lineage => {
            Ok(false)
        }
        RecordKind::Transcript => ends_with_line(file, head.size, &head.line),
        RecordKind::Document if file.size() != head.size => Ok(false),
        RecordKind::Document => {
            let bytes = file.read_whole(MAX_DOCUMENT_BYTES)?;
            let name = file.path().to_string_lossy();
            let Some(kind) = DocumentKind::detect(&name, &bytes) else {
                return Ok(false);
            };
            // The set of sealed bytes does not depend on trust.
            let nobody = Trust::new(TrustStore::new());
            let options = document::Options::new(kind, &nobody, host.clock.now()?);
            Ok(document::verify(&bytes, &options)?.report.head == Some(*head))
        }
    }
}

/// Do the first `size` bytes end with a line of this digest, and its LF?
fn ends_with_line(file: &RegularFile, size: u64, digest: &Digest) -> Result<bool, Error> {
    if file.size() < size {
        return Ok(false);
    }
    for reach in [SHORT_LINE_BYTES, MAX_LINE_BYTES + 2] {
        let from = size.saturating_sub(reach as u64);
        let (mut bytes, mut chunk) = (Vec::new(), Vec::new());
        let mut chunks = file.range(from, size);
        loop {
            chunks.next_chunk(&mut chunk)?;
            if chunk.is_empty() {
                break;
            }
            bytes.extend_from_slice(&chunk);
        }
        let Some(line) = bytes.strip_suffix(b"\n") else {
            return Ok(false);
        };
        match line.iter().rposition(|byte| *byte == b'\n') {
            Some(before) => return Ok(Digest::of(&line[before + 1..]) == *digest),
            None if from == 0 => return Ok(Digest::of(line) == *digest),
            None => {}
        }
    }
    Ok(false)
}

/// Does `file`, which bears no seal, hold the leading lines of a record that this host sealed?
///
/// # Errors
/// Kind `External` when reading fails or the store is damaged.
pub fn stripped_of(file: &RegularFile, host: &Host) -> Result<Option<Stripped>, Error> {
    let place = host.place(file.path());
    let leaves = naming_leaves(file)?;
    let mut likely = None;
    for leaf in &leaves {
        for record in host.heads.find_by_line(leaf)? {
            let Some(known) = host.heads.fetch(&record)? else {
                continue;
            };
            if bears_seal(file, &known, host)? {
                continue;
            }
            let here = known.path_hint.as_deref() == Some(place.as_str());
            let certain = match known.kind {
                RecordKind::Transcript => true,
                RecordKind::Observed => here && !was_moved(file, &known, host)?,
                RecordKind::Document => here,
                // Its aliases name signers, not lines.
                RecordKind::Scroll | RecordKind::Ledger | RecordKind::Lineage => false,
            };
            let found = Stripped {
                record,
                certain,
                sealed_at: known.path_hint.map(PathBuf::from),
            };
            if certain {
                return Ok(Some(found));
            }
            likely = Some(found);
        }
    }
    Ok(likely)
}

/// Is `file` in the place of a log that was moved?
fn was_moved(file: &RegularFile, known: &StoredHead, host: &Host) -> Result<bool, Error> {
    let moved = match SealedLines::of_known(known) {
        Some(sealed) => sealed.moved_from(host, file.path())?,
        None => None,
    };
    // Or the log itself, which came back to its place without its seals.
    let record = &known.head.record;
    Ok(moved.is_some() || moved::left_seals(host, record, None, file.path())?.is_some())
}

/// The record that this host sealed last in the place of `path`, where `record` is now and was not
/// sealed.
///
/// A moved or copied record displaces nothing, unless another one was sealed there. A record of one
/// `kind` also displaces one of another kind under two conditions. This host knows it from
/// elsewhere, and the displaced one is not among the `others` that the file also is.
///
/// # Errors
/// Kind `External` when the store is damaged.
pub fn displaced(
    host: &Host,
    path: &Path,
    kind: RecordKind,
    record: &RecordId,
    others: &[RecordId],
) -> Result<Option<StoredHead>, Error> {
    let place = host.place(path);
    if let Some(last) = host.heads.find_by_place(kind, &place)? {
        // A log that was restarted has an end, and another one begins in its place.
        let is_same = last.head.record == *record;
        let has_ended = !is_same
            && kind == RecordKind::Observed
            && host.heads.pruned(&last.head.record)?.is_some();
        return Ok(Some(last).filter(|_| !is_same && !has_ended));
    }
    for kind in RecordKind::ALL.into_iter().filter(|other| *other != kind) {
        let Some(last) = host.heads.find_by_place(kind, &place)? else {
            continue;
        };
        if !others.contains(&last.head.record) && host.heads.fetch(record)?.is_some() {
            return Ok(Some(last));
        }
    }
    Ok(None)
}

/// Refuses to continue a record in the place of another one.
///
/// # Errors
/// Kind `Refused` when it displaces one, or as [`displaced`].
pub fn refuse_displacing(
    host: &Host,
    path: &Path,
    kind: RecordKind,
    record: &RecordId,
) -> Result<(), Error> {
    match displaced(host, path, kind, record, &[])? {
        None => Ok(()),
        Some(last) => {
            let (path, sealed) = (path.display(), last.head.record);
            let text = format!("{path} is the place of record {sealed}, but contains another one");
            Err(Error::refused(format!(
                "{text}; hint: threadseal verify {path}"
            )))
        }
    }
}

/// The error for a file whose first line is no manifest.
pub(crate) fn not_native(file: &RegularFile) -> Error {
    Error::new(
        ErrorKind::InvalidInput,
        format!(
            "{} does not begin with a native manifest",
            file.path().display()
        ),
    )
}
