//! [`Identity`]: the identity of a project, and so the threads that it may continue.
//!
//! ```text
//! .ai/agent/threads/project.json   {"project": HEX, "also": [HEX, …]}, sealed, beside the threads:
//!                                  it moves with them
//! line 1 of each thread            meta.project: HEX
//! ```
//! A seal does not name a place. A thread's folder that was copied into another project verifies
//! there, and would continue under that project's settings and directives. The id does not depend
//! on the project's place, so a project may be moved, copied whole and cloned. The first thread
//! that begins creates the file. Threads of a database have the database's id.
//!
//! Only the named thread is checked: all that it depends on is named by digests under its seals.
//!
//! Normative: `spec/runtime.md`, "Which project".

use crate::bounds::MAX_ACCEPTED_PROJECTS;
use crate::no_links::{LINK, NoLinks};
use crate::project::{Project, ProjectId};
use crate::signed_file::{SignedFile, read_verified};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use threadseal_core::canon::json::Value as Sealed;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::{Head, ThreadId};
use threadseal_core::report::Verdict;
use threadseal_core::trust::Trust;
use threadseal_formats::document::{DocumentKind, Options};
use threadseal_formats::transcript::manifest::{Manifest, parse_line};
use threadseal_store::atomic::{self, PRIVATE_FILE};
use threadseal_store::examine;
use threadseal_store::host::Host;
use threadseal_store::read::open_regular;
use threadseal_store::recorder::Keys;
use threadseal_store::sys::FileKind;

/// The member of `meta` in line 1 that names the project.
pub(crate) const MEMBER: &str = "project";

/// Permission bits of the folder of all threads, before the umask.
const FOLDER_MODE: u32 = 0o777;

/// The identity of a project; none where no thread began yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    own: Option<ProjectId>,
    /// Other projects whose threads it accepts, by request.
    also: Vec<ProjectId>,
    /// The seal of the file.
    head: Option<Head>,
    in_database: bool,
}

impl Identity {
    /// Reads the identity of the project.
    ///
    /// # Errors
    /// Kind `Refused` when its file is not verified, also against the heads of this host, or is a
    /// link; errors of the disk.
    pub fn read(host: &Host, project: &Project, trust: &Trust) -> Result<Self, Error> {
        if let Some(id) = project.id_of_database() {
            return Ok(Self {
                own: Some(id),
                in_database: true,
                ..Self::default()
            });
        }
        let path = project.identity();
        project.inside(&*host.fs, &path)?;
        match host.fs.symlink_metadata(&path) {
            Ok(found) if found.kind == FileKind::Symlink => {
                return Err(Error::refused(format!("{}: {LINK}", path.display())));
            }
            Ok(_) => {}
            Err(_) => return Ok(Self::default()),
        }
        let options = Options::new(DocumentKind::Json, trust, host.clock.now()?);
        let advice = |error: Error| {
            let text = "it identifies this project; hint: if it cannot be repaired, remove it and accept the project \
                        whose threads continue here: threadseal init --project DIR --accept ID";
            Error::new(error.kind(), format!("{error}; {text}")).with_source(error)
        };
        let checked = read_verified(host, &path, &options).map_err(advice)?;
        let head = checked.head.ok_or_else(|| {
            advice(Error::refused(format!(
                "{} has no native seal",
                path.display()
            )))
        })?;
        let (own, also) = parse(&checked.bytes).ok_or_else(|| {
            Error::refused(format!(
                "{} does not contain a valid project id",
                path.display()
            ))
        })?;
        Ok(Self {
            own: Some(own),
            also,
            head: Some(head),
            in_database: false,
        })
    }

    /// Does a thread with this line 1 belong here? One that names no project was made before
    /// projects had ids; it does.
    ///
    /// # Errors
    /// Kind `Refused`, with the verdict `foreign`, when it belongs to another project.
    pub fn check(&self, path: &Path, manifest: &Manifest) -> Result<(), Error> {
        let Some(named) = named_by(path, manifest)? else {
            return Ok(());
        };
        if self.own == Some(named) || self.also.contains(&named) {
            return Ok(());
        }
        let this = match &self.own {
            Some(own) => format!("this is {own}"),
            None => "this project has no id yet".to_owned(),
        };
        let advice = match self.in_database {
            true => String::new(),
            false => format!(
                "; hint: to continue the threads of that project here, and nowhere else: threadseal init --project DIR \
                 --accept {named}"
            ),
        };
        Err(Error::refused(format!(
            "{} is {}: its line 1 names project {named}, and {this}{advice}",
            path.display(),
            Verdict::Foreign
        )))
    }

    /// Why the thread `id` does not belong here, by an unverified first line: a message for people,
    /// not a proof.
    pub fn stray(&self, host: &Host, project: &Project, id: &ThreadId) -> Option<Error> {
        let (path, manifest) = first_of(host, project, id).ok()??;
        self.check(&path, &manifest).err()
    }
}

/// As [`Identity::check`], by the project's current identity.
///
/// # Errors
/// As [`Identity::read`] and [`Identity::check`]; a thread that names no project is not checked.
pub fn check(
    host: &Host,
    project: &Project,
    trust: &Trust,
    path: &Path,
    manifest: &Manifest,
) -> Result<(), Error> {
    if named_by(path, manifest)?.is_none() {
        return Ok(());
    }
    Identity::read(host, project, trust)?.check(path, manifest)
}

/// As [`check`], by an unverified first line: for a caller that verifies the record next.
///
/// # Errors
/// As [`check`]; errors of the disk.
pub(crate) fn check_thread(
    host: &Host,
    project: &Project,
    trust: &Trust,
    id: &ThreadId,
) -> Result<(), Error> {
    match first_of(host, project, id)? {
        Some((path, manifest)) => check(host, project, trust, &path, &manifest),
        None => Ok(()),
    }
}

/// Does line 1 name the project of its thread?
pub(crate) fn is_named(manifest: &Manifest) -> bool {
    manifest.meta.get(MEMBER).is_some()
}

/// The event of a thread that continues `before`, which names no project.
pub(crate) fn unnamed(before: &ThreadId) -> (&'static str, Value) {
    ("project_unnamed", json!({"thread_id": before.as_str()}))
}

/// The id of the project; it gets one where it has none.
///
/// # Errors
/// As [`Identity::read`]; errors of the random source, the signers, the disk and the heads.
pub(crate) fn find_or_make(
    host: &Host,
    keys: &Keys,
    project: &Project,
    trust: &Trust,
) -> Result<ProjectId, Error> {
    if let Some(own) = Identity::read(host, project, trust)?.own {
        return Ok(own);
    }
    let made = make(host, keys, project, &[]);
    // Two threads that begin at once: the first one's file stays.
    match (made, Identity::read(host, project, trust)?.own) {
        (_, Some(own)) => Ok(own),
        (Err(error), None) => Err(error),
        (Ok(_), None) => Err(Error::new(
            ErrorKind::External,
            format!(
                "{} was removed immediately after it was written",
                project.identity().display()
            ),
        )),
    }
}

/// Accepts the threads of other projects from now on, on request; returns whether that is new.
///
/// # Errors
/// As [`find_or_make`]; kind `Refused` where threads are stored in a database, `Limit` above
/// [`MAX_ACCEPTED_PROJECTS`].
pub fn accept(
    host: &Host,
    keys: &Keys,
    project: &Project,
    trust: &Trust,
    others: &[ProjectId],
) -> Result<bool, Error> {
    let known = Identity::read(host, project, trust)?;
    if known.in_database {
        return Err(Error::refused("a database continues only its own threads"));
    }
    let mut also = known.also.clone();
    for other in others {
        if known.own != Some(*other) && !also.contains(other) {
            also.push(*other);
        }
    }
    if also.len() > MAX_ACCEPTED_PROJECTS {
        let text = format!("a project accepts at most {MAX_ACCEPTED_PROJECTS} others");
        return Err(Error::new(ErrorKind::Limit, text));
    }
    if also == known.also {
        return Ok(false);
    }
    let (Some(own), Some(head)) = (known.own, known.head) else {
        return make(host, keys, project, &also).map(|_| true);
    };
    let mut file = SignedFile::after(host, &project.identity(), DocumentKind::Json, None, &head)?;
    file.write(host, keys, None, &to_bytes(own, &also))
        .map(|_| true)
}

/// Writes the file, which is not there yet.
fn make(
    host: &Host,
    keys: &Keys,
    project: &Project,
    also: &[ProjectId],
) -> Result<ProjectId, Error> {
    let id = ProjectId::new(host.new_record()?);
    let path = project.identity();
    if let Some(folder) = path.parent() {
        atomic::create_directories(&*host.fs, folder, FOLDER_MODE)?;
    }
    let mut file = SignedFile::new(host, &path, DocumentKind::Json, None)?;
    let content = to_bytes(id, also);
    file.write_by(host, keys, None, &content, &|path, signed| {
        let fs = NoLinks::over(&host.fs);
        atomic::create_new(&fs, path, signed, PRIVATE_FILE)
    })?;
    Ok(id)
}

fn to_bytes(own: ProjectId, also: &[ProjectId]) -> Vec<u8> {
    let also: Vec<String> = also.iter().map(ToString::to_string).collect();
    let value = json!({MEMBER: own.to_string(), "also": also});
    format!("{value:#}\n").into_bytes()
}

/// Reads the output of [`to_bytes`].
fn parse(bytes: &[u8]) -> Option<(ProjectId, Vec<ProjectId>)> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    let id = |value: &Value| value.as_str().and_then(ProjectId::parse);
    let also = value["also"].as_array()?;
    if also.len() > MAX_ACCEPTED_PROJECTS {
        return None;
    }
    Some((
        id(&value[MEMBER])?,
        also.iter().map(id).collect::<Option<_>>()?,
    ))
}

/// Line 1 of the native record of a thread, and the path of the record, where there is one.
fn first_of(
    host: &Host,
    project: &Project,
    id: &ThreadId,
) -> Result<Option<(PathBuf, Manifest)>, Error> {
    let path = project.thread(id).transcript();
    project.inside(&*host.fs, &path)?;
    if host.fs.symlink_metadata(&path).is_err() {
        return Ok(None);
    }
    let first = examine::first_line(&open_regular(&*host.fs, &path)?)?;
    Ok(first
        .as_deref()
        .and_then(parse_line)
        .map(|manifest| (path, manifest)))
}

/// The project that line 1 names.
fn named_by(path: &Path, manifest: &Manifest) -> Result<Option<ProjectId>, Error> {
    let Some(named) = manifest.meta.get(MEMBER) else {
        return Ok(None);
    };
    let id = Sealed::as_str(named).and_then(ProjectId::parse);
    id.map(Some).ok_or_else(|| {
        Error::refused(format!(
            "{} is {}: its line 1 does not name a valid project id",
            path.display(),
            Verdict::Foreign
        ))
    })
}
