//! Documents that break one rule of `spec/documents.md` §8, or keep it at its bound: sealed in the file,
//! beside it, and by Rye.

mod forge;
mod kinds;
mod native;
mod rye;

use crate::forge::{authority, hex, rye as rye_key};
use crate::list::{Answer, Folder, Options, Trusted};

/// All of them.
pub(crate) fn vectors() -> Folder {
    let rye = format!("rye:{}", hex(&rye_key()));
    let trust = vec![hex(&authority()), rye];
    let mut add = Adder(Folder::new("document", "native", trust));
    kinds::add(&mut add);
    native::add(&mut add);
    rye::add(&mut add);
    add.0
}

/// What a verifier answers, and the options of the question.
struct Want {
    verdict: &'static str,
    codes: Vec<&'static str>,
    options: Options,
    /// Gaps of a signature of Rye that the profile allows.
    gaps: bool,
}

impl Want {
    fn new(verdict: &'static str, codes: &[&'static str]) -> Self {
        Self {
            verdict,
            codes: codes.to_vec(),
            options: Options::default(),
            gaps: false,
        }
    }

    fn asked(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    fn with_gaps(mut self) -> Self {
        self.gaps = true;
        self
    }
}

/// Adds vectors.
struct Adder(Folder);

impl Adder {
    /// A file of this name with this ending.
    fn add(&mut self, (name, ending): (&str, &str), rule: &str, bytes: &[u8], want: Want) {
        self.files((name, ending), rule, bytes, None, want);
    }

    fn files(
        &mut self,
        (name, ending): (&str, &str),
        rule: &str,
        bytes: &[u8],
        seal: Option<&[u8]>,
        mut want: Want,
    ) {
        if want.options.name.is_none() {
            want.options.name = Some(format!("{name}{ending}"));
        }
        let whole = want.verdict == "verified" && !want.gaps;
        let torn = !bytes.is_empty() && !bytes.ends_with(b"\n");
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count() + usize::from(torn);
        let answer = Answer {
            name,
            options: want.options,
            verdict: want.verdict,
            codes: &want.codes,
            trusted_until: whole.then_some(Trusted {
                line: lines as u64,
                byte: bytes.len() as u64,
                turn: None,
            }),
            rule: &format!("documents.md {rule}"),
        };
        let seal_ending = format!("{ending}.seal");
        let mut files: Vec<(&'static str, &str, &[u8])> = vec![("document", ending, bytes)];
        if let Some(seal) = seal {
            files.push(("seal", &seal_ending, seal));
        }
        self.0.add(answer, &files);
    }
}
