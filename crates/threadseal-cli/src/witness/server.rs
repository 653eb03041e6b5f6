//! Connections: each has a thread, one of a bounded number of places, and a time limit for each
//! request.

use super::http::{Connection, Response, Unread};
use super::service::Service;
use crate::exit::{Failure, complain};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use threadseal_store::clock::{Clock as _, SystemClock};

/// Connections at one time.
const MAX_CONNECTIONS: usize = 128;
/// For a whole request, and for the wait for the next one.
const MAX_REQUEST_TIME: Duration = Duration::from_secs(30);
/// For the client to take one answer.
const MAX_WRITE_TIME: Duration = Duration::from_secs(10);
/// For the rest of a refused request, and the most bytes that are read of it.
const MAX_LEFT_TIME: Duration = Duration::from_secs(2);
const MAX_LEFT_BYTES: usize = 1 << 20;
/// For requests in progress when the witness must end.
const MAX_LAST_TIME: Duration = Duration::from_secs(5);
/// The time between two checks of the end flag.
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Debug, Default)]
struct Counts {
    connections: AtomicUsize,
    answering: AtomicUsize,
}

/// Counts one while it lives.
struct Counted<'c>(&'c AtomicUsize);

impl<'c> Counted<'c> {
    fn one(count: &'c AtomicUsize) -> (Self, usize) {
        let before = count.fetch_add(1, Ordering::SeqCst);
        (Self(count), before)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Answers until `end` is set; requests in progress are still answered.
///
/// # Errors
/// When no thread can be started.
pub(crate) fn serve(
    listener: TcpListener,
    service: Service,
    end: &Arc<AtomicBool>,
) -> Result<(), Failure> {
    let counts = Arc::<Counts>::default();
    let accepting = {
        let (counts, end, service) = (Arc::clone(&counts), Arc::clone(end), Arc::new(service));
        thread::Builder::new()
            .name("accept".to_owned())
            .spawn(move || accept(&listener, &service, &counts, &end))
    };
    accepting.map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
    while !end.load(Ordering::SeqCst) {
        thread::sleep(PAUSE);
    }
    let since = SystemClock.elapsed();
    let in_time = || SystemClock.elapsed() < since + MAX_LAST_TIME;
    while counts.answering.load(Ordering::SeqCst) > 0 && in_time() {
        thread::sleep(PAUSE);
    }
    Ok(())
}

fn accept(
    listener: &TcpListener,
    service: &Arc<Service>,
    counts: &Arc<Counts>,
    end: &Arc<AtomicBool>,
) {
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Too many open files, or a client that left before its connection was accepted.
                complain(&format!("no connection can be taken: {error}"));
                thread::sleep(PAUSE);
                continue;
            }
        };
        let (service, counts, end) = (Arc::clone(service), Arc::clone(counts), Arc::clone(end));
        let spawned = thread::Builder::new()
            .name("connection".to_owned())
            .spawn(move || {
                let (_counted, others) = Counted::one(&counts.connections);
                // A client that left needs no answer.
                let _ = converse(stream, others, &service, &counts, &end);
            });
        if let Err(error) = spawned {
            complain(&format!("cannot start a thread: {error}"));
        }
    }
}

fn converse(
    stream: TcpStream,
    others: usize,
    service: &Service,
    counts: &Counts,
    end: &AtomicBool,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(MAX_WRITE_TIME))?;
    let mut connection = Connection::new(Timed {
        stream,
        until: Duration::ZERO,
    });
    if others >= MAX_CONNECTIONS {
        let busy = Response::text(503, "too many connections; ask again later\n");
        return refuse(connection.stream(), &busy);
    }
    loop {
        connection.stream().until = SystemClock.elapsed() + MAX_REQUEST_TIME;
        let request = match connection.read() {
            Ok(request) => request,
            Err(Unread::Gone) => return Ok(()),
            Err(Unread::Refused(response)) => {
                return refuse(connection.stream(), &response);
            }
        };
        let _answering = Counted::one(&counts.answering);
        let keep = request.keep && !end.load(Ordering::SeqCst);
        let with_body = request.method != "HEAD";
        let response = service.answer(&request);
        response.write(connection.stream(), with_body, keep)?;
        if !keep {
            return Ok(());
        }
    }
}

/// Answers, and reads the rest of the request for a moment: an immediate close would lose the
/// answer as well (RFC 9112 §9.6).
fn refuse(timed: &mut Timed, response: &Response) -> io::Result<()> {
    response.write(timed, true, false)?;
    timed.stream.shutdown(Shutdown::Write)?;
    timed.until = SystemClock.elapsed() + MAX_LEFT_TIME;
    let (mut left, mut piece) = (MAX_LEFT_BYTES, [0; 8 << 10]);
    while left > 0 {
        match timed.read(&mut piece)? {
            0 => break,
            read => left = left.saturating_sub(read),
        }
    }
    Ok(())
}

/// A stream with a deadline for all reads, however slowly the bytes arrive.
#[derive(Debug)]
struct Timed {
    stream: TcpStream,
    until: Duration,
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_sub(SystemClock.elapsed());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(buffer)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
