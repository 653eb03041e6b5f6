//! ThreadSeal for JavaScript: a page or a worker verifies and shows one file, and trusts no server.
//!
//! ```text
//! Question ─┬─► Verifier: push, progress, finish ─► report          streamed, where the core streams
//!           ├─► Session:  push, open ─► rows, turns, hits, proofs   holds the file, which it shows
//!           └─► checkProof
//! inspectIdentity
//! ```
//! There is no logic here: `threadseal-reader` has it, and the command uses the same. Results are JSON
//! texts, as the command prints them. Mistakes of a caller are exceptions, never traps.

mod question;
mod session;
mod verifier;

pub use question::Question;
pub use session::Session;
pub use verifier::{Progress, Verifier};

use serde::Serialize;
use threadseal_core::digest::Hasher;
use threadseal_core::error::Error;
use threadseal_core::identity::{Identity, IdentityKey};
use threadseal_core::time::Timestamp;
use threadseal_reader::output::to_vec;
use wasm_bindgen::JsError;
use wasm_bindgen::prelude::wasm_bindgen;

/// An error as an exception of JavaScript.
#[expect(
    clippy::needless_pass_by_value,
    reason = "map_err gives the error away"
)]
fn thrown(error: Error) -> JsError {
    JsError::new(&error.to_string())
}

/// JSON as a string of JavaScript.
fn json(value: &impl Serialize) -> String {
    text(to_vec(value))
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_default()
}

/// The version of ThreadSeal.
#[wasm_bindgen]
pub fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

/// Checks a proof of a turn or of lines, a copy, a conflict, a fork or a tombstone: what
/// `threadseal check-proof --json` prints.
#[wasm_bindgen(js_name = checkProof)]
pub fn check_proof(question: &Question, bytes: &[u8]) -> Result<String, JsError> {
    let asked = question.asked().map_err(thrown)?;
    let policy = question.policy().map_err(thrown)?;
    let checked = question.check_proof(&asked, policy.as_ref(), bytes);
    Ok(json(&checked.map_err(thrown)?.output()))
}

/// A log as plain text, which an exported page shows without scripts.
#[wasm_bindgen(js_name = plainText)]
pub fn plain_text(name: &str, bytes: &[u8]) -> String {
    threadseal_reader::plain::plain_texts([(name, bytes)])
}

/// The turn of each line, from line 1; 4294967295 for a line that is in none. Empty where no mapping reads the log.
#[wasm_bindgen(js_name = turnsOfLines)]
pub fn turns_of_lines(bytes: &[u8]) -> Vec<u32> {
    threadseal_reader::turns::turns_of_lines(bytes)
}

#[derive(Serialize)]
struct IdentityOutput {
    id: String,
    name: String,
    /// The words that people compare.
    words: String,
    seq: u64,
    issued: String,
    recovery: Option<String>,
    links: Vec<&'static str>,
    keys: Vec<KeyOutput>,
}

#[derive(Serialize)]
struct KeyOutput {
    key_id: String,
    public: String,
    did: String,
    usage: &'static str,
    /// Does the key itself prove that it belongs to the identity?
    proven: bool,
    from: Option<String>,
    until: Option<String>,
    ended: Option<EndOutput>,
}

#[derive(Serialize)]
struct EndOutput {
    at: String,
    why: String,
    /// The key that took its place, where its owner rotated it.
    next: Option<String>,
}

impl KeyOutput {
    fn of(listed: &IdentityKey) -> Self {
        let time = |time: Option<Timestamp>| time.map(Timestamp::to_iso_seconds);
        Self {
            key_id: listed.key.key_id().to_hex(),
            public: listed.key.to_hex(),
            did: listed.key.to_did_key(),
            usage: listed.usage.as_str(),
            proven: listed.proof.is_some(),
            from: time(listed.from),
            until: time(listed.until),
            ended: listed.ended.as_ref().map(|ended| EndOutput {
                at: ended.at.to_iso_seconds(),
                why: ended.how.line(),
                next: ended.how.next().map(|next| next.to_hex()),
            }),
        }
    }
}

/// The keys and the words of an identity file. Its signatures were checked; who it is, people compare by the words.
#[wasm_bindgen(js_name = inspectIdentity)]
pub fn inspect_identity(bytes: &[u8]) -> Result<String, JsError> {
    let identity = Identity::read(bytes).map_err(thrown)?;
    let content = identity.content();
    Ok(json(&IdentityOutput {
        id: identity.id().to_string(),
        name: content.name.to_string(),
        words: identity.id().words().join(" "),
        seq: content.seq,
        issued: content.issued.to_iso_seconds(),
        recovery: content.recovery.map(|key| key.to_hex()),
        links: content.links.iter().map(|link| link.by.as_str()).collect(),
        keys: content.keys.iter().map(KeyOutput::of).collect(),
    }))
}

/// SHA-256 over bytes that are pushed.
#[wasm_bindgen]
#[derive(Default)]
pub struct Sha256(Option<Hasher>);

#[wasm_bindgen]
impl Sha256 {
    /// Before the first byte.
    #[wasm_bindgen(constructor)]
    pub fn new() -> Self {
        Self(Some(Hasher::new()))
    }

    /// Takes the next bytes.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), JsError> {
        let hasher = self.0.as_mut();
        let hasher = hasher.ok_or_else(|| JsError::new("the digest was given"))?;
        hasher.update(chunk);
        Ok(())
    }

    /// The digest, 64 hex digits.
    pub fn finish(&mut self) -> Result<String, JsError> {
        let hasher = self.0.take();
        let hasher = hasher.ok_or_else(|| JsError::new("the digest was given"))?;
        Ok(hasher.finish().to_hex())
    }
}
