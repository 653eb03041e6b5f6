//! Checking a ledger file and its index with code that the writer does not use.
//!
//! Everything is read from its first byte: lines, links, the index entry by entry. Codes of faults
//! are in `spec/ledger-store.md`. It repairs only harmless remains of a crash:
//! * an end that is no record is moved aside;
//! * a missing last LF is written;
//! * an index that contradicts itself is removed (the next append makes it again);
//! * the rest of a deleted run is deleted.
//!
//! Parts that an attacker may have changed or cut stay as they are.

use super::delete;
use super::run_files::RunFiles;
use crate::append::Log;
use crate::fsck::Fault;
use crate::ledger::FsckReport;
use crate::lock::{Turn, WriterLock};
use crate::sys::{self, Access, FileHandle, FileKind, directory_of};
use std::io;
use std::path::Path;
use std::sync::Arc;
use threadseal_core::canon::json::{Value, parse_python};
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_LINE_BYTES;

const BLOCK_BYTES: usize = 128 << 10;
/// The first bytes of every record that AbstractRuntime or this store writes: a glued line contains
/// them twice.
const RECORD_START: &[u8] = b"{\"run_id\":";

/// Checks everything of one run.
pub(super) fn fsck(context: &RunFiles<'_>, repair: bool) -> Result<FsckReport, Error> {
    let mut check = Check {
        report: FsckReport::of(context.run),
        keeps_index: true,
    };
    if context.tombstone()?.is_some() {
        check.leftovers(context, repair)?;
        return Ok(check.report);
    }
    let access = if repair { Access::Append } else { Access::Read };
    let path = &context.paths.ledger;
    let file = match context.fs.open(path, access) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if context.exists(&context.paths.index)? {
                check.fault(
                    "missing",
                    None,
                    "the index knows of records, and the ledger is gone",
                );
            }
            return Ok(check.report);
        }
        Err(error) => return Err(sys::failure("open", path, &error)),
    };
    let _turn = Turn::wait(context.fs, &*file, path)?;
    let found = metadata(&*file, path)?;
    if found.kind != FileKind::Regular {
        return Err(Error::invalid(format!(
            "{} is {}",
            path.display(),
            found.kind
        )));
    }
    let slots = Slots::open(context)?;
    let end = check.lines(context, &*file, slots.as_ref())?;
    if let Some(slots) = &slots {
        check.index(slots)?;
    }
    if repair {
        check.mend(context, &file, &end)?;
    }
    Ok(check.report)
}

struct Check {
    report: FsckReport,
    /// Is the index evidence, or at least right?
    keeps_index: bool,
}

/// The facts about the end of the file.
#[derive(Default)]
struct LastBytes {
    /// From here on nothing is a record.
    torn_from: Option<u64>,
    /// The last record has no LF.
    unended: bool,
}

impl Check {
    fn fault(&mut self, code: &'static str, at: Option<u64>, message: impl Into<String>) {
        self.report.fault(code, at, message);
    }

    fn mended(&mut self, codes: &[&str]) {
        let faults = self.report.faults.iter_mut();
        for fault in faults.filter(|fault| codes.contains(&fault.code)) {
            fault.repaired = true;
        }
    }

    fn leftovers(&mut self, context: &RunFiles<'_>, repair: bool) -> Result<(), Error> {
        for path in delete::remains(context)? {
            let message = format!("{} belongs to a deleted run", path.display());
            self.fault("leftover", None, message);
        }
        if repair && !self.report.faults.is_empty() {
            delete::remove_files(context)?;
            self.mended(&["leftover"]);
        }
        Ok(())
    }

    fn lines(
        &mut self,
        context: &RunFiles<'_>,
        file: &dyn FileHandle,
        slots: Option<&Slots>,
    ) -> Result<LastBytes, Error> {
        let path = &context.paths.ledger;
        let (mut block, mut line) = (vec![0; BLOCK_BYTES], Vec::new());
        let (mut position, mut begin, mut number) = (0, 0, 0);
        let mut link = Value::Null;
        let mut end = LastBytes::default();
        loop {
            let count = sys::read_full_at(file, &mut block, position)
                .map_err(|error| sys::failure("read", path, &error))?;
            position += count as u64;
            for piece in block[..count].split_inclusive(|byte| *byte == b'\n') {
                line.extend_from_slice(piece);
                if line.len() > MAX_LINE_BYTES + 1 {
                    let text = format!("{} has a line that is too long", path.display());
                    return Err(Error::new(ErrorKind::Limit, text));
                }
                if piece.ends_with(b"\n") {
                    if !self.line(context, slots, &line, begin, number, &mut link)? {
                        end.torn_from = Some(begin);
                        return Ok(end);
                    }
                    begin += line.len() as u64;
                    number += 1;
                    line.clear();
                }
            }
            if count < block.len() {
                break;
            }
        }
        if line.is_empty() {
            return Ok(end);
        }
        if record_in(&line).is_some() {
            self.fault(
                "no_line_feed",
                Some(number),
                "the last record lacks its line feed",
            );
            let whole = [&line[..], b"\n"].concat();
            self.line(context, slots, &whole, begin, number, &mut link)?;
            end.unended = true;
        } else {
            let message = format!(
                "the file ends in {} bytes that are not a record",
                line.len()
            );
            self.fault("torn_tail", Some(number), message);
            end.torn_from = Some(begin);
        }
        Ok(end)
    }

    /// Checks one line with its LF; false where the file is torn.
    fn line(
        &mut self,
        context: &RunFiles<'_>,
        slots: Option<&Slots>,
        line: &[u8],
        begin: u64,
        number: u64,
        link: &mut Value,
    ) -> Result<bool, Error> {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let Some(record) = record_in(text) else {
            if text.contains(&0) {
                let message =
                    format!("the file has holes from byte {begin} on, as after a loss of power");
                self.fault("hole", Some(number), message);
                return Ok(false);
            }
            let glued = text
                .windows(RECORD_START.len())
                .skip(1)
                .any(|w| w == RECORD_START);
            let message = if glued {
                "a torn line with another record written after it in the same line"
            } else {
                "a line that is not a record"
            };
            self.fault("not_a_record", Some(number), message);
            return Ok(true);
        };
        let member = |name| record.get(name).cloned().unwrap_or(Value::Null);
        if record.get("run_id").and_then(Value::as_str) != Some(context.run.as_str()) {
            self.fault("other_run", Some(number), "a record of another run");
        }
        if member("prev_hash") != *link {
            self.fault(
                "broken_link",
                Some(number),
                "it does not name the record before it",
            );
        }
        *link = member("record_hash");
        if let Some(slots) = slots
            && let Some(slot) = slots.get(self.report.records)?
            && slot.is_whole
            && (slot.offset, slot.length, slot.crc)
                != (begin, text.len() as u64, crc32fast::hash(line))
        {
            self.contradiction(self.report.records < slots.durable, number);
        }
        self.report.records += 1;
        Ok(true)
    }

    fn contradiction(&mut self, was_durable: bool, number: u64) {
        if was_durable {
            // One is enough: after a line of another length all later places differ as well.
            if self
                .report
                .faults
                .iter()
                .all(|fault| fault.code != "changed")
            {
                let message = "the bytes differ from the ones that the index acknowledged";
                self.fault("changed", Some(number), message);
            }
        } else if self
            .report
            .faults
            .iter()
            .all(|fault| fault.code != "index_ahead")
        {
            self.fault(
                "index_ahead",
                Some(number),
                "the index names records that never became durable",
            );
            self.keeps_index = false;
        }
    }

    /// Checks the index alone, and the records that it names beyond the file.
    fn index(&mut self, slots: &Slots) -> Result<(), Error> {
        if !slots.has_header {
            self.fault(
                "index_damaged",
                None,
                "the index does not begin as an index of this run",
            );
            self.keeps_index = false;
            return Ok(());
        }
        if slots.has_part {
            self.fault(
                "index_damaged",
                Some(slots.count),
                "the index ends in a part of an entry",
            );
            self.keeps_index = false;
        }
        for number in 0..slots.count {
            if slots.get(number)?.is_some_and(|slot| !slot.is_whole) {
                self.fault(
                    "index_damaged",
                    Some(number),
                    "an entry of the index is damaged",
                );
                self.keeps_index = false;
            }
        }
        let records = self.report.records;
        if slots.durable > records {
            let message = format!(
                "there are {records} records, but the index acknowledged {}",
                slots.durable
            );
            self.fault("rolled_back", Some(records), message);
        } else if slots.count > records {
            let message = "the index names records that never became durable";
            self.fault("index_ahead", Some(records), message);
            self.keeps_index = false;
        }
        Ok(())
    }

    fn mend(
        &mut self,
        context: &RunFiles<'_>,
        file: &Arc<dyn FileHandle>,
        end: &LastBytes,
    ) -> Result<(), Error> {
        let evidence = ["changed", "rolled_back"];
        let is_evidence = |fault: &Fault| evidence.contains(&fault.code);
        if self.report.faults.iter().any(is_evidence) {
            return Ok(());
        }
        if end.unended || end.torn_from.is_some() {
            let lock = WriterLock::of_locked(
                Arc::clone(context.shared),
                Arc::clone(file),
                &context.paths.ledger,
            );
            let mut log = Log::open(lock, 0)?;
            if let Some(offset) = end.torn_from {
                log.move_tail_aside(offset)?;
            }
            if end.unended {
                log.append(b"\n")?;
            }
            log.sync()?;
            self.mended(&["torn_tail", "hole", "no_line_feed"]);
        }
        if !self.keeps_index {
            let index = &context.paths.index;
            let gone = context.fs.unlink(index);
            let gone = gone.and_then(|()| context.fs.sync_dir(directory_of(index)));
            gone.map_err(|error| sys::failure("remove", index, &error))?;
            self.mended(&["index_damaged", "index_ahead"]);
        }
        Ok(())
    }
}

fn record_in(text: &[u8]) -> Option<Value> {
    let value = parse_python(text).ok()?.value;
    value.as_object().is_some().then_some(value)
}

fn metadata(file: &dyn FileHandle, path: &Path) -> Result<sys::Metadata, Error> {
    file.metadata()
        .map_err(|error| sys::failure("read", path, &error))
}

/// The index, strictly by its format.
struct Slots {
    file: Arc<dyn FileHandle>,
    path: std::path::PathBuf,
    has_header: bool,
    has_part: bool,
    count: u64,
    /// The number of durable records, by the last entry that has this flag.
    durable: u64,
}

struct Slot {
    is_whole: bool,
    offset: u64,
    length: u64,
    crc: u32,
    /// Whole, and all before it was durable.
    says_durable: bool,
}

impl Slots {
    fn open(context: &RunFiles<'_>) -> Result<Option<Self>, Error> {
        let path = &context.paths.index;
        let file = match context.fs.open(path, Access::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(sys::failure("open", path, &error)),
        };
        let size = metadata(&*file, path)?.size;
        let mut start = [0; 64];
        let count = sys::read_full_at(&*file, &mut start, 0)
            .map_err(|error| sys::failure("read", path, &error))?;
        let sum = crc32fast::hash(&start[..60]).to_le_bytes();
        let mut slots = Self {
            file,
            path: path.clone(),
            has_header: count == 64
                && start.starts_with(b"threadseal.ledger.index/1\n")
                && start[60..] == sum,
            has_part: size % 64 != 0,
            count: (size / 64).saturating_sub(1),
            durable: 0,
        };
        for number in (0..slots.count).rev() {
            if slots.get(number)?.is_some_and(|slot| slot.says_durable) {
                slots.durable = number + 1;
                break;
            }
        }
        Ok(Some(slots))
    }

    fn get(&self, number: u64) -> Result<Option<Slot>, Error> {
        if number >= self.count || !self.has_header {
            return Ok(None);
        }
        let mut bytes = [0; 64];
        sys::read_full_at(&*self.file, &mut bytes, 64 * (number + 1))
            .map_err(|error| sys::failure("read", &self.path, &error))?;
        let summed = [&number.to_le_bytes(), &bytes[..60]].concat();
        let integer = |range: std::ops::Range<usize>| {
            let digits = bytes[range].iter().rev();
            digits.fold(0_u64, |value, byte| value << 8 | u64::from(*byte))
        };
        let is_whole = crc32fast::hash(&summed).to_le_bytes() == bytes[60..];
        Ok(Some(Slot {
            is_whole,
            offset: integer(0..8),
            length: integer(8..12),
            crc: u32::try_from(integer(12..16)).unwrap_or_default(),
            says_durable: is_whole && bytes[56] & 4 != 0,
        }))
    }
}
