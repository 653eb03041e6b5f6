//! A throw-away PostgreSQL cluster; only for tests.
//!
//! ```text
//! this process ──stdin──► sh ──► postgres, as an unprivileged user
//!      at its end, of any kind: the pipe closes, sh stops the server by its number and removes
//!      the folder
//! ```
//! The server listens on a Unix socket in that folder and on one port of 127.0.0.1, where it asks
//! for a password. It runs with the durable settings it comes with.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking and says where, also in its helpers"
)]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The password of `threadseal`, the only user.
pub const PASSWORD: &str = "correct horse";

/// Starts the server in `$folder` and prints `ready`. At each line of its own input it lets the
/// server crash and starts it again. It stops the server when the input ends.
const SUPERVISOR: &str = r#"
set -e
cd "$folder"
chown_to() { [ -z "$user" ] || chown "$user" "$@"; }
as_user() {
    if [ -n "$user" ]; then
        setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups -- "$@"
    else
        "$@"
    fi
}
printf '%s' "$password" >password
chown_to . password
as_user "$bin/initdb" --pgdata=data --username=threadseal --encoding=UTF8 --locale=C \
    --auth-local=trust --auth-host=scram-sha-256 --pwfile=password --no-sync >initdb.log 2>&1 ||
    { cat initdb.log >&2; exit 1; }
if [ -n "$tls" ]; then
    # An authority, another one, and the certificate of `localhost` by the first.
    for name in authority stranger; do
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
            -subj "/CN=$name" -keyout "$name.key" -out "$name.pem" 2>openssl.log
    done
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
        -subj /CN=localhost -keyout server.key -out server.csr 2>>openssl.log
    printf 'subjectAltName=DNS:localhost\n' >names
    openssl x509 -req -in server.csr -CA authority.pem -CAkey authority.key -CAcreateserial \
        -days 2 -extfile names -out server.pem 2>>openssl.log
    openssl req -x509 -key server.key -days 2 -subj /CN=localhost \
        -addext basicConstraints=critical,CA:FALSE -addext subjectAltName=DNS:localhost \
        -out itself.pem 2>>openssl.log
    chown_to server.key server.pem itself.pem
    settings="$settings -c ssl=on -c ssl_key_file=$folder/server.key -c ssl_cert_file=$folder/$tls"
fi
crash() {
    kill -QUIT "$(head -n 1 data/postmaster.pid)" 2>/dev/null
    wait "$server"
}
finish() {
    crash
    cd /
    rm -rf "$folder"
}
trap finish EXIT
set +e
start() {
    as_user "$bin/postgres" -D data -c listen_addresses=127.0.0.1 -c port="$port" \
        -c unix_socket_directories="$folder" -c max_connections=200 $settings >>server.log 2>&1 &
    server=$!
    tries=0
    until "$bin/pg_isready" -q -h "$folder" -p "$port"; do
        tries=$((tries + 1))
        if [ "$tries" -gt 600 ] || ! kill -0 "$server" 2>/dev/null; then cat server.log >&2; exit 1; fi
        sleep 0.1
    done
    echo ready
}
start
while read -r _; do
    crash
    start
done
"#;

/// A running cluster; it ends with the process that started it, or when this is dropped.
#[derive(Debug)]
pub struct Cluster {
    /// Its input is held open.
    supervisor: Child,
    answers: BufReader<ChildStdout>,
    folder: PathBuf,
    port: u16,
    databases: AtomicU32,
}

impl Cluster {
    /// The cluster that all tests of this program share. Where PostgreSQL is not installed, it is
    /// `None`, and prints a line that begins with `skipped: `.
    ///
    /// # Panics
    /// When it is installed and does not start.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Cluster>> = OnceLock::new();
        let cluster = SHARED.get_or_init(|| Self::start("")).as_ref();
        if cluster.is_none() {
            println!("skipped: PostgreSQL's server programs are not installed");
        }
        cluster
    }

    /// A cluster with these `-c NAME=VALUE` settings; `None` where PostgreSQL is not installed.
    ///
    /// # Panics
    /// When it is installed and does not start.
    pub fn start(settings: &str) -> Option<Self> {
        Self::start_with(settings, "")
    }

    /// A cluster that offers TLS with this certificate of `localhost`, a file in its folder.
    ///
    /// `authority.pem` signed `server.pem`; `itself.pem` is self-signed; `stranger.pem` is an
    /// authority that signed nothing.
    ///
    /// # Panics
    /// When PostgreSQL is installed and does not start, also for want of `openssl`.
    pub fn start_with_tls(certificate: &str) -> Option<Self> {
        Self::start_with("", certificate)
    }

    fn start_with(settings: &str, certificate: &str) -> Option<Self> {
        let programs = programs()?;
        let folder = tempfile::Builder::new()
            .prefix("threadseal-pg-")
            .tempdir()
            .unwrap()
            .keep();
        let port = TcpListener::bind(("127.0.0.1", 0))
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let mut supervisor = Command::new("sh")
            .args(["-c", SUPERVISOR])
            .env("folder", &folder)
            .env("bin", programs)
            .env("port", port.to_string())
            .env("user", user_for_servers())
            .env("password", PASSWORD)
            .env("settings", settings)
            .env("tls", certificate)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(supervisor.stdout.take().unwrap());
        let mut cluster = Self {
            supervisor,
            answers,
            folder,
            port,
            databases: AtomicU32::new(0),
        };
        cluster.wait_until_ready();
        Some(cluster)
    }

    fn wait_until_ready(&mut self) {
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        assert_eq!(answer, "ready\n", "PostgreSQL did not start");
    }

    /// Stops the server as `pg_ctl stop --mode=immediate` does, which is a crash: it writes nothing
    /// and informs no client. Then starts it again, and waits until it has recovered.
    ///
    /// # Panics
    /// When it does not start.
    pub fn crash_and_restart(&mut self) {
        let input = self.supervisor.stdin.as_mut().unwrap();
        input.write_all(b"crash\n").unwrap();
        self.wait_until_ready();
    }

    /// The address of a database of this name, by the socket.
    pub fn url(&self, database: &str) -> String {
        let folder = self.folder.display().to_string().replace('/', "%2F");
        format!("postgres://threadseal@{folder}:{}/{database}", self.port)
    }

    /// The address of a new, empty database.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn fresh(&self) -> String {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{}_{number}", std::process::id());
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        self.url(&name)
    }

    /// The output of a program of PostgreSQL, as `psql` or `pg_dump`, for this cluster.
    ///
    /// # Panics
    /// When it fails.
    pub fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = Command::new(programs().unwrap().join(program))
            .args([
                "-h",
                self.folder.to_str().unwrap(),
                "-p",
                &self.port.to_string(),
            ])
            .args(["-U", "threadseal"])
            .args(arguments)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{program}: {told}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The answer of a database to a statement, as text.
    ///
    /// # Panics
    /// When it refuses.
    pub fn sql(&self, database: &str, sql: &str) -> String {
        let set = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"];
        let arguments = [&set[..], &["-d", database, "-c", sql]].concat();
        self.run("psql", &arguments)
    }

    /// The folder of its socket and data.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.supervisor.stdin.take());
        let _ = self.supervisor.wait();
    }
}

/// Name of the database of an address.
///
/// # Panics
/// For an address that is not from [`Cluster::url`].
pub fn database_of(url: &str) -> &str {
    url.rsplit('/').next().unwrap()
}

/// The newest of the versions that Debian keeps apart, else the one on the usual paths.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql");
    let mut folders: Vec<PathBuf> = versions
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .collect();
    folders.sort();
    let others = ["/usr/bin", "/usr/local/bin"].map(PathBuf::from);
    let needed = ["initdb", "postgres", "pg_isready", "psql", "pg_dump"];
    let is_whole = |folder: &PathBuf| needed.iter().all(|program| folder.join(program).exists());
    folders.into_iter().rev().chain(others).find(is_whole)
}

/// The server refuses to run as root; then it runs as the first of these that is there.
fn user_for_servers() -> &'static str {
    let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    let exists = |user: &&str| {
        let answer = Command::new("id").args(["-u", user]).output();
        answer.is_ok_and(|answer| answer.status.success())
    };
    match is_root {
        true => ["postgres", "nobody"]
            .into_iter()
            .find(exists)
            .expect("an unprivileged user"),
        false => "",
    }
}
