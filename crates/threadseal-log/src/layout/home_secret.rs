//! [`HomeSecret`]: the secret of a home, under which the lines of its spool are known to be its own.
//!
//! ```text
//! $THREADSEAL_HOME/keys/spool.secret   64 hex digits LF, 0600; made once, and anew where it is damaged or others may read it
//!
//! line   <64 hex: tag> <32 hex: log id> <entry>
//! tag    HMAC-SHA-256( secret, "threadseal/1 spool" 0x00 ‖ the line after the tag and its blank )      RFC 2104
//! ```
//! Each domain works as a key of its own. Two others tag the home's list of entries that are no heads and its index of heads
//! (`index::non_head_index`, `index::index_files`).
//! It is kept with the keys, not with the logs: people give copies of a log's folder to others.

use crate::layout::description::LogId;
use crate::layout::log_dir::LogDir;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use threadseal_core::encoding;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_store::atomic::PRIVATE_DIRECTORY;
use threadseal_store::atomic::{self, Mode, PRIVATE_FILE};
use threadseal_store::owned_files::read_private_key_file;
use threadseal_store::random::{self, Random};
use threadseal_store::sys::directory_of;
use zeroize::Zeroizing;

const DOMAIN: &[u8] = b"threadseal/1 spool\0";
const SECRET_BYTES: usize = 32;
pub(crate) const TAG_BYTES: usize = 32;
/// Digits of a tag, and the blank after it.
const TAG_LENGTH: usize = 2 * TAG_BYTES + 1;
/// Digits of a log id, and the blank after it.
const ID_LENGTH: usize = 33;

/// The secret.
#[derive(Clone)]
pub(crate) struct HomeSecret(Hmac<Sha256>);

impl fmt::Debug for HomeSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SpoolKey")
    }
}

impl HomeSecret {
    /// The secret of the home that this log is of; made where there is none that serves.
    pub(crate) fn make(dir: &LogDir, random: &dyn Random) -> Result<Self, Error> {
        let path = path(dir);
        if let Some(known) = read(dir, &path)? {
            return Ok(known);
        }
        let secret = Zeroizing::new(random::array::<SECRET_BYTES>(random)?);
        let mut text = Zeroizing::new(encoding::hex(&*secret));
        text.push('\n');
        atomic::create_directories(&*dir.fs, directory_of(&path), PRIVATE_DIRECTORY)?;
        match is_gone(dir, &path) {
            // Another process may be faster: then its secret counts.
            true => drop(atomic::create_new(
                &*dir.fs,
                &path,
                text.as_bytes(),
                PRIVATE_FILE,
            )),
            false => atomic::replace(&*dir.fs, &path, text.as_bytes(), Mode::Set(PRIVATE_FILE))?,
        }
        read(dir, &path)?.ok_or_else(|| {
            let text = format!("{} cannot be made", path.display());
            Error::new(ErrorKind::External, text)
        })
    }

    /// The secret of this home, where there is one that serves.
    pub(crate) fn find(dir: &LogDir) -> Result<Option<Self>, Error> {
        read(dir, &path(dir))
    }

    /// The line for an entry that is to be committed to this log.
    pub(crate) fn line(&self, log: LogId, entry: &[u8]) -> Vec<u8> {
        let rest = [format!("{log} ").as_bytes(), entry].concat();
        let mut line = self.tag(DOMAIN, &rest).into_bytes();
        line.push(b' ');
        line.extend_from_slice(&rest);
        line
    }

    /// The log and the entry of a line that was made with this secret.
    pub(crate) fn open<'l>(&self, line: &'l [u8]) -> Option<(LogId, &'l [u8])> {
        let (tag, rest) = line.split_at_checked(TAG_LENGTH)?;
        let tag = std::str::from_utf8(tag).ok()?.strip_suffix(' ')?;
        if !self.made(tag, DOMAIN, rest) {
            return None;
        }
        let (id, entry) = rest.split_at_checked(ID_LENGTH)?;
        let id = std::str::from_utf8(id).ok()?.strip_suffix(' ')?;
        Some((LogId::parse_hex(id)?, entry))
    }

    /// The tag of these bytes in a domain, which ends in 0x00, in hex.
    pub(crate) fn tag(&self, domain: &[u8], bytes: &[u8]) -> String {
        encoding::hex(&self.tag_bytes(domain, bytes))
    }

    /// The same as it is.
    pub(crate) fn tag_bytes(&self, domain: &[u8], bytes: &[u8]) -> [u8; TAG_BYTES] {
        self.mac(domain, bytes).finalize().into_bytes().into()
    }

    /// Was this tag made with this secret, of these bytes and in this domain?
    pub(crate) fn made(&self, tag: &str, domain: &[u8], bytes: &[u8]) -> bool {
        let tag = encoding::parse_hex_array::<TAG_BYTES>(tag);
        tag.is_some_and(|tag| self.made_bytes(&tag, domain, bytes))
    }

    /// The same of a tag as it is.
    pub(crate) fn made_bytes(&self, tag: &[u8], domain: &[u8], bytes: &[u8]) -> bool {
        self.mac(domain, bytes).verify_slice(tag).is_ok()
    }

    fn mac(&self, domain: &[u8], bytes: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        mac.update(domain);
        mac.update(bytes);
        mac
    }
}

/// The entry that a line would hold if it were one of a home's own, or of a spool from before lines had tags.
pub(crate) fn unproved_entry(line: &[u8]) -> &[u8] {
    match line.first() {
        Some(b'{') => line,
        _ => line.get(TAG_LENGTH + ID_LENGTH..).unwrap_or_default(),
    }
}

fn path(dir: &LogDir) -> PathBuf {
    dir.home().join("keys").join("spool.secret")
}

fn is_gone(dir: &LogDir, path: &Path) -> bool {
    let found = dir.fs.symlink_metadata(path);
    found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// None where there is none, and where it is damaged or others may read it: it proves nothing then.
fn read(dir: &LogDir, path: &Path) -> Result<Option<HomeSecret>, Error> {
    let bytes = match read_private_key_file(&*dir.fs, path) {
        Ok(bytes) => Zeroizing::new(bytes),
        Err(error) if error.kind() == ErrorKind::Key || is_gone(dir, path) => return Ok(None),
        Err(error) => return Err(error),
    };
    let text = std::str::from_utf8(&bytes).ok();
    let secret = text.and_then(|text| {
        encoding::parse_hex_array::<SECRET_BYTES>(text.strip_suffix('\n')?).map(Zeroizing::new)
    });
    let key = secret.and_then(|secret| Hmac::new_from_slice(&*secret).ok());
    Ok(key.map(HomeSecret))
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadseal_core::digest::Digest;
    use threadseal_store::fault::FaultFs;
    use threadseal_store::random::SeededRandom;

    fn place(fs: &FaultFs) -> LogDir {
        LogDir {
            fs: fs.shared(),
            root: PathBuf::from("/home/log/00"),
        }
    }

    const SECRET: &str = "/home/keys/spool.secret";

    #[test]
    fn the_line_is_the_documented_one() {
        let fs = FaultFs::new();
        let dir = place(&fs);
        HomeSecret::make(&dir, &SeededRandom::new(1)).unwrap();
        let secret = format!("{}\n", "0b".repeat(32));
        fs.set_bytes(Path::new(SECRET), secret.as_bytes()).unwrap();
        let key = HomeSecret::find(&dir).unwrap().unwrap();
        let log = LogId::from_bytes([0xab; 16]);
        let line = key.line(log, b"{}");
        // Python: hmac.new(b"\x0b" * 32, b"threadseal/1 spool\0" + b"ab" * 16 + b" {}", "sha256").hexdigest()
        let tag = "e397bd70b13377f7d584a1c87b2427c3a76067359273b25f19f11e68910f6148";
        let text = format!("{tag} {} {{}}", "ab".repeat(16));
        assert_eq!(String::from_utf8(line.clone()).unwrap(), text);
        assert_eq!(key.open(&line), Some((log, &b"{}"[..])));
        assert_eq!(unproved_entry(&line), b"{}");
        // One changed byte anywhere, or a part of it, is no line of this home.
        for at in 0..line.len() {
            let mut other = line.clone();
            other[at] ^= 1;
            assert_eq!(key.open(&other), None, "{at}");
            assert_eq!(key.open(&line[..at]), None, "{at}");
        }
    }

    #[test]
    fn a_secret_is_made_once_and_anew_only_where_it_proves_nothing() {
        let fs = FaultFs::new();
        let dir = place(&fs);
        assert!(HomeSecret::find(&dir).unwrap().is_none());
        let log = LogId::from_bytes([1; 16]);
        let line = |seed| {
            let key = HomeSecret::make(&dir, &SeededRandom::new(seed)).unwrap();
            Digest::of(&key.line(log, b"{}"))
        };
        let first = line(1);
        assert_eq!(line(2), first);
        fs.set_bytes(Path::new(SECRET), b"damaged").unwrap();
        assert!(HomeSecret::find(&dir).unwrap().is_none());
        let second = line(3);
        assert_ne!(second, first);
        assert_eq!(line(4), second);
        let path = Path::new(SECRET);
        let file = dir
            .fs
            .open(path, threadseal_store::sys::Access::Append)
            .unwrap();
        file.set_mode(0o644).unwrap();
        assert!(HomeSecret::find(&dir).unwrap().is_none());
        assert_ne!(line(5), second);
        assert_eq!(dir.fs.metadata(path).unwrap().mode & 0o777, 0o600);
    }
}
