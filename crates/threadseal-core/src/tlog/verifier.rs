//! Keys of logs and witnesses as a verifier knows them, and which of them signed a checkpoint.
//!
//! ```text
//! vkey   <name>+<8 hex of id>+<base64( type ‖ key )>      C2SP signed-note, "Verifier keys"
//! 0x01   Ed25519 over the text of the note                a log
//! 0x04   Ed25519 cosignature                              a witness
//! 0x06   ML-DSA-44 cosignature, with the feature `ml-dsa` a log or a witness
//! ```
//! A line belongs to a key when it has both its name *and* its id. It then must verify, or the note
//! is refused.

use super::checkpoint::Checkpoint;
use super::cosignature::{self, COSIGNER_TYPE, CosignatureTime};
#[cfg(feature = "ml-dsa")]
use super::ml_dsa::{ML_DSA_TYPE, MlDsaPublicKey};
use crate::error::Error;
use crate::key::{Message, PublicKey, RECORD_DOMAIN, Signature, SignatureError};
use crate::limits::MAX_NOTE_SIGNATURES;
use crate::note::{
    self, KeyName, NoteError, NoteSignature, NoteText, SignedNote, typed_key_id, typed_vkey,
};
use std::fmt;

/// C2SP signed-note, "Signature types": Ed25519.
const ED25519_TYPE: u8 = 0x01;

/// A key with its name and the kind of message that it signs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifierKey {
    name: KeyName,
    id: [u8; 4],
    key: Key,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Key {
    Log(PublicKey),
    Witness(PublicKey),
    #[cfg(feature = "ml-dsa")]
    MlDsa(Box<MlDsaPublicKey>),
}

impl Key {
    fn kind(&self) -> u8 {
        match self {
            Self::Log(_) => ED25519_TYPE,
            Self::Witness(_) => COSIGNER_TYPE,
            #[cfg(feature = "ml-dsa")]
            Self::MlDsa(_) => ML_DSA_TYPE,
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Log(key) | Self::Witness(key) => key.as_bytes(),
            #[cfg(feature = "ml-dsa")]
            Self::MlDsa(key) => key.as_bytes(),
        }
    }
}

impl VerifierKey {
    /// The Ed25519 key of a log, whose name is the origin of its checkpoints.
    pub fn of_log(name: KeyName, key: PublicKey) -> Self {
        Self::new(name, Key::Log(key))
    }

    /// The Ed25519 key of a witness.
    pub fn of_witness(name: KeyName, key: PublicKey) -> Self {
        Self::new(name, Key::Witness(key))
    }

    /// The ML-DSA-44 key of a log or a witness.
    #[cfg(feature = "ml-dsa")]
    pub fn of_ml_dsa(name: KeyName, key: MlDsaPublicKey) -> Self {
        Self::new(name, Key::MlDsa(Box::new(key)))
    }

    fn new(name: KeyName, key: Key) -> Self {
        let id = typed_key_id(&name, key.kind(), key.bytes());
        Self { name, id, key }
    }

    /// Reads a vkey.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::Key`] when it is no vkey, or its id belongs to another key.
    /// Also when its type is unknown here, or its bytes are no key of that type.
    pub fn parse(vkey: &str) -> Result<Self, Error> {
        let (name, kind, bytes) = note::parse_typed_vkey(vkey)
            .ok_or_else(|| Error::key("not a verifier key (name+id+base64)"))?;
        let ed25519 = || {
            let bytes = <&[u8; 32]>::try_from(bytes.as_slice())
                .map_err(|_| Error::key("an Ed25519 verifier key has 32 bytes"))?;
            PublicKey::from_bytes(bytes)
        };
        let key = match kind {
            ED25519_TYPE => Key::Log(ed25519()?),
            COSIGNER_TYPE => Key::Witness(ed25519()?),
            #[cfg(feature = "ml-dsa")]
            ML_DSA_TYPE => Key::MlDsa(Box::new(MlDsaPublicKey::from_bytes(&bytes)?)),
            other => {
                return Err(Error::key(format!(
                    "verifier keys of type 0x{other:02x} are not known here"
                )));
            }
        };
        Ok(Self::new(name, key))
    }

    /// Its name.
    pub fn name(&self) -> &KeyName {
        &self.name
    }

    /// Whether it may be a log's key: it signs what a log signs, under a name that a log may have.
    pub fn is_of_log(&self) -> bool {
        !matches!(self.key, Key::Witness(_)) && !self.name.as_str().starts_with(RECORD_DOMAIN)
    }

    /// Whether it may be a witness's key.
    pub fn is_of_witness(&self) -> bool {
        !matches!(self.key, Key::Log(_))
    }

    /// The Ed25519 key; `None` for another kind.
    pub fn ed25519(&self) -> Option<&PublicKey> {
        match &self.key {
            Key::Log(key) | Key::Witness(key) => Some(key),
            #[cfg(feature = "ml-dsa")]
            Key::MlDsa(_) => None,
        }
    }

    /// Whether both are the same key, under any name and type.
    pub fn is_same_key(&self, other: &Self) -> bool {
        self.key.bytes() == other.key.bytes()
    }

    fn claimed_by(&self, line: &NoteSignature) -> bool {
        self.name == *line.name() && self.id == line.id()
    }

    /// Whether the line is this key's signature of `checkpoint` with the text `text`, and its time.
    fn verify(
        &self,
        line: &NoteSignature,
        text: &NoteText,
        checkpoint: &Checkpoint,
    ) -> Result<Option<CosignatureTime>, SignatureError> {
        match &self.key {
            Key::Log(key) => {
                let signature = Signature::from_slice(line.signature()).ok_or(SignatureError)?;
                key.verify(&Message::note(text), &signature).map(|()| None)
            }
            Key::Witness(key) => cosignature::verify(checkpoint, line.signature(), key).map(Some),
            #[cfg(feature = "ml-dsa")]
            Key::MlDsa(key) => key.verify_cosignature(checkpoint, &self.name, line.signature()),
        }
    }
}

impl fmt::Display for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&typed_vkey(&self.name, self.key.kind(), self.key.bytes()))
    }
}

/// A key that signed a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignedBy<'k> {
    /// The key.
    pub key: &'k VerifierKey,
    /// The newest time that it signed; `None` where its lines have no time.
    pub time: Option<CosignatureTime>,
}

/// Reads the checkpoint in `note`, and returns which of the `known` keys signed it: each once, in
/// their order.
///
/// # Errors
/// [`NoteError::Malformed`] when it is no checkpoint. [`NoteError::BadSignature`] when a line has
/// name and id of known keys and none of them verifies it.
pub fn open<'k>(
    note: &SignedNote,
    known: &[&'k VerifierKey],
) -> Result<(Checkpoint, Vec<SignedBy<'k>>), NoteError> {
    let checkpoint = Checkpoint::parse(note.text())?;
    let signers = signers(note, &checkpoint, known)?;
    Ok((checkpoint, signers))
}

/// The `known` keys that signed `checkpoint`, which is the text of `note`.
pub(super) fn signers<'k>(
    note: &SignedNote,
    checkpoint: &Checkpoint,
    known: &[&'k VerifierKey],
) -> Result<Vec<SignedBy<'k>>, NoteError> {
    let mut signed: Vec<Option<SignedBy<'k>>> = vec![None; known.len()];
    for line in note.signatures() {
        let (mut claimed, mut verified) = (false, false);
        for (&key, signed) in known.iter().zip(&mut signed) {
            if !key.claimed_by(line) {
                continue;
            }
            claimed = true;
            if let Ok(time) = key.verify(line, note.text(), checkpoint) {
                verified = true;
                // A second cosignature of one checkpoint states that it was still the largest tree
                // then.
                let newest = signed.and_then(|signed| signed.time).max(time);
                *signed = Some(SignedBy { key, time: newest });
            }
        }
        if claimed && !verified {
            return Err(NoteError::BadSignature(line.name().clone()));
        }
    }
    Ok(signed.into_iter().flatten().collect())
}

/// The note with one line of each of these keys, and room for one line more; `None` where there are
/// none.
///
/// [`signers`] checks whether the lines verify.
pub(super) fn lines_of(note: &SignedNote, keys: &[&VerifierKey]) -> Option<SignedNote> {
    let of = |key: &&VerifierKey| note.signatures().iter().find(|line| key.claimed_by(line));
    let mut lines = keys.iter().filter_map(of).take(MAX_NOTE_SIGNATURES - 1);
    let mut kept = SignedNote::of(note.text().clone(), lines.next()?.clone());
    lines.try_for_each(|line| kept.add(line.clone())).ok()?;
    Some(kept)
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::testing::key;

    /// A cosigning key of a witness in the sigsum network.
    const REMORA: &str = "remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2";

    #[test]
    fn keys_of_logs_and_witnesses_have_one_spelling() {
        let of_witness = VerifierKey::parse(REMORA).unwrap();
        assert_eq!(of_witness.to_string(), REMORA);
        assert!(of_witness.is_of_witness() && !of_witness.is_of_log());
        for key in [log_key(), witness_key(1)] {
            let text = key.to_string();
            assert_eq!(VerifierKey::parse(&text).unwrap(), key);
            for changed in bit_flips(&text) {
                assert!(VerifierKey::parse(&changed).is_err(), "{changed}");
            }
        }
        let as_log = VerifierKey::of_log(witness_name(1), key(1));
        assert!(as_log.is_same_key(&log_key()) && as_log != log_key());
    }

    #[test]
    fn other_types_and_points_that_are_no_keys_are_refused() {
        for (kind, bytes) in [
            (0x01, vec![0; 32]),
            (0x04, vec![0; 32]),
            (0x04, vec![1; 31]),
            (0x02, vec![1; 32]),
            (0x05, vec![1; 32]),
            (0x06, vec![1; 32]),
            (0xff, vec![1; 32]),
        ] {
            let vkey = typed_vkey(&name("a"), kind, &bytes);
            assert!(VerifierKey::parse(&vkey).is_err(), "{kind}");
        }
        let long = typed_vkey(&name("a"), 0x06, &vec![1; 1 << 20]);
        assert!(VerifierKey::parse(&long).is_err());
    }

    // T-WIT-01
    #[test]
    fn a_record_is_no_log() {
        let named = |text: &str| VerifierKey::of_log(name(text), key(1)).is_of_log();
        assert!(named(ORIGIN) && named("threadseal.example/log"));
        assert!(!named("threadseal/1/transcript/0") && !named("threadseal/observed/0"));
    }

    #[test]
    fn each_key_is_named_once_with_its_newest_time() {
        let note = note(&checkpoint(5), &[(1, 30), (2, 9), (1, 40), (1, 20)]);
        let [log, one, two, three] = [log_key(), witness_key(1), witness_key(2), witness_key(3)];
        let known = [&three, &two, &log, &one];
        let (read, signers) = open(&note, &known).unwrap();
        assert_eq!(read, checkpoint(5));
        let signers: Vec<_> = signers.iter().map(|by| (by.key, by.time)).collect();
        assert_eq!(
            signers,
            [(&two, Some(time(9))), (&log, None), (&one, Some(time(40)))]
        );
        assert_eq!(open(&note, &[&three]).unwrap().1, []);
    }

    // T-WIT-02
    #[test]
    fn a_bad_line_of_a_known_key_condemns_the_note_and_one_of_an_unknown_key_does_not() {
        for (line, of) in [
            (cosigned(&checkpoint(6), 1, 7), witness_key(1)),
            (signed(&checkpoint(6)).signatures()[0].clone(), log_key()),
        ] {
            let mut note = note(&checkpoint(5), &[(2, 7)]);
            note.add(line).unwrap();
            let condemned = open(&note, &[&witness_key(2), &of]).map(|_| ());
            assert_eq!(condemned, Err(NoteError::BadSignature(of.name().clone())));
            assert_eq!(open(&note, &[&witness_key(2)]).unwrap().1.len(), 1);
        }
    }

    /// A witness's key under the type of a log signs nothing, and neither does the reverse.
    #[test]
    fn a_key_counts_for_its_type_alone() {
        let note = note(&checkpoint(5), &[(1, 7)]);
        let as_witness = VerifierKey::of_witness(name(ORIGIN), key(1));
        let as_log = VerifierKey::of_log(witness_name(1), key(2));
        assert_eq!(open(&note, &[&as_witness, &as_log]).unwrap().1, []);
    }
}
