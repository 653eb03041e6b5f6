//! Verifying ledgers on all cores, in constant memory (`spec/ledger.md` §5).
//!
//! ```text
//! file     bytes ─► LineSplitter ─► Batch of lines ─┬─ read_line ─┬─► Verifier ─► conclude
//!                                                   └─ read_line ─┘
//! records  texts in order ─► Batch of rows ─► read_row ─► the same
//! ```

use crate::batch::{Batch, CUT_BYTES};
use crate::read::Source;
use threadseal::error::Error;
use threadseal::ledger::{
    ChainOptions, Judging, KnownKeys, LineReader, LineSplitter, Outcome, Place, Verifier, conclude,
};

/// Verifies a ledger of lines, whatever its length. `progress` is told of every chunk's length.
///
/// # Errors
/// Kind `External` when reading fails.
pub fn verify(
    mut source: impl Source,
    options: ChainOptions,
    judging: &Judging<'_>,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Outcome, Error> {
    let mut verifier = Verifier::new(options);
    let keys = KnownKeys::of_trust(judging.trust);
    let mut splitter = LineSplitter::new();
    let (mut batch, mut chunk) = (Batch::default(), Vec::new());
    loop {
        source.next_chunk(&mut chunk)?;
        if chunk.is_empty() {
            let bytes = splitter.finish(&mut |line, place| batch.add(line, place));
            take_lines(&mut verifier, &batch, &keys);
            return Ok(conclude(verifier, bytes, judging));
        }
        progress(chunk.len() as u64);
        for cut in chunk.chunks(CUT_BYTES) {
            splitter.push(cut, &mut |line, place| batch.add(line, place));
            if batch.is_full() {
                take_lines(&mut verifier, &batch, &keys);
                batch.clear();
            }
        }
    }
}

/// Verifies a ledger whose records come as texts, in order, as from the rows of a table.
/// `next` gives the text of the next record, or `None` behind the last.
///
/// # Errors
/// What `next` returns.
pub fn verify_records(
    mut next: impl FnMut() -> Result<Option<Vec<u8>>, Error>,
    options: ChainOptions,
    judging: &Judging<'_>,
) -> Result<Outcome, Error> {
    let mut verifier = Verifier::new(options);
    let keys = KnownKeys::of_trust(judging.trust);
    let mut batch = Batch::default();
    let (mut rows, mut bytes) = (0, 0);
    while let Some(text) = next()? {
        rows += 1;
        bytes += text.len() as u64;
        batch.add(&text, Place::row(rows, text.len() as u64));
        if batch.is_full() {
            take_rows(&mut verifier, &batch, &keys);
            batch.clear();
        }
    }
    take_rows(&mut verifier, &batch, &keys);
    Ok(conclude(verifier, bytes, judging))
}

fn take_lines(verifier: &mut Verifier, batch: &Batch<Place>, keys: &KnownKeys) {
    let reads = batch.read(|| {
        let mut reader = LineReader::knowing(keys);
        move |line: &[u8]| reader.read_line(line)
    });
    for (read, (line, place)) in reads.iter().zip(batch.pieces()) {
        verifier.take(read, line, place);
    }
}

fn take_rows(verifier: &mut Verifier, batch: &Batch<Place>, keys: &KnownKeys) {
    let reads = batch.read(|| {
        let mut reader = LineReader::knowing(keys);
        move |text: &[u8]| reader.read_row(text)
    });
    for (read, (text, place)) in reads.iter().zip(batch.pieces()) {
        verifier.take(read, text, place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadseal::digest::Digest;
    use threadseal::ledger::{Effect, RunId, StepRecord, compute_record_hash, judge};
    use threadseal::report::Verdict;
    use threadseal::time::Timestamp;
    use threadseal::trust::Trust;

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
