//! The age format around the archive: <https://age-encryption.org/v1>.

use crate::exit::Failure;
use age::secrecy::SecretString;
use std::io::{BufRead, Read, Write};
use std::str::FromStr as _;
use zeroize::Zeroizing;

/// The largest work factor of scrypt that is accepted: 2^20 takes 1 GiB of memory.
const MAX_WORK_FACTOR: u8 = 20;

/// Who can open a backup.
pub(crate) enum Sealer {
    /// Who knows the passphrase.
    Passphrase(Zeroizing<String>),
    /// Who has the identity of one of these recipients.
    Recipients(Vec<age::x25519::Recipient>),
}

impl Sealer {
    /// Reads recipients, `age1…`.
    ///
    /// # Errors
    /// When one is none.
    pub(crate) fn recipients(texts: &[String]) -> Result<Self, Failure> {
        let read = texts.iter().map(|text| {
            age::x25519::Recipient::from_str(text).map_err(|_| {
                Failure::new(format!(
                    "{text:?} is no recipient: write age1 and its letters, as age-keygen prints"
                ))
            })
        });
        Ok(Self::Recipients(read.collect::<Result<_, _>>()?))
    }

    /// Encrypts all that is written into the writer; its `finish` ends the file.
    ///
    /// # Errors
    /// When the header cannot be written.
    pub(super) fn wrap<W: Write>(&self, to: W) -> Result<age::stream::StreamWriter<W>, Failure> {
        let encryptor = match self {
            Self::Passphrase(passphrase) => {
                age::Encryptor::with_user_passphrase(SecretString::from(passphrase.as_str()))
            }
            Self::Recipients(recipients) => {
                let recipients = recipients.iter().map(|one| one as &dyn age::Recipient);
                age::Encryptor::with_recipients(recipients)
                    .map_err(|error| Failure::new(format!("cannot encrypt: {error}")))?
            }
        };
        let wrapped = encryptor.wrap_output(to);
        wrapped.map_err(|error| Failure::new(format!("cannot write the backup: {error}")))
    }
}

/// Opens a backup.
pub(crate) trait Opener {
    /// The passphrase; asked only for a file that has one.
    ///
    /// # Errors
    /// When there is none.
    fn passphrase(&self) -> Result<Zeroizing<String>, Failure>;

    /// The text of a file of identities, if one was named.
    ///
    /// # Errors
    /// When it cannot be read.
    fn identities(&self) -> Result<Option<Zeroizing<String>>, Failure>;
}

/// The bytes inside of an age file.
///
/// # Errors
/// When it is none, or the passphrase or the identity does not open it.
pub(super) fn open<R: BufRead + 'static>(
    from: R,
    opener: &dyn Opener,
) -> Result<Box<dyn Read>, Failure> {
    let no_age = |error| Failure::new(format!("not an age file: {error}"));
    let decryptor = age::Decryptor::new_buffered(from).map_err(no_age)?;
    let opened = if decryptor.is_scrypt() {
        let passphrase = opener.passphrase()?;
        let mut identity = age::scrypt::Identity::new(SecretString::from(passphrase.as_str()));
        identity.set_max_work_factor(MAX_WORK_FACTOR);
        decryptor.decrypt(std::iter::once(&identity as &dyn age::Identity))
    } else {
        let Some(text) = opener.identities()? else {
            return Err(Failure::new(
                "the backup was made for recipients; hint: name the file with your age identity: --identity FILE",
            ));
        };
        let identities = identities(&text)?;
        decryptor.decrypt(identities.iter().map(|one| one as &dyn age::Identity))
    };
    match opened {
        Ok(reader) => Ok(Box::new(reader)),
        Err(age::DecryptError::ExcessiveWork { .. }) => Err(Failure::new(format!(
            "its passphrase would take more work than is accepted (2^{MAX_WORK_FACTOR})"
        ))),
        Err(error) => Err(Failure::new(format!("cannot open the backup: {error}"))),
    }
}

/// Lines `AGE-SECRET-KEY-1…`; blank lines and comments are passed over.
fn identities(text: &str) -> Result<Vec<age::x25519::Identity>, Failure> {
    let lines = text.lines().map(str::trim);
    let keys = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let read = keys.map(|line| {
        age::x25519::Identity::from_str(line).map_err(|_| {
            Failure::new("a line of the file is no identity of age (AGE-SECRET-KEY-1…)")
        })
    });
    read.collect()
}
