//! Order, bounds, failures and panics, on pieces that are one byte each.

use super::*;
use crate::read::Stream;

/// Each byte is a piece; its place is its number, and the end is their count.
#[derive(Default)]
struct Bytes(u64);

impl Cut for Bytes {
    type Place = u64;
    type End = u64;

    fn push(&mut self, bytes: &[u8], each: &mut dyn FnMut(&[u8], u64)) {
        for byte in bytes {
            each(&[*byte], self.0);
            self.0 += 1;
        }
    }

    fn finish(self, _: &mut dyn FnMut(&[u8], u64)) -> u64 {
        self.0
    }
}

fn cutter<S: Source>(source: S) -> Cutter<'static, S, Bytes> {
    Cutter::new(source, Bytes::default(), &|_| {})
}

// T-SCR-18
#[test]
fn the_smallest_pieces_are_cut_into_small_batches() {
    let bytes = vec![b'x'; 200_000];
    let mut cutter = cutter(Stream::new(&bytes[..], "bytes"));
    let mut all = 0;
    loop {
        let mut batch = Batch::default();
        let ended = cutter.fill(&mut batch).unwrap();
        assert!(batch.pieces.len() <= BATCH_PIECES + CUT_BYTES);
        all += batch.pieces.len();
        if ended {
            break;
        }
    }
    assert_eq!(all, bytes.len());
    assert!(cutter.fill(&mut Batch::default()).unwrap());
    assert_eq!(cutter.end().unwrap(), bytes.len() as u64);
}

#[test]
fn pieces_are_taken_in_order_whoever_reads_them() {
    for count in [0, 1, 300_000] {
        let bytes: Vec<u8> = (0..count).map(|at: u32| at.to_le_bytes()[0]).collect();
        let mut cutter = cutter(Stream::new(&bytes[..], "bytes"));
        let mut places = Vec::new();
        let take = |read: &u8, piece: &[u8], place: u64| {
            assert_eq!(piece, [read.wrapping_sub(1)]);
            places.push(place);
        };
        read_all(
            &mut cutter,
            || |piece: &[u8]| piece[0].wrapping_add(1),
            take,
        )
        .unwrap();
        assert!(places.iter().copied().eq(0..u64::from(count)));
        assert_eq!(cutter.end().unwrap(), u64::from(count));
    }
}

/// Fails after so many chunks.
struct Failing(usize);

impl Source for Failing {
    fn next_chunk(&mut self, buffer: &mut Vec<u8>) -> Result<(), Error> {
        self.0 = self
            .0
            .checked_sub(1)
            .ok_or_else(|| Error::new(ErrorKind::External, "gone"))?;
        *buffer = vec![b'x'; 50_000];
        Ok(())
    }
}

#[test]
fn a_source_that_fails_ends_the_run_with_its_error() {
    for chunks in [0, 1, 2, 9] {
        let mut cutter = cutter(Failing(chunks));
        let ended = read_all(&mut cutter, || |_: &[u8]| (), |_, _, _| {});
        let error = ended.unwrap_err();
        assert!(error.to_string().contains("gone"), "{chunks}: {error}");
        assert!(cutter.end().is_err());
    }
}

#[test]
fn a_thread_that_breaks_off_is_an_error_and_keeps_nobody_waiting() {
    let mut pieces = cutter(Failing(usize::MAX));
    let waiting = (1..9).map(|number| (number, (Batch::default(), Vec::<()>::new())));
    let work = Work {
        line: Mutex::new(Line {
            pieces: &mut pieces,
            next: 9,
            ended: false,
        }),
        order: Mutex::new(Order {
            next: 0,
            waiting: waiting.collect(),
            free: Vec::new(),
            stopped: false,
            take: Some(|_: &(), _: &[u8], _: u64| {}),
        }),
        moved: Condvar::new(),
        room: 1,
    };
    thread::scope(|scope| {
        let waits = scope.spawn(|| work.take(9, Batch::default(), Vec::new()));
        let breaks = scope.spawn(|| {
            let _stop = StopOnPanic(&work);
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(breaks.join().is_err());
        assert!(waits.join().unwrap().is_err());
    });
}
