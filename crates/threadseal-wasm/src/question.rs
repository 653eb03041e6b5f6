//! [`Question`]: what is asked of a file, set step by step.

use crate::thrown;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::key::{KeyUsage, PublicKey};
use threadseal_core::record::{ExpectedHead, ThreadId};
use threadseal_core::time::Timestamp;
use threadseal_core::tlog::policy::Policy;
use threadseal_core::tlog::verifier::VerifierKey;
use threadseal_core::trust::{ScopeFormat, TrustName, TrustStore, TrustedKey};
use threadseal_formats::document::ItemType;
use threadseal_formats::ledger::RunId;
use threadseal_formats::transcript::VerifyOptions;
use threadseal_reader::Asked;
use threadseal_reader::asked::{Beside, GivenKind, LedgerRequest, RequestedProfile, ScrollRequest};
use threadseal_reader::given::{Given, trust_of};
use threadseal_reader::proof::{self, CheckedFile, LogKey};
use wasm_bindgen::JsError;
use wasm_bindgen::prelude::wasm_bindgen;

/// What is asked of a file: whose signatures count, by which moment, and what is beside it.
#[wasm_bindgen]
#[derive(Debug, Clone)]
pub struct Question {
    name: String,
    now: Timestamp,
    size: usize,
    trusted: Vec<(String, Vec<u8>)>,
    keys: Vec<TrustedKey>,
    pinned: Vec<(String, Vec<u8>)>,
    log_keys: Vec<VerifierKey>,
    policy: Option<Vec<u8>>,
    kind: Option<GivenKind>,
    item: Option<ItemType>,
    profile: RequestedProfile,
    thread: Option<ThreadId>,
    expect_head: Option<ExpectedHead>,
    exact_head: bool,
    every_signature: bool,
    scroll: ScrollRequest,
    ledger: LedgerRequest,
    code: Vec<Digest>,
    beside: Beside,
}

#[wasm_bindgen]
impl Question {
    /// About the file called `name`, by the moment `now`: milliseconds since 1970, as `Date.now()` gives them.
    #[wasm_bindgen(constructor)]
    pub fn new(name: &str, now: f64) -> Result<Question, JsError> {
        let micros = now * 1000.0;
        if !(0.0..9.0e18).contains(&micros) {
            return Err(JsError::new("the moment is no time after 1970"));
        }
        // The range was checked; a fraction of a microsecond is cut.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let micros = micros as u64;
        Ok(Self {
            name: name.to_owned(),
            now: Timestamp::from_micros(micros).map_err(thrown)?,
            size: 0,
            trusted: Vec::new(),
            keys: Vec::new(),
            pinned: Vec::new(),
            log_keys: Vec::new(),
            policy: None,
            kind: None,
            item: None,
            profile: RequestedProfile::Auto,
            thread: None,
            expect_head: None,
            exact_head: false,
            every_signature: false,
            scroll: ScrollRequest::default(),
            ledger: LedgerRequest::default(),
            code: Vec::new(),
            beside: Beside::default(),
        })
    }

    /// Trusts what a file holds: an identity, a trust store (`.toml`), a trusted key of Rye (`.toml`), a public key
    /// as PEM, did:key or 64 hex digits.
    pub fn trust(&mut self, name: &str, bytes: &[u8]) {
        self.trusted.push((name.to_owned(), bytes.to_vec()));
    }

    /// Trusts a public key, as PEM, did:key or 64 hex digits, for one use: `native`, `observed`, `rye`, `scroll`, …
    #[wasm_bindgen(js_name = trustFor)]
    pub fn trust_for(&mut self, usage: &str, key: &str) -> Result<(), JsError> {
        let usage = KeyUsage::parse(usage);
        let usage = usage.ok_or_else(|| JsError::new("there is no such use of keys"))?;
        let key = PublicKey::parse_any(key).map_err(thrown)?;
        let name = TrustName::parse(&format!("key-{}", self.keys.len())).map_err(thrown)?;
        self.keys.push(TrustedKey::new(name, key, [usage]));
        Ok(())
    }

    /// Accepts only this signer, as `--key`: a public key, the id of one, or an identity. With several, any of them;
    /// for conflicts of checkpoints also a verifier key.
    pub fn pin(&mut self, name: &str, bytes: &[u8]) {
        let text = std::str::from_utf8(bytes).unwrap_or_default();
        match VerifierKey::parse(text.trim()) {
            Ok(key) => self.log_keys.push(key),
            Err(_) => self.pinned.push((name.to_owned(), bytes.to_vec())),
        }
    }

    /// The policy by which a proof of a turn must have been witnessed (C2SP tlog-policy).
    #[wasm_bindgen(js_name = policy)]
    pub fn set_policy(&mut self, bytes: &[u8]) {
        self.policy = Some(bytes.to_vec());
    }

    /// The size of the file, where it is known: memory is then reserved once.
    #[wasm_bindgen(js_name = size)]
    pub fn set_size(&mut self, bytes: f64) {
        const MOST: f64 = 2_147_483_648.0;
        // Out of its range it is only no help.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let bytes = bytes.clamp(0.0, MOST) as usize;
        self.size = bytes;
    }

    /// Reads the file as this kind, whatever it looks like: `native`, `rye`, `document`, or a format as `--format`
    /// names it (`transcript`, `log`, `json`, `text`, `scroll`, `ledger`, `lineage`).
    #[wasm_bindgen(js_name = kind)]
    pub fn set_kind(&mut self, word: &str) -> Result<(), JsError> {
        self.kind = Some(match (word, ScopeFormat::parse(word)) {
            ("native", _) => GivenKind::Native,
            ("rye", _) => GivenKind::Events,
            ("document", _) => GivenKind::Document,
            (_, Some(format)) => GivenKind::Format(format),
            (_, None) => return Err(JsError::new(&format!("there is no kind {word:?}"))),
        });
        Ok(())
    }

    /// The item type under which Rye signed a text: `directive`, `knowledge`, `tool` or `config`.
    #[wasm_bindgen(js_name = item)]
    pub fn set_item(&mut self, word: &str) -> Result<(), JsError> {
        let item = ItemType::parse(word);
        self.item = Some(item.ok_or_else(|| JsError::new(&format!("there is no item {word:?}")))?);
        Ok(())
    }

    /// The signatures that count: `auto`, `native`, `rye`, `observed`, `scroll-v0.1`.
    #[wasm_bindgen(js_name = profile)]
    pub fn set_profile(&mut self, word: &str) -> Result<(), JsError> {
        self.profile = match word {
            "auto" => RequestedProfile::Auto,
            "native" => RequestedProfile::Native,
            "rye" => RequestedProfile::Rye,
            "observed" => RequestedProfile::Observed,
            "scroll-v0.1" => RequestedProfile::ScrollV01,
            _ => return Err(JsError::new(&format!("there is no profile {word:?}"))),
        };
        Ok(())
    }

    /// The thread that the record must belong to.
    #[wasm_bindgen(js_name = thread)]
    pub fn set_thread(&mut self, id: &str) -> Result<(), JsError> {
        self.thread = Some(ThreadId::parse(id).map_err(thrown)?);
        Ok(())
    }

    /// A head that the record must contain; `exact`: as its last.
    #[wasm_bindgen(js_name = expectHead)]
    pub fn set_expect_head(&mut self, head: &str, exact: bool) -> Result<(), JsError> {
        self.expect_head = Some(ExpectedHead::parse(head).map_err(thrown)?);
        self.exact_head = exact;
        Ok(())
    }

    /// Checks every signature, not only the last of each key.
    #[wasm_bindgen(js_name = everySignature)]
    pub fn set_every_signature(&mut self) {
        self.every_signature = true;
    }

    /// The number of turns that a scroll must have, or of records that a ledger must have.
    #[wasm_bindgen(js_name = length)]
    pub fn set_length(&mut self, kind: &str, count: u32) -> Result<(), JsError> {
        match kind {
            "scroll" => self.scroll.length = Some(count.into()),
            "ledger" => self.ledger.length = Some(count.into()),
            _ => return Err(JsError::new(&format!("{kind:?} has no length"))),
        }
        Ok(())
    }

    /// The oldest moment of a signed turn of a scroll: nanoseconds since 1970, in decimal.
    #[wasm_bindgen(js_name = oldestTurn)]
    pub fn set_oldest_turn(&mut self, nanoseconds: &str) -> Result<(), JsError> {
        let parsed = nanoseconds.parse();
        self.scroll.not_before_ns = Some(parsed.map_err(|_| JsError::new("it is no number"))?);
        Ok(())
    }

    /// Each digit of a timestamp of a scroll counts.
    #[wasm_bindgen(js_name = strictDigits)]
    pub fn set_strict_digits(&mut self) {
        self.scroll.strict_digits = true;
    }

    /// The run that a ledger must be of, or that is meant in a bundle.
    #[wasm_bindgen(js_name = run)]
    pub fn set_run(&mut self, run: &str) -> Result<(), JsError> {
        self.ledger.run = Some(RunId::parse(run).map_err(thrown)?);
        Ok(())
    }

    /// A digest of code that a lineage may have run, 64 hex digits.
    #[wasm_bindgen(js_name = code)]
    pub fn add_code(&mut self, digest: &str) -> Result<(), JsError> {
        let digest = Digest::parse_hex(digest);
        self.code
            .push(digest.ok_or_else(|| JsError::new("it is no digest"))?);
        Ok(())
    }

    /// The file `NAME.seal` beside it: seals of a log, or the seal of a document.
    #[wasm_bindgen(js_name = seal)]
    pub fn set_seal(&mut self, bytes: &[u8]) {
        self.beside.seal = Some(bytes.to_vec());
    }

    /// The detached bodies were left out on purpose: they are unread, and not missing.
    #[wasm_bindgen(js_name = withoutBodies)]
    pub fn without_bodies(&mut self) {
        self.beside.without_bodies = true;
    }

    /// The detached bodies of a native record.
    #[wasm_bindgen(js_name = bodies)]
    pub fn set_bodies(&mut self, bytes: &[u8]) {
        self.beside.bodies = Some(bytes.to_vec());
    }

    /// The file `NAME.head` beside it: the signed head of a ledger.
    #[wasm_bindgen(js_name = head)]
    pub fn set_head(&mut self, bytes: &[u8]) {
        self.beside.head = Some(bytes.to_vec());
    }
}

impl Question {
    /// The size that a caller named, else 0.
    pub(crate) fn named_size(&self) -> usize {
        self.size
    }

    /// The question of the core.
    ///
    /// # Errors
    /// When a key or the name is none.
    pub(crate) fn asked(&self) -> Result<Asked, Error> {
        fn given(files: &[(String, Vec<u8>)]) -> Vec<Given<'_>> {
            let given = files.iter().map(|(name, bytes)| Given { name, bytes });
            given.collect()
        }
        let mut keys = TrustStore::new();
        for key in &self.keys {
            keys.add(key.clone())?;
        }
        let trust = trust_of(keys, &given(&self.trusted), &given(&self.pinned))?;
        Ok(Asked {
            kind: self.kind,
            item: self.item,
            profile: self.profile,
            thread: self.thread.clone(),
            expect_head: self.expect_head,
            exact_head: self.exact_head,
            every_signature: self.every_signature,
            scroll: self.scroll,
            ledger: self.ledger.clone(),
            code: self.code.clone(),
            beside: self.beside.clone(),
            ..Asked::of(&self.name, trust, self.now)?
        })
    }

    /// The policy that was given.
    ///
    /// # Errors
    /// When it is none.
    pub(crate) fn policy(&self) -> Result<Option<Policy>, Error> {
        let policy = self.policy.as_deref().map(Policy::parse).transpose();
        policy.map_err(|error| Error::invalid(error.to_string()))
    }

    pub(crate) fn check_proof(
        &self,
        asked: &Asked,
        policy: Option<&Policy>,
        bytes: &[u8],
    ) -> Result<CheckedFile, Error> {
        let options = VerifyOptions {
            trust: &asked.trust,
            now: asked.now,
            held_since: None,
            thread: asked.thread.as_ref(),
        };
        let verifiers = self.log_keys.iter().cloned();
        let verifiers = verifiers.map(|key| LogKey::Verifier(Box::new(key)));
        let pins = asked
            .trust
            .pinned
            .iter()
            .map(|pin| LogKey::Key(Box::new(*pin)));
        let keys: Vec<LogKey> = verifiers.chain(pins).collect();
        let mut checked = proof::check(&self.name, bytes, &options, policy, &keys)?;
        checked.checked.report.path.clone_from(&self.name);
        Ok(checked)
    }
}
