//! `cargo xtask sweep`: every other value of every byte of a sealed record must be noticed.
//!
//! ```text
//! manifest · seal 0 · events, key change · seal · events, end · final seal · link · final seal
//! ```
//! All 255 other values at each byte, on all cores: more than a million verifications. The
//! tests of the core try four values at each byte of a like record; this command tries the rest.

use std::error::Error;
use std::num::NonZero;
use std::ops::Range;
use threadseal::key::{KeyUsage, LocalSigner, PrivateKey, Signer};
use threadseal::record::{Head, RecordId, ThreadId};
use threadseal::report::Verdict;
use threadseal::time::Timestamp;
use threadseal::transcript::event::{EventType, Payload, Salt};
use threadseal::transcript::ext::Ext;
use threadseal::transcript::manifest::Manifest;
use threadseal::transcript::{
    Ending, Link, ScanOptions, Sealer, Signers, Stamp, Verifier, VerifyOptions,
};
use threadseal::trust::{Trust, TrustName, TrustStore, TrustedKey};

/// How many changes were tried, and which of them (place, value) verified all the same.
#[derive(Debug, Default)]
struct Tally {
    changes: u64,
    missed: Vec<(usize, u8)>,
}

/// Sweeps the whole record; true when every change was noticed.
///
/// # Errors
/// When the record cannot be made, or does not verify unchanged.
pub(crate) fn run() -> Result<bool, Box<dyn Error>> {
    let bench = Bench::new()?;
    let record = bench.record()?;
    let tally = sweep(&bench, &record, 0..record.len(), 1..=255)?;
    for (at, value) in &tally.missed {
        crate::complain(&format!("byte {at} set to {value} was not noticed"));
    }
    let noticed = tally.changes - tally.missed.len() as u64;
    crate::say(&format!("{} changes, {noticed} noticed", tally.changes));
    Ok(tally.missed.is_empty())
}

/// Changes each byte of `range` by each of `masks`, on all cores.
fn sweep(
    bench: &Bench,
    record: &[u8],
    range: Range<usize>,
    masks: std::ops::RangeInclusive<u8>,
) -> Result<Tally, Box<dyn Error>> {
    if !bench.verifies(record) {
        return Err("the record does not verify unchanged".into());
    }
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let tallies: Vec<Option<Tally>> = std::thread::scope(|scope| {
        let share = |core: usize| {
            let (places, masks) = (range.clone().skip(core).step_by(cores), masks.clone());
            scope.spawn(move || sweep_places(bench, record.to_vec(), places, &masks))
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
    bench: &Bench,
    mut record: Vec<u8>,
    places: impl Iterator<Item = usize>,
    masks: &std::ops::RangeInclusive<u8>,
) -> Tally {
    let mut tally = Tally::default();
    for at in places {
        let genuine = record[at];
        for mask in masks.clone() {
            record[at] = genuine ^ mask;
            tally.changes += 1;
            if bench.verifies(&record) {
                tally.missed.push((at, record[at]));
            }
        }
        record[at] = genuine;
    }
    tally
}

/// Keys, trust and a clock for one record.
struct Bench {
    native: LocalSigner,
    next: LocalSigner,
    rye: LocalSigner,
    trust: Trust,
    now: Timestamp,
}

impl Bench {
    fn new() -> Result<Self, Box<dyn Error>> {
        let signer = |seed, usage| LocalSigner::new(PrivateKey::from_seed([seed; 32]), usage);
        let native = signer(1, KeyUsage::Native);
        let mut store = TrustStore::new();
        let name = TrustName::parse("self")?;
        store.add(TrustedKey::new(
            name,
            *native.public_key(),
            [KeyUsage::Native],
        ))?;
        Ok(Self {
            native,
            next: signer(2, KeyUsage::Native),
            rye: signer(3, KeyUsage::Rye),
            trust: Trust::new(store),
            now: Timestamp::from_micros(1_800_000_000_000_000)?,
        })
    }

    /// A record that was ended and continued elsewhere, with all that a seal can say.
    fn record(&self) -> Result<Vec<u8>, Box<dyn Error>> {
        let mut out = Vec::new();
        let mut stamps = (1_u8..).map(|count| {
            let timestamp = Timestamp::from_micros(1_739_820_405_000_000 + u64::from(count))?;
            let salt = Salt::from_bytes([count; 16]);
            Ok::<_, threadseal::error::Error>(Stamp { timestamp, salt })
        });
        let mut stamp = || {
            stamps
                .next()
                .ok_or("out of stamps")?
                .map_err(Box::<dyn Error>::from)
        };
        let first = Signers {
            native: &self.native,
            rye: &self.rye,
        };
        let second = Signers {
            native: &self.next,
            rye: &self.rye,
        };
        let id = RecordId::from_bytes([7; 32]);
        let manifest = Manifest::new(id, *self.native.public_key(), *self.rye.public_key());
        let thread = ThreadId::parse("demo/t-1")?;
        let mut sealer = Sealer::begin(thread, manifest, [stamp()?, stamp()?], first, &mut out)?;
        let input = EventType::parse("cognition_in")?;
        let text = Payload::parse(br#"{"text":"h\u00e9","n":[1.5e-7,null,true]}"#)?;
        sealer.event(stamp()?, &input, &text, &mut out)?;
        sealer.announce_key(stamp()?, self.next.public_key(), &mut out)?;
        let ext = Ext::default();
        sealer.seal(stamp()?, 1, false, ext.clone(), first, &mut out)?;
        sealer.event(stamp()?, &input, &text, &mut out)?;
        sealer.end(
            stamp()?,
            Ending::Completed,
            &Payload::parse(b"{}")?,
            &mut out,
        )?;
        sealer.seal(stamp()?, 2, true, ext.clone(), second, &mut out)?;
        let successor = RecordId::from_bytes([8; 32]).to_hex();
        let successor = Payload::parse(format!("{{\"successor\":\"{successor}\"}}").as_bytes())?;
        sealer.link(stamp()?, Link::Handoff, &successor, &mut out)?;
        let _: Head = sealer.seal(stamp()?, 2, true, ext, second, &mut out)?;
        Ok(out)
    }

    fn verifies(&self, bytes: &[u8]) -> bool {
        let mut verifier = Verifier::new(ScanOptions::default());
        verifier.push(bytes);
        let outcome = verifier.finish(&VerifyOptions {
            trust: &self.trust,
            now: self.now,
            held_since: None,
            thread: None,
        });
        outcome.report.verdict == Verdict::Verified || outcome.verified.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_flipped_anywhere_is_noticed() {
        let bench = Bench::new().unwrap();
        let record = bench.record().unwrap();
        let tally = sweep(&bench, &record, 0..record.len(), 1..=1).unwrap();
        assert_eq!(tally.changes, record.len() as u64);
        assert!(tally.missed.is_empty(), "{:?}", tally.missed);
    }

    #[test]
    fn a_change_that_is_none_is_told_as_missed() {
        let bench = Bench::new().unwrap();
        let record = bench.record().unwrap();
        let tally = sweep(&bench, &record, 5..8, 0..=0).unwrap();
        assert_eq!(tally.missed.len(), 3);
    }

    #[test]
    fn a_record_that_does_not_verify_is_no_ground_for_a_sweep() {
        let bench = Bench::new().unwrap();
        assert!(sweep(&bench, b"{}\n", 0..1, 1..=1).is_err());
    }
}
