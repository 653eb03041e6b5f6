//! Delegations: a root key names a session key, so that the root key never moves (`spec/lineage.md`
//! §6).
//!
//! ```text
//! signed by the root  Message::tagged("threadseal/lineage-delegation/1",
//!                       [agent id[32], signer[32], key epoch u64le, not before i64le,
//!                        not after i64le])
//! in a header         key epoch, not before, not after, signature; the rest is in other fields
//! as a file           threadseal lineage delegation 1
//!                     root <did:key>
//!                     name <JSON string in ASCII>
//!                     signer <did:key>
//!                     key-epoch <decimal, from 1>
//!                     not-before <nanoseconds since 1970>
//!                     not-after <nanoseconds since 1970>
//!                     signature <base64 of 64 bytes>
//! ```
//! Each line ends in LF; there is one spelling. The key epoch numbers the delegations of one agent
//! and shows the newer of two. The window bounds the time that a link states, which is its signer's
//! claim. So it limits honest nodes; it limits a stolen session key only in the times that it may
//! state.

use super::identity::{AgentId, AgentName};
use threadseal_core::canon::json::{self, write_ascii_string};
use threadseal_core::encoding;
use threadseal_core::error::Error;
use threadseal_core::key::{Message, PublicKey, Signature, SignatureError, Signer};
use threadseal_core::limits::MAX_DELEGATION_BYTES;
use threadseal_core::record::parse_decimal;

/// The domain of a delegation's signature.
pub const DELEGATION_TAG: &str = "threadseal/lineage-delegation/1";
const FIRST_LINE: &str = "threadseal lineage delegation 1";

/// The window and the number of a key's delegation, and the root's signature of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Certificate {
    /// The number of the agent's delegation, from 1; 0 is the root itself and has none.
    pub key_epoch: u64,
    /// Nanoseconds since 1970, not negative.
    pub not_before: i64,
    /// Nanoseconds since 1970, not before `not_before`.
    pub not_after: i64,
    /// By the root.
    pub signature: Signature,
}

impl Certificate {
    /// Does it cover a link of this time?
    pub fn covers(&self, time: i64) -> bool {
        (self.not_before..=self.not_after).contains(&time)
    }

    /// Why it cannot be one, whichever key signed it.
    pub(super) fn fault(&self) -> Option<&'static str> {
        if self.key_epoch == 0 {
            return Some("be numbered from 1 where the signer is not the root");
        }
        let ordered = 0 <= self.not_before && self.not_before <= self.not_after;
        (!ordered).then_some("begin at or after 1970 and not end before it begins")
    }
}

/// A delegation on its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delegation {
    /// The root key that delegates.
    pub root: PublicKey,
    /// The name of its agent.
    pub name: AgentName,
    /// The key that may sign.
    pub signer: PublicKey,
    /// The window, and the root's signature.
    pub certificate: Certificate,
}

impl Delegation {
    /// Delegates: `root` is the signer with the agent's root key.
    ///
    /// # Errors
    /// Kind `InvalidInput` for an invalid window, a key epoch of 0, or a delegation to the root
    /// itself. Those of [`Signer::sign`].
    pub fn sign(
        root: &dyn Signer,
        name: AgentName,
        signer: PublicKey,
        key_epoch: u64,
        [not_before, not_after]: [i64; 2],
    ) -> Result<Self, Error> {
        let mut delegation = Self {
            root: *root.public_key(),
            name,
            signer,
            certificate: Certificate {
                key_epoch,
                not_before,
                not_after,
                signature: Signature::from_bytes([0; 64]),
            },
        };
        if let Some(fault) = delegation.fault() {
            return Err(Error::invalid(format!("a delegation must {fault}")));
        }
        delegation.certificate.signature = root.sign(&delegation.message())?;
        Ok(delegation)
    }

    /// Did the root sign it?
    ///
    /// # Errors
    /// [`SignatureError`] when not.
    pub fn verify(&self) -> Result<(), SignatureError> {
        self.root
            .verify(&self.message(), &self.certificate.signature)
    }

    /// The agent.
    pub fn agent_id(&self) -> AgentId {
        AgentId::new(&self.root, &self.name)
    }

    /// Reads the file. [`Delegation::verify`] checks whether the root signed it.
    ///
    /// # Errors
    /// Kind `InvalidInput` when the text is anything but one spelling of a delegation.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let refuse = || Error::invalid("this is not a delegation of a lineage");
        if text.len() > MAX_DELEGATION_BYTES {
            return Err(refuse());
        }
        let delegation = Self::parse_lines(text).ok_or_else(refuse)?;
        if delegation.fault().is_some() || delegation.to_text() != text {
            return Err(refuse());
        }
        Ok(delegation)
    }

    /// The file.
    pub fn to_text(&self) -> String {
        let mut name = Vec::new();
        write_ascii_string(&mut name, self.name.as_str());
        let certificate = &self.certificate;
        format!(
            "{FIRST_LINE}\nroot {}\nname {}\nsigner {}\nkey-epoch {}\nnot-before {}\nnot-after {}\nsignature {}\n",
            self.root.to_did_key(),
            String::from_utf8_lossy(&name),
            self.signer.to_did_key(),
            certificate.key_epoch,
            certificate.not_before,
            certificate.not_after,
            encoding::base64(certificate.signature.as_bytes()),
        )
    }

    fn fault(&self) -> Option<&'static str> {
        if self.signer == self.root {
            return Some("name another key than the root");
        }
        self.certificate.fault()
    }

    fn message(&self) -> Message {
        let certificate = &self.certificate;
        Message::tagged(
            DELEGATION_TAG,
            &[
                self.agent_id().as_bytes(),
                self.signer.as_bytes(),
                &certificate.key_epoch.to_le_bytes(),
                &certificate.not_before.to_le_bytes(),
                &certificate.not_after.to_le_bytes(),
            ],
        )
    }

    fn parse_lines(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut next = |name: &str| {
            let line = lines.next()?;
            line.strip_prefix(name)?.strip_prefix(' ')
        };
        next("threadseal").filter(|rest| Some(*rest) == FIRST_LINE.strip_prefix("threadseal "))?;
        let root = PublicKey::from_did_key(next("root")?).ok()?;
        let name = json::parse(next("name")?.as_bytes()).ok()?;
        let signer = PublicKey::from_did_key(next("signer")?).ok()?;
        let moment = |text: &str| i64::try_from(parse_decimal(text)?).ok();
        Some(Self {
            root,
            name: AgentName::parse(name.as_str()?).ok()?,
            signer,
            certificate: Certificate {
                key_epoch: parse_decimal(next("key-epoch")?)?,
                not_before: moment(next("not-before")?)?,
                not_after: moment(next("not-after")?)?,
                signature: Signature::from_slice(&encoding::parse_base64(next("signature")?)?)?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadseal_core::key::{KeyUsage, LocalSigner};
    use threadseal_core::testing::{key, signer};

    fn root() -> LocalSigner {
        signer(1, KeyUsage::Native)
    }

    fn delegation() -> Delegation {
        let name = AgentName::parse("counter \"é\"").unwrap();
        Delegation::sign(&root(), name, key(2), 3, [10, 20]).unwrap()
    }

    #[test]
    fn a_delegation_comes_back_from_its_file_and_is_the_roots() {
        let delegation = delegation();
        assert_eq!(delegation.verify(), Ok(()));
        let read = Delegation::parse(&delegation.to_text());
        assert_eq!(read, Ok(delegation.clone()));
        let covered = [9, 10, 20, 21].map(|time| delegation.certificate.covers(time));
        assert_eq!(covered, [false, true, true, false]);
    }

    // T-LIN-08
    #[test]
    fn nothing_in_a_delegation_can_be_changed() {
        let changes: [fn(&mut Delegation); 6] = [
            |d| d.root = key(3),
            |d| d.name = AgentName::parse("other").unwrap(),
            |d| d.signer = key(3),
            |d| d.certificate.key_epoch = 4,
            |d| d.certificate.not_before = 9,
            |d| d.certificate.not_after = 21,
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut changed = delegation();
            change(&mut changed);
            assert_eq!(changed.verify(), Err(SignatureError), "{number}");
            let read = Delegation::parse(&changed.to_text()).unwrap();
            assert!(read.verify().is_err());
        }
    }

    #[test]
    fn a_delegation_has_one_spelling() {
        let text = delegation().to_text();
        for (from, to) in [
            ("key-epoch 3", "key-epoch 03"),
            ("not-before 10", "not-before 30"),
            ("key-epoch 3", "key-epoch 0"),
            ("\\u00e9", "é"),
            ("\n", "\r\n"),
            ("root ", "root  "),
            ("delegation 1", "delegation 2"),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text, "{from}");
            assert!(Delegation::parse(&changed).is_err(), "{from}");
        }
        assert!(Delegation::parse(&format!("{text}\n")).is_err());
        assert!(Delegation::parse(text.trim_end()).is_err());
        assert!(Delegation::parse("").is_err());
    }

    #[test]
    fn a_delegation_that_makes_no_sense_is_not_signed() {
        let name = || AgentName::parse("a").unwrap();
        for (epoch, window) in [(0, [1, 2]), (1, [2, 1]), (1, [-1, 2])] {
            assert!(Delegation::sign(&root(), name(), key(2), epoch, window).is_err());
        }
        let to_itself = key(1);
        assert!(Delegation::sign(&root(), name(), to_itself, 1, [1, 2]).is_err());
        let igor = signer(1, KeyUsage::Igor);
        assert!(Delegation::sign(&igor, name(), key(2), 1, [1, 2]).is_err());
    }
}
