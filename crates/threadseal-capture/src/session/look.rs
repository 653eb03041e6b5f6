//! The first bytes of a file, as names and short values, read as far as they reach.

use super::id::{MAX_SESSION_ID_BYTES, is_id_byte};
use super::{Agent, AgentFolder};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use sha2::{Digest as _, Sha256};
use std::cell::OnceCell;
use std::fmt::{self, Write as _};
use std::path::Path;

/// Most lines that are looked at.
const MAX_LOOK_LINES: usize = 64;
/// Most names of one line or document.
const MAX_OUTLINE_NAMES: usize = 2_000;
/// Deepest member with a name of its own: `payload.source.subagent.thread_spawn.parent_thread_id`.
const MAX_OUTLINE_DEPTH: usize = 5;
/// Longest value that is kept.
const MAX_OUTLINE_VALUE_BYTES: usize = 4 << 10;

/// A file, as far as it is read.
pub(super) struct Look<'a> {
    path: &'a Path,
    head: &'a [u8],
    folders: &'a [AgentFolder],
    lines: Vec<Outline>,
    document: Option<Outline>,
    detected: OnceCell<Option<&'static str>>,
}

/// The members of one JSON object, by path: `info.id`. Of an array only the first element counts,
/// under the name of the array.
#[derive(Debug, Default)]
pub(super) struct Outline {
    members: Vec<(String, Option<String>)>,
}

impl<'a> Look<'a> {
    /// `None` if the file is empty.
    pub(super) fn new(path: &'a Path, head: &'a [u8], folders: &'a [AgentFolder]) -> Option<Self> {
        let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
        let mut whole_lines = head.split(|byte| *byte == b'\n');
        let first = whole_lines.find(|line| !line.iter().all(u8::is_ascii_whitespace))?;
        let (lines, document) = match Outline::of(first) {
            (outline, true) => {
                let rest = whole_lines.take(MAX_LOOK_LINES);
                let rest = rest.filter(|line| line.first() == Some(&b'{'));
                let rest = rest.map(|line| Outline::of(line).0);
                (std::iter::once(outline).chain(rest).collect(), None)
            }
            (_, false) => (Vec::new(), Some(Outline::of(head).0)),
        };
        Some(Self {
            path,
            head,
            folders,
            lines,
            document,
            detected: OnceCell::new(),
        })
    }

    pub(super) fn head(&self) -> &[u8] {
        self.head
    }

    /// The lines. A text whose first line is cut, or is no object, is one line.
    pub(super) fn lines(&self) -> impl Iterator<Item = &Outline> {
        self.document.iter().chain(&self.lines)
    }

    /// A document of several lines, or whose only line is longer than the head.
    pub(super) fn document(&self) -> Option<&Outline> {
        self.document.as_ref().or(match self.lines.as_slice() {
            [only] => Some(only),
            _ => None,
        })
    }

    /// The document or the first line.
    pub(super) fn first(&self) -> Option<&Outline> {
        self.lines().next()
    }

    /// The first value called `name`.
    pub(super) fn first_of(&self, name: &str) -> Option<&str> {
        self.lines().find_map(|line| line.get(name))
    }

    /// The name of the mapping that detects this content.
    pub(super) fn detected(&self) -> Option<&'static str> {
        *self.detected.get_or_init(|| {
            let whole = match self.lines.is_empty() {
                true => self.head,
                false => match self.head.iter().rposition(|byte| *byte == b'\n') {
                    Some(end) => &self.head[..=end],
                    None => self.head,
                },
            };
            threadseal_convert::detect(whole).map(|format| format.name)
        })
    }

    /// The name of the file before its first dot; before its last, if it begins with a dot.
    pub(super) fn stem(&self) -> &str {
        let name = self.path.file_name().and_then(|name| name.to_str());
        let name = name.unwrap_or_default();
        match name.find('.') {
            Some(end) if end > 0 => &name[..end],
            _ => name,
        }
    }

    /// Is the file in a folder of this name, at any depth?
    pub(super) fn is_below(&self, name: &str) -> bool {
        let mut folders = self.path.ancestors().skip(1);
        folders.any(|folder| folder.file_name().is_some_and(|found| found == name))
    }

    /// The folder that holds the folder `subagents` of the file.
    pub(super) fn subagent_of(&self) -> Option<&str> {
        let folder = self.path.parent()?;
        let is_it = folder.file_name().is_some_and(|name| name == "subagents");
        folder.parent()?.file_name()?.to_str().filter(|_| is_it)
    }

    /// The folder that holds the file.
    pub(super) fn folder(&self) -> Option<&str> {
        self.path.parent().and_then(Path::to_str)
    }

    /// The name of the folder that holds the file.
    pub(super) fn folder_name(&self) -> Option<&str> {
        self.path.parent()?.file_name()?.to_str()
    }

    pub(super) fn is_in_folder_of(&self, agent: Agent) -> bool {
        let mut ours = self.folders.iter().filter(|known| known.agent == agent);
        ours.any(|known| self.path.starts_with(&known.folder))
    }

    /// An id for a file whose program writes none: it stays the same while the file is in its place.
    pub(super) fn path_id(&self) -> String {
        hex(
            &Sha256::digest(self.path.as_os_str().as_encoded_bytes()),
            16,
        )
    }

    /// Gemini hashes the project's folder and lists it in its first message. The list counts only if
    /// the hash agrees; else the folder of the log has the project's name.
    pub(super) fn gemini_project(&self, hash: Option<&str>) -> Option<String> {
        const LISTED: &str = "- **Workspace Directories:**\\n  - ";
        let text = String::from_utf8_lossy(self.head);
        let listed = text.split_once(LISTED).and_then(|(_, rest)| {
            let end = rest.find("\\n")?;
            Some(rest[..end].to_owned())
        });
        let agrees = |folder: &String| hash == Some(hex(&Sha256::digest(folder), 32).as_str());
        listed.filter(agrees).or_else(|| {
            let chats = self
                .path
                .ancestors()
                .find(|folder| folder.ends_with("chats"))?;
            let name = chats.parent()?.file_name()?.to_str()?;
            (hash != Some(name)).then(|| name.to_owned())
        })
    }
}

impl Outline {
    /// The outline of the JSON text that `bytes` begin with, and whether it is whole.
    pub(super) fn of(bytes: &[u8]) -> (Self, bool) {
        let mut outline = Self::default();
        let mut reader = serde_json::Deserializer::from_slice(bytes);
        let seed = Filling {
            outline: &mut outline,
            name: String::new(),
            depth: 0,
        };
        let whole = seed.deserialize(&mut reader).is_ok() && reader.end().is_ok();
        let object = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
        (outline, whole && object)
    }

    /// Has it no member, or is it no object?
    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.members.iter().any(|(known, _)| known == name)
    }

    /// The value called `name`, if it is a string, a number or a truth value.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let mut known = self.members.iter().filter(|(known, _)| known == name);
        known.find_map(|(_, value)| value.as_deref())
    }

    fn add(&mut self, name: &str, value: Option<&str>) {
        if self.members.len() < MAX_OUTLINE_NAMES {
            let value = value.filter(|value| value.len() <= MAX_OUTLINE_VALUE_BYTES);
            self.members
                .push((name.to_owned(), value.map(str::to_owned)));
        }
    }
}

/// Fills an outline while a text is read, so that a text that is cut still has its beginning.
struct Filling<'o> {
    outline: &'o mut Outline,
    name: String,
    depth: usize,
}

impl Filling<'_> {
    fn value<E>(self, value: Option<&str>) -> Result<(), E> {
        if self.depth > 0 {
            self.outline.add(&self.name, value);
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Filling<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Filling<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.value(Some(if value { "true" } else { "false" }))
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.value(Some(&value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.value(Some(&value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.value(Some(&value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.value(Some(value))
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.value(None)
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        if self.depth > 0 {
            self.outline.add(&self.name, None);
        }
        while let Some(name) = map.next_key::<String>()? {
            if self.depth >= MAX_OUTLINE_DEPTH {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let name = match self.name.is_empty() {
                true => name,
                false => format!("{}.{name}", self.name),
            };
            map.next_value_seed(Filling {
                outline: self.outline,
                name,
                depth: self.depth + 1,
            })?;
        }
        Ok(())
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut items: S) -> Result<(), S::Error> {
        if self.depth > 0 {
            self.outline.add(&self.name, None);
            let first = Filling {
                outline: self.outline,
                name: self.name,
                depth: self.depth,
            };
            if items.next_element_seed(first)?.is_none() {
                return Ok(());
            }
        }
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

/// `text`, if it can be a part of an id; else a name made from its hash.
pub(super) fn hash_name(text: &str) -> String {
    let fits = !text.is_empty()
        && text.len() <= MAX_SESSION_ID_BYTES
        && text.bytes().all(is_id_byte)
        && !text.starts_with('.');
    match fits {
        true => text.to_owned(),
        false => format!("x{}", hex(&Sha256::digest(text), 16)),
    }
}

/// Whether `text` has the form of a UUID.
pub(super) fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    let hex = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    lengths == [8, 4, 4, 4, 12] && text.bytes().all(hex)
}

fn hex(bytes: &[u8], most: usize) -> String {
    bytes
        .iter()
        .take(most)
        .fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}
