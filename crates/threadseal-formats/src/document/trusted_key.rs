//! The key files of Rye's trust folder, `.ai/config/keys/trusted/<fingerprint>.toml`, as documents.
//!
//! Rye trusts such a file without any signature, or with a signature by the key that the file
//! carries. So an attacker who can write into a project adds keys that Rye then trusts
//! (`trust_store.py`, `_verify_key_integrity`). Here no key vouches for itself. A key that is not
//! in the user's trust needs the signature of a key that is.
//!
//! Elsewhere: reading a whole folder into a trust store ([`threadseal_core::trust::rye`]).

use super::Options;
use super::kind::{DocumentKind, ItemType};
use super::reading::Reading;
use super::rye::text as layout;
use super::signer::Judge;
use serde_json::json;
use threadseal_core::digest::Digest;
use threadseal_core::key::{Message, PublicKey, RyeFingerprint};
use threadseal_core::limits::MAX_KEY_FILE_BYTES;
use threadseal_core::report::{Finding, FindingCode, Verdict};
use threadseal_core::trust::rye::fields::Fields;

struct KeyFile {
    fingerprint: String,
    pem: String,
}

/// Checks `raw` if it is a key file.
pub(super) fn check(raw: &str, options: &Options<'_>, judge: &Judge<'_>, reading: &mut Reading) {
    let Some(file) = read(raw, options.kind) else {
        return;
    };
    let carried = RyeFingerprint::of_pem(&file.pem);
    if file.fingerprint != carried.to_hex() || name_differs(options.path, &carried) {
        reading.file.fault(
            Verdict::Forged,
            Finding::error(
                FindingCode::FingerprintMismatch,
                "the key file names another fingerprint than its key has",
            ),
        );
    }
    let text = layout::universal_newlines(raw);
    let header = layout::find_header(&text, options.kind, ItemType::Tool);
    let by_itself = header
        .as_ref()
        .is_none_or(|header| header.fields.fingerprint == carried.to_hex());
    if by_itself && judge.known_as(&carried).is_empty() && reading.native.is_none() {
        reading.file.fault(
            Verdict::Forged,
            Finding::error(
                FindingCode::KeyVouchesForItself,
                "a key file that is signed only by its own key does not make a key trusted",
            ),
        );
    }
    let fields = header.map(|header| header.fields);
    reading.compat = Some(json!({
        "trusted": trusted_by_rye(&text, options, &file, &carried, fields.as_ref(), judge)
    }));
}

fn read(raw: &str, kind: DocumentKind) -> Option<KeyFile> {
    // Reading TOML costs more than verifying; only a possible key file is read.
    if kind != DocumentKind::Toml || raw.len() > MAX_KEY_FILE_BYTES || !raw.contains("public_key") {
        return None;
    }
    let text = layout::universal_newlines(raw);
    let table: toml::Table = toml::from_str(&text).ok()?;
    let pem = table.get("public_key")?.get("pem")?.as_str()?;
    Some(KeyFile {
        fingerprint: table.get("fingerprint")?.as_str()?.to_owned(),
        pem: pem.to_owned(),
    })
}

/// Rye finds key files by their names, so a name that is a fingerprint must be the key's.
fn name_differs(path: &str, carried: &RyeFingerprint) -> bool {
    let file = path.rsplit(['/', '\\']).next().unwrap_or(path);
    let stem = file.strip_suffix(".toml").unwrap_or(file);
    let last = stem.rsplit('.').next().unwrap_or(stem);
    RyeFingerprint::parse_hex(last).is_some_and(|named| named != *carried)
}

/// Whether Rye would trust the key, were the file in a project's trust folder.
fn trusted_by_rye(
    text: &str,
    options: &Options<'_>,
    file: &KeyFile,
    carried: &RyeFingerprint,
    fields: Option<&Fields<'_>>,
    judge: &Judge<'_>,
) -> bool {
    if name_differs(options.path, carried) {
        return false;
    }
    let Some(fields) = fields else {
        return true;
    };
    let hashed = layout::extract(text, options.kind, ItemType::Tool)
        .map(|hashed| Digest::of(text[hashed].as_bytes()));
    let (Some(hash), Some(signature)) = (fields.digest(), fields.signature_bytes()) else {
        return false;
    };
    let message = Message::rye_hash(&hash);
    let signer = RyeFingerprint::parse_hex(fields.fingerprint);
    let own = PublicKey::from_pem(&file.pem).ok();
    let keys = match signer {
        Some(signer) if signer == *carried => own.into_iter().collect(),
        Some(signer) => judge.known_as(&signer),
        None => Vec::new(),
    };
    hashed == Some(hash)
        && keys
            .iter()
            .any(|key| key.verify(&message, &signature).is_ok())
}
