//! The shared inputs of all commands: places of files, the clock, randomness, output options.
//!
//! Only this file reads the environment.

use crate::exit::{Failure, complain};
use crate::options::Global;
use crate::render::style::Palette;
use crate::rotation;
use crate::seal_log;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
#[cfg(any(
    feature = "agent",
    feature = "capture",
    feature = "cloud",
    feature = "view"
))]
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
#[cfg(feature = "capture")]
use threadseal_capture::agent::machine::{Machine, System};
use threadseal_core::time::Timestamp;
use threadseal_log::SealLog;
use threadseal_store::clock::{Clock as _, SystemClock};
use threadseal_store::heads::{HeadStore, MemoryHeadStore};
use threadseal_store::home::{self, Home};
use threadseal_store::host::Host;
use threadseal_store::key_ends::{KeyEnds, NoKeyEnds};
use threadseal_store::random::SystemRandom;
use threadseal_store::sys::{Fs, RealFs};
use threadseal_verify::home_key_ends::HomeKeyEnds;
use threadseal_verify::home_log::HomeLog;
use threadseal_verify::notices::Notices;

/// Built once from the global options.
#[derive(Debug)]
pub(crate) struct Context {
    /// `--json`
    pub(crate) json: bool,
    /// `--quiet`
    pub(crate) quiet: bool,
    /// Without `--no-progress`.
    pub(crate) progress: bool,
    /// Colours of standard output.
    pub(crate) palette: Palette,
    /// The source of new keys, salts and record ids.
    pub(crate) random: SystemRandom,
    /// The disk.
    pub(crate) fs: Arc<dyn Fs>,
    home: Option<PathBuf>,
    log: OnceLock<HomeLog>,
    /// Did the home follow the key events in its log?
    followed: OnceLock<()>,
    /// The warnings so far.
    warned: Mutex<BTreeSet<String>>,
}

impl Context {
    /// Takes the global options.
    pub(crate) fn new(global: &Global) -> Self {
        Self {
            json: global.json,
            quiet: global.quiet,
            progress: !(global.no_progress || global.quiet),
            palette: global.color.palette(),
            random: SystemRandom,
            fs: RealFs::shared(),
            home: global.home.clone(),
            log: OnceLock::new(),
            followed: OnceLock::new(),
            warned: Mutex::default(),
        }
    }

    /// The same with another home.
    pub(crate) fn with_home(&self, home: PathBuf) -> Self {
        Self {
            home: Some(home),
            ..self.anew()
        }
    }

    /// The same with nothing known of the home: for a command that runs while other processes
    /// change the home.
    pub(crate) fn anew(&self) -> Self {
        Self {
            home: self.home.clone(),
            fs: Arc::clone(&self.fs),
            log: OnceLock::new(),
            followed: OnceLock::new(),
            warned: Mutex::default(),
            ..*self
        }
    }

    /// Prints a warning, each text once.
    pub(crate) fn warn_once(&self, why: &str) {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.insert(why.to_owned()) {
            complain(&format!("warning: {why}"));
        }
    }

    /// Warns of a file that cannot be read, and therefore is no evidence.
    pub(crate) fn warn_unread(&self, why: &str) {
        self.warn_once(&format!("not used as evidence: {why}"));
    }

    /// The time for which windows and revocations are judged.
    ///
    /// # Errors
    /// When the system's clock is out of range.
    pub(crate) fn now(&self) -> Result<Timestamp, Failure> {
        Ok(SystemClock.now()?)
    }

    /// The path of the home, which need not exist: `--home`, or else from the environment.
    ///
    /// # Errors
    /// When nothing names one.
    pub(crate) fn home_path(&self) -> Result<PathBuf, Failure> {
        if let Some(path) = &self.home {
            return Ok(path.clone());
        }
        let [own, data, user] = ["THREADSEAL_HOME", "XDG_DATA_HOME", "HOME"].map(variable);
        Ok(home::default_path(
            own.as_deref(),
            data.as_deref(),
            user.as_deref(),
        )?)
    }

    /// The home, if it exists.
    ///
    /// # Errors
    /// When it must not be trusted, or nothing names one.
    pub(crate) fn home(&self) -> Result<Option<Home>, Failure> {
        let path = self.home_path()?;
        if is_absent(&path)? || is_empty(&path) {
            return Ok(None);
        }
        Ok(Some(Home::open(Arc::clone(&self.fs), &path)?))
    }

    /// The home, if one is named and exists: for commands that need none.
    ///
    /// # Errors
    /// When it must not be trusted.
    pub(crate) fn home_where_named(&self) -> Result<Option<Home>, Failure> {
        match self.home_path() {
            Ok(_) => self.home(),
            Err(_) => Ok(None),
        }
    }

    /// The home, which must exist.
    ///
    /// # Errors
    /// As [`Context::home`]; or when `init` was never run.
    pub(crate) fn existing_home(&self) -> Result<Home, Failure> {
        match self.home()? {
            Some(home) => Ok(home),
            None => {
                let path = self.home_path()?;
                let option = match &self.home {
                    Some(named) => format!(" --home {}", named.display()),
                    None => String::new(),
                };
                Err(Failure::new(format!(
                    "there is no home at {}; hint: threadseal{option} init",
                    path.display()
                )))
            }
        }
    }

    /// Files, clock, randomness, and the heads of the home; no heads without a home. Afterwards the
    /// trust store of the home contains every end of a key in its log.
    ///
    /// # Errors
    /// As [`Context::home`]. When the log of the home accepts no entries, or the trust store cannot
    /// follow it.
    pub(crate) fn host(&self) -> Result<Host, Failure> {
        let (host, log) = self.reading_host()?;
        if let Some(why) = log.obstacle() {
            return Err(Failure::new(why));
        }
        if let (HomeLog::There(log), Some(home), None) = (log, self.home()?, self.followed.get()) {
            rotation::follow(&home, &log, self)?;
            self.followed.get_or_init(|| ());
        }
        Ok(host)
    }

    /// The same for commands that only read, with the state of the home's log. Without a readable
    /// log, records still prove what they prove alone.
    ///
    /// # Errors
    /// As [`Context::home`].
    pub(crate) fn reading_host(&self) -> Result<(Host, HomeLog), Failure> {
        let (heads, log, keys): (Arc<dyn HeadStore>, _, Arc<dyn KeyEnds>) = match self.home()? {
            Some(home) => {
                let (heads, log) = self.heads(&home)?;
                let keys = HomeKeyEnds::new(Arc::clone(&self.fs), home, log.clone());
                (heads, log, Arc::new(keys))
            }
            None => (
                Arc::new(MemoryHeadStore::default()),
                HomeLog::Never,
                Arc::new(NoKeyEnds),
            ),
        };
        let host = Host {
            fs: Arc::clone(&self.fs),
            clock: Arc::new(SystemClock),
            random: Arc::new(self.random),
            heads,
            keys,
        };
        Ok((host, log))
    }

    /// The heads of a home, with its log if it has one.
    fn heads(&self, home: &Home) -> Result<(Arc<dyn HeadStore>, HomeLog), Failure> {
        let heads: Arc<dyn HeadStore> = Arc::new(home.heads());
        let log = match self.log.get() {
            Some(log) => log,
            None => {
                let log = seal_log::home_log(home, self)?;
                self.log.get_or_init(|| log)
            }
        };
        let heads = log.heads(heads);
        Ok((heads, log.clone()))
    }

    /// Which keys of `home` ended.
    ///
    /// # Errors
    /// As [`Context::reading_host`].
    pub(crate) fn key_ends(&self, home: &Home) -> Result<HomeKeyEnds, Failure> {
        let log = self.reading_host()?.1;
        Ok(HomeKeyEnds::new(Arc::clone(&self.fs), home.clone(), log))
    }

    /// The log of the home, after [`Context::host`] has opened it.
    pub(crate) fn known_log(&self) -> Option<Arc<SealLog>> {
        match self.log.get() {
            Some(HomeLog::There(log)) => Some(Arc::clone(log)),
            _ => None,
        }
    }

    /// Writes the heads that this command published into the log.
    pub(crate) fn settle_log(&self) {
        if let Some(HomeLog::There(log)) = self.log.get() {
            seal_log::settle(log);
        }
    }

    /// The default second place of a home's log: in the user's state folder for the default home,
    /// else beside the home. Also the other of these two, where it would be if the home were named
    /// in another way.
    ///
    /// # Errors
    /// When the home has no name.
    pub(crate) fn mark_paths(&self, home: &Home) -> Result<(PathBuf, Vec<PathBuf>), Failure> {
        let named = self.home.is_some() || variable("THREADSEAL_HOME").is_some();
        let [state, user] =
            ["XDG_STATE_HOME", "HOME"].map(|name| variable(name).map(PathBuf::from));
        let state = state.filter(|path| path.is_absolute());
        let state = state.or_else(|| user.map(|user| user.join(".local/state")));
        let among_state = state.map(|state| state.join("threadseal/marks"));
        let mut name = home
            .path()
            .file_name()
            .ok_or_else(|| Failure::new("the home must not be a root folder".to_owned()))?
            .to_owned();
        name.push(".marks");
        let beside = home.path().with_file_name(name);
        Ok(match among_state {
            Some(state) if named => (beside, vec![state]),
            Some(state) => (state, vec![beside]),
            None => (beside, Vec::new()),
        })
    }

    /// The user's folder, to shorten paths.
    #[cfg(feature = "capture")]
    pub(crate) fn user_home(&self) -> Option<String> {
        let home = variable("HOME")?.into_string().ok()?;
        let home = home.trim_end_matches('/');
        (!home.is_empty()).then(|| home.to_owned())
    }

    /// The program that shows long output on a terminal, as the user's words; empty for none.
    #[cfg(feature = "capture")]
    pub(crate) fn pager(&self) -> String {
        let named = ["THREADSEAL_PAGER", "PAGER"].into_iter().find_map(variable);
        named
            .and_then(|pager| pager.into_string().ok())
            .unwrap_or_else(|| "less".to_owned())
    }

    /// Is there a desktop that can open a browser? Over SSH there is none.
    #[cfg(feature = "view")]
    pub(crate) fn has_desktop(&self) -> bool {
        let named = |name| variable(name).is_some_and(|value| !value.is_empty());
        cfg!(any(windows, target_os = "macos")) || named("DISPLAY") || named("WAYLAND_DISPLAY")
    }

    /// Did the user choose options of `less`?
    #[cfg(feature = "capture")]
    pub(crate) fn has_less_options(&self) -> bool {
        variable("LESS").is_some()
    }

    /// Folders, programs and variables of this user.
    ///
    /// # Errors
    /// When the user has no folder.
    #[cfg(feature = "capture")]
    pub(crate) fn machine(&self) -> Result<Machine, Failure> {
        let home = variable("HOME").filter(|home| !home.is_empty());
        let home =
            home.ok_or_else(|| Failure::new("no folder of this user is known; hint: set HOME"))?;
        let path = variable("PATH");
        Ok(Machine::new(
            home.into(),
            path.as_deref(),
            variable,
            System::HERE,
        )?)
    }

    /// The home, created if it is missing.
    ///
    /// # Errors
    /// As [`Context::home`]; or when it cannot be created.
    pub(crate) fn made_home(&self) -> Result<Home, Failure> {
        Ok(Home::create(Arc::clone(&self.fs), &self.home_path()?)?)
    }
}

impl Notices for Context {
    fn note(&self, text: &str) {
        complain(&format!("note: {text}"));
    }

    fn untrusted(&self, text: &str) {
        if !self.quiet {
            complain(&format!("note: {text}"));
        }
    }

    fn warn(&self, text: &str) {
        self.warn_once(text);
    }

    fn unread(&self, why: &str) {
        self.warn_unread(why);
    }

    fn of_stamps(&self) -> fn(&str) {
        |why| complain(&format!("warning: {why}"))
    }
}

/// An empty folder is a home that is not made yet; a home that lacks a part is damaged.
fn is_empty(path: &Path) -> bool {
    std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

/// Settings of object storage from the environment: addresses and credentials.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the place that reads the environment"
)]
pub(crate) fn object_storage_settings() -> Vec<(String, String)> {
    let settings = std::env::vars_os().filter_map(|(name, value)| {
        let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
        let is_meant = ["AWS_", "GOOGLE_", "AZURE_"]
            .iter()
            .any(|prefix| name.starts_with(prefix));
        is_meant.then_some((name, value))
    });
    settings.collect()
}

/// Settings of the log's second places from the environment: addresses and credentials of storages,
/// and a database's password.
pub(crate) fn mark_settings() -> Vec<(String, String)> {
    let password = variable("PGPASSWORD").and_then(|value| value.into_string().ok());
    let password = password.map(|value| ("PGPASSWORD".to_owned(), value));
    let mut settings = object_storage_settings();
    settings.extend(password);
    settings
}

/// Names the database of threads if no option does.
pub(crate) const DATABASE_SETTING: &str = "THREADSEAL_DATABASE";

/// The value of [`DATABASE_SETTING`].
pub(crate) fn database_setting() -> Option<OsString> {
    variable(DATABASE_SETTING)
}

/// Does the environment state that this process runs in a container? No file in a container proves
/// it, so its builder has to say so.
#[cfg(feature = "agent")]
pub(crate) fn says_container() -> bool {
    variable("THREADSEAL_CONTAINER").is_some_and(|value| value == "1")
}

/// All variables of the environment that are text: inputs of declared tools, and keys of model
/// providers.
#[cfg(feature = "agent")]
#[expect(
    clippy::disallowed_methods,
    reason = "this is the place that reads the environment"
)]
pub(crate) fn environment() -> Vec<(String, String)> {
    let variables = std::env::vars_os();
    let text = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    variables.filter_map(text).collect()
}

/// Sets `flag` on the first signal that asks this process to end; a second signal ends it at once.
///
/// # Errors
/// When signals cannot be handled.
#[cfg(any(
    feature = "agent",
    feature = "capture",
    feature = "cloud",
    feature = "view"
))]
pub(crate) fn cancel_on_interrupt(flag: &Arc<AtomicBool>) -> Result<(), Failure> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(flag))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(flag)))
            .map_err(|error| Failure::new(format!("cannot handle interrupts: {error}")))?;
    }
    Ok(())
}

fn is_absent(path: &Path) -> Result<bool, Failure> {
    match std::fs::symlink_metadata(path) {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(Failure::io("open the home", path, &error)),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the place that reads the environment"
)]
fn variable(name: &str) -> Option<OsString> {
    // Windows names the user's folder in its own way.
    match name {
        "HOME" if cfg!(windows) => std::env::var_os("USERPROFILE"),
        _ => std::env::var_os(name),
    }
}
