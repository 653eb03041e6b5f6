//! [`MarkLocation`]: where a second place of the log is, as people name it and as `log.json` does.
//!
//! ```text
//! /FOLDER                              a folder: raised with each commit
//! postgres://USER@HOST/DATABASE        a row of a database       ┐
//! s3://… gs://… az://… object+file:DIR an object of a storage    │
//! keyring                              the keyring of the user   ├ updated after the commits
//! https://HOST/PREFIX                  a witness of another host ┘
//! ```
//! What is named here holds no secret: `log.json` goes wherever the home is copied to.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use threadseal_core::error::Error;

/// Longest name of a place in bytes.
const MAX_MARK_PLACE_BYTES: usize = 4096;
const KEYRING: &str = "keyring";

/// Where a second place of the log is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MarkLocation {
    /// A folder.
    Folder(PathBuf),
    /// A database or an object storage.
    Store(String),
    /// The keyring that the system keeps for the user.
    Keyring,
    /// A witness of another operator, over HTTP.
    Peer(String),
}

impl MarkLocation {
    /// Reads what [`MarkLocation`] shows itself as. Anything that is no address is a folder.
    ///
    /// # Errors
    /// Kind `InvalidInput` for an address that holds a password, or that no place has. No message repeats an address that
    /// may hold one.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.is_empty() || text.len() > MAX_MARK_PLACE_BYTES || text.contains('\0') {
            return Err(Error::invalid(
                "the address of a second place is not empty, not too long, and has no NUL",
            ));
        }
        // A folder of this name is written as ./keyring.
        if text == KEYRING {
            return Ok(Self::Keyring);
        }
        let Some((scheme, rest)) = text.split_once(':').filter(|(scheme, _)| scheme.len() > 1)
        else {
            return Ok(Self::Folder(PathBuf::from(text)));
        };
        match scheme {
            "postgres" | "postgresql" => database(rest).map(|()| Self::Store(text.to_owned())),
            "s3" | "gs" | "az" | "object+file" => Ok(Self::Store(text.to_owned())),
            KEYRING if rest.is_empty() => Ok(Self::Keyring),
            KEYRING => Err(Error::invalid(
                "keyring takes no name: it is the keyring of this user, and its secret has the id of the log",
            )),
            "https" | "http" => peer(scheme, rest).map(|()| Self::Peer(text.to_owned())),
            _ if scheme.contains(['/', '\\', '.']) => Ok(Self::Folder(PathBuf::from(text))),
            _ => Err(Error::invalid(
                "a second place is a folder, or an address that begins with postgres:, s3:, gs:, az:, object+file:, \
                 https:, or is keyring",
            )),
        }
    }

    /// The folder, where it is one.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Self::Folder(folder) => Some(folder),
            _ => None,
        }
    }

    /// Who can put it back, in a few words (`spec/host-log.md`, "How strong a place is").
    pub fn strength(&self) -> &'static str {
        match self {
            Self::Folder(_) => "every writer there can lower it; a restored disk lowers it, too",
            Self::Store(address) if address.starts_with("object+file:") => {
                "every writer there can lower it; a restored disk lowers it, too"
            }
            Self::Store(_) => {
                "every writer of that database or storage can lower it; a restored disk of this host does not"
            }
            Self::Keyring => {
                "every program of this user can lower it; a restored home does not lower it, a restored keyring does"
            }
            Self::Peer(_) => "only the operator of that witness can lower it",
        }
    }
}

impl fmt::Display for MarkLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => folder.display().fmt(f),
            Self::Keyring => f.write_str(KEYRING),
            Self::Store(address) | Self::Peer(address) => f.write_str(address),
        }
    }
}

/// An address of a database without its scheme: without a password, which would be copied with the home.
fn database(rest: &str) -> Result<(), Error> {
    let (base, query) = rest.split_once('?').unwrap_or((rest, ""));
    let user = base.rsplit_once('@').map_or("", |(user, _)| user);
    let user = user.trim_start_matches('/');
    let told = query.split('&').any(|pair| {
        let name = pair.split_once('=').map_or(pair, |(name, _)| name);
        name.eq_ignore_ascii_case("password") || name.contains('%')
    });
    match user.contains([':', '@']) || told {
        false => Ok(()),
        true => Err(Error::invalid(
            "the address of a second place must hold no password: log.json keeps it; set PGPASSWORD",
        )),
    }
}

/// An address of a witness without its scheme: over TLS, unless it is on this machine.
fn peer(scheme: &str, rest: &str) -> Result<(), Error> {
    let rest = rest.strip_prefix("//").unwrap_or_default();
    let authority = rest.split('/').next().unwrap_or_default();
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let near = host == "localhost" || bare.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    if host.is_empty() || rest.contains(['@', '?', '#']) || rest.contains(char::is_whitespace) {
        return Err(Error::invalid(
            "the address of a witness is https://HOST/PREFIX, without a user, settings or a fragment",
        ));
    }
    match scheme == "https" || near {
        true => Ok(()),
        false => Err(Error::invalid(
            "without TLS, any host in between could answer for the witness; use https:",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_has_one_name() {
        for text in [
            "/var/marks",
            "./keyring",
            "keyring",
            "postgres://me@db.example/marks?sslmode=verify-full",
            "postgresql:///marks?host=/run/postgresql",
            "s3://bucket/marks",
            "object+file:/mnt/marks",
            "https://witness.example/w",
            "http://127.0.0.1:8080",
            "http://[::1]:80/x",
            "C:\\marks",
            "./a:b",
        ] {
            let place = MarkLocation::parse(text).unwrap();
            assert_eq!(place.to_string(), text);
            assert!(!place.strength().is_empty());
        }
        let folder = MarkLocation::parse("marks").unwrap();
        assert_eq!(folder.folder(), Some(Path::new("marks")));
        assert_eq!(MarkLocation::parse("keyring:"), Ok(MarkLocation::Keyring));
    }

    // T-MARK-18
    #[test]
    fn no_secret_and_no_open_line_gets_into_a_name() {
        for text in [
            "",
            "keyring:hidden",
            "keyring://hidden@login",
            "postgres://me:hidden@db.example/marks",
            "postgres://me@hidden@db.example/marks",
            "postgres://db.example/marks?password=hidden",
            "postgres://db.example/marks?sslmode=require&PassWord=hidden",
            "postgres://db.example/marks?pass%77ord=hidden",
            "http://witness.example/w",
            "https://user@witness.example/",
            "https://witness.example/?token=hidden",
            "https:///w",
            "ftp://witness.example/hidden",
            "sqlite:/hidden",
        ] {
            let error = MarkLocation::parse(text).unwrap_err().to_string();
            assert!(!error.contains("hidden"), "{text}: {error}");
        }
    }
}
