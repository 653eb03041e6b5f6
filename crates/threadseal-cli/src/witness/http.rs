//! One request of HTTP/1.1 and its answer (RFC 9110, RFC 9112), as far as a witness needs them.
//!
//! `httparse` reads the heads. A request that two readers could split in two ways is refused, and
//! its connection closed: two lengths, a length and chunks, another transfer coding.

use std::io::{self, Read, Write};
use threadseal_core::limits::MAX_WITNESS_BODY_BYTES;

/// Longest head of a request, and longest line of a chunk, in bytes.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// Most header fields of a request.
const MAX_HEADERS: usize = 64;
/// Most chunks of a body.
const MAX_CHUNKS: usize = 4096;
/// The number of bytes of one read.
const PIECE_BYTES: usize = 8 << 10;

const PLAIN: &str = "text/plain; charset=utf-8";

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: String,
    /// The target, unchanged.
    pub(super) path: String,
    pub(super) body: Vec<u8>,
    /// May another request follow on this connection?
    pub(super) keep: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) kind: &'static str,
    pub(super) body: Vec<u8>,
}

impl Response {
    /// A response with a text.
    pub(super) fn text(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            kind: PLAIN,
            body: body.into(),
        }
    }

    /// Writes it; an answer to HEAD has no body.
    pub(super) fn write(&self, to: &mut impl Write, with_body: bool, keep: bool) -> io::Result<()> {
        let connection = if keep { "keep-alive" } else { "close" };
        let mut bytes = format!(
            "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\nConnection: {connection}\r\n\r\n",
            self.status,
            reason(self.status),
            self.kind,
            self.body.len(),
        )
        .into_bytes();
        if with_body {
            bytes.extend_from_slice(&self.body);
        }
        to.write_all(&bytes)?;
        to.flush()
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        413 => "Content Too Large",
        417 => "Expectation Failed",
        422 => "Unprocessable Content",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    }
}

/// Why there is no request.
#[derive(Debug)]
pub(super) enum Unread {
    /// The client is gone, or sent nothing in time.
    Gone,
    /// It gets this answer, and the connection is closed.
    Refused(Response),
}

impl From<io::Error> for Unread {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

fn refused(status: u16, why: &str) -> Unread {
    Unread::Refused(Response::text(status, format!("{why}\n")))
}

/// How the request marks the end of its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunks,
}

/// A connection, and the bytes that were read after the last request.
#[derive(Debug)]
pub(super) struct Connection<S> {
    stream: S,
    buffer: Vec<u8>,
}

impl<S: Read + Write> Connection<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream,
            buffer: Vec::new(),
        }
    }

    pub(super) fn stream(&mut self) -> &mut S {
        &mut self.stream
    }

    /// The next request.
    pub(super) fn read(&mut self) -> Result<Request, Unread> {
        let (mut request, framing, expects) = loop {
            if let Some((head, length)) = parse_head(&self.buffer)? {
                self.buffer.drain(..length);
                break head;
            }
            if self.buffer.len() >= MAX_HEAD_BYTES {
                return Err(refused(431, "the head of the request is too long"));
            }
            self.more()?;
        };
        if expects {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        request.body = match framing {
            Framing::Length(length) => self.take(length)?,
            Framing::Chunks => self.chunks()?,
        };
        Ok(request)
    }

    fn more(&mut self) -> Result<(), Unread> {
        let mut piece = [0; PIECE_BYTES];
        match self.stream.read(&mut piece)? {
            0 => Err(Unread::Gone),
            read => {
                self.buffer.extend_from_slice(&piece[..read]);
                Ok(())
            }
        }
    }

    fn take(&mut self, length: usize) -> Result<Vec<u8>, Unread> {
        while self.buffer.len() < length {
            self.more()?;
        }
        let rest = self.buffer.split_off(length);
        Ok(std::mem::replace(&mut self.buffer, rest))
    }

    fn chunks(&mut self) -> Result<Vec<u8>, Unread> {
        let mut body = Vec::new();
        for _ in 0..MAX_CHUNKS {
            let size = self.chunk_size()?;
            if size == 0 {
                return self.trailer().map(|()| body);
            }
            let size = usize::try_from(size).unwrap_or(usize::MAX);
            if size > MAX_WITNESS_BODY_BYTES - body.len() {
                return Err(too_large());
            }
            body.extend(self.take(size)?);
            if self.take(2)? != b"\r\n" {
                return Err(refused(400, "a chunk is longer than it says"));
            }
        }
        Err(too_large())
    }

    fn chunk_size(&mut self) -> Result<u64, Unread> {
        loop {
            match httparse::parse_chunk_size(&self.buffer) {
                Ok(httparse::Status::Complete((length, size))) => {
                    self.buffer.drain(..length);
                    return Ok(size);
                }
                Ok(httparse::Status::Partial) if self.buffer.len() < MAX_HEAD_BYTES => {
                    self.more()?;
                }
                _ => return Err(refused(400, "a chunk has no size")),
            }
        }
    }

    /// Trailers have no meaning for a witness; none are accepted.
    fn trailer(&mut self) -> Result<(), Unread> {
        match self.take(2)?.as_slice() {
            b"\r\n" => Ok(()),
            _ => Err(refused(400, "trailers are not taken")),
        }
    }
}

fn too_large() -> Unread {
    refused(413, "the body is too long")
}

type Head = (Request, Framing, bool);

/// The head at the beginning of `bytes` and its length; None while it is incomplete.
fn parse_head(bytes: &[u8]) -> Result<Option<(Head, usize)>, Unread> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let length = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(refused(431, "the request has too many headers"));
        }
        Err(error) => return Err(refused(400, &format!("not a request: {error}"))),
    };
    if length > MAX_HEAD_BYTES {
        return Err(refused(431, "the head of the request is too long"));
    }
    let is_current = parsed.version == Some(1);
    let framing = framing(parsed.headers)?;
    let hosts = values(parsed.headers, "host").count();
    if hosts > 1 || (is_current && hosts == 0) {
        return Err(refused(400, "the request names no host, or more than one"));
    }
    let closes = |value: &[u8]| {
        value
            .to_ascii_lowercase()
            .windows(5)
            .any(|word| word == b"close")
    };
    let keep = is_current && !values(parsed.headers, "connection").any(closes);
    let mut expects = false;
    for value in values(parsed.headers, "expect") {
        if !value.eq_ignore_ascii_case(b"100-continue") {
            return Err(refused(417, "this is not expected of a witness"));
        }
        expects = is_current;
    }
    let request = Request {
        method: parsed.method.unwrap_or_default().to_owned(),
        path: parsed.path.unwrap_or_default().to_owned(),
        body: Vec::new(),
        keep,
    };
    Ok(Some(((request, framing, expects), length)))
}

fn values<'h>(
    headers: &'h [httparse::Header<'h>],
    name: &'static str,
) -> impl Iterator<Item = &'h [u8]> {
    let named = headers
        .iter()
        .filter(move |header| header.name.eq_ignore_ascii_case(name));
    named.map(|header| header.value)
}

fn framing(headers: &[httparse::Header<'_>]) -> Result<Framing, Unread> {
    let mut lengths = values(headers, "content-length");
    let mut codings = values(headers, "transfer-encoding");
    match (lengths.next(), codings.next()) {
        (None, None) => Ok(Framing::Length(0)),
        (Some(length), None) if lengths.next().is_none() => {
            let digits = !length.is_empty() && length.iter().all(u8::is_ascii_digit);
            let text = std::str::from_utf8(length).ok().filter(|_| digits);
            let text = text.ok_or_else(|| refused(400, "the length is no number"))?;
            match text.parse() {
                Ok(length) if length <= MAX_WITNESS_BODY_BYTES => Ok(Framing::Length(length)),
                _ => Err(too_large()),
            }
        }
        (None, Some(coding)) if codings.next().is_none() => {
            match coding.eq_ignore_ascii_case(b"chunked") {
                true => Ok(Framing::Chunks),
                false => Err(refused(501, "only chunks are known as a transfer coding")),
            }
        }
        _ => Err(refused(400, "the request has two lengths")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    /// A source that gives a fixed number of bytes at a time, and keeps the written bytes.
    struct Wire {
        bytes: Cursor<Vec<u8>>,
        step: usize,
        written: Vec<u8>,
    }

    impl Read for Wire {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let step = self.step.min(buffer.len());
            self.bytes.read(&mut buffer[..step])
        }
    }

    impl Write for Wire {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.written.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn wire(text: &str, step: usize) -> Connection<Wire> {
        Connection::new(Wire {
            bytes: Cursor::new(text.as_bytes().to_vec()),
            step,
            written: Vec::new(),
        })
    }

    fn status(text: &str) -> u16 {
        match wire(text, 7).read() {
            Err(Unread::Refused(response)) => response.status,
            Err(Unread::Gone) => 0,
            Ok(request) => panic!("{request:?}"),
        }
    }

    const POST: &str = "POST /add-checkpoint HTTP/1.1\r\nHost: w\r\n";

    #[test]
    fn requests_are_cut_where_they_end_however_their_bytes_come() {
        let text = format!(
            "{POST}Content-Length: 5\r\n\r\nold 0{POST}Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nold\r\n2\r\n 0\r\n0\r\n\r\nGET /x HTTP/1.0\r\n\r\n"
        );
        for step in [1, 2, 3, 64, 4096] {
            let mut connection = wire(&text, step);
            for _ in 0..2 {
                let read = connection.read().unwrap();
                assert_eq!((read.method.as_str(), read.keep), ("POST", true));
                assert_eq!(
                    (read.path.as_str(), read.body.as_slice()),
                    ("/add-checkpoint", &b"old 0"[..])
                );
            }
            let last = connection.read().unwrap();
            assert_eq!((last.path.as_str(), last.keep), ("/x", false));
            assert!(matches!(connection.read(), Err(Unread::Gone)));
        }
    }

    // T-WIT-23
    #[test]
    fn what_two_readers_could_cut_in_two_ways_is_refused() {
        for (head, expected) in [
            ("Content-Length: 1\r\nContent-Length: 1\r\n\r\nx", 400),
            (
                "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                400,
            ),
            (
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
                400,
            ),
            ("Transfer-Encoding: gzip, chunked\r\n\r\n", 501),
            ("Content-Length: +1\r\n\r\nx", 400),
            ("Content-Length: 1, 1\r\n\r\nx", 400),
            ("Content-Length:\r\n\r\n", 400),
            ("Content-Length : 1\r\n\r\nx", 400),
            (
                "Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
                400,
            ),
            ("Transfer-Encoding: chunked\r\n\r\nz\r\n", 400),
            ("Transfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n\r\n", 400),
            ("Host: other\r\n\r\n", 400),
            ("Expect: a lot\r\n\r\n", 417),
        ] {
            assert_eq!(status(&format!("{POST}{head}")), expected, "{head}");
        }
        assert_eq!(status("POST / HTTP/1.1\r\n\r\n"), 400);
        assert_eq!(status("nonsense\r\n\r\n"), 400);
    }

    // T-WIT-23
    #[test]
    fn nothing_is_read_without_end() {
        let most = MAX_WITNESS_BODY_BYTES;
        for (head, expected) in [
            (format!("Content-Length: {}\r\n\r\n", most + 1), 413),
            (format!("Content-Length: {}\r\n\r\n", "9".repeat(40)), 413),
            (
                format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n", most + 1),
                413,
            ),
            (
                "Transfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n".to_owned(),
                413,
            ),
            (
                format!(
                    "Transfer-Encoding: chunked\r\n\r\n{}",
                    "1\r\nx\r\n".repeat(MAX_CHUNKS + 1)
                ),
                413,
            ),
            (
                format!(
                    "Transfer-Encoding: chunked\r\n\r\n1;{}",
                    "x".repeat(2 * MAX_HEAD_BYTES)
                ),
                400,
            ),
            (format!("A: {}\r\n\r\n", "x".repeat(MAX_HEAD_BYTES)), 431),
            ("A: b\r\n".repeat(MAX_HEADERS + 1), 431),
            (
                format!("Content-Length: {most}\r\n\r\n{}", "x".repeat(most - 1)),
                0,
            ),
        ] {
            assert_eq!(status(&format!("{POST}{head}")), expected, "{head:.80}");
        }
    }

    #[test]
    fn whoever_waits_to_send_a_body_is_told_to() {
        let mut connection = wire(
            &format!(
                "{POST}Expect: 100-continue\r\nContent-Length: 1\r\nConnection: Close\r\n\r\nx"
            ),
            9,
        );
        let read = connection.read().unwrap();
        assert_eq!((read.body.as_slice(), read.keep), (&b"x"[..], false));
        assert_eq!(
            connection.stream().written,
            b"HTTP/1.1 100 Continue\r\n\r\n"
        );
    }

    #[test]
    fn an_answer_has_its_length_and_without_a_body_only_that() {
        let response = Response::text(409, "5\n");
        for with_body in [true, false] {
            let mut written = Vec::new();
            response.write(&mut written, with_body, true).unwrap();
            let text = String::from_utf8(written).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with("HTTP/1.1 409 Conflict\r\n"), "{head}");
            assert!(head.contains("\r\nContent-Length: 2\r\n"), "{head}");
            assert_eq!(body, if with_body { "5\n" } else { "" });
        }
    }
}
