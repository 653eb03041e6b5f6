//! [`Identities`]: the identities that a home knows, its own one and those of others.
//!
//! ```text
//! home/identity.id            0600   the newest file of the home's own identity
//! home/identities/ID.id       0600   the newest file of another identity that was imported
//! ```
//! That an identity is here trusts none of its keys: `trust.toml` alone does that.

use crate::error::VerifyError;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::identity::{Conflict, Identity, IdentityId, Step};
use threadseal_core::limits::MAX_IDENTITY_BYTES;
use threadseal_store::atomic::{self, Mode, PRIVATE_DIRECTORY, PRIVATE_FILE};
use threadseal_store::home::Home;
use threadseal_store::owned_files::read_trusted_file;
use threadseal_store::sys::Fs;

/// Most identities of others that one home keeps.
pub const MAX_IDENTITIES: usize = 4096;

const OWN: &str = "identity.id";
const FOLDER: &str = "identities";
const ENDING: &str = "id";

/// The files of identities in a home.
#[derive(Debug)]
pub struct Identities {
    fs: Arc<dyn Fs>,
    home: PathBuf,
}

impl Identities {
    /// Those of `home`.
    pub fn of(home: &Home, fs: &Arc<dyn Fs>) -> Self {
        Self {
            fs: Arc::clone(fs),
            home: home.path().to_owned(),
        }
    }

    /// The home's own identity, if it was exported once.
    ///
    /// # Errors
    /// When it cannot be read, others could have written it, or it is damaged.
    pub fn own(&self) -> Result<Option<Identity>, VerifyError> {
        self.read(&self.home.join(OWN))
    }

    /// The identity of another party, if it was imported.
    ///
    /// # Errors
    /// As [`Identities::own`].
    pub fn imported(&self, id: &IdentityId) -> Result<Option<Identity>, VerifyError> {
        self.read(&self.path_of(id))
    }

    /// All identities of others, in the order of their ids.
    ///
    /// # Errors
    /// As [`Identities::own`]; or when there are too many.
    pub fn all_imported(&self) -> Result<Vec<Identity>, VerifyError> {
        let folder = self.home.join(FOLDER);
        let mut names = match self.fs.read_dir(&folder) {
            Ok(names) => names,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(VerifyError::io("read", &folder, &error)),
        };
        names.sort();
        let paths = names.iter().map(|name| folder.join(name));
        let paths: Vec<PathBuf> = paths
            .filter(|path| path.extension().is_some_and(|ending| ending == ENDING))
            .collect();
        if paths.len() > MAX_IDENTITIES {
            let text = format!("there are more than {MAX_IDENTITIES} identities");
            return Err(VerifyError::refused(text).about(&folder));
        }
        let read = paths.iter().map(|path| self.read(path));
        Ok(read
            .collect::<Result<Vec<_>, _>>()?
            .into_iter()
            .flatten()
            .collect())
    }

    /// The identity of this name or id: the home's own, or one of another party.
    ///
    /// # Errors
    /// As [`Identities::all_imported`]; or when two have the name.
    pub fn named(&self, text: &str) -> Result<Option<Identity>, VerifyError> {
        let is_it = |identity: &Identity| {
            identity.content().name.as_str() == text || identity.id().to_string() == text
        };
        let all = self.own()?.into_iter().chain(self.all_imported()?);
        let mut found: Vec<Identity> = all.filter(is_it).collect();
        match found.len() {
            0 | 1 => Ok(found.pop()),
            _ => Err(VerifyError::refused(format!(
                "several identities have the name {text:?}; hint: name one by its id, see threadseal id show"
            ))),
        }
    }

    /// The newest file of the identity that `given` is of: itself, or the one that is known here.
    ///
    /// # Errors
    /// When the two contradict each other, or the known one cannot be read.
    pub fn newest(&self, given: Identity) -> Result<Identity, VerifyError> {
        let Some(known) = self.known(given.id())? else {
            return Ok(given);
        };
        match given.follows(&known) {
            Ok(_) => Ok(given),
            Err(Conflict::Older | Conflict::Replaced) => Ok(known),
            Err(conflict) => Err(VerifyError::refused(format!(
                "the identity {} is not accepted: {conflict}",
                given.content().name
            ))),
        }
    }

    /// What is known of this identity.
    fn known(&self, id: &IdentityId) -> Result<Option<Identity>, VerifyError> {
        let own = self.own()?.filter(|own| own.id() == id);
        match own {
            Some(own) => Ok(Some(own)),
            None => self.imported(id),
        }
    }

    /// Keeps a file of another party, if it may take the place of the one that is known. None for
    /// an identity that was not known.
    ///
    /// # Errors
    /// When it cannot be written or the known one not be read. The conflict, where it must not.
    pub fn import(
        &self,
        identity: &Identity,
    ) -> Result<Result<Option<Step>, Conflict>, VerifyError> {
        let step = match self.known(identity.id())? {
            None => None,
            Some(known) => match identity.follows(&known) {
                Ok(step) => Some(step),
                Err(conflict) => return Ok(Err(conflict)),
            },
        };
        if self.own()?.is_some_and(|own| own.id() == identity.id()) {
            // Its own file is written by export alone.
            return Ok(Ok(step));
        }
        if step.is_none() && self.all_imported()?.len() >= MAX_IDENTITIES {
            return Err(VerifyError::refused(format!(
                "a home keeps at most {MAX_IDENTITIES} identities"
            )));
        }
        if step != Some(Step::Same) {
            let folder = self.home.join(FOLDER);
            atomic::create_directories(&*self.fs, &folder, PRIVATE_DIRECTORY)?;
            self.write(&self.path_of(identity.id()), identity)?;
        }
        Ok(Ok(step))
    }

    /// Keeps the newest file of the home's own identity.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_own(&self, identity: &Identity) -> Result<(), VerifyError> {
        self.write(&self.home.join(OWN), identity)
    }

    fn write(&self, path: &Path, identity: &Identity) -> Result<(), VerifyError> {
        let bytes = identity.to_bytes()?;
        let mode = Mode::KeepOr(PRIVATE_FILE);
        Ok(atomic::replace(&*self.fs, path, &bytes, mode)?)
    }

    fn path_of(&self, id: &IdentityId) -> PathBuf {
        self.home.join(FOLDER).join(format!("{id}.{ENDING}"))
    }

    fn read(&self, path: &Path) -> Result<Option<Identity>, VerifyError> {
        let Some(bytes) = read_trusted_file(&*self.fs, path, MAX_IDENTITY_BYTES)? else {
            return Ok(None);
        };
        let read = Identity::read(&bytes);
        Ok(Some(
            read.map_err(|error| VerifyError::from(error).about(path))?,
        ))
    }
}
