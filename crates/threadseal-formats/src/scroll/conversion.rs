//! The claim of a converter in the first turn of a scroll (`spec/scroll-mappings.md` §1).

use super::facts::Form;
use std::borrow::Cow;
use threadseal_core::canon::json::Value;
use threadseal_core::canon::{cbor, jcs, json};
use threadseal_core::report::Conversion;

/// The role of the message that holds the claim, and nothing else.
pub const CONVERSION_ROLE: &str = "conversion";

/// The claim in a turn: the only item of its last message. The converter alone writes a message of
/// this role, so no content of a source can pass for a claim.
pub fn conversion_of(turn: &Value) -> Option<Conversion> {
    let last = turn.get("messages")?.as_array()?.last()?;
    if last.get("role")?.as_str()? != CONVERSION_ROLE {
        return None;
    }
    match last.get("content")?.as_array()? {
        [item] => Conversion::of(item),
        _ => None,
    }
}

/// The claim in a turn as it is in a file.
pub fn read_conversion(bytes: &[u8], form: Form) -> Option<Conversion> {
    // No spelling of a name or text may hide a claim.
    let canonical = match form {
        Form::Json => Cow::Owned(jcs::canonicalize(bytes).ok()?),
        Form::Cbor => Cow::Borrowed(bytes),
    };
    // Most scrolls are no conversions, and need no tree.
    memchr::memmem::find(&canonical, CONVERSION_ROLE.as_bytes())?;
    conversion_of(&match form {
        Form::Json => json::parse(&canonical).ok()?,
        Form::Cbor => cbor::parse(&canonical).ok()?,
    })
}
