//! Which files are watched, and how each is sealed: by its content, not by its name.
//!
//! | file | taken |
//! |---|---|
//! | a session of an agent | its lines, or its versions if the agent writes it anew |
//! | another log of lines, in a folder that a person named | its lines |
//! | a native record, a seal file, anything else | passed over |

use crate::context::Context;
use crate::exit::Failure;
use crate::passphrase::PassphraseArgs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use threadseal_core::key::LocalSigner;
use threadseal_core::record::Head;
use threadseal_store::host::Host;
use threadseal_store::read::RegularFile;
use threadseal_verify::detect::{self, Kind};
use walkdir::WalkDir;

/// How deep folders are looked into.
const MAX_DEPTH: usize = 16;

/// A folder that is watched.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    /// The agent that keeps its sessions there; `None` for a folder that a person named.
    #[cfg(feature = "capture")]
    pub(super) agent: Option<threadseal_capture::Agent>,
    #[cfg(not(feature = "capture"))]
    pub(super) agent: Option<std::convert::Infallible>,
    /// Which files in it its agent names like logs.
    #[cfg(feature = "capture")]
    pub(super) logs: Option<threadseal_capture::agent::places::LogFolder>,
}

impl Folder {
    /// The files in it, at any depth that is looked into.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        below(&self.path)
    }

    pub(super) fn holds(&self, path: &Path) -> bool {
        path.starts_with(&self.path)
    }

    /// A file in it by the name that it has below [`Folder::path`]: the system reports absolute paths.
    pub(super) fn named(&self, reported: &Path) -> Option<PathBuf> {
        let absolute = std::path::absolute(&self.path).ok()?;
        let rest = reported.strip_prefix(absolute).ok()?;
        Some(self.path.join(rest))
    }

    pub(super) fn agent_name(&self) -> Option<&'static str> {
        #[cfg(feature = "capture")]
        return self.agent.map(threadseal_capture::Agent::name);
        #[cfg(not(feature = "capture"))]
        return None;
    }
}

/// The regular files below a folder, without seals.
pub(super) fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = WalkDir::new(folder)
        .max_depth(MAX_DEPTH)
        .into_iter()
        .flatten();
    let files = entries.filter(|entry| entry.file_type().is_file());
    files
        .map(walkdir::DirEntry::into_path)
        .filter(|path| !is_seal(path))
        .collect()
}

pub(super) fn is_seal(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "seal")
}

/// The folders that are named, or else those of all known agents.
///
/// # Errors
/// When a path is no folder.
pub(super) fn folders(paths: &[PathBuf], context: &Context) -> Result<Vec<Folder>, Failure> {
    if paths.is_empty() {
        return of_agents(context);
    }
    let mut folders = Vec::new();
    for path in paths {
        let found = std::fs::metadata(path);
        if !found
            .map_err(|error| Failure::io("watch", path, &error))?
            .is_dir()
        {
            return Err(Failure::new("not a folder").about(path));
        }
        folders.push(Folder {
            path: path.clone(),
            agent: None,
            #[cfg(feature = "capture")]
            logs: None,
        });
    }
    Ok(folders)
}

#[cfg(feature = "capture")]
fn of_agents(context: &Context) -> Result<Vec<Folder>, Failure> {
    let machine = context.machine()?;
    let agents = threadseal_capture::Agent::ALL.into_iter();
    let folders = agents.flat_map(|agent| {
        let logs = agent.logs(&machine).into_iter();
        logs.map(move |folder| Folder {
            path: folder.path.clone(),
            agent: Some(agent),
            logs: Some(folder),
        })
    });
    Ok(folders.collect())
}

#[cfg(not(feature = "capture"))]
fn of_agents(_context: &Context) -> Result<Vec<Folder>, Failure> {
    Err(crate::missing::failure(
        "find the folders of agents",
        "capture",
    ))
}

/// The result for one file.
pub(super) enum Taken {
    /// A new seal, with the lines of a log under it.
    Sealed(Head, Option<u64>),
    /// A file that is sealed already, or has no whole line yet.
    Unchanged,
    /// Nothing to seal.
    PassedOver,
}

/// What earlier watchers of the home found.
///
/// # Errors
/// When there is no home.
#[cfg(feature = "capture")]
pub(super) fn known(context: &Context) -> Result<threadseal_capture::seen::Seen, Failure> {
    let home = context.existing_home()?;
    Ok(threadseal_capture::seen::Seen::read(
        &*context.fs,
        home.path(),
    ))
}

#[cfg(not(feature = "capture"))]
pub(super) use of_logs::{FileKind, Sealer};
#[cfg(feature = "capture")]
pub(super) use of_sessions::{FileKind, Sealer};

#[cfg(feature = "capture")]
mod of_sessions {
    use super::{
        Context, Failure, Folder, Host, Kind, LocalSigner, PassphraseArgs, Path, RegularFile,
        Taken, detect,
    };
    use crate::cmd::watch::SEAL_WAIT;
    use crate::session_seal::{SessionSealed, SessionSealer, session_of};
    use threadseal_capture::AgentFolder;
    use threadseal_capture::database;
    use threadseal_capture::session::{Growth, SessionFile};

    /// How a file is sealed.
    pub(crate) enum FileKind {
        /// A file of a session.
        Session(SessionFile),
        /// Another log.
        Log,
    }

    /// Seals files by their content.
    pub(crate) struct Sealer(SessionSealer);

    impl Sealer {
        pub(crate) fn open(
            key: Option<&str>,
            passphrase: &PassphraseArgs,
            context: &Context,
        ) -> Result<Self, Failure> {
            SessionSealer::open(key, passphrase, SEAL_WAIT, context).map(Self)
        }

        pub(crate) fn host(&self) -> &Host {
            self.0.host()
        }

        /// The sealer of sessions.
        pub(crate) fn sessions(&self) -> &SessionSealer {
            &self.0
        }

        pub(crate) fn key(&self) -> &str {
            self.0.key()
        }

        pub(crate) fn signer(&self) -> &LocalSigner {
            self.0.signer()
        }

        pub(crate) fn renew(&mut self, context: &Context) -> Result<(), Failure> {
            self.0.renew(context)
        }

        /// Lets the archive meet its quota.
        pub(crate) fn meet_quota(&self) -> Result<(), Failure> {
            self.0.meet_quota()
        }

        /// How the file is sealed; `None` if it is passed over. In the folder of an agent, only
        /// sessions are sealed.
        pub(crate) fn kind(
            &self,
            file: &RegularFile,
            folders: &[Folder],
        ) -> Result<Option<FileKind>, Failure> {
            let of_agents = folders.iter().filter_map(|folder| {
                let (agent, folder) = (folder.agent?, folder.path.clone());
                Some(AgentFolder { agent, folder })
            });
            let of_agents: Vec<_> = of_agents.collect();
            // A log of ours of rows in a database is sealed with its database, at the end of a state.
            if database::database_of(&*self.0.host().fs, file.path()).is_some() {
                return Ok(None);
            }
            if let Some(session) = session_of(file, &of_agents)? {
                // An agent that writes a document anew gives it another name until it is whole.
                let logs = folders.iter().filter(|folder| folder.holds(file.path()));
                let mut logs = logs.filter_map(|folder| folder.logs.as_ref());
                let is_whole = session.growth == Growth::Appends
                    || logs.all(|logs| logs.is_named(file.path()));
                return Ok(is_whole.then_some(FileKind::Session(session)));
            }
            let is_named = |folder: &Folder| folder.agent.is_none() && folder.holds(file.path());
            let is_log = matches!(detect::kind(file)?, Some(Kind::Log | Kind::Events));
            Ok((is_log && folders.iter().any(is_named)).then_some(FileKind::Log))
        }

        pub(crate) fn seal(
            &self,
            path: &Path,
            kind: &FileKind,
            context: &Context,
        ) -> Result<Taken, Failure> {
            let sealed = match kind {
                FileKind::Session(session) => self.0.seal(path, session, context)?,
                FileKind::Log => self.0.seal_lines(path, Growth::Appends, context)?,
            };
            Ok(match sealed {
                SessionSealed::Added(head, lines) => Taken::Sealed(head, lines),
                SessionSealed::Unchanged | SessionSealed::Nothing => Taken::Unchanged,
            })
        }
    }
}

#[cfg(not(feature = "capture"))]
mod of_logs {
    use super::{
        Context, Failure, Folder, Host, Kind, LocalSigner, PassphraseArgs, Path, RegularFile,
        Taken, detect,
    };
    use crate::cmd::seal::note_moved;
    use crate::cmd::watch::SEAL_WAIT;
    use crate::keyring::{Keyring, self_name};
    use threadseal_core::key::KeyUsage;
    use threadseal_store::observer::{self, Sealed};

    /// How a file is sealed.
    pub(crate) enum FileKind {
        /// A log.
        Log,
    }

    /// Seals logs.
    pub(crate) struct Sealer {
        host: Host,
        signer: LocalSigner,
        /// The name of its key.
        key: String,
        passphrase: PassphraseArgs,
    }

    impl Sealer {
        pub(crate) fn open(
            key: Option<&str>,
            passphrase: &PassphraseArgs,
            context: &Context,
        ) -> Result<Self, Failure> {
            let keyring = Keyring::of(&context.existing_home()?);
            Ok(Self {
                host: context.host()?,
                signer: keyring.signer(key, KeyUsage::Observed, passphrase, context)?,
                key: key
                    .unwrap_or_else(|| self_name(KeyUsage::Observed))
                    .to_owned(),
                passphrase: passphrase.clone(),
            })
        }

        pub(crate) fn host(&self) -> &Host {
            &self.host
        }

        pub(crate) fn key(&self) -> &str {
            &self.key
        }

        pub(crate) fn signer(&self) -> &LocalSigner {
            &self.signer
        }

        pub(crate) fn renew(&mut self, context: &Context) -> Result<(), Failure> {
            self.host = context.host()?;
            let keyring = Keyring::of(&context.existing_home()?);
            let next = keyring.next_signer(&self.key, &self.signer, &self.passphrase, context)?;
            if let Some(next) = next {
                self.signer = next;
            }
            Ok(())
        }

        /// How the file is sealed; `None` if it is passed over.
        pub(crate) fn kind(
            &self,
            file: &RegularFile,
            _folders: &[Folder],
        ) -> Result<Option<FileKind>, Failure> {
            let is_log = matches!(detect::kind(file)?, Some(Kind::Log | Kind::Events));
            Ok(is_log.then_some(FileKind::Log))
        }

        pub(crate) fn seal(
            &self,
            path: &Path,
            _kind: &FileKind,
            _context: &Context,
        ) -> Result<Taken, Failure> {
            let (host, signer) = (&self.host, &self.signer);
            let done = observer::seal(host, path, false, SEAL_WAIT, signer, &|_| {})?;
            note_moved(done.moved.as_ref());
            Ok(match done.sealed {
                Sealed::Added(seal) => Taken::Sealed(seal.head, Some(seal.lines)),
                Sealed::Unchanged | Sealed::Nothing => Taken::Unchanged,
            })
        }
    }
}

/// A flag that a signal to end sets.
///
/// # Errors
/// When signals cannot be handled.
pub(super) fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    #[cfg(any(feature = "agent", feature = "cloud", feature = "capture"))]
    crate::context::cancel_on_interrupt(&stop)?;
    Ok(stop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reported_file_has_the_name_that_it_has_in_a_folder_named_relatively() {
        let folder = Folder {
            path: PathBuf::from("logs"),
            agent: None,
            #[cfg(feature = "capture")]
            logs: None,
        };
        let reported = std::path::absolute("logs/deep/a.jsonl").unwrap();
        let named = folder.named(&reported).unwrap();
        assert_eq!(named, Path::new("logs/deep/a.jsonl"));
        assert!(folder.holds(&named) && !folder.holds(&reported));
        assert_eq!(
            folder.named(&std::path::absolute("other/a.jsonl").unwrap()),
            None
        );
    }
}
