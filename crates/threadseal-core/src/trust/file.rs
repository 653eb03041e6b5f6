//! The text of a trust store.
//!
//! ```toml
//! version = 1
//!
//! [[key]]
//! name = "build host"
//! key = "64 hex digits"
//! usage = ["native"]                           # those of KeyUsage
//! scope.threads = ["agency/*"]                 # left out: ["*"]
//! scope.formats = ["transcript"]               # left out: all
//! not_before = "2026-01-01T00:00:00Z"
//! not_after = "2026-12-31T23:59:59Z"
//! revoked = { at = "2026-06-01T00:00:00Z", reason = "stolen laptop" }
//! added = "2026-01-01T00:00:00Z"
//! note = "one line"
//! ```
//! Only `version`, `name`, `key` and `usage` are required. No other member is allowed: a misspelt
//! `revokd` must not leave a key trusted. [`write`] gives one text for each store. Its entries are
//! sorted by name, members are in the order above, and defaults are left out.

use super::{Revocation, Scope, ScopeFormat, ThreadPattern, TrustName, TrustStore, TrustedKey};
use crate::error::{Error, ErrorKind};
use crate::key::{KeyUsage, PublicKey};
use crate::limits::MAX_TRUST_FILE_BYTES;
use crate::time::Timestamp;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use toml::Spanned;

const VERSION: i64 = 1;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: Spanned<i64>,
    #[serde(default)]
    key: Vec<Spanned<Entry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: Spanned<String>,
    key: Spanned<String>,
    usage: Spanned<Vec<Spanned<String>>>,
    #[serde(default)]
    scope: ScopeEntry,
    not_before: Option<Spanned<String>>,
    not_after: Option<Spanned<String>>,
    revoked: Option<RevokedEntry>,
    added: Option<Spanned<String>>,
    note: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScopeEntry {
    threads: Option<Spanned<Vec<Spanned<String>>>>,
    formats: Option<Spanned<Vec<Spanned<String>>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RevokedEntry {
    at: Spanned<String>,
    reason: String,
    entry: Option<u64>,
    next: Option<Spanned<String>>,
}

/// The source text, which gives errors their line numbers.
struct Source<'a>(&'a str);

impl Source<'_> {
    fn error_at(&self, offset: usize, error: &Error) -> Error {
        let before = self.0.as_bytes().iter().take(offset);
        let line = 1 + before.filter(|byte| **byte == b'\n').count();
        Error::new(error.kind(), format!("trust store, line {line}: {error}"))
    }

    fn read<T, V>(
        &self,
        value: &Spanned<V>,
        read: impl FnOnce(&V) -> Result<T, Error>,
    ) -> Result<T, Error> {
        read(value.get_ref()).map_err(|error| self.error_at(value.span().start, &error))
    }

    /// Reads a list without duplicates.
    fn set<T: Ord>(
        &self,
        list: &Spanned<Vec<Spanned<String>>>,
        read: impl Fn(&str) -> Result<T, Error>,
    ) -> Result<BTreeSet<T>, Error> {
        let mut set = BTreeSet::new();
        for item in list.get_ref() {
            self.read(item, |text| {
                if set.insert(read(text)?) {
                    Ok(())
                } else {
                    Err(Error::invalid(format!("{text:?} is listed twice")))
                }
            })?;
        }
        if set.is_empty() {
            let error = Error::invalid("the list is empty; hint: leave it out for all");
            return Err(self.error_at(list.span().start, &error));
        }
        Ok(set)
    }

    fn time(&self, text: Option<&Spanned<String>>) -> Result<Option<Timestamp>, Error> {
        text.map(|text| self.read(text, |text| parse_time(text)))
            .transpose()
    }

    fn entry(&self, entry: &Entry) -> Result<TrustedKey, Error> {
        let mut scope = Scope::default();
        if let Some(threads) = &entry.scope.threads {
            scope.threads = self.set(threads, ThreadPattern::parse)?;
        }
        if let Some(formats) = &entry.scope.formats {
            scope.formats = self.set(formats, |text| {
                ScopeFormat::parse(text)
                    .ok_or_else(|| Error::invalid("a format is transcript, log, json or text"))
            })?;
        }
        let revoked = match &entry.revoked {
            None => None,
            Some(revoked) => Some(Revocation {
                at: self.read(&revoked.at, |text| parse_time(text))?,
                reason: revoked.reason.clone(),
                entry: revoked.entry,
                next: match &revoked.next {
                    Some(next) => Some(self.read(next, |text| PublicKey::from_hex(text))?),
                    None => None,
                },
            }),
        };
        Ok(TrustedKey {
            name: self.read(&entry.name, |text| TrustName::parse(text))?,
            key: self.read(&entry.key, |text| PublicKey::from_hex(text))?,
            usage: self.set(&entry.usage, |text| {
                KeyUsage::parse(text).ok_or_else(|| {
                    let known = KeyUsage::ALL.map(KeyUsage::as_str).join(", ");
                    Error::invalid(format!("a usage is one of {known}"))
                })
            })?,
            scope,
            not_before: self.time(entry.not_before.as_ref())?,
            not_after: self.time(entry.not_after.as_ref())?,
            revoked,
            added: self.time(entry.added.as_ref())?,
            note: entry.note.clone(),
        })
    }
}

fn parse_time(text: &str) -> Result<Timestamp, Error> {
    Timestamp::parse_iso_seconds(text)
        .ok_or_else(|| Error::invalid("a time is written like \"2026-02-18T10:30:00Z\", in quotes"))
}

pub(super) fn parse(text: &str) -> Result<TrustStore, Error> {
    if text.len() > MAX_TRUST_FILE_BYTES {
        return Err(Error::new(
            ErrorKind::Limit,
            format!("the trust store is larger than {MAX_TRUST_FILE_BYTES} bytes"),
        ));
    }
    let source = Source(text);
    let file: File = toml::from_str(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        let message = error.message().replace(char::is_control, " ");
        source.error_at(offset, &Error::invalid(message))
    })?;
    source.read(&file.version, |version| {
        if *version == VERSION {
            Ok(())
        } else {
            Err(Error::invalid("only version 1 is known"))
        }
    })?;
    let mut store = TrustStore::new();
    for entry in &file.key {
        let parsed = source.entry(entry.get_ref())?;
        source.read(entry, |_| store.add(parsed))?;
    }
    Ok(store)
}

pub(super) fn write<'a>(entries: impl Iterator<Item = &'a TrustedKey>) -> String {
    let mut out = format!("version = {VERSION}\n");
    for entry in entries {
        out.push_str("\n[[key]]\n");
        write_entry(&mut out, entry);
    }
    out
}

fn write_entry(out: &mut String, entry: &TrustedKey) {
    let default = Scope::default();
    let time = |time: Option<Timestamp>| time.map(|time| quote(&time.to_iso_seconds()));
    let members = [
        ("name", Some(quote(entry.name.as_str()))),
        ("key", Some(quote(&entry.key.to_hex()))),
        ("usage", Some(list(entry.usage.iter().map(|u| u.as_str())))),
        (
            "scope.threads",
            (entry.scope.threads != default.threads)
                .then(|| list(entry.scope.threads.iter().map(ThreadPattern::as_str))),
        ),
        (
            "scope.formats",
            (entry.scope.formats != default.formats)
                .then(|| list(entry.scope.formats.iter().map(|f| f.as_str()))),
        ),
        ("not_before", time(entry.not_before)),
        ("not_after", time(entry.not_after)),
        (
            "revoked",
            entry.revoked.as_ref().map(|revoked| {
                let at = quote(&revoked.at.to_iso_seconds());
                let entry = revoked
                    .entry
                    .map_or(String::new(), |at| format!(", entry = {at}"));
                let next = revoked.next.map_or(String::new(), |key| {
                    format!(", next = {}", quote(&key.to_hex()))
                });
                format!(
                    "{{ at = {at}, reason = {}{entry}{next} }}",
                    quote(&revoked.reason)
                )
            }),
        ),
        ("added", time(entry.added)),
        ("note", entry.note.as_deref().map(quote)),
    ];
    for (name, value) in members {
        if let Some(value) = value {
            let _ = writeln!(out, "{name} = {value}");
        }
    }
}

fn list<'a>(items: impl Iterator<Item = &'a str>) -> String {
    let items: Vec<String> = items.map(quote).collect();
    format!("[{}]", items.join(", "))
}

/// A TOML basic string; the values are single lines, so only two characters need an escape.
fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
