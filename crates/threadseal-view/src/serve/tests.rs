//! A viewer over a real socket, with a shelf of one log.

use super::*;
use crate::shelf::{Drawing, Hits, Keys, Log, Opened, Row, Session, Sessions};
use std::io::{Cursor, Write as _};
use std::net::TcpStream;
use std::sync::Mutex;

/// The log of the shelf.
const LOG: &str = "agent:1";

struct One(Mutex<Vec<u8>>);

impl One {
    fn row() -> Row {
        Row {
            id: LOG.to_owned(),
            kind: "session",
            agent: "agent".to_owned(),
            title: Some("<script>alert(1)</script>".to_owned()),
            turns: Some(1),
            state: "verified".to_owned(),
            state_text: "verified".to_owned(),
            light: "green",
            ..Row::default()
        }
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl Shelf for One {
    fn sessions(&self, skip: usize, most: usize) -> Result<Sessions, Error> {
        let rows = [Self::row()].into_iter().skip(skip).take(most);
        Ok(Sessions {
            total: 1,
            sessions: rows.collect(),
        })
    }

    fn session(&self, id: &str) -> Result<Option<Session>, Error> {
        let log = Log {
            log: LOG.to_owned(),
            parent: None,
            path: None,
            bytes: self.bytes().len() as u64,
            seals: 0,
            bodies: 0,
            head: None,
            format: None,
            state: "verified".to_owned(),
            state_text: "verified".to_owned(),
            light: "green",
        };
        Ok((id == LOG).then(|| Session {
            row: Self::row(),
            logs: vec![log],
            links: Vec::new(),
            secrets: 0,
        }))
    }

    fn open(&self, log: &str, what: What) -> Result<Option<Opened>, Error> {
        let bytes = self.bytes();
        let opened = Opened {
            size: bytes.len() as u64,
            read: Box::new(move |from| {
                let mut reader = Cursor::new(bytes);
                reader.set_position(from);
                Ok(Box::new(reader))
            }),
        };
        Ok((log == LOG && what == What::Bytes).then_some(opened))
    }

    fn stamp(&self, log: &str) -> Option<Stamp> {
        let bytes = self.bytes().len() as u64;
        (log == LOG).then_some(Stamp {
            bytes,
            seals: 0,
            changed: [0; 3],
        })
    }

    fn newest(&self) -> Vec<(String, String)> {
        vec![(LOG.to_owned(), LOG.to_owned())]
    }

    fn report(&self, _: &str) -> Result<Option<Vec<u8>>, Error> {
        Err(Error::new(ErrorKind::External, "no verdict"))
    }

    fn trust(&self) -> Result<Keys, Error> {
        Ok(Keys::default())
    }

    fn search(&self, words: &str, _: usize) -> Result<Hits, Error> {
        match words {
            "" => Err(Error::invalid("there is nothing to look for")),
            _ => Ok(Hits::default()),
        }
    }

    fn drawing(&self, of: Drawn, id: &str) -> Result<Option<Drawing>, Error> {
        Ok((of == Drawn::Graph && id == "a/b").then(Drawing::default))
    }
}

struct Served {
    base: String,
    port: u16,
    shelf: Arc<One>,
}

/// Calls `test` while a viewer answers.
fn serving(bytes: Vec<u8>, test: impl FnOnce(&Served)) {
    let shelf = Arc::new(One(Mutex::new(bytes)));
    let mut viewer =
        Viewer::listen(0, Token::new([9; 16]), Arc::clone(&shelf) as Arc<dyn Shelf>).unwrap();
    let once = viewer.address_once(Token::new([5; 16]));
    let (base, port) = (viewer.token.base(), viewer.port);
    assert!(once.starts_with("http://127.0.0.1:") && !once.contains(base.trim_matches('/')));
    assert_eq!(viewer.address(), format!("http://127.0.0.1:{port}{base}"));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let served = scope.spawn(|| viewer.serve(&stop));
        let tested = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            test(&Served { base, port, shelf });
        }));
        stop.store(true, Ordering::SeqCst);
        served.join().unwrap().unwrap();
        if let Err(panic) = tested {
            std::panic::resume_unwind(panic);
        }
    });
}

impl Served {
    fn send(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    /// The head and the body of an answer.
    fn raw(&self, request: &str) -> (String, Vec<u8>) {
        let mut answer = Vec::new();
        self.send(request).read_to_end(&mut answer).unwrap();
        let end = answer
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .unwrap();
        (
            String::from_utf8(answer[..end].to_vec()).unwrap(),
            answer[end + 4..].to_vec(),
        )
    }

    fn get(&self, path: &str, more: &str) -> (String, Vec<u8>) {
        let (base, port) = (&self.base, self.port);
        self.raw(&format!(
            "GET {base}{path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n{more}\r\n"
        ))
    }

    fn status(&self, path: &str) -> u16 {
        status(&self.get(path, "").0)
    }
}

fn status(head: &str) -> u16 {
    head[9..12].parse().unwrap()
}

// T-VIEW-06
#[test]
fn every_answer_has_the_policy_also_one_that_refuses() {
    serving(b"log\n".to_vec(), |served| {
        let port = served.port;
        let (base, more) = (&served.base, "Connection: close\r\n\r\n");
        for request in [
            format!("GET {base} HTTP/1.1\r\nHost: localhost:{port}\r\n{more}"),
            format!("GET {base}api/sessions HTTP/1.1\r\nHost: localhost:{port}\r\n{more}"),
            format!("GET {base}nothing HTTP/1.1\r\nHost: localhost:{port}\r\n{more}"),
            format!("GET / HTTP/1.1\r\nHost: localhost:{port}\r\n{more}"),
            format!("GET {base} HTTP/1.1\r\nHost: evil.example\r\n{more}"),
            format!(
                "POST {base} HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Length: 0\r\n{more}"
            ),
        ] {
            let head = served.raw(&request).0.to_ascii_lowercase();
            assert!(
                head.contains("content-security-policy: default-src 'none'"),
                "{request}{head}"
            );
            assert!(
                head.contains("cache-control: no-store") && !head.contains("access-control"),
                "{head}"
            );
        }
        let foreign =
            format!("GET {base}api/trust HTTP/1.1\r\nHost: evil.example:{port}\r\n{more}");
        assert_eq!(status(&served.raw(&foreign).0), 421);
        assert_eq!(
            status(
                &served
                    .raw(&format!(
                        "GET /api/trust HTTP/1.1\r\nHost: localhost:{port}\r\n{more}"
                    ))
                    .0
            ),
            404
        );
    });
}

// T-VIEW-14
#[test]
fn the_address_of_a_browser_leads_to_the_page_once() {
    serving(b"log\n".to_vec(), |served| {
        let port = served.port;
        let ask = |method: &str, path: &str| {
            let more = format!("Host: localhost:{port}\r\nConnection: close\r\n\r\n");
            served.raw(&format!("{method} {path} HTTP/1.1\r\n{more}")).0
        };
        let (right, wrong) = ("/open/05050505050505050505050505050505", "/open/05");
        assert_eq!(status(&ask("HEAD", right)), 404);
        assert_eq!(status(&ask("GET", wrong)), 404);
        let head = ask("GET", right).to_ascii_lowercase();
        assert_eq!(status(&head), 303);
        assert!(
            head.contains(&format!("\r\nlocation: {}\r\n", served.base)),
            "{head}"
        );
        assert_eq!(status(&ask("GET", right)), 410);
    });
}

#[test]
fn a_page_gets_rows_sessions_bytes_and_parts_of_them() {
    let log: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
    serving(log.clone(), |served| {
        let json = |path: &str| -> serde_json::Value {
            serde_json::from_slice(&served.get(path, "").1).unwrap()
        };
        let rows = json("api/sessions?skip=0&limit=5");
        assert_eq!(
            (&rows["schema"], &rows["total"]),
            (&"threadseal.view.sessions/1".into(), &1.into())
        );
        assert_eq!(rows["sessions"][0]["title"], "<script>alert(1)</script>");
        assert_eq!(
            json("api/sessions/agent%3A1")["logs"][0]["bytes"],
            log.len()
        );
        assert_eq!(served.get("api/logs/agent%3A1/bytes", "").1, log);
        let (head, part) = served.get("api/logs/agent%3A1/bytes", "Range: bytes=3999990-\r\n");
        assert_eq!((status(&head), part), (206, log[3_999_990..].to_vec()));
        assert!(head.contains("bytes 3999990-3999999/4000000"), "{head}");
        assert_eq!(json("api/trust")["schema"], "threadseal.view.trust/1");
        assert_eq!(
            json("api/sessions?skip=1")["sessions"],
            serde_json::json!([])
        );
        assert_eq!(
            json("api/graphs/a/b")["nodes"],
            json("api/graphs/a%2Fb")["edges"]
        );
        for (path, expected) in [
            ("api/sessions/other", 404),
            ("api/logs/agent%3A1/seals", 404),
            ("api/logs/agent%3A1/other", 404),
            ("api/logs/..%2F..%2Fetc/bytes", 404),
            ("api/logs/agent%3A1/report", 500),
            ("api/search?q=", 400),
            ("api/search?q=a&limit=99999999", 200),
            ("api/lineages/a", 404),
            ("api/logs/agent%3A1/bodies", 404),
            ("api/logs/bytes", 404),
            ("api", 404),
            ("api/", 404),
        ] {
            assert_eq!(served.status(path), expected, "{path}");
        }
        assert_eq!(
            status(
                &served
                    .get("api/logs/agent%3A1/bytes", "Range: bytes=4000000-\r\n")
                    .0
            ),
            416
        );
    });
}

#[test]
fn a_page_that_follows_a_log_hears_of_each_change_until_the_service_ends() {
    let mut rest = None;
    serving(b"one\n".to_vec(), |served| {
        let (base, port) = (&served.base, served.port);
        let mut stream = served.send(&format!(
            "GET {base}api/live?log=agent%3A1 HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n"
        ));
        let mut seen = String::new();
        let mut until = |stream: &mut TcpStream, part: &str| {
            let mut some = [0; 1024];
            while !seen.contains(part) {
                let count = stream.read(&mut some).unwrap();
                assert!(count > 0, "{seen}");
                seen.push_str(std::str::from_utf8(&some[..count]).unwrap());
            }
        };
        until(&mut stream, "\"bytes\":4,\"seals\":0,");
        served.shelf.0.lock().unwrap().extend_from_slice(b"two\n");
        until(&mut stream, "\"bytes\":8,\"seals\":0,");
        rest = Some(stream);
    });
    let mut end = Vec::new();
    rest.unwrap().read_to_end(&mut end).unwrap();
}

// T-VIEW-07
#[test]
fn slow_and_odd_requests_hold_up_no_other() {
    serving(b"log\n".to_vec(), |served| {
        let slow: Vec<_> = (0..2 * MAX_CONNECTIONS)
            .map(|_| TcpStream::connect(("127.0.0.1", served.port)).unwrap())
            .collect();
        // Beyond the bound they are closed at once; within it they end with their time.
        drop(slow);
        let mut tries = 0;
        while std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| served.status("api/trust")))
            .is_err()
        {
            tries += 1;
            assert!(tries < 100);
            std::thread::sleep(PAUSE);
        }
        let long = "a".repeat(MAX_HEAD_BYTES);
        let head = served
            .raw(&format!("GET /{long} HTTP/1.1\r\nHost: x\r\n\r\n"))
            .0;
        assert!(status(&head) >= 400, "{head}");
        assert_eq!(served.status("api/trust"), 200);
    });
}

#[test]
fn names_in_addresses_are_decoded_once() {
    for (text, plain) in [
        ("a%2Fb", "a/b"),
        ("%252F", "%2F"),
        ("%", "%"),
        ("%4", "%4"),
        ("%zz", "%zz"),
        ("%+1", "%+1"),
        ("%c3%a9", "é"),
        ("%ff", "\u{fffd}"),
    ] {
        assert_eq!(decoded(text), plain);
    }
    let query = Query::of("q=a+b%2B&limit=7&limit=8&empty=&flag");
    assert_eq!(
        (query.text("q"), query.number("limit")),
        (Some("a b+"), Some(7))
    );
    assert_eq!((query.text("empty"), query.text("flag")), (None, None));
}
