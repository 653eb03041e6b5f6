//! Requests as bytes over real connections: where they end, what is refused, and that nothing is read without end.

use super::*;
use crate::http_server::{
    MAX_CONNECTIONS, MAX_HEAD_BYTES, MAX_HEADERS, MAX_LAST_TIME, MAX_PEER_CONNECTIONS,
};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use threadseal_core::key::KeyUsage;
use threadseal_core::note::KeyName;
use threadseal_store::clock::SystemClock;
use threadseal_store::sys::RealFs;
use threadseal_store::testing::signer;

/// A witness that serves until it is dropped.
struct Serving {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), Error>>>,
    _home: tempfile::TempDir,
}

impl Serving {
    fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        let signer = signer(3, KeyUsage::Witness);
        let key = WitnessKey {
            name: KeyName::parse("witness.example/w").unwrap(),
            signer: Arc::new(signer),
        };
        let files = WitnessFiles::of_home(RealFs::shared(), home.path());
        let service = WitnessService::new(files, key, Box::new(SystemClock), |_| {});
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Arc::<AtomicBool>::default();
        let stopping = Arc::clone(&stop);
        let thread =
            std::thread::spawn(move || serve(listener, service, PeerLimit::Clients, &stopping));
        Self {
            address,
            stop,
            thread: Some(thread),
            _home: home,
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        let longest = Some(Duration::from_secs(20));
        stream.set_read_timeout(longest).unwrap();
        stream
    }

    /// What is answered to these bytes, which are all that comes, and arrive so many at a time.
    fn answer(&self, bytes: &[u8], step: usize) -> String {
        let mut stream = self.connect();
        for piece in bytes.chunks(step) {
            // A server that refused already may have closed the connection.
            if stream.write_all(piece).is_err() {
                break;
            }
        }
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }

    fn status(&self, text: &str) -> u16 {
        let answer = self.answer(text.as_bytes(), usize::MAX);
        let status = answer.split(' ').nth(1).map(str::parse);
        status.map_or(0, Result::unwrap)
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.end();
    }
}

const POST: &str = "POST /add-checkpoint HTTP/1.1\r\nHost: w\r\n";

#[test]
fn requests_are_cut_where_they_end_however_their_bytes_come() {
    let serving = Serving::start();
    let text = format!(
        "{POST}Content-Length: 5\r\n\r\nold 0{POST}Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nold\r\n2\r\n 0\r\n0\r\n\r\nGET /x HTTP/1.0\r\n\r\n"
    );
    for step in [1, 2, 3, 64, 4096] {
        let answers = serving.answer(text.as_bytes(), step);
        let answered = answers.split("HTTP/1.").skip(1);
        let statuses: Vec<&str> = answered.map(|answer| &answer[2..5]).collect();
        assert_eq!(statuses, ["400", "400", "404"], "{step}: {answers}");
    }
}

// T-WIT-23
#[test]
fn what_two_readers_could_cut_in_two_ways_is_refused() {
    let serving = Serving::start();
    let chunked = "Transfer-Encoding: chunked\r\n";
    for (head, expected) in [
        (&*format!("{chunked}{chunked}\r\n0\r\n\r\n"), 400),
        ("Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
        ("Content-Length: 1\r\nContent-Length: 2\r\n\r\nxy", 400),
        ("Content-Length: +1\r\n\r\nx", 400),
        ("Content-Length: 1, 1\r\n\r\nx", 400),
        ("Content-Length:\r\n\r\n", 400),
        ("Content-Length : 1\r\n\r\nx", 400),
        (&*format!("{chunked}\r\n2\r\nabc\r\n0\r\n\r\n"), 400),
        (&*format!("{chunked}\r\nz\r\n"), 400),
        (&*format!("{chunked}\r\n0\r\nA: b\r\n\r\n"), 400),
        ("Host: other\r\n\r\n", 400),
        ("Expect: a lot\r\n\r\n", 417),
    ] {
        assert_eq!(serving.status(&format!("{POST}{head}")), expected, "{head}");
    }
    assert_eq!(serving.status("POST / HTTP/1.1\r\n\r\n"), 400);
    assert_eq!(serving.status("nonsense\r\n\r\n"), 400);
}

/// Where a length and chunks are both given the chunks count, and nothing behind them is taken for a request (RFC 9112 §6.1).
#[test]
fn behind_a_length_and_chunks_nothing_is_read() {
    let serving = Serving::start();
    let hidden = format!(
        "{POST}Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /x HTTP/1.1\r\nHost: w\r\n\r\n"
    );
    let answers = serving.answer(hidden.as_bytes(), usize::MAX);
    assert_eq!(answers.matches("HTTP/1.").count(), 1, "{answers}");
    assert!(answers.contains("\r\nConnection: close\r\n"), "{answers}");
}

// T-WIT-23
#[test]
fn nothing_is_read_without_end() {
    let serving = Serving::start();
    let most = MAX_WITNESS_BODY_BYTES;
    let chunk = format!("{:x}\r\n{}\r\n", most + 1, "x".repeat(most + 1));
    let length = |length: &str| format!("Content-Length: {length}\r\n\r\n");
    let chunked = |chunks: &str| format!("Transfer-Encoding: chunked\r\n\r\n{chunks}");
    let endless = format!("1;{}", "x".repeat(2 * MAX_HEAD_BYTES));
    for (head, expected) in [
        (length(&(most + 1).to_string()), 413),
        (length(&"9".repeat(18)), 413),
        (length(&"9".repeat(40)), 400),
        (chunked(&format!("{chunk}0\r\n\r\n")), 413),
        (chunked(&"1\r\nx\r\n".repeat(most + 1)), 413),
        (chunked(&endless), 400),
        (format!("A: {}\r\n\r\n", "x".repeat(MAX_HEAD_BYTES)), 431),
        (format!("{}\r\n", "A: b\r\n".repeat(MAX_HEADERS + 1)), 431),
    ] {
        let status = serving.status(&format!("{POST}{head}"));
        assert_eq!(status, expected, "{head:.80}");
    }
    // A body that ends too early is no request; its client may be gone.
    let cut = format!("Content-Length: {most}\r\n\r\n{}", "x".repeat(most - 1));
    let status = serving.status(&format!("{POST}{cut}"));
    assert!([0, 400].contains(&status), "{status}");
}

#[test]
fn a_client_that_waits_to_send_a_body_is_told_to() {
    let serving = Serving::start();
    let mut stream = serving.connect();
    let head =
        format!("{POST}Expect: 100-continue\r\nContent-Length: 1\r\nConnection: Close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut leave = [0; 25];
    stream.read_exact(&mut leave).unwrap();
    assert_eq!(&leave, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"x").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    // Not for a body that is too long.
    let mut stream = serving.connect();
    let most = MAX_WITNESS_BODY_BYTES;
    let head = format!(
        "{POST}Expect: 100-continue\r\nContent-Length: {}\r\nConnection: Close\r\n\r\n",
        most + 1
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[test]
fn an_answer_has_its_length_and_without_a_body_only_that() {
    let serving = Serving::start();
    let path = format!("/{}/checkpoint", "ab".repeat(32));
    let body = "no checkpoint of such a log was cosigned\n";
    for (method, expected) in [("GET", body), ("HEAD", "")] {
        let request = format!("{method} {path} HTTP/1.1\r\nHost: w\r\nConnection: close\r\n\r\n");
        let answer = serving.answer(request.as_bytes(), usize::MAX);
        let (head, found) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 404 Not Found\r\n"), "{head}");
        for line in [
            &*format!("Content-Length: {}", body.len()),
            "Content-Type: text/plain; charset=utf-8",
            "Cache-Control: no-store",
        ] {
            let line = format!("\r\n{line}\r\n");
            assert!(head.contains(&line), "{head}");
        }
        assert_eq!(found, expected);
    }
}

/// A connection of another address of this machine.
fn connect_from(last: usize, to: SocketAddr) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        let from = format!("127.0.1.{last}:0");
        socket.bind(from.parse().unwrap()).unwrap();
        socket.connect(to).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream
}

const GET: &str = "GET /x HTTP/1.1\r\nHost: w\r\nConnection: close\r\n\r\n";

// T-WIT-33
#[test]
fn a_peer_with_many_connections_is_refused_and_the_others_served() {
    let serving = Serving::start();
    let mut held: Vec<TcpStream> = (0..MAX_PEER_CONNECTIONS)
        .map(|_| serving.connect())
        .collect();
    // Connections are accepted in their order.
    assert_eq!(serving.status(GET), 503);
    for mut served in [connect_from(1, serving.address), held.remove(0)] {
        served.write_all(GET.as_bytes()).unwrap();
        let mut answer = String::new();
        served.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    }
}

// T-WIT-33
#[test]
fn peers_that_send_nothing_make_room_for_one_that_does() {
    let serving = Serving::start();
    let connect = |number: usize| connect_from(2 + number / MAX_PEER_CONNECTIONS, serving.address);
    let mut held: Vec<TcpStream> = (0..MAX_CONNECTIONS).map(connect).collect();
    assert_eq!(serving.status(GET), 404);
    let mut rest = Vec::new();
    held[0].read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"");
}

#[test]
fn a_service_that_stops_answers_what_was_asked_and_waits_for_no_idle_client() {
    let mut serving = Serving::start();
    let _idle = serving.connect();
    let mut busy = serving.connect();
    let head = format!("{POST}Content-Length: 5\r\n\r\nol");
    busy.write_all(head.as_bytes()).unwrap();
    // Until the head was read.
    std::thread::sleep(Duration::from_millis(200));
    serving.stop.store(true, Ordering::SeqCst);
    std::thread::sleep(Duration::from_millis(200));
    busy.write_all(b"d 0").unwrap();
    let mut answer = String::new();
    busy.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    let since = SystemClock.elapsed();
    serving.end();
    assert!(SystemClock.elapsed() - since < MAX_LAST_TIME);
    assert!(TcpStream::connect(serving.address).is_err());
}
