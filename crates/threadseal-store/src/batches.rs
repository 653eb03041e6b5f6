//! Pieces of a stream: cut one after the other, read on all cores, taken in order.
//!
//! ```text
//! each thread, again and again
//!   cut    one thread at a time   source ─► batch n of pieces
//!   read   all threads at once    batch n ─► a result for each piece
//!   take   in order               once batches 0 to n-1 were taken
//! ```
//! The result of reading a piece is a function of its bytes, so any thread may compute it. Only
//! cutting and taking need the order. A thread waits for another only when that one is late: a few
//! read batches wait for their turn. So the number of cores bounds the memory, whatever the length
//! of the stream.

use crate::read::Source;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use threadseal_core::error::{Error, ErrorKind};

/// Bytes of pieces that are read at once, unless one piece alone has more.
const BATCH_BYTES: usize = 64 << 10;
/// Pieces that are read at once: the result of a piece is larger than the smallest piece.
const BATCH_PIECES: usize = 2 << 10;
/// Bytes to cut between two checks of the number of pieces.
const CUT_BYTES: usize = 16 << 10;

/// The source of batches.
pub(crate) trait Pieces<P> {
    /// Adds the next pieces to an empty batch until it is full; true when these were the last.
    ///
    /// # Errors
    /// Those of the source; then it is not called again.
    fn fill(&mut self, batch: &mut Batch<P>) -> Result<bool, Error>;
}

/// Cuts bytes into pieces.
pub(crate) trait Cut {
    /// The place of a piece in the stream.
    type Place;
    /// The result at the end of the stream.
    type End;

    /// Takes the next bytes, and hands over each piece that ends in them.
    fn push(&mut self, bytes: &[u8], each: &mut dyn FnMut(&[u8], Self::Place));

    /// Hands over the remaining pieces.
    fn finish(self, each: &mut dyn FnMut(&[u8], Self::Place)) -> Self::End;
}

/// Hands over the result of each piece, with its bytes and its place, in order. Each thread makes
/// its own reader.
///
/// # Errors
/// Those of `pieces`.
pub(crate) fn read_all<P, R, F>(
    pieces: &mut (impl Pieces<P> + Send),
    reader: impl Fn() -> F + Sync,
    take: impl FnMut(&R, &[u8], P) + Send,
) -> Result<(), Error>
where
    P: Copy + Send,
    R: Send,
    F: FnMut(&[u8]) -> R,
{
    let mut first = Batch::default();
    let ended = pieces.fill(&mut first)?;
    let cores = match ended {
        // One batch is all there is.
        true => 1,
        false => thread::available_parallelism().map_or(1, usize::from),
    };
    let work = Work {
        line: Mutex::new(Line {
            pieces,
            next: 1,
            ended,
        }),
        order: Mutex::new(Order {
            next: 0,
            waiting: BTreeMap::new(),
            free: Vec::new(),
            stopped: false,
            take: Some(take),
        }),
        moved: Condvar::new(),
        room: cores,
    };
    thread::scope(|scope| {
        let others: Vec<_> = (1..cores)
            .map(|_| scope.spawn(|| work.run(reader(), None)))
            .collect();
        let mut done = work.run(reader(), Some(first));
        for other in others {
            done = done.and(other.join().unwrap_or_else(|_| Err(broken())));
        }
        done
    })
}

struct Work<'p, S, P, R, F> {
    line: Mutex<Line<'p, S>>,
    order: Mutex<Order<P, R, F>>,
    /// Batches were taken, or a thread broke off.
    moved: Condvar,
    /// Batches that may wait for their turn before a thread does.
    room: usize,
}

/// The state of the thread that cuts next.
struct Line<'p, S> {
    pieces: &'p mut S,
    next: u64,
    ended: bool,
}

/// Batches that were read, until all before them were taken.
struct Order<P, R, F> {
    next: u64,
    waiting: BTreeMap<u64, (Batch<P>, Vec<R>)>,
    /// Batches that were taken, to be filled again.
    free: Vec<Batch<P>>,
    stopped: bool,
    /// Not here while a thread takes.
    take: Option<F>,
}

impl<S: Pieces<P>, P: Copy, R, F: FnMut(&R, &[u8], P)> Work<'_, S, P, R, F> {
    /// Cuts and reads until the source ends, beginning with batch 0 where that is given.
    fn run(
        &self,
        mut read: impl FnMut(&[u8]) -> R,
        mut first: Option<Batch<P>>,
    ) -> Result<(), Error> {
        let _stop = StopOnPanic(self);
        loop {
            let (number, batch) = match first.take() {
                Some(batch) => (0, batch),
                None => match self.cut()? {
                    Some(cut) => cut,
                    None => return Ok(()),
                },
            };
            let reads = batch.pieces().map(|(piece, _)| read(piece)).collect();
            self.take(number, batch, reads)?;
        }
    }

    fn cut(&self) -> Result<Option<(u64, Batch<P>)>, Error> {
        let mut batch = locked(&self.order).free.pop().unwrap_or_default();
        let mut line = locked(&self.line);
        if line.ended {
            return Ok(None);
        }
        // No thread calls `fill` again after a failure.
        line.ended = true;
        line.ended = line.pieces.fill(&mut batch)?;
        line.next += 1;
        Ok(Some((line.next - 1, batch)))
    }

    /// Takes the next batch and all later ones that were read meanwhile, unless another thread does
    /// it.
    fn take(&self, number: u64, batch: Batch<P>, reads: Vec<R>) -> Result<(), Error> {
        let mut order = locked(&self.order);
        order.waiting.insert(number, (batch, reads));
        let mut taken = order.next();
        while let Some((mut take, mut batch, reads)) = taken {
            drop(order);
            for (read, (piece, place)) in reads.iter().zip(batch.pieces()) {
                take(read, piece, place);
            }
            batch.clear();
            order = locked(&self.order);
            order.next += 1;
            order.free.push(batch);
            order.take = Some(take);
            self.moved.notify_all();
            taken = order.next();
        }
        // The thread that reads the next batch and the one that takes do not wait here, so the wait
        // ends.
        while order.waiting.len() > self.room && !order.stopped {
            order = self
                .moved
                .wait(order)
                .unwrap_or_else(PoisonError::into_inner);
        }
        match order.stopped {
            false => Ok(()),
            true => Err(broken()),
        }
    }
}

impl<P, R, F> Order<P, R, F> {
    /// The next batch and the function that takes it, if both are there.
    fn next(&mut self) -> Option<(F, Batch<P>, Vec<R>)> {
        self.take.as_ref()?;
        let (batch, reads) = self.waiting.remove(&self.next)?;
        Some((self.take.take()?, batch, reads))
    }
}

fn broken() -> Error {
    Error::new(ErrorKind::External, "a reading thread failed")
}

/// Ends the wait of the other threads when this one panics.
struct StopOnPanic<'w, 'p, S, P, R, F>(&'w Work<'p, S, P, R, F>);

impl<S, P, R, F> Drop for StopOnPanic<'_, '_, S, P, R, F> {
    fn drop(&mut self) {
        if thread::panicking() {
            locked(&self.0.order).stopped = true;
            self.0.moved.notify_all();
        }
    }
}

/// A panic elsewhere ends the whole run with an error; the guarded value is not used after it.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Pieces of a source of bytes.
pub(crate) struct Cutter<'p, S, C: Cut> {
    source: S,
    progress: &'p (dyn Fn(u64) + Sync),
    /// Gone at the end, and after a failure.
    splitter: Option<C>,
    chunk: Vec<u8>,
    /// How much of the chunk is cut.
    cut: usize,
    end: Option<C::End>,
}

impl<'p, S: Source, C: Cut> Cutter<'p, S, C> {
    /// `progress` gets the length of every chunk.
    pub(crate) fn new(source: S, splitter: C, progress: &'p (dyn Fn(u64) + Sync)) -> Self {
        Self {
            source,
            progress,
            splitter: Some(splitter),
            chunk: Vec::new(),
            cut: 0,
            end: None,
        }
    }

    /// The splitter's result at the end of the stream.
    ///
    /// # Errors
    /// Kind `External` when the end was not reached.
    pub(crate) fn end(self) -> Result<C::End, Error> {
        let unread = || Error::new(ErrorKind::External, "it was not read to its end");
        self.end.ok_or_else(unread)
    }
}

impl<S: Source, C: Cut> Pieces<C::Place> for Cutter<'_, S, C> {
    fn fill(&mut self, batch: &mut Batch<C::Place>) -> Result<bool, Error> {
        let Some(mut splitter) = self.splitter.take() else {
            return Ok(true);
        };
        while !batch.is_full() {
            let rest = self.chunk.get(self.cut..).unwrap_or_default();
            if let Some(bytes) = rest.chunks(CUT_BYTES).next() {
                splitter.push(bytes, &mut |piece, place| batch.add(piece, place));
                self.cut += bytes.len();
                continue;
            }
            self.source.next_chunk(&mut self.chunk)?;
            self.cut = 0;
            if self.chunk.is_empty() {
                self.end = Some(splitter.finish(&mut |piece, place| batch.add(piece, place)));
                return Ok(true);
            }
            (self.progress)(self.chunk.len() as u64);
        }
        self.splitter = Some(splitter);
        Ok(false)
    }
}

/// Pieces one after the other, each with its place.
#[derive(Debug)]
pub(crate) struct Batch<P> {
    bytes: Vec<u8>,
    pieces: Vec<(Range<usize>, P)>,
}

impl<P> Default for Batch<P> {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            pieces: Vec::new(),
        }
    }
}

impl<P> Batch<P> {
    pub(crate) fn add(&mut self, piece: &[u8], place: P) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(piece);
        self.pieces.push((from..self.bytes.len(), place));
    }

    /// Is it time to read?
    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() >= BATCH_BYTES || self.pieces.len() >= BATCH_PIECES
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(4 * BATCH_BYTES);
        self.pieces.clear();
    }
}

impl<P: Copy> Batch<P> {
    fn pieces(&self) -> impl Iterator<Item = (&[u8], P)> {
        let piece = |range: &Range<usize>| self.bytes.get(range.clone()).unwrap_or_default();
        self.pieces
            .iter()
            .map(move |(range, place)| (piece(range), *place))
    }
}

#[cfg(test)]
mod tests;
