//! `init`: makes a home with a trusted key for each usage that a host needs, and with a log of its
//! seals. On request it makes a project, too, with the files of a tour.

#[cfg(feature = "agent")]
mod scaffold;

use crate::cmd::key::{KeyOutput, ListedKey, key_line};
use crate::cmd::log::init as log;
#[cfg(feature = "agent")]
use crate::cmd::seal::seal_new;
use crate::context::Context;
#[cfg(feature = "agent")]
use crate::engine::own_keys;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::keyring::{self, KeyFault, Keyring, OwnKey, self_name};
#[cfg(not(feature = "agent"))]
use crate::missing;
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use crate::recovery;
use crate::render::clean::Clean;
use crate::seal_log;
use crate::trust_file;
#[cfg(feature = "agent")]
use crate::verifying;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use threadseal_core::key::{KeyUsage, LocalSigner};
use threadseal_core::time::Timestamp;
use threadseal_core::tlog::entry::key_event::{KeyChange, KeyEvent};
use threadseal_core::trust::{TrustName, TrustStore, TrustedKey};
use threadseal_log::{Description, SealLog, refuse_shared};
#[cfg(feature = "agent")]
use threadseal_runtime::project::{Project, ProjectId};
#[cfg(feature = "agent")]
use threadseal_runtime::project_id;
#[cfg(feature = "agent")]
use threadseal_store::atomic;
use threadseal_store::home::Home;
use threadseal_store::sys::path_text;
#[cfg(feature = "agent")]
use threadseal_verify::trust_locality::Locality;

/// The usages for which a host has keys. Agents have the keys of igor, `log init` makes that of a
/// log, `key new` that of a witness.
const MADE: [KeyUsage; 4] = [
    KeyUsage::Native,
    KeyUsage::Rye,
    KeyUsage::Observed,
    KeyUsage::Scroll,
];

/// Permission bits of a new folder of a project, before the umask.
#[cfg(feature = "agent")]
const FOLDER_MODE: u32 = 0o777;

/// What `init` takes.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Also create a project, here or in DIR: its `.ai` folder, with a sealed tour that runs without
    /// a key, and settings as comments
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = ".")]
    #[cfg_attr(not(feature = "agent"), arg(hide = true))]
    project: Option<PathBuf>,
    /// With --project: only empty folders, no tour
    #[arg(long, requires = "project")]
    #[cfg_attr(not(feature = "agent"), arg(hide = true))]
    empty: bool,
    /// With --project: also resume threads whose line 1 names the project ID. Only for threads that
    /// no other project resumes any more
    #[arg(long, value_name = "ID", requires = "project")]
    #[cfg_attr(not(feature = "agent"), arg(hide = true))]
    accept: Vec<String>,
    /// Create no log of seals: an older copy of the home then stays unnoticed
    #[arg(long, conflicts_with_all = ["mark", "single_host"])]
    no_log: bool,
    #[command(flatten)]
    log: log::LogArgs,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

#[derive(Serialize)]
struct InitOutput {
    schema: &'static str,
    home: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<String>,
    /// The files of the project that were written, relative to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<Vec<String>>,
    changed: bool,
    keys: Vec<KeyOutput>,
    log: Option<LogOutput>,
    /// The file with a new recovery key.
    #[serde(skip_serializing_if = "Option::is_none")]
    recovery_key: Option<String>,
}

#[derive(Serialize)]
struct LogOutput {
    origin: String,
    vkey: String,
    marks: Vec<String>,
}

impl LogOutput {
    fn of(description: &Description) -> Self {
        Self {
            origin: description.id.origin(),
            vkey: description.vkey(),
            marks: log::marks(description),
        }
    }
}

/// Makes every missing part, and changes no existing one.
pub(crate) fn run(args: &InitArgs, context: &Context, out: &mut Out) -> Outcome {
    let wanted = (!args.no_log).then_some(&args.log);
    let made = make(wanted, &args.passphrase, context)?;
    let path = made.home.path().to_string_lossy().into_owned();
    let project = args.project.as_deref();
    let project = project.map(|folder| init_project(folder, args, &made.home, context));
    let project = project.transpose()?;
    let recovery = recovery::ensure_or_warn(&made.home, &args.passphrase, context);
    let in_project = project.as_ref().is_some_and(MadeProject::is_changed);
    let changed = made.changed || in_project || recovery.is_some();
    let keys = ListedKey::all(&made.keys, &made.home, context)?;
    if context.json {
        out.json(&InitOutput {
            schema: "threadseal.init/1",
            home: path,
            project: project.as_ref().map(|project| project.root.clone()),
            files: project.map(|project| project.files),
            changed,
            keys: keys.iter().map(KeyOutput::of).collect(),
            log: made.log.as_ref().map(LogOutput::of),
            recovery_key: recovery.as_deref().map(path_text),
        });
        return Ok(Exit::Done);
    }
    if !context.quiet {
        for key in &keys {
            out.line(key_line(key));
        }
        if let Some(description) = &made.log {
            out.line(format_args!("log: {}", description.id.origin()));
        }
        let said = if changed { "ready" } else { "nothing to do" };
        out.line(format_args!("{said}: {}", Clean(&path)));
        if let Some(project) = &project {
            project.tell(out);
        }
        if let Some(path) = &recovery {
            recovery::tell(path, context);
        }
    }
    Ok(Exit::Done)
}

/// What was made of a project.
struct MadeProject {
    root: String,
    /// New files, relative to it.
    files: Vec<String>,
    /// Does it newly accept threads?
    accepts: bool,
}

impl MadeProject {
    fn is_changed(&self) -> bool {
        self.accepts || !self.files.is_empty()
    }

    fn tell(&self, out: &mut Out) {
        for file in &self.files {
            out.line(format_args!("wrote: {}", Clean(file)));
        }
        let root = Clean(&self.root);
        out.line(format_args!("project: {root}"));
        if !self.files.is_empty() {
            out.line(format_args!(
                "next: threadseal run tour/report --project {root}"
            ));
            out.line("  a script answers; with ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY set, a model does");
        }
    }
}

/// Creates the project. One that accepts threads of another has items of its own.
#[cfg(feature = "agent")]
fn init_project(
    folder: &Path,
    args: &InitArgs,
    home: &Home,
    context: &Context,
) -> Result<MadeProject, Failure> {
    atomic::create_directories(&*context.fs, folder, FOLDER_MODE)?;
    let project = Project::init(&*context.fs, folder)?;
    let accepts = accept(&project, args, home, context)?;
    let files = match args.empty || !args.accept.is_empty() {
        true => Vec::new(),
        false => scaffold::write(&project, context)?,
    };
    let is_item = |file: &&PathBuf| file.starts_with(project.ai());
    let items: Vec<PathBuf> = files.iter().filter(is_item).cloned().collect();
    seal_new(&items, &args.passphrase, context)?;
    Ok(MadeProject {
        root: path_text(project.root()),
        files: files
            .iter()
            .filter_map(|file| project.relative(file))
            .collect(),
        accepts,
    })
}

#[cfg(not(feature = "agent"))]
fn init_project(
    folder: &Path,
    args: &InitArgs,
    _: &Home,
    _: &Context,
) -> Result<MadeProject, Failure> {
    let ids = args.accept.join(", ");
    let what = if args.empty {
        "the empty project"
    } else {
        "the project"
    };
    let action = format!("create {what} {} {ids}", folder.display());
    Err(missing::failure(action.trim_end(), "agent"))
}

/// Lets the project continue the threads of another project; returns whether that is new.
#[cfg(feature = "agent")]
fn accept(
    project: &Project,
    args: &InitArgs,
    home: &Home,
    context: &Context,
) -> Result<bool, Failure> {
    if args.accept.is_empty() {
        return Ok(false);
    }
    let id = |text: &String| {
        ProjectId::parse(text).ok_or_else(|| {
            Failure::new(format!(
                "--accept {text:?}: the id of a project has 64 hex digits"
            ))
        })
    };
    let others = args.accept.iter().map(id).collect::<Result<Vec<_>, _>>()?;
    let local = Locality::to(&[project.root().to_owned()], false, &context.fs);
    let trust = verifying::gather(&[], &[], &local, context)?;
    let keys = own_keys(home, &args.passphrase, context)?;
    let host = context.host()?;
    Ok(project_id::accept(&host, &keys, project, &trust, &others)?)
}

/// A home with its keys and its log.
pub(crate) struct PreparedHome {
    home: Home,
    keys: Vec<OwnKey>,
    log: Option<Description>,
    changed: bool,
}

/// Makes every missing part of a home; a log only if one is `wanted`.
///
/// # Errors
/// When the home must not be trusted or cannot be written. When a name is taken. When the home had
/// a log that is gone.
pub(crate) fn make(
    wanted: Option<&log::LogArgs>,
    passphrase: &PassphraseArgs,
    context: &Context,
) -> Result<PreparedHome, Failure> {
    if let Some(args) = wanted {
        admit(args, context)?;
    }
    let home = context.made_home()?;
    let places = seal_log::places(&home, context)?;
    let finished = match wanted {
        Some(_) => log::finish(&home, &places, context)?,
        None => false,
    };
    let current = match wanted {
        Some(_) => places.current()?,
        None => places.current().ok().flatten(),
    };
    let keyring = Keyring::of(&home);
    admit_keys(&keyring)?;
    let (mut keys, mut new, mut native) = (Vec::new(), None, None);
    let mut changed = finished;
    for usage in MADE {
        if let Some(key) = keyring.get(self_name(usage))? {
            keys.push(key);
            continue;
        }
        // Asked at most once, for all new keys.
        if new.is_none() {
            new = Some(passphrase.for_new_key()?);
        }
        changed = true;
        let protection = new.as_ref().and_then(Option::as_ref);
        let key = keyring::generate(context)?;
        keys.push(keyring.create(self_name(usage), usage, &key, protection, context)?);
        if usage == KeyUsage::Native {
            native = Some(LocalSigner::new(key, usage));
        }
    }
    let now = context.now()?;
    changed |= trust_file::change(&home, context, |store| {
        let mut added = false;
        for key in &keys {
            added |= trust_own(store, key, now)?;
        }
        Ok(added)
    })?;
    // Makes the lock file now: an existing lock can be taken on a full disk, too.
    drop(home.enter_documents()?);
    let log = match (wanted, current) {
        (None, current) => current,
        (Some(args), Some(there)) => {
            refuse_other_marks(args, &there)?;
            changed |= seal_log::mend(&home, &places, &there, context)?;
            Some(there)
        }
        (Some(args), None) => {
            changed = true;
            Some(log::make(&home, &places, args, context)?)
        }
    };
    if let (Some(signer), Some(description)) = (&native, &log) {
        let log = seal_log::of(&home, places, description.clone(), context)?;
        say_created(&log, signer)?;
    }
    Ok(PreparedHome {
        home,
        keys,
        log,
        changed,
    })
}

/// Logs the creation of a new native key. No verdict depends on that entry, so a log that refuses
/// it now does not stop `init`.
fn say_created(log: &SealLog, signer: &LocalSigner) -> Result<(), Failure> {
    let event = KeyEvent::sign(KeyChange::Create, signer)?;
    let Err(error) = log.commit_key_event(&event) else {
        return Ok(());
    };
    // If only a second place lags, the making of the log has already warned of it.
    let events = log.key_events();
    if !events.is_ok_and(|events| events.iter().any(|(_, known)| *known == event)) {
        complain(&format!(
            "warning: the log does not contain the creation of the new key: {error}"
        ));
    }
    Ok(())
}

/// Refuses to make a key in the place of one that is gone or was exchanged: the home would trust
/// neither. What else keeps a key from sealing is a warning.
fn admit_keys(keyring: &Keyring) -> Result<(), Failure> {
    for fault in keyring.faults()? {
        match fault {
            KeyFault::Gone { .. } | KeyFault::Exchanged { .. } => {
                return Err(Failure::new(fault.to_string()));
            }
            KeyFault::PrivateLost { .. } | KeyFault::TwoUsages { .. } => {
                complain(&format!("warning: {fault}"));
            }
        }
    }
    Ok(())
}

/// Refuses a log on a network file system before any file is made, unless one machine alone uses
/// it.
fn admit(args: &log::LogArgs, context: &Context) -> Result<(), Failure> {
    let home = context.home_path()?;
    let has_log = context.fs.symlink_metadata(&home.join("log/current"));
    if args.single_host || has_log.is_ok() {
        return Ok(());
    }
    let home = std::path::absolute(&home).map_err(|error| Failure::io("find", &home, &error))?;
    let refused = refuse_shared(&*context.fs, &home);
    refused.map_err(|error| {
        Failure::new(format!(
            "{error}; hint: --no-log makes a home without a log"
        ))
    })
}

/// An existing log does not change when another one is requested.
fn refuse_other_marks(args: &log::LogArgs, there: &Description) -> Result<(), Failure> {
    for place in &args.mark {
        if !there.marks.contains(place) {
            return Err(Failure::new(format!(
                "the log {} does not have the second place {place}; hint: threadseal log mark add {place}",
                there.id.origin()
            )));
        }
    }
    Ok(())
}

/// Trusts an own key for its usage, unless the store has an entry for it: a revoked or narrowed
/// entry is the user's decision.
fn trust_own(store: &mut TrustStore, key: &OwnKey, now: Timestamp) -> Result<bool, Failure> {
    if store.by_key(&key.public).next().is_some() {
        return Ok(false);
    }
    let mut entry = TrustedKey::new(TrustName::parse(&key.name)?, key.public, [key.usage]);
    entry.added = Some(now);
    entry.note = Some("made here by init".to_owned());
    store.add(entry)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Global;
    use crate::render::style::ColorChoice;
    use threadseal_store::fault::{FaultFs, FaultKind, Keep};
    use threadseal_store::sys::Fs as _;
    use threadseal_verify::home_log::HomeLog;

    /// The result of `init` for a home on a network file system.
    fn on_network(wanted: Option<&log::LogArgs>) -> (FaultFs, Result<PreparedHome, Failure>) {
        let fs = FaultFs::new();
        fs.put_on_network(Path::new("/"));
        let made = make(wanted, &PassphraseArgs::default(), &faulty(&fs));
        (fs, made)
    }

    fn faulty(fs: &FaultFs) -> Context {
        let mut context = Context::new(&Global {
            home: Some("/far/home".into()),
            json: false,
            color: ColorChoice::Never,
            quiet: true,
            no_progress: true,
        });
        context.fs = fs.shared();
        context
    }

    /// Every call fails in every way, and the power fails; the next `init` makes the missing parts,
    /// and no second log.
    // T-LOG-48
    #[test]
    fn whatever_fails_the_next_init_makes_a_home_with_one_log() {
        let wanted = log::LogArgs::default();
        let make = |fs: &FaultFs| make(Some(&wanted), &PassphraseArgs::default(), &faulty(fs));
        let calls = {
            let fs = FaultFs::new();
            fs.plan(usize::MAX, FaultKind::Io);
            make(&fs).unwrap();
            fs.calls()
        };
        for call in 0..calls {
            for (number, keep) in [Keep::Nothing, Keep::Everything, Keep::ByLot(7)]
                .into_iter()
                .enumerate()
            {
                let kind = FaultKind::ALL[(call + 3 * number) % FaultKind::ALL.len()];
                let kind = if number == 1 {
                    FaultKind::PowerOff
                } else {
                    kind
                };
                let fs = FaultFs::new();
                fs.plan(call, kind);
                let first = make(&fs).map(|made| made.log.map(|log| log.id));
                fs.cut_power(keep);
                let what = format!("{kind:?} at {call} ({:?}), {keep:?}", fs.struck());
                let made = make(&fs).unwrap_or_else(|error| panic!("{what}: {error}"));
                let id = made.log.as_ref().unwrap().id;
                assert!(
                    first.is_err() || first.is_ok_and(|first| first == Some(id)),
                    "{what}"
                );
                let there = seal_log::home_log(&made.home, &faulty(&fs)).unwrap();
                let HomeLog::There(there) = there else {
                    panic!("{what}: {there:?}");
                };
                // A batch that lost its signature is signed when the log is next opened to write.
                there.fold().unwrap();
                assert_eq!(there.fault().unwrap(), None, "{what}");
                let again = make(&fs).unwrap();
                assert!(!again.changed && again.log.unwrap().id == id, "{what}");
            }
        }
    }

    // T-LOG-47
    #[test]
    fn a_home_on_a_network_file_system_is_refused_before_anything_is_made() {
        let (fs, made) = on_network(Some(&log::LogArgs::default()));
        let said = made.err().unwrap().to_string();
        assert!(
            said.contains("--single-host") && said.contains("--no-log"),
            "{said}"
        );
        assert_eq!(fs.read_dir(Path::new("/")).unwrap().len(), 0);

        let alone = log::LogArgs {
            single_host: true,
            ..log::LogArgs::default()
        };
        let (_, made) = on_network(Some(&alone));
        let description = made.unwrap().log.unwrap();
        assert!(description.single_host);
        let (fs, made) = on_network(None);
        assert!(made.unwrap().log.is_none());
        assert!(fs.read_dir(Path::new("/far/home/log")).is_err());
    }
}
