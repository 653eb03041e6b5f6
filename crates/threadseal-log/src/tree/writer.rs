//! [`Writer`]: the right to commit, under the log's lock.
//!
//! ```text
//! open     journal, tiles ─► are they one history with the marks? ─► sign what was committed and not signed
//! commit   entries, tree ─► journal, fsync ─► sign ─► signed line           one fsync, whatever the number of entries
//! fold     tiles ─► checkpoint ─► index ─► new journal                      each durable before the next
//! ```
//! A tree is signed only when its line is durable, and one text has one signature: whatever fails, no two trees of one size
//! are ever signed. A batch with its signature is durable, so a journal that ends with one is continued as it is by a process
//! that committed before. After a failure the state in memory does not count: the writer is dropped, and the next one makes the
//! journal durable and reads it. A journal that was put back may hold a batch that its log never signed, and that is no part
//! of what the log signed since: so the marks are asked first.

use crate::layout::description::Description;
use crate::layout::journal::{FOLD_ENTRIES, Journal, MAX_BATCH_ENTRIES, MAX_JOURNAL_BYTES};
use crate::layout::log_dir::{LogDir, damaged};
use crate::tree::contents::Contents;
use std::fmt;
use std::sync::Arc;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::Signer;
use threadseal_core::merkle::{Frontier, TreeHead, leaf_hash};
use threadseal_core::note::{self, SignedNote};
use threadseal_core::tlog::checkpoint::Checkpoint;
use threadseal_store::append::Log;
use threadseal_store::lock::{Exclusive, WriterLock};

/// The key of a log: of the usage `log`, and in this process.
#[derive(Clone)]
pub struct LogKey(pub Arc<dyn Signer + Send + Sync>);

impl fmt::Debug for LogKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LogKey").field(self.0.public_key()).finish()
    }
}

/// May a log with these contents, all that was committed among them, sign?
pub(crate) type Judge<'j> = dyn Fn(&Contents, TreeHead) -> Result<(), Error> + 'j;

/// The right to commit to one log.
#[derive(Debug)]
pub(crate) struct Writer<'l> {
    dir: &'l LogDir,
    description: &'l Description,
    key: &'l LogKey,
    /// None after it could not be begun anew.
    journal: Option<Log>,
    contents: Contents,
    frontier: Frontier,
    head: SignedNote,
    commits: u64,
    _lock: Exclusive,
}

impl<'l> Writer<'l> {
    /// Waits for the log's lock, only as long as `patient` is true, makes its journal durable, and signs what was committed and not
    /// signed, once `judge` has seen it. Before that nothing is signed, and no file but the journal's end is touched. `again`: this
    /// process committed before, so the journal's name is durable.
    ///
    /// # Errors
    /// What `judge` returns; kind `External` when another process stays in the log, a file is damaged or the system fails.
    pub(crate) fn open(
        dir: &'l LogDir,
        description: &'l Description,
        key: &'l LogKey,
        patient: &dyn Fn() -> bool,
        judge: &Judge<'_>,
        again: bool,
    ) -> Result<Self, Error> {
        let lock = Exclusive::enter_while(&*dir.fs, &dir.file("lock"), patient)?;
        let path = dir.journal();
        let held = WriterLock::acquire(dir.fs.clone(), &path)?;
        let bytes = held.reader()?.read_whole(MAX_JOURNAL_BYTES)?;
        let read = Journal::read(&bytes).ok_or_else(|| damaged(&path))?;
        // The name of a journal without a batch may be new.
        let whole = read.durable == bytes.len() as u64 && !read.batches.is_empty();
        let log = match again && whole {
            true => Log::resume(held)?,
            false => Log::open(held, read.durable)?,
        };
        let torn = read.committed < bytes.len() as u64;
        let loaded = load(dir, description, read)?;
        judge(&loaded.contents, loaded.frontier.head())?;
        let mut writer = Self {
            dir,
            description,
            key,
            journal: Some(log),
            contents: loaded.contents,
            frontier: loaded.frontier,
            head: loaded.signed,
            commits: 0,
            _lock: lock,
        };
        if loaded.unsigned || torn {
            // The bytes of a batch that was never committed go with the old journal.
            writer.head = writer.sign()?;
            writer.fold()?;
        }
        Ok(writer)
    }

    /// The last signed checkpoint.
    pub(crate) fn head(&self) -> &SignedNote {
        &self.head
    }

    /// How often entries were committed; each time one fsync made them durable.
    pub(crate) fn commits(&self) -> u64 {
        self.commits
    }

    /// The tree that it is of.
    pub(crate) fn tree(&self) -> TreeHead {
        self.frontier.head()
    }

    pub(crate) fn contents(&self) -> &Contents {
        &self.contents
    }

    /// Commits entries; all of them, or, after an error, all, the first ones or none.
    ///
    /// # Errors
    /// Kind `External` when the system fails; the writer is of no use then.
    pub(crate) fn commit(&mut self, entries: &[Vec<u8>]) -> Result<(), Error> {
        for batch in entries.chunks(MAX_BATCH_ENTRIES) {
            if self.contents.fresh().len() >= FOLD_ENTRIES {
                // It could not be folded before: a journal that only grows could not be read one day.
                self.fold()?;
            }
            let mut frontier = self.frontier.clone();
            for entry in batch {
                frontier.push_leaf(leaf_hash(entry));
            }
            let journal = self.journal()?;
            journal.append(&Journal::batch(batch, &frontier.head()))?;
            journal.sync()?;
            self.commits += 1;
            self.frontier = frontier;
            for entry in batch {
                self.contents.push(entry.clone());
            }
            self.head = self.sign()?;
            let signed = Journal::signed(&self.head);
            self.journal()?.append(&signed)?;
            if self.contents.fresh().len() >= FOLD_ENTRIES {
                self.fold()?;
            }
        }
        Ok(())
    }

    fn journal(&mut self) -> Result<&mut Log, Error> {
        let path = self.dir.journal();
        self.journal.as_mut().ok_or_else(|| {
            let why = format!("{} could not be begun anew before", path.display());
            Error::new(ErrorKind::External, why)
        })
    }

    fn sign(&self) -> Result<SignedNote, Error> {
        sign(self.description, self.key, self.frontier.head())
    }

    /// Writes what the journal holds into tiles, and begins a new one.
    ///
    /// # Errors
    /// As [`Writer::commit`].
    pub(crate) fn fold(&mut self) -> Result<(), Error> {
        let old = self.contents.base();
        self.dir.grow(old, self.contents.fresh())?;
        let text = self.head.to_string();
        self.dir.replace(&self.dir.checkpoint(), text.as_bytes())?;
        let folded = Contents::new(self.dir.clone(), self.frontier.size());
        let begun = Journal::begin(&self.head);
        let path = self.dir.journal();
        // Not every system replaces a file that is open. The log's own lock keeps others out.
        self.journal = None;
        self.dir.replace(&path, &begun)?;
        let held = WriterLock::acquire(self.dir.fs.clone(), &path)?;
        self.journal = Some(Log::open(held, begun.len() as u64)?);
        self.contents = folded;
        Ok(())
    }
}

/// Signs the checkpoint of a tree.
pub(crate) fn sign(
    description: &Description,
    key: &LogKey,
    tree: TreeHead,
) -> Result<SignedNote, Error> {
    let wrong = |error: note::NoteError| Error::invalid(error.to_string());
    let checkpoint = Checkpoint::new(description.origin()?, tree).map_err(wrong)?;
    let text = checkpoint.to_note_text().map_err(wrong)?;
    note::sign(text, &description.name()?, &*key.0)
}

/// What a journal and the tiles under it hold, after everything in them agreed.
pub(crate) struct Loaded {
    pub(crate) contents: Contents,
    pub(crate) frontier: Frontier,
    /// The last signed checkpoint, and its tree.
    pub(crate) signed: SignedNote,
    pub(crate) signed_tree: TreeHead,
    /// Is a batch committed after it?
    pub(crate) unsigned: bool,
}

/// Holds a journal against the log's key, its own trees, and the tiles.
pub(crate) fn load(
    dir: &LogDir,
    description: &Description,
    journal: Journal,
) -> Result<Loaded, Error> {
    let wrong = || damaged(&dir.journal());
    let base = description.checkpoint(&journal.base).ok_or_else(wrong)?;
    let base = *base.tree();
    let mut contents = Contents::new(dir.clone(), base.size);
    let mut frontier = contents.frontier(base.size)?;
    if frontier.head() != base {
        return Err(damaged(&dir.file("tile")));
    }
    let (mut signed, mut signed_tree) = (journal.base, base);
    for batch in journal.batches {
        for entry in batch.entries {
            frontier.push_leaf(leaf_hash(&entry));
            contents.push(entry);
        }
        if frontier.head() != batch.tree {
            return Err(wrong());
        }
        if let Some(note) = batch.signed {
            let checkpoint = description.checkpoint(&note).ok_or_else(wrong)?;
            if *checkpoint.tree() != batch.tree {
                return Err(wrong());
            }
            (signed, signed_tree) = (note, batch.tree);
        }
    }
    Ok(Loaded {
        unsigned: frontier.head() != signed_tree,
        contents,
        frontier,
        signed,
        signed_tree,
    })
}
