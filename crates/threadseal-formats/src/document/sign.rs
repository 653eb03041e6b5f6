//! Writing signatures into documents.
//!
//! If a file shall carry both, Rye signs first; the native seal then covers Rye's signature.
//! Signing with Rye again removes a native seal, since the seal covers bytes that change.

use super::edit::Members;
use super::json::SIGNATURE;
use super::kind::{Comment, DocumentKind, ItemType};
use super::rye::text as layout;
use super::seal::{self, Found, NativeSeal};
use threadseal_core::canon::json::{Value, parse};
use threadseal_core::canon::python;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::{Message, Signature, Signer};
use threadseal_core::limits::MAX_DOCUMENT_BYTES;
use threadseal_core::record::RecordId;
use threadseal_core::time::Timestamp;
use threadseal_core::trust::rye::fields::{self, Fields};

/// A native seal to be made.
#[derive(Clone, Copy)]
pub struct NativeSealing<'a> {
    /// The record: 32 random bytes, drawn when the document was first sealed.
    pub record: RecordId,
    /// How often the record was sealed before.
    pub seq: u64,
    /// When; nothing proves it.
    pub time: Timestamp,
    /// Signs with the usage [`threadseal_core::key::KeyUsage::Native`].
    pub signer: &'a dyn Signer,
}

/// A Rye signature to be made.
#[derive(Clone, Copy)]
pub struct RyeSigning<'a> {
    /// Rye's type of a text. None means a tool, a directive if there is a `<directive>` block, else
    /// a knowledge entry. Ignored for JSON.
    pub item_type: Option<ItemType>,
    /// When; no signature covers it.
    pub time: Timestamp,
    /// Signs with the usage [`threadseal_core::key::KeyUsage::Rye`].
    pub signer: &'a dyn Signer,
}

/// Seals a document natively and returns the file. A native seal that it has is replaced. No other
/// byte changes, except that a text without a final LF gets one.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] when the document is not of `kind`, has a second seal, or has
/// another suffix after its Rye signature. [`ErrorKind::Limit`]; errors of the signer.
pub fn sign_native(
    bytes: &[u8],
    kind: DocumentKind,
    sealing: &NativeSealing<'_>,
) -> Result<Vec<u8>, Error> {
    check_size(bytes.len())?;
    let unsigned = NativeSeal::unsigned_text(
        kind,
        &sealing.record,
        sealing.seq,
        sealing.time,
        sealing.signer.public_key(),
    );
    let (before, after) = match kind {
        DocumentKind::Json => json_place(bytes, &unsigned)?,
        _ => text_place(bytes, kind, &unsigned)?,
    };
    check_size(before.len() + seal::SIGNATURE_LEN + after.len())?;
    seal::close(&before, &after, sealing.signer)
}

/// Signs a document as Rye does and returns the file, with exactly Rye's bytes. It adds the padding
/// that Rye's Python verifier needs. A Rye signature that it has is replaced; a native seal is
/// removed.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] when the document is not of `kind` or Rye could not read it back.
/// [`ErrorKind::Limit`]; errors of the signer.
pub fn sign_rye(
    bytes: &[u8],
    kind: DocumentKind,
    signing: &RyeSigning<'_>,
) -> Result<Vec<u8>, Error> {
    check_size(bytes.len())?;
    match kind {
        DocumentKind::Json => sign_rye_json(bytes, signing),
        _ => sign_rye_text(bytes, kind, signing),
    }
}

/// Refuses a document that would be too large with its signature.
pub(super) fn check_size(bytes: usize) -> Result<(), Error> {
    if bytes > MAX_DOCUMENT_BYTES {
        return Err(Error::new(
            ErrorKind::Limit,
            format!("a document has at most {MAX_DOCUMENT_BYTES} bytes, its signatures included"),
        ));
    }
    Ok(())
}

fn utf8(bytes: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(bytes).map_err(|_| Error::invalid("a text document is UTF-8"))
}

/// The bytes before and after SIGNATURE.
type Place = (Vec<u8>, Vec<u8>);

fn json_place(bytes: &[u8], unsigned: &str) -> Result<Place, Error> {
    let members = Members::scan(bytes)?;
    if members.value(SIGNATURE).is_some() {
        return json_suffix_place(bytes, &members, unsigned);
    }
    refuse_another_member(&members)?;
    let around = members.with_string(seal::MEMBER);
    let before = [&around.before, seal::PREFIX.as_bytes(), unsigned.as_bytes()].concat();
    Ok((before, around.after))
}

/// Refuses a member of the seal's name that a reader of seals would not take for one. It may be the
/// user's own data, and a seal written in its place could not be read back.
fn refuse_another_member(members: &Members<'_>) -> Result<(), Error> {
    let Some(value) = members.value(seal::MEMBER) else {
        return Ok(());
    };
    let inside = members.plain_string(seal::MEMBER);
    if inside.is_some_and(|inside| members.text()[inside].starts_with(seal::PREFIX)) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "byte {}: the member `{}` is no seal, or is spelled with escapes; hint: rename or remove it",
        value.start,
        seal::MEMBER
    )))
}

fn json_suffix_place(bytes: &[u8], members: &Members<'_>, unsigned: &str) -> Result<Place, Error> {
    if members.value(seal::MEMBER).is_some() {
        return Err(sealed_under_rye());
    }
    let inside = members.plain_string(SIGNATURE);
    let read = inside.and_then(|inside| {
        let text = &members.text()[inside.clone()];
        let fields = Fields::read(text).filter(|fields| fields.len == text.len())?;
        Some((inside.start, fields))
    });
    let Some((start, fields)) = read else {
        return Err(Error::invalid(
            "`_signature` is not a Rye signature; hint: remove it, or sign with Rye again",
        ));
    };
    suffix_place(bytes, start, &fields, unsigned)
}

fn text_place(bytes: &[u8], kind: DocumentKind, unsigned: &str) -> Result<Place, Error> {
    let text = utf8(bytes)?;
    if let Some(header) = seal::rye_header(text, kind) {
        if !header.well_ended {
            return Err(Error::invalid(
                "text follows the Rye signature on its line; hint: sign with Rye again",
            ));
        }
        if seal::has_own_line(text) {
            return Err(sealed_under_rye());
        }
        return suffix_place(bytes, header.fields_start, &header.fields, unsigned);
    }
    let rest = &text[..seal::own_line_start(text).unwrap_or(text.len())];
    refuse_another_seal(rest, kind)?;
    let comment = kind
        .comment()
        .ok_or_else(|| Error::invalid("JSON has no lines of its own"))?;
    let newline = match rest.is_empty() || rest.ends_with('\n') {
        true => "",
        false => "\n",
    };
    let before = [rest, newline, comment.open(), seal::PREFIX, unsigned].concat();
    let after = [comment.close(), "\n"].concat();
    Ok((before.into_bytes(), after.into_bytes()))
}

fn refuse_another_seal(text: &str, kind: DocumentKind) -> Result<(), Error> {
    match seal::find_in_text(text, kind) {
        Found::Nothing => Ok(()),
        Found::Seal(_) | Found::Unreadable(_) | Found::Misplaced(_) | Found::Several(_) => Err(
            Error::invalid("another line begins like a native seal; hint: indent it"),
        ),
    }
}

/// The place after Rye's fingerprint. The fields of the header begin at `start` of the file.
fn suffix_place(
    bytes: &[u8],
    start: usize,
    fields: &Fields<'_>,
    unsigned: &str,
) -> Result<Place, Error> {
    if let Some((provider, _)) = fields.provenance
        && provider != seal::PROVIDER
    {
        return Err(Error::invalid(
            "the Rye signature ends in a registry's name, which no signature covers, in the place of the native seal; \
             hint: remove that name first",
        ));
    }
    let core = &bytes[..start + fields.core_len];
    let suffix = format!("|{}@{unsigned}", seal::PROVIDER);
    let before = [core, suffix.as_bytes()].concat();
    Ok((before, bytes[start + fields.len..].to_vec()))
}

fn sealed_under_rye() -> Error {
    Error::invalid(
        "a Rye signature was added to a natively sealed file, and covers the seal; hint: sign with Rye \
         again, then seal",
    )
}

fn sign_hash(hash: &Digest, signing: &RyeSigning<'_>) -> Result<String, Error> {
    let signature = signing.signer.sign(&Message::rye_hash(hash))?;
    Ok(rye_text(hash, &signature, signing))
}

fn rye_text(hash: &Digest, signature: &Signature, signing: &RyeSigning<'_>) -> String {
    let fingerprint = signing.signer.public_key().rye_fingerprint().to_hex();
    fields::write(signing.time, hash, signature, &fingerprint)
}

fn sign_rye_json(bytes: &[u8], signing: &RyeSigning<'_>) -> Result<Vec<u8>, Error> {
    let members = Members::scan(bytes)?;
    refuse_another_member(&members)?;
    let bytes = members.without(seal::MEMBER);
    let Value::Object(mut content) = parse(&bytes)? else {
        return Err(Error::invalid("only a JSON object can carry a signature"));
    };
    content.retain(|(name, _)| name != SIGNATURE);
    let hash = Digest::of(&python::rye(&Value::Object(content)));
    let around = Members::scan(&bytes)?.with_string(SIGNATURE);
    let blank = rye_text(&hash, &Signature::from_bytes([0; 64]), signing);
    check_size(around.before.len() + blank.len() + around.after.len())?;
    let text = sign_hash(&hash, signing)?;
    Ok([around.before, text.into_bytes(), around.after].concat())
}

fn sign_rye_text(
    bytes: &[u8],
    kind: DocumentKind,
    signing: &RyeSigning<'_>,
) -> Result<Vec<u8>, Error> {
    let text = utf8(bytes)?;
    let text = &text[..seal::own_line_start(text).unwrap_or(text.len())];
    let item = item_type(text, kind, signing)?;
    let refuse = |why: &str| Err(Error::invalid(why));
    if text.contains('\r') {
        return refuse(
            "Rye reads CR as LF and would sign other bytes than these; hint: convert to LF",
        );
    }
    if text.starts_with('\u{feff}') {
        return refuse("Rye finds no header after a byte order mark; hint: remove the mark");
    }
    let (before, comment, after) = header_place(text, kind, item)?;
    let with_header = |fields: &str| {
        let line = [comment.open(), fields, comment.close(), "\n"].concat();
        [before.as_str(), &line, after].concat()
    };
    // The hashed part does not depend on the header's content, only on its being a header.
    let draft = with_header(&rye_text(
        &Digest::of(b""),
        &Signature::from_bytes([0; 64]),
        signing,
    ));
    check_size(draft.len())?;
    let Some(hashed) = layout::extract(&draft, kind, item) else {
        return refuse("a directive needs a <directive>…</directive> block");
    };
    let hash = Digest::of(draft[hashed.clone()].as_bytes());
    let signed = with_header(&sign_hash(&hash, signing)?);
    let found = layout::find_header(&signed, kind, item);
    let Some(header) =
        found.filter(|_| layout::extract(&signed, kind, item) == Some(hashed.clone()))
    else {
        return refuse("Rye would not find this signature again");
    };
    if layout::has_second_header(&signed, kind, &header, &hashed) {
        return refuse("another line is a Rye signature, and Rye's hash would not cover it");
    }
    refuse_another_seal(&signed, kind)?;
    Ok(signed.into_bytes())
}

fn item_type(text: &str, kind: DocumentKind, signing: &RyeSigning<'_>) -> Result<ItemType, Error> {
    let by_content = match kind {
        DocumentKind::Markdown if layout::extract(text, kind, ItemType::Directive).is_some() => {
            ItemType::Directive
        }
        DocumentKind::Markdown => ItemType::Knowledge,
        _ => ItemType::Tool,
    };
    let item = signing.item_type.unwrap_or(by_content);
    if kind.fits(item) {
        Ok(item)
    } else {
        Err(Error::invalid(format!(
            "Rye does not sign a {kind} file as a {}",
            item.as_str()
        )))
    }
}

/// The text before the header's line, the header's comment, and the text after the line.
fn header_place(
    text: &str,
    kind: DocumentKind,
    item: ItemType,
) -> Result<(String, Comment, &str), Error> {
    let comment = kind
        .comment()
        .ok_or_else(|| Error::invalid("JSON has no header"))?;
    let old = layout::removable_header(text, kind);
    let (shebang, rest) = (&text[..old.start], &text[old.end..]);
    if comment == Comment::Hash && item == ItemType::Tool {
        // Rye ends a shebang that is all of the file with LF.
        if rest.starts_with("#!/") && shebang.is_empty() && !rest.contains('\n') {
            return Ok((format!("{rest}\n"), comment, ""));
        }
        let shebang_len = if shebang.is_empty() {
            layout::shebang_len(rest)
        } else {
            0
        };
        let before = [shebang, &rest[..shebang_len]].concat();
        return Ok((before, comment, &rest[shebang_len..]));
    }
    if !shebang.is_empty() || rest.starts_with("#!") {
        return Err(Error::invalid(
            "Rye writes its header above the shebang of such a file, which then no longer runs; \
             hint: seal it natively",
        ));
    }
    Ok((String::new(), comment, rest))
}
