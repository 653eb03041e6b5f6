//! The records of one history, and what is expected of them.

use crate::prelude::*;
use std::ops::Range;

/// A sequence of numbers that follows from a seed: `SplitMix64` (Steele, Lea and Flood, 2014).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `bound - 1`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// The kinds of records that are played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A log of another program, with detached seals.
    Log,
    /// A document with a seal in it or beside it.
    Document,
    /// A native transcript.
    Transcript,
    /// A scroll that this home signed.
    Scroll,
    /// A ledger in a folder or in SQLite.
    Ledger,
    /// The checkpoints of an agent in a folder.
    Lineage,
}

pub(super) const KINDS: [Kind; 6] = [
    Kind::Log,
    Kind::Document,
    Kind::Transcript,
    Kind::Scroll,
    Kind::Ledger,
    Kind::Lineage,
];

#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) kind: Kind,
    /// Its path, or the address of its store.
    pub(super) name: String,
    /// A number in its content or in its name.
    pub(super) number: usize,
    /// Turns, records or checkpoints that were added.
    pub(super) count: usize,
    /// Has it a signature? Only ledgers may have none.
    pub(super) is_signed: bool,
    /// Has it a seal?
    pub(super) is_sealed: bool,
    /// Does a seal cover all of it?
    pub(super) is_whole: bool,
    pub(super) is_final: bool,
    /// Is the key at its beginning no longer the key of the home?
    pub(super) is_of_ended_key: bool,
    /// The files of the record at an earlier seal, for an attacker.
    pub(super) earlier: Option<Vec<(PathBuf, Vec<u8>)>>,
}

pub(super) struct World {
    pub(super) sandbox: Sandbox,
    pub(super) random: Random,
    pub(super) records: Vec<Record>,
    /// What was done, for people.
    pub(super) steps: Vec<String>,
    /// Names and texts that were given.
    made: usize,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            sandbox: ready(),
            random: Random(seed),
            records: Vec::new(),
            steps: Vec::new(),
            made: 0,
        }
    }

    /// A number that no other name and no other text has.
    pub(super) fn number(&mut self) -> usize {
        self.made += 1;
        self.made
    }

    /// Runs a command line, which is one of the steps.
    pub(super) fn run(&mut self, line: &str) -> Ran {
        let ran = self.sandbox.sh(line);
        self.steps.push(format!("{line}: {}", ran.code));
        ran
    }

    /// Runs a command line that an honest history must not have refused.
    pub(super) fn ok(&mut self, line: &str) {
        let ran = self.run(line);
        assert_eq!(ran.code, 0, "{line}\n{}\n{}", ran.stdout, ran.stderr);
    }

    pub(super) fn note(&mut self, step: impl Into<String>) {
        self.steps.push(step.into());
    }

    /// No record is accused: one of them, and their folder, are verified.
    pub(super) fn judge_one(&mut self) {
        let count = self.records.len();
        if count > 0 {
            let index = self.random.below(count);
            self.judge_from(index..index + 1);
        }
    }

    /// No record is accused, and those that a seal covers whole are verified.
    pub(super) fn judge(&mut self) {
        self.judge_from(0..self.records.len());
    }

    fn judge_from(&mut self, records: Range<usize>) {
        for index in records {
            let record = self.records[index].clone();
            let expected: &[i32] = match record.is_sealed && record.is_whole && record.is_signed {
                true => &[0],
                false if record.is_sealed => &[0, 3],
                // A file of any name without seals need not be a record.
                false => &[0, 2, 3],
            };
            self.expect(&format!("verify {}", record.name), expected);
        }
        let any_sealed = self.records.iter().any(|record| record.is_sealed);
        match self.records.is_empty() {
            true => {}
            false if any_sealed => self.expect("verify .", &[0, 3]),
            // Where there is no record at all, there is no verdict.
            false => self.expect("verify .", &[0, 2, 3]),
        }
    }

    /// The command line exits with one of these codes.
    pub(super) fn expect(&mut self, line: &str, codes: &[i32]) {
        let ran = self.run(line);
        assert!(
            codes.contains(&ran.code),
            "{line}: {}, and not one of {codes:?}\n{}\n{}",
            ran.code,
            ran.stdout,
            ran.stderr
        );
    }
}

impl Record {
    /// The file or folder of the record.
    pub(super) fn place(&self) -> &str {
        let (_, path) = self.name.split_once(':').unwrap_or(("", &self.name));
        path
    }

    /// The file or folder of the record, and its seals if they are beside it.
    pub(super) fn files(&self, sandbox: &Sandbox) -> Vec<PathBuf> {
        let seals = format!("{}.seal", self.place());
        let names = [self.place(), &*seals];
        let paths = names.map(|name| sandbox.path(name)).into_iter();
        paths.filter(|path| path.exists()).collect()
    }

    /// Removes the files of the record.
    pub(super) fn remove(&self, sandbox: &Sandbox) {
        for path in self.files(sandbox) {
            match path.is_dir() {
                true => fs::remove_dir_all(path).unwrap(),
                false => fs::remove_file(path).unwrap(),
            }
        }
    }

    /// All files of the record with their bytes.
    pub(super) fn content(&self, sandbox: &Sandbox) -> Vec<(PathBuf, Vec<u8>)> {
        let files = self.files(sandbox).into_iter();
        let files = files.flat_map(|path| match path.is_dir() {
            true => walk(&path),
            false => vec![path],
        });
        files
            .filter(|path| path.is_file())
            .map(|path| (path.clone(), fs::read(path).unwrap()))
            .collect()
    }
}
