//! The turns of a scroll: cut one after the other, read on all cores, taken in order.
//!
//! ```text
//! each thread, again and again
//!   cut    one thread at a time   source ─► Splitter ─► batch n
//!   read   all threads at once    batch n ─► what each of its turns shows
//!   take   in order               once batches 0 to n-1 were taken
//! ```
//! No thread waits for another but where one is far behind: batches that were read wait for their
//! turn, a few of them. So memory is bounded by the number of cores, whatever the length.

use crate::read::Source;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use threadseal::error::{Error, ErrorKind};
use threadseal::key::PublicKey;
use threadseal::scroll::{Container, End, Place, Splitter, TurnRead, TurnReader};

/// Bytes of turns that are read at once, unless one turn alone has more.
const BATCH_BYTES: usize = 64 << 10;
/// Turns that are read at once: what is known of a turn is larger than the smallest turn.
const BATCH_TURNS: usize = 2 << 10;
/// So many bytes are cut before it is asked again how many turns there are.
const CUT_BYTES: usize = 16 << 10;

type Reads = Vec<(TurnRead, Place)>;

/// Hands over what each turn shows, in order. `progress` is told of every chunk's length.
///
/// # Errors
/// Kind `External` when reading fails.
pub(super) fn read_all(
    source: impl Source + Send,
    container: Container,
    pinned: Option<PublicKey>,
    progress: &(dyn Fn(u64) + Sync),
    take: impl FnMut(&TurnRead, Place) + Send,
) -> Result<End, Error> {
    let mut cutter = Cutter::new(source, container, progress);
    let mut first = Batch::default();
    let number = cutter.cut(&mut first)?;
    let cores = match cutter.end {
        // One batch is all there is.
        Some(_) => 1,
        None => thread::available_parallelism().map_or(1, usize::from),
    };
    let work = Work {
        cutter: Mutex::new(cutter),
        order: Mutex::new(Order {
            next: 0,
            waiting: BTreeMap::new(),
            stopped: false,
            take,
        }),
        moved: Condvar::new(),
        room: cores,
    };
    let reader = || TurnReader::new(container.form(), pinned.as_ref());
    thread::scope(|scope| {
        let others: Vec<_> = (1..cores)
            .map(|_| scope.spawn(|| work.run(reader(), Batch::default(), None)))
            .collect();
        let mut done = work.run(reader(), first, number);
        for other in others {
            let broken = || Error::new(ErrorKind::External, "a thread that reads turns broke off");
            done = done.and(other.join().unwrap_or_else(|_| Err(broken())));
        }
        done
    })?;
    let cutter = work.cutter.into_inner();
    let end = cutter.unwrap_or_else(PoisonError::into_inner).end;
    end.ok_or_else(|| Error::new(ErrorKind::External, "the scroll was not read to its end"))
}

struct Work<'p, S, F> {
    cutter: Mutex<Cutter<'p, S>>,
    order: Mutex<Order<F>>,
    /// Batches were taken, or a thread broke off.
    moved: Condvar,
    /// Batches that may wait for their turn before a thread does.
    room: usize,
}

/// Batches that were read, until all before them were taken.
struct Order<F> {
    next: u64,
    waiting: BTreeMap<u64, Reads>,
    stopped: bool,
    take: F,
}

impl<S: Source, F: FnMut(&TurnRead, Place)> Work<'_, S, F> {
    /// Cuts and reads until the source ends, beginning with `batch` where it has a `number`.
    fn run(
        &self,
        mut reader: TurnReader,
        mut batch: Batch,
        mut number: Option<u64>,
    ) -> Result<(), Error> {
        let _stop = StopOnPanic(self);
        loop {
            let this = match number.take() {
                Some(first) => first,
                None => match locked(&self.cutter).cut(&mut batch)? {
                    Some(next) => next,
                    None => return Ok(()),
                },
            };
            self.take(this, batch.read(&mut reader));
        }
    }

    fn take(&self, number: u64, reads: Reads) {
        let mut order = locked(&self.order);
        order.waiting.insert(number, reads);
        let before = order.next;
        order.advance();
        if order.next > before {
            self.moved.notify_all();
        }
        // Who holds the next batch does not wait here, so there will be an end of it.
        while order.waiting.len() > self.room && !order.stopped {
            order = self
                .moved
                .wait(order)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<F: FnMut(&TurnRead, Place)> Order<F> {
    fn advance(&mut self) {
        while let Some(reads) = self.waiting.remove(&self.next) {
            for (read, place) in &reads {
                (self.take)(read, *place);
            }
            self.next += 1;
        }
    }
}

/// Lets nobody wait for a thread that panicked.
struct StopOnPanic<'w, 'p, S, F>(&'w Work<'p, S, F>);

impl<S, F> Drop for StopOnPanic<'_, '_, S, F> {
    fn drop(&mut self) {
        if thread::panicking() {
            locked(&self.0.order).stopped = true;
            self.0.moved.notify_all();
        }
    }
}

/// A panic elsewhere ends the whole run with an error; what a lock guards is not used after it.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes batches of what comes from the source.
struct Cutter<'p, S> {
    source: S,
    progress: &'p (dyn Fn(u64) + Sync),
    /// Gone at the end, and after a failure.
    splitter: Option<Splitter>,
    chunk: Vec<u8>,
    /// How much of the chunk is cut.
    cut: usize,
    next: u64,
    end: Option<End>,
}

impl<'p, S: Source> Cutter<'p, S> {
    fn new(source: S, container: Container, progress: &'p (dyn Fn(u64) + Sync)) -> Self {
        Self {
            source,
            progress,
            splitter: Some(Splitter::new(container)),
            chunk: Vec::new(),
            cut: 0,
            next: 0,
            end: None,
        }
    }

    /// Replaces `batch` by the next one and returns its number; `None` at the end.
    fn cut(&mut self, batch: &mut Batch) -> Result<Option<u64>, Error> {
        batch.clear();
        let Some(mut splitter) = self.splitter.take() else {
            return Ok(None);
        };
        while !batch.is_full() {
            let rest = self.chunk.get(self.cut..).unwrap_or_default();
            if let Some(piece) = rest.chunks(CUT_BYTES).next() {
                splitter.push(piece, &mut |piece, place| batch.add(piece, place));
                self.cut += piece.len();
                continue;
            }
            self.source.next_chunk(&mut self.chunk)?;
            self.cut = 0;
            if self.chunk.is_empty() {
                self.end = Some(splitter.finish(&mut |piece, place| batch.add(piece, place)));
                return Ok(Some(self.next));
            }
            (self.progress)(self.chunk.len() as u64);
        }
        self.splitter = Some(splitter);
        self.next += 1;
        Ok(Some(self.next - 1))
    }
}

/// Turns as they stand in the file, one after the other.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    pieces: Vec<(Range<usize>, Place)>,
}

impl Batch {
    fn add(&mut self, piece: &[u8], place: Place) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(piece);
        self.pieces.push((from..self.bytes.len(), place));
    }

    fn is_full(&self) -> bool {
        self.bytes.len() >= BATCH_BYTES || self.pieces.len() >= BATCH_TURNS
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(4 * BATCH_BYTES);
        self.pieces.clear();
    }

    fn read(&self, reader: &mut TurnReader) -> Reads {
        let piece = |range: &Range<usize>| self.bytes.get(range.clone()).unwrap_or_default();
        self.pieces
            .iter()
            .map(|(range, place)| (reader.read(piece(range)), *place))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::Stream;

    fn small(container: Container, turns: usize) -> Vec<u8> {
        let (open, turn, close): (&[u8], &[u8], &[u8]) = match container {
            Container::Array => (b"[1", b",1", b"]"),
            Container::Lines => (b"1\n", b"1\n", b""),
            Container::Sequence => (b"\x01", b"\x01", b""),
        };
        [open, &turn.repeat(turns - 1), close].concat()
    }

    const ALL: [Container; 3] = [Container::Array, Container::Lines, Container::Sequence];

    #[test]
    fn a_file_of_the_smallest_turns_is_cut_into_small_batches() {
        for container in ALL {
            let bytes = small(container, 200_000);
            let mut cutter = Cutter::new(Stream::new(&bytes[..], "bytes"), container, &|_| {});
            let (mut batch, mut all, mut batches) = (Batch::default(), 0, 0);
            while let Some(number) = cutter.cut(&mut batch).unwrap() {
                assert_eq!(number, batches);
                assert!(
                    batch.pieces.len() <= BATCH_TURNS + CUT_BYTES,
                    "{container:?}"
                );
                all += batch.pieces.len();
                batches += 1;
            }
            assert_eq!(all, 200_000, "{container:?}");
            assert_eq!(cutter.end.unwrap().bytes, bytes.len() as u64);
        }
    }

    #[test]
    fn turns_are_taken_in_order_whoever_reads_them() {
        for container in ALL {
            let bytes = small(container, 300_000);
            let source = Stream::new(&bytes[..], "bytes");
            let mut places = Vec::new();
            let take = |_: &TurnRead, place: Place| places.push(place.from);
            let end = read_all(source, container, None, &|_| {}, take).unwrap();
            assert_eq!(places.len(), 300_000, "{container:?}");
            assert!(places.is_sorted_by(|a, b| a < b));
            assert_eq!((end.bytes, end.fault), (bytes.len() as u64, None));
        }
    }

    /// Fails behind so many chunks.
    struct Failing(usize);

    impl Source for Failing {
        fn next_chunk(&mut self, buffer: &mut Vec<u8>) -> Result<(), Error> {
            self.0 = self
                .0
                .checked_sub(1)
                .ok_or_else(|| Error::new(ErrorKind::External, "gone"))?;
            *buffer = small(Container::Lines, 50_000);
            Ok(())
        }
    }

    #[test]
    fn a_source_that_fails_ends_the_run_with_its_error() {
        for chunks in [0, 1, 2, 9] {
            let ended = read_all(Failing(chunks), Container::Lines, None, &|_| {}, |_, _| {});
            let error = ended.unwrap_err();
            assert!(error.to_string().contains("gone"), "{chunks}: {error}");
        }
    }

    #[test]
    fn a_thread_that_breaks_off_is_an_error_and_keeps_nobody_waiting() {
        let cutter = Cutter::new(Failing(usize::MAX), Container::Lines, &|_| {});
        let work = Work {
            cutter: Mutex::new(cutter),
            order: Mutex::new(Order {
                next: 0,
                waiting: (1..9).map(|number| (number, Vec::new())).collect(),
                stopped: false,
                take: |_: &TurnRead, _: Place| {},
            }),
            moved: Condvar::new(),
            room: 1,
        };
        thread::scope(|scope| {
            let waits = scope.spawn(|| work.take(9, Vec::new()));
            let breaks = scope.spawn(|| {
                let _stop = StopOnPanic(&work);
                std::panic::resume_unwind(Box::new(()));
            });
            assert!(breaks.join().is_err());
            assert!(waits.join().is_ok());
        });
    }
}
