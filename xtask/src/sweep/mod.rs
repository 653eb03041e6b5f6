//! `cargo xtask sweep`: every other value of every byte of sealed records must be detected.
//!
//! ```text
//! cargo xtask sweep [--quick]      --quick: an eighth of the values, other ones at each byte
//! ```
//! It tries all 255 other values at each byte of a transcript and of documents of each kind. These
//! are some two million verifications. The tests of the core try a few values at each byte of
//! similar records.
//!
//! Elsewhere: the records (`transcript`, `document`).

mod document;
mod transcript;

use std::error::Error;
use std::num::NonZero;
use std::ops::{Range, RangeInclusive};

/// Whether a record verifies, or is handed out as if it did.
type Verifies<'a> = &'a (dyn Fn(&[u8]) -> bool + Sync);

/// The number of changes, and those (place, value) that verified.
#[derive(Debug, Default)]
struct Tally {
    changes: u64,
    missed: Vec<(usize, u8)>,
}

/// Of how many values of a byte `--quick` tries one.
const QUICK: usize = 8;

/// Sweeps all records; true when every change was detected.
///
/// # Errors
/// When an argument is unknown, a record cannot be made, or does not verify unchanged.
pub(crate) fn run(words: &[&str]) -> Result<bool, Box<dyn Error>> {
    let every = match words {
        [] => 1,
        ["--quick"] => QUICK,
        _ => return Err("usage: cargo xtask sweep [--quick]".into()),
    };
    let bench = transcript::Bench::new()?;
    let mut whole = sweep_all(
        "transcript",
        &|bytes| bench.verifies(bytes),
        &bench.record()?,
        every,
    )?;
    let documents = document::Bench::new()?;
    for file in documents.files()? {
        let verifies = |bytes: &[u8]| documents.verifies(bytes, file.kind);
        whole &= sweep_all(&file.name, &verifies, &file.bytes, every)?;
    }
    Ok(whole)
}

/// Sweeps one record and prints the result.
fn sweep_all(
    name: &str,
    verifies: Verifies<'_>,
    record: &[u8],
    every: usize,
) -> Result<bool, Box<dyn Error>> {
    let tally = sweep(verifies, record, 0..record.len(), 1..=255, every)?;
    for (at, value) in &tally.missed {
        crate::console::complain(&format!("{name}: byte {at} set to {value} was not noticed"));
    }
    let noticed = tally.changes - tally.missed.len() as u64;
    crate::console::say(&format!(
        "{name}: {} changes, {noticed} noticed",
        tally.changes
    ));
    Ok(tally.missed.is_empty())
}

/// Changes each byte of `range` by one of `every` masks, on all cores.
fn sweep(
    verifies: Verifies<'_>,
    record: &[u8],
    range: Range<usize>,
    masks: RangeInclusive<u8>,
    every: usize,
) -> Result<Tally, Box<dyn Error>> {
    if !verifies(record) {
        return Err("the record does not verify unchanged".into());
    }
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let tallies: Vec<Option<Tally>> = std::thread::scope(|scope| {
        let share = |core: usize| {
            let (places, masks) = (range.clone().skip(core).step_by(cores), masks.clone());
            scope.spawn(move || sweep_places(verifies, record.to_vec(), places, &masks, every))
        };
        let running: Vec<_> = (0..cores).map(share).collect();
        running
            .into_iter()
            .map(|thread| thread.join().ok())
            .collect()
    });
    let mut sum = Tally::default();
    for tally in tallies {
        let tally = tally.ok_or("a verification panicked")?;
        sum.changes += tally.changes;
        sum.missed.extend(tally.missed);
    }
    sum.missed.sort_unstable();
    Ok(sum)
}

fn sweep_places(
    verifies: Verifies<'_>,
    mut record: Vec<u8>,
    places: impl Iterator<Item = usize>,
    masks: &RangeInclusive<u8>,
    every: usize,
) -> Tally {
    let mut tally = Tally::default();
    for at in places {
        let genuine = record[at];
        let is_tried = |mask: &u8| (at + usize::from(*mask)).is_multiple_of(every);
        for mask in masks.clone().filter(is_tried) {
            record[at] = genuine ^ mask;
            tally.changes += 1;
            if verifies(&record) {
                tally.missed.push((at, record[at]));
            }
        }
        record[at] = genuine;
    }
    tally
}

#[cfg(test)]
mod tests {
    use super::*;
    use transcript::Bench;

    fn sweep_bench(
        record: &[u8],
        range: Range<usize>,
        masks: RangeInclusive<u8>,
        every: usize,
    ) -> Result<Tally, Box<dyn Error>> {
        let bench = Bench::new()?;
        sweep(&|bytes| bench.verifies(bytes), record, range, masks, every)
    }

    // T-TRA-01
    #[test]
    fn a_bit_flipped_anywhere_is_noticed() {
        let record = Bench::new().unwrap().record().unwrap();
        let tally = sweep_bench(&record, 0..record.len(), 1..=1, 1).unwrap();
        assert_eq!(tally.changes, record.len() as u64);
        assert!(tally.missed.is_empty(), "{:?}", tally.missed);
    }

    #[test]
    fn a_change_that_is_none_is_told_as_missed() {
        let record = Bench::new().unwrap().record().unwrap();
        let tally = sweep_bench(&record, 5..8, 0..=0, 1).unwrap();
        assert_eq!(tally.missed.len(), 3);
    }

    #[test]
    fn a_share_of_the_values_has_some_at_each_byte_and_in_turn_all() {
        let record = Bench::new().unwrap().record().unwrap();
        for at in 0..QUICK {
            let tally = sweep_bench(&record, at..at + 1, 1..=255, QUICK).unwrap();
            assert!((31..=32).contains(&tally.changes), "{}", tally.changes);
        }
        let all = sweep_bench(&record, 0..QUICK, 1..=255, QUICK).unwrap();
        assert_eq!(all.changes, 255);
    }

    #[test]
    fn a_record_that_does_not_verify_is_no_ground_for_a_sweep() {
        assert!(sweep_bench(b"{}\n", 0..1, 1..=1, 1).is_err());
    }
}
