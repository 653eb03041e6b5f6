//! Helpers that the tests of this crate share: a host in a folder of its own, with its own keys and
//! trust.

use crate::budget::SqliteBudgets;
use crate::config::Config;
use crate::item::{Finder, Grounds, ItemPolicy};
use crate::limit::Limits;
use crate::model::{Catalogue, ScriptModel, Wish};
use crate::project::{Layout, Project};
use crate::project_id;
use crate::registry::{Filter, Inspection, SqliteRegistry};
use crate::runner::Services;
use crate::runner::orchestrator::Records;
use crate::runner::{Engine, Order, Progress, Watch};
use crate::toolbox::{Cancel, Parentage, ReadFile, Tool, WriteFile};
use serde_json::{Map, Value};
use std::sync::Arc;
use threadseal_core::canon::json::Value as Sealed;
use threadseal_core::error::Error;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, Signer as _};
use threadseal_core::record::{Head, RecordId, ThreadId};
use threadseal_core::trust::{Trust, TrustName, TrustStore, TrustedKey};
use threadseal_formats::ledger::Parent;
use threadseal_formats::transcript::Ending;
use threadseal_formats::transcript::event::{EventType, Payload};
use threadseal_formats::transcript::ext::Ext;
use threadseal_formats::transcript::manifest::parse_line;
use threadseal_store::clock::SystemClock;
use threadseal_store::heads::MemoryHeadStore;
use threadseal_store::host::Host;
use threadseal_store::random::SystemRandom;
use threadseal_store::recorder::{Keys, Recorder};
use threadseal_store::sys::RealFs;

pub(crate) struct Bench {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) host: Host,
    pub(crate) keys: Keys,
    pub(crate) trust: Trust,
    pub(crate) project: Project,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let key =
            |seed, usage| Arc::new(LocalSigner::new(PrivateKey::from_seed([seed; 32]), usage));
        let (native, rye) = (key(1, KeyUsage::Native), key(2, KeyUsage::Rye));
        let mut store = TrustStore::new();
        for (name, key, usage) in [
            ("self", *native.public_key(), KeyUsage::Native),
            ("self-rye", *rye.public_key(), KeyUsage::Rye),
        ] {
            let name = TrustName::parse(name).unwrap();
            store.add(TrustedKey::new(name, key, [usage])).unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        let fs = RealFs::shared();
        let project = Project::init(&*fs, folder.path()).unwrap();
        Self {
            folder,
            host: Host {
                fs,
                clock: Arc::new(SystemClock),
                random: Arc::new(SystemRandom),
                heads: Arc::new(MemoryHeadStore::default()),
            },
            keys: Keys {
                native,
                rye,
                epochs: None,
            },
            trust: Trust::new(store),
            project,
        }
    }
}

impl Bench {
    /// An unsigned directive `demo/<name>`.
    pub(crate) fn directive(&self, name: &str, permissions: &str, prompt: &str) {
        let text = format!(
            "```xml\n<directive name=\"{name}\" version=\"1.0.0\"><metadata><description>d</description>\
             <category>demo</category><model id=\"claude-haiku-4-5\" />\
             <permissions>{permissions}</permissions></metadata></directive>\n```\n\n{prompt}\n"
        );
        self.file(&format!(".ai/directives/demo/{name}.md"), &text);
    }

    /// Writes a file of the project.
    pub(crate) fn file(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// The engine of a test's threads, with `script` for a model and permission for unsigned items.
    pub(crate) fn engine(&self, script: &str) -> Engine {
        let root = self.project.root().to_owned();
        let fs = Arc::clone(&self.host.fs);
        let finder = Finder::new(Arc::clone(&fs), vec![root]);
        let policy = ItemPolicy::AllowUnsigned;
        let grounds = Grounds {
            trust: &self.trust,
            now: self.host.clock.now().unwrap(),
            heads: &*self.host.heads,
            policy,
        };
        let config = Config::load(&finder, &grounds).unwrap();
        let wish = Wish {
            there: Some(Arc::new(ScriptModel::parse("script", script).unwrap())),
            ..Wish::default()
        };
        let environment = Arc::new(vec![(
            "PATH".to_owned(),
            "/usr/local/bin:/usr/bin:/bin".to_owned(),
        )]);
        let window = config.coordination.context_window;
        let (models, agent) = (config.models.clone(), config.agent.clone());
        let models = Catalogue::new(models, agent, wish, window, Arc::clone(&environment));
        let project = Arc::new(self.project.clone());
        let tools: Vec<Arc<dyn Tool>> = vec![
            Arc::new(ReadFile::new(Arc::clone(&fs), Arc::clone(&project))),
            Arc::new(WriteFile::new(fs, Arc::clone(&project))),
        ];
        Engine::new(Services {
            registry: Arc::new(SqliteRegistry::open(&project.registry(Layout::Seed)).unwrap()),
            budgets: Arc::new(SqliteBudgets::open(&project.budgets(Layout::Seed)).unwrap()),
            project,
            host: self.host.clone(),
            keys: self.keys.clone(),
            trust: Arc::new(self.trust.clone()),
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

    /// Records a thread again, on a host without heads, with this project in line 1.
    pub(crate) fn record_anew(&mut self, thread: &ThreadId, named: Option<&Sealed>) {
        self.host.heads = Arc::new(MemoryHeadStore::default());
        let path = self.project.thread(thread).transcript();
        let text = std::fs::read_to_string(&path).unwrap();
        let mut manifest = parse_line(text.lines().next().unwrap().as_bytes()).unwrap();
        let meta = manifest.meta.as_object().unwrap().iter();
        let meta = meta.filter_map(|(name, value)| match name.as_str() {
            Some(project_id::MEMBER) => named.map(|named| (name.clone(), named.clone())),
            _ => Some((name.clone(), value.clone())),
        });
        manifest.meta = Sealed::Object(meta.collect());
        std::fs::remove_file(&path).unwrap();
        let (host, keys) = (self.host.clone(), self.keys.clone());
        let thread = thread.clone();
        let mut recorder = Recorder::create(host, &path, thread, manifest, keys).unwrap();
        let events = text.lines().skip(2);
        let events: Vec<Value> = events
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        for (place, event) in events.iter().enumerate() {
            let kind = event["event_type"].as_str().unwrap();
            let payload = Payload::parse(event["payload"].to_string().as_bytes()).unwrap();
            let turn = |event: &Value| event["payload"]["turn"].as_u64().unwrap();
            let ending = match kind {
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
            recorder
                .end(ending, &payload, turn(&events[place + 1]))
                .unwrap();
            return;
        }
        panic!("the thread has not ended");
    }

    /// The events of a thread, as its transcript has them.
    pub(crate) fn lines(&self, thread: &ThreadId) -> Vec<Value> {
        let text = std::fs::read_to_string(self.project.thread(thread).transcript()).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

/// The order for `demo/<name>` without inputs.
pub(crate) fn order(name: &str) -> Order {
    Order {
        directive: crate::item::ItemId::parse(&format!("demo/{name}")).unwrap(),
        inputs: Map::new(),
        limits: Limits::default(),
        cancel: Cancel::default(),
    }
}

/// The faults that an inspection of the registry reports: codes, each with its thread.
pub(crate) fn told(engine: &Engine) -> Vec<(&'static str, String)> {
    let records = Records::from(&engine.services);
    let rows = engine
        .services
        .registry
        .list(&Filter::default())
        .unwrap()
        .threads;
    let left = records.left().unwrap();
    let mut inspection = Inspection::default();
    records
        .audit(
            &rows,
            &left,
            Some(&*engine.services.budgets),
            &mut inspection,
        )
        .unwrap();
    let faults = inspection.faults.into_iter();
    faults
        .map(|fault| (fault.code, fault.thread.unwrap_or_default()))
        .collect()
}

/// A watch that ignores everything.
struct Nobody;

impl Watch for Nobody {
    fn progress(&self, _: &ThreadId, _: Progress<'_>) {}
}

/// The record of a thread that has no children.
pub(crate) struct NoChildren;

impl Parentage for NoChildren {
    fn child_begins(&mut self, child: &ThreadId, _: &RecordId, _: &str) -> Result<Head, Error> {
        panic!("{child} was to begin")
    }

    fn child_ended(&mut self, child: &ThreadId, _: &str, _: &Head) -> Result<(), Error> {
        panic!("{child} ended")
    }

    fn ledger(&self) -> Result<Parent, Error> {
        panic!("a child was to begin")
    }
}
