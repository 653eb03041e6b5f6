//! The link of hooks and `status` to the watcher: a socket in the home, one line each way.
//!
//! ```text
//! $THREADSEAL_HOME/capture/watch.sock
//! ─► {"ask":"seal","request":{…},"strict":false}        ◄─ {"answer":"held"} | {"answer":"sealed"} | {"answer":"failed","why":…}
//! ─► {"ask":"status"}                                   ◄─ {"answer":"status", …}
//! ```
//! Only the user can reach the socket: the home is for that user alone. Each side has a time limit,
//! so that neither can hang the other.

use super::requests::Request;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The most bytes of a line.
pub const MAX_LINE_BYTES: u64 = 64 << 10;
/// The longest path of a socket that all systems take.
#[cfg(unix)]
const MAX_SOCKET_PATH_BYTES: usize = 100;

/// A question to the watcher.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Ask {
    /// Seal what a request names.
    Seal {
        /// The request.
        request: Request,
        /// Is the answer to wait for the seal?
        strict: bool,
    },
    /// How far is it?
    Status,
}

/// The watcher's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// The request is on the disk, and sealed soon.
    Held,
    /// All that it names is sealed.
    Sealed,
    /// It cannot be held or sealed.
    Failed {
        /// The reason.
        why: String,
    },
    /// The state of the watcher.
    Status(WatcherStatus),
}

/// The state of the watcher.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatcherStatus {
    /// Its process id.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// When it started, as RFC 3339.
    pub since: String,
    /// Its folders, with the number of sessions' logs in each.
    pub folders: Vec<WatchedFolder>,
    /// Has it looked at all files once?
    pub has_looked: bool,
    /// Requests and changed files that wait.
    pub waiting: u64,
    /// Milliseconds for which the oldest of them has waited.
    pub behind_ms: u64,
    /// Seals since the start.
    pub seals: u64,
    /// Does it find changes by looking at all files only, as the system reports none?
    pub is_polling: bool,
}

/// A folder that is watched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedFolder {
    /// The agent; `None` for a folder that a person named.
    pub agent: Option<String>,
    /// The folder.
    pub path: PathBuf,
    /// Logs of sessions in it.
    pub logs: u64,
    /// Other files, which are passed over.
    pub passed_over: u64,
}

/// The path of the socket of the home at `home`.
pub fn socket(home: &Path) -> PathBuf {
    home.join("capture/watch.sock")
}

/// Reads one line of at most [`MAX_LINE_BYTES`].
///
/// # Errors
/// When it ends early, is too long, or is none of these values.
pub fn read_line<T: for<'a> Deserialize<'a>>(from: impl io::Read) -> io::Result<T> {
    let mut line = Vec::new();
    BufReader::new(from.take(MAX_LINE_BYTES)).read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&line)?)
}

/// Writes one line.
///
/// # Errors
/// When the other side is gone, or the line is too long.
pub fn write_line(mut to: impl io::Write, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    if line.len() as u64 > MAX_LINE_BYTES {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    to.write_all(&line)?;
    to.flush()
}

#[cfg(unix)]
mod unix {
    use super::{
        Answer, Ask, Duration, MAX_SOCKET_PATH_BYTES, Path, PathBuf, io, read_line, socket,
        write_line,
    };
    use std::fs::{self, File};
    use std::os::fd::AsRawFd as _;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::{UnixListener, UnixStream};

    /// Asks the watcher of the home at `home`, and waits at most `limit` for each step.
    ///
    /// # Errors
    /// When no watcher runs, or it does not answer in time.
    pub fn ask(home: &Path, ask: &Ask, limit: Duration) -> io::Result<Answer> {
        let (path, _folder) = reachable(&socket(home))?;
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(limit))?;
        stream.set_write_timeout(Some(limit))?;
        write_line(&stream, ask)?;
        read_line(&stream)
    }

    /// Listens at the socket of the home at `home`. The caller has the lock of the watcher, so what
    /// is at the place was left by one that was killed.
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn listen(home: &Path) -> io::Result<UnixListener> {
        let place = socket(home);
        match fs::remove_file(&place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let (path, _folder) = reachable(&place)?;
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(&place, fs::Permissions::from_mode(0o600))?;
        Ok(listener)
    }

    /// A path of the socket that is short enough for the system. It leads through the open folder,
    /// which must live as long as the path is used.
    fn reachable(place: &Path) -> io::Result<(PathBuf, Option<File>)> {
        if place.as_os_str().as_bytes().len() <= MAX_SOCKET_PATH_BYTES {
            return Ok((place.to_owned(), None));
        }
        let (Some(folder), Some(name)) = (place.parent(), place.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let folder = File::open(folder)?;
        let short = format!("/proc/self/fd/{}", folder.as_raw_fd());
        Ok((Path::new(&short).join(name), Some(folder)))
    }
}

#[cfg(unix)]
pub use unix::{ask, listen};

/// Asks the watcher of the home at `home`: on this system no watcher listens.
///
/// # Errors
/// Always.
#[cfg(not(unix))]
pub fn ask(_home: &Path, _ask: &Ask, _limit: Duration) -> io::Result<Answer> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn answers(home: &Path, answer: &[u8]) -> io::Result<Answer> {
        let listener = listen(home).unwrap();
        let answer = answer.to_vec();
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let asked: Ask = read_line(&stream).unwrap();
            assert_eq!(asked, Ask::Status);
            let written = stream.write_all(&answer);
            // Of a line that is too long the asker leaves the rest unread.
            assert!(written.is_ok() || answer.len() as u64 > MAX_LINE_BYTES);
        });
        let answered = ask(home, &Ask::Status, Duration::from_secs(5));
        serving.join().unwrap();
        answered
    }

    // T-CAP-34
    #[test]
    fn an_answer_is_read_whole_or_not_at_all_from_any_home() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a".repeat(120));
        for home in [folder.path(), &deep] {
            std::fs::create_dir_all(home.join("capture")).unwrap();
            assert!(ask(home, &Ask::Status, Duration::from_secs(1)).is_err());
            let held = answers(home, b"{\"answer\":\"held\"}\n").unwrap();
            assert_eq!(held, Answer::Held);
            for bad in [&b"{\"answer\":\"held\"}"[..], b"", b"{}\n", b"\n", b"[\n"] {
                assert!(answers(home, bad).is_err(), "{bad:?}");
            }
            let long = vec![b' '; 2 * usize::try_from(MAX_LINE_BYTES).unwrap()];
            assert!(answers(home, &long).is_err());
            // Of a watcher that was killed only the socket is left.
            assert!(ask(home, &Ask::Status, Duration::from_secs(1)).is_err());
        }
    }
}
