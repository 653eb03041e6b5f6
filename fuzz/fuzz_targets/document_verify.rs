//! Documents of every kind. The trust holds two keys whose private halves are in the testkit. So
//! the seeds under them verify, and their mutants must not.
//!
//! * A file that verifies natively no longer does with a byte added or one changed.
//! * After sealing, or signing for Rye, the file reads as sealed or signed, with any earlier
//!   content.
//! * Only the verdict `verified` hands out a document. An empty trust verifies nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use threadseal_formats::document::{
    DocumentKind, NativeSealing, Options, Outcome, ProfileChoice, RyeSigning, sign_native, sign_rye,
    verify,
};
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, Signer};
use threadseal_core::record::RecordId;
use threadseal_core::report::{FindingCode, Report, Verdict};
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{Trust, TrustName, TrustStore, TrustedKey};

static NATIVE: LazyLock<LocalSigner> =
    LazyLock::new(|| LocalSigner::new(PrivateKey::from_seed([1; 32]), KeyUsage::Native));
static RYE: LazyLock<LocalSigner> =
    LazyLock::new(|| LocalSigner::new(PrivateKey::from_seed([2; 32]), KeyUsage::Rye));
static NOBODY: LazyLock<Trust> = LazyLock::new(Trust::default);
static TRUST: LazyLock<Trust> = LazyLock::new(|| {
    let mut store = TrustStore::new();
    for (name, signer) in [("native", &*NATIVE), ("rye", &*RYE)] {
        let name = TrustName::parse(name).expect("a name");
        let entry = TrustedKey::new(name, *signer.public_key(), [signer.usage()]);
        store.add(entry).expect("two entries");
    }
    Trust::new(store)
});

fn now() -> Timestamp {
    Timestamp::from_micros(1_800_000_000_000_000).expect("in range")
}

fn report(bytes: &[u8], kind: DocumentKind, profile: ProfileChoice, trust: &Trust) -> Report {
    let mut options = Options::new(kind, trust, now());
    options.profile = profile;
    let Outcome { report, verified } = verify(bytes, &options).expect("no item type was asked for");
    assert_eq!(verified.is_some(), report.verdict == Verdict::Verified);
    if let Some(verified) = verified {
        let covered = verified.get().covered();
        assert!(covered.iter().all(|range| range.end <= bytes.len() as u64));
    }
    report
}

fn verifies(bytes: &[u8], kind: DocumentKind, profile: ProfileChoice) -> bool {
    report(bytes, kind, profile, &TRUST).verdict == Verdict::Verified
}

fn has(report: &Report, codes: &[FindingCode]) -> bool {
    report
        .findings
        .iter()
        .any(|finding| codes.contains(&finding.code))
}

fn sealed_files_are_brittle(bytes: &[u8], kind: DocumentKind) {
    let mut longer = bytes.to_vec();
    longer.push(b'\n');
    assert!(!verifies(&longer, kind, ProfileChoice::Native));
    let mut changed = bytes.to_vec();
    let at = bytes
        .iter()
        .fold(0, |at, byte| (at * 31 + usize::from(*byte)) % bytes.len());
    changed[at] ^= 1;
    assert!(!verifies(&changed, kind, ProfileChoice::Auto));
}

fn sealing_is_read_back(bytes: &[u8], kind: DocumentKind) {
    let sealing = NativeSealing {
        record: RecordId::from_bytes([9; 32]),
        seq: 0,
        time: now(),
        signer: &*NATIVE,
    };
    let Ok(sealed) = sign_native(bytes, kind, &sealing) else {
        return;
    };
    let after = report(&sealed, kind, ProfileChoice::Native, &TRUST);
    assert_eq!(
        after.head.expect("a seal was read").size,
        sealed.len() as u64
    );
    let broken = [
        FindingCode::SealMismatch,
        FindingCode::SealUnreadable,
        FindingCode::SealNotLast,
        FindingCode::SeveralSeals,
        FindingCode::OtherKind,
    ];
    assert!(!has(&after, &broken), "{after:?}");
    assert_eq!(sign_native(&sealed, kind, &sealing).as_ref(), Ok(&sealed));
}

fn signing_is_read_back(bytes: &[u8], kind: DocumentKind) {
    let signing = RyeSigning {
        item_type: None,
        time: now(),
        signer: &*RYE,
    };
    let Ok(signed) = sign_rye(bytes, kind, &signing) else {
        return;
    };
    let after = report(&signed, kind, ProfileChoice::Rye, &TRUST);
    let about_a_key_file = has(&after, &[FindingCode::FingerprintMismatch]);
    assert!(
        after.verdict == Verdict::Verified || about_a_key_file,
        "{after:?}"
    );
    assert_eq!(sign_rye(&signed, kind, &signing).as_ref(), Ok(&signed));
}

fuzz_target!(|bytes: &[u8]| {
    // As JSON, and as one other kind: all kinds would cost four times as much.
    let other = DocumentKind::ALL[bytes.len() % DocumentKind::ALL.len()];
    for kind in [DocumentKind::Json, other] {
        for profile in [ProfileChoice::Auto, ProfileChoice::Rye, ProfileChoice::Native] {
            let unknown = report(bytes, kind, profile, &NOBODY);
            assert_ne!(unknown.verdict, Verdict::Verified);
            report(bytes, kind, profile, &TRUST);
        }
        if verifies(bytes, kind, ProfileChoice::Native) {
            sealed_files_are_brittle(bytes, kind);
        }
        sealing_is_read_back(bytes, kind);
        signing_is_read_back(bytes, kind);
    }
});
