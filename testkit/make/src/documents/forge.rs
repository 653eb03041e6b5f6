//! Writes both signatures of documents from their values, as `spec/documents.md` §2 to §7 have them.

use crate::forge::{key, rye_signature};
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::key::{Message, Signer as _};

/// Names of kinds, endings of files, and the two ends of a comment.
pub(super) const TEXTS: [(&str, &str, &str, &str); 6] = [
    ("markdown", ".md", "<!-- ", " -->"),
    ("yaml", ".yaml", "# ", ""),
    ("toml", ".toml", "# ", ""),
    ("python", ".py", "# ", ""),
    ("shell", ".sh", "# ", ""),
    ("javascript", ".ts", "// ", ""),
];

/// The values of a seal.
#[derive(Clone)]
pub(super) struct Seal {
    pub(super) kind: &'static str,
    pub(super) record: u8,
    pub(super) seq: String,
    pub(super) time: &'static str,
    pub(super) key: u8,
}

impl Seal {
    pub(super) fn of(kind: &'static str) -> Self {
        Self {
            kind,
            record: 9,
            seq: "0".to_owned(),
            time: "20260218T103000Z",
            key: 1,
        }
    }

    /// All but the signature.
    fn unsigned(&self) -> String {
        let Self {
            kind, seq, time, ..
        } = self;
        let record = encoding::hex(&[self.record; 32]);
        let public = key(self.key).public_key().to_hex();
        format!("1-{kind}-{record}-{seq}-{time}-{public}-")
    }

    /// The file between `before` and `after`, sealed, and its head.
    pub(super) fn between(&self, before: &str, after: &str) -> (Vec<u8>, String) {
        let before = format!("{before}{}", self.unsigned());
        let content = Digest::tagged(
            "threadseal/1 document content",
            &[before.as_bytes(), after.as_bytes()],
        );
        let file = format!("{before}{}{after}", self.signature(&content));
        let head = self.head(file.len(), &content);
        (file.into_bytes(), head)
    }

    /// A text with its seal in the last line.
    pub(super) fn text(&self, text: &str) -> (Vec<u8>, String) {
        let (_, _, open, close) = of_kind(self.kind);
        self.between(
            &format!("{text}{open}threadseal:signed:"),
            &format!("{close}\n"),
        )
    }

    /// A JSON object with its seal as the last member.
    pub(super) fn json(&self, members: &str) -> (Vec<u8>, String) {
        self.between(
            &format!("{{{members},\"_threadseal\":\"threadseal:signed:"),
            "\"}\n",
        )
    }

    /// The seal file of these bytes, and their head.
    pub(super) fn beside(&self, file: &[u8]) -> (Vec<u8>, String) {
        let before = format!("threadseal:signed:{}", self.unsigned());
        let content = Digest::tagged("threadseal/1 document beside", &[file, before.as_bytes()]);
        let seal = format!("{before}{}\n", self.signature(&content));
        (seal.into_bytes(), self.head(file.len(), &content))
    }

    fn signature(&self, content: &Digest) -> String {
        let message = Message::tagged("threadseal/1 document", &[content.as_bytes()]);
        let signed = key(self.key).sign(&message);
        encoding::base64url(signed.expect("a native key seals").as_bytes())
            .trim_end_matches('=')
            .to_owned()
    }

    fn head(&self, size: usize, content: &Digest) -> String {
        let record = encoding::hex(&[self.record; 32]);
        format!("{record}:{}:{size}:{content}", self.seq)
    }
}

/// The row of a kind.
pub(super) fn of_kind(kind: &str) -> (&'static str, &'static str, &'static str, &'static str) {
    let mut rows = TEXTS.into_iter();
    rows.find(|row| row.0 == kind).expect("a kind of texts")
}

/// Rye's FIELDS over these bytes.
pub(super) fn fields(hashed: &str) -> String {
    let hash = Digest::of(hashed.as_bytes()).to_hex();
    let fingerprint = crate::forge::rye().public_key().rye_fingerprint().to_hex();
    let signature = rye_signature(&hash);
    let padded = format!("{}==", signature.trim_end_matches('='));
    format!("rye:signed:2026-02-18T10:30:00Z:{hash}:{padded}:{fingerprint}")
}
