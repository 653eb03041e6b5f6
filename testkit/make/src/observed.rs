//! Observed logs and seal files that break one rule of `spec/transcript.md` §9, or keep it at its
//! bound.

mod heads;
mod lines;
mod next_keys;
mod redactions;
mod salts;
mod seal_file;
mod seals;

use crate::forge::hex;
use crate::list::{Answer, Folder, Options, Trusted};
use crate::observed_forge::{Log, OBSERVER, observer};

/// All of them.
pub(crate) fn vectors() -> Folder {
    let trust = vec![hex(&observer(OBSERVER))];
    let mut add = Adder(Folder::new("observed", "observed", trust));
    for format in [1, 2] {
        lines::add(&mut add, format);
        seal_file::add(&mut add, format);
        seals::add(&mut add, format);
        heads::add(&mut add, format);
        next_keys::add(&mut add, format);
    }
    salts::add(&mut add);
    redactions::add(&mut add);
    add.0
}

/// What a verifier answers, and the options of the question.
struct Verdict {
    verdict: &'static str,
    codes: Vec<&'static str>,
    until: Option<Trusted>,
    options: Options,
}

impl Verdict {
    fn new(verdict: &'static str, codes: &[&'static str], until: Option<Trusted>) -> Self {
        Self {
            verdict,
            codes: codes.to_vec(),
            until,
            options: Options::default(),
        }
    }

    /// All is well, but nothing shows that the last seal is the newest.
    fn open(log: &Log) -> Self {
        Self::new("open", &["end_unproved"], log.last())
    }

    /// The log ended, and is whole.
    fn whole(log: &Log) -> Self {
        Self::new("verified", &[], log.last())
    }

    /// Bytes are behind the last seal, which is not final.
    fn tail(log: &Log) -> Self {
        let codes = ["end_unproved", "unsigned_tail"];
        Self::new("unsigned_tail", &codes, log.last())
    }

    /// Evidence, with these codes.
    fn bad(verdict: &'static str, codes: &[&'static str]) -> Self {
        Self::new(verdict, codes, None)
    }

    /// A line differs; those before it are `whole`.
    fn differs(code: &'static str, whole: &[&[u8]]) -> Self {
        let until = Trusted {
            line: whole.len() as u64,
            byte: whole.iter().map(|line| line.len() as u64).sum(),
            turn: None,
        };
        Self::new("tampered", &[code], Some(until))
    }

    fn and(mut self, code: &'static str) -> Self {
        self.codes.push(code);
        self
    }

    fn asked(mut self, options: Options) -> Self {
        self.options = options;
        self
    }
}

/// Adds vectors.
struct Adder(Folder);

impl Adder {
    /// Adds a log with its seals.
    fn log(&mut self, name: &str, log: &Log, verdict: Verdict, rule: &str) {
        self.parts((name, log.format), &log.out, &log.file(), verdict, rule);
    }

    /// Adds these bytes of a log beside the seals of another.
    fn edited(&mut self, name: &str, out: &[u8], log: &Log, verdict: Verdict, rule: &str) {
        self.parts((name, log.format), out, &log.file(), verdict, rule);
    }

    fn parts(
        &mut self,
        (name, format): (&str, u8),
        log: &[u8],
        seals: &[u8],
        verdict: Verdict,
        rule: &str,
    ) {
        let answer = Answer {
            name: &format!("{name}-format-{format}"),
            options: verdict.options,
            verdict: verdict.verdict,
            codes: &verdict.codes,
            trusted_until: verdict.until,
            rule: &format!("transcript.md §9: {rule}"),
        };
        self.0.add(
            answer,
            &[("log", ".log", log), ("seals", ".log.seal", seals)],
        );
    }
}

/// The lines of these bytes, LF included.
fn split(log: &[u8]) -> Vec<&[u8]> {
    log.split_inclusive(|byte| *byte == b'\n').collect()
}
