//! Verifying ledgers on all cores, in constant memory (`spec/ledger.md` §5).
//!
//! ```text
//! file     source ─► batches of lines ─┬─ LineReader ─┬─► Verifier ─► conclude     (`batches`)
//! records  texts  ─► batches of rows  ─┴─ LineReader ─┘
//! ```
//! The readers get the keys that a ledger names while it is read. So its signatures are checked on
//! all cores, too.

use crate::batches::{Batch, Cut, Cutter, Pieces, read_all};
use crate::read::Source;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use threadseal_core::error::Error;
use threadseal_formats::ledger::{
    ChainOptions, Judging, KnownKeys, LineRead, LineReader, LineSplitter, Outcome, Place, Verifier,
    conclude,
};

/// Verifies a ledger of lines, whatever its length. `progress` gets the length of every chunk.
///
/// # Errors
/// Kind `External` when reading fails.
pub fn verify(
    source: impl Source + Send,
    options: ChainOptions,
    judging: &Judging<'_>,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Outcome, Error> {
    let mut cutter = Cutter::new(source, LineSplitter::new(), progress);
    let verifier = take_all(&mut cutter, options, judging, LineReader::read_line)?;
    Ok(conclude(verifier, cutter.end()?, judging))
}

/// Verifies a ledger whose records come as texts, in order, as from the rows of a table. `next`
/// returns the text of the next record, or `None` after the last.
///
/// # Errors
/// Those of `next`.
pub fn verify_records(
    next: impl FnMut() -> Result<Option<Vec<u8>>, Error> + Send,
    options: ChainOptions,
    judging: &Judging<'_>,
) -> Result<Outcome, Error> {
    let mut rows = Rows {
        next,
        rows: 0,
        bytes: 0,
    };
    let verifier = take_all(&mut rows, options, judging, LineReader::read_row)?;
    Ok(conclude(verifier, rows.bytes, judging))
}

fn take_all(
    pieces: &mut (impl Pieces<Place> + Send),
    options: ChainOptions,
    judging: &Judging<'_>,
    read: impl Fn(&mut LineReader, &[u8]) -> LineRead + Sync,
) -> Result<Verifier, Error> {
    let mut verifier = Verifier::new(options);
    let keys = KnownKeys::of_trust(judging.trust);
    let named = Named::new(&verifier);
    let reader = || {
        let mut reader = LineReader::knowing(&keys);
        let (mut learnt, named, read) = (0, &named, &read);
        move |text: &[u8]| {
            named.tell(&mut learnt, &mut reader);
            read(&mut reader, text)
        }
    };
    read_all(pieces, reader, |line, text, place| {
        verifier.take(line, text, place);
        named.note(&verifier);
    })?;
    Ok(verifier)
}

/// The keys that the records so far name, for the readers of later records.
struct Named {
    keys: Mutex<KnownKeys>,
    /// How often they changed.
    version: AtomicU64,
}

impl Named {
    fn new(verifier: &Verifier) -> Self {
        Self {
            keys: Mutex::new(verifier.named_keys().clone()),
            version: AtomicU64::new(0),
        }
    }

    fn note(&self, verifier: &Verifier) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if !keys.is(verifier.named_keys()) {
            *keys = verifier.named_keys().clone();
            self.version.fetch_add(1, Ordering::Release);
        }
    }

    fn tell(&self, learnt: &mut u64, reader: &mut LineReader) {
        let version = self.version.load(Ordering::Acquire);
        if version != *learnt {
            *learnt = version;
            reader.learn(&self.keys.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

impl Cut for LineSplitter {
    type Place = Place;
    type End = u64;

    fn push(&mut self, bytes: &[u8], each: &mut dyn FnMut(&[u8], Place)) {
        Self::push(self, bytes, each);
    }

    fn finish(self, each: &mut dyn FnMut(&[u8], Place)) -> u64 {
        Self::finish(self, each)
    }
}

struct Rows<N> {
    next: N,
    rows: u64,
    bytes: u64,
}

impl<N: FnMut() -> Result<Option<Vec<u8>>, Error>> Pieces<Place> for Rows<N> {
    fn fill(&mut self, batch: &mut Batch<Place>) -> Result<bool, Error> {
        while !batch.is_full() {
            let Some(text) = (self.next)()? else {
                return Ok(true);
            };
            self.rows += 1;
            self.bytes += text.len() as u64;
            batch.add(&text, Place::row(self.rows, text.len() as u64));
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadseal_core::digest::Digest;
    use threadseal_core::report::Verdict;
    use threadseal_core::time::Timestamp;
    use threadseal_core::trust::Trust;
    use threadseal_formats::ledger::{Effect, RunId, StepRecord, compute_record_hash, judge};

    struct Chunks(std::vec::IntoIter<Vec<u8>>);

    impl Source for Chunks {
        fn next_chunk(&mut self, chunk: &mut Vec<u8>) -> Result<(), Error> {
            *chunk = self.0.next().unwrap_or_default();
            Ok(())
        }
    }

    fn lines(count: u64) -> Vec<Vec<u8>> {
        let mut prev: Option<Digest> = None;
        let line = |number: u64| {
            let at = Timestamp::from_micros(1_800_000_000_000_000 + number).unwrap();
            let run = RunId::parse("run").unwrap();
            let effect = Effect::new("tool_calls", "é".repeat(200).as_str().into());
            let mut record = StepRecord::start(run, number.to_string(), "n", Some(effect), at);
            record.finish_success(None, at);
            record.prev_hash = prev;
            let hash = compute_record_hash(&record.to_value(), prev.as_ref()).unwrap();
            record.record_hash = Some(hash);
            prev = Some(hash);
            record.to_line().unwrap()
        };
        (0..count).map(line).collect()
    }

    #[test]
    fn many_threads_say_what_one_says() {
        let trust = Trust::default();
        let judging = Judging::new(&trust, Timestamp::from_micros(0).unwrap());
        let mut lines = lines(3000);
        for tampered in [false, true] {
            if tampered {
                let line = lines[2000].clone();
                lines[1000] = line;
            }
            let file = lines.join(&b'\n');
            let expected = judge(&file, ChainOptions::default(), &judging).report;
            for size in [999, 1 << 20] {
                let chunks: Vec<_> = file.chunks(size).map(<[u8]>::to_vec).collect();
                let source = Chunks(chunks.into_iter());
                let options = ChainOptions::default();
                let found = verify(source, options, &judging, &|_| {}).unwrap().report;
                assert_eq!(found, expected);
            }
            let mut rows = lines.clone().into_iter();
            let next = || Ok(rows.next());
            let rows = verify_records(next, ChainOptions::default(), &judging).unwrap();
            assert_eq!(rows.report.verdict, expected.verdict);
            assert_eq!(rows.report.compat, expected.compat);
            let verdict = if tampered {
                Verdict::Tampered
            } else {
                Verdict::Consistent
            };
            assert_eq!(expected.verdict, verdict);
        }
    }
}
