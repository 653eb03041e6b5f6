//! Run history bundles.
//!
//! * Reading never panics, and refuses input that is not a bundle.
//! * The ledgers of a bundle, written as a new bundle, read back line by line unchanged. They also
//!   read back as complete ledgers.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadseal_core::error::Error;
use threadseal_formats::ledger::{Bundle, Records, RunId, View, write_bundle};
use threadseal_core::time::Timestamp;

struct Held(Bundle);

impl Records for Held {
    fn each(&self, run: &RunId, take: &mut dyn FnMut(&[u8]) -> Result<(), Error>) -> Result<(), Error> {
        let of_run = self.0.ledgers.iter().filter(|ledger| ledger.run == *run);
        of_run.flat_map(|ledger| &ledger.lines).try_for_each(|line| take(line))
    }
}

fuzz_target!(|data: &[u8]| {
    let Ok(bundle) = Bundle::parse(data) else {
        return;
    };
    let mut runs: Vec<RunId> = bundle.ledgers.iter().map(|ledger| ledger.run.clone()).collect();
    if let Some(place) = runs.iter().position(|run| *run == bundle.root) {
        runs.swap(0, place);
    }
    let held = Held(bundle);
    let at = Timestamp::from_micros(1_800_000_000_000_000).expect("in range");
    let mut text = Vec::new();
    let mut out = |piece: &[u8]| {
        text.extend_from_slice(piece);
        Ok(())
    };
    if write_bundle(&runs, None, at, &held, &mut out).is_err() {
        return;
    }
    let again = Bundle::parse(&text).expect("what was written is read");
    assert_eq!(again.ledgers.len(), runs.len());
    for ledger in &again.ledgers {
        assert_eq!(ledger.view, View::Whole);
        let before = held.0.ledgers.iter().find(|old| old.run == ledger.run).expect("of these runs");
        assert_eq!(ledger.lines, before.lines);
    }
});
