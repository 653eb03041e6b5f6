//! The fields of a Rye signature, as in a header line, in `_signature` and in key files.
//!
//! ```text
//! rye:signed:TIME:HASH:SIGNATURE:FINGERPRINT[|PROVIDER@USER]
//! TIME         dddd-dd-ddTdd:dd:ddZ
//! HASH         64 × [a-f0-9]
//! SIGNATURE    1 or more [A-Za-z0-9_-], then at most two "="
//! FINGERPRINT  16 × [a-f0-9]
//! PROVIDER, USER   1 or more [A-Za-z0-9_-]
//! ```
//! Source: `_SIGNED_FIELDS` in `rye/utils/metadata_manager.py`. Rye's description splits at ":"
//! instead, which breaks on the time's own colons. Its code never did that.
//!
//! Rye signs only the 64 characters of HASH. No signature covers time, fingerprint and provenance.

use crate::digest::Digest;
use crate::encoding;
use crate::key::Signature;
use crate::time::Timestamp;

/// Begins every Rye signature.
pub const PREFIX: &str = "rye:signed:";

/// The fields as the grammar reads them; nothing is verified yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields<'a> {
    /// `YYYY-MM-DDThh:mm:ssZ`.
    pub time: &'a str,
    /// SHA-256 of the content, 64 lower-case hex digits.
    pub hash: &'a str,
    /// The signature in base64url.
    pub signature: &'a str,
    /// Rye's fingerprint of the key, 16 hex digits.
    pub fingerprint: &'a str,
    /// Provider and user.
    pub provenance: Option<(&'a str, &'a str)>,
    /// Length of all of it, the prefix included.
    pub len: usize,
    /// Length without the provenance.
    pub core_len: usize,
}

impl<'a> Fields<'a> {
    /// Reads fields at the start of `text`. The caller handles the rest of the text.
    pub fn read(text: &'a str) -> Option<Self> {
        let mut rest = text.strip_prefix(PREFIX)?;
        let len = time_len(rest)?;
        let time = take(&mut rest, len)?;
        let hash = take_after_colon(&mut rest, is_hex, 64)?;
        let signature = take_signature(&mut rest)?;
        let fingerprint = take_after_colon(&mut rest, is_hex, 16)?;
        let core_len = text.len() - rest.len();
        let provenance = provenance(rest);
        let suffix_len = provenance.map_or(0, |(provider, user)| provider.len() + user.len() + 2);
        Some(Self {
            time,
            hash,
            signature,
            fingerprint,
            provenance,
            len: core_len + suffix_len,
            core_len,
        })
    }

    /// The moment, if the digits name one. Rye accepts any digits.
    pub fn moment(&self) -> Option<Timestamp> {
        Timestamp::parse_iso_seconds(self.time)
    }

    /// The digest; the grammar leaves no other possibility.
    pub fn digest(&self) -> Option<Digest> {
        Digest::parse_hex(self.hash)
    }

    /// The 64 bytes, if the signature is base64url of 64 bytes in canonical spelling. Rye's Python
    /// accepts any trailing bits.
    pub fn signature_bytes(&self) -> Option<Signature> {
        let bytes = encoding::parse_base64url_either(self.signature)?;
        Some(Signature::from_bytes(bytes.try_into().ok()?))
    }
}

/// The fields as Rye writes them, without the provenance, which its registry adds.
pub fn write(time: Timestamp, hash: &Digest, signature: &Signature, fingerprint: &str) -> String {
    format!(
        "{PREFIX}{}:{hash}:{}:{fingerprint}",
        time.to_iso_seconds(),
        // Padded: Rye's Python verifier refuses the unpadded spelling, its Rust verifier accepts
        // both.
        encoding::base64url(signature.as_bytes()),
    )
}

fn is_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn take<'a>(rest: &mut &'a str, len: usize) -> Option<&'a str> {
    let (taken, after) = rest.split_at_checked(len)?;
    *rest = after;
    Some(taken)
}

fn take_after_colon<'a>(rest: &mut &'a str, class: fn(u8) -> bool, len: usize) -> Option<&'a str> {
    let mut after = rest.strip_prefix(':')?;
    let taken = take(&mut after, len)?;
    *rest = after;
    taken.bytes().all(class).then_some(taken)
}

fn take_signature<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let mut after = rest.strip_prefix(':')?;
    let word = word_len(after);
    let padding = after[word..]
        .bytes()
        .take(2)
        .take_while(|b| *b == b'=')
        .count();
    let taken = take(&mut after, word + padding)?;
    *rest = after;
    (word > 0).then_some(taken)
}

fn word_len(text: &str) -> usize {
    text.bytes().take_while(|b| is_word(*b)).count()
}

fn provenance(rest: &str) -> Option<(&str, &str)> {
    let rest = rest.strip_prefix('|')?;
    let (provider, rest) = rest.split_at(word_len(rest));
    let rest = rest.strip_prefix('@')?;
    let user = &rest[..word_len(rest)];
    (!provider.is_empty() && !user.is_empty()).then_some((provider, user))
}

/// Length in bytes of a time at the start of `text`.
///
/// Python's `\d` accepts the decimal digits of every script. Such a time is read here, so that it is
/// reported as impossible rather than overlooked.
fn time_len(text: &str) -> Option<usize> {
    let mut len = 0;
    let mut chars = text.chars();
    for want in "dddd-dd-ddTdd:dd:ddZ".chars() {
        let c = chars.next()?;
        let fits = if want == 'd' { is_digit(c) } else { c == want };
        if !fits {
            return None;
        }
        len += c.len_utf8();
    }
    Some(len)
}

/// The zeros of all scripts with decimal digits (`Nd` of Unicode 16). Nine digits follow each.
const ZEROS: [u32; 76] = [
    0x30, 0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66,
    0xde6, 0xe50, 0xed0, 0xf20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90,
    0x1b50, 0x1bb0, 0x1c40, 0x1c50, 0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10,
    0x104a0, 0x10d30, 0x10d40, 0x11066, 0x110f0, 0x11136, 0x111d0, 0x112f0, 0x11450, 0x114d0,
    0x11650, 0x116c0, 0x116d0, 0x116da, 0x11730, 0x118e0, 0x11950, 0x11bf0, 0x11c50, 0x11d50,
    0x11da0, 0x11f50, 0x16130, 0x16a60, 0x16ac0, 0x16b50, 0x16d70, 0x1ccf0, 0x1d7ce, 0x1d7d8,
    0x1d7e2, 0x1d7ec, 0x1d7f6, 0x1e140, 0x1e2f0, 0x1e4f0, 0x1e5f1, 0x1e950, 0x1fbf0,
];

fn is_digit(c: char) -> bool {
    let code = u32::from(c);
    let before = ZEROS.partition_point(|zero| *zero <= code).checked_sub(1);
    let zero = before.and_then(|at| ZEROS.get(at));
    zero.is_some_and(|zero| code - zero < 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core() -> String {
        format!(
            "rye:signed:2026-02-18T10:30:00Z:{}:{}==:{}",
            "ab".repeat(32),
            "A_-z".repeat(21) + "AA",
            "01".repeat(8)
        )
    }

    #[test]
    fn fields_end_where_ryes_expression_ends() {
        let core = core();
        for (tail, len) in [
            ("", 0),
            (" -->", 0),
            ("0", 0),
            ("|rye-registry@me", 16),
            ("|rye-registry@me evil", 16),
            ("|rye-registry@", 0),
            ("|@me", 0),
            ("|a@b|c@d", 4),
        ] {
            let text = format!("{core}{tail}");
            let fields = Fields::read(&text).unwrap();
            assert_eq!(fields.core_len, core.len(), "{tail}");
            assert_eq!(fields.len, core.len() + len, "{tail}");
        }
        let text = format!("{core}|rye-registry@me");
        let fields = Fields::read(&text).unwrap();
        assert_eq!(fields.provenance, Some(("rye-registry", "me")));
        assert_eq!(fields.time, "2026-02-18T10:30:00Z");
        assert_eq!(fields.fingerprint, "0101010101010101");
        assert!(fields.moment().is_some() && fields.signature_bytes().is_some());
    }

    #[test]
    fn what_ryes_expression_refuses_is_refused() {
        let core = core();
        for bad in [
            core.replace("abab", "ABAB"),
            core.replace(":ab", ":"),
            core.replace("==", "==="),
            core.replace('Z', ""),
            core.replace("rye:signed", "rye:validated"),
            core.replace("2026", "dddd"),
            core[..core.len() - 1].to_owned(),
            core[..40].to_owned(),
            core.replace("2026-", "2026\u{e9}"),
            // Numbers that are no decimal digits.
            core.replace("2026-", "202\u{b2}-"),
            core.replace("2026-", "202\u{bd}-"),
            core.replace("2026-", "202\u{2165}-"),
        ] {
            assert_eq!(Fields::read(&bad), None, "{bad}");
        }
    }

    #[test]
    fn digits_are_those_of_every_script_and_no_other_numbers() {
        assert!(ZEROS.is_sorted_by(|one, next| one + 10 <= *next));
        for code in ZEROS.iter().flat_map(|zero| *zero..zero + 10) {
            let digit = char::from_u32(code).unwrap();
            assert!(is_digit(digit) && digit.is_numeric(), "{code:x}");
        }
        for other in [
            '/', ':', 'a', '\u{65f}', '\u{66a}', '\u{b2}', '\u{bc}', '\u{3007}',
        ] {
            assert!(!is_digit(other), "{other:?}");
        }
    }

    // T-RYE-12
    #[test]
    fn impossible_times_and_second_spellings_of_a_signature_are_no_values() {
        let core = core();
        for time in ["2026-99-99T99:99:99Z", "٢٠٢٦-02-18T10:30:00Z"] {
            let text = core.replace("2026-02-18T10:30:00Z", time);
            let fields = Fields::read(&text).unwrap();
            assert_eq!(fields.time, time);
            assert_eq!(fields.moment(), None);
        }
        for (from, to) in [("AA==", "AB=="), ("AA==", "AA="), ("AA==", "A")] {
            let text = core.replace(from, to);
            assert_eq!(Fields::read(&text).unwrap().signature_bytes(), None, "{to}");
        }
        let text = core.replace("==", "");
        assert!(Fields::read(&text).unwrap().signature_bytes().is_some());
    }
}
