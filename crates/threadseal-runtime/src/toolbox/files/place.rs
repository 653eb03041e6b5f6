//! The owners of places below `.ai`, and the permissions to write there.
//!
//! A seal does not name the place of a file. Sealed bytes that a model copies to another id would
//! be a valid item of that id, which capabilities then judge. So writing a file below an item's
//! folder needs the permission to sign it.
//!
//! ```text
//! .ai/tools/a/b.yaml  .ai/tools/a/b.py   rye.sign.tool.a.b
//! .ai/graphs/a/b.yaml                    rye.sign.graph.a.b
//! .AI/Tools/a/b.yaml                     the same: a disk may ignore case and invisible characters
//! ```

use crate::capability::{Call, Capabilities};
use crate::item::{ItemId, ItemKind};
use std::path::{Path, PathBuf};

/// Places that only this program and people write, below the project's root.
const OURS: [&str; 7] = [
    ".ai/agent",
    ".ai/threads",
    ".ai/state",
    ".ai/config",
    ".ai/knowledge/agent/threads",
    ".ai/knowledge/agent/graphs",
    ".ai/knowledge/graphs",
];

/// The folders of items, and the kind under which they are signed. Scripts are beside the tools
/// that use them.
const ITEMS: [(&str, ItemKind); 4] = [
    (".ai/directives", ItemKind::Directive),
    (".ai/tools", ItemKind::Tool),
    (".ai/graphs", ItemKind::Graph),
    (".ai/knowledge", ItemKind::Knowledge),
];

/// Every folder that a link may be another name of.
pub(super) fn guarded() -> impl Iterator<Item = &'static str> {
    let items = ITEMS.iter().map(|(folder, _)| *folder);
    [".ai"].into_iter().chain(OURS).chain(items)
}

/// May a thread with these capabilities write `relative`, a path below the project's root?
///
/// # Errors
/// A message for the model: no thread may write there, or a capability is missing.
pub(super) fn writable(relative: &Path, capabilities: &Capabilities) -> Result<(), String> {
    let parts: Vec<String> = relative
        .components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    let refused = || format!("{} is not for models to write", relative.display());
    if OURS.iter().any(|ours| below(&parts, ours).is_some()) {
        return Err(refused());
    }
    let found = ITEMS
        .iter()
        .find_map(|(folder, kind)| below(&parts, folder).map(|rest| (*kind, rest)));
    let Some((kind, rest)) = found else {
        return Ok(());
    };
    let id =
        ItemId::parse(stem(&rest.join("/"))).map_err(|error| format!("{}: {error}", refused()))?;
    let call =
        Call::new("sign", kind.as_str(), Some(id.as_str())).map_err(|error| error.to_string())?;
    match capabilities.permits(&call) {
        true => Ok(()),
        false => Err(format!(
            "{} is the place of an item: who may not sign it may not write it; missing is the capability {call}",
            relative.display()
        )),
    }
}

fn below<'a>(parts: &'a [String], folder: &str) -> Option<&'a [String]> {
    let names: Vec<&str> = folder.split('/').collect();
    let (start, rest) = parts.split_at_checked(names.len())?;
    let same = start
        .iter()
        .zip(&names)
        .all(|(part, name)| plain(part) == *name);
    same.then_some(rest)
}

/// A name as the most lenient disk would compare it. It ignores case (the Kelvin sign is a `k`, the
/// long s an `s`) and dots at the end. It also ignores marks, format characters and anything else
/// that is not ASCII.
fn plain(name: &str) -> String {
    let folded = name.to_uppercase().to_lowercase();
    let seen: String = folded.chars().filter(char::is_ascii_graphic).collect();
    seen.trim_end_matches('.').to_owned()
}

/// An item's path without the ending that items of any kind have.
fn stem(name: &str) -> &str {
    let kinds = [ItemKind::Directive, ItemKind::Tool, ItemKind::Script];
    let mut endings = kinds.into_iter().flat_map(|kind| kind.places().1);
    match name.rsplit_once('.') {
        Some((stem, ending)) if endings.any(|known| known.eq_ignore_ascii_case(ending)) => stem,
        _ => name,
    }
}

/// `path` as it is called below `folder`, where a link makes it that.
pub(super) fn also(path: &Path, folder: &str, real: &Path) -> Option<PathBuf> {
    let rest = path.strip_prefix(real).ok()?;
    Some(Path::new(folder).join(rest))
}
