//! A project in which graphs run, and a view of the files that they leave.

use crate::budget::SqliteBudgets;
use crate::config::Config;
use crate::item::{Finder, Grounds, ItemId, ItemPolicy};
use crate::limit::Limits;
use crate::model::{Catalogue, ScriptModel, ToolSchema, Wish};
use crate::project::{Layout, Project};
use crate::registry::SqliteRegistry;
use crate::runner::GraphOrder;
use crate::runner::Services;
use crate::runner::{Engine, Progress, Watch};
use crate::testing::Bench;
use crate::toolbox::{Cancel, Invocation, Outcome, Tool, model_name};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::record::ThreadId;
use threadseal_core::report::Verdict;
use threadseal_formats::document::{DocumentKind, ItemType, Options};
use threadseal_formats::transcript::{ScanOptions, VerifyOptions};
use threadseal_store::atomic;
use threadseal_store::examine;
use threadseal_store::fault::FaultFs;
use threadseal_store::read::{open_regular, read_small};
use threadseal_store::sys::Fs as _;

pub(super) struct Field {
    pub(super) bench: Bench,
}

struct Nobody;

impl Watch for Nobody {
    fn progress(&self, _: &ThreadId, _: Progress<'_>) {}
}

/// The action of a stub.
type Does = Box<dyn Fn(&Value) -> Outcome + Send + Sync>;

struct Stub {
    schema: ToolSchema,
    id: String,
    does: Does,
}

impl Tool for Stub {
    fn id(&self) -> &str {
        &self.id
    }

    fn schema(&self) -> &ToolSchema {
        &self.schema
    }

    fn run(&self, call: &mut Invocation<'_>) -> Outcome {
        (self.does)(call.input)
    }
}

pub(super) fn tool(
    id: &str,
    does: impl Fn(&Value) -> Outcome + Send + Sync + 'static,
) -> Arc<dyn Tool> {
    Arc::new(Stub {
        schema: ToolSchema {
            name: model_name(id),
            description: String::new(),
            parameters: json!({"type": "object"}),
        },
        id: id.to_owned(),
        does: Box::new(does),
    })
}

/// A tool that returns its input.
pub(super) fn ok(id: &str) -> Arc<dyn Tool> {
    tool(id, |input| Outcome::ok(input.clone()))
}

pub(super) fn order(graph: &str, inputs: Value) -> GraphOrder {
    let Value::Object(inputs) = inputs else {
        panic!("inputs are an object")
    };
    GraphOrder {
        graph: ItemId::parse(graph).unwrap(),
        inputs,
        limits: Limits::default(),
        cancel: Cancel::default(),
    }
}

impl Field {
    pub(super) fn new() -> Self {
        Self {
            bench: Bench::new(),
        }
    }

    /// The same on a disk that can fail; its databases are on a real one.
    pub(super) fn failing() -> (FaultFs, Self) {
        let (disk, mut bench) = (FaultFs::new(), Bench::new());
        disk.create_dir(Path::new("/p"), 0o700).unwrap();
        bench.host.fs = disk.shared();
        bench.project = Project::init(&*bench.host.fs, Path::new("/p")).unwrap();
        (disk, Self { bench })
    }

    pub(super) fn database(&self, of: fn(&Project, Layout) -> PathBuf) -> PathBuf {
        let project = &self.bench.project;
        let path = of(project, Layout::Seed);
        let below = path.strip_prefix(project.root()).unwrap();
        self.bench.folder.path().join(below)
    }

    /// An engine with these tools; its model always answers `Hello Ada.`.
    pub(super) fn engine(&self, tools: Vec<Arc<dyn Tool>>) -> Engine {
        let bench = &self.bench;
        let root = bench.project.root().to_owned();
        let finder = Finder::new(Arc::clone(&bench.host.fs), vec![root]);
        let policy = ItemPolicy::AllowUnsigned;
        let grounds = Grounds {
            trust: &bench.trust,
            now: bench.host.clock.now().unwrap(),
            heads: &*bench.host.heads,
            policy,
        };
        let config = Config::load(&finder, &grounds).unwrap();
        let script = format!("answers:\n{}", "  - text: Hello Ada.\n".repeat(200));
        let wish = Wish {
            there: Some(Arc::new(ScriptModel::parse("script", &script).unwrap())),
            model: None,
            provider: None,
            base_url: None,
            replay: None,
        };
        let environment = Arc::new(Vec::new());
        let window = config.coordination.context_window;
        let (models, agent) = (config.models.clone(), config.agent.clone());
        let models = Catalogue::new(models, agent, wish, window, Arc::clone(&environment));
        let project = bench.project.clone();
        Engine::new(Services {
            registry: Arc::new(SqliteRegistry::open(&self.database(Project::registry)).unwrap()),
            budgets: Arc::new(SqliteBudgets::open(&self.database(Project::budgets)).unwrap()),
            project: Arc::new(project),
            host: bench.host.clone(),
            keys: bench.keys.clone(),
            trust: Arc::new(bench.trust.clone()),
            log: threadseal_verify::home_log::HomeLog::Never,
            finder,
            policy,
            models: Arc::new(models),
            config: Arc::new(config),
            tools,
            environment,
            watch: Arc::new(Nobody),
        })
    }

    pub(super) fn ai(&self, path: &str) -> PathBuf {
        self.bench.project.ai().join(path)
    }

    pub(super) fn write(&self, path: &str, text: &str) {
        let path = self.ai(path);
        let fs = &*self.bench.host.fs;
        atomic::create_directories(fs, path.parent().unwrap(), 0o700).unwrap();
        atomic::replace(fs, &path, text.as_bytes(), atomic::Mode::KeepOr(0o600)).unwrap();
    }

    pub(super) fn graph(&self, id: &str, text: &str) {
        self.write(&format!("graphs/{id}.yaml"), text);
    }

    /// A directive that takes all inputs of Rye's graphs.
    pub(super) fn directive(&self, id: &str) {
        let (category, name) = id.rsplit_once('/').unwrap();
        let inputs = ["name", "code_snippet", "output_path", "output_dir", "text"];
        let inputs =
            inputs.map(|input| format!("<input name=\"{input}\" type=\"string\">w</input>"));
        let text = format!(
            "# {name}\n\n```xml\n<directive name=\"{name}\" version=\"1.0.0\">\n<metadata><description>d</description>\
             <category>{category}</category><model tier=\"general\" /></metadata>\n<inputs>{}</inputs>\n</directive>\n```\n\nGreet.\n",
            inputs.concat()
        );
        self.write(&format!("directives/{id}.md"), &text);
    }

    pub(super) fn folder(&self, run: &ThreadId) -> PathBuf {
        self.bench.project.thread(run).path().to_owned()
    }

    pub(super) fn entry(&self, graph: &str, run: &ThreadId) -> String {
        let path = self.ai(&format!("knowledge/agent/threads/{graph}/{run}.md"));
        std::fs::read_to_string(path).unwrap()
    }

    pub(super) fn state(&self, graph: &str, run: &ThreadId) -> PathBuf {
        self.ai(&format!("knowledge/graphs/{graph}/{run}.md"))
    }

    /// The events of a transcript that must be verified.
    pub(super) fn events(&self, run: &ThreadId) -> Vec<(String, Value)> {
        let path = self.folder(run).join("transcript.jsonl");
        assert_eq!(
            self.transcript_verdict(&path),
            Verdict::Verified,
            "{}",
            path.display()
        );
        let bytes = read_small(&*self.bench.host.fs, &path, 1 << 30).unwrap();
        let lines = bytes.split(|byte| *byte == b'\n');
        let lines = lines
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice::<Value>(line).unwrap());
        lines
            .map(|line| {
                (
                    line["event_type"].as_str().unwrap().to_owned(),
                    line["payload"].clone(),
                )
            })
            .collect()
    }

    pub(super) fn transcript_verdict(&self, path: &Path) -> Verdict {
        let bench = &self.bench;
        let file = open_regular(&*bench.host.fs, path).unwrap();
        let options = VerifyOptions {
            trust: &bench.trust,
            now: bench.host.clock.now().unwrap(),
            held_since: None,
            thread: None,
        };
        let outcome = examine::native(&file, &ScanOptions::default(), &options, &|_| {});
        outcome.unwrap().report.verdict
    }

    /// Ids of the runs whose folder begins with `name`.
    pub(super) fn runs(&self, name: &str) -> Vec<ThreadId> {
        let threads = std::fs::read_dir(self.ai("agent/threads")).unwrap();
        let names = threads.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|found| found.starts_with(name)).collect();
        names.sort();
        names
            .iter()
            .map(|name| ThreadId::parse(name).unwrap())
            .collect()
    }

    /// Every transcript and every signed file of the project is verified.
    pub(super) fn all_verify(&self) {
        let mut looked = 0;
        for path in self.tree().keys() {
            let name = path.file_name().unwrap().to_str().unwrap();
            let kind = match name {
                "transcript.jsonl" => {
                    assert_eq!(
                        self.transcript_verdict(path),
                        Verdict::Verified,
                        "{}",
                        path.display()
                    );
                    looked += 1;
                    continue;
                }
                "thread.json" => DocumentKind::Json,
                name if name.ends_with(".md") && !path.starts_with(self.ai("directives")) => {
                    DocumentKind::Markdown
                }
                _ => continue,
            };
            let shown = path.to_string_lossy();
            let options = Options {
                path: &shown,
                item_type: (kind == DocumentKind::Markdown).then_some(ItemType::Knowledge),
                ..Options::new(
                    kind,
                    &self.bench.trust,
                    self.bench.host.clock.now().unwrap(),
                )
            };
            let bytes = std::fs::read(path).unwrap();
            let report = threadseal_formats::document::verify(&bytes, &options)
                .unwrap()
                .report;
            assert_eq!(
                report.verdict,
                Verdict::Verified,
                "{shown}: {:?}",
                report.findings
            );
            looked += 1;
        }
        assert!(looked >= 5, "{looked} files");
    }

    /// Every file of the project and its content; databases as their rows.
    pub(super) fn tree(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.bench.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|end| end == "db") {
                    found.insert(path.clone(), rows(&path).into_bytes());
                } else if !path.to_string_lossy().contains(".db-") {
                    found.insert(path.clone(), std::fs::read(&path).unwrap());
                }
            }
        }
        found
    }
}

fn rows(path: &Path) -> String {
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
                out.push_str(&format!("{name} {:?} ", row.get_ref(column).unwrap()));
            }
            out.push('\n');
        }
    }
    out
}
