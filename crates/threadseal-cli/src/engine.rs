//! The engine of threads, from the options of `run` and `thread resume`; its progress and its
//! results.

use crate::context::{self, Context};
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::fleet::{Books, Fleet};
use crate::keyring::Keyring;
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use crate::progress::StatusLine;
use crate::project::ProjectArgs;
use crate::redact_secrets;
use crate::render::clean::Clean;
use crate::render::text::counted;
use crate::replay;
use crate::supervise;
use crate::trusted_projects;
use crate::verifying;
use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use threadseal_core::key::KeyUsage;
use threadseal_core::record::ThreadId;
use threadseal_core::trust::Trust;
use threadseal_formats::transcript::manifest::Bodies;
use threadseal_runtime::budget::LateBudgets;
use threadseal_runtime::config::Config;
use threadseal_runtime::config::coordination::Coordination;
use threadseal_runtime::config::models::Prices;
use threadseal_runtime::item::{Finder, Grounds, ItemPolicy};
use threadseal_runtime::limit::Limits;
use threadseal_runtime::model::{Catalogue, ScriptModel, Wish};
use threadseal_runtime::project::{Layout, Project};
use threadseal_runtime::registry::{LateRegistry, Registry, ViewedRegistry};
use threadseal_runtime::runner::orchestrator::Records;
use threadseal_runtime::runner::{Engine, Notice, Progress, Ran, Services, Watch};
use threadseal_runtime::status::Status;
use threadseal_runtime::toolbox::{Hub, ReadFile, Tool, WriteFile};
use threadseal_store::home::Home;
use threadseal_store::host::Host;
use threadseal_store::read::read_small;
use threadseal_store::recorder::Keys;
use threadseal_store::sys::Fs;
use threadseal_verify::trust_locality::Locality;

/// Longest script of a model.
const MAX_SCRIPT_BYTES: usize = 16 << 20;

/// Where threads are, and with what they are read and ended.
#[derive(Debug, Args)]
pub(crate) struct HoldArgs {
    #[command(flatten)]
    place: ProjectArgs,
    #[command(flatten)]
    items: ItemArgs,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

/// What threads run in.
#[derive(Debug, Args)]
pub(crate) struct EngineArgs {
    #[command(flatten)]
    hold: HoldArgs,
    /// The model to use instead of the directive's
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Provider of the model, from .ai/config/agent/models.yaml
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// Address of the provider
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Prices of the model, in dollars for a million tokens, instead of the configured ones: input and
    /// output, perhaps cache_read and cache_write
    #[arg(long = "price", value_name = "NAME=DOLLARS", value_delimiter = ',')]
    prices: Vec<String>,
    /// Take the model's answers from this file, in order; needs no network
    #[arg(long, value_name = "FILE", conflicts_with_all = ["model", "provider", "base_url"])]
    script: Option<PathBuf>,
    /// Replay the model's answers from this transcript, in order, and those of children from
    /// theirs; all must be verified
    #[arg(long, value_name = "TRANSCRIPT", conflicts_with_all = ["model", "provider", "base_url", "script"])]
    replay: Option<PathBuf>,
    /// A limit that overrides the directive's: turns, tokens, spend, spawns, depth,
    /// duration_seconds
    #[arg(long = "limit", value_name = "NAME=VALUE")]
    limits: Vec<String>,
    /// Place of texts in new transcripts: in their events, or in a file beside them, where they can
    /// be redacted later [default: detached if the resumed thread has them detached; else from the
    /// project's agent/coordination; else inline]
    #[arg(long, value_name = "WHERE")]
    bodies: Option<BodiesArg>,
}

/// Which items and settings are used.
#[derive(Debug, Args)]
pub(crate) struct ItemArgs {
    /// Also use items of ~/.ai, after the project's
    #[arg(long)]
    user_space: bool,
    /// Also use unsigned items; the record lists them
    #[arg(long)]
    allow_unsigned: bool,
}

impl ItemArgs {
    fn policy(&self) -> ItemPolicy {
        match self.allow_unsigned {
            true => ItemPolicy::AllowUnsigned,
            false => ItemPolicy::Signed,
        }
    }

    /// Where the items of the project are.
    fn finder(&self, project: &Project, context: &Context) -> Result<Finder, Failure> {
        let mut spaces = vec![project.root().to_owned()];
        if self.user_space {
            let space = user_space(&context::environment())?;
            if context.fs.metadata(&space.join(".ai")).is_ok() {
                trusted_projects::check(&space, context)?;
            }
            spaces.push(space);
        }
        Ok(Finder::new(Arc::clone(&context.fs), spaces))
    }
}

/// The project's settings for waiting and reading, without any other.
///
/// # Errors
/// When there is no project, or the settings may not be used.
pub(crate) fn coordination(
    place: &ProjectArgs,
    items: &ItemArgs,
    context: &Context,
) -> Result<Coordination, Failure> {
    let project = place.open(context)?;
    let local = Locality::to(&[project.root().to_owned()], false, &context.fs);
    let trust = verifying::gather(&[], &[], &local, context)?;
    let grounds = Grounds {
        trust: &trust,
        now: context.now()?,
        heads: &*context.host()?.heads,
        policy: items.policy(),
    };
    let finder = items.finder(&project, context)?;
    Ok(Config::coordination(&finder, &grounds)?.0)
}

/// `--bodies`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum BodiesArg {
    /// In the events
    Inline,
    /// In transcript.bodies beside the transcript
    Detached,
}

impl EngineArgs {
    /// Refuses what an order does not carry: its worker has options of its own.
    ///
    /// # Errors
    /// Naming the first such option.
    pub(crate) fn refuse_for_orders(&self) -> Result<(), Failure> {
        let given = [
            ("--model", self.model.is_some()),
            ("--provider", self.provider.is_some()),
            ("--base-url", self.base_url.is_some()),
            ("--price", !self.prices.is_empty()),
            ("--script", self.script.is_some()),
            ("--replay", self.replay.is_some()),
            ("--bodies", self.bodies.is_some()),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((name, _)) => Err(Failure::new(format!(
                "{name} has no effect on an order in a database (--database, THREADSEAL_DATABASE); \
                 hint: threadseal worker {name}"
            ))),
        }
    }

    /// The limits that override those of the directive.
    ///
    /// # Errors
    /// When one is invalid.
    pub(crate) fn limits(&self) -> Result<Limits, Failure> {
        Ok(Limits::from_json(&Value::Object(pairs(
            &self.limits,
            "--limit",
        )?))?)
    }
}

/// Refuses a thread against whose record there is evidence. One that cannot be read has none.
///
/// # Errors
/// With the report on the record.
pub(crate) fn refuse_evidence(records: &Records, id: &ThreadId) -> Result<(), Failure> {
    match records.evidence(id) {
        Ok(Some(refused)) => {
            let path = &refused.report().path;
            let whose = match path.contains(id.as_str()) {
                true => "thread",
                false => "a child of thread",
            };
            let subject = format!("{path}: the record of {whose} {id}");
            Err(refused.error(subject, "; hint: threadseal verify").into())
        }
        Ok(None) | Err(_) => Ok(()),
    }
}

/// Prints the result of a thread, and gives the exit.
///
/// # Errors
/// When the record of a child was changed meanwhile: then no result is printed.
pub(crate) fn told(engine: &Engine, ran: &Ran, context: &Context, out: &mut Out) -> Outcome {
    if let Err(changed) = engine.check_children(ran) {
        if !context.quiet {
            let (thread, status) = (Clean(ran.thread.as_str()), ran.status.as_str());
            complain(&format!(
                "note: {thread} is {status}; its result is not printed, because the record of a child does not hold"
            ));
        }
        return Err(changed.into());
    }
    tell(ran, context, out);
    Ok(match ran.status {
        Status::Completed | Status::CompletedWithErrors => Exit::Done,
        Status::Suspended | Status::LimitReached => Exit::Unconfirmed,
        _ => Exit::NoVerdict,
    })
}

fn tell(ran: &Ran, context: &Context, out: &mut Out) {
    if context.json {
        let mut result = json!({"schema": "threadseal.run/1"});
        if let (Value::Object(result), Value::Object(more)) = (&mut result, ran.to_json()) {
            result.extend(more);
        }
        out.json(&result);
        return;
    }
    if !ran.text.is_empty() {
        out.line(Clean(&ran.text));
    }
    for (name, value) in ran.outputs.iter().flatten() {
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        out.line(format!("{}: {}", Clean(name), Clean(&text)));
    }
    if !context.quiet {
        for warning in &ran.warnings {
            complain(&format!("warning: {}", Clean(warning)));
        }
        let cost = &ran.total();
        let tokens = cost.tokens();
        complain(&format!(
            "{} {}: {}, {}, ${}",
            Clean(ran.thread.as_str()),
            ran.status.as_str(),
            counted(cost.turns, "turn", "turns"),
            counted(tokens, "token", "tokens"),
            cost.spend
        ));
    }
    if let Some(error) = &ran.error {
        complain(&format!("error: {}", Clean(error)));
    }
}

/// The engine of threads.
///
/// # Errors
/// When there is no project or home, or a setting may not be used.
pub(crate) fn engine(args: &EngineArgs, context: &Context) -> Result<Engine, Failure> {
    engine_in(args, context, None)
}

/// As [`engine`], for threads in a database.
///
/// # Errors
/// As [`engine`].
pub(crate) fn engine_in(
    args: &EngineArgs,
    context: &Context,
    fleet: Option<&Fleet>,
) -> Result<Engine, Failure> {
    let wish = wish(args, context)?;
    make(&args.hold, wish, args.bodies, context, fleet)
}

/// The same engine with the models of the settings alone: for threads that no option of this command
/// means.
pub(crate) fn as_configured(engine: &Engine) -> Engine {
    let mut services = engine.services.clone();
    let mut config = Config::clone(&services.config);
    config.coordination.bodies_inherited = true;
    services.models = Arc::new(Catalogue::new(
        config.models.clone(),
        config.agent.clone(),
        Wish::default(),
        config.coordination.context_window,
        Arc::clone(&services.environment),
    ));
    services.config = Arc::new(config);
    Engine::new(services)
}

/// The engine of threads that are read, ended or resumed without options about their model.
///
/// # Errors
/// As [`engine`].
pub(crate) fn holding(
    args: &HoldArgs,
    context: &Context,
    fleet: Option<&Fleet>,
) -> Result<Engine, Failure> {
    make(args, Wish::default(), None, context, fleet)
}

fn make(
    args: &HoldArgs,
    wish: Wish,
    bodies: Option<BodiesArg>,
    context: &Context,
    fleet: Option<&Fleet>,
) -> Result<Engine, Failure> {
    let fs = Arc::clone(&context.fs);
    let project = args.place.open(context)?;
    let root = project.root().to_owned();
    let home = context.existing_home()?;
    let local = Locality::to(std::slice::from_ref(&root), false, &context.fs);
    let trust = verifying::gather(&[], &[], &local, context)?;
    let keys = Keys {
        // Machines that run the threads of a database in turn share no folder for keys of epochs.
        epochs: fleet.is_none().then(|| home.epochs()),
        ..own_keys(&home, &args.passphrase, context)?
    };
    let host = context.host()?;
    let servers = Arc::new(Hub::new(Arc::clone(&host.clock)));
    let environment = Arc::new(context::environment());
    let Settings {
        finder,
        policy,
        config,
    } = settings(args, bodies, &project, &trust, context)?;
    let secrets = redact_secrets::known();
    config.models.teach(&environment, &secrets);
    if let Some(url) = &wish.base_url {
        secrets.learn_address(url);
    }
    let models = Catalogue::new(
        config.models.clone(),
        config.agent.clone(),
        wish,
        config.coordination.context_window,
        Arc::clone(&environment),
    );
    let (registry, budgets) = match fleet {
        Some(fleet) => fleet.books()?,
        None => local_books(&fs, &project)?,
    };
    let project = Arc::new(project);
    let tools: Vec<Arc<dyn Tool>> = vec![
        Arc::new(ReadFile::new(Arc::clone(&fs), Arc::clone(&project))),
        Arc::new(WriteFile::new(fs, Arc::clone(&project))),
    ];
    Ok(Engine::new(Services {
        project,
        host,
        keys,
        trust: Arc::new(trust),
        log: context.reading_host()?.1,
        finder,
        policy,
        registry,
        budgets,
        models: Arc::new(models),
        config: Arc::new(config),
        tools,
        environment,
        secrets,
        supervisor: Some(supervise::supervisor()),
        servers,
        watch: Arc::new(Live::new(context)),
    }))
}

/// The keys that seal threads and the files beside them.
///
/// # Errors
/// When one is missing, does not open, or ended.
pub(crate) fn own_keys(
    home: &Home,
    passphrase: &PassphraseArgs,
    context: &Context,
) -> Result<Keys, Failure> {
    let keyring = Keyring::of(home);
    Ok(Keys {
        native: Arc::new(keyring.signer(None, KeyUsage::Native, passphrase, context)?),
        rye: Arc::new(keyring.rye_half(None, passphrase)?),
        epochs: None,
    })
}

/// The project's settings for threads.
struct Settings {
    /// Where its items are.
    finder: Finder,
    /// The policy on which items are used.
    policy: ItemPolicy,
    /// Its own settings.
    config: Config,
}

/// The settings of a project.
///
/// # Errors
/// When there is no home, or one may not be used.
fn settings(
    args: &HoldArgs,
    bodies: Option<BodiesArg>,
    project: &Project,
    trust: &Trust,
    context: &Context,
) -> Result<Settings, Failure> {
    let (policy, finder) = (args.items.policy(), args.items.finder(project, context)?);
    let mut config = Config::load(
        &finder,
        &Grounds {
            trust,
            now: context.now()?,
            heads: &*context.host()?.heads,
            policy,
        },
    )?;
    if let Some(chosen) = bodies {
        config.coordination.bodies_inherited = false;
        config.coordination.transcript_bodies = match chosen {
            BodiesArg::Inline => Bodies::Inline,
            BodiesArg::Detached => Bodies::Detached,
        };
    }
    Ok(Settings {
        finder,
        policy,
        config,
    })
}

/// The folder whose `.ai` belongs to the user, as in Rye.
fn user_space(environment: &[(String, String)]) -> Result<PathBuf, Failure> {
    let home = environment
        .iter()
        .find(|(name, value)| name == "HOME" && Path::new(value).is_absolute());
    home.map(|(_, value)| PathBuf::from(value))
        .ok_or_else(|| Failure::new("--user-space needs HOME, the folder that contains .ai"))
}

/// Everything needed to read threads, of the project or of a database, without keys and without a
/// trace.
///
/// # Errors
/// When there is no project or home, or the database cannot be reached.
pub(crate) fn records(
    place: &ProjectArgs,
    context: &Context,
    fleet: Option<&Fleet>,
) -> Result<Records, Failure> {
    let project = place.open(context)?;
    let root = project.root().to_owned();
    let local = Locality::to(std::slice::from_ref(&root), false, &context.fs);
    let trust = verifying::gather(&[], &[], &local, context)?;
    let host = context.host()?;
    let (registry, host, project): (Arc<dyn Registry>, Host, Arc<Project>) = match fleet {
        None => {
            let registry = project.registry(Layout::Seed);
            (
                Arc::new(ViewedRegistry::new(registry)),
                host,
                Arc::new(project),
            )
        }
        Some(fleet) => (
            Arc::new(fleet.registry().clone()),
            fleet.host(&host, &root, None)?,
            fleet.project(&project)?,
        ),
    };
    Ok(Records {
        registry,
        project,
        host,
        trust: Arc::new(trust),
        log: context.reading_host()?.1,
    })
}

/// Registry and budgets in the project's own files, which stay untouched before a thread is
/// admitted.
fn local_books(fs: &Arc<dyn Fs>, project: &Project) -> Result<Books, Failure> {
    let (registry, budgets) = (
        project.registry(Layout::Seed),
        project.budgets(Layout::Seed),
    );
    for path in [&registry, &budgets] {
        project.inside(&**fs, path)?;
    }
    Ok((
        Arc::new(LateRegistry::new(Arc::clone(fs), registry)),
        Arc::new(LateBudgets::new(Arc::clone(fs), budgets)),
    ))
}

fn wish(args: &EngineArgs, context: &Context) -> Result<Wish, Failure> {
    let mut wish = Wish {
        there: None,
        replay: None,
        model: args.model.clone(),
        provider: args.provider.clone(),
        base_url: args.base_url.clone(),
        prices: None,
    };
    if !args.prices.is_empty() {
        let members = pairs(&args.prices, "--price")?;
        let prices = Prices::from_members(&members);
        wish.prices = Some(prices.map_err(|error| Failure::new(format!("--price: {error}")))?);
    }
    if let Some(path) = &args.script {
        let bytes = read_small(&*context.fs, path, MAX_SCRIPT_BYTES)?;
        let text = String::from_utf8(bytes)
            .map_err(|_| Failure::new("a script must be UTF-8 text").about(path))?;
        let model = ScriptModel::parse("script", &text)
            .map_err(|error| Failure::from(error).about(path))?;
        wish.there = Some(Arc::new(model));
    }
    if let Some(path) = &args.replay {
        wish.replay = Some(replay::replay(path, context)?);
    }
    Ok(wish)
}

/// `NAME=VALUE` pairs, each name once; a value is JSON if it parses as such.
///
/// # Errors
/// When one is no pair, or a name is repeated.
pub(crate) fn pairs(texts: &[String], option: &str) -> Result<Map<String, Value>, Failure> {
    let read = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| text.into());
    members(texts, option, read)
}

/// The same with each value as a text: the declared type decides how to read it.
///
/// # Errors
/// As [`pairs`].
pub(crate) fn typed(texts: &[String], option: &str) -> Result<Map<String, Value>, Failure> {
    members(texts, option, |text| text.into())
}

fn members(
    texts: &[String],
    option: &str,
    read: impl Fn(&str) -> Value,
) -> Result<Map<String, Value>, Failure> {
    let mut members = Map::new();
    for text in texts {
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| Failure::new(format!("{option} {text:?}: it is NAME=VALUE")))?;
        let value = read(value);
        if members.insert(name.to_owned(), value).is_some() {
            return Err(Failure::new(format!("{option} {name} occurs twice")));
        }
    }
    Ok(members)
}

/// Shows progress: one changing line on a terminal, else a line for each step.
struct Live {
    line: Mutex<Option<StatusLine>>,
    plain: bool,
    quiet: bool,
}

impl Live {
    fn new(context: &Context) -> Self {
        let shown = context.progress && !context.json;
        let line = shown.then(StatusLine::of_terminal).flatten();
        let plain = shown && line.is_none();
        let line = Mutex::new(line);
        Self {
            line,
            plain,
            quiet: context.quiet,
        }
    }

    /// A line of its own, which no later progress replaces.
    fn announce(&self, thread: &ThreadId, notice: Notice<'_>) {
        if self.quiet {
            return;
        }
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = &mut *line {
            line.clear();
        }
        complain(&format!("note: {thread}: {notice}"));
    }

    fn say(&self, thread: &ThreadId, text: &str) {
        let text = format!("{}: {text}", Clean(thread.as_str()));
        if self.plain {
            complain(&text);
        } else if let Some(line) = &mut *self.line.lock().unwrap_or_else(PoisonError::into_inner) {
            line.show(text);
        }
    }
}

impl Watch for Live {
    fn progress(&self, thread: &ThreadId, progress: Progress<'_>) {
        match progress {
            Progress::Asking(cost) => {
                let tokens = cost.tokens();
                let text = format!("turn {}, {tokens} tokens, ${}", cost.turns + 1, cost.spend);
                self.say(thread, &text);
            }
            Progress::Calling(_, tool) => self.say(thread, &format!("calls {}", Clean(tool))),
            Progress::Step(number, node) => {
                self.say(thread, &format!("step {number}, {}", Clean(node)));
            }
            Progress::Retrying(code, wait) => {
                let text = format!("{}: retries in {} s", Clean(code), wait.as_secs());
                self.say(thread, &text);
            }
            Progress::Notice(notice) => self.announce(thread, notice),
            Progress::Text(_) | Progress::Failed(_) | Progress::Turned(_) => {}
        }
    }
}
