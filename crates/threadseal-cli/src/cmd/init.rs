//! `init`: a home with a key for each thing that hosts sign, trusted by itself; and where asked for a project.

use crate::cmd::key::{KeyOutput, key_line};
use crate::context::Context;
use crate::engine::own_keys;
use crate::exit::{Exit, Failure, Outcome};
use crate::gather;
use crate::keyring::{self, Keyring, OwnKey, self_name};
use crate::local::Local;
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use crate::render::clean::Clean;
use crate::trusting;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use threadseal::key::KeyUsage;
use threadseal::time::Timestamp;
use threadseal::trust::{TrustName, TrustStore, TrustedKey};
use threadseal_runtime::identity;
use threadseal_runtime::project::{Project, ProjectId};
use threadseal_store::home::Home;

/// What a host has keys for. A key of igor's is an agent's; not every host keeps a log or watches one.
const MADE: [KeyUsage; 4] = [
    KeyUsage::Native,
    KeyUsage::Rye,
    KeyUsage::Observed,
    KeyUsage::Scroll,
];

/// What `init` takes.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Also make a project's `.ai` folder, here or in DIR
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = ".")]
    project: Option<PathBuf>,
    /// With --project: also go on here with threads that name the project ID in their line 1; only where they go
    /// on nowhere else any more
    #[arg(long, value_name = "ID", requires = "project")]
    accept: Vec<String>,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

#[derive(Serialize)]
struct InitOutput {
    schema: &'static str,
    home: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<String>,
    changed: bool,
    keys: Vec<KeyOutput>,
}

/// Makes what is missing, changes nothing that is there.
pub(crate) fn run(args: &InitArgs, context: &Context, out: &mut Out) -> Outcome {
    let made = make(&args.passphrase, context)?;
    let path = made.home.path().to_string_lossy().into_owned();
    let project = args.project.as_deref().map(|folder| {
        let project = Project::init(&*context.fs, folder)?;
        let accepted = accept(&project, args, &made.home, context)?;
        let root = project.root().to_string_lossy().into_owned();
        Ok::<_, Failure>((root, accepted))
    });
    let (project, accepted) = project.transpose()?.unzip();
    let changed = made.changed || accepted == Some(true);
    if context.json {
        out.json(&InitOutput {
            schema: "threadseal.init/1",
            home: path,
            project,
            changed,
            keys: made.keys.iter().map(KeyOutput::of).collect(),
        });
        return Ok(Exit::Done);
    }
    for key in &made.keys {
        out.line(key_line(key));
    }
    if !context.quiet {
        let said = if changed { "ready" } else { "nothing to do" };
        out.line(format_args!("{said}: {}", Clean(&path)));
        if let Some(project) = &project {
            out.line(format_args!("project: {}", Clean(project)));
        }
    }
    Ok(Exit::Done)
}

/// Has the project go on with the threads of others; whether that is new.
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
    let local = Local::to(&[project.root().to_owned()], false, context);
    let trust = gather::gather(&[], None, &local, context)?;
    let keys = own_keys(home, &args.passphrase)?;
    let host = context.host()?;
    Ok(identity::accept(&host, &keys, project, &trust, &others)?)
}

/// A home with its keys.
pub(crate) struct Made {
    home: Home,
    keys: Vec<OwnKey>,
    changed: bool,
}

/// Makes what is missing.
///
/// # Errors
/// When the home must not be trusted or cannot be written, or a name is taken.
pub(crate) fn make(passphrase: &PassphraseArgs, context: &Context) -> Result<Made, Failure> {
    let home = context.made_home()?;
    let keyring = Keyring::of(&home);
    let (mut keys, mut new) = (Vec::new(), None);
    let mut changed = false;
    for usage in MADE {
        if let Some(key) = keyring.get(self_name(usage))? {
            keys.push(key);
            continue;
        }
        // Asked once for all, and not at all when none is made.
        if new.is_none() {
            new = Some(passphrase.for_new_key()?);
        }
        changed = true;
        let protection = new.as_ref().and_then(Option::as_ref);
        let key = keyring::generate(context)?;
        keys.push(keyring.create(self_name(usage), usage, &key, protection, context)?);
    }
    let now = context.now()?;
    changed |= trusting::change(&home, context, |store| {
        let mut added = false;
        for key in &keys {
            added |= trust_own(store, key, now)?;
        }
        Ok(added)
    })?;
    // A lock that is there already is taken on a full disk, too.
    drop(home.enter_documents()?);
    Ok(Made {
        home,
        keys,
        changed,
    })
}

/// Trusts an own key for its usage unless that was ever decided: a revoked or narrowed entry is
/// the user's word.
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
