//! [`Scene`]: a project in which threads and graphs run, with its own host, keys and trust, and
//! views of all that they leave.

use super::checks::{Events, Fails};
use super::doubles::{Asked, Ignore, Listener, Only};
use crate::budget::SqliteBudgets;
use crate::config::Config;
use crate::config::models::Prices;
use crate::item::{Finder, Grounds, ItemId, ItemPolicy};
use crate::journal::{Journal, Origin};
use crate::limit::Limits;
use crate::model::{ChatMessage, Chosen, ScriptModel};
use crate::project::{Layout, Project};
use crate::project_id;
use crate::registry::{Filter, Inspection, SqliteRegistry, Thread};
use crate::runner::orchestrator::Records;
use crate::runner::{
    Engine, GraphOrder, GraphResumption, Order, Ran, Resumption, Services, Unresolved,
};
use crate::signed_file::SignedFile;
use crate::toolbox::{Cancel, Hub, ReadFile, Tool, WriteFile};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use threadseal_core::canon::json::Value as Sealed;
use threadseal_core::error::Error;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, Signer as _};
use threadseal_core::record::ThreadId;
use threadseal_core::report::Verdict;
use threadseal_core::trust::{Trust, TrustName, TrustStore, TrustedKey};
use threadseal_formats::document::{self, DocumentKind, ItemType, Options};
use threadseal_formats::transcript::event::{EventType, Payload};
use threadseal_formats::transcript::ext::Ext;
use threadseal_formats::transcript::manifest::{Manifest, parse_line};
use threadseal_formats::transcript::{Ending, ScanOptions, VerifyOptions, verify};
use threadseal_store::atomic;
use threadseal_store::clock::SystemClock;
use threadseal_store::fault::FaultFs;
use threadseal_store::heads::MemoryHeadStore;
use threadseal_store::host::Host;
use threadseal_store::key_ends::NoKeyEnds;
use threadseal_store::random::SystemRandom;
use threadseal_store::read::read_small;
use threadseal_store::recorder::{Keys, Recorder};
use threadseal_store::sys::{FileKind, Fs as _, RealFs};

/// One answer.
pub(crate) const GLADLY: &str = "answers: [{text: Gladly.}]";
/// A call that reads, and the end.
pub(crate) const READS: &str = "answers:\n\
    - {text: I read., calls: [{tool: rye_file-system_read, input: {path: notes.txt}}]}\n\
    - {text: Done.}\n";

/// A folder in memory, if the machine has one with room: durable writes cost nothing there.
pub(crate) fn folder() -> TempDir {
    let free = rustix::fs::statvfs("/dev/shm").map(|found| found.f_bavail * found.f_frsize);
    match free {
        Ok(free) if free > 4 << 30 => tempfile::tempdir_in("/dev/shm").unwrap(),
        _ => tempfile::tempdir().unwrap(),
    }
}

pub(crate) struct Scene {
    pub(crate) folder: TempDir,
    pub(crate) host: Host,
    pub(crate) keys: Keys,
    pub(crate) trust: Trust,
    pub(crate) project: Project,
    /// The requests to the models.
    pub(crate) asked: Asked,
    /// The window of the models.
    pub(crate) window: u64,
    /// The prices of the models.
    pub(crate) prices: Prices,
    /// Settings of the coordination.
    pub(crate) coordination: String,
    policy: ItemPolicy,
    /// Where the databases are, if not in the project.
    databases: Option<TempDir>,
}

impl Scene {
    /// Unsigned items count; threads read and write files.
    pub(crate) fn new() -> Self {
        let key =
            |seed, usage| Arc::new(LocalSigner::new(PrivateKey::from_seed([seed; 32]), usage));
        let (native, rye) = (key(1, KeyUsage::Native), key(2, KeyUsage::Rye));
        let mut store = TrustStore::new();
        for (name, signer) in [("self", &native), ("self-rye", &rye)] {
            let name = TrustName::parse(name).unwrap();
            let key = TrustedKey::new(name, *signer.public_key(), [signer.usage()]);
            store.add(key).unwrap();
        }
        let folder = folder();
        let fs = RealFs::shared();
        let project = Project::init(&*fs, folder.path()).unwrap();
        Self {
            folder,
            host: Host {
                fs,
                clock: Arc::new(SystemClock),
                random: Arc::new(SystemRandom),
                heads: Arc::new(MemoryHeadStore::default()),
                keys: Arc::new(NoKeyEnds),
            },
            keys: Keys {
                native,
                rye,
                epochs: None,
            },
            trust: Trust::new(store),
            project,
            asked: Asked::default(),
            window: 200_000,
            prices: Prices::default(),
            coordination: String::new(),
            policy: ItemPolicy::AllowUnsigned,
            databases: None,
        }
    }

    /// The same on a disk that can fail; its databases are on a real one.
    pub(crate) fn failing() -> (FaultFs, Self) {
        let (disk, mut scene) = (FaultFs::new(), Self::new());
        disk.create_dir(Path::new("/p"), 0o700).unwrap();
        scene.host.fs = disk.shared();
        scene.project = Project::init(&*scene.host.fs, Path::new("/p")).unwrap();
        (disk, scene)
    }

    /// Only signed items count. The directive `demo/say` reads `notes.txt`; the databases are not in
    /// the project.
    pub(crate) fn signed(mut self) -> Self {
        (self.policy, self.databases) = (ItemPolicy::Signed, Some(folder()));
        self.reader("demo/say", "", "Say {input:name}.");
        self.file("notes.txt", "some notes ".repeat(40));
        self
    }

    /// The host forgets all heads.
    pub(crate) fn forget_heads(&mut self) {
        self.host.heads = Arc::new(MemoryHeadStore::default());
    }
}

/// Files.
impl Scene {
    /// A path in the project.
    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.project.root().join(path)
    }

    /// The folder of a thread.
    pub(crate) fn folder_of(&self, thread: &ThreadId) -> PathBuf {
        self.project.thread(thread).path().to_owned()
    }

    pub(crate) fn transcript(&self, thread: &ThreadId) -> PathBuf {
        self.project.thread(thread).transcript()
    }

    /// The step ledger of a thread; it has an index beside it.
    pub(crate) fn ledger(&self, thread: &ThreadId) -> PathBuf {
        let folder = self.folder_of(thread);
        let names = self.host.fs.read_dir(&folder).unwrap().into_iter();
        let is_ledger = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.starts_with("ledger_") && name.ends_with(".jsonl")
        };
        let mut found = names.map(|name| folder.join(name)).filter(is_ledger);
        found.next().unwrap()
    }

    /// Writes a file of the project.
    pub(crate) fn file(&self, path: &str, text: impl AsRef<[u8]>) {
        let (fs, path) = (&*self.host.fs, self.path(path));
        atomic::create_directories(fs, path.parent().unwrap(), 0o700).unwrap();
        atomic::replace(fs, &path, text.as_ref(), atomic::Mode::KeepOr(0o600)).unwrap();
    }

    /// Writes and seals a file of the project.
    pub(crate) fn seal(&self, path: &str, text: &str) -> SignedFile {
        let full = self.path(path);
        atomic::create_directories(&*self.host.fs, full.parent().unwrap(), 0o700).unwrap();
        let kind = DocumentKind::of_name(path).unwrap();
        let mut file = SignedFile::new(&self.host, &full, kind, item_type(path)).unwrap();
        file.write(&self.host, &self.keys, None, text.as_bytes())
            .unwrap();
        file
    }

    /// Writes an item, sealed where only signed ones count.
    pub(crate) fn item(&self, path: &str, text: &str) {
        match self.policy {
            ItemPolicy::Signed => drop(self.seal(path, text)),
            ItemPolicy::AllowUnsigned => self.file(path, text),
        }
    }

    /// A directive with these elements in its metadata and after it.
    pub(crate) fn directive(&self, id: &str, metadata: &str, rest: &str, prompt: &str) {
        let (category, name) = id.rsplit_once('/').unwrap();
        let text = format!(
            "# {name}\n\n```xml\n<directive name=\"{name}\" version=\"1.0.0\">\n  <metadata>\n    \
             <description>d</description>\n    <category>{category}</category>\n    \
             <model tier=\"general\" />\n    {metadata}\n  </metadata>\n  {rest}\n</directive>\n```\n\n\
             {prompt}\n"
        );
        self.item(&format!(".ai/directives/{id}.md"), &text);
    }

    /// A directive whose threads may read files and start threads.
    pub(crate) fn reader(&self, id: &str, metadata: &str, prompt: &str) {
        let permissions = "<permissions><execute><tool>rye.file-system.*</tool>\
                           <tool>rye.agent.threads.thread_directive</tool></execute></permissions>";
        let input =
            "<inputs><input name=\"name\" type=\"string\" required=\"false\">w</input></inputs>";
        self.directive(id, &format!("{permissions}\n    {metadata}"), input, prompt);
    }

    pub(crate) fn graph(&self, id: &str, text: &str) {
        self.item(&format!(".ai/graphs/{id}.yaml"), text);
    }

    #[track_caller]
    pub(crate) fn read(&self, path: impl AsRef<Path>) -> Vec<u8> {
        read_small(&*self.host.fs, &self.path(path), 1 << 30).unwrap()
    }

    #[track_caller]
    pub(crate) fn text(&self, path: impl AsRef<Path>) -> String {
        String::from_utf8(self.read(path)).unwrap()
    }

    #[track_caller]
    pub(crate) fn json(&self, path: impl AsRef<Path>) -> Value {
        serde_json::from_slice(&self.read(path)).unwrap()
    }

    /// Is the file or folder there?
    pub(crate) fn is_there(&self, path: impl AsRef<Path>) -> bool {
        self.host.fs.symlink_metadata(&self.path(path)).is_ok()
    }

    /// Every file below the project.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let (fs, mut files) = (&*self.host.fs, Vec::new());
        let mut folders = vec![self.project.root().to_owned()];
        while let Some(folder) = folders.pop() {
            for name in fs.read_dir(&folder).unwrap() {
                let path = folder.join(name);
                // The log of the home is written beside the test: a file may have been renamed.
                match fs.symlink_metadata(&path).map(|found| found.kind) {
                    Ok(FileKind::Directory) => folders.push(path),
                    Ok(_) => files.push(path),
                    Err(gone) => assert_eq!(gone.kind(), std::io::ErrorKind::NotFound),
                }
            }
        }
        files
    }

    /// Every file of the project, and every row of both databases.
    pub(crate) fn state(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let databases = [self.registry(), self.budgets()];
        let of_database = |path: &PathBuf| {
            let mut names = databases.iter().map(|database| database.to_str().unwrap());
            names.any(|name| path.to_str().unwrap().starts_with(name))
        };
        let files = self.files().into_iter();
        let files = files.filter(|path| !of_database(path));
        let mut state: BTreeMap<_, _> = files.map(|path| (path.clone(), self.read(path))).collect();
        for path in databases.iter().filter(|path| path.exists()) {
            state.insert(path.clone(), dump(path).into_bytes());
        }
        state
    }

    /// Does `work`, which must change no file and no row.
    #[track_caller]
    pub(crate) fn unchanged<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = self.state();
        let done = work();
        let after = self.state();
        let differs = |path: &&PathBuf| before.get(*path) != after.get(*path);
        let changed: Vec<_> = before.keys().chain(after.keys()).filter(differs).collect();
        assert!(changed.is_empty(), "changed: {changed:?}");
        done
    }
}

fn item_type(path: &str) -> Option<ItemType> {
    match path.strip_prefix(".ai/")?.split_once('/')?.0 {
        "directives" => Some(ItemType::Directive),
        "knowledge" => Some(ItemType::Knowledge),
        "tools" => Some(ItemType::Tool),
        _ => None,
    }
}

/// Databases.
impl Scene {
    fn database(&self, of: fn(&Project, Layout) -> PathBuf) -> PathBuf {
        let path = of(&self.project, Layout::Seed);
        let below = path.strip_prefix(self.project.root()).unwrap();
        match &self.databases {
            Some(folder) => folder.path().join(below.file_name().unwrap()),
            None => self.folder.path().join(below),
        }
    }

    pub(crate) fn registry(&self) -> PathBuf {
        self.database(Project::registry)
    }

    pub(crate) fn budgets(&self) -> PathBuf {
        self.database(Project::budgets)
    }

    /// Changes the registry without the program.
    pub(crate) fn sql(&self, sql: &str) {
        let database = rusqlite::Connection::open(self.registry()).unwrap();
        database.execute_batch(sql).unwrap();
    }

    /// The same, of the thread `?1`.
    pub(crate) fn edit(&self, sql: &str, thread: &ThreadId) {
        let database = rusqlite::Connection::open(self.registry()).unwrap();
        database.execute(sql, [thread.as_str()]).unwrap();
    }

    pub(crate) fn edit_budgets(&self, sql: &str, thread: &ThreadId) {
        let database = rusqlite::Connection::open(self.budgets()).unwrap();
        database.execute(sql, [thread.as_str()]).unwrap();
    }

    /// Sets the rows of a thread as those of one whose process was killed.
    pub(crate) fn as_if_killed(&self, thread: &ThreadId) {
        let running = "status = 'running', completed_at = NULL";
        self.edit(
            &format!("UPDATE threads SET {running} WHERE thread_id = ?1"),
            thread,
        );
        let active = "UPDATE budget_ledger SET status = 'active' WHERE thread_id = ?1";
        self.edit_budgets(active, thread);
    }
}

/// Every row of a database.
fn dump(path: &Path) -> String {
    let database = rusqlite::Connection::open(path).unwrap();
    let mut out = String::new();
    let tables = "select name from sqlite_master where type = 'table' order by name";
    let mut tables = database.prepare(tables).unwrap();
    let names = tables.query_map([], |row| row.get::<_, String>(0)).unwrap();
    for name in names.map(Result::unwrap) {
        let mut rows = database.prepare(&format!("select * from {name}")).unwrap();
        let columns = rows.column_count();
        let mut rows = rows.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            for column in 0..columns {
                write!(out, "{name} {:?} ", row.get_ref(column).unwrap()).unwrap();
            }
            out.push('\n');
        }
    }
    out
}

/// Threads.
impl Scene {
    pub(crate) fn finder(&self) -> Finder {
        let root = self.project.root().to_owned();
        Finder::new(Arc::clone(&self.host.fs), vec![root])
    }

    pub(crate) fn grounds(&self) -> Grounds<'_> {
        Grounds {
            trust: &self.trust,
            now: self.host.clock.now().unwrap(),
            heads: &*self.host.heads,
            policy: self.policy,
        }
    }

    /// The engine of threads that read files, and write them where unsigned items count.
    pub(crate) fn engine(&self, script: &str) -> Engine {
        let (fs, project) = (&self.host.fs, Arc::new(self.project.clone()));
        let read = ReadFile::new(Arc::clone(fs), Arc::clone(&project));
        let mut tools: Vec<Arc<dyn Tool>> = vec![Arc::new(read)];
        if self.policy == ItemPolicy::AllowUnsigned {
            tools.push(Arc::new(WriteFile::new(Arc::clone(fs), project)));
        }
        self.engine_with(script, tools)
    }

    /// The engine of threads that have these tools.
    pub(crate) fn engine_with(&self, script: &str, tools: Vec<Arc<dyn Tool>>) -> Engine {
        let finder = self.finder();
        let mut config = Config::load(&finder, &self.grounds()).unwrap();
        if !self.coordination.is_empty() {
            let node = crate::yaml::parse("coordination.yaml", &self.coordination).unwrap();
            config.coordination.overlay(&node).unwrap();
        }
        let model = Listener {
            script: ScriptModel::parse("script", script).unwrap(),
            asked: Arc::clone(&self.asked),
        };
        let chosen = Chosen {
            model: Arc::new(model),
            prices: self.prices,
            listed: None,
            context_window: self.window,
            max_output_tokens: 1000,
            system_prompt: None,
        };
        let path = ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
        Engine::new(Services {
            project: Arc::new(self.project.clone()),
            host: self.host.clone(),
            keys: self.keys.clone(),
            trust: Arc::new(self.trust.clone()),
            log: threadseal_verify::home_log::HomeLog::Never,
            finder,
            policy: self.policy,
            registry: Arc::new(SqliteRegistry::open(&self.registry()).unwrap()),
            budgets: Arc::new(SqliteBudgets::open(&self.budgets()).unwrap()),
            models: Arc::new(Only(chosen)),
            config: Arc::new(config),
            tools,
            environment: Arc::new(vec![path]),
            secrets: Arc::default(),
            supervisor: None,
            servers: Arc::new(Hub::new(Arc::clone(&self.host.clock))),
            watch: Arc::new(Ignore),
        })
    }

    /// An engine on a host that knows no heads.
    pub(crate) fn elsewhere(&self, script: &str) -> Engine {
        let mut engine = self.engine(script);
        engine.services.host.heads = Arc::new(MemoryHeadStore::default());
        engine
    }

    /// Runs `demo/say` for Ada.
    #[track_caller]
    pub(crate) fn run(&self, script: &str) -> Ran {
        let order = ordered("demo/say", json!({"name": "Ada"}));
        self.engine(script).run(&order).unwrap()
    }

    pub(crate) fn resume(&self, thread: &ThreadId, script: &str) -> Result<Ran, Error> {
        self.engine(script).resume(&again(thread))
    }

    /// The thread is neither resumed nor handed over, each time for a reason with one of these parts
    /// (`|` separates them), and nothing changes.
    #[track_caller]
    pub(crate) fn refuses(&self, thread: &ThreadId, parts: &str) {
        let engine = self.engine(GLADLY);
        for go_on in [Engine::resume, Engine::handoff] {
            let why = self.unchanged(|| go_on(&engine, &again(thread)).why());
            let has_part = parts.split('|').any(|part| why.contains(part));
            assert!(has_part, "{parts:?} is not in {why}");
        }
    }

    /// The events of a transcript, verified or not.
    #[track_caller]
    pub(crate) fn events(&self, thread: &ThreadId) -> Events {
        Events::parse(&self.read(self.transcript(thread)))
    }

    /// The events of a transcript that must be verified.
    #[track_caller]
    pub(crate) fn verified(&self, thread: &ThreadId) -> Events {
        assert_eq!(self.verdict(thread), Verdict::Verified, "{thread}");
        self.events(thread)
    }

    /// The verdict of a transcript.
    #[track_caller]
    pub(crate) fn verdict(&self, thread: &ThreadId) -> Verdict {
        let options = VerifyOptions {
            trust: &self.trust,
            now: self.host.clock.now().unwrap(),
            held_since: None,
            thread: Some(thread),
        };
        let bytes = self.read(self.transcript(thread));
        verify(&bytes, &ScanOptions::default(), &options)
            .report
            .verdict
    }

    /// Checks that every transcript and every signed file of the project is verified.
    #[track_caller]
    pub(crate) fn all_verify(&self) {
        let threads = self.project.threads(Layout::Seed);
        let mut count = 0;
        for path in self.files() {
            let name = path.file_name().unwrap().to_str().unwrap();
            let kind = match name {
                "transcript.jsonl" => {
                    let thread = path.parent().unwrap().strip_prefix(&threads).unwrap();
                    self.verified(&ThreadId::parse(thread.to_str().unwrap()).unwrap());
                    count += 1;
                    continue;
                }
                "thread.json" => DocumentKind::Json,
                name if name.ends_with(".md") && !path.starts_with(self.path(".ai/directives")) => {
                    DocumentKind::Markdown
                }
                _ => continue,
            };
            let shown = path.to_string_lossy();
            let options = Options {
                path: &shown,
                item_type: (kind == DocumentKind::Markdown).then_some(ItemType::Knowledge),
                ..Options::new(kind, &self.trust, self.host.clock.now().unwrap())
            };
            let report = document::verify(&self.read(&path), &options)
                .unwrap()
                .report;
            assert_eq!(report.verdict, Verdict::Verified, "{shown}: {report:?}");
            count += 1;
        }
        assert!(count >= 5, "{count} files");
    }

    /// The messages of the last request.
    pub(crate) fn last_asked(&self) -> Vec<ChatMessage> {
        self.asked.lock().unwrap().last().unwrap().1.clone()
    }

    /// The last message of the last request.
    pub(crate) fn last_told(&self) -> String {
        match self.last_asked().pop() {
            Some(ChatMessage::User(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    /// The record of a new thread `demo/say-1`.
    pub(crate) fn journal(&self) -> (ThreadId, Journal) {
        let thread = ThreadId::parse("demo/say-1").unwrap();
        let folder = self.project.thread(&thread);
        std::fs::create_dir_all(folder.path()).unwrap();
        let (native, rye) = (*self.keys.native.public_key(), *self.keys.rye.public_key());
        let manifest = Manifest::new(self.host.new_record().unwrap(), native, rye);
        let (keys, origin) = (self.keys.clone(), Origin::default());
        let journal = Journal::begin(&self.host, &folder, thread.clone(), manifest, keys, origin);
        (thread, journal.unwrap())
    }

    /// Records a thread again, on a host without heads, with this project in line 1.
    pub(crate) fn record_anew(&mut self, thread: &ThreadId, named: Option<&Sealed>) {
        self.forget_heads();
        let path = self.transcript(thread);
        let text = self.text(&path);
        let mut manifest = parse_line(text.lines().next().unwrap().as_bytes()).unwrap();
        let meta = manifest.meta.as_object().unwrap().iter();
        let meta = meta.filter_map(|(name, value)| match name.as_str() {
            Some(project_id::MEMBER) => named.map(|named| (name.clone(), named.clone())),
            _ => Some((name.clone(), value.clone())),
        });
        manifest.meta = Sealed::Object(meta.collect());
        std::fs::remove_file(&path).unwrap();
        let (host, keys) = (self.host.clone(), self.keys.clone());
        let mut recorder = Recorder::create(host, &path, thread.clone(), manifest, keys).unwrap();
        let events = Events::parse(text.as_bytes());
        let events = &events[2..];
        let turn = |event: &Value| event["payload"]["turn"].as_u64().unwrap();
        for (place, event) in events.iter().enumerate() {
            let payload = Payload::parse(event["payload"].to_string().as_bytes()).unwrap();
            let ending = match event["event_type"].as_str().unwrap() {
                "thread_completed" => Ending::Completed,
                "thread_cancelled" => Ending::Cancelled,
                "checkpoint" => {
                    recorder.seal(turn(event), Ext::default()).unwrap();
                    continue;
                }
                kind => {
                    let kind = EventType::parse(kind).unwrap();
                    recorder.append(&kind, &payload).unwrap();
                    continue;
                }
            };
            let turn = turn(&events[place + 1]);
            recorder.end(ending, &payload, turn).unwrap();
            return;
        }
        panic!("the thread has not ended");
    }
}

/// The order for a directive without inputs.
pub(crate) fn order(directive: &str) -> Order {
    ordered(directive, json!({}))
}

pub(crate) fn ordered(directive: &str, inputs: Value) -> Order {
    Order {
        directive: ItemId::parse(directive).unwrap(),
        inputs: members(inputs),
        limits: Limits::default(),
        cancel: Cancel::default(),
    }
}

pub(crate) fn graph_order(graph: &str, inputs: Value) -> GraphOrder {
    GraphOrder {
        graph: ItemId::parse(graph).unwrap(),
        inputs: members(inputs),
        limits: Limits::default(),
        cancel: Cancel::default(),
    }
}

fn members(inputs: Value) -> Map<String, Value> {
    match inputs {
        Value::Object(inputs) => inputs,
        other => panic!("not an object: {other}"),
    }
}

/// The thread is asked `Once more.`.
pub(crate) fn again(thread: &ThreadId) -> Resumption {
    Resumption {
        thread: thread.clone(),
        message: "Once more.".to_owned(),
        limits: Limits::default(),
        cancel: Cancel::default(),
    }
}

pub(crate) fn resume_graph(
    engine: &Engine,
    run: &ThreadId,
    unresolved: Unresolved,
) -> Result<Ran, Error> {
    engine.resume_graph(&GraphResumption {
        run: run.clone(),
        unresolved,
        limits: Limits::default(),
        cancel: Cancel::default(),
    })
}

/// The row of a thread.
#[track_caller]
pub(crate) fn row(engine: &Engine, thread: &ThreadId) -> Thread {
    engine.services.registry.get(thread).unwrap().unwrap()
}

/// All rows of the registry.
pub(crate) fn listed(engine: &Engine) -> Vec<Thread> {
    let listing = engine.services.registry.list(&Filter::default());
    listing.unwrap().threads
}

/// The faults that an inspection of the registry reports: codes, each with its thread.
pub(crate) fn told(engine: &Engine) -> Vec<(&'static str, String)> {
    let (records, budgets) = (Records::from(&engine.services), &engine.services.budgets);
    let (rows, left) = (listed(engine), records.left().unwrap());
    let mut inspection = Inspection::default();
    records
        .audit(&rows, &left, Some(&**budgets), &mut inspection)
        .unwrap();
    let faults = inspection.faults.into_iter();
    faults
        .map(|fault| (fault.code, fault.thread.unwrap_or_default()))
        .collect()
}
