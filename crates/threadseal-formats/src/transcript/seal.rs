//! One native checkpoint line: its values, its one spelling, its note.
//!
//! ```text
//! …,"payload":{"turn":N,"byte_offset":N,"hash":HEX,"sig":SIG,"fp":FP,"ts":ISO,"seal":{
//!   "seq":N,"lines":N,"root":HEX,"prev":HEX|null,"final":BOOL,"key":HEX,"ext":{…},"note":"NOTE"}}}
//!                                                                              line digest ^
//! NOTE  origin LF lines LF base64(root) LF "line " hex(line digest) LF LF
//!       "— " origin " " base64(id‖sig) LF
//! ```
//! Invariants (`spec/transcript.md` §3): the line is rebuilt from its values and compared, so no
//! byte of it is free. The line digest covers everything up to the note's opening quote, and the
//! signature covers the line digest.
//!
//! Not here: whether the values fit the file (`scan`) and whether the signature holds (`verify`).

use super::event::{Cursor, Frame, Salt, write_frame};
use super::ext::{Ext, ExtFault};
use super::statement::{LineNote, Statement};
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::error::Error;
use threadseal_core::key::{KeyId, RyeFingerprint, Signature, Signer};
use threadseal_core::note::KeyName;
use threadseal_core::record::ThreadId;
use threadseal_core::time::Timestamp;

/// Tag of the line digest.
pub(crate) const LINE_TAG: &str = "threadseal/1 checkpoint line";

/// The text after the note's last escaped LF.
const LINE_END: &[u8] = b"\\n\"}}}";

/// The values of one checkpoint, its note left out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seal {
    /// Turns completed.
    pub(crate) turn: u64,
    pub(crate) byte_offset: u64,
    /// SHA-256 of all bytes before the line.
    pub(crate) hash: Digest,
    /// Rye's signature over the text of `hash`.
    pub(crate) sig: Signature,
    /// Fingerprint of the key of `sig`.
    pub(crate) fp: RyeFingerprint,
    /// Number of the seal, from 0.
    pub(crate) seq: u64,
    /// Lines before this one.
    pub(crate) lines: u64,
    /// RFC 6962 root over those lines.
    pub(crate) root: Digest,
    /// SHA-256 of the previous checkpoint line.
    pub(crate) prev: Option<Digest>,
    /// Does the record end here?
    pub(crate) is_final: bool,
    /// When it was made, by its maker's claim.
    pub(crate) time: Timestamp,
    /// The key that sealed.
    pub(crate) key: KeyId,
    pub(crate) ext: Ext,
}

/// A checkpoint line whose spelling is in order.
pub(crate) struct ParsedSeal<'a> {
    pub(crate) seal: Seal,
    /// Digest of everything up to the note's opening quote.
    line_digest: Digest,
    /// The note as it is spelled inside its quotes, up to its last escaped LF.
    note: &'a [u8],
}

/// Why a checkpoint line cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SealFault {
    /// Another spelling than `spec/transcript.md` §3.
    Spelling,
    /// A critical member of `ext` that is unknown here.
    UnknownCritical(String),
}

/// Reads the checkpoint in `line` (without LF), whose frame is `frame`.
pub(crate) fn parse<'a>(line: &'a [u8], frame: &Frame<'a>) -> Result<ParsedSeal<'a>, SealFault> {
    let payload_at = line.len() - 1 - frame.payload.len();
    let mut cursor = Cursor::new(frame.payload);
    let (mut seal, ext) = parse_values(&mut cursor, frame.timestamp).ok_or(SealFault::Spelling)?;
    seal.ext = Ext::parse(ext).map_err(|fault| match fault {
        ExtFault::UnknownCritical(name) => SealFault::UnknownCritical(name),
        ExtFault::Shape => SealFault::Spelling,
    })?;
    let note_at = payload_at + cursor.position();
    // `rest` is the note, and then LINE_END without the brace that closes the frame.
    let note = cursor.rest().strip_suffix(&LINE_END[..LINE_END.len() - 1]);
    let note = note.ok_or(SealFault::Spelling)?;
    let line_digest = Digest::tagged(LINE_TAG, &[&line[..note_at]]);
    Ok(ParsedSeal {
        seal,
        line_digest,
        note,
    })
}

fn parse_values<'a>(cursor: &mut Cursor<'a>, timestamp: Timestamp) -> Option<(Seal, &'a [u8])> {
    cursor.expect(b"{\"turn\":")?;
    let turn = cursor.number()?;
    cursor.expect(b",\"byte_offset\":")?;
    let byte_offset = cursor.number()?;
    cursor.expect(b",\"hash\":\"")?;
    let hash = Digest::parse_hex(cursor.text(64)?)?;
    cursor.expect(b"\",\"sig\":\"")?;
    // 64 bytes are 86 characters and two of padding, which Rye's Python verifier needs.
    let sig = encoding::parse_base64url_either(cursor.text(88)?)?
        .try_into()
        .ok()?;
    cursor.expect(b"\",\"fp\":\"")?;
    let fp = RyeFingerprint::parse_hex(cursor.text(16)?)?;
    cursor.expect(b"\",\"ts\":\"")?;
    cursor.expect(timestamp.to_iso_seconds().as_bytes())?;
    cursor.expect(b"\",\"seal\":{\"seq\":")?;
    let seq = cursor.number()?;
    cursor.expect(b",\"lines\":")?;
    let lines = cursor.number()?;
    cursor.expect(b",\"root\":\"")?;
    let root = Digest::parse_hex(cursor.text(64)?)?;
    cursor.expect(b"\",\"prev\":")?;
    let prev = match cursor.expect(b"null") {
        Some(()) => None,
        None => {
            cursor.expect(b"\"")?;
            let prev = Digest::parse_hex(cursor.text(64)?)?;
            cursor.expect(b"\"")?;
            Some(prev)
        }
    };
    cursor.expect(b",\"final\":")?;
    let is_final = match cursor.expect(b"true") {
        Some(()) => true,
        None => {
            cursor.expect(b"false")?;
            false
        }
    };
    cursor.expect(b",\"key\":\"")?;
    let key = KeyId::parse_hex(cursor.text(64)?)?;
    cursor.expect(b"\",\"ext\":")?;
    let ext = cursor.object()?;
    cursor.expect(b",\"note\":\"")?;
    let sig = Signature::from_bytes(sig);
    let seal = Seal {
        turn,
        byte_offset,
        hash,
        sig,
        fp,
        seq,
        lines,
        root,
        prev,
        is_final,
        time: timestamp,
        key,
        ext: Ext::default(),
    };
    Some((seal, ext))
}

impl ParsedSeal<'_> {
    /// The note, if it states exactly the values that this line and `origin` require.
    pub(crate) fn note(&self, origin: &KeyName) -> Option<LineNote> {
        let Seal { lines, root, .. } = self.seal;
        Statement {
            origin,
            lines,
            root,
            line: self.line_digest,
        }
        .read(self.note)
    }

    /// The note as a file of its own would hold it.
    pub(crate) fn note_text(&self) -> String {
        let note = String::from_utf8_lossy(self.note);
        note.replace("\\n", "\n").replace("\\u2014", "\u{2014}") + "\n"
    }
}

/// The frame values of a checkpoint line.
pub(crate) struct SealFrame<'a> {
    pub(crate) thread: &'a ThreadId,
    pub(crate) salt: Salt,
    pub(crate) origin: &'a KeyName,
}

/// Writes and signs the checkpoint line of `seal`, without LF.
///
/// # Errors
/// Errors of `signer`.
pub(crate) fn write(
    frame: &SealFrame<'_>,
    seal: &Seal,
    signer: &dyn Signer,
) -> Result<Vec<u8>, Error> {
    let mut line = Vec::with_capacity(1400);
    write_frame(&mut line, seal.time, frame.thread, "checkpoint", frame.salt);
    let prev = seal
        .prev
        .map_or_else(|| "null".to_owned(), |prev| format!("\"{prev}\""));
    let values = format!(
        "{{\"turn\":{},\"byte_offset\":{},\"hash\":\"{}\",\"sig\":\"{}\",\"fp\":\"{}\",\"ts\":\"{}\",\"seal\":{{\"seq\":{},\"lines\":{},\"root\":\"{}\",\"prev\":{prev},\"final\":{},\"key\":\"{}\",\"ext\":{},\"note\":\"",
        seal.turn,
        seal.byte_offset,
        seal.hash,
        encoding::base64url(seal.sig.as_bytes()),
        seal.fp,
        seal.time.to_iso_seconds(),
        seal.seq,
        seal.lines,
        seal.root,
        seal.is_final,
        seal.key,
        seal.ext.to_text(),
    );
    line.extend_from_slice(values.as_bytes());
    let digest = Digest::tagged(LINE_TAG, &[&line]);
    let Seal { lines, root, .. } = *seal;
    let note = Statement {
        origin: frame.origin,
        lines,
        root,
        line: digest,
    }
    .sign(signer)?;
    line.extend_from_slice(note.as_bytes());
    line.extend_from_slice(LINE_END);
    Ok(line)
}
