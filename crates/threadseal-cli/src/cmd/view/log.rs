//! A log on the disk, for a page: its bytes, its stamp, its state by this host.

use crate::context::Context;
use crate::exit::Failure;
use crate::verifying;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::RecordId;
use threadseal_core::report::{Report, Verdict, combined_exit_code};
use threadseal_reader::output::{VerifyOutput, to_vec};
use threadseal_store::bodies;
use threadseal_store::observer::seal_path;
use threadseal_store::read::{self, RegularFile, Source as _, open_regular};
use threadseal_store::sys::Fs;
use threadseal_verify::output::PathError;
use threadseal_verify::{FileResult, Verifier};
use threadseal_view::shelf::{Key, Keys, Opened, Stamp, What};

/// What this host found of a log.
#[derive(Debug, Clone)]
pub(super) struct Judged {
    pub(super) state: String,
    pub(super) text: String,
    pub(super) light: &'static str,
    pub(super) format: Option<String>,
    pub(super) record: Option<RecordId>,
}

/// States of logs, kept until the log changes.
#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<BTreeMap<String, (Option<Stamp>, Judged)>>);

impl Kept {
    /// The state of the log at `path`.
    pub(super) fn judged(&self, path: &Path, verifier: &Verifier) -> Judged {
        let now = stamp(&*verifier.host().fs, path);
        let name = path.display().to_string();
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, judged)) = kept().get(&name).filter(|(before, _)| *before == now) {
            return judged.clone();
        }
        let judged = Judged::of(&verifier.verify_path(path));
        kept().insert(name, (now, judged.clone()));
        judged
    }
}

impl Judged {
    pub(super) fn of(result: &FileResult) -> Self {
        match result {
            FileResult::Reports(reports) if !reports.is_empty() => {
                let worst = reports.iter().min_by_key(|report| report.verdict);
                worst.map_or_else(|| Self::unread("no record"), Self::of_report)
            }
            FileResult::Failed(error) | FileResult::NoRecord(error) => Self::unread(&error.message),
            FileResult::Link(..) => Self {
                format: Some("lineage".to_owned()),
                ..Self::unread("one link of a lineage")
            },
            _ => Self::unread("no record"),
        }
    }

    fn unread(why: &str) -> Self {
        Self {
            state: "unreadable".to_owned(),
            text: why.to_owned(),
            light: "amber",
            format: None,
            record: None,
        }
    }

    fn of_report(report: &Report) -> Self {
        let word = report.verdict.as_str();
        Self {
            state: word.to_owned(),
            text: word.replace('_', " "),
            light: light(report.verdict),
            format: Some(report.format.as_str().to_owned()),
            record: report.record,
        }
    }
}

pub(super) fn light(verdict: Verdict) -> &'static str {
    match verdict.exit_code() {
        0 => "green",
        1 => "red",
        _ => "amber",
    }
}

/// What is asked of the log at `path`; `None` where it is not there.
pub(super) fn open(fs: &dyn Fs, path: &Path, what: What) -> Result<Option<Opened>, Error> {
    let place = match what {
        What::Bytes => path.to_owned(),
        What::Seals => seal_path(path),
        What::Bodies => bodies::place_of(path),
    };
    match fs.metadata(&place) {
        Ok(_) => Ok(Some(opened(open_regular(fs, &place)?))),
        Err(_) => Ok(None),
    }
}

/// An open file, for a page.
pub(super) fn opened(file: RegularFile) -> Opened {
    Opened {
        size: file.size(),
        read: Box::new(move |at| Ok(Box::new(FileReader { file, at }))),
    }
}

/// Reads an open file from one of its bytes on.
struct FileReader {
    file: RegularFile,
    at: u64,
}

impl Read for FileReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let end = self.at.saturating_add(buffer.len() as u64);
        let mut chunk = Vec::new();
        let read = self.file.range(self.at, end).next_chunk(&mut chunk);
        read.map_err(|error| io::Error::other(error.to_string()))?;
        let count = chunk.len().min(buffer.len());
        buffer[..count].copy_from_slice(&chunk[..count]);
        self.at += count as u64;
        Ok(count)
    }
}

/// The size of a file, 0 where there is none.
pub(super) fn size(fs: &dyn Fs, path: &Path) -> u64 {
    fs.metadata(path).map_or(0, |found| found.size)
}

/// The stamp of a log and of what is beside it.
pub(super) fn stamp(fs: &dyn Fs, path: &Path) -> Option<Stamp> {
    let of = |path: &Path| fs.metadata(path).ok().map(read::Stamp::from);
    let (log, seals) = (of(path)?, of(&seal_path(path)));
    let bodies = of(&bodies::place_of(path));
    let changed = |found: Option<read::Stamp>| found.map_or(0, |found| found.changed_ns);
    Some(Stamp {
        bytes: log.size,
        seals: seals.map_or(0, |found| found.size),
        changed: [log.changed_ns, changed(seals), changed(bodies)],
    })
}

/// The report on what was verified, as `verify --json` prints it.
pub(super) fn report(result: FileResult) -> Vec<u8> {
    let (reports, errors) = match result {
        FileResult::Reports(reports) => (reports, Vec::new()),
        FileResult::Failed(error) | FileResult::NoRecord(error) => (Vec::new(), vec![error]),
        _ => (Vec::new(), Vec::<PathError>::new()),
    };
    let verdicts: Vec<Verdict> = reports.iter().map(|report| report.verdict).collect();
    let exit = combined_exit_code(&verdicts, errors.len());
    to_vec(&VerifyOutput::new(&reports, &errors, 0, exit))
}

/// The keys that the home trusts.
pub(super) fn trust(context: &Context) -> Result<Keys, Error> {
    let gathered = verifying::verifier_of_home(context).map_err(plain)?;
    let store = &gathered.request().trust.store;
    let keys = store.iter().map(|entry| Key {
        name: entry.name.as_str().to_owned(),
        usage: entry.usage.iter().map(|usage| usage.as_str()).collect(),
        public: entry.key.to_hex(),
    });
    Ok(Keys {
        keys: keys.collect(),
        store: store.to_toml(),
    })
}

/// The newest head of a record that this host knows, as text.
pub(super) fn known_head(record: Option<RecordId>, context: &Context) -> Option<String> {
    let home = context.home().ok()??;
    let stored = threadseal_store::heads::HeadStore::fetch(&home.heads(), &record?).ok()??;
    Some(stored.head.to_string())
}

/// A failure, for a page.
#[expect(clippy::needless_pass_by_value, reason = "as map_err passes it")]
pub(super) fn plain(failure: Failure) -> Error {
    Error::new(ErrorKind::External, failure.to_string())
}
