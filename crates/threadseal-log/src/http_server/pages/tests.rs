//! Texts over real connections.

use super::*;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::Ordering;
use std::time::Duration;

struct Two;

impl Pages for Two {
    fn page(&self, path: &str) -> Option<Page> {
        let is_good = match path {
            "/good" => true,
            "/bad" => false,
            "/broken" => panic!("a page that cannot be made"),
            _ => return None,
        };
        let (kind, text) = ("text/plain", format!("{path}\n"));
        Some(Page {
            is_good,
            kind,
            text,
        })
    }
}

fn answer(address: SocketAddr, head: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

// T-FLT-30
#[test]
fn pages_are_read_and_nothing_else_is_done() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stop = Arc::<AtomicBool>::default();
    let stopping = Arc::clone(&stop);
    let serving =
        std::thread::spawn(move || serve_pages(listener, Arc::new(Two), |_| {}, &stopping));
    for (request, status, body) in [
        ("GET /good", 200, "/good\n"),
        ("GET /bad", 503, "/bad\n"),
        ("HEAD /good", 200, ""),
        ("GET /other", 404, "nothing is here\n"),
        ("GET /broken", 500, ""),
        ("POST /good", 405, "only GET is answered here\n"),
        ("DELETE /bad", 405, "only GET is answered here\n"),
    ] {
        let answered = answer(
            address,
            &format!("{request} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
        );
        let start = format!("HTTP/1.1 {status} ");
        assert!(answered.starts_with(&start), "{request}: {answered}");
        assert!(
            answered.ends_with(&format!("\r\n\r\n{body}")),
            "{request}: {answered}"
        );
    }
    let two_hosts = answer(address, "GET /good HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
    assert!(two_hosts.starts_with("HTTP/1.1 400 "), "{two_hosts}");
    stop.store(true, Ordering::SeqCst);
    serving.join().unwrap().unwrap();
    assert!(TcpStream::connect(address).is_err());
}
