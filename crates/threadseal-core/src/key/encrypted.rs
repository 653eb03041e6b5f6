//! Private keys under a passphrase: PKCS#8 "ENCRYPTED PRIVATE KEY" (RFC 5958 §3, RFC 8018).
//!
//! ```text
//! written  PBES2 { scrypt N = 2^14, r = 8, p = 5, salt[16] (RFC 7914); AES-256-CBC, iv[16] }
//!          of the v1 DER, in PEM with the label "ENCRYPTED PRIVATE KEY"
//! read     PBES2 with scrypt, or PBKDF2 with HMAC-SHA-224 to -512; AES-CBC or AES-GCM
//! ```
//! OpenSSL 3 grants scrypt at most 16 MiB without an option; p makes up for it in time. The cost
//! parameters of a file are bounded before any derivation starts.

use super::PrivateKey;
use super::private::{ENCRYPTED_LABEL, read_pem, write_pem};
use crate::error::{Error, ErrorKind};
use crate::limits::{
    MAX_PASSPHRASE_BYTES, MAX_PBKDF2_ITERATIONS, MAX_SCRYPT_MEMORY_BYTES, MAX_SCRYPT_WORK_BYTES,
};
use pkcs8::der::{Decode as _, Encode as _, asn1::OctetStringRef};
use pkcs8::pkcs5::pbes2::{self, Kdf, ScryptParams};
use pkcs8::{EncryptedPrivateKeyInfoRef, pkcs5};
use zeroize::Zeroizing;

const SCRYPT_N: u64 = 1 << 14;
const SCRYPT_R: u16 = 8;
const SCRYPT_P: u16 = 5;

impl PrivateKey {
    /// Whether this PEM file needs a passphrase.
    pub fn is_encrypted_pem(text: &str) -> bool {
        text.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----")
    }

    /// Reads a PKCS#8 PEM file that is encrypted under `passphrase`.
    ///
    /// # Errors
    /// [`ErrorKind::Key`] for a wrong passphrase or any other file. [`ErrorKind::Limit`] when the
    /// file exceeds the named bounds on memory or time, or the passphrase is too long.
    pub fn from_encrypted_pem(text: &str, passphrase: &[u8]) -> Result<Self, Error> {
        check_passphrase(passphrase)?;
        let (label, der) = read_pem(text)?;
        if label != ENCRYPTED_LABEL {
            return Err(Error::key(
                "the PEM file does not hold an encrypted private key",
            ));
        }
        let info = EncryptedPrivateKeyInfoRef::from_der(der.as_bytes())
            .map_err(|_| Error::key("not a PKCS#8 encrypted private key"))?;
        check_parameters(&info.encryption_algorithm)?;
        let plain = info.decrypt(passphrase).map_err(|error| match error {
            pkcs8::Error::EncryptedPrivateKey(pkcs5::Error::UnsupportedAlgorithm { .. }) => {
                Error::key("the private key is encrypted in a way that is not supported")
            }
            _ => Error::key(
                "the private key cannot be decrypted: wrong passphrase, or a damaged file",
            ),
        })?;
        Self::from_pkcs8(plain.as_bytes())
    }

    /// The encrypted PKCS#8 PEM file. `salt` and `iv` must come from a cryptographic source and
    /// be used once: neither is secret.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an empty passphrase, which would protect nothing;
    /// [`ErrorKind::Limit`] for one that is too long.
    pub fn to_encrypted_pem(
        &self,
        passphrase: &[u8],
        salt: [u8; 16],
        iv: [u8; 16],
    ) -> Result<Zeroizing<String>, Error> {
        if passphrase.is_empty() {
            return Err(Error::invalid("the passphrase is empty"));
        }
        check_passphrase(passphrase)?;
        let refuse = |_| Error::key("the private key could not be encrypted");
        let scrypt = ScryptParams {
            salt: pbes2::Salt::new(salt).map_err(refuse)?,
            cost_parameter: SCRYPT_N,
            block_size: SCRYPT_R,
            parallelization: SCRYPT_P,
            key_length: None,
        };
        let parameters = pbes2::Parameters {
            kdf: scrypt.into(),
            encryption: pbes2::EncryptionScheme::Aes256Cbc { iv },
        };
        let encrypted = parameters
            .encrypt(passphrase, &self.to_pkcs8())
            .map_err(|_| Error::key("the private key could not be encrypted"))?;
        let info = EncryptedPrivateKeyInfoRef {
            encryption_algorithm: parameters.into(),
            encrypted_data: OctetStringRef::new(&encrypted).map_err(refuse)?,
        };
        Ok(write_pem(ENCRYPTED_LABEL, &info.to_der().map_err(refuse)?))
    }
}

fn check_passphrase(passphrase: &[u8]) -> Result<(), Error> {
    if passphrase.len() > MAX_PASSPHRASE_BYTES {
        return Err(Error::new(
            ErrorKind::Limit,
            format!("a passphrase has at most {MAX_PASSPHRASE_BYTES} bytes"),
        ));
    }
    Ok(())
}

/// Refuses costly files and invalid parameters before any derivation starts.
///
/// No honest file costs more memory or time than the bounds. The decryption must not see parameters
/// outside their definition (pkcs5 0.8.1 panics on N = 0).
fn check_parameters(scheme: &pkcs5::EncryptionScheme) -> Result<(), Error> {
    let unsupported = || Error::key("the private key is encrypted in a way that is not supported");
    let parameters = scheme.pbes2().ok_or_else(unsupported)?;
    let (sound, affordable) = match &parameters.kdf {
        Kdf::Pbkdf2(pbkdf2) => (
            pbkdf2.iteration_count > 0,
            pbkdf2.iteration_count <= MAX_PBKDF2_ITERATIONS,
        ),
        Kdf::Scrypt(scrypt) => {
            let n = u128::from(scrypt.cost_parameter);
            let r = u128::from(scrypt.block_size);
            let p = u128::from(scrypt.parallelization);
            // RFC 7914 §6: V has N blocks of 128 r bytes and is filled p times; B has p.
            let memory = 128 * r * (n + p);
            let work = 128 * r * n * p;
            (
                n > 1 && n.is_power_of_two() && r > 0 && p > 0,
                memory <= MAX_SCRYPT_MEMORY_BYTES && work <= MAX_SCRYPT_WORK_BYTES,
            )
        }
        _ => return Err(unsupported()),
    };
    if !sound {
        return Err(Error::key(
            "the key file's cost parameters are not valid: the file is damaged",
        ));
    }
    if !affordable {
        return Err(Error::new(
            ErrorKind::Limit,
            "the key file's cost parameters need too much memory or time",
        ));
    }
    Ok(())
}
