//! Ledgers that break one rule of `spec/ledger.md` §5 to §7, or keep it at its bound; most are signed, or
//! have a signed head beside them.

mod bundles;
mod chains;
mod forge;
mod heads;
mod signed;

use crate::forge::{authority, hex};
use crate::list::{Answer, Folder, Options};
use forge::Ledger;

/// All of them.
pub(crate) fn vectors() -> Folder {
    let mut add = Adder(Folder::new("ledger", "native", vec![hex(&authority())]));
    signed::add(&mut add);
    heads::add(&mut add);
    chains::add(&mut add);
    add.0
}

/// Bundles of ledgers.
pub(crate) fn bundles() -> Folder {
    bundles::vectors()
}

/// What a verifier answers, and the options of the question.
struct Want {
    verdict: &'static str,
    codes: Vec<&'static str>,
    /// The number of the last record that is covered.
    until: Option<usize>,
    options: Options,
    /// `FILE.head`.
    head: Option<Vec<u8>>,
}

impl Want {
    fn new(verdict: &'static str, codes: &[&'static str], until: Option<usize>) -> Self {
        Self {
            verdict,
            codes: codes.to_vec(),
            until,
            options: Options::default(),
            head: None,
        }
    }

    fn asked(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    fn beside(mut self, head: impl Into<Vec<u8>>) -> Self {
        self.head = Some(head.into());
        self
    }
}

/// Adds vectors.
struct Adder(Folder);

impl Adder {
    fn add(&mut self, name: &str, rule: &str, ledger: &Ledger, want: Want) {
        let (bytes, places) = ledger.written();
        let answer = Answer {
            name,
            options: want.options,
            verdict: want.verdict,
            codes: &want.codes,
            trusted_until: want.until.map(|record| places[record]),
            rule: &format!("ledger.md {rule}"),
        };
        let mut files: Vec<(&'static str, &str, &[u8])> = vec![("ledger", ".jsonl", &bytes)];
        if let Some(head) = &want.head {
            files.push(("head", ".jsonl.head", head));
        }
        self.0.add(answer, &files);
    }
}
