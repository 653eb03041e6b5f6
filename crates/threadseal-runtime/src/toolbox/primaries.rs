//! `rye_search`, `rye_load`, `rye_sign`: Rye's other ways to use items, beside `rye_execute`.
//!
//! ```text
//! rye_search  {item_type, query, limit?}   items whose id or text has every word; `*` for all
//!                                          rye.search.<type>
//! rye_load    {item_type, item_id}         the text of an item that verifies
//!                                          rye.load.<type>.<id>
//! rye_sign    {item_type, item_id}         seals an item of the project
//!                                          rye.sign.<type>.<id>
//! ```
//! `item_type` is directive, tool or knowledge. An item that does not verify is neither found nor
//! loaded. Signing needs a well-formed item of the project; settings, and files that a thread or
//! run has sealed, are never signed.

use super::{Invocation, Outcome, Tool, Workshop};
use crate::bounds::{
    MAX_ITEM_BYTES, MAX_SEARCH_HITS, MAX_SEARCH_SNIPPET_CHARS, MAX_SIGNATURES_BYTES,
};
use crate::capability::{Call, Capabilities};
use crate::directive::Directive;
use crate::hook_declaration::Primary;
use crate::item::{Grounds, ItemId, ItemKind};
use crate::model::ToolSchema;
use crate::signed_file::SignedFile;
use crate::tool;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use threadseal_core::error::Error;
use threadseal_core::fold::folded;
use threadseal_formats::document::{DocumentKind, ItemType};
use threadseal_store::heads::RecordKind;
use threadseal_store::read::read_small;
use threadseal_store::recorder::Keys;

/// The folders of files that threads and runs of graphs write, below `.ai/knowledge`.
const OF_THREADS: [&str; 3] = ["agent/threads", "agent/graphs", "graphs"];

/// The name of a primary for models.
pub(crate) fn primary_name(primary: Primary) -> &'static str {
    match primary {
        Primary::Execute => "rye_execute",
        Primary::Search => "rye_search",
        Primary::Load => "rye_load",
        Primary::Sign => "rye_sign",
    }
}

/// One of them, for one thread.
pub struct ItemPrimary {
    primary: Primary,
    schema: ToolSchema,
    workshop: Workshop,
    keys: Keys,
    capabilities: Capabilities,
}

impl ItemPrimary {
    /// Those that `capabilities` may permit anything of.
    pub fn all(
        workshop: &Workshop,
        keys: &Keys,
        capabilities: &Capabilities,
    ) -> Vec<(Primary, Arc<dyn Tool>)> {
        let there = [Primary::Search, Primary::Load, Primary::Sign].into_iter();
        let there = there.filter(|primary| {
            let start = format!("rye.{}.", primary.as_str());
            may_permit(capabilities, &start)
        });
        let made = there.map(|primary| {
            let tool: Arc<dyn Tool> = Arc::new(Self {
                primary,
                schema: schema(primary),
                workshop: workshop.clone(),
                keys: keys.clone(),
                capabilities: capabilities.clone(),
            });
            (primary, tool)
        });
        made.collect()
    }

    fn done(&self, input: &Value) -> Result<Value, Error> {
        let kind = match &input["item_type"] {
            Value::String(word) => ItemKind::parse_callable(word),
            _ => None,
        };
        let kind =
            kind.ok_or_else(|| Error::invalid("item_type is one of: directive, tool, knowledge"))?;
        if self.primary == Primary::Search {
            return self.search(kind, input);
        }
        let id = input["item_id"].as_str();
        let id = ItemId::parse(id.ok_or_else(|| Error::invalid("item_id must be a text"))?)?;
        self.permitted(kind, Some(&id))?;
        match self.primary {
            Primary::Sign => self.sign(kind, &id),
            _ => self.load(kind, &id),
        }
    }

    fn permitted(&self, kind: ItemKind, id: Option<&ItemId>) -> Result<(), Error> {
        let call = Call::new(self.primary.as_str(), kind.as_str(), id.map(ItemId::as_str))?;
        match self.capabilities.permits(&call) {
            true => Ok(()),
            false => Err(Error::refused(format!("no leave for {call}"))),
        }
    }

    fn grounds(&self) -> Result<Grounds<'_>, Error> {
        Ok(Grounds {
            trust: &self.workshop.trust,
            now: self.workshop.host.clock.now()?,
            heads: &*self.workshop.host.heads,
            policy: self.workshop.policy,
        })
    }

    fn search(&self, kind: ItemKind, input: &Value) -> Result<Value, Error> {
        self.permitted(kind, None)?;
        // Hooks put their query into the item id.
        let query = input["query"].as_str().or(input["item_id"].as_str());
        let query = query.ok_or_else(|| Error::invalid("query must be a text"))?;
        let words: Vec<String> = query
            .split_whitespace()
            .filter(|word| *word != "*")
            .map(folded)
            .collect();
        let most = input["limit"]
            .as_u64()
            .and_then(|most| usize::try_from(most).ok());
        let most = most.unwrap_or(MAX_SEARCH_HITS).clamp(1, MAX_SEARCH_HITS);
        let grounds = self.grounds()?;
        let (mut found, mut refused, mut more) = (Vec::new(), 0_u64, false);
        for id in self.workshop.finder.ids(kind)? {
            let Ok(item) = self.workshop.finder.load(kind, &id, &grounds) else {
                refused += 1;
                continue;
            };
            let text = format!("{id}\n{}", item.text());
            let lower = folded(&text);
            if !words.iter().all(|word| lower.contains(word.as_str())) {
                continue;
            }
            if found.len() == most {
                more = true;
                break;
            }
            let has = |line: &&str| {
                let line = folded(line);
                words.iter().any(|word| line.contains(word.as_str()))
            };
            let line = text.lines().skip(1).find(has).unwrap_or_default();
            let snippet: String = line.trim().chars().take(MAX_SEARCH_SNIPPET_CHARS).collect();
            found.push(
                json!({"item_type": kind.as_str(), "item_id": id.as_str(), "snippet": snippet}),
            );
        }
        Ok(json!({"results": found, "more": more, "not_usable": refused}))
    }

    fn load(&self, kind: ItemKind, id: &ItemId) -> Result<Value, Error> {
        let item = self.workshop.finder.load(kind, id, &self.grounds()?)?;
        Ok(json!({"item_type": kind.as_str(), "item_id": id.as_str(),
                  "sha256": item.sha256().to_hex(), "content": item.text()}))
    }

    /// Seals an item of the project. An earlier seal on it must be this host's own, and not a
    /// thread's.
    fn sign(&self, kind: ItemKind, id: &ItemId) -> Result<Value, Error> {
        let of_threads = |folder: &&str| {
            let rest = id.as_str().strip_prefix(*folder);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if kind == ItemKind::Knowledge && OF_THREADS.iter().any(of_threads) {
            let text = format!("{id}: what threads write, they seal themselves");
            return Err(Error::refused(text));
        }
        let host = &self.workshop.host;
        let path = self.place(kind, id)?;
        // With its signatures it must still be an item.
        let bytes = read_small(&*host.fs, &path, MAX_ITEM_BYTES - MAX_SIGNATURES_BYTES)?;
        let name = path.to_string_lossy();
        let document = DocumentKind::of_name(&name)
            .ok_or_else(|| Error::invalid(format!("{name}: no kind of document")))?;
        let text = std::str::from_utf8(&bytes)
            .map_err(|_| Error::invalid(format!("{name}: not UTF-8")))?;
        well_formed(kind, id, &name, text)?;
        let known = host
            .heads
            .find_by_place(RecordKind::Document, &host.place(&path))?;
        if known.as_ref().is_some_and(|known| known.thread.is_some()) {
            return Err(Error::refused(format!("{name} was sealed by a thread")));
        }
        let item_type: Option<ItemType> =
            Some(kind.rye_type()).filter(|item_type| document.fits(*item_type));
        let mut file = match &known {
            Some(known) => {
                SignedFile::over(host, &self.keys, &path, document, item_type, &known.head)?
            }
            None => SignedFile::new(host, &path, document, item_type)?,
        };
        let head = file.write(host, &self.keys, None, &bytes)?;
        Ok(json!({"item_type": kind.as_str(), "item_id": id.as_str(), "head": head.to_string()}))
    }

    /// The real path of the project's own file of this id.
    fn place(&self, kind: ItemKind, id: &ItemId) -> Result<PathBuf, Error> {
        let (fs, project) = (&*self.workshop.host.fs, &self.workshop.project);
        let (folders, endings) = kind.places();
        for folder in folders {
            for ending in endings {
                let folder = project.ai().join(folder);
                let path = folder.join(format!("{id}.{ending}"));
                if fs.symlink_metadata(&path).is_err() {
                    continue;
                }
                project.inside(fs, &path)?;
                let real = |path: &std::path::Path| {
                    fs.canonicalize(path)
                        .map_err(|error| threadseal_store::sys::failure("resolve", path, &error))
                };
                let (real_path, real_folder) = (real(&path)?, real(&folder)?);
                // A link from among the items to another file would have that file signed.
                if real_path != real_folder.join(format!("{id}.{ending}")) {
                    let text = format!("{} is a link", path.display());
                    return Err(Error::refused(text));
                }
                return Ok(real_path);
            }
        }
        Err(Error::invalid(format!("the project has no {kind} {id}")))
    }
}

impl Tool for ItemPrimary {
    fn id(&self) -> &str {
        &self.schema.name
    }

    fn schema(&self) -> &ToolSchema {
        &self.schema
    }

    fn run(&self, call: &mut Invocation<'_>) -> Outcome {
        match self.done(call.input) {
            Ok(output) => Outcome::ok(output),
            Err(error) => Outcome::failed(error.to_string()),
        }
    }
}

/// Checks that a file is well-formed for its later use, before it is signed.
fn well_formed(kind: ItemKind, id: &ItemId, name: &str, text: &str) -> Result<(), Error> {
    match kind {
        ItemKind::Directive => Directive::parse(name, text)?.check_id(id),
        ItemKind::Tool => {
            let node = crate::yaml::parse(name, text)?;
            let is_graph = node
                .fields()?
                .take("tool_type")
                .is_some_and(|kind| kind.text().is_ok_and(|kind| kind == "graph"));
            match is_graph {
                true => Err(Error::refused(format!("{id} is a graph, no tool"))),
                false => tool::Tool::parse(name, text).map(drop),
            }
        }
        _ => Ok(()),
    }
}

/// Could anything be permitted that begins so? The beginnings of the patterns are enough to decide
/// what is shown.
pub(super) fn may_permit(capabilities: &Capabilities, start: &str) -> bool {
    capabilities.iter().any(|held| {
        let text = held.as_str();
        let plain = text.find(['*', '?', '[']).map_or(text, |at| &text[..at]);
        plain.starts_with(start) || (plain.len() < text.len() && start.starts_with(plain))
    })
}

fn schema(primary: Primary) -> ToolSchema {
    let item_type = json!({"enum": ["directive", "tool", "knowledge"]});
    let (description, properties, required) = match primary {
        Primary::Search => (
            "Finds items by words of their id and text; * finds all.",
            json!({"item_type": item_type, "query": {"type": "string"},
                   "limit": {"type": "integer", "minimum": 1}}),
            json!(["item_type", "query"]),
        ),
        Primary::Sign => (
            "Signs an item of the project, so that it may be used.",
            json!({"item_type": item_type, "item_id": {"type": "string"}}),
            json!(["item_type", "item_id"]),
        ),
        _ => (
            "Reads an item.",
            json!({"item_type": item_type, "item_id": {"type": "string"}}),
            json!(["item_type", "item_id"]),
        ),
    };
    ToolSchema {
        name: primary_name(primary).to_owned(),
        description: description.to_owned(),
        parameters: json!({"type": "object", "properties": properties, "required": required}),
    }
}

#[cfg(test)]
mod tests;
