//! Pieces of a stream, gathered in order and read on all cores.
//!
//! ```text
//! source ─► cut, in order ─► Batch ─┬─ read ─┬─► join, in order
//!                                   └─ read ─┘
//! ```
//! What a piece shows by itself is a function of its bytes, so it may be found anywhere; only
//! cutting and joining need the order. A batch holds [`BATCH_BYTES`] or one piece.

use std::ops::Range;
use std::thread;

/// Bytes of pieces that are read at once, unless one piece alone has more.
const BATCH_BYTES: usize = 2 << 20;
/// Pieces that are read at once: what is known of a piece is larger than the smallest piece.
pub(crate) const BATCH_PIECES: usize = 16 << 10;
/// Below so many bytes a second thread costs more than it brings.
const BYTES_A_THREAD: usize = 64 << 10;
/// So many bytes should be cut before it is asked again whether a batch is full.
pub(crate) const CUT_BYTES: usize = 64 << 10;

/// Pieces one after the other, each with where it lies.
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

impl<P: Copy + Sync> Batch<P> {
    /// Takes the next piece.
    pub(crate) fn add(&mut self, piece: &[u8], place: P) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(piece);
        self.pieces.push((from..self.bytes.len(), place));
    }

    /// Is it time to read?
    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() >= BATCH_BYTES || self.pieces.len() >= BATCH_PIECES
    }

    /// Makes room for the next pieces.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(2 * BATCH_BYTES);
        self.pieces.clear();
    }

    /// The pieces in order.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = (&[u8], P)> {
        let piece = |(range, place): &(Range<usize>, P)| (self.piece(range), *place);
        self.pieces.iter().map(piece)
    }

    /// Reads all pieces, on as many cores as they are worth; each core makes a reader of its own.
    pub(crate) fn read<R: Send, F: FnMut(&[u8]) -> R>(
        &self,
        reader: impl Fn() -> F + Sync,
    ) -> Vec<R> {
        let some = |pieces: &[(Range<usize>, P)]| -> Vec<R> {
            let mut read = reader();
            let read = pieces.iter().map(|(range, _)| read(self.piece(range)));
            read.collect()
        };
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let threads = cores.min(self.bytes.len() / BYTES_A_THREAD);
        if threads < 2 {
            return some(&self.pieces);
        }
        let share = self.pieces.len().div_ceil(threads).max(1);
        thread::scope(|scope| {
            let mut shares = self.pieces.chunks(share);
            let own = shares.next().unwrap_or_default();
            let others: Vec<_> = shares
                .map(|pieces| (pieces, scope.spawn(|| some(pieces))))
                .collect();
            let mut reads = some(own);
            for (pieces, other) in others {
                // A panic there would be one here as well; it is this thread's to have.
                reads.extend(other.join().unwrap_or_else(|_| some(pieces)));
            }
            reads
        })
    }

    fn piece(&self, range: &Range<usize>) -> &[u8] {
        self.bytes.get(range.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_many_threads_read_comes_back_in_order() {
        let mut batch = Batch::default();
        for number in 0..10_000_usize {
            batch.add(&vec![b'x'; number % 97], number);
        }
        let reads = batch.read(|| |piece: &[u8]| piece.len());
        let expected: Vec<_> = (0..10_000).map(|number| number % 97).collect();
        assert_eq!(reads, expected);
        assert!(batch.pieces().map(|(_, place)| place).eq(0..10_000));
        assert!(!batch.is_full());
        batch.add(&vec![b'x'; BATCH_BYTES], 0);
        assert!(batch.is_full());
        batch.clear();
        assert!(batch.read(|| |piece: &[u8]| piece.len()).is_empty());
    }
}
