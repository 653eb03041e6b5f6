//! Records that this host sealed in a store, and that the store has no more.
//!
//! ```text
//! index of places, path hints ─► records sealed last in this store ─► not seen there, not pruned ─► missing
//! ```
//! A store lists what it has. So only the host that sealed a record there can miss it.

use super::context::Context;
use super::displacement::report_missing;
use crate::address::{self, without_secrets};
use crate::error::VerifyError;
use std::collections::BTreeSet;
use threadseal_core::record::RecordId;
use threadseal_core::report::Report;
use threadseal_store::address::{is_address, is_object_storage};
use threadseal_store::heads::{RecordKind, StoredHead};
use threadseal_store::sys::{path_text, text_path};

/// A report of each record of this kind that this host sealed last in the store at `address`, whose
/// own place is `own`, and that none of `here` is.
///
/// # Errors
/// When the heads, the log or its index of places cannot be read.
pub(super) fn gone_from(
    context: &Context,
    kind: RecordKind,
    (address, own): (&str, Option<&str>),
    here: &BTreeSet<RecordId>,
) -> Result<Vec<Report>, VerifyError> {
    let heads = &context.host.heads;
    let mut gone = Vec::new();
    for stored in sealed_in(context, kind, (address, own))? {
        let record = &stored.head.record;
        // What was sealed since this verification began may be newer than the list of the store.
        let is_later = stored.updated >= context.now;
        if is_later || here.contains(record) || heads.pruned(record)?.is_some() {
            continue;
        }
        let text = format!(
            "this host sealed it in this store up to seal {}, but the store does not have it",
            stored.head.seq
        );
        let place = without_secrets(address);
        gone.push(report_missing(context, &place, &stored, text));
    }
    Ok(gone)
}

/// The records of this kind that this host sealed last in the store at `address`, whose own place is `own`.
///
/// # Errors
/// As [`gone_from`].
pub(super) fn sealed_in(
    context: &Context,
    kind: RecordKind,
    (address, own): (&str, Option<&str>),
) -> Result<Vec<StoredHead>, VerifyError> {
    let store = StorePlace {
        key: key_of(address).or_else(|| own.and_then(key_of)),
        own,
    };
    let heads = &context.host.heads;
    let mut sealed = Vec::new();
    for record in heads.records_in(&|places| store.holds(places))? {
        let stored = heads.fetch(&record)?;
        sealed.extend(stored.filter(|stored| stored.kind == kind));
    }
    Ok(sealed)
}

/// A store, by the spelling of its address and by its own name of its place.
struct StorePlace<'p> {
    key: Option<String>,
    own: Option<&'p str>,
}

impl StorePlace<'_> {
    /// Is a record with these places, the last one last, in this store now?
    fn holds(&self, places: &[String]) -> bool {
        if let [hint] = places
            && let Some(own) = self.own
            && let Some((store, _)) = hint.split_once('#')
        {
            return own.strip_prefix("object:") == Some(store);
        }
        // Beside an address, the place by the store itself is noted.
        let last = places.iter().rev().find(|place| is_openable(place));
        if last.is_some_and(|last| !is_address(last)) {
            // It continued in a file.
            return false;
        }
        let key = last.filter(|address| !is_relative(address));
        let key = key.and_then(|address| key_of(address));
        match (&self.key, key) {
            (Some(own), Some(last)) => *own == last,
            _ => places.iter().any(|place| self.is_own(place)),
        }
    }

    /// Is it the store's own name of its place? Heads in a database name it as an address.
    fn is_own(&self, place: &str) -> bool {
        let own = |own: &str| {
            let database = own.strip_prefix("postgres:");
            let named = place.strip_prefix("postgres://");
            own == place || (database.is_some() && database == named)
        };
        self.own.is_some_and(own)
    }
}

/// Is this a place that a user can name? The others are those by the stores themselves.
pub fn is_openable(place: &str) -> bool {
    let by_server = place.starts_with("postgres:") && !place.starts_with("postgres://");
    !by_server && !place.starts_with("object:")
}

/// Does this address depend on the folder in which a command ran?
fn is_relative(address: &str) -> bool {
    let folder = address.strip_prefix("object+file:");
    folder.is_some_and(|folder| !folder.starts_with('/'))
}

/// One spelling of an address; `None` where two spellings cannot be compared.
fn key_of(address: &str) -> Option<String> {
    let real = |path: &str| {
        let path = text_path(path)?;
        Some(path_text(&path.canonicalize().unwrap_or(path)))
    };
    if let Some((url, _)) = address::database(address) {
        let (_, rest) = url.split_once("://")?;
        let (place, settings) = rest.split_once('?').unwrap_or((rest, ""));
        let (_, place) = place.rsplit_once('@').unwrap_or(("", place));
        let (server, database) = place.split_once('/')?;
        if server.is_empty() || settings.contains("host") || settings.contains("port") {
            return None;
        }
        let server = server.to_ascii_lowercase();
        let port = if server.contains(':') { "" } else { ":5432" };
        return Some(format!("postgres://{server}{port}/{database}"));
    }
    let (scheme, rest) = address.split_once(':').filter(|_| is_address(address))?;
    let scheme = scheme.to_ascii_lowercase();
    match scheme.as_str() {
        "sqlite" | "object+file" => {
            let path = rest.strip_prefix("//").unwrap_or(rest);
            Some(format!("{scheme}:{}", real(path)?))
        }
        _ if is_object_storage(address) => Some(format!("{scheme}:{}", rest.trim_end_matches('/'))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_one_key_and_another_store_has_another() {
        for (one, same) in [
            (
                "postgres://me:pw@DB.example/x",
                "postgresql://you@db.example:5432/x?sslmode=require",
            ),
            ("s3://bucket/prefix", "S3://bucket/prefix/"),
            ("sqlite:/nowhere/a.db", "sqlite:///nowhere/a.db"),
        ] {
            assert_eq!(key_of(one), key_of(same), "{one}");
            assert!(key_of(one).is_some(), "{one}");
        }
        for (one, other) in [
            ("postgres://db.example/x", "postgres://db.example/y"),
            ("postgres://db.example/x", "postgres://db.example:5433/x"),
            ("s3://bucket/prefix", "gs://bucket/prefix"),
        ] {
            assert_ne!(key_of(one), key_of(other), "{one}");
        }
        for unknown in ["postgres://me@/x", "postgres:///x?host=/run", "plain"] {
            assert_eq!(key_of(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn a_record_is_in_the_store_where_it_was_sealed_last() {
        let store = StorePlace {
            key: key_of("s3://bucket/p"),
            own: Some("object:AmazonS3(bucket), p"),
        };
        let holds = |places: &[&str]| {
            let places: Vec<String> = places.iter().map(|place| (*place).to_owned()).collect();
            store.holds(&places)
        };
        assert!(holds(&["s3://bucket/p", "object:AmazonS3(bucket), p"]));
        assert!(holds(&["/a/ledger_r.jsonl", "s3://bucket/p"]));
        assert!(!holds(&[
            "s3://bucket/p",
            "object:AmazonS3(bucket), p",
            "/a/ledger_r.jsonl"
        ]));
        assert!(holds(&["AmazonS3(bucket), p#demo/one"]));
        assert!(!holds(&["AmazonS3(bucket), q#demo/one"]));
        assert!(!holds(&["/a/s.jsonl"]));
    }
}
