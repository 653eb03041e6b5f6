//! Heads of ledgers: where a ledger ended, stored elsewhere or signed (`spec/ledger.md` §7).
//!
//! ```text
//! head text    <record>:<count - 1>:<count>:<record hash>
//! record       SHA-256-tagged("threadseal/1 ledger run", [run id])
//! signed head  a C2SP signed note, in a file FILE.head beside the ledger:
//!                threadseal/1/ledger/<64 hex of the record>
//!                <count>
//!                <base64 of the record hash>
//!                run <JSON string in ASCII>
//!                key <did:key of the signer>
//!                time <RFC 3339, UTC, seconds>
//!                first <when record 0 began>             these four only where known
//!                last <when the last record ended>
//!                signatures <64 hex>                     digest of all signatures of records
//!                file <64 hex> <bytes>                   SHA-256 of the file's first bytes
//!
//!                — threadseal/1/ledger/<64 hex> <base64( id[4] ‖ signature )>
//! ```
//! The hash of the last record covers all before it, except for signatures of records. A chain alone cannot prove that it was not
//! replaced or truncated. A signed head proves both, for this run, up to this record. Its `time` is
//! the signer's claim.

use super::record::RunId;
use threadseal_core::canon::json::{self, write_ascii_string};
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::error::Error;
use threadseal_core::key::{PublicKey, Signer};
use threadseal_core::note::{
    self, KeyName, NoteError, NoteSignature, NoteText, SignedNote, note_key_id,
};
use threadseal_core::record::{Head, RecordId, parse_decimal};
use threadseal_core::time::Timestamp;

/// The beginning of the first line of a signed head.
pub const HEAD_ORIGIN: &str = "threadseal/1/ledger/";

/// The head of the ledger of `run` after `count` records, the last of this hash; `None` for no
/// records.
pub fn head_of(run: &RunId, count: u64, hash: Digest) -> Option<Head> {
    Some(Head {
        record: run.record_id(),
        seq: count.checked_sub(1)?,
        size: count,
        line: hash,
    })
}

/// The record under which a host keeps the head of an unsigned ledger in `place`. `run` is the record
/// of its run ([`RunId::record_id`]), which binds signed ledgers alone.
pub fn record_in_place(run: &RecordId, place: &str) -> RecordId {
    let parts = [run.as_bytes().as_slice(), place.as_bytes()];
    let digest = Digest::tagged("threadseal/1 ledger in one place", &parts);
    RecordId::from_bytes(*digest.as_bytes())
}

/// The line by which a host finds the heads of all unsigned ledgers of a run.
pub fn line_of_unsigned(run: &RecordId) -> Digest {
    Digest::tagged("threadseal/1 unsigned ledgers of a run", &[run.as_bytes()])
}

/// The bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileDigest {
    /// Their SHA-256.
    pub sha256: Digest,
    /// Their number, from the beginning.
    pub bytes: u64,
}

/// The statement of a signed head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadStatement {
    /// The run of the ledger.
    pub run: RunId,
    /// Its records, at least one.
    pub count: u64,
    /// The hash of the last of them.
    pub hash: Digest,
    /// When it was signed, in whole seconds.
    pub at: Timestamp,
    /// When the first record began, by its own claim.
    pub first: Option<Timestamp>,
    /// When the last record ended, by its own claim.
    pub last: Option<Timestamp>,
    /// The digest of the signatures of its records ([`super::Signatures`]).
    pub signatures: Option<Digest>,
    /// The bytes from which the records were read.
    pub file: Option<FileDigest>,
}

impl HeadStatement {
    /// It as a head.
    pub fn head(&self) -> Option<Head> {
        head_of(&self.run, self.count, self.hash)
    }

    /// Signs it.
    ///
    /// # Errors
    /// Kind `InvalidInput` when it states no record; those of [`Signer::sign`].
    pub fn sign(&self, signer: &dyn Signer) -> Result<SignedNote, Error> {
        if self.count == 0 {
            return Err(Error::invalid("a ledger without records has no head"));
        }
        let invalid = |error: NoteError| Error::invalid(error.to_string());
        let text = NoteText::parse(&self.text(signer.public_key())).map_err(invalid)?;
        note::sign(text, &self.origin().map_err(invalid)?, signer)
    }

    fn origin(&self) -> Result<KeyName, NoteError> {
        KeyName::parse(&format!("{HEAD_ORIGIN}{}", self.run.record_id()))
    }

    fn text(&self, key: &PublicKey) -> String {
        let mut run = Vec::new();
        write_ascii_string(&mut run, self.run.as_str());
        let mut text = format!(
            "{HEAD_ORIGIN}{}\n{}\n{}\nrun {}\nkey {}\ntime {}\n",
            self.run.record_id(),
            self.count,
            encoding::base64(self.hash.as_bytes()),
            String::from_utf8_lossy(&run),
            key.to_did_key(),
            self.at.to_iso_seconds(),
        );
        for (name, at) in [("first", self.first), ("last", self.last)] {
            if let Some(at) = at {
                text.push_str(&format!("{name} {}\n", at.to_python_text()));
            }
        }
        if let Some(signatures) = &self.signatures {
            text.push_str(&format!("signatures {signatures}\n"));
        }
        if let Some(file) = &self.file {
            text.push_str(&format!("file {} {}\n", file.sha256, file.bytes));
        }
        text
    }

    /// Reads the text of a note, and the key that it names.
    fn parse(text: &NoteText) -> Option<(Self, PublicKey)> {
        let mut lines = text.lines().peekable();
        let origin = lines.next()?;
        let count = parse_decimal(lines.next()?).filter(|count| *count > 0)?;
        let hash = encoding::parse_base64(lines.next()?)?;
        let mut named = |name: &str| {
            let rest = lines.peek()?.strip_prefix(name)?.strip_prefix(' ')?;
            lines.next();
            Some(rest)
        };
        let run = json::parse(named("run")?.as_bytes()).ok()?;
        let key = PublicKey::from_did_key(named("key")?).ok()?;
        let statement = Self {
            run: RunId::parse(run.as_str()?).ok()?,
            count,
            hash: Digest::from_bytes(hash.try_into().ok()?),
            at: Timestamp::parse_iso_seconds(named("time")?)?,
            first: named("first").and_then(Timestamp::parse_rfc3339),
            last: named("last").and_then(Timestamp::parse_rfc3339),
            signatures: named("signatures").and_then(Digest::parse_hex),
            file: named("file").and_then(|file| {
                let (sha256, bytes) = file.split_once(' ')?;
                Some(FileDigest {
                    sha256: Digest::parse_hex(sha256)?,
                    bytes: parse_decimal(bytes)?,
                })
            }),
        };
        // There is one spelling: the text is exactly this statement as written here.
        let same = origin.starts_with(HEAD_ORIGIN) && statement.text(&key) == text.as_str();
        same.then_some((statement, key))
    }
}

/// A signed head, read. It shows whether the key that it names signed it; the trust shows whose key
/// that is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedHead {
    /// The statement.
    pub statement: HeadStatement,
    /// The key that it names.
    pub key: PublicKey,
    /// Does the signature of that key hold?
    pub holds: bool,
}

impl SignedHead {
    /// Reads a note.
    ///
    /// # Errors
    /// [`NoteError::Malformed`] when it is no note, or none that states a head of a ledger.
    pub fn parse(text: &str) -> Result<Self, NoteError> {
        let note = SignedNote::parse(text)?;
        let (statement, key) = HeadStatement::parse(note.text()).ok_or(NoteError::Malformed(
            "the text does not state the head of a ledger",
        ))?;
        let name = statement.origin()?;
        let is_its = |line: &NoteSignature| {
            *line.name() == name
                && line.id() == note_key_id(&name, &key)
                && line.signature().len() == 64
        };
        let [line] = note.signatures() else {
            return Err(NoteError::Malformed("a head has one signature"));
        };
        if !is_its(line) {
            return Err(NoteError::Malformed(
                "the signature of the head has another name, id or length",
            ));
        }
        let holds = note.verify(&[(name, key)]).is_ok();
        Ok(Self {
            statement,
            key,
            holds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadseal_core::key::KeyUsage;
    use threadseal_core::testing::{key, micros, signer};

    fn signed(statement: &HeadStatement) -> String {
        let note = statement.sign(&signer(5, KeyUsage::Native));
        note.unwrap().to_string()
    }

    fn statement() -> HeadStatement {
        HeadStatement {
            run: RunId::parse("run \u{1f512} \"x\"").unwrap(),
            count: 3,
            hash: Digest::of(b"last"),
            at: micros(1_700_000_000_000_000),
            first: Some(micros(1_600_000_000_000_001)),
            last: None,
            signatures: Some(Digest::of(b"signatures")),
            file: Some(FileDigest {
                sha256: Digest::of(b"file"),
                bytes: 4,
            }),
        }
    }

    #[test]
    fn a_signed_head_comes_back_as_it_was_stated() {
        let mut stated = statement();
        for change in 0..4 {
            match change {
                0 => {}
                1 => stated.file = None,
                2 => stated.signatures = None,
                _ => (stated.first, stated.last) = (None, stated.first),
            }
            let note = signed(&stated);
            let read = SignedHead::parse(&note).unwrap();
            assert_eq!((&read.statement, read.holds), (&stated, true));
            assert_eq!(read.key, key(5));
            let head = stated.head().unwrap();
            assert_eq!((head.seq, head.size, head.line), (2, 3, stated.hash));
        }
    }

    #[test]
    fn what_is_changed_in_a_head_is_noticed() {
        let note = signed(&statement());
        let base64 = |of: &[u8]| encoding::base64(Digest::of(of).as_bytes());
        for (from, to) in [
            ("\n3\n", "\n2\n"),
            (&*base64(b"last"), &*base64(b"first")),
            ("time 2023", "time 2024"),
            ("first 2020", "first 2019"),
            (" 4\n", " 5\n"),
            (
                &*Digest::of(b"signatures").to_hex(),
                &*Digest::of(b"others").to_hex(),
            ),
        ] {
            let changed = note.replacen(from, to, 1);
            assert_ne!(changed, note, "{from}");
            assert!(!SignedHead::parse(&changed).unwrap().holds, "{from}");
        }
        let others = note.replace(&key(5).to_did_key(), &key(6).to_did_key());
        assert!(SignedHead::parse(&others).is_err());
    }

    #[test]
    fn a_head_has_one_spelling() {
        let note = signed(&statement());
        for (from, to) in [
            ("\n3\n", "\n03\n"),
            ("run ", "run  "),
            ("file ", "extra x\nfile "),
            ("first ", "last "),
            ("threadseal/1/ledger/", "threadseal/1/ledgers/"),
            ("\\ud83d\\udd12", "\u{1f512}"),
        ] {
            let changed = note.replacen(from, to, 1);
            assert_ne!(changed, note, "{from}");
            if from != "first " {
                assert!(SignedHead::parse(&changed).is_err(), "{from}");
            } else {
                assert!(!SignedHead::parse(&changed).unwrap().holds);
            }
        }
        assert!(SignedHead::parse("").is_err());
    }

    #[test]
    fn nobody_signs_that_a_ledger_has_no_records() {
        let mut stated = statement();
        stated.count = 0;
        assert!(stated.sign(&signer(5, KeyUsage::Native)).is_err());
        let observer = signer(5, KeyUsage::Observed);
        assert!(statement().sign(&observer).is_err());
    }
}
