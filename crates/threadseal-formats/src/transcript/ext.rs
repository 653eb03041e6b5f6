//! `seal.ext`: the registered extra members of a checkpoint.
//!
//! ```text
//! {"children":[HEAD,…],"fence":N,"next_key":HEX,"opt_…":"…","successor":HEX}
//! ```
//! Sorted by name, compact, absent members left out: one spelling (`spec/transcript.md` §3). An
//! unknown name that does not begin with `opt_` is critical.

use threadseal_core::canon::json::{self, Value};
use threadseal_core::key::PublicKey;
use threadseal_core::record::{Head, RecordId};

/// The registered members.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ext {
    /// Heads of threads that this one started.
    pub children: Vec<Head>,
    /// Fencing token of the writer that held the record's lease.
    pub fence: Option<u64>,
    /// The key that seals after this one.
    pub next_key: Option<PublicKey>,
    /// `opt_…` members, sorted: a verifier may ignore them.
    pub optional: Vec<(String, String)>,
    /// The record that continues this one.
    pub successor: Option<RecordId>,
}

/// Why an `ext` object cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ExtFault {
    UnknownCritical(String),
    Shape,
}

impl Ext {
    /// The one spelling.
    pub(crate) fn to_text(&self) -> String {
        let mut members: Vec<(&str, Vec<u8>)> = Vec::new();
        if !self.children.is_empty() {
            let heads: Vec<String> = self.children.iter().map(|h| format!("\"{h}\"")).collect();
            members.push(("children", format!("[{}]", heads.join(",")).into_bytes()));
        }
        if let Some(fence) = self.fence {
            members.push(("fence", fence.to_string().into_bytes()));
        }
        if let Some(key) = &self.next_key {
            members.push(("next_key", format!("\"{}\"", key.to_hex()).into_bytes()));
        }
        for (name, value) in &self.optional {
            let mut text = Vec::new();
            json::write_ascii_string(&mut text, value);
            members.push((name, text));
        }
        if let Some(record) = &self.successor {
            members.push(("successor", format!("\"{record}\"").into_bytes()));
        }
        members.sort();
        let members = members.iter().map(|(name, value)| {
            let mut text = Vec::new();
            json::write_ascii_string(&mut text, name);
            format!(
                "{}:{}",
                String::from_utf8_lossy(&text),
                String::from_utf8_lossy(value)
            )
        });
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    }

    /// Reads the one spelling.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, ExtFault> {
        if text == b"{}" {
            return Ok(Self::default());
        }
        let value = json::parse(text).map_err(|_| ExtFault::Shape)?;
        let mut ext = Self::default();
        for (name, value) in value.as_object().ok_or(ExtFault::Shape)? {
            let name = name.as_str().ok_or(ExtFault::Shape)?;
            ext.take(name, value)?;
        }
        (ext.to_text().as_bytes() == text)
            .then_some(ext)
            .ok_or(ExtFault::Shape)
    }

    fn take(&mut self, name: &str, value: &Value) -> Result<(), ExtFault> {
        let text = value.as_str();
        match name {
            "children" => {
                let heads = value.as_array().ok_or(ExtFault::Shape)?;
                let heads = heads.iter().map(|v| v.as_str().and_then(Head::parse));
                self.children = heads.collect::<Option<_>>().ok_or(ExtFault::Shape)?;
            }
            "fence" => self.fence = Some(value.as_u64().ok_or(ExtFault::Shape)?),
            "next_key" => {
                let key = text.and_then(|t| PublicKey::from_hex(t).ok());
                self.next_key = Some(key.ok_or(ExtFault::Shape)?);
            }
            "successor" => {
                let record = text.and_then(RecordId::parse_hex);
                self.successor = Some(record.ok_or(ExtFault::Shape)?);
            }
            name if name.starts_with("opt_") => {
                let text = text.ok_or(ExtFault::Shape)?;
                self.optional.push((name.to_owned(), text.to_owned()));
            }
            name => return Err(ExtFault::UnknownCritical(name.to_owned())),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadseal_core::digest::Digest;

    // T-TRA-06
    #[test]
    fn ext_has_one_spelling_and_refuses_unknown_critical_members() {
        let record = RecordId::from_bytes([1; 32]);
        let ext = Ext {
            children: vec![Head {
                record,
                seq: 1,
                size: 2,
                line: Digest::of(b""),
            }],
            fence: Some(7),
            next_key: None,
            optional: vec![("opt_note".to_owned(), "caf\u{e9}".to_owned())],
            successor: Some(record),
        };
        let text = ext.to_text();
        assert_eq!(Ext::parse(text.as_bytes()), Ok(ext));
        assert_eq!(Ext::parse(b"{}"), Ok(Ext::default()));
        for bad in [
            "{ }",
            "{\"fence\":7.0}",
            "{\"fence\":\"7\"}",
            "{\"successor\":null}",
            "[]",
        ] {
            assert_eq!(Ext::parse(bad.as_bytes()), Err(ExtFault::Shape), "{bad}");
        }
        assert_eq!(
            Ext::parse(b"{\"quorum\":2}"),
            Err(ExtFault::UnknownCritical("quorum".to_owned()))
        );
    }
}
