//! Native records that break one rule of `spec/transcript.md`, or keep it at its bound.
//!
//! ```text
//! lines, manifest, seals, ext, ordering, states, keys, recovery, ends, bodies   one subject each
//!       └─► Set::add(name, rule, record, Want) ─► list::Folder
//! script   records by short words: "b3 t s3>4 c f4"
//! ```
//! What a verifier must answer (`Want`) is the text's demand, never the answer of a program.

mod bodies;
mod bodies_file;
mod ends;
mod ext;
mod key_events;
mod keys;
mod lines;
mod manifest;
mod ordering;
mod recovery;
mod script;
mod seals;
mod spelling;
mod states;

use crate::forge::{Forge, authority, hex, key};
use crate::list::{Answer, Folder, Options};

/// Every seal of the record is good.
pub(crate) const ALL: usize = usize::MAX;

/// All of them.
pub(crate) fn vectors() -> Folder {
    let trust = vec![hex(&authority())];
    let mut set = Set(Folder::new("native", "native", trust));
    lines::add(&mut set);
    manifest::add(&mut set);
    seals::add(&mut set);
    spelling::add(&mut set);
    ext::add(&mut set);
    ordering::add(&mut set);
    states::add(&mut set);
    keys::add(&mut set);
    key_events::add(&mut set);
    recovery::add(&mut set);
    ends::add(&mut set);
    bodies::add(&mut set);
    bodies_file::add(&mut set);
    set.0
}

/// What a verifier must answer.
#[derive(Clone)]
struct Want {
    verdict: &'static str,
    codes: Vec<&'static str>,
    /// How many seals hold and may be trusted; 0 where nothing may.
    good: usize,
    options: Options,
}

fn want(verdict: &'static str, codes: &[&'static str], good: usize) -> Want {
    Want {
        verdict,
        codes: codes.to_vec(),
        good,
        options: Options::default(),
    }
}

fn verified() -> Want {
    want("verified", &[], ALL)
}

/// Every seal holds, and the last is not final.
fn open() -> Want {
    want("open", &["end_unproved"], ALL)
}

impl Want {
    /// With these trusted keys, by number.
    fn trusting(mut self, numbers: &[u8]) -> Self {
        self.options.trust = Some(numbers.iter().map(|&number| hex(&key(number))).collect());
        self
    }

    /// With these pinned keys, by number.
    fn pinning(mut self, numbers: &[u8]) -> Self {
        self.options.pins = numbers.iter().map(|&number| hex(&key(number))).collect();
        self
    }

    fn thread(mut self, thread: &str) -> Self {
        self.options.thread = Some(thread.to_owned());
        self
    }

    fn head(mut self, head: &str, exact: bool) -> Self {
        self.options.head = Some(head.to_owned());
        self.options.exact = exact;
        self
    }
}

/// The vectors so far.
struct Set(Folder);

impl Set {
    fn add(&mut self, name: &str, rule: &str, forge: &Forge, want: Want) {
        self.add_with(name, rule, forge, None, want);
    }

    /// With a file of bodies.
    fn add_with(
        &mut self,
        name: &str,
        rule: &str,
        forge: &Forge,
        bodies: Option<&str>,
        want: Want,
    ) {
        let good = want.good.min(forge.seals.len());
        let until = good.checked_sub(1).and_then(|last| forge.seals.get(last));
        let answer = Answer {
            name,
            options: want.options,
            verdict: want.verdict,
            codes: &want.codes,
            trusted_until: until.map(|seal| seal.trusted),
            rule,
        };
        let mut files = vec![("record", ".jsonl", forge.out.as_slice())];
        if let Some(bodies) = bodies {
            files.push(("bodies", ".bodies", bodies.as_bytes()));
        }
        self.0.add(answer, &files);
    }
}
