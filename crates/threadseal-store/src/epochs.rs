//! Keys of epochs on a disk: each seals a part of one record, and is then removed from the disk.
//!
//! ```text
//! $THREADSEAL_HOME/epochs/   0700
//! └── <record>-<key id>.key  0600   PKCS#8 PEM; at rest one for each record that continues
//! ```
//! The record states which of its keys is current (`spec/transcript.md` §5). An interrupted
//! rotation leaves a file of another key, which is removed. A file is overwritten before its name
//! is removed. No program reaches the copies in a backup or in spare cells of a disk
//! (`threats/epochs.md`).
//!
//! Not here: when a key takes the place of another ([`crate::recorder`]).

use crate::atomic::{self, PRIVATE_DIRECTORY, PRIVATE_FILE};
use crate::owned_files::read_private_key_file;
use crate::random::{self, Random};
use crate::sys::{self, Access, Fs};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::error::Error;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, PublicKey, Signer as _};
use threadseal_core::record::RecordId;
use zeroize::Zeroizing;

/// The keys of epochs in one folder.
#[derive(Debug, Clone)]
pub struct EpochKeys {
    fs: Arc<dyn Fs>,
    directory: PathBuf,
    takes_over: bool,
}

impl EpochKeys {
    /// Those in `directory`, which is made with the first of them.
    pub fn new(fs: Arc<dyn Fs>, directory: PathBuf) -> Self {
        Self {
            fs,
            directory,
            takes_over: false,
        }
    }

    /// The same keys, for a user who continues records whose key is not here: their authority then
    /// names another key.
    #[must_use]
    pub fn taking_over(self) -> Self {
        Self {
            takes_over: true,
            ..self
        }
    }

    /// May the authority take over a record whose key is not here?
    pub fn takes_over(&self) -> bool {
        self.takes_over
    }

    /// Makes the first key that this folder holds for `record`: file and names are durable then.
    ///
    /// # Errors
    /// Kind `External` when the system fails, `InvalidInput` when the folder cannot be written.
    pub fn begin(&self, record: &RecordId, random: &dyn Random) -> Result<LocalSigner, Error> {
        atomic::create_directory(&*self.fs, &self.directory, PRIVATE_DIRECTORY)?;
        self.create(record, random)
    }

    /// Makes another key for `record`: file and name are durable then.
    ///
    /// # Errors
    /// As [`EpochKeys::begin`].
    pub fn create(&self, record: &RecordId, random: &dyn Random) -> Result<LocalSigner, Error> {
        let seed = Zeroizing::new(random::array(random)?);
        let key = PrivateKey::from_seed(*seed);
        let path = self.path(record, key.public_key());
        atomic::create_new(&*self.fs, &path, key.to_pem().as_bytes(), PRIVATE_FILE)?;
        Ok(LocalSigner::new(key, KeyUsage::Native))
    }

    /// The private half of `key`, if it is here.
    ///
    /// # Errors
    /// Kind `Key` when others may read the file or it holds another key, `External` when the system
    /// fails.
    pub fn open(&self, record: &RecordId, key: &PublicKey) -> Result<Option<LocalSigner>, Error> {
        let path = self.path(record, key);
        match self.fs.symlink_metadata(&path) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(sys::failure("read", &path, &error)),
        }
        let bytes = Zeroizing::new(read_private_key_file(&*self.fs, &path)?);
        let text = std::str::from_utf8(&bytes).ok();
        let private = text.and_then(|text| PrivateKey::from_pem(text).ok());
        let signer = private.map(|private| LocalSigner::new(private, KeyUsage::Native));
        match signer.filter(|signer| signer.public_key() == key) {
            Some(signer) => Ok(Some(signer)),
            None => Err(Error::key(format!(
                "{} does not contain the key in its name",
                path.display()
            ))),
        }
    }

    /// Removes all keys of `record` except `living`, durably: they are overwritten first.
    ///
    /// # Errors
    /// Kind `External` when the system fails; some of them may still exist then.
    pub fn remove_all_but(
        &self,
        record: &RecordId,
        living: Option<&PublicKey>,
    ) -> Result<(), Error> {
        let names = match self.fs.read_dir(&self.directory) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(sys::failure("read", &self.directory, &error)),
        };
        let of_record = format!("{record}-");
        let kept = living.map(|key| file_name(record, key));
        let mut removed = false;
        for name in names.iter().filter_map(|name| name.to_str()) {
            if name.starts_with(&of_record) && kept.as_deref() != Some(name) {
                self.destroy(&self.directory.join(name))?;
                removed = true;
            }
        }
        if removed {
            let synced = self.fs.sync_dir(&self.directory);
            synced.map_err(|error| sys::failure("remove keys in", &self.directory, &error))?;
        }
        Ok(())
    }

    fn destroy(&self, path: &Path) -> Result<(), Error> {
        let work = || -> io::Result<()> {
            let file = self.fs.open(path, Access::Rewrite)?;
            let size = usize::try_from(file.metadata()?.size).unwrap_or(0);
            let zeros = vec![0; size.min(threadseal_core::limits::MAX_KEY_FILE_BYTES)];
            sys::write_all_at(&*file, &zeros, 0)?;
            file.sync_data()?;
            self.fs.unlink(path)
        };
        work().map_err(|error| sys::failure("remove the key", path, &error))
    }

    fn path(&self, record: &RecordId, key: &PublicKey) -> PathBuf {
        self.directory.join(file_name(record, key))
    }
}

fn file_name(record: &RecordId, key: &PublicKey) -> String {
    format!("{record}-{}.key", key.key_id())
}
