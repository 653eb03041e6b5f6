//! Two stages over one stream of bytes, each on a thread of its own.
//!
//! ```text
//! source ──chunk──▶ stage A ──chunk + findings of A──▶ stage B
//!    ▲                                                    │
//!    └─────────────────── empty buffers ──────────────────┘
//! ```
//! Stage A reads a chunk first and passes it on with its findings (for example, the places of
//! checkpoints in it). Stage B gets the same chunks in the same order. While B works on one chunk,
//! A works on later ones. Memory is constant: buffers are used again, and at most
//! [`MAX_BYTES_IN_FLIGHT`] bytes are held whatever the length of the stream. Either stage may end
//! the run early; a panic in a stage is an error here, not a crash.
//!
//! For many small inputs use [`run_inline`]: the same contract on the caller's thread.

use crate::read::{CHUNK_BYTES, Source};
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, ScopedJoinHandle};
use threadseal_core::error::{Error, ErrorKind};

/// Chunks that wait between two threads.
const QUEUE_CHUNKS: usize = 4;
/// Most bytes of the stream held at once: two full queues, one chunk in each thread's hands.
pub const MAX_BYTES_IN_FLIGHT: usize = (2 * QUEUE_CHUNKS + 3) * CHUNK_BYTES;

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The stream was read to its end and both stages saw all of it.
    AtEnd,
    /// A stage broke off; stage B saw every chunk that stage A handed on, unless B broke off.
    Early,
}

/// A piece of the stream.
#[derive(Debug, Clone, Copy)]
pub struct Chunk<'b> {
    /// Its offset in the stream, in bytes.
    pub offset: u64,
    /// Its bytes, never empty.
    pub bytes: &'b [u8],
}

/// Runs `source` through both stages. `stage_a` ends the run by returning `Break`; that chunk is
/// still handed to `stage_b`.
///
/// # Errors
/// Those of the source, or [`ErrorKind::External`] when a stage panics.
pub fn run<S, A, B, D>(source: S, stage_a: A, stage_b: B) -> Result<Ended, Error>
where
    S: Source + Send,
    D: Send,
    A: FnMut(Chunk<'_>) -> ControlFlow<D, D> + Send,
    B: FnMut(Chunk<'_>, D) -> ControlFlow<()> + Send,
{
    let (to_a, from_source) = sync_channel(QUEUE_CHUNKS);
    let (to_b, from_a) = sync_channel(QUEUE_CHUNKS);
    let (to_source, empty) = channel();
    thread::scope(|scope| {
        let a = scope.spawn(move || drive_a(stage_a, &from_source, &to_b));
        let b = scope.spawn(move || drive_b(stage_b, &from_a, &to_source));
        let read = feed(source, &to_a, &empty);
        drop(to_a);
        let ended = [joined(a)?, joined(b)?];
        read?;
        Ok(if ended.contains(&Ended::Early) {
            Ended::Early
        } else {
            Ended::AtEnd
        })
    })
}

/// As [`run`], on the caller's thread; a panic in a stage is the caller's.
///
/// # Errors
/// Those of the source.
pub fn run_inline<S, A, B, D>(mut source: S, mut stage_a: A, mut stage_b: B) -> Result<Ended, Error>
where
    S: Source,
    A: FnMut(Chunk<'_>) -> ControlFlow<D, D>,
    B: FnMut(Chunk<'_>, D) -> ControlFlow<()>,
{
    let mut buffer = Vec::new();
    let mut offset = 0;
    loop {
        source.next_chunk(&mut buffer)?;
        if buffer.is_empty() {
            return Ok(Ended::AtEnd);
        }
        let chunk = Chunk {
            offset,
            bytes: &buffer,
        };
        let (found, a_breaks) = match stage_a(chunk) {
            ControlFlow::Continue(found) => (found, false),
            ControlFlow::Break(found) => (found, true),
        };
        if stage_b(chunk, found).is_break() || a_breaks {
            return Ok(Ended::Early);
        }
        offset += buffer.len() as u64;
    }
}

struct Piece {
    offset: u64,
    bytes: Vec<u8>,
}

impl Piece {
    fn chunk(&self) -> Chunk<'_> {
        Chunk {
            offset: self.offset,
            bytes: &self.bytes,
        }
    }
}

/// Reads until the end or until stage A takes no more (it broke off, or B did).
fn feed(
    mut source: impl Source,
    to_a: &SyncSender<Piece>,
    empty: &Receiver<Vec<u8>>,
) -> Result<(), Error> {
    let mut offset = 0;
    loop {
        let mut bytes = empty
            .try_recv()
            .unwrap_or_else(|_| Vec::with_capacity(CHUNK_BYTES));
        source.next_chunk(&mut bytes)?;
        if bytes.is_empty() {
            return Ok(());
        }
        let length = bytes.len() as u64;
        if to_a.send(Piece { offset, bytes }).is_err() {
            return Ok(());
        }
        offset += length;
    }
}

fn drive_a<D>(
    mut stage: impl FnMut(Chunk<'_>) -> ControlFlow<D, D>,
    pieces: &Receiver<Piece>,
    to_b: &SyncSender<(Piece, D)>,
) -> Ended {
    for piece in pieces {
        let (found, breaks) = match stage(piece.chunk()) {
            ControlFlow::Continue(found) => (found, false),
            ControlFlow::Break(found) => (found, true),
        };
        if to_b.send((piece, found)).is_err() || breaks {
            return Ended::Early;
        }
    }
    Ended::AtEnd
}

fn drive_b<D>(
    mut stage: impl FnMut(Chunk<'_>, D) -> ControlFlow<()>,
    pieces: &Receiver<(Piece, D)>,
    to_source: &Sender<Vec<u8>>,
) -> Ended {
    for (piece, found) in pieces {
        if stage(piece.chunk(), found).is_break() {
            return Ended::Early;
        }
        // The source may have read its last byte already and want no more buffers.
        let _ = to_source.send(piece.bytes);
    }
    Ended::AtEnd
}

fn joined(stage: ScopedJoinHandle<'_, Ended>) -> Result<Ended, Error> {
    stage.join().map_err(|_| {
        Error::new(
            ErrorKind::External,
            "a stage of the pipeline panicked; this is a defect of the program, not of the record",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::Stream;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn bytes(size: usize) -> Vec<u8> {
        (0..size).map(|i| (i % 253).to_le_bytes()[0]).collect()
    }

    /// Hands out `left` chunks and counts them.
    struct Counted<'c> {
        left: usize,
        read: &'c AtomicUsize,
    }

    impl Source for Counted<'_> {
        fn next_chunk(&mut self, buffer: &mut Vec<u8>) -> Result<(), Error> {
            buffer.clear();
            if self.left > 0 {
                self.left -= 1;
                buffer.resize(CHUNK_BYTES, 7);
                self.read.fetch_add(1, Ordering::SeqCst);
            }
            Ok(())
        }
    }

    #[test]
    fn both_stages_see_every_byte_in_order_with_what_a_found() {
        for size in [0, 1, CHUNK_BYTES, 40 * CHUNK_BYTES + 17] {
            let input = bytes(size);
            let collect = |threads: bool| {
                let (mut a, mut b, mut counts) = (Vec::new(), Vec::new(), Vec::new());
                let source = Stream::new(&input[..], "input");
                let stage_a = |chunk: Chunk<'_>| {
                    assert_eq!(chunk.offset, a.len() as u64);
                    a.extend_from_slice(chunk.bytes);
                    ControlFlow::Continue(chunk.bytes.len())
                };
                let stage_b = |chunk: Chunk<'_>, count: usize| {
                    assert_eq!(chunk.offset, b.len() as u64);
                    b.extend_from_slice(chunk.bytes);
                    counts.push(count);
                    ControlFlow::Continue(())
                };
                let ended = if threads {
                    run(source, stage_a, stage_b)
                } else {
                    run_inline(source, stage_a, stage_b)
                };
                assert_eq!(ended, Ok(Ended::AtEnd));
                assert_eq!(counts.iter().sum::<usize>(), size);
                (a, b)
            };
            for threads in [true, false] {
                let (a, b) = collect(threads);
                assert!(a == input && b == input, "{size} bytes");
            }
        }
    }

    #[test]
    fn a_break_of_a_still_hands_its_last_chunk_to_b() {
        let read = AtomicUsize::new(0);
        let mut seen = Vec::new();
        let source = Counted {
            left: 1000,
            read: &read,
        };
        let ended = run(
            source,
            |chunk| match chunk.offset / CHUNK_BYTES as u64 {
                2 => ControlFlow::Break(2),
                number => ControlFlow::Continue(number),
            },
            |_, number| {
                seen.push(number);
                ControlFlow::Continue(())
            },
        );
        assert_eq!(ended, Ok(Ended::Early));
        assert_eq!(seen, [0, 1, 2]);
        assert!(read.load(Ordering::SeqCst) < 20);
    }

    #[test]
    fn a_break_of_b_stops_the_source_and_stage_a() {
        let read = AtomicUsize::new(0);
        let source = Counted {
            left: 1000,
            read: &read,
        };
        let ended = run(
            source,
            |_| ControlFlow::Continue(()),
            |_, ()| ControlFlow::Break(()),
        );
        assert_eq!(ended, Ok(Ended::Early));
        assert!(read.load(Ordering::SeqCst) < 20);
    }

    #[test]
    fn a_slow_stage_b_bounds_what_is_read_ahead() {
        let read = AtomicUsize::new(0);
        let mut done = 0;
        let mut ahead_max = 0;
        let source = Counted {
            left: 100,
            read: &read,
        };
        run(
            source,
            |_| ControlFlow::Continue(()),
            |_, ()| {
                thread::sleep(std::time::Duration::from_millis(1));
                ahead_max = ahead_max.max(read.load(Ordering::SeqCst) - done);
                done += 1;
                ControlFlow::Continue(())
            },
        )
        .unwrap();
        assert_eq!(done, 100);
        assert!(
            ahead_max * CHUNK_BYTES <= MAX_BYTES_IN_FLIGHT,
            "{ahead_max}"
        );
        const { assert!(MAX_BYTES_IN_FLIGHT < 8 << 20) };
    }

    // T-CMD-14
    #[test]
    fn a_panic_or_a_failing_source_is_an_error_and_never_hangs() {
        let read = AtomicUsize::new(0);
        let source = || Counted {
            left: 1000,
            read: &read,
        };
        let a = run(
            source(),
            |_| -> ControlFlow<(), ()> { panic!("stage A, on purpose") },
            |_, ()| ControlFlow::Continue(()),
        );
        assert_eq!(a.unwrap_err().kind(), ErrorKind::External);
        let b = run(
            source(),
            |_| ControlFlow::Continue(()),
            |_, ()| panic!("stage B, on purpose"),
        );
        assert_eq!(b.unwrap_err().kind(), ErrorKind::External);

        struct Broken;
        impl Source for Broken {
            fn next_chunk(&mut self, _: &mut Vec<u8>) -> Result<(), Error> {
                Err(Error::invalid("broken source"))
            }
        }
        let c = run(
            Broken,
            |_| ControlFlow::Continue(()),
            |_, ()| ControlFlow::Continue(()),
        );
        assert_eq!(c.unwrap_err().to_string(), "broken source");
    }
}
