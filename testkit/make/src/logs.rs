//! Notes, checkpoints, proofs and requests to witnesses that break one rule of `spec/tlog.md` or of
//! `spec/keys-and-trust.md` §6, or keep it at its bound.

mod checkpoints;
mod consistency;
mod inclusion;
mod ml_dsa;
mod notes;

use crate::list::{Expected, Folder, Options, Short};
use crate::proof_forge::{LOG, LogPart, log_key};
use threadseal_core::key::{LocalSigner, Message, PrivateKey, Signer as _};
use threadseal_core::note::NoteText;

/// All of them.
pub(crate) fn vectors() -> Folder {
    let mut add = Adder(Folder::new("note", "log", Vec::new()));
    notes::add(&mut add);
    checkpoints::add(&mut add);
    ml_dsa::add(&mut add);
    inclusion::add(&mut add);
    consistency::add(&mut add);
    add.0
}

/// Adds vectors.
struct Adder(Folder);

/// The role of a file, the ending of its name, its bytes.
type File<'a> = (&'static str, &'a str, &'a [u8]);

impl Adder {
    fn add(
        &mut self,
        (kind, name): (&'static str, &str),
        rule: &str,
        keys: &[String],
        short: Short,
        files: &[File<'_>],
    ) {
        let options = Options {
            keys: keys.to_vec(),
            ..Options::default()
        };
        let expected = Expected::Short(short);
        self.0
            .add_expected(kind, (name, rule), options, expected, files);
    }
}

/// The part with the line of the log alone. Its key signs any text here, also one that is no checkpoint.
fn signed_by_the_log(part: LogPart) -> LogPart {
    let text = NoteText::parse(&part.checkpoint).expect("the text of a note");
    let usage = Message::note(&text).usage();
    let key = LocalSigner::new(PrivateKey::from_seed([21; 32]), usage);
    assert_eq!(key.public_key(), log_key().public_key());
    LogPart {
        signatures: vec![part.signed(LOG, &key)],
        ..part
    }
}

fn answer(answer: &'static str) -> Short {
    Short {
        answer,
        ..Short::default()
    }
}
