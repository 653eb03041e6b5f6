//! Projects of other users that this home trusts: `projects.json` of the home.
//!
//! ```text
//! owner of DIR and of DIR/.ai:  this user, root ─► its threads run
//!                               another user    ─► only if the home names DIR and that owner
//! ```
//! The files of a project decide what runs with the rights of the user. A folder that another user
//! prepared must not do so only because someone entered it. The bypass for containers counts for
//! root alone, since a mounted project there often has an owner of the host.
//!
//! Normative: `spec/runtime.md`, "Projects of other users".

use crate::context::Context;
use crate::exit::Failure;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use threadseal_store::atomic::{self, Mode};
use threadseal_store::home::Home;
use threadseal_store::lock::Exclusive;
use threadseal_store::owned_files::read_trusted_file;
use threadseal_store::sys::{Fs, path_text};

/// The file of the home.
const FILE: &str = "projects.json";
/// Longest such file.
const MAX_PROJECTS_FILE_BYTES: usize = 1 << 20;
/// Its mode.
const PRIVATE_FILE: u32 = 0o600;
const VERSION: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    projects: Vec<TrustedProject>,
}

/// A project, and the users who own it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrustedProject {
    /// Its folder, without links.
    pub(crate) path: String,
    /// The numbers of its owners.
    pub(crate) owners: BTreeSet<u32>,
}

/// Refuses a project of another user that the home does not name.
///
/// # Errors
/// Naming the owner and the command that helps.
#[cfg(feature = "agent")]
pub(crate) fn check(root: &Path, context: &Context) -> Result<(), Failure> {
    let fs = &*context.fs;
    let me = fs.effective_uid();
    if me == 0 && crate::context::says_container() {
        return Ok(());
    }
    let mut others = owners(fs, root)?;
    others.retain(|owner| *owner != me && *owner != 0);
    let Some(owner) = others.first() else {
        return Ok(());
    };
    let path = path_text(root);
    let trusted = match context.home()? {
        Some(home) => list(&home, fs)?,
        None => Vec::new(),
    };
    let is_trusted = |known: &TrustedProject| known.path == path && others.is_subset(&known.owners);
    if trusted.iter().any(is_trusted) {
        return Ok(());
    }
    let container = match me {
        0 => ", or set THREADSEAL_CONTAINER=1 in a container",
        _ => "",
    };
    Err(Failure::new(format!(
        "{path} belongs to user {owner}, not to you, and its files decide what runs with your rights; hint: \
         threadseal trust project {path}{container}"
    )))
}

/// The projects that a home trusts.
///
/// # Errors
/// When others could have written the file, or it is damaged.
pub(crate) fn list(home: &Home, fs: &dyn Fs) -> Result<Vec<TrustedProject>, Failure> {
    let path = home.path().join(FILE);
    let Some(bytes) = read_trusted_file(fs, &path, MAX_PROJECTS_FILE_BYTES)? else {
        return Ok(Vec::new());
    };
    let damaged = |why: String| Failure::new(format!("not a list of projects: {why}")).about(&path);
    let stored: Stored =
        serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    match stored.version {
        VERSION => Ok(stored.projects),
        other => Err(damaged(format!("unknown version {other}"))),
    }
}

/// Trusts the project in `folder` with its owners of now.
///
/// # Errors
/// When it is no project, or the list cannot be written.
pub(crate) fn add(
    folder: &Path,
    home: &Home,
    context: &Context,
) -> Result<TrustedProject, Failure> {
    let fs = &*context.fs;
    let real = fs
        .canonicalize(folder)
        .map_err(|error| Failure::io("open the project", folder, &error))?;
    let added = TrustedProject {
        path: path_text(&real),
        owners: owners(fs, &real)?,
    };
    change(home, fs, |projects| {
        projects.retain(|known| known.path != added.path);
        projects.push(added.clone());
    })?;
    Ok(added)
}

/// Trusts the project no longer; it need not exist.
///
/// # Errors
/// When it was not trusted, or the list cannot be written.
pub(crate) fn remove(
    folder: &Path,
    home: &Home,
    context: &Context,
) -> Result<TrustedProject, Failure> {
    let fs = &*context.fs;
    let given = || std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let path = path_text(&fs.canonicalize(folder).unwrap_or_else(|_| given()));
    let mut removed = None;
    change(home, fs, |projects| {
        removed = projects.iter().find(|known| known.path == path).cloned();
        projects.retain(|known| known.path != path);
    })?;
    removed.ok_or_else(|| {
        Failure::new(format!(
            "{path} is not trusted; hint: threadseal trust list"
        ))
    })
}

fn change(
    home: &Home,
    fs: &dyn Fs,
    change: impl FnOnce(&mut Vec<TrustedProject>),
) -> Result<(), Failure> {
    let _alone = Exclusive::enter(fs, &home.path().join("trust.lock"))?;
    let mut projects = list(home, fs)?;
    change(&mut projects);
    let stored = Stored {
        version: VERSION,
        projects,
    };
    let mut bytes = serde_json::to_vec_pretty(&stored)
        .map_err(|error| Failure::new(format!("cannot write the list of projects: {error}")))?;
    bytes.push(b'\n');
    let path = home.path().join(FILE);
    Ok(atomic::replace(fs, &path, &bytes, Mode::Set(PRIVATE_FILE))?)
}

/// The owners of a project: of its folder, and of its `.ai`.
fn owners(fs: &dyn Fs, root: &Path) -> Result<BTreeSet<u32>, Failure> {
    let of = |path: PathBuf| match fs.metadata(&path) {
        Ok(found) => Ok(found.uid),
        Err(error) => Err(Failure::io("open the project", &path, &error)),
    };
    [root.to_owned(), root.join(".ai")]
        .into_iter()
        .map(of)
        .collect()
}
