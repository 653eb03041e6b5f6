//! [`SignedSettings`]: the settings that a record names as signed, and those of them that are gone.
//!
//! A host refuses a lost setting that it sealed itself (`item::find`). Another host knows no seal of
//! it: there the record of the thread before is what shows the loss.

use crate::bounds::MAX_LISTED_ITEMS;
use crate::item::{ItemKind, Used};
use serde_json::{Value, json};

/// The settings that a thread used under the signature of a trusted key: id and SHA-256 of each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SignedSettings(Vec<(String, String)>);

impl SignedSettings {
    /// Those of the payloads of `item_used` in a record.
    pub(crate) fn of(used: impl Iterator<Item = Value>) -> Self {
        let is_signed = |used: &Value| {
            used["kind"] == ItemKind::Config.as_str() && used["standing"] == "signed"
        };
        let text = |used: &Value, name: &str| used[name].as_str().map(str::to_owned);
        let signed = used.filter(is_signed);
        let named = signed.filter_map(|used| Some((text(&used, "id")?, text(&used, "sha256")?)));
        Self(named.collect())
    }

    /// The event of a thread that continues under the settings `now`, if any of these is gone. A
    /// setting that was changed is not: its new file is an event of its own.
    pub(crate) fn missing(&self, now: &[Used]) -> Option<(&'static str, Value)> {
        let now = now.iter().filter(|used| used.kind == ItemKind::Config);
        let mut now: Vec<(&str, &str)> = now
            .map(|used| (used.id.as_str(), used.sha256.as_str()))
            .collect();
        let mut gone: Vec<&(String, String)> = self.0.iter().collect();
        // A space may have lost its file, and another one still have its own of the same id.
        gone.retain(|(id, sha256)| !take(&mut now, |there| there == (id, sha256)));
        gone.retain(|(id, _)| !take(&mut now, |there| there.0 == id));
        let named = gone.iter().take(MAX_LISTED_ITEMS);
        let named: Vec<Value> = named
            .map(|(id, sha256)| json!({"id": id, "sha256": sha256}))
            .collect();
        (!named.is_empty()).then(|| ("settings_missing", json!({"settings": named})))
    }
}

/// Removes the first that is so; was there one?
fn take(from: &mut Vec<(&str, &str)>, is: impl Fn((&str, &str)) -> bool) -> bool {
    let at = from.iter().position(|one| is(*one));
    at.map(|at| from.swap_remove(at)).is_some()
}
