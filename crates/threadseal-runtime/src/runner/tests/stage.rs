//! A project in which threads run, on a real disk or on one that fails, with a model that keeps its
//! requests.

use crate::budget::SqliteBudgets;
use crate::config::Config;
use crate::directive::ModelChoice;
use crate::item::{Finder, Grounds, ItemId, ItemPolicy};
use crate::limit::Limits;
use crate::model::{Answer, ChatMessage, Chosen, Model, ModelError, Models, Request, ScriptModel};
use crate::project::Layout;
use crate::registry::SqliteRegistry;
use crate::runner::Services;
use crate::runner::{Engine, Order, Progress, Ran, Resumption, Watch};
use crate::signed_file::SignedFile;
use crate::testing::Bench;
use crate::toolbox::{Cancel, ReadFile, Tool};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_formats::document::{DocumentKind, ItemType};
use threadseal_store::atomic;
use threadseal_store::sys::FileKind;

/// All requests to a model.
pub(super) type Asked = Arc<Mutex<Vec<Vec<ChatMessage>>>>;

pub(super) struct Stage {
    pub(super) bench: Bench,
    databases: tempfile::TempDir,
    pub(super) asked: Asked,
    /// The models' window: small ones fill soon.
    pub(super) window: u64,
    pub(super) coordination: String,
}

struct Remembering {
    script: ScriptModel,
    asked: Asked,
}

impl Model for Remembering {
    fn name(&self) -> &str {
        "script"
    }

    fn ask(
        &self,
        request: &Request<'_>,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<Answer, ModelError> {
        self.asked.lock().unwrap().push(request.messages.to_vec());
        self.script.ask(request, on_text)
    }
}

struct Only {
    model: Arc<dyn Model>,
    window: u64,
}

impl Models for Only {
    fn choose(&self, _: &ModelChoice) -> Result<Chosen, Error> {
        Ok(Chosen {
            model: Arc::clone(&self.model),
            prices: crate::config::models::Prices::default(),
            context_window: self.window,
            max_output_tokens: 1000,
            system_prompt: None,
        })
    }
}

struct Nobody;

impl Watch for Nobody {
    fn progress(&self, _: &ThreadId, _: Progress<'_>) {}
}

impl Stage {
    /// With the directive `demo/say`, which may read files.
    pub(super) fn new() -> Self {
        Self::on(Bench::new())
    }

    pub(super) fn on(bench: Bench) -> Self {
        let stage = Self {
            bench,
            databases: tempfile::tempdir().unwrap(),
            asked: Asked::default(),
            window: 200_000,
            coordination: String::new(),
        };
        stage.directive("demo/say", "", "Say {input:name}.");
        stage.write("notes.txt", "some notes ".repeat(40).as_bytes());
        stage
    }

    /// Writes and seals a directive with these elements in its metadata.
    pub(super) fn directive(&self, id: &str, metadata: &str, prompt: &str) {
        let (category, name) = id.rsplit_once('/').unwrap();
        let text = format!(
            "# {name}\n\n```xml\n<directive name=\"{name}\" version=\"1.0.0\">\n  <metadata>\n    \
             <description>d</description>\n    <category>{category}</category>\n    <model tier=\"general\" />\n    \
             <permissions><execute><tool>rye.file-system.*</tool><tool>rye.agent.threads.thread_directive</tool>\
             </execute></permissions>\n    {metadata}\n  </metadata>\n  \
             <inputs><input name=\"name\" type=\"string\" required=\"false\">w</input></inputs>\n</directive>\n```\n\n\
             {prompt}\n"
        );
        self.seal(
            &format!(".ai/directives/{id}.md"),
            &text,
            ItemType::Directive,
        );
    }

    pub(super) fn seal(&self, path: &str, text: &str, item: ItemType) {
        let path = self.bench.project.root().join(path);
        let fs = &*self.bench.host.fs;
        atomic::create_directories(fs, path.parent().unwrap(), 0o700).unwrap();
        let kind = DocumentKind::Markdown;
        let mut file = SignedFile::new(&self.bench.host, &path, kind, Some(item)).unwrap();
        let (host, keys) = (&self.bench.host, &self.bench.keys);
        file.write(host, keys, None, text.as_bytes()).unwrap();
    }

    pub(super) fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.bench.project.root().join(path);
        let fs = &*self.bench.host.fs;
        atomic::create_directories(fs, path.parent().unwrap(), 0o700).unwrap();
        atomic::replace(fs, &path, bytes, atomic::Mode::KeepOr(0o600)).unwrap();
    }

    pub(super) fn read(&self, path: &Path) -> Vec<u8> {
        threadseal_store::read::read_small(&*self.bench.host.fs, path, 1 << 30).unwrap()
    }

    /// The engine, whose model answers by this script.
    pub(super) fn engine(&self, script: &str) -> Engine {
        let fs = Arc::clone(&self.bench.host.fs);
        let project = Arc::new(self.bench.project.clone());
        let finder = Finder::new(Arc::clone(&fs), vec![project.root().to_owned()]);
        let trust = Arc::new(self.bench.trust.clone());
        let grounds = Grounds {
            trust: &trust,
            now: self.bench.host.clock.now().unwrap(),
            heads: &*self.bench.host.heads,
            policy: ItemPolicy::Signed,
        };
        let mut config = Config::load(&finder, &grounds).unwrap();
        if !self.coordination.is_empty() {
            let node = crate::yaml::parse("coordination.yaml", &self.coordination).unwrap();
            config.coordination.overlay(&node).unwrap();
        }
        let script = ScriptModel::parse("script", script).unwrap();
        let model = Remembering {
            script,
            asked: Arc::clone(&self.asked),
        };
        let tools: Vec<Arc<dyn Tool>> = vec![Arc::new(ReadFile::new(
            Arc::clone(&fs),
            Arc::clone(&project),
        ))];
        let at = |name: &str| self.databases.path().join(name);
        Engine::new(Services {
            project,
            host: self.bench.host.clone(),
            keys: self.bench.keys.clone(),
            trust,
            log: threadseal_verify::home_log::HomeLog::Never,
            finder,
            policy: ItemPolicy::Signed,
            registry: Arc::new(SqliteRegistry::open(&at("registry.db")).unwrap()),
            budgets: Arc::new(SqliteBudgets::open(&at("budgets.db")).unwrap()),
            models: Arc::new(Only {
                model: Arc::new(model),
                window: self.window,
            }),
            config: Arc::new(config),
            tools,
            environment: Arc::default(),
            watch: Arc::new(Nobody),
        })
    }

    /// Runs `demo/say`.
    pub(super) fn run(&self, script: &str) -> Ran {
        self.engine(script).run(&order("demo/say")).unwrap()
    }

    pub(super) fn resume(&self, thread: &ThreadId, script: &str) -> Result<Ran, Error> {
        self.engine(script).resume(&again(thread))
    }

    pub(super) fn folder(&self, thread: &ThreadId) -> PathBuf {
        self.bench
            .project
            .threads(Layout::Seed)
            .join(thread.as_str())
    }

    pub(super) fn events(&self, thread: &ThreadId) -> Vec<Value> {
        let bytes = self.read(&self.folder(thread).join("transcript.jsonl"));
        let lines = bytes.split(|byte| *byte == b'\n');
        lines
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect()
    }

    pub(super) fn last_asked(&self) -> Vec<ChatMessage> {
        self.asked.lock().unwrap().last().unwrap().clone()
    }

    /// Every file of the project and every row of both databases.
    pub(super) fn state(&self) -> (BTreeMap<PathBuf, Vec<u8>>, Vec<String>) {
        let mut files = BTreeMap::new();
        let fs = &*self.bench.host.fs;
        let mut folders = vec![self.bench.project.root().to_owned()];
        while let Some(folder) = folders.pop() {
            for name in fs.read_dir(&folder).unwrap() {
                let path = folder.join(name);
                match fs.symlink_metadata(&path).unwrap().kind {
                    FileKind::Directory => folders.push(path),
                    _ => {
                        files.insert(path.clone(), self.read(&path));
                    }
                }
            }
        }
        let mut rows = Vec::new();
        for (file, tables) in [
            ("registry.db", ["threads", "threadseal_threads"]),
            ("budgets.db", ["budget_ledger", "threadseal_budgets"]),
        ] {
            for table in tables {
                rows.extend(self.rows(file, table));
            }
        }
        (files, rows)
    }

    fn rows(&self, file: &str, table: &str) -> Vec<String> {
        let database = rusqlite::Connection::open(self.databases.path().join(file)).unwrap();
        let Ok(mut found) = database.prepare(&format!("SELECT * FROM {table} ORDER BY thread_id"))
        else {
            // No thread ran yet.
            return Vec::new();
        };
        let columns = found.column_count();
        let mut rows = found.query([]).unwrap();
        let mut out = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            let cells = (0..columns).map(|column| format!("{:?}", row.get_ref(column).unwrap()));
            out.push(format!("{table}: {}", cells.collect::<Vec<_>>().join(", ")));
        }
        out
    }

    /// Changes the registry without the program.
    pub(super) fn edit(&self, sql: &str, thread: &ThreadId) {
        self.edit_in("registry.db", sql, thread);
    }

    pub(super) fn database(&self, file: &str) -> PathBuf {
        self.databases.path().join(file)
    }

    pub(super) fn batch(&self, file: &str, sql: &str) {
        let database = rusqlite::Connection::open(self.database(file)).unwrap();
        database.execute_batch(sql).unwrap();
    }

    pub(super) fn edit_in(&self, file: &str, sql: &str, thread: &ThreadId) {
        let database = rusqlite::Connection::open(self.database(file)).unwrap();
        database.execute(sql, [thread.as_str()]).unwrap();
    }
}

pub(super) fn order(directive: &str) -> Order {
    let mut inputs = Map::new();
    inputs.insert("name".to_owned(), json!("Ada"));
    Order {
        directive: ItemId::parse(directive).unwrap(),
        inputs,
        limits: Limits::default(),
        cancel: Cancel::default(),
    }
}

pub(super) fn again(thread: &ThreadId) -> Resumption {
    Resumption {
        thread: thread.clone(),
        message: "Once more.".to_owned(),
        limits: Limits::default(),
        cancel: Cancel::default(),
    }
}

pub(super) fn of<'e>(events: &'e [Value], kind: &str) -> Vec<&'e Value> {
    events
        .iter()
        .filter(|event| event["event_type"] == kind)
        .map(|event| &event["payload"])
        .collect()
}
