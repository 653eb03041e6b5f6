//! Hooks in JSON with comments. All that is not ours keeps its bytes.
//!
//! ```text
//! Grouped (Claude Code, Codex, Gemini, Qwen)          Flat (Copilot)
//! {"hooks": {                                         {"version": 1, "hooks": {
//!   "Stop": [                                           "agentStop": [
//!     {"matcher": "*", "hooks": [                         {"type": "command", "bash": …, "timeoutSec": 20}
//!       {"type": "command", "command": …, "timeout": 20}  ]}}
//!     ]}]}}
//! ```
//! A hook of ours that is there is changed in place, so it keeps its position: Codex trusts a hook
//! by its position. A missing one is added after the hooks of the user.

mod cut;

use super::HookEntry;
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode};
use std::collections::BTreeSet;
use threadseal_core::error::Error;

/// The mark that some editors put at the start of a file.
const BYTE_ORDER_MARK: char = '\u{feff}';
/// The most hooks of ours that are removed from one file.
const MAX_OWN_HOOKS: usize = 1000;

/// How a file writes its hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Groups with a matcher, each with its hooks.
    Grouped,
    /// Hooks alone.
    Flat,
}

/// A text with our hooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WithHooks {
    /// The new text; the old one if nothing had to change.
    pub text: String,
    /// How many hooks of the user it has.
    pub kept: usize,
    /// How many of our hooks were there before.
    pub replaced: usize,
}

/// A text without our hooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WithoutHooks {
    /// The new text.
    pub text: String,
    /// Has it no content any more?
    pub is_empty: bool,
    /// How many hooks were removed.
    pub removed: usize,
    /// How many hooks of the user follow a removed one at the same event: their position changed.
    pub moved: usize,
}

/// A hook in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundHook {
    /// The event.
    pub event: String,
    /// The command line.
    pub command: String,
    /// The matcher of its group.
    pub matcher: Option<String>,
    /// The time limit, if it is a number.
    pub timeout: Option<u32>,
    /// Its group at this event, from 0.
    pub group: usize,
    /// Its position in the group, from 0.
    pub position: usize,
}

/// Adds hooks to a text, or changes those of ours that are there. `is_ours` decides by the command.
///
/// # Errors
/// When the text is no JSON, names a member twice, or has hooks of another form.
pub fn with_hooks(
    text: &str,
    shape: Shape,
    wanted: &[HookEntry],
    is_ours: &dyn Fn(&str) -> bool,
) -> Result<WithHooks, Error> {
    let file = File::parse(text, shape)?;
    let found = file.handlers()?;
    let (ours, kept) = divide(&found, is_ours);
    let replaced = ours.len();
    if matches_all(&ours, wanted, shape) {
        let text = text.to_owned();
        return Ok(WithHooks {
            text,
            kept,
            replaced,
        });
    }
    // Hooks of ours at other events, and doubled ones, go first.
    let surplus = |handler: &Handler, earlier: &[String]| {
        let is_wanted = wanted.iter().any(|entry| entry.event == handler.event);
        is_ours(&handler.command) && (!is_wanted || earlier.contains(&handler.event))
    };
    let text = remove_each(text, shape, is_ours, &surplus, &|_| false)?.0;
    let file = File::parse(&text, shape)?;
    let mut served = BTreeSet::new();
    for handler in file
        .handlers()?
        .iter()
        .filter(|handler| is_ours(&handler.command))
    {
        if let Some(entry) = wanted.iter().find(|entry| entry.event == handler.event) {
            handler.change(entry, shape);
            served.insert(entry.event);
        }
    }
    for entry in wanted.iter().filter(|entry| !served.contains(entry.event)) {
        file.append(entry)?;
    }
    Ok(WithHooks {
        text: file.text(),
        kept,
        replaced,
    })
}

/// Removes our hooks. A group, list or member that became empty goes, too, unless the text `before`
/// had it.
///
/// # Errors
/// As [`with_hooks`].
pub fn without_hooks(
    text: &str,
    before: Option<&str>,
    shape: Shape,
    is_ours: &dyn Fn(&str) -> bool,
) -> Result<WithoutHooks, Error> {
    let file = File::parse(text, shape)?;
    let found = file.handlers()?;
    let (ours, _) = divide(&found, is_ours);
    let moved = found.iter().filter(|handler| {
        let follows = |own: &&Handler| own.event == handler.event && own.order() < handler.order();
        !is_ours(&handler.command) && ours.iter().any(follows)
    });
    let (moved, removed) = (moved.count(), ours.len());
    let before = before.and_then(|before| File::parse(before, shape).ok());
    let had = |member: Member| before.as_ref().is_some_and(|before| before.has(member));
    let own = |handler: &Handler, _: &[String]| is_ours(&handler.command);
    let (text, file) = remove_each(text, shape, is_ours, &own, &had)?;
    Ok(WithoutHooks {
        is_empty: file.is_empty(shape),
        text,
        removed,
        moved,
    })
}

/// Removes the hooks that `is_surplus` selects by the hook and the events of our hooks before it.
fn remove_each(
    text: &str,
    shape: Shape,
    is_ours: &dyn Fn(&str) -> bool,
    is_surplus: &dyn Fn(&Handler, &[String]) -> bool,
    had: &dyn Fn(Member) -> bool,
) -> Result<(String, File), Error> {
    let mut text = text.to_owned();
    for _ in 0..=MAX_OWN_HOOKS {
        let file = File::parse(&text, shape)?;
        let mut earlier = Vec::new();
        let found = file.handlers()?;
        let surplus = found.iter().find(|handler| {
            let found = is_surplus(handler, &earlier);
            if is_ours(&handler.command) {
                earlier.push(handler.event.clone());
            }
            found
        });
        let Some(handler) = surplus else {
            return Ok((text, file));
        };
        let node = file.outermost(handler, had);
        let plain = file.root.to_string();
        let mut left = String::new();
        let mut at = 0;
        for range in cut::ranges(&plain, &node) {
            left.push_str(&plain[at..range.start]);
            at = range.end;
        }
        left.push_str(&plain[at..]);
        text = file.with_mark(&left);
    }
    Err(Error::invalid(format!(
        "it has more than {MAX_OWN_HOOKS} hooks of threadseal"
    )))
}

/// All hooks of a text.
///
/// # Errors
/// As [`with_hooks`].
pub fn hooks(text: &str, shape: Shape) -> Result<Vec<FoundHook>, Error> {
    let found = File::parse(text, shape)?.handlers()?;
    Ok(found.iter().map(|handler| handler.found(shape)).collect())
}

/// The value of a member at a path of names, if each step is an object.
///
/// # Errors
/// When the text is no JSON.
pub fn member(text: &str, path: &[&str]) -> Result<Option<serde_json::Value>, Error> {
    let file = File::parse(text, Shape::Grouped)?;
    let value: serde_json::Value = serde_json::from_str(&plain(&file.root)).unwrap_or_default();
    let mut at = Some(&value);
    for name in path {
        at = at.and_then(|value| value.get(name));
    }
    Ok(at.cloned())
}

/// The JSON of a file without comments and trailing commas.
fn plain(root: &CstRootNode) -> String {
    fn write(node: &CstNode, out: &mut String) {
        if let Some(object) = node.as_object() {
            out.push('{');
            for (index, property) in object.properties().iter().enumerate() {
                let comma = if index > 0 { "," } else { "" };
                let name = property.decoded_name().unwrap_or_default();
                out.push_str(comma);
                out.push_str(&serde_json::Value::from(name).to_string());
                out.push(':');
                match property.value() {
                    Some(value) => write(&value, out),
                    None => out.push_str("null"),
                }
            }
            out.push('}');
        } else if let Some(array) = node.as_array() {
            out.push('[');
            for (index, element) in array.elements().iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                write(element, out);
            }
            out.push(']');
        } else {
            out.push_str(&node.to_string());
        }
    }
    let mut out = String::new();
    if let Some(value) = root.value() {
        write(&value, &mut out);
    }
    out
}

/// A member that a file may have had before us.
#[derive(Debug, Clone, Copy)]
enum Member<'a> {
    Hooks,
    Event(&'a str),
}

/// A parsed file. Its nodes hold weak references to the root, so both are kept together.
struct File {
    root: CstRootNode,
    has_mark: bool,
    shape: Shape,
}

/// A hook in the tree.
struct Handler {
    event: String,
    group: usize,
    position: usize,
    command: String,
    node: CstObject,
    group_node: Option<CstObject>,
    list: CstArray,
}

impl File {
    fn parse(text: &str, shape: Shape) -> Result<Self, Error> {
        let stripped = text.strip_prefix(BYTE_ORDER_MARK);
        let options = ParseOptions {
            allow_comments: true,
            allow_loose_object_property_names: false,
            allow_trailing_commas: true,
            allow_missing_commas: false,
            allow_single_quoted_strings: false,
            allow_hexadecimal_numbers: false,
            allow_unary_plus_numbers: false,
            allow_bare_decimal_point_numbers: false,
            allow_non_finite_numbers: false,
            allow_extended_string_escapes: false,
        };
        let root = CstRootNode::parse(stripped.unwrap_or(text), &options)
            .map_err(|error| Error::invalid(error.to_string()))?;
        match root.value() {
            Some(value) if value.as_object().is_none() => {
                return Err(Error::invalid("the file is no JSON object"));
            }
            _ => {}
        }
        Ok(Self {
            root,
            has_mark: stripped.is_some(),
            shape,
        })
    }

    fn text(&self) -> String {
        self.with_mark(&self.root.to_string())
    }

    fn with_mark(&self, text: &str) -> String {
        let mark = if self.has_mark { "\u{feff}" } else { "" };
        format!("{mark}{text}")
    }

    /// The member `hooks`, if there is one.
    fn hooks(&self) -> Result<Option<CstObject>, Error> {
        let Some(object) = self.root.object_value() else {
            return Ok(None);
        };
        let Some(property) = only(&object, "hooks")? else {
            return Ok(None);
        };
        match property.object_value() {
            Some(hooks) => Ok(Some(hooks)),
            None => Err(Error::invalid("its member hooks is no object")),
        }
    }

    fn has(&self, member: Member) -> bool {
        let hooks = self.hooks().ok().flatten();
        hooks.is_some_and(|hooks| match member {
            Member::Hooks => true,
            Member::Event(name) => hooks.get(name).is_some(),
        })
    }

    /// All hooks that are commands.
    fn handlers(&self) -> Result<Vec<Handler>, Error> {
        let mut found = Vec::new();
        let Some(hooks) = self.hooks()? else {
            return Ok(found);
        };
        let mut events = BTreeSet::new();
        for property in hooks.properties() {
            let event = property.decoded_name().unwrap_or_default();
            if !events.insert(event.clone()) {
                return Err(twice(&event));
            }
            // Gemini keeps other members beside the events.
            let Some(list) = property.array_value() else {
                continue;
            };
            match self.shape {
                Shape::Flat => read_list(&event, 0, None, &list, "bash", &mut found),
                Shape::Grouped => {
                    for (index, group) in list.elements().iter().enumerate() {
                        let Some(group) = group.as_object() else {
                            continue;
                        };
                        if let Some(list) = group.array_value("hooks") {
                            let of = Some(&group);
                            read_list(&event, index, of, &list, "command", &mut found);
                        }
                    }
                }
            }
        }
        Ok(found)
    }

    /// Adds a hook after those of its event.
    fn append(&self, entry: &HookEntry) -> Result<(), Error> {
        let object = self.root.object_value_or_set();
        if self.shape == Shape::Flat && object.get("version").is_none() {
            object.append("version", CstInputValue::Number("1".to_owned()));
        }
        let hooks = match self.hooks()? {
            Some(hooks) => hooks,
            None => object.object_value_or_set("hooks"),
        };
        let list = hooks.array_value_or_create(entry.event).ok_or_else(|| {
            Error::invalid(format!("its member hooks.{} is no list", entry.event))
        })?;
        let handler = handler(entry, self.shape);
        list.append(match self.shape {
            Shape::Flat => handler,
            Shape::Grouped => group(entry, handler),
        });
        list.ensure_multiline();
        Ok(())
    }

    /// The outermost node that holds nothing but this hook, and that the file did not have before.
    fn outermost(&self, handler: &Handler, had: &dyn Fn(Member) -> bool) -> CstNode {
        let alone = |list: &CstArray| list.elements().len() == 1 && !has_comment(&list.children());
        let mut node: CstNode = handler.node.clone().into();
        if let Some(group) = &handler.group_node {
            if !alone(&handler.list) || has_comment(&group.children()) {
                return node;
            }
            node = group.clone().into();
        }
        let Ok(Some(hooks)) = self.hooks() else {
            return node;
        };
        let event = hooks.get(&handler.event);
        let list = event.as_ref().and_then(CstObjectProp::array_value);
        let (Some(event), Some(list)) = (event, list) else {
            return node;
        };
        if !alone(&list) || had(Member::Event(&handler.event)) {
            return node;
        }
        node = event.into();
        let is_last = hooks.properties().len() == 1 && !has_comment(&hooks.children());
        let object = self.root.object_value();
        match object.and_then(|object| object.get("hooks")) {
            Some(property) if is_last && !had(Member::Hooks) => property.into(),
            _ => node,
        }
    }

    /// Has it no member but those that a file of ours always has, and no comment?
    fn is_empty(&self, shape: Shape) -> bool {
        if has_comment(&self.root.children()) {
            return false;
        }
        self.root.object_value().is_none_or(|object| {
            let version = |property: &CstObjectProp| {
                property.decoded_name().as_deref() == Some("version") && shape == Shape::Flat
            };
            object.properties().iter().all(version) && !has_comment(&object.children())
        })
    }
}

fn has_comment(nodes: &[CstNode]) -> bool {
    nodes.iter().any(CstNode::is_comment)
}

/// The member `name`, which must not be there twice: readers differ in which one they take.
fn only(object: &CstObject, name: &str) -> Result<Option<CstObjectProp>, Error> {
    let properties = object.properties().into_iter();
    let mut named = properties.filter(|property| property.decoded_name().as_deref() == Some(name));
    let first = named.next();
    match named.next() {
        Some(_) => Err(twice(name)),
        None => Ok(first),
    }
}

fn twice(name: &str) -> Error {
    Error::invalid(format!("it has the member {name} twice"))
}

fn read_list(
    event: &str,
    group: usize,
    group_node: Option<&CstObject>,
    list: &CstArray,
    member: &str,
    found: &mut Vec<Handler>,
) {
    for (position, node) in list.elements().iter().enumerate() {
        let Some(node) = node.as_object() else {
            continue;
        };
        if let Some(command) = string(&node, member) {
            found.push(Handler {
                event: event.to_owned(),
                group,
                position,
                command,
                node,
                group_node: group_node.cloned(),
                list: list.clone(),
            });
        }
    }
}

fn string(object: &CstObject, member: &str) -> Option<String> {
    let value = object.get(member)?.value()?;
    value.as_string_lit()?.decoded_value().ok()
}

fn divide<'h>(found: &'h [Handler], is_ours: &dyn Fn(&str) -> bool) -> (Vec<&'h Handler>, usize) {
    let ours: Vec<&Handler> = found
        .iter()
        .filter(|handler| is_ours(&handler.command))
        .collect();
    let kept = found.len() - ours.len();
    (ours, kept)
}

/// Are exactly the wanted hooks there?
fn matches_all(ours: &[&Handler], wanted: &[HookEntry], shape: Shape) -> bool {
    let matches = |entry: &HookEntry| {
        let found = ours.iter().filter(|handler| handler.event == entry.event);
        found.filter(|handler| handler.equals(entry, shape)).count() == 1
    };
    ours.len() == wanted.len() && wanted.iter().all(matches)
}

impl Handler {
    fn order(&self) -> (usize, usize) {
        (self.group, self.position)
    }

    fn found(&self, shape: Shape) -> FoundHook {
        let group = self.group_node.as_ref();
        FoundHook {
            event: self.event.clone(),
            command: self.command.clone(),
            matcher: group.and_then(|group| string(group, "matcher")),
            timeout: self.timeout(shape),
            group: self.group,
            position: self.position,
        }
    }

    fn timeout(&self, shape: Shape) -> Option<u32> {
        let value = self.node.get(limit_name(shape))?.value()?;
        value.as_number_lit()?.to_string().parse().ok()
    }

    fn equals(&self, entry: &HookEntry, shape: Shape) -> bool {
        let matcher = || {
            self.group_node
                .as_ref()
                .and_then(|group| string(group, "matcher"))
        };
        self.command == entry.command
            && self.timeout(shape) == Some(entry.timeout)
            && (self.shares_its_group() || matcher().as_deref() == entry.matcher)
    }

    /// Has the user put hooks of his own into our group?
    fn shares_its_group(&self) -> bool {
        self.group_node.is_none() || self.list.elements().len() > 1
    }

    /// Gives a hook of another version the command and limits of this one.
    fn change(&self, entry: &HookEntry, shape: Shape) {
        set(
            &self.node,
            command_name(shape),
            entry.command.clone().into(),
        );
        if self.node.get("powershell").is_some() {
            set(&self.node, "powershell", entry.command.clone().into());
        }
        set(&self.node, limit_name(shape), number(entry.timeout));
        if let (Some(group), false) = (&self.group_node, self.shares_its_group()) {
            match entry.matcher {
                Some(matcher) => set(group, "matcher", matcher.into()),
                None => {
                    if let Some(property) = group.get("matcher") {
                        property.remove();
                    }
                }
            }
        }
    }
}

fn set(object: &CstObject, member: &str, value: CstInputValue) {
    match object.get(member) {
        Some(property) => property.set_value(value),
        None => {
            object.append(member, value);
        }
    }
}

fn command_name(shape: Shape) -> &'static str {
    match shape {
        Shape::Grouped => "command",
        Shape::Flat => "bash",
    }
}

fn limit_name(shape: Shape) -> &'static str {
    match shape {
        Shape::Grouped => "timeout",
        Shape::Flat => "timeoutSec",
    }
}

fn number(value: u32) -> CstInputValue {
    CstInputValue::Number(value.to_string())
}

fn handler(entry: &HookEntry, shape: Shape) -> CstInputValue {
    let name = entry.name.map(|name| ("name".to_owned(), name.into()));
    let mut members = vec![("type".to_owned(), "command".into())];
    members.extend(name);
    members.push((command_name(shape).to_owned(), entry.command.clone().into()));
    members.push((limit_name(shape).to_owned(), number(entry.timeout)));
    CstInputValue::Object(members)
}

fn group(entry: &HookEntry, handler: CstInputValue) -> CstInputValue {
    let matcher = entry
        .matcher
        .map(|matcher| ("matcher".to_owned(), matcher.into()));
    let hooks = ("hooks".to_owned(), CstInputValue::Array(vec![handler]));
    CstInputValue::Object(matcher.into_iter().chain([hooks]).collect())
}

#[cfg(test)]
mod tests;
