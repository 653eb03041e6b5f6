//! Places of ledgers: the meaning of `LEDGER` on the command line.
//!
//! | text | place |
//! |---|---|
//! | `file:DIR`, a folder | a store of files |
//! | `sqlite:FILE`, an SQLite file | a store in it |
//! | `postgres://…`, `postgresql://…` | a store in a database |
//! | `s3://…`, `gs://…`, `az://…`, `object+file:DIR` | object storage, with settings from the
//! environment |
//! | any other file | a history bundle, or the lines of one run |

use crate::context::{self, Context};
use crate::exit::Failure;
use crate::record;
use crate::render::clean::Clean;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::canon::json;
use threadseal_core::canon::python;
use threadseal_core::error::Error;
use threadseal_core::limits::{MAX_BUNDLE_RUNS, MAX_SOURCE_BYTES};
use threadseal_core::record::RecordId;
use threadseal_formats::ledger::{Bundle, LineSplitter, RunId, record_in_place};
use threadseal_store::address::{self, Intent};
use threadseal_store::host::Host;
use threadseal_store::ledger::{JsonlLedgerStore, LedgerStore, LedgerStoreExt as _, known};
use threadseal_store::open;
use threadseal_store::read::{RegularFile, Source as _, open_regular};
use threadseal_store::sys::place_itself;
use threadseal_verify::detect::{self, LedgerShape};
use threadseal_verify::verifier::is_openable;

/// The number of runs that one request asks for.
const PAGE_RUNS: usize = 256;

/// A place of ledgers.
#[derive(Debug)]
pub(crate) enum Place {
    /// A folder of files, one for each run.
    Files(JsonlLedgerStore),
    /// Another store.
    Store(Box<dyn LedgerStore>),
    /// The ledger of one run.
    Lines(RegularFile),
    /// The ledgers of several runs, in one document.
    Bundle(Bundle),
}

/// The kind of place that a text names, before anything is opened.
enum Named<'a> {
    Folder(PathBuf),
    Address(&'a str),
    File(&'a Path),
}

/// Stores the place of a run's ledger in the home: the record itself has no place, and `verify` may
/// have to find it later. `own` is the place by the store itself, to which the head of an unsigned
/// ledger is bound.
///
/// # Errors
/// When no store has this address, or the heads cannot be read.
pub(crate) fn remember(
    text: &str,
    run: &RunId,
    own: Option<&str>,
    host: &Host,
) -> Result<(), Failure> {
    let place = match named(text)? {
        Named::Folder(folder) => host.place(&folder.join(format!("ledger_{run}.jsonl"))),
        Named::File(path) => host.place(path),
        Named::Address(address) => noted_address(address, host),
    };
    let run = run.record_id();
    let fetch = |record: &RecordId| host.heads.fetch(record);
    let signed = fetch(&run)?.is_some_and(|stored| known::is_signed(&stored));
    let unsigned = own.map(|own| record_in_place(&run, own));
    let unsigned = match unsigned {
        Some(record) if fetch(&record)?.is_some() => Some(record),
        _ => None,
    };
    for record in Some(run).filter(|_| signed).into_iter().chain(unsigned) {
        let noted = host.heads.noted_places(&record);
        let last = noted.iter().rev().find(|place| is_openable(place));
        if last != Some(&place) {
            host.heads.note_place(&record, &place);
        }
        // An address has many spellings, and the store knows one name of its place.
        let by_store = own.filter(|own| !noted.iter().any(|noted| noted == own));
        if let Some(own) = by_store.filter(|own| !is_openable(own)) {
            host.heads.note_place(&record, own);
        }
    }
    Ok(())
}

/// An address as the private index notes it: without secrets, and wherever a command runs.
pub(crate) fn noted_address(address: &str, host: &Host) -> String {
    match address.split_once(':') {
        Some((scheme, file)) if scheme.eq_ignore_ascii_case("sqlite") => {
            format!("sqlite:{}", host.place(Path::new(file)))
        }
        Some((scheme, folder)) if scheme.eq_ignore_ascii_case("object+file") => {
            format!("object+file:{}", host.place(Path::new(folder)))
        }
        _ => record::without_secrets(address),
    }
}

fn named(text: &str) -> Result<Named<'_>, Failure> {
    let path = Path::new(text);
    Ok(match address::folder_of(text)? {
        Some(folder) => Named::Folder(folder),
        None if address::is_address(text) && !path.exists() => Named::Address(text),
        None if path.is_dir() => Named::Folder(path.to_owned()),
        None => Named::File(path),
    })
}

fn opened(address: &str, intent: Intent) -> Result<Box<dyn LedgerStore>, Error> {
    open::ledgers(address, intent, &context::object_storage_settings())
}

/// The store that `text` names, to append to; it is created if it is missing.
///
/// # Errors
/// When it names none, or the store cannot be opened.
pub(crate) fn writable(text: &str, context: &Context) -> Result<Box<dyn LedgerStore>, Failure> {
    Ok(match named(text)? {
        Named::Folder(folder) => {
            Box::new(JsonlLedgerStore::open(Arc::clone(&context.fs), &folder)?)
        }
        Named::Address(address) => opened(address, Intent::Write)?,
        Named::File(path) if !path.exists() => {
            let text = "there is no such folder; hint: write file:DIR to create it";
            return Err(Failure::new(text).about(path));
        }
        Named::File(path) => {
            let text = "this is a file; name a store to write to: a folder, file:DIR, sqlite:FILE, postgres://… or s3://…";
            return Err(Failure::new(text).about(path));
        }
    })
}

/// The place that `text` names, to read it; nothing is created.
///
/// # Errors
/// When it does not exist, holds no ledgers or cannot be read.
pub(crate) fn readable(text: &str, context: &Context) -> Result<Place, Failure> {
    Ok(match named(text)? {
        Named::Folder(folder) if !folder.is_dir() => {
            return Err(Failure::new("there is no such folder").about(&folder));
        }
        Named::Folder(folder) => {
            Place::Files(JsonlLedgerStore::open(Arc::clone(&context.fs), &folder)?)
        }
        Named::Address(address) => Place::Store(opened(address, Intent::Read)?),
        Named::File(path) => {
            let file = open_regular(&*context.fs, path)?;
            match detect::ledger_shape(&file)? {
                LedgerShape::Lines => Place::Lines(file),
                LedgerShape::Sqlite => Place::Store(database(path)?),
                LedgerShape::Bundle => {
                    let bytes = file.read_whole(MAX_SOURCE_BYTES)?;
                    Place::Bundle(Bundle::parse(&bytes)?)
                }
            }
        }
    })
}

#[cfg(feature = "sqlite")]
fn database(file: &Path) -> Result<Box<dyn LedgerStore>, Failure> {
    use threadseal_store::sqlite::SqliteLedgerStore;
    Ok(Box::new(SqliteLedgerStore::open_read_only(file)?))
}

#[cfg(not(feature = "sqlite"))]
fn database(file: &Path) -> Result<Box<dyn LedgerStore>, Failure> {
    use threadseal_core::error::Unbuilt;
    let file = file.display();
    Err(Unbuilt::Sqlite.error(format_args!("open {file}")).into())
}

/// Does `text` name a file that claims to be a bundle, even an invalid one?
pub(crate) fn is_bundle(text: &str, context: &Context) -> bool {
    let Ok(Named::File(path)) = named(text) else {
        return false;
    };
    let shape = open_regular(&*context.fs, path).map_err(Failure::from);
    let shape = shape.and_then(|file| Ok(detect::ledger_shape(&file)?));
    shape.is_ok_and(|shape| shape == LedgerShape::Bundle)
}

impl Place {
    /// The store, if it is one.
    ///
    /// # Errors
    /// When it is a file of records or a bundle.
    pub(crate) fn store(&self) -> Result<&dyn LedgerStore, Failure> {
        match self {
            Self::Files(store) => Ok(store),
            Self::Store(store) => Ok(&**store),
            Self::Lines(_) | Self::Bundle(_) => Err(Failure::new(
                "this is a file; name a store: a folder, file:DIR, sqlite:FILE, postgres://… or s3://…",
            )),
        }
    }

    /// The place of the ledger of `run`, to which the head of an unsigned one is bound.
    pub(crate) fn place_of(&self, run: &RunId, context: &Context) -> Option<String> {
        match self {
            Self::Files(store) => store.place_of(run),
            Self::Store(store) => store.place_of(run),
            Self::Lines(file) => Some(place_itself(&*context.fs, file.path())),
            Self::Bundle(_) => None,
        }
    }

    /// The file that holds only the ledger of `run`, if there is one.
    ///
    /// # Errors
    /// When the file cannot be opened, or the run has no file name.
    pub(crate) fn file_of(
        &self,
        run: Option<&RunId>,
        context: &Context,
    ) -> Result<Option<PathBuf>, Failure> {
        match (self, run) {
            (Self::Lines(file), _) => Ok(Some(file.path().to_owned())),
            (Self::Files(store), Some(run)) => {
                let path = store.path_of(run)?;
                // For a run without a file, the store reports an empty ledger.
                let there = context.fs.symlink_metadata(&path).is_ok();
                Ok(there.then_some(path))
            }
            _ => Ok(None),
        }
    }

    /// The runs at this place, at most [`MAX_BUNDLE_RUNS`].
    ///
    /// # Errors
    /// When it cannot be read, or has more.
    pub(crate) fn runs(&self) -> Result<Vec<RunId>, Failure> {
        let store: &dyn LedgerStore = match self {
            Self::Files(store) => store,
            Self::Store(store) => &**store,
            Self::Lines(file) => return Ok(known::run_of(file.chunks())?.into_iter().collect()),
            Self::Bundle(bundle) => {
                return Ok(bundle
                    .ledgers
                    .iter()
                    .map(|ledger| ledger.run.clone())
                    .collect());
            }
        };
        let mut all: Vec<RunId> = Vec::new();
        loop {
            let page = store.runs(all.last(), PAGE_RUNS)?;
            if page.is_empty() {
                return Ok(all);
            }
            all.extend(page);
            if all.len() > MAX_BUNDLE_RUNS {
                return Err(Failure::new(format!(
                    "more than {MAX_BUNDLE_RUNS} runs; name one with --run"
                )));
            }
        }
    }

    /// Refuses a store that holds more than its runs.
    ///
    /// # Errors
    /// When a name in it fits no run; when it cannot be read.
    pub(crate) fn has_no_strays(&self) -> Result<(), Failure> {
        let strays = match self {
            Self::Files(store) => store.strays(1)?,
            Self::Store(store) => store.strays(1)?,
            Self::Lines(_) | Self::Bundle(_) => Vec::new(),
        };
        match strays.first() {
            None => Ok(()),
            Some(name) => Err(Failure::new(format!(
                "an object is stored under {}, which is not a run id; hint: name the run with --run",
                Clean(name)
            ))),
        }
    }

    /// The run that the arguments select.
    ///
    /// # Errors
    /// When none is named and there is not exactly one.
    pub(crate) fn one(&self, run: Option<&RunId>) -> Result<RunId, Failure> {
        if let Some(run) = run {
            return Ok(run.clone());
        }
        let mut runs = self.runs()?;
        match (runs.pop(), runs.len()) {
            (Some(run), 0) => Ok(run),
            (None, _) => Err(Failure::new("no run was found")),
            (Some(_), others) => Err(Failure::new(format!(
                "there are {} runs here; name one with --run",
                others + 1
            ))),
        }
    }

    /// Passes the records of `run` to `take` as lines, one JSON object each, in order.
    ///
    /// # Errors
    /// When it cannot be read, a line of a file is no record; any error of `take`.
    pub(crate) fn each(
        &self,
        run: &RunId,
        take: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let store: &dyn LedgerStore = match self {
            Self::Files(store) => store,
            Self::Store(store) => &**store,
            Self::Lines(file) => return lines(file, take),
            Self::Bundle(bundle) => {
                let ledger = bundle.ledgers.iter().find(|ledger| ledger.run == *run);
                let lines = ledger.map(|ledger| &*ledger.lines).unwrap_or_default();
                return lines.iter().try_for_each(|line| take(line));
            }
        };
        store
            .list(run, 0)
            .try_for_each(|record| take(&record?.line))
    }
}

fn lines(
    file: &RegularFile,
    take: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let (mut splitter, mut chunks, mut chunk) = (LineSplitter::new(), file.chunks(), Vec::new());
    loop {
        chunks.next_chunk(&mut chunk)?;
        let mut result = Ok(());
        let mut each = |line: &[u8], place: threadseal_formats::ledger::Place| {
            if result.is_ok() && !line.trim_ascii().is_empty() {
                result = compact(line, place.line).and_then(|line| take(&line));
            }
        };
        if chunk.is_empty() {
            splitter.finish(&mut each);
            return result;
        }
        splitter.push(&chunk, &mut each);
        result?;
    }
}

/// A record as stores hold it: the line unchanged, unless there are blanks around it or it is no
/// strict JSON.
fn compact(line: &[u8], number: u64) -> Result<Vec<u8>, Error> {
    if line.starts_with(b"{") && json::validate(line).is_ok() && line.ends_with(b"}") {
        return Ok(line.to_vec());
    }
    let refuse = |why: &str| Error::refused(format!("line {number} is not a record: {why}"));
    let document = json::parse_python(line.trim_ascii()).map_err(|e| refuse(&e.to_string()))?;
    if document.value.as_object().is_none() {
        return Err(refuse("not an object"));
    }
    python::ledger_line(&document.value).map_err(|e| refuse(&e.to_string()))
}
