//! Keys, trust and short reports, for the tests of this crate and of others.
#![allow(
    clippy::unwrap_used,
    reason = "all of this is test code; clippy knows only the functions marked #[test]"
)]

use crate::key::{KeyUsage, LocalSigner, PrivateKey, PublicKey};
use crate::report::{Report, Verdict};
use crate::time::Timestamp;
use crate::trust::{Revocation, Trust, TrustName, TrustStore, TrustedKey};

/// The signer whose seed consists of this byte.
pub fn signer(seed: u8, usage: KeyUsage) -> LocalSigner {
    LocalSigner::new(PrivateKey::from_seed([seed; 32]), usage)
}

/// The key whose seed consists of this byte.
pub fn key(seed: u8) -> PublicKey {
    *PrivateKey::from_seed([seed; 32]).public_key()
}

/// The trust in these keys, each for one usage; their names are `key-1`, `key-2` and so on.
pub fn trust_in(keys: impl IntoIterator<Item = (PublicKey, KeyUsage)>) -> Trust {
    let mut store = TrustStore::new();
    for (number, (key, usage)) in (1..).zip(keys) {
        let name = TrustName::parse(&format!("key-{number}")).unwrap();
        store.add(TrustedKey::new(name, key, [usage])).unwrap();
    }
    Trust::new(store)
}

/// The same trust after the revocation of one of its keys.
pub fn revoked(mut trust: Trust, name: &str, at: Timestamp) -> Trust {
    let revocation = Revocation {
        at,
        reason: "stolen".to_owned(),
        entry: None,
        next: None,
    };
    let name = TrustName::parse(name).unwrap();
    trust.store.revoke(&name, revocation).unwrap();
    trust
}

/// Microseconds since 1970.
pub fn micros(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap()
}

/// A moment after the records of all tests: 2027-01-15T08:00:00Z.
pub fn now() -> Timestamp {
    micros(1_800_000_000_000_000)
}

/// The codes of the findings, in their order.
pub fn codes(report: &Report) -> Vec<&'static str> {
    let findings = report.findings.iter();
    findings.map(|finding| finding.code.as_str()).collect()
}

/// The verdict, and the codes of the findings: `forged: key_revoked, key_unknown`.
pub fn shown(report: &Report) -> String {
    let verdict = report.verdict;
    match codes(report).join(", ") {
        codes if codes.is_empty() => verdict.to_string(),
        codes => format!("{verdict}: {codes}"),
    }
}

/// Checks the verdict, and that a finding has this code; "" is any.
#[track_caller]
pub fn is(report: &Report, verdict: Verdict, code: &str) {
    let found = code.is_empty() || codes(report).contains(&code);
    assert!(
        report.verdict == verdict && found,
        "expected {verdict}: {code}\nfound {}\n{:?}",
        shown(report),
        report.findings
    );
}
