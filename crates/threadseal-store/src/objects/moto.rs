//! A throw-away S3 server; only for tests.
//!
//! The server is moto's, run by the Python beside the program `moto_server`. That is searched for
//! in `THREADSEAL_MOTO` (its path) and then on `PATH`. The server ends when its standard input
//! does: with this process, however that ends.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test fails by panicking and says where, also in its helpers, and asks its environment"
)]

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

const SCRIPT: &str = include_str!("moto.py");
/// The one bucket.
pub const BUCKET: &str = "threadseal";

/// A running server.
#[derive(Debug)]
pub struct Moto {
    server: Child,
    port: u16,
    prefixes: AtomicU32,
}

impl Moto {
    /// The server that all tests of this program share. Where moto is not installed, it is `None`,
    /// and prints a line that begins with `skipped: `.
    ///
    /// # Panics
    /// When it is installed and does not start.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Moto>> = OnceLock::new();
        let moto = SHARED.get_or_init(Self::start).as_ref();
        if moto.is_none() {
            println!("skipped: moto_server is not installed");
        }
        moto
    }

    fn start() -> Option<Self> {
        let mut server = Command::new(python()?)
            .args(["-c", SCRIPT, BUCKET])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(server.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let port = line.trim().parse().expect("moto says its port");
        Some(Self {
            server,
            port,
            prefixes: AtomicU32::new(0),
        })
    }

    /// An address below which nothing is yet.
    pub fn fresh(&self) -> String {
        let number = self.prefixes.fetch_add(1, Ordering::Relaxed);
        format!("s3://{BUCKET}/test/{number}")
    }

    /// The settings that reach it.
    pub fn settings(&self) -> Vec<(String, String)> {
        let endpoint = format!("http://127.0.0.1:{}", self.port);
        [
            ("AWS_ENDPOINT_URL", endpoint.as_str()),
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
            ("AWS_REGION", "us-east-1"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        drop(self.server.stdin.take());
        let _ = self.server.wait();
    }
}

fn python() -> Option<PathBuf> {
    let named = std::env::var_os("THREADSEAL_MOTO").map(PathBuf::from);
    let on_path = || {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path)
            .map(|folder| folder.join("moto_server"))
            .find(|program| program.is_file())
    };
    let program = named.or_else(on_path)?;
    Some(program.with_file_name("python3"))
}
