//! Scrolls that break one rule of `spec/scroll.md` §8, or keep it at its bound: in an array, in lines
//! and in CBOR.

mod cases;
mod forge;

use crate::forge::hex;
use crate::list::{Answer, Folder, Options};
use forge::{Scroll, scroll_key};

/// All of them.
pub(crate) fn vectors() -> Folder {
    let trust = vec![hex(&scroll_key(1))];
    let mut add = Adder(Folder::new("scroll", "scroll", trust));
    cases::add(&mut add);
    add.0
}

/// How the turns are in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Container {
    Array,
    Lines,
    Sequence,
}

const ALL: [Container; 3] = [Container::Array, Container::Lines, Container::Sequence];
const JSON: [Container; 2] = [Container::Array, Container::Lines];

/// What a verifier answers, and the options of the question.
struct Want {
    verdict: &'static str,
    codes: Vec<&'static str>,
    /// The last turn that is covered.
    until: Option<usize>,
    options: Options,
}

impl Want {
    fn new(verdict: &'static str, codes: &[&'static str], until: Option<usize>) -> Self {
        Self {
            verdict,
            codes: codes.to_vec(),
            until,
            options: Options::default(),
        }
    }

    fn asked(mut self, options: Options) -> Self {
        self.options = options;
        self
    }
}

/// Adds vectors.
struct Adder(Folder);

impl Adder {
    /// Adds the same turns in each of these containers.
    fn add(
        &mut self,
        name: &str,
        rule: &str,
        containers: &[Container],
        make: impl Fn(&mut Scroll) -> Want,
    ) {
        for container in containers {
            let mut scroll = Scroll::new(*container);
            let want = make(&mut scroll);
            let (suffix, ending) = match container {
                Container::Array => ("array", ".json"),
                Container::Lines => ("lines", ".jsonl"),
                Container::Sequence => ("cbor", ".cbor"),
            };
            let (bytes, places) = scroll.written();
            let answer = Answer {
                name: &format!("{name}-{suffix}"),
                options: want.options,
                verdict: want.verdict,
                codes: &want.codes,
                trusted_until: want.until.map(|turn| places[turn]),
                rule: &format!("scroll.md §8: {rule}"),
            };
            self.0.add(answer, &[("scroll", ending, &bytes)]);
        }
    }
}
