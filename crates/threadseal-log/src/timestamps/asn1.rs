//! What travels between us and a time-stamping authority, as RFC 3161 §2.4 writes it in DER.
//!
//! The time itself is read by hand: RFC 3161 allows fractions of a second, which DER's `GeneralizedTime` of X.509 does not.

use der::asn1::{Any, BitString, Int, ObjectIdentifier, OctetString, Utf8StringRef};
use der::{Encode, Sequence, Tag, Tagged};
use threadseal_core::time::Timestamp;
use x509_cert::ext::Extensions;
use x509_cert::spki::AlgorithmIdentifierOwned;

const MICROS_DIGITS: usize = 6;

/// What is stamped: a digest, and by which function it was made.
#[derive(Debug, Clone, PartialEq, Eq, Sequence)]
pub(super) struct MessageImprint {
    pub(super) hash_algorithm: AlgorithmIdentifierOwned,
    pub(super) hashed_message: OctetString,
}

/// A request; no policy and no extensions are asked for.
#[derive(Debug, Clone, PartialEq, Eq, Sequence)]
pub(super) struct TimeStampReq {
    pub(super) version: u8,
    pub(super) message_imprint: MessageImprint,
    pub(super) nonce: Int,
    pub(super) cert_req: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Sequence)]
pub(super) struct PkiStatusInfo {
    pub(super) status: u8,
    #[asn1(optional = "true")]
    pub(super) status_string: Option<Vec<Any>>,
    #[asn1(optional = "true")]
    pub(super) fail_info: Option<BitString>,
}

/// An answer: whether it was granted, and the token, a `ContentInfo`.
#[derive(Debug, Clone, PartialEq, Eq, Sequence)]
pub(super) struct TimeStampResp {
    pub(super) status: PkiStatusInfo,
    #[asn1(optional = "true")]
    pub(super) token: Option<Any>,
}

#[derive(Debug, Clone, PartialEq, Eq, Sequence)]
pub(super) struct Accuracy {
    #[asn1(optional = "true")]
    pub(super) seconds: Option<u32>,
    #[asn1(context_specific = "0", tag_mode = "IMPLICIT", optional = "true")]
    pub(super) millis: Option<u16>,
    #[asn1(context_specific = "1", tag_mode = "IMPLICIT", optional = "true")]
    pub(super) micros: Option<u16>,
}

/// What the authority signs.
#[derive(Debug, Clone, PartialEq, Eq, Sequence)]
pub(super) struct TstInfo {
    pub(super) version: u8,
    pub(super) policy: ObjectIdentifier,
    pub(super) message_imprint: MessageImprint,
    pub(super) serial_number: Int,
    pub(super) gen_time: Any,
    #[asn1(optional = "true")]
    pub(super) accuracy: Option<Accuracy>,
    #[asn1(default = "not_ordered")]
    pub(super) ordering: bool,
    #[asn1(optional = "true")]
    pub(super) nonce: Option<Int>,
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT", optional = "true")]
    pub(super) tsa: Option<Any>,
    #[asn1(context_specific = "1", tag_mode = "IMPLICIT", optional = "true")]
    pub(super) extensions: Option<Extensions>,
}

/// Which certificate signed, by its digest (RFC 5035 §3); the members behind it say it once more.
#[derive(Debug, Clone, PartialEq, Eq, Sequence)]
pub(super) struct EssCertIdV2 {
    #[asn1(optional = "true")]
    pub(super) hash_algorithm: Option<AlgorithmIdentifierOwned>,
    pub(super) cert_hash: OctetString,
    #[asn1(optional = "true")]
    pub(super) issuer_serial: Option<Any>,
}

/// The older form of it, by SHA-1 (RFC 2634 §5.4).
#[derive(Debug, Clone, PartialEq, Eq, Sequence)]
pub(super) struct EssCertId {
    pub(super) cert_hash: OctetString,
    #[asn1(optional = "true")]
    pub(super) issuer_serial: Option<Any>,
}

#[derive(Debug, Clone, PartialEq, Eq, Sequence)]
pub(super) struct SigningCertificateV2 {
    pub(super) certs: Vec<EssCertIdV2>,
    #[asn1(optional = "true")]
    pub(super) policies: Option<Any>,
}

#[derive(Debug, Clone, PartialEq, Eq, Sequence)]
pub(super) struct SigningCertificate {
    pub(super) certs: Vec<EssCertId>,
    #[asn1(optional = "true")]
    pub(super) policies: Option<Any>,
}

fn not_ordered() -> bool {
    false
}

impl PkiStatusInfo {
    /// What the authority says about it, as far as it is text.
    pub(super) fn text(&self) -> String {
        let texts = self.status_string.iter().flatten();
        let texts = texts.filter_map(|text| text.decode_as::<Utf8StringRef<'_>>().ok());
        let texts: Vec<&str> = texts.map(|text| text.as_str()).collect();
        texts.join("; ")
    }
}

impl Accuracy {
    /// How far the time may be from the true one, in microseconds; None for what RFC 3161 does not allow.
    pub(super) fn micros(&self) -> Option<u64> {
        let part = |part: Option<u16>| match part {
            None => Some(0),
            Some(part) => (1..=999).contains(&part).then_some(u64::from(part)),
        };
        let seconds = u64::from(self.seconds.unwrap_or(0)) * 1_000_000;
        Some(seconds + part(self.millis)? * 1000 + part(self.micros)?)
    }
}

impl TstInfo {
    /// The time in it, rounded up to microseconds: it is read as "not later than".
    pub(super) fn time(&self) -> Option<Timestamp> {
        if self.gen_time.tag() != Tag::GeneralizedTime {
            return None;
        }
        parse_time(self.gen_time.value())
    }
}

/// Reads `YYYYMMDDhhmmss[.f…]Z`; a fraction is not empty and does not end in 0 (RFC 3161 §2.4.2).
fn parse_time(text: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(text)
        .ok()
        .filter(|text| text.is_ascii())?;
    let (whole, rest) = text.split_at_checked(14)?;
    let fraction = match rest.strip_suffix('Z')? {
        "" => "",
        fraction => fraction
            .strip_prefix('.')
            .filter(|digits| !digits.is_empty() && !digits.ends_with('0'))?,
    };
    if !whole
        .bytes()
        .chain(fraction.bytes())
        .all(|b| b.is_ascii_digit())
    {
        return None;
    }
    let iso = format!(
        "{}-{}-{}T{}:{}:{}Z",
        &whole[..4],
        &whole[4..6],
        &whole[6..8],
        &whole[8..10],
        &whole[10..12],
        &whole[12..]
    );
    let seconds = Timestamp::parse_iso_seconds(&iso)?;
    let (kept, beyond) = fraction.split_at(fraction.len().min(MICROS_DIGITS));
    let micros: u64 = format!("{kept:0<6}").parse().ok()?;
    let micros = micros + u64::from(!beyond.is_empty());
    Timestamp::from_micros(seconds.as_micros() + micros).ok()
}

/// The DER of an unsigned number of eight bytes.
pub(super) fn unsigned(number: [u8; 8]) -> der::Result<Int> {
    let significant: Vec<u8> = number.into_iter().skip_while(|byte| *byte == 0).collect();
    let mut bytes = match significant.first() {
        Some(first) if *first < 0x80 => Vec::new(),
        _ => vec![0],
    };
    bytes.extend(significant);
    Int::new(&bytes)
}

/// The DER of `value`, or why there is none.
pub(super) fn to_der(value: &impl Encode) -> der::Result<Vec<u8>> {
    value.to_der()
}

#[cfg(test)]
mod tests {
    use super::*;

    // T-WIT-30
    #[test]
    fn times_have_one_spelling_and_are_rounded_up() {
        let iso = |text: &[u8]| parse_time(text).map(Timestamp::as_micros);
        let base = 1_609_459_199_000_000;
        assert_eq!(iso(b"20201231235959Z"), Some(base));
        assert_eq!(iso(b"20201231235959.5Z"), Some(base + 500_000));
        assert_eq!(iso(b"20201231235959.000001Z"), Some(base + 1));
        assert_eq!(iso(b"20201231235959.0000001Z"), Some(base + 1));
        assert_eq!(iso(b"20201231235959.9999999Z"), Some(base + 1_000_000));
        for bad in [
            &b"20201231235959"[..],
            b"20201231235959.Z",
            b"20201231235959.50Z",
            b"20201231235959.0Z",
            b"20201231235959+0100",
            b"20201331235959Z",
            b"202012312359Z",
            b"2020123123595 Z",
            b"20201231235960Z",
            b"20201231235959.5\xc3\xa9Z",
        ] {
            assert_eq!(iso(bad), None, "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn a_nonce_is_a_positive_integer_of_least_length() {
        for (number, der) in [
            (0_u64, &[2_u8, 1, 0][..]),
            (0x7f, &[2, 1, 0x7f]),
            (0x80, &[2, 2, 0, 0x80]),
            (u64::MAX, &[2, 9, 0, 255, 255, 255, 255, 255, 255, 255, 255]),
        ] {
            let made = unsigned(number.to_be_bytes()).unwrap();
            assert_eq!(to_der(&made).unwrap(), der, "{number}");
        }
    }

    #[test]
    fn an_accuracy_is_within_its_bounds() {
        let accuracy = |seconds, millis, micros| {
            let accuracy = Accuracy {
                seconds,
                millis,
                micros,
            };
            accuracy.micros()
        };
        assert_eq!(accuracy(None, None, None), Some(0));
        assert_eq!(accuracy(Some(1), Some(500), Some(100)), Some(1_500_100));
        assert_eq!(accuracy(None, Some(1000), None), None);
        assert_eq!(accuracy(None, None, Some(0)), None);
    }
}
