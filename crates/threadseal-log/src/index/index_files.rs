//! [`IndexFiles`]: rows of the index of a log in files, each with all heads of a range of entries.
//!
//! ```text
//! <log id>/index-1/runs                       threadseal/1 index of heads LF
//!                                             run <from> <until> <rows> <root of the tree of `until` entries, in hex> LF    in order, from 0 on
//!                                             tag <64 hex> LF                         of "threadseal/1 index of heads" 0x00 ‖ log id ‖ LF ‖ all before
//! <log id>/index-1/<from>-<until>-<16 hex>    pages; the digits are the first of the root
//!
//! page   84 rows, the last page fewer; 32 bytes: tag of "threadseal/1 rows of an index" 0x00 ‖ log id ‖ its `run` line LF ‖ page ‖ rows
//! row    record id (32) ‖ number of the seal (8) ‖ number of the entry (8)            sorted; numbers are big-endian, also that of a page
//! tag    HMAC-SHA-256 under the secret of the home (`spool_key`)
//! ```
//! Rows are sorted under tags that only this home makes: a head that would be between two neighbouring rows is absent. A run
//! that is not much larger than those after it is merged with them: there are few runs, however large the log is.
//!
//! The folder is made again where it is lost. Another layout has another name, so that no program believes to be absent what one of another
//! version left out.

use crate::layout::description::LogId;
use crate::layout::home_secret::{HomeSecret, TAG_BYTES};
use crate::layout::log_dir::{LogDir, damaged};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::iter::Peekable;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::merkle::TreeHead;
use threadseal_core::record::RecordId;
use threadseal_store::atomic::PRIVATE_DIRECTORY;
use threadseal_store::atomic::{self, NewFile, PRIVATE_FILE};
use threadseal_store::lock::Exclusive;
use threadseal_store::read::{self, RegularFile, Source as _};

pub(crate) const FOLDER: &str = "index-1";
const LIST: &str = "runs";
const LOCK: &str = "lock";
const FIRST_LINE: &str = "threadseal/1 index of heads\n";
const LIST_DOMAIN: &[u8] = b"threadseal/1 index of heads\0";
const PAGE_DOMAIN: &[u8] = b"threadseal/1 rows of an index\0";
/// Files of layouts before this one.
const EARLIER: [&str; 2] = ["index.db", "heads-1.db"];
const ROW_BYTES: usize = 48;
const PAGE_ROWS: u64 = if cfg!(test) { 5 } else { 84 };
/// Largest list of runs in bytes; each is half as long again as all after it, so there are few.
const MAX_LIST_BYTES: usize = 64 << 10;
/// Pages of one run that are kept in memory.
const MAX_KEPT_PAGES: usize = 256;
/// Bytes that are written at once.
const WRITE_BYTES: usize = 1 << 20;

/// Where a head is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Row {
    pub(crate) record: RecordId,
    /// The number of the seal.
    pub(crate) seq: u64,
    /// The number of the entry.
    pub(crate) at: u64,
}

impl Row {
    /// Not after any row of this head, nor of a later one of its record.
    pub(crate) fn first_of(record: &RecordId, seq: u64) -> Self {
        let record = *record;
        Self { record, seq, at: 0 }
    }

    /// Not before any row of this record.
    pub(crate) fn last_of(record: &RecordId) -> Self {
        Self {
            record: *record,
            seq: u64::MAX,
            at: u64::MAX,
        }
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (record, rest) = bytes.split_first_chunk::<32>()?;
        let (seq, rest) = rest.split_first_chunk::<8>()?;
        Some(Self {
            record: RecordId::from_bytes(*record),
            seq: u64::from_be_bytes(*seq),
            at: u64::from_be_bytes(*rest.first_chunk::<8>()?),
        })
    }

    fn write(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(self.record.as_bytes());
        to.extend_from_slice(&self.seq.to_be_bytes());
        to.extend_from_slice(&self.at.to_be_bytes());
    }
}

/// The entries whose heads a run has, and how many heads that are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    from: u64,
    until: u64,
    rows: u64,
    /// Of the tree of the first `until` entries.
    root: Digest,
}

impl Span {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix("run ")?.split(' ');
        let mut number = || words.next()?.parse::<u64>().ok();
        let (from, until, rows) = (number()?, number()?, number()?);
        let root = Digest::parse_hex(words.next()?)?;
        (words.next().is_none() && from < until && rows <= until - from).then_some(Self {
            from,
            until,
            rows,
            root,
        })
    }

    fn file_name(&self) -> String {
        let root = self.root.to_hex();
        format!("{}-{}-{}", self.from, self.until, &root[..16])
    }

    /// What a tag of one of its pages is over.
    fn tagged(&self, id: LogId, page: u64, rows: &[u8]) -> Vec<u8> {
        let line = format!("{id}\n{self}\n");
        [line.as_bytes(), &page.to_be_bytes(), rows].concat()
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            from,
            until,
            rows,
            root,
        } = self;
        write!(f, "run {from} {until} {rows} {root}")
    }
}

/// All that this home wrote of the index of one log.
#[derive(Debug)]
pub(crate) struct IndexFiles {
    dir: LogDir,
    id: LogId,
    key: Option<HomeSecret>,
    runs: Vec<Run>,
    /// What the list named when it was read.
    listed: Vec<Span>,
    damaged: AtomicBool,
}

impl IndexFiles {
    /// Those of this log; none where this home did not write them, or they cannot be read.
    pub(crate) fn find(dir: &LogDir, id: LogId) -> Self {
        let mut files = Self::none(dir, id);
        let runs = files.listed.iter().map(|span| Run::open(dir, *span));
        // A run that another process has merged is in the list that it wrote; the next reader reads that one.
        files.runs = runs.collect::<Option<Vec<_>>>().unwrap_or_default();
        files
    }

    /// As if there were none; what is there is replaced.
    pub(crate) fn none(dir: &LogDir, id: LogId) -> Self {
        let key = HomeSecret::find(dir).ok().flatten();
        let listed = key.as_ref().and_then(|key| list(dir, id, key));
        Self {
            dir: dir.clone(),
            id,
            key,
            runs: Vec::new(),
            listed: listed.unwrap_or_default(),
            damaged: AtomicBool::default(),
        }
    }

    pub(crate) fn emptied(self) -> Self {
        Self {
            runs: Vec::new(),
            ..self
        }
    }

    /// The tree of which they have all heads.
    pub(crate) fn tree(&self) -> TreeHead {
        self.runs.last().map_or(TreeHead::empty(), |run| TreeHead {
            size: run.span.until,
            root: run.span.root,
        })
    }

    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Has another process written since they were found?
    pub(crate) fn are_stale(&self) -> bool {
        let key = self.key.as_ref();
        let there = key.and_then(|key| list(&self.dir, self.id, key));
        there.unwrap_or_default() != self.listed
    }

    pub(crate) fn count(&self) -> u64 {
        self.runs.iter().map(|run| run.span.rows).sum()
    }

    /// The newest head of a record among the first `size` entries; of several with one number any.
    pub(crate) fn newest(&self, record: &RecordId, size: u64) -> Result<Option<Row>, Error> {
        let mut newest = None;
        for run in &self.runs {
            let mut number = self.lower_bound(run, &Row::last_of(record))?;
            while let Some(before) = number.checked_sub(1) {
                let row = self.row(run, before)?.filter(|row| row.record == *record);
                if row.is_none_or(|row| row.at < size) {
                    newest = newest.max(row);
                    break;
                }
                number = before;
            }
        }
        Ok(newest)
    }

    /// The first entry with the head of this number.
    pub(crate) fn at(&self, record: &RecordId, seq: u64) -> Result<Option<Row>, Error> {
        let first = Row::first_of(record, seq);
        for run in &self.runs {
            let row = self.row(run, self.lower_bound(run, &first)?)?;
            if let Some(row) = row.filter(|row| (row.record, row.seq) == (*record, seq)) {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// All heads of a record.
    pub(crate) fn all(&self, record: &RecordId) -> Result<Vec<Row>, Error> {
        let mut all = Vec::new();
        for run in &self.runs {
            let mut number = self.lower_bound(run, &Row::first_of(record, 0))?;
            while let Some(row) = self.row(run, number)?
                && row.record == *record
            {
                all.push(row);
                number += 1;
            }
        }
        Ok(all)
    }

    /// Writes `rows`, all of the entries from those of the files to `tree`, as a run of their own, or one with runs before it.
    ///
    /// # Errors
    /// Kind `External` when the system fails, another process is writing or has written, or there is no secret.
    pub(crate) fn add(&mut self, rows: &BTreeSet<Row>, tree: TreeHead) -> Result<(), Error> {
        let unwritten = || damaged(&self.dir.file(FOLDER));
        let key = self.key.clone().ok_or_else(unwritten)?;
        let folder = self.dir.file(FOLDER);
        let fs = Arc::clone(&self.dir.fs);
        atomic::create_directories(&*fs, &folder, PRIVATE_DIRECTORY)?;
        let _alone = Exclusive::enter_while(&*fs, &folder.join(LOCK), &|| false)?;
        if self.are_stale() {
            return Err(unwritten());
        }
        let (mut kept, mut count) = (self.runs.len(), rows.len() as u64);
        while let Some(before) = kept.checked_sub(1)
            && self.runs[before].span.rows <= 2 * count
        {
            count += self.runs[before].span.rows;
            kept = before;
        }
        let from = match kept.checked_sub(1) {
            Some(last) => self.runs[last].span.until,
            None => 0,
        };
        let span = Span {
            from,
            until: tree.size,
            rows: count,
            root: tree.root,
        };
        self.write_run(&key, &span, rows, kept)?;
        let run = Run::open(&self.dir, span).ok_or_else(unwritten)?;
        let spans = self.runs[..kept].iter().map(|run| run.span);
        let spans: Vec<Span> = spans.chain([span]).collect();
        self.write_list(&key, &spans)?;
        self.runs.truncate(kept);
        self.runs.push(run);
        self.listed = spans;
        self.forget_others();
        Ok(())
    }

    fn write_run(
        &self,
        key: &HomeSecret,
        span: &Span,
        rows: &BTreeSet<Row>,
        kept: usize,
    ) -> Result<(), Error> {
        let fresh: Box<dyn Iterator<Item = Result<Row, Error>>> =
            Box::new(rows.iter().copied().map(Ok));
        let runs = self.runs[kept..].iter().map(|run| {
            let rows = (0..run.span.rows).map(|number| self.row_of(run, number));
            Box::new(rows) as Box<dyn Iterator<Item = Result<Row, Error>>>
        });
        let mut merged = merged(runs.chain([fresh]).map(Iterator::peekable).collect());
        let path = self.path(span);
        let mut file = NewFile::begin(&*self.dir.fs, &path, PRIVATE_FILE)?;
        let mut bytes = Vec::new();
        for page in 0..pages(span.rows) {
            let begin = bytes.len();
            for row in merged.by_ref().take(rows_of_page(span.rows, page)) {
                row?.write(&mut bytes);
            }
            let tagged = span.tagged(self.id, page, &bytes[begin..]);
            bytes.extend_from_slice(&key.tag_bytes(PAGE_DOMAIN, &tagged));
            if bytes.len() >= WRITE_BYTES {
                file.write(&std::mem::take(&mut bytes))?;
            }
        }
        file.write(&bytes)?;
        file.commit_replace()
    }

    fn write_list(&self, key: &HomeSecret, spans: &[Span]) -> Result<(), Error> {
        let lines: String = spans.iter().map(|span| format!("{span}\n")).collect();
        let body = format!("{FIRST_LINE}{lines}");
        let tag = key.tag(LIST_DOMAIN, format!("{}\n{body}", self.id).as_bytes());
        let path = self.dir.file(FOLDER).join(LIST);
        self.dir
            .replace(&path, format!("{body}tag {tag}\n").as_bytes())
    }

    /// Removes files that are read no more: merged runs, remains of a crash, and files of earlier layouts.
    fn forget_others(&self) {
        let folder = self.dir.file(FOLDER);
        let ours: Vec<String> = self.listed.iter().map(Span::file_name).collect();
        for name in self.dir.fs.read_dir(&folder).unwrap_or_default() {
            let is_ours =
                |name: &str| name == LIST || name == LOCK || ours.iter().any(|our| our == name);
            if !name.to_str().is_some_and(is_ours) {
                // A file that stays does no harm.
                let _ = self.dir.fs.unlink(&folder.join(name));
            }
        }
        for earlier in EARLIER {
            for ending in ["", "-wal", "-shm"] {
                let _ = self
                    .dir
                    .fs
                    .unlink(&self.dir.file(&format!("{earlier}{ending}")));
            }
        }
    }

    fn path(&self, span: &Span) -> PathBuf {
        self.dir.file(FOLDER).join(span.file_name())
    }

    /// The number of the first row of a run that is not before `row`.
    fn lower_bound(&self, run: &Run, row: &Row) -> Result<u64, Error> {
        let (mut low, mut high) = (0, run.span.rows);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.row_of(run, middle)? < *row {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        Ok(low)
    }

    fn row(&self, run: &Run, number: u64) -> Result<Option<Row>, Error> {
        match number < run.span.rows {
            true => self.row_of(run, number).map(Some),
            false => Ok(None),
        }
    }

    /// A row that the run has.
    fn row_of(&self, run: &Run, number: u64) -> Result<Row, Error> {
        let page = run.page(self.id, self.key.as_ref(), number / PAGE_ROWS);
        let at = usize::try_from(number % PAGE_ROWS).unwrap_or(usize::MAX);
        let row = page.as_ref().and_then(|page| page.get(at));
        row.copied().ok_or_else(|| {
            self.damaged.store(true, Ordering::Relaxed);
            damaged(&self.path(&run.span))
        })
    }
}

/// One file of rows.
#[derive(Debug)]
struct Run {
    span: Span,
    file: RegularFile,
    /// Pages that were read, each under its tag.
    pages: Mutex<HashMap<u64, Arc<[Row]>>>,
}

impl Run {
    fn open(dir: &LogDir, span: Span) -> Option<Self> {
        let path = dir.file(FOLDER).join(span.file_name());
        let file = read::open_regular(&*dir.fs, &path).ok()?;
        Some(Self {
            span,
            file,
            pages: Mutex::default(),
        })
    }

    /// None for what this home did not write there.
    fn page(&self, id: LogId, key: Option<&HomeSecret>, page: u64) -> Option<Arc<[Row]>> {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rows) = pages.get(&page) {
            return Some(Arc::clone(rows));
        }
        let start = page * (PAGE_ROWS * ROW_BYTES as u64 + TAG_BYTES as u64);
        let length = rows_of_page(self.span.rows, page) * ROW_BYTES;
        let mut bytes = Vec::new();
        let end = start + (length + TAG_BYTES) as u64;
        self.file.range(start, end).next_chunk(&mut bytes).ok()?;
        let (rows, tag) = bytes.split_at_checked(length)?;
        let tagged = self.span.tagged(id, page, rows);
        if !key?.made_bytes(tag, PAGE_DOMAIN, &tagged) {
            return None;
        }
        let rows = rows.chunks_exact(ROW_BYTES).map(Row::read);
        let rows: Arc<[Row]> = rows.collect::<Option<Vec<_>>>()?.into();
        if pages.len() >= MAX_KEPT_PAGES {
            pages.clear();
        }
        pages.insert(page, Arc::clone(&rows));
        Some(rows)
    }
}

fn pages(rows: u64) -> u64 {
    rows.div_ceil(PAGE_ROWS)
}

fn rows_of_page(rows: u64, page: u64) -> usize {
    let left = rows.saturating_sub(page * PAGE_ROWS);
    usize::try_from(left.min(PAGE_ROWS)).unwrap_or(usize::MAX)
}

/// What the list of a log names; None where this home did not write one.
fn list(dir: &LogDir, id: LogId, key: &HomeSecret) -> Option<Vec<Span>> {
    let path = dir.file(FOLDER).join(LIST);
    let bytes = dir.read(&path, MAX_LIST_BYTES).ok()??;
    let text = std::str::from_utf8(&bytes).ok()?;
    let (lines, tag) = text.strip_suffix('\n')?.rsplit_once('\n')?;
    let body = format!("{lines}\n");
    let tag = tag.strip_prefix("tag ")?;
    if !key.made(tag, LIST_DOMAIN, format!("{id}\n{body}").as_bytes()) {
        return None;
    }
    let lines = body.strip_prefix(FIRST_LINE)?.lines();
    lines.map(Span::parse).collect()
}

/// Sorted rows of several sources that are sorted.
fn merged<I: Iterator<Item = Result<Row, Error>>>(
    mut sources: Vec<Peekable<I>>,
) -> impl Iterator<Item = Result<Row, Error>> {
    std::iter::from_fn(move || {
        let least = |source: &mut Peekable<I>| match source.peek()? {
            Ok(row) => Some(Some(*row)),
            // An error sorts before all rows.
            Err(_) => Some(None),
        };
        let heads = sources.iter_mut().enumerate();
        let next = heads
            .filter_map(|(at, source)| Some((least(source)?, at)))
            .min();
        sources.get_mut(next?.1)?.next()
    })
}
