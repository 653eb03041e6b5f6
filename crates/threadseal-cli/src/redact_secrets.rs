//! Secrets that no output repeats: those in addresses of the command line, and those that threads
//! use ([`known`]).
//!
//! ```text
//! scheme://USER:SECRET@HOST/…        ─► scheme://USER@HOST/…
//! scheme://…?password=SECRET&…       ─► scheme://…?password=…&…
//! ```
//! An address can be given wherever a path can, also by mistake, and errors repeat their arguments.
//! So secrets are taken from the arguments once, before any other code reads them. All output for
//! people or programs passes here. The bytes of records do not: they stay as they are. Names that
//! are stored on disk lose their secrets where they are stored
//! ([`crate::record::without_secrets`]).

use crate::render::clean::Clean;
use crate::render::json;
use std::borrow::Cow;
use std::ffi::OsString;
use std::sync::OnceLock;
#[cfg(feature = "agent")]
use std::sync::{Arc, LazyLock};
#[cfg(feature = "agent")]
use threadseal_runtime::secrets::Secrets;

/// The texts to hide and their replacements; the longest first.
static SECRETS: OnceLock<Vec<(String, String)>> = OnceLock::new();

/// The keys and other secrets of the threads of this process.
#[cfg(feature = "agent")]
static KNOWN: LazyLock<Arc<Secrets>> = LazyLock::new(Arc::default);

/// The secrets of the threads of this process: what they learn, no output repeats.
#[cfg(feature = "agent")]
pub(crate) fn known() -> Arc<Secrets> {
    Arc::clone(&KNOWN)
}

/// Learns the secrets in the arguments, and in the setting that can hold an address.
pub(crate) fn learn(arguments: &[OsString], setting: Option<&OsString>) {
    let texts = arguments.iter().chain(setting);
    let mut secrets: Vec<_> = texts
        .flat_map(|text| secrets_of(&text.to_string_lossy()))
        .flat_map(|(hidden, shown)| spellings(&hidden).map(move |hidden| (hidden, shown.clone())))
        .collect();
    secrets.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then_with(|| a.cmp(b)));
    secrets.dedup();
    // Set once in a process; a second call would bring nothing new.
    let _ = SECRETS.set(secrets);
}

/// Is there any text to hide?
pub(crate) fn is_anything() -> bool {
    #[cfg(feature = "agent")]
    if !KNOWN.is_empty() {
        return true;
    }
    SECRETS.get().is_some_and(|secrets| !secrets.is_empty())
}

/// The text without secrets.
pub(crate) fn without(text: &str) -> Cow<'_, str> {
    let text = without_addresses(text);
    #[cfg(feature = "agent")]
    if let (Cow::Owned(masked), _) = KNOWN.mask(&text) {
        return Cow::Owned(masked);
    }
    text
}

/// JSON without secrets; a number that is one becomes a text.
pub(crate) fn without_in_json(text: &str) -> Cow<'_, str> {
    let text = without_addresses(text);
    #[cfg(feature = "agent")]
    if let (Cow::Owned(masked), _) = KNOWN.mask(&text) {
        let Ok(mut value) = serde_json::from_str(&text) else {
            return Cow::Owned(masked);
        };
        KNOWN.mask_value(&mut value);
        return Cow::Owned(value.to_string());
    }
    text
}

fn without_addresses(text: &str) -> Cow<'_, str> {
    let secrets = SECRETS.get().map(Vec::as_slice).unwrap_or_default();
    replaced(text, secrets)
}

fn replaced<'t>(text: &'t str, secrets: &[(String, String)]) -> Cow<'t, str> {
    let mut text = Cow::Borrowed(text);
    for (hidden, shown) in secrets {
        if text.contains(hidden.as_str()) {
            text = Cow::Owned(text.replace(hidden.as_str(), shown));
        }
    }
    text
}

/// The secrets of the address in a text, together with the marks around them, so that no other word
/// is hidden.
fn secrets_of(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let Some((_, rest)) = text.split_once("://") else {
        return found;
    };
    // A password can contain a mark of addresses unescaped; it still ends at the last @.
    if let Some((user, _)) = rest.rsplit_once('@')
        && let Some((_, password)) = user.split_once(':')
        && !password.is_empty()
    {
        found.push((format!(":{password}@"), "@".to_owned()));
    }
    let settings = rest.split_once('?').map_or("", |(_, settings)| settings);
    for setting in settings.split(['&', '#']) {
        if let Some((name, value)) = setting.split_once('=')
            && !value.is_empty()
            && is_secret(name)
        {
            found.push((setting.to_owned(), format!("{name}=…")));
        }
    }
    found
}

/// Can the value of a setting with this name be secret? An escaped name could be any name.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["pass", "secret", "token", "key", "signature", "%"]
        .iter()
        .any(|part| name.contains(part))
}

/// A secret as it was given, as text and JSON print it, and each of these as a part of a path.
fn spellings(hidden: &str) -> impl Iterator<Item = String> + use<> {
    let texts = [hidden.to_owned(), hidden.replace("//", "/")];
    texts.into_iter().flat_map(|text| {
        let clean = Clean(&text).to_string();
        let in_json = [&text, &clean].map(|text| {
            let json = String::from_utf8_lossy(&json::to_vec(text)).into_owned();
            json[1..json.len() - 1].to_owned()
        });
        [text, clean].into_iter().chain(in_json)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // T-CMD-05
    #[test]
    fn an_address_keeps_all_but_its_secrets() {
        for (address, shown) in [
            ("s3://key:hidden@bucket/p#id", "s3://key@bucket/p#id"),
            (
                "postgres://u:hidden@h:1/d?sslmode=disable#r",
                "postgres://u@h:1/d?sslmode=disable#r",
            ),
            ("postgres://u:hid/den@x@h/d", "postgres://u@h/d"),
            ("postgres://u:hid//den@h/d", "postgres://u@h/d"),
            ("postgres://u:hid\"den@h/d", "postgres://u@h/d"),
            (
                "postgres://h/d?PassWord=hidden&x=1#r",
                "postgres://h/d?PassWord=…&x=1#r",
            ),
            (
                "postgres://h/d?pass%77ord=hidden",
                "postgres://h/d?pass%77ord=…",
            ),
            ("--database=ftp://u:hidden@h", "--database=ftp://u@h"),
        ] {
            let secrets: Vec<_> = secrets_of(address)
                .into_iter()
                .flat_map(|(hidden, shown)| {
                    spellings(&hidden).map(move |hidden| (hidden, shown.clone()))
                })
                .collect();
            assert_eq!(replaced(address, &secrets), shown);
            let json = serde_json::Value::String(address.to_owned()).to_string();
            let in_path = address.replace("//", "/");
            for text in [json, in_path] {
                let text = replaced(&text, &secrets);
                assert!(!text.contains("hid") && !text.contains("den"), "{text}");
            }
        }
    }

    #[test]
    fn what_holds_no_secret_stays_as_it_is() {
        for address in [
            "postgres://u@h/d?sslmode=require",
            "s3://b/p#a@b:c",
            "a:b@c",
            "postgres://u:@h/d",
        ] {
            assert_eq!(secrets_of(address), [], "{address}");
        }
    }
}
