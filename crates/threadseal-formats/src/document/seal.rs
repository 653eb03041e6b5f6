//! The native seal of a document: its text, its three places, and its coverage.
//!
//! ```text
//! SEAL   1-KIND-RECORD-SEQ-TIME-KEY-SIGNATURE
//!        KIND       a word of `DocumentKind`
//!        RECORD     64 hex: the record's id
//!        SEQ        decimal, from 0: how often this record was sealed before
//!        TIME       YYYYMMDDTHHMMSSZ
//!        KEY        64 hex: the raw public key
//!        SIGNATURE  86 characters of base64url without padding, zero trailing bits
//!
//! JSON                          a member   "_threadseal":"threadseal:signed:SEAL"
//! text                          last line  # threadseal:signed:SEAL          (or `//`, `<!-- -->`)
//! either, with Rye's signature  its suffix …:FINGERPRINT|threadseal@SEAL
//! ```
//! The seal covers the whole file as stored, less the 86 characters of SIGNATURE:
//! ```text
//! content = tagged("threadseal/1 document content", [bytes before SIGNATURE, bytes after it])
//! signed    the tagged message "threadseal/1 document" of [content]
//! ```
//! So the seal covers shebang, front matter, prose, blanks, line ends, Rye's own header, and its
//! own other fields. There is one spelling, and one seal in a file.
//!
//! Why the suffix: Rye hashes everything but its own header, and the native seal covers everything
//! but itself. So neither can be where the other covers bytes. Rye's grammar leaves one place free:
//! the provenance after its fingerprint, which no Rye signature covers. Rye signs first, the native
//! seal is made last, and Rye's readers accept the file.

use super::kind::{Comment, DocumentKind, ItemType};
use super::rye;
use std::ops::Range;
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::key::{Message, PublicKey, Signature, SignatureError, Signer};
use threadseal_core::record::{Head, RecordId, parse_decimal};
use threadseal_core::time::Timestamp;

/// Begins a native seal in its own line or member.
pub(super) const PREFIX: &str = "threadseal:signed:";
/// The provider in Rye's provenance.
pub(super) const PROVIDER: &str = "threadseal";
/// The member of a JSON object.
pub(super) const MEMBER: &str = "_threadseal";

const VERSION: &str = "1";
pub(super) const SIGNATURE_LEN: usize = 86;
const CONTENT_TAG: &str = "threadseal/1 document content";
const SEAL_TAG: &str = "threadseal/1 document";

/// The content of a native seal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NativeSeal {
    /// The kind that was sealed.
    pub kind: DocumentKind,
    /// The record.
    pub record: RecordId,
    /// How often the record was sealed before.
    pub seq: u64,
    /// When it was sealed; the signer's claim.
    pub time: Timestamp,
    /// The key that sealed it, as the seal names it.
    pub key: PublicKey,
    signature: Signature,
}

/// A seal and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Located {
    pub(super) seal: NativeSeal,
    /// The bytes of SIGNATURE.
    pub(super) signature_at: Range<usize>,
}

/// The native seals that a file has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    Seal(Box<Located>),
    /// It claims to be a seal and cannot be read.
    Unreadable(Range<usize>),
    /// It is not last.
    Misplaced(Range<usize>),
    /// A second one is here.
    Several(Range<usize>),
}

impl Found {
    pub(super) fn seal(located: Located) -> Self {
        Self::Seal(Box::new(located))
    }
}

impl NativeSeal {
    /// The text up to SIGNATURE.
    pub(super) fn unsigned_text(
        kind: DocumentKind,
        record: &RecordId,
        seq: u64,
        time: Timestamp,
        key: &PublicKey,
    ) -> String {
        let time = time.to_iso_seconds().replace(['-', ':'], "");
        format!("{VERSION}-{kind}-{record}-{seq}-{time}-{}-", key.to_hex())
    }

    /// Reads SEAL, which must be all of `text`.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(7, '-');
        if parts.next()? != VERSION {
            return None;
        }
        let kind = DocumentKind::parse(parts.next()?)?;
        let record = RecordId::parse_hex(parts.next()?)?;
        let seq = parse_decimal(parts.next()?)?;
        let time = parse_time(parts.next()?)?;
        let key = PublicKey::from_hex(parts.next()?).ok()?;
        let signature = parts.next().filter(|text| text.len() == SIGNATURE_LEN)?;
        let signature = Signature::from_slice(&encoding::parse_base64url_either(signature)?)?;
        Some(Self {
            kind,
            record,
            seq,
            time,
            key,
            signature,
        })
    }
}

fn parse_time(text: &str) -> Option<Timestamp> {
    if text.len() != "YYYYMMDDTHHMMSSZ".len() || !text.is_ascii() {
        return None;
    }
    Timestamp::parse_iso_seconds(&format!(
        "{}-{}-{}:{}:{}",
        &text[..4],
        &text[4..6],
        &text[6..11],
        &text[11..13],
        &text[13..]
    ))
}

impl Located {
    /// Reads a seal that takes the bytes `at` of `file`.
    pub(super) fn read(file: &str, at: Range<usize>) -> Option<Self> {
        let seal = NativeSeal::parse(&file[at.clone()])?;
        Some(Self {
            seal,
            signature_at: at.end - SIGNATURE_LEN..at.end,
        })
    }

    /// The digest of all that the seal covers.
    pub(super) fn content(&self, file: &[u8]) -> Digest {
        content(file, &self.signature_at)
    }

    /// Checks the signature over `content`.
    pub(super) fn verify(&self, content: &Digest) -> Result<(), SignatureError> {
        self.seal
            .key
            .verify(&message(content), &self.seal.signature)
    }

    /// The head of the record: `size` is the file's, `line` the digest of the covered bytes.
    pub(super) fn head(&self, file: &[u8], content: Digest) -> Head {
        Head {
            record: self.seal.record,
            seq: self.seal.seq,
            size: file.len() as u64,
            line: content,
        }
    }
}

fn content(file: &[u8], hole: &Range<usize>) -> Digest {
    Digest::tagged(CONTENT_TAG, &[&file[..hole.start], &file[hole.end..]])
}

fn message(content: &Digest) -> Message {
    Message::tagged(SEAL_TAG, &[content.as_bytes()])
}

/// Signs `before ‖ SIGNATURE ‖ after` and puts the three together.
pub(super) fn close(
    before: &[u8],
    after: &[u8],
    signer: &dyn Signer,
) -> Result<Vec<u8>, threadseal_core::error::Error> {
    let content = Digest::tagged(CONTENT_TAG, &[before, after]);
    let signature = sign(&content, signer)?;
    Ok([before, signature.as_bytes(), after].concat())
}

/// SIGNATURE over `content`.
pub(super) fn sign(
    content: &Digest,
    signer: &dyn Signer,
) -> Result<String, threadseal_core::error::Error> {
    let signature = signer.sign(&message(content))?;
    let text = encoding::base64url(signature.as_bytes());
    Ok(text.trim_end_matches('=').to_owned())
}

/// A line of its own: where it begins, and where SEAL would be in it.
struct OwnLine {
    line: Range<usize>,
    comment: Comment,
}

/// Every line, in any comment style, that claims to be a native seal.
fn own_lines(text: &str) -> impl Iterator<Item = OwnLine> {
    let mut start = 0;
    text.split_inclusive('\n').filter_map(move |line| {
        let range = start..start + line.len();
        start = range.end;
        Some(OwnLine {
            line: range,
            comment: claimed_comment(line)?,
        })
    })
}

fn claimed_comment(line: &str) -> Option<Comment> {
    Comment::ALL.into_iter().find(|comment| {
        line.strip_prefix(comment.open())
            .is_some_and(|rest| rest.starts_with(PREFIX))
    })
}

/// Whether this line claims to be a native seal, in any comment style. A text that has such a line
/// cannot be sealed.
pub fn begins_like_a_seal(line: &str) -> bool {
    claimed_comment(line).is_some()
}

impl OwnLine {
    fn read(&self, text: &str) -> Option<Located> {
        let close = [self.comment.close(), "\n"].concat();
        let start = self.line.start + self.comment.open().len() + PREFIX.len();
        let seal = text[start..self.line.end].strip_suffix(close.as_str())?;
        let located = Located::read(text, start..start + seal.len())?;
        (located.seal.kind.comment() == Some(self.comment)).then_some(located)
    }
}

/// The kind that an apparent seal claims, for a text whose name shows no kind. The seal's own kind
/// counts, else the kind of its comment. The seal may be anywhere: bytes added before or after a
/// seal must not hide the file from verification.
pub(super) fn claimed_kind(text: &str) -> Option<DocumentKind> {
    let own = own_lines(text).last().map(|last| {
        let seal = last.read(text).map(|located| located.seal.kind);
        seal.unwrap_or_else(|| last.comment.usual_kind())
    });
    own.or_else(|| claimed_in_header(text))
        .or_else(|| claims_as_member(text).then_some(DocumentKind::Json))
}

/// By a line of Rye's that carries a seal.
fn claimed_in_header(text: &str) -> Option<DocumentKind> {
    let suffix = format!("|{PROVIDER}@");
    let at = text.match_indices(&suffix).find_map(|(at, _)| {
        let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let line = &text[start..at];
        let is_header = |comment: &Comment| {
            line.strip_prefix(comment.open())
                .is_some_and(|rest| rest.starts_with("rye:signed:"))
        };
        Comment::ALL.into_iter().find(is_header)
    });
    at.map(Comment::usual_kind)
}

/// By a member of an object that does not begin the file. Only the blanks of JSON are blanks here.
fn claims_as_member(text: &str) -> bool {
    let name = format!("\"{MEMBER}\"");
    let value = format!("\"{PREFIX}");
    text.match_indices(&name).any(|(at, _)| {
        let rest = trim_blanks(&text[at + name.len()..]);
        let rest = rest.strip_prefix(':').map(trim_blanks);
        rest.is_some_and(|rest| rest.starts_with(&value))
    })
}

fn trim_blanks(text: &str) -> &str {
    text.trim_start_matches([' ', '\t', '\n', '\r'])
}

/// The native seals of a text file.
pub(super) fn find_in_text(text: &str, kind: DocumentKind) -> Found {
    let mut lines = own_lines(text);
    let first = lines.next();
    if let (Some(_), Some(second)) = (&first, lines.next()) {
        return Found::Several(second.line);
    }
    match (first, suffix_in_text(text, kind)) {
        (None, None) => Found::Nothing,
        (None, Some(suffix)) => suffix,
        (Some(line), Some(_)) => Found::Several(line.line),
        (Some(line), None) if line.line.end != text.len() => Found::Misplaced(line.line),
        (Some(line), None) => line
            .read(text)
            .filter(|_| rye_header(text, kind).is_none())
            .map_or(Found::Unreadable(line.line), Found::seal),
    }
}

/// Whether Rye's provenance is a native seal. A seal under another provider's name is one too.
/// Otherwise one changed byte would turn it into a registry's name, which no signature covers.
pub(super) fn is_seal(provenance: &(&str, &str)) -> bool {
    provenance.0 == PROVIDER || has_form(provenance.1)
}

/// Whether a text has the form of a seal, whatever moment, key and signature are in it.
fn has_form(text: &str) -> bool {
    let parts: Vec<&str> = text.splitn(7, '-').collect();
    let [version, kind, record, seq, time, key, signature] = parts[..] else {
        return false;
    };
    let is_hex = |text: &str| text.len() == 64 && text.bytes().all(is_lower_hex);
    let is_url = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_time = time.len() == 16
        && time.bytes().enumerate().all(|(at, byte)| match at {
            8 => byte == b'T',
            15 => byte == b'Z',
            _ => byte.is_ascii_digit(),
        });
    version == "1"
        && DocumentKind::parse(kind).is_some()
        && is_hex(record)
        && digits(seq)
        && (seq == "0" || !seq.starts_with('0'))
        && is_time
        && is_hex(key)
        && signature.len() == SIGNATURE_LEN
        && signature.bytes().all(is_url)
}

fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// The seal in the provenance of Rye's header.
fn suffix_in_text(text: &str, kind: DocumentKind) -> Option<Found> {
    let header = rye_header(text, kind)?;
    let (provider, seal) = header.fields.provenance.filter(is_seal)?;
    let end = header.fields_start + header.fields.len;
    let unreadable = Found::Unreadable(header.fields_start..end);
    Some(
        Located::read(text, end - seal.len()..end)
            .filter(|_| header.well_ended && provider == PROVIDER)
            .map_or(unreadable, Found::seal),
    )
}

/// Rye's header on the bytes as stored, wherever Rye would look for it.
pub(super) fn rye_header(text: &str, kind: DocumentKind) -> Option<rye::text::Header<'_>> {
    let item = match kind {
        DocumentKind::Markdown => ItemType::Knowledge,
        _ => ItemType::Tool,
    };
    rye::text::find_header(text, kind, item)
}

/// Whether any line claims to be a seal.
pub(super) fn has_own_line(text: &str) -> bool {
    own_lines(text).next().is_some()
}

/// Where a seal on its own line begins, so that sealing again replaces it.
pub(super) fn own_line_start(text: &str) -> Option<usize> {
    let last = own_lines(text).last()?;
    (last.line.end == text.len()).then_some(last.line.start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadseal_core::key::KeyUsage;
    use threadseal_core::testing::{key, signer};

    fn seal_text() -> String {
        let time = Timestamp::parse_iso_seconds("2026-02-18T10:30:00Z").unwrap();
        let record = RecordId::from_bytes([2; 32]);
        NativeSeal::unsigned_text(DocumentKind::Shell, &record, 7, time, &key(1)) + &"A".repeat(86)
    }

    #[test]
    fn a_seal_has_one_spelling() {
        let text = seal_text();
        let seal = NativeSeal::parse(&text).unwrap();
        assert_eq!((seal.kind, seal.seq), (DocumentKind::Shell, 7));
        assert_eq!(seal.time.to_iso_seconds(), "2026-02-18T10:30:00Z");
        for (from, to) in [
            ("1-shell", "01-shell"),
            ("1-shell", "2-shell"),
            ("shell", "Shell"),
            ("-7-", "-07-"),
            ("-7-", "-+7-"),
            ("20260218", "20260230"),
            ("T103000Z", "T103000z"),
            ("0202-7", "0202--7"),
        ] {
            let bad = text.replacen(from, to, 1);
            assert_ne!(bad, text);
            assert_eq!(NativeSeal::parse(&bad), None, "{to}");
        }
        for bad in [
            format!("{text}="),
            format!("{text}A"),
            format!(" {text}"),
            text[..text.len() - 1].to_owned() + "B",
            text.to_uppercase(),
        ] {
            assert_eq!(NativeSeal::parse(&bad), None, "{bad}");
        }
    }

    // T-DOC-02
    #[test]
    fn exactly_one_seal_and_it_stands_last() {
        let line = format!("# {PREFIX}{}\n", seal_text());
        let find = |text: &str| match find_in_text(text, DocumentKind::Shell) {
            Found::Nothing => "nothing",
            Found::Seal(_) => "seal",
            Found::Misplaced(_) => "misplaced",
            Found::Several(_) => "several",
            Found::Unreadable(_) => "unreadable",
        };
        for (text, found) in [
            (format!("x\n{line}"), "seal"),
            (format!("{line}x\n"), "misplaced"),
            (format!("{line}{line}"), "several"),
            (line.trim_end().to_owned(), "unreadable"),
            (line.replace('\n', "\r\n"), "unreadable"),
            (line.replace("# ", "// "), "unreadable"),
            (format!(" {line}"), "nothing"),
        ] {
            assert_eq!(find(&text), found, "{text:?}");
        }
    }

    #[test]
    fn the_content_digest_knows_where_the_hole_is() {
        assert_ne!(content(b"abcd", &(1..2)), content(b"axcd", &(2..3)));
        assert_eq!(content(b"abcd", &(1..2)), content(b"axcd", &(1..2)));
    }

    #[test]
    fn a_closed_seal_verifies() {
        let before = seal_text();
        let before = format!("x\n# {PREFIX}{}", &before[..before.len() - 86]);
        let file = close(before.as_bytes(), b"\n", &signer(1, KeyUsage::Native)).unwrap();
        let text = std::str::from_utf8(&file).unwrap();
        let Found::Seal(located) = find_in_text(text, DocumentKind::Shell) else {
            panic!("{text}")
        };
        let content = located.content(&file);
        assert_eq!(located.verify(&content), Ok(()));
        assert!(located.verify(&Digest::of(b"")).is_err());
    }
}
