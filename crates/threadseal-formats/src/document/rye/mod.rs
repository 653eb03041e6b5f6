//! Rye's signatures on documents: the Rye profile, byte for byte.
//!
//! [`text`] finds the header and the bytes that it covers. This module checks one signature against
//! those bytes.
//!
//! A Rye signature proves little: a key signed the 64 hex digits of this hash. It binds no kind,
//! place, time or thread. So a signature on a knowledge entry also fits a `thread.json` with the
//! same bytes (`spec/documents.md` lists the consequences).
//!
//! Elsewhere: the grammar of a signature ([`threadseal_core::trust::rye::fields`]), the two
//! carriers ([`super::text`], [`super::json`]).

pub(super) mod text;

use super::part::Part;
use super::signer::Judge;
use threadseal_core::digest::Digest;
use threadseal_core::key::{KeyUsage, Message, PublicKey, RyeFingerprint, Signature};
use threadseal_core::report::{Finding, FindingCode, SignerReport, SignerStatus, Verdict};
use threadseal_core::trust::head_of_signature;
use threadseal_core::trust::rye::fields::Fields;

/// Rye's own answer for a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Valid,
    Modified,
    Untrusted,
    BadSignature,
}

/// Checks one signature. `hashed` is the digest of the bytes that Rye hashes, None where Rye cannot
/// hash.
pub(super) fn check(
    fields: &Fields<'_>,
    hashed: Option<Digest>,
    judge: &Judge<'_>,
) -> (Part, Answer) {
    let mut part = Part::default();
    unauthenticated(fields, &mut part);
    if fields.moment().is_none() {
        part.fault(
            Verdict::Malformed,
            Finding::error(
                FindingCode::ImpossibleTime,
                "the time of the Rye signature is not a valid time",
            ),
        );
    }
    let same = hashed.is_some() && hashed == fields.digest();
    if !same {
        part.fault(
            Verdict::Tampered,
            Finding::error(
                FindingCode::ContentModified,
                "the content does not have the hash that the Rye signature names",
            ),
        );
    }
    let signed = check_signature(fields, judge, &mut part);
    let answer = match signed {
        _ if !same => Answer::Modified,
        Signed::Known => Answer::Valid,
        Signed::Stranger => Answer::Untrusted,
        Signed::Forger if accepted_by_lillux(fields, judge) => Answer::Valid,
        Signed::Forger => Answer::BadSignature,
    };
    (part, answer)
}

/// Rye shows these as facts; no signature covers them.
fn unauthenticated(fields: &Fields<'_>, part: &mut Part) {
    part.unauthenticated
        .push(format!("timestamp={}", fields.time));
    let registry = fields.provenance.filter(|p| !super::seal::is_seal(p));
    if let Some((provider, user)) = registry {
        part.unauthenticated
            .push(format!("provenance={provider}@{user}"));
    }
}

enum Signed {
    Known,
    Stranger,
    Forger,
}

fn check_signature(fields: &Fields<'_>, judge: &Judge<'_>, part: &mut Part) -> Signed {
    let forged = |part: &mut Part, code, message| {
        part.fault(Verdict::Forged, Finding::error(code, message));
        part.signer = Some(SignerReport {
            key: fields.fingerprint.to_owned(),
            did: None,
            name: None,
            status: SignerStatus::Rejected,
            sealed_by: Vec::new(),
        });
    };
    let Some(signature) = fields.signature_bytes() else {
        let message = "the Rye signature is not 64 bytes in their canonical form";
        forged(part, FindingCode::SignatureEncoding, message);
        return match keys(fields, judge).is_empty() {
            true => Signed::Stranger,
            false => Signed::Forger,
        };
    };
    let keys = keys(fields, judge);
    let by = |key: &&PublicKey| signs(key, fields, &signature);
    if let Some(key) = keys.iter().find(by) {
        let head = head_of_signature(&signature);
        judge.judge(key, KeyUsage::Rye, &[head], part);
        return Signed::Known;
    }
    if keys.is_empty() {
        judge.stranger(fields.fingerprint, part);
        return Signed::Stranger;
    }
    let message = "the key that the fingerprint names did not make the Rye signature";
    forged(part, FindingCode::BadSignature, message);
    Signed::Forger
}

fn keys(fields: &Fields<'_>, judge: &Judge<'_>) -> Vec<PublicKey> {
    RyeFingerprint::parse_hex(fields.fingerprint)
        .map(|fingerprint| judge.known_as(&fingerprint))
        .unwrap_or_default()
}

fn signs(key: &PublicKey, fields: &Fields<'_>, signature: &Signature) -> bool {
    fields
        .digest()
        .is_some_and(|hash| key.verify(&Message::rye_hash(&hash), signature).is_ok())
}

/// Rye's `lillux` drops any number of "=" before it decodes; the grammar lets one pass.
fn accepted_by_lillux(fields: &Fields<'_>, judge: &Judge<'_>) -> bool {
    let bare = Fields {
        signature: fields.signature.trim_end_matches('='),
        ..*fields
    };
    bare.signature_bytes().is_some_and(|signature| {
        keys(fields, judge)
            .iter()
            .any(|key| signs(key, fields, &signature))
    })
}
