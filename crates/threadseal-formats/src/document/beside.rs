//! A native seal in a file of its own, beside the document that it covers.
//!
//! ```text
//! FILE        stays as it is, byte for byte
//! FILE.seal   threadseal:signed:SEAL LF           SEAL as in `seal`
//!
//! content = tagged("threadseal/1 document beside", [FILE, FILE.seal up to SIGNATURE])
//! signed    the tagged message "threadseal/1 document" of [content]
//! head      RECORD:SEQ:size of FILE:content
//! ```
//! The tag differs from that of a seal in the document, so neither passes for the other.
//!
//! Normative: `spec/documents.md` §3.

use super::json;
use super::kind::DocumentKind;
use super::native::{self, Native};
use super::reading::Reading;
use super::seal::{self, Located, NativeSeal};
use super::sign::{self, NativeSealing};
use super::signer::Judge;
use super::{Case, Options, Outcome, too_large};
use threadseal_core::canon::json::parse_python;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::limits::MAX_DOCUMENT_BYTES;
use threadseal_core::record::Head;
use threadseal_core::report::{FindingCode, Verdict};
use threadseal_core::trust::ScopeFormat;

/// The tag of what a seal beside a document covers.
const BESIDE_TAG: &str = "threadseal/1 document beside";

/// Bytes of a seal file. The longest seal has fewer.
pub const MAX_BESIDE_BYTES: usize = 512;

/// Does a seal file that begins so hold the seal of a document?
pub fn is_beside(seal_file: &[u8]) -> bool {
    seal_file.starts_with(seal::PREFIX.as_bytes())
}

/// The seal in a seal file, if it can be read.
pub fn read_beside(seal_file: &[u8]) -> Option<NativeSeal> {
    locate(seal_file).map(|located| located.seal)
}

/// Seals a document, which stays as it is, and returns the seal file.
///
/// # Errors
/// [`threadseal_core::error::ErrorKind::Limit`] when the document is too large; errors of the
/// signer.
pub fn sign_beside(
    bytes: &[u8],
    kind: DocumentKind,
    sealing: &NativeSealing<'_>,
) -> Result<Vec<u8>, Error> {
    sign::check_size(bytes.len())?;
    let key = sealing.signer.public_key();
    let (record, seq, time) = (&sealing.record, sealing.seq, sealing.time);
    let unsigned = NativeSeal::unsigned_text(kind, record, seq, time, key);
    let before = [seal::PREFIX, &unsigned].concat();
    let content = Digest::tagged(BESIDE_TAG, &[bytes, before.as_bytes()]);
    let signature = seal::sign(&content, sealing.signer)?;
    Ok([before.as_bytes(), signature.as_bytes(), b"\n"].concat())
}

/// Verifies a document against the seal file beside it. A signature in the document itself is not
/// looked at.
pub fn verify_beside<'a>(bytes: &'a [u8], seal_file: &[u8], options: &Options<'_>) -> Outcome<'a> {
    let reading = match bytes.len() > MAX_DOCUMENT_BYTES {
        true => too_large(bytes.len()),
        false => {
            let thread = thread_of(bytes, options.kind);
            Reading {
                native: Some(check(bytes, seal_file, thread.as_deref(), options)),
                thread,
                ..Reading::default()
            }
        }
    };
    Case::new(bytes, options).decide(reading)
}

/// The thread that a JSON document names; none where Python cannot read it.
fn thread_of(bytes: &[u8], kind: DocumentKind) -> Option<String> {
    let read = (kind == DocumentKind::Json).then(|| parse_python(bytes));
    json::thread_of(&read?.ok()?.value)
}

fn check(bytes: &[u8], seal_file: &[u8], thread: Option<&str>, options: &Options<'_>) -> Native {
    let Some(located) = locate(seal_file) else {
        let text = "the seal file beside it does not follow the grammar of seals";
        let whole = 0..seal_file.len();
        return native::broken(Verdict::Malformed, FindingCode::SealUnreadable, text, whole);
    };
    let before = &seal_file[..located.signature_at.start];
    let content = Digest::tagged(BESIDE_TAG, &[bytes, before]);
    let head = Head {
        record: located.seal.record,
        seq: located.seal.seq,
        size: bytes.len() as u64,
        line: content,
    };
    let judge = Judge {
        trust: options.trust,
        now: options.now,
        held_since: options.held_since,
        format: match options.kind {
            DocumentKind::Json => ScopeFormat::Json,
            _ => ScopeFormat::Text,
        },
        thread,
    };
    native::check_against(&located, content, head, options.kind, &judge)
}

/// The seal of a seal file, which is one line and nothing else.
fn locate(seal_file: &[u8]) -> Option<Located> {
    let text = std::str::from_utf8(seal_file).ok()?;
    let seal = text.strip_prefix(seal::PREFIX)?.strip_suffix('\n')?;
    let start = seal::PREFIX.len();
    Located::read(text, start..start + seal.len())
}

#[cfg(test)]
mod tests {
    use super::super::{ProfileChoice, verify};
    use super::*;
    use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, Signer as _};
    use threadseal_core::record::{RecordId, ThreadId};
    use threadseal_core::report::Report;
    use threadseal_core::time::Timestamp;
    use threadseal_core::trust::{Pins, ThreadPattern, Trust, TrustName, TrustStore, TrustedKey};

    const TEXT: &[u8] = b"# Rules\n\nBe kind";

    fn signer() -> LocalSigner {
        LocalSigner::new(PrivateKey::from_seed([1; 32]), KeyUsage::Native)
    }

    fn sealed() -> Vec<u8> {
        let sealing = NativeSealing {
            record: RecordId::from_bytes([9; 32]),
            seq: 0,
            time: Timestamp::from_micros(0).unwrap(),
            signer: &signer(),
        };
        sign_beside(TEXT, DocumentKind::Markdown, &sealing).unwrap()
    }

    fn report(bytes: &[u8], seal_file: &[u8], kind: DocumentKind) -> Report {
        let trust = Trust {
            pinned: Pins::new([(*signer().public_key()).into()]).unwrap(),
            ..Trust::default()
        };
        let now = Timestamp::from_micros(1).unwrap();
        let options = Options::new(kind, &trust, now);
        verify_beside(bytes, seal_file, &options).report
    }

    #[test]
    fn the_seal_covers_every_byte_of_both_files() {
        let seal = sealed();
        assert!(seal.len() < MAX_BESIDE_BYTES && is_beside(&seal));
        let whole = report(TEXT, &seal, DocumentKind::Markdown);
        assert_eq!(whole.verdict, Verdict::Verified, "{whole:?}");
        assert_eq!(whole.head.unwrap().size, TEXT.len() as u64);
        for at in 0..TEXT.len() {
            let mut other = TEXT.to_vec();
            other[at] ^= 1;
            let report = report(&other, &seal, DocumentKind::Markdown);
            assert_eq!(report.verdict, Verdict::Tampered, "byte {at}");
        }
        for at in 0..seal.len() {
            let mut other = seal.clone();
            other[at] ^= 1;
            let report = report(TEXT, &other, DocumentKind::Markdown);
            assert_ne!(report.verdict, Verdict::Verified, "byte {at} of the seal");
        }
        for rest in [&seal[..seal.len() - 1], &[&seal[..], b"\n"].concat()] {
            let report = report(TEXT, rest, DocumentKind::Markdown);
            assert_eq!(report.verdict, Verdict::Malformed);
        }
        let other = report(TEXT, &seal, DocumentKind::Yaml);
        assert_eq!(other.verdict, Verdict::Foreign);
    }

    /// The report on a JSON document with a seal beside it, where the key is trusted for the thread
    /// `a/t-1` only, and this thread is expected.
    fn in_thread(bytes: &[u8], kind: DocumentKind, thread: Option<&str>) -> Report {
        let sealing = NativeSealing {
            record: RecordId::from_bytes([9; 32]),
            seq: 0,
            time: Timestamp::from_micros(0).unwrap(),
            signer: &signer(),
        };
        let seal = sign_beside(bytes, kind, &sealing).unwrap();
        let name = TrustName::parse("key").unwrap();
        let mut key = TrustedKey::new(name, *signer().public_key(), [KeyUsage::Native]);
        key.scope.threads = [ThreadPattern::parse("a/t-1").unwrap()].into();
        let mut store = TrustStore::new();
        store.add(key).unwrap();
        let (trust, now) = (Trust::new(store), Timestamp::from_micros(1).unwrap());
        let thread = thread.map(|thread| ThreadId::parse(thread).unwrap());
        let mut options = Options::new(kind, &trust, now);
        options.expect_thread = thread.as_ref();
        verify_beside(bytes, &seal, &options).report
    }

    // T-DOC-11
    #[test]
    fn a_document_with_a_seal_beside_it_belongs_to_the_thread_that_it_names() {
        use Verdict::{Foreign, UnknownSigner, Verified};
        let json = DocumentKind::Json;
        let [own, other, asked] = ["a/t-1", "a/t-2", "a/t-1"];
        let of = |thread: &str| format!("{{\"thread_id\":\"{thread}\"}}").into_bytes();
        let twice = br#"{"thread_id":"a/t-2","thread_id":"a/t-1"}"#.to_vec();
        for (bytes, kind, thread, verdict) in [
            (of(own), json, None, Verified),
            (of(own), json, Some(asked), Verified),
            (twice, json, Some(asked), Verified),
            (of(other), json, None, UnknownSigner),
            (of(other), json, Some(asked), Foreign),
            (of(own), json, Some(other), Foreign),
            (b"{}".to_vec(), json, Some(asked), Foreign),
            (
                b"{\"thread_id\":\"a/t-1\"".to_vec(),
                json,
                Some(asked),
                Foreign,
            ),
            (of(own), DocumentKind::Yaml, None, UnknownSigner),
        ] {
            let report = in_thread(&bytes, kind, thread);
            let text = String::from_utf8_lossy(&bytes);
            assert_eq!(report.verdict, verdict, "{text} {thread:?} {report:?}");
        }
    }

    #[test]
    fn a_seal_beside_a_document_is_none_in_it() {
        let (text, seal) = ([TEXT, b"\n"].concat(), sealed());
        let inside = [&text[..], b"<!-- ", &seal[..seal.len() - 1], b" -->\n"].concat();
        let trust = Trust::default();
        let now = Timestamp::from_micros(1).unwrap();
        let options = Options {
            profile: ProfileChoice::Native,
            ..Options::new(DocumentKind::Markdown, &trust, now)
        };
        let report = verify(&inside, &options).unwrap().report;
        assert_eq!(report.verdict, Verdict::Tampered);
    }
}
