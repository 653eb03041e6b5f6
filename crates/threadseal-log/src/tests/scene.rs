//! The scenes of these tests, each made by one expression.
//!
//! ```text
//! in_memory()        a home with a log, on a disk that fails on command
//! on_disk()          the same in a temporary folder
//! scene.with(edit)   the same disk and key, with another home or other second places
//! scene.open()       the log, as a process opens it
//! ```

use super::prelude::*;

/// The log of a scene.
pub(crate) const OWN: LogId = id(0xab);
/// The log that takes its place.
pub(crate) const NEXT: LogId = id(0xcd);

pub(crate) const fn id(byte: u8) -> LogId {
    LogId::from_bytes([byte; 16])
}

/// A key that keeps every tree that it signed.
#[derive(Debug)]
pub(crate) struct RecordingKey {
    seed: u8,
    signer: LocalSigner,
    signed: Mutex<Vec<TreeHead>>,
}

impl RecordingKey {
    pub(crate) fn of(seed: u8) -> Arc<Self> {
        Arc::new(Self {
            seed,
            signer: signer(seed, KeyUsage::Log),
            signed: Mutex::default(),
        })
    }

    /// The same key with a memory of its own.
    fn fork(&self) -> Arc<Self> {
        let fork = Self::of(self.seed);
        *fork.signed.lock().unwrap() = self.signed();
        fork
    }

    pub(crate) fn signed(&self) -> Vec<TreeHead> {
        self.signed.lock().unwrap().clone()
    }

    /// Asserts that no two trees of one size were signed.
    #[track_caller]
    pub(crate) fn assert_one_tree_of_each_size(&self, what: &str) {
        let mut by_size = BTreeMap::new();
        for tree in self.signed() {
            assert_eq!(*by_size.entry(tree.size).or_insert(tree), tree, "{what}");
        }
    }
}

impl Signer for RecordingKey {
    fn public_key(&self) -> &PublicKey {
        self.signer.public_key()
    }

    fn usage(&self) -> KeyUsage {
        self.signer.usage()
    }

    fn sign(&self, message: &Message) -> Result<Signature, Error> {
        let text = std::str::from_utf8(message.as_bytes()).unwrap();
        let text = threadseal_core::note::NoteText::parse(text).unwrap();
        let tree = *Checkpoint::parse(&text).unwrap().tree();
        self.signed.lock().unwrap().push(tree);
        self.signer.sign(message)
    }
}

/// A disk in memory or a folder on a real one.
pub(crate) trait Disk: Clone {
    fn fs(&self) -> Arc<dyn Fs>;
    fn get(&self, path: &Path) -> Option<Vec<u8>>;
    fn put(&self, path: &Path, bytes: &[u8]);
}

impl Disk for FaultFs {
    fn fs(&self) -> Arc<dyn Fs> {
        self.shared()
    }

    fn get(&self, path: &Path) -> Option<Vec<u8>> {
        self.bytes_of(path)
    }

    fn put(&self, path: &Path, bytes: &[u8]) {
        if self.set_bytes(path, bytes).is_err() {
            let folder = path.parent().unwrap();
            atomic::create_directories(self, folder, PRIVATE_DIRECTORY).unwrap();
            atomic::create_new(self, path, bytes, PRIVATE_FILE).unwrap();
        }
    }
}

impl Disk for Arc<TempDir> {
    fn fs(&self) -> Arc<dyn Fs> {
        RealFs::shared()
    }

    fn get(&self, path: &Path) -> Option<Vec<u8>> {
        fs::read(path).ok()
    }

    fn put(&self, path: &Path, bytes: &[u8]) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

/// A home that may have a log, and the key of that log.
#[derive(Clone)]
pub(crate) struct Scene<D> {
    pub(crate) disk: D,
    pub(crate) registry: LogRegistry,
    pub(crate) key: Arc<RecordingKey>,
}

/// A scene with files that the test may change, move and remove.
pub(crate) type OnDisk = Scene<Arc<TempDir>>;
/// A scene on a disk that fails on command.
pub(crate) type InMemory = Scene<FaultFs>;

/// A home with a log, on a disk that fails on command.
pub(crate) fn in_memory() -> InMemory {
    Scene::empty(FaultFs::new(), Path::new("/home")).begun()
}

/// A home with a log, in a temporary folder.
pub(crate) fn on_disk() -> OnDisk {
    bare().begun()
}

/// A home without a log, in a temporary folder: in memory where the machine has such a one, because
/// a durable write costs nothing there.
pub(crate) fn bare() -> OnDisk {
    let memory = Path::new("/dev/shm");
    let folder = match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    };
    let folder = Arc::new(folder.unwrap());
    let home = folder.path().join("home");
    Scene::empty(folder, &home)
}

impl<D: Disk> Scene<D> {
    /// A home without a log.
    pub(crate) fn empty(disk: D, path: &Path) -> Self {
        let fs = disk.fs();
        atomic::create_directories(&*fs, path, PRIVATE_DIRECTORY).unwrap();
        let registry = LogRegistry::new(LogHome {
            fs,
            path: path.to_owned(),
            mark: path.with_extension("mark"),
            elsewhere: Vec::new(),
            host: None,
            settings: Vec::new(),
        });
        Self {
            disk,
            registry,
            key: RecordingKey::of(9),
        }
    }

    /// Begins the log [`OWN`].
    pub(crate) fn begun(self) -> Self {
        self.create(&self.describe(OWN), &[]).unwrap();
        self
    }

    /// The same disk and key with another home.
    pub(crate) fn with(&self, edit: impl FnOnce(&mut LogHome)) -> Self {
        let mut other = self.clone();
        edit(&mut other.registry.home);
        other
    }

    /// A home beside this one, with a second place of its own and no log.
    pub(crate) fn beside(&self, name: &str) -> Self {
        let path = self.home().path.with_file_name(name);
        Self {
            key: Arc::clone(&self.key),
            ..Self::empty(self.disk.clone(), &path)
        }
    }

    pub(crate) fn home(&self) -> &LogHome {
        &self.registry.home
    }

    /// The folder of the log [`OWN`].
    pub(crate) fn folder(&self) -> PathBuf {
        self.home().dir(OWN).root
    }

    /// A file of the log [`OWN`], or one with an absolute path.
    pub(crate) fn get(&self, path: impl AsRef<Path>) -> Vec<u8> {
        let path = self.folder().join(path);
        let bytes = self.disk.get(&path);
        bytes.unwrap_or_else(|| panic!("no file {}", path.display()))
    }

    pub(crate) fn put(&self, path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
        self.disk.put(&self.folder().join(path), bytes.as_ref());
    }

    pub(crate) fn remove(&self, path: impl AsRef<Path>) {
        self.disk.fs().unlink(&self.folder().join(path)).unwrap();
    }

    /// The files of the second places on this disk.
    pub(crate) fn mark_files(&self) -> Vec<PathBuf> {
        let marks = FolderMark::all(self.home(), &self.current());
        marks.iter().map(|mark| mark.path().to_owned()).collect()
    }

    /// The mark that the log [`OWN`] has ended, as a restart leaves it.
    pub(crate) fn ended_file(&self) -> PathBuf {
        self.home().mark.join(format!("{OWN}.ended"))
    }

    /// A description of the log with this id, by the key of this scene.
    pub(crate) fn describe(&self, id: LogId) -> Description {
        Description {
            id,
            key: *self.key.public_key(),
            host: self.home().host,
            marks: Vec::new(),
            single_host: false,
        }
    }

    fn log_key(&self) -> LogKey {
        LogKey(Arc::clone(&self.key) as _)
    }

    pub(crate) fn create(&self, of: &Description, heads: &[LoggedHead]) -> Result<(), Error> {
        let keep = || Ok(());
        self.registry.create(of, &self.log_key(), heads, &keep)
    }

    /// The current log.
    pub(crate) fn current(&self) -> Description {
        self.registry.current().unwrap().unwrap()
    }

    /// Asserts that the second place knows a log that is gone.
    #[track_caller]
    pub(crate) fn assert_missing(&self, what: &str) -> Error {
        let error = self.registry.current().expect_err(what);
        assert!(error.to_string().contains("log_missing"), "{what}: {error}");
        error
    }

    pub(crate) fn open(&self) -> SealLog {
        self.try_open().unwrap()
    }

    pub(crate) fn try_open(&self) -> Result<SealLog, Error> {
        let current = self.registry.current()?;
        let current = current.ok_or_else(|| Error::invalid("no log"))?;
        Ok(self.open_as(current, Some(self.log_key()), 5))
    }

    /// A process without the key: it can commit nothing.
    pub(crate) fn open_without_key(&self) -> SealLog {
        self.open_as(self.current(), None, 6)
    }

    fn open_as(&self, description: Description, key: Option<LogKey>, seed: u64) -> SealLog {
        let random = Arc::new(SeededRandom::new(seed));
        SealLog::open(self.registry.clone(), description, key, random)
    }

    /// Commits these heads in a process of their own.
    #[track_caller]
    pub(crate) fn commit(&self, heads: impl IntoIterator<Item = LoggedHead>) {
        self.open().commit_heads(heads);
    }

    pub(crate) fn fault(&self) -> Option<Fault> {
        self.open().fault().unwrap()
    }

    /// The remains of the log, with these copies.
    pub(crate) fn past(&self, copies: &[&Path]) -> OldLog {
        self.try_past(copies).unwrap()
    }

    pub(crate) fn try_past(&self, copies: &[&Path]) -> Result<OldLog, Error> {
        let copies: Vec<PathBuf> = copies.iter().map(|path| path.to_path_buf()).collect();
        Ok(self.registry.past(&copies, None)?.unwrap())
    }

    /// Replaces the old log by the log [`NEXT`] where nothing of it is lost; answers how many heads were carried over.
    pub(crate) fn replace(&self, old: OldLog) -> Result<usize, Error> {
        self.replace_by(old, &self.describe(NEXT), &[], false)
    }

    pub(crate) fn replace_by(
        &self,
        old: OldLog,
        next: &Description,
        stored: &[LoggedHead],
        all_the_same: bool,
    ) -> Result<usize, Error> {
        let registry = &self.registry;
        registry.restart(old, next, &self.log_key(), stored, all_the_same)
    }

    /// Begins the log with this id in the place of the current one, whatever is lost; answers how many heads were carried over, and
    /// how many entries are lost.
    pub(crate) fn restart(
        &self,
        id: LogId,
        copies: &[&Path],
        stored: &[LoggedHead],
    ) -> (usize, u64) {
        let old = self.past(copies);
        let lacking = old.lacking;
        let next = self.describe(id);
        (self.replace_by(old, &next, stored, true).unwrap(), lacking)
    }

    /// The files of heads of this home.
    pub(crate) fn stored(&self) -> FileHeadStore {
        FileHeadStore::new(self.disk.fs(), self.home().path.join("heads"))
    }

    /// The heads of this home with their log.
    pub(crate) fn logged(&self, log: &Arc<SealLog>) -> LoggedHeads {
        LoggedHeads::new(Arc::new(self.stored()), Arc::clone(log))
    }
}

impl InMemory {
    /// The same state on a disk of its own, by a key with a memory of its own.
    pub(crate) fn fork(&self) -> Self {
        let disk = self.disk.copy();
        Self {
            registry: self.with(|home| home.fs = disk.shared()).registry,
            key: self.key.fork(),
            disk,
        }
    }
}

impl OnDisk {
    /// A path beside the home.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.disk.path().join(name)
    }

    /// Copies a folder to this name beside the home.
    pub(crate) fn keep(&self, folder: impl AsRef<Path>, name: &str) -> PathBuf {
        let copy = self.path(name);
        put_back(folder.as_ref(), &copy);
        copy
    }

    /// Copies the logs of the home to this name beside it.
    pub(crate) fn keep_logs(&self, name: &str) -> PathBuf {
        self.keep(self.home().logs(), name)
    }

    pub(crate) fn put_logs_back(&self, copy: &Path) {
        put_back(copy, &self.home().logs());
    }

    pub(crate) fn remove_logs(&self) {
        fs::remove_dir_all(self.home().logs()).unwrap();
    }

    /// A copy of the home that has the same second place.
    pub(crate) fn copied(&self, name: &str) -> Self {
        let path = self.keep(&self.home().path, name);
        self.with(|home| home.path = path)
    }
}

/// Puts a copy of a folder in the place of another one.
pub(crate) fn put_back(copy: &Path, folder: &Path) {
    if folder.exists() {
        fs::remove_dir_all(folder).unwrap();
    }
    overlay(copy, folder);
}

/// Puts the files of one folder over those of another.
pub(crate) fn overlay(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => overlay(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

/// What most tests ask of a log.
pub(crate) trait Asked {
    fn tree(&self) -> TreeHead;
    fn size(&self) -> u64;
    fn newest_of(&self, number: u8) -> Option<LoggedHead>;
    fn entry(&self, number: u64) -> LogEntry;
    /// Publishes these heads, and asserts that they are committed.
    fn commit_heads(&self, heads: impl IntoIterator<Item = LoggedHead>);
    /// Asserts that a flush leaves nothing behind.
    fn settle(&self);
    /// Publishes a head; the error for which it, and no other head, waits.
    fn refuse(&self, head: LoggedHead) -> Error;
    fn assert_whole(&self);
}

impl Asked for SealLog {
    fn tree(&self) -> TreeHead {
        self.view().unwrap().tree()
    }

    fn size(&self) -> u64 {
        self.tree().size
    }

    #[track_caller]
    fn newest_of(&self, number: u8) -> Option<LoggedHead> {
        let newest = self.newest(&record(number)).unwrap();
        newest.map(|(_, head)| head)
    }

    fn entry(&self, number: u64) -> LogEntry {
        LogEntry::read(&self.view().unwrap().entry(number).unwrap()).unwrap()
    }

    #[track_caller]
    fn commit_heads(&self, heads: impl IntoIterator<Item = LoggedHead>) {
        heads.into_iter().for_each(|head| self.publish(&head));
        self.settle();
    }

    #[track_caller]
    fn settle(&self) {
        let published = self.flush();
        assert!(published.error.is_none(), "{published:?}");
        assert_eq!(published.waiting, 0);
        assert_eq!(published.forks, []);
    }

    #[track_caller]
    fn refuse(&self, head: LoggedHead) -> Error {
        self.publish(&head);
        let published = self.flush();
        assert_eq!(published.waiting, 1, "{published:?}");
        published.error.unwrap()
    }

    #[track_caller]
    fn assert_whole(&self) {
        assert_eq!(self.fsck().unwrap().faults, Vec::<String>::new());
    }
}

pub(crate) fn record(number: u8) -> RecordId {
    RecordId::from_bytes([number; 32])
}

pub(crate) fn head(number: u8, seq: u64) -> LoggedHead {
    LoggedHead {
        kind: RecordKind::Transcript,
        head: Head {
            record: record(number),
            seq,
            size: 100 * (seq + 1),
            line: Digest::of(format!("{number} {seq}").as_bytes()),
        },
        root: Some(Digest::of(b"root")),
        key: None,
    }
}

/// The heads of one record with these numbers.
pub(crate) fn heads(number: u8, seqs: Range<u64>) -> impl Iterator<Item = LoggedHead> {
    seqs.map(move |seq| head(number, seq))
}

/// Another seal of the same number.
pub(crate) fn another(number: u8, seq: u64) -> LoggedHead {
    let mut other = head(number, seq);
    other.head.line = Digest::of(format!("another seal {seq}").as_bytes());
    other
}

/// A head as a host knows it.
pub(crate) fn known(number: u8, seq: u64) -> StoredHead {
    StoredHead {
        logged: None,
        ..StoredHead::of_log(LoggedAt {
            logged: head(number, seq),
            number: seq,
            entry: Arc::from("entry"),
        })
    }
}

/// An event that a key sealed about itself.
pub(crate) fn event(seed: u8, change: KeyChange) -> KeyEvent {
    KeyEvent::sign(change, &signer(seed, KeyUsage::Native)).unwrap()
}

pub(crate) fn revoked(seed: u8) -> KeyEvent {
    event(seed, KeyChange::Revoke)
}

/// The entries behind the first one: `record:seq` for a head, `key` for a new key, `end` for the end of one.
pub(crate) fn order(log: &SealLog) -> String {
    let entry = |number| match log.entry(number) {
        LogEntry::Head(LoggedHead { head, .. }) => {
            format!("{}:{}", head.record.as_bytes()[0], head.seq)
        }
        LogEntry::Key(event) if *event.change() == KeyChange::Create => "key".to_owned(),
        LogEntry::Key(_) => "end".to_owned(),
        other => panic!("{other:?}"),
    };
    let entries: Vec<String> = (1..log.size()).map(entry).collect();
    entries.join(" ")
}

/// The line that a process of this home writes to its spool for a head.
pub(crate) fn own_line<D: Disk>(scene: &Scene<D>, head: &LoggedHead) -> Vec<u8> {
    let secret = HomeSecret::make(&scene.home().dir(OWN), &SeededRandom::new(77)).unwrap();
    let mut line = secret.line(OWN, &LogEntry::Head(*head).to_bytes().unwrap());
    line.push(b'\n');
    line
}

/// Commits heads under the lock, without the thread that commits in the background.
pub(crate) fn commit(log: &SealLog, heads: &[LoggedHead]) -> Result<(), Error> {
    let work = |writer: &mut Writer<'_>, index: &HeadIndex| {
        let mut batch = HeadBatch::begin(writer);
        for head in heads {
            batch.add(writer, index, head)?;
        }
        writer.commit(&batch.entries)
    };
    log.access.write(&|| false, work).map(drop)
}

/// Commits entries as they are, whatever they contain.
pub(crate) fn commit_entries(log: &SealLog, entries: &[Vec<u8>]) {
    let work = |writer: &mut Writer<'_>, _: &HeadIndex| writer.commit(entries);
    log.access.write(&|| false, work).unwrap();
}

/// All trees that were ever signed are one history, and the log as it is now continues all of them.
#[track_caller]
pub(crate) fn one_history(log: &SealLog, key: &RecordingKey, what: &str) {
    key.assert_one_tree_of_each_size(what);
    let view = log.view().unwrap();
    for tree in key.signed() {
        assert!(view.continues(&tree).unwrap(), "{what}: {}", tree.size);
    }
}
