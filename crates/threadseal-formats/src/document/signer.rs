//! From a key that signed to its entry in the report.

use super::part::Part;
use threadseal_core::key::{KeyUsage, PublicKey, RyeFingerprint};
use threadseal_core::record::Head;
use threadseal_core::report::{Finding, FindingCode, SignerReport, SignerStatus, Verdict};
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{Purpose, ScopeFormat, Standing, Trust};

/// The trust, bound to one document.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judge<'a> {
    pub(super) trust: &'a Trust,
    pub(super) now: Timestamp,
    pub(super) held_since: Option<Timestamp>,
    pub(super) format: ScopeFormat,
    /// The `thread_id` in the document.
    pub(super) thread: Option<&'a str>,
}

impl Judge<'_> {
    /// The keys that a Rye fingerprint may mean.
    pub(super) fn known_as(&self, fingerprint: &RyeFingerprint) -> Vec<PublicKey> {
        self.trust.by_fingerprint(*fingerprint)
    }

    /// Enters the trust's answer for `key`, whose signature holds. `heads` contains the head of its
    /// seal, where that is native.
    pub(super) fn judge(&self, key: &PublicKey, usage: KeyUsage, heads: &[Head], part: &mut Part) {
        let purpose = Purpose {
            usage,
            format: self.format,
            thread: self.thread,
            evidence: self.held_since,
            heads,
        };
        let judgement = self.trust.judge(key, &purpose, self.now);
        let id = key.key_id().to_hex();
        let (status, doubt) = weigh(judgement.standing, &id);
        part.signer = Some(SignerReport {
            key: id,
            did: Some(key.to_did_key()),
            name: judgement.name.map(|name| name.as_str().to_owned()),
            status,
            sealed_by: Vec::new(),
        });
        if let Some((verdict, finding)) = doubt {
            part.doubt(verdict, finding);
        }
    }

    /// Enters a signer that is known by name only, so that no check was possible.
    pub(super) fn stranger(&self, name: &str, part: &mut Part) {
        let standing = match self.trust.pinned.is_empty() {
            false => Standing::NotPinned,
            true => Standing::Unknown,
        };
        let (status, doubt) = weigh(standing, name);
        part.signer = Some(SignerReport {
            key: name.to_owned(),
            did: None,
            name: None,
            status,
            sealed_by: Vec::new(),
        });
        if let Some((verdict, finding)) = doubt {
            part.doubt(verdict, finding);
        }
    }
}

/// `name` is that of the signer.
fn weigh(standing: Standing, name: &str) -> (SignerStatus, Option<(Verdict, Finding)>) {
    match standing {
        Standing::Trusted => (SignerStatus::Trusted, None),
        Standing::Pinned => (SignerStatus::Pinned, None),
        Standing::NotPinned => (
            SignerStatus::Other,
            Some((
                Verdict::UnknownSigner,
                Finding::warning(
                    FindingCode::OtherSigner,
                    "signed by a key that was not asked for",
                ),
            )),
        ),
        Standing::Unknown => (
            SignerStatus::Unknown,
            Some((
                Verdict::UnknownSigner,
                Finding::warning(
                    FindingCode::UnknownSigner,
                    "the key that signed is not trusted",
                ),
            )),
        ),
        Standing::Revoked {
            at,
            doubt: Some(doubt),
            ..
        } => (
            SignerStatus::Revoked,
            Some((Verdict::UnknownSigner, Finding::of_doubt(&doubt, name, at))),
        ),
        Standing::Revoked { at, .. } => (
            SignerStatus::Revoked,
            Some((
                Verdict::Forged,
                Finding::error(
                    FindingCode::KeyRevoked,
                    format!(
                        "the key that signed was revoked as of {}, and nothing proves that the signature is older",
                        at.to_iso_seconds()
                    ),
                ),
            )),
        ),
        Standing::OutOfScope { why } => (
            SignerStatus::OutOfScope,
            Some((
                Verdict::UnknownSigner,
                Finding::warning(FindingCode::KeyOutOfScope, why),
            )),
        ),
        Standing::Expired { why } => (
            SignerStatus::OutOfScope,
            Some((
                Verdict::UnknownSigner,
                Finding::warning(FindingCode::KeyExpired, why),
            )),
        ),
    }
}
