//! The identity of an agent: a name under a root key, and the file that holds the key
//! (`spec/lineage.md` §5).
//!
//! ```text
//! agent id  SHA-256-tagged("threadseal/lineage-agent/1", [root key[32], name])
//! name      1 to 63 bytes of UTF-8, a single part of a path
//! file      `<agent>.identity`: igor's 68 bytes (u32le 64 ‖ seed[32] ‖ key[32]), or PKCS#8 PEM
//! ```
//! A file that cannot be read is an error and never the reason for a new key. igor generates a new
//! key then, and the agent has another identity from there on. The public half is derived again and
//! compared.
//!
//! Elsewhere: the path of the file and its permissions (the store crate).

use std::fmt;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, PublicKey};
use threadseal_core::limits::{MAX_AGENT_NAME_BYTES, MAX_KEY_FILE_BYTES};
use zeroize::Zeroizing;

/// The domain of agent ids.
pub const AGENT_TAG: &str = "threadseal/lineage-agent/1";

/// The name of an agent. It becomes the name of files, so it is checked first: 1 to
/// [`MAX_AGENT_NAME_BYTES`] bytes, no control character, `/`, `\` or `:`, no `.` in front.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentName(String);

impl AgentName {
    /// Checks and takes `text`.
    ///
    /// # Errors
    /// Kind `InvalidInput`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let forbidden = |c: char| c.is_control() || matches!(c, '/' | '\\' | ':');
        if text.is_empty()
            || text.len() > MAX_AGENT_NAME_BYTES
            || text.starts_with('.')
            || text.contains(forbidden)
        {
            return Err(Error::invalid(format!(
                "the name of an agent has 1 to {MAX_AGENT_NAME_BYTES} bytes, no control character, \
                 slash, backslash or colon, and no dot in front"
            )));
        }
        Ok(Self(text.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The id of an agent: its name bound to its root key. It never changes in a migration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentId(Digest);

impl AgentId {
    /// The id of the agent of this name under this root key.
    pub fn new(root: &PublicKey, name: &AgentName) -> Self {
        let parts = [root.as_bytes().as_slice(), name.as_str().as_bytes()];
        Self(Digest::tagged(AGENT_TAG, &parts))
    }

    /// The digest.
    pub fn digest(&self) -> Digest {
        self.0
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    /// 64 lower-case hex digits.
    pub fn to_hex(&self) -> String {
        self.0.to_hex()
    }
}

impl fmt::Debug for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AgentId({})", self.0)
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// How an identity file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdentityForm {
    /// igor's 68 bytes, which igor can read too.
    Igor,
    /// PKCS#8 PEM.
    Pem,
}

/// The private key of an agent, from its identity file.
#[derive(Debug)]
pub struct AgentIdentity {
    key: PrivateKey,
    form: IdentityForm,
}

impl AgentIdentity {
    /// The identity with this key; new keys must come from a cryptographic source.
    pub fn new(key: PrivateKey, form: IdentityForm) -> Self {
        Self { key, form }
    }

    /// Reads an identity file of either form.
    ///
    /// # Errors
    /// Kind `Key` when it is anything else, longer, shorter, or holds another key's public half.
    pub fn read(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() > MAX_KEY_FILE_BYTES {
            return Err(Error::key("the identity file is too large"));
        }
        match std::str::from_utf8(bytes) {
            Ok(text) if text.starts_with("-----BEGIN ") => {
                let key = PrivateKey::from_pem(text)?;
                Ok(Self::new(key, IdentityForm::Pem))
            }
            _ => {
                let key = PrivateKey::from_igor_identity(bytes)?;
                Ok(Self::new(key, IdentityForm::Igor))
            }
        }
    }

    /// The file that [`AgentIdentity::read`] reads. No other user may have access to it.
    pub fn to_file(&self) -> Zeroizing<Vec<u8>> {
        match self.form {
            IdentityForm::Igor => self.key.to_igor_identity(),
            IdentityForm::Pem => Zeroizing::new(self.key.to_pem().as_bytes().to_vec()),
        }
    }

    /// How its file is written.
    pub fn form(&self) -> IdentityForm {
        self.form
    }

    /// The key under which the signatures verify.
    pub fn public_key(&self) -> &PublicKey {
        self.key.public_key()
    }

    /// It as a signer of checkpoints in v0x04, and of nothing else.
    pub fn into_original_signer(self) -> LocalSigner {
        LocalSigner::new(self.key, KeyUsage::Igor)
    }

    /// It as a root key, or a session key, of v0x05. From then on it must not sign v0x04.
    pub fn into_native_signer(self) -> LocalSigner {
        LocalSigner::new(self.key, KeyUsage::Native)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadseal_core::testing::key;

    #[test]
    fn a_name_is_one_part_of_a_path() {
        for good in ["counter", "local-agent", "日本", "a b", &"x".repeat(63)] {
            assert_eq!(AgentName::parse(good).unwrap().as_str(), good);
        }
        let long = "x".repeat(64);
        for bad in [
            "", ".", "..", ".x", "a/b", "a\\b", "C:x", "a\nb", "a\0", &long,
        ] {
            assert!(AgentName::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_agent_is_its_name_and_its_root_key() {
        let id = |seed, name| AgentId::new(&key(seed), &AgentName::parse(name).unwrap());
        assert_eq!(id(1, "a"), id(1, "a"));
        assert_ne!(id(1, "a"), id(1, "b"));
        assert_ne!(id(1, "a"), id(2, "a"));
    }

    #[test]
    fn an_identity_comes_back_from_both_files() {
        for form in [IdentityForm::Igor, IdentityForm::Pem] {
            let identity = AgentIdentity::new(PrivateKey::from_seed([4; 32]), form);
            let file = identity.to_file();
            let again = AgentIdentity::read(&file).unwrap();
            assert_eq!(again.public_key(), identity.public_key());
            assert_eq!((again.form(), again.to_file()), (form, file));
        }
    }

    // T-LIN-09
    #[test]
    fn a_damaged_identity_is_an_error_and_no_new_key() {
        let identity = AgentIdentity::new(PrivateKey::from_seed([4; 32]), IdentityForm::Igor);
        let file = identity.to_file();
        assert_eq!(file.len(), 68);
        for at in 0..68 {
            let mut damaged = file.to_vec();
            damaged[at] ^= 1;
            assert!(AgentIdentity::read(&damaged).is_err(), "byte {at}");
        }
        for length in 0..68 {
            assert!(AgentIdentity::read(&file[..length]).is_err(), "{length}");
        }
        // igor ignores bytes after the key.
        assert!(AgentIdentity::read(&[file.as_slice(), &[0]].concat()).is_err());
    }
}
