//! Checking a native seal, wherever it is in the file.

use super::kind::DocumentKind;
use super::part::Part;
use super::seal::{Found, Located, NativeSeal};
use super::signer::Judge;
use std::ops::Range;
use threadseal_core::digest::Digest;
use threadseal_core::key::KeyUsage;
use threadseal_core::record::{ExpectedHead, Head};
use threadseal_core::report::{Finding, FindingCode, SignerReport, SignerStatus, Verdict};

/// The result of checking a native seal.
#[derive(Debug, Default)]
pub(super) struct Native {
    pub(super) part: Part,
    /// The seal and the record's head, when the seal could be read.
    pub(super) seal: Option<(NativeSeal, Head)>,
}

/// Checks the native seals that the file has; None where it has none.
pub(super) fn check(
    found: Found,
    file: &[u8],
    kind: DocumentKind,
    judge: &Judge<'_>,
) -> Option<Native> {
    let located = match found {
        Found::Nothing => return None,
        Found::Seal(located) => located,
        Found::Unreadable(at) => {
            return Some(broken(
                Verdict::Malformed,
                FindingCode::SealUnreadable,
                "a line looks like a native seal, but does not follow its grammar",
                at,
            ));
        }
        Found::Misplaced(at) => {
            return Some(broken(
                Verdict::Tampered,
                FindingCode::SealNotLast,
                "bytes follow the native seal, which was the last line when the file was sealed",
                at,
            ));
        }
        Found::Several(at) => {
            return Some(broken(
                Verdict::Tampered,
                FindingCode::SeveralSeals,
                "a file has only one native seal; this is another",
                at,
            ));
        }
    };
    Some(check_located(&located, file, kind, judge))
}

/// A native seal that is provably wrong without looking at its signature.
pub(super) fn broken(
    verdict: Verdict,
    code: FindingCode,
    message: &str,
    at: Range<usize>,
) -> Native {
    let mut native = Native::default();
    let finding = Finding::error(code, message).at_bytes(at.start as u64, at.end as u64);
    native.part.fault(verdict, finding);
    native
}

fn check_located(located: &Located, file: &[u8], kind: DocumentKind, judge: &Judge<'_>) -> Native {
    let content = located.content(file);
    let head = located.head(file, content);
    check_against(located, content, head, kind, judge)
}

/// Checks a seal against the digest of all that it covers.
pub(super) fn check_against(
    located: &Located,
    content: Digest,
    head: Head,
    kind: DocumentKind,
    judge: &Judge<'_>,
) -> Native {
    let mut native = Native {
        seal: Some((located.seal, head)),
        ..Native::default()
    };
    let part = &mut native.part;
    if located.seal.kind != kind {
        let message = format!(
            "sealed as {}, but found as {kind}: its meaning may differ",
            located.seal.kind
        );
        part.fault(
            Verdict::Foreign,
            Finding::error(FindingCode::OtherKind, message),
        );
    }
    if located.verify(&content).is_ok() {
        judge.judge(&located.seal.key, KeyUsage::Native, &[head], part);
    } else {
        // Seal and content are indistinguishable here: an attacker may have changed either.
        part.fault(
            Verdict::Tampered,
            Finding::error(
                FindingCode::SealMismatch,
                "the file is not the one that the native seal was made for",
            ),
        );
        part.signer = Some(SignerReport {
            key: located.seal.key.key_id().to_hex(),
            did: Some(located.seal.key.to_did_key()),
            name: None,
            status: SignerStatus::Rejected,
            sealed_by: Vec::new(),
        });
    }
    native
}

/// Compares the head of a seal that holds with one that the caller holds; `exact`: it must be that one.
pub(super) fn compare(
    head: &Head,
    expected: &ExpectedHead,
    exact: bool,
) -> Option<(Verdict, Finding)> {
    let (verdict, code, message) = match expected {
        ExpectedHead::Line(line) if *line == head.line => return None,
        ExpectedHead::Line(_) => (
            Verdict::Foreign,
            FindingCode::OtherHead,
            "the file is not the one that the expected digest names".to_owned(),
        ),
        ExpectedHead::Head(known) if known.record != head.record => (
            Verdict::Foreign,
            FindingCode::OtherRecord,
            "the file belongs to another record than the expected head".to_owned(),
        ),
        ExpectedHead::Head(known) if head.seq < known.seq => (
            Verdict::RolledBack,
            FindingCode::OlderThanHead,
            format!(
                "sealed {} times, but a head with seq {} is known",
                head.seq + 1,
                known.seq
            ),
        ),
        ExpectedHead::Head(known) if head.seq == known.seq && head != known => (
            Verdict::Forked,
            FindingCode::OtherThanHead,
            format!("another file was sealed with the same seq {}", known.seq),
        ),
        ExpectedHead::Head(known) if exact && head != known => (
            Verdict::Open,
            FindingCode::HeadNotLast,
            "the document is not the version of the expected head".to_owned(),
        ),
        ExpectedHead::Head(_) => return None,
    };
    Some((verdict, Finding::error(code, message)))
}
