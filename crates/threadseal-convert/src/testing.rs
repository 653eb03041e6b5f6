//! Views of sources as they were mapped; the tests of all formats use them.

pub(crate) use crate::{Draft, Mapped, detect, find};
pub(crate) use threadseal_core::canon::json::{Value, parse};

use crate::Group;

/// A source of the format `name`, mapped.
#[track_caller]
pub(crate) fn mapped_as(name: &str, source: impl AsRef<[u8]>) -> Mapped {
    find(name).unwrap().map(source.as_ref()).unwrap()
}

/// The same, of a source whose format is detected.
#[track_caller]
pub(crate) fn detected(name: &str, source: impl AsRef<[u8]>) -> Mapped {
    assert_eq!(detect(source.as_ref()).unwrap().name, name);
    mapped_as(name, source)
}

/// The value of a JSON text.
#[track_caller]
pub(crate) fn json(text: &str) -> Value {
    parse(text.as_bytes()).unwrap()
}

/// The roles of all turns.
pub(crate) fn roles(mapped: &Mapped) -> String {
    let turns = mapped.turns();
    let roles: Vec<_> = turns
        .iter()
        .map(|turn| format!("{:?}", turn.role))
        .collect();
    roles.join(" ").to_lowercase()
}

/// `lines pointer reason` of each dropped part, except for words that the form of a turn expresses.
pub(crate) fn dropped(mapped: &Mapped) -> Vec<String> {
    let shown = |group: Group<'_>| format!("{} {} {}", group.lines, group.pointer, group.reason);
    let groups = mapped.account.dropped();
    groups
        .filter(|group| group.reason != "form")
        .map(shown)
        .collect()
}

/// `reason lines` of each part that was dropped at `pointer`.
pub(crate) fn dropped_at(mapped: &Mapped, pointer: &str) -> Vec<String> {
    let shown = |group: Group<'_>| format!("{} {}", group.reason, group.lines);
    let groups = mapped.account.dropped();
    groups
        .filter(|group| group.pointer == pointer)
        .map(shown)
        .collect()
}

/// The pointers of the altered parts.
pub(crate) fn altered(mapped: &Mapped) -> Vec<&str> {
    mapped
        .account
        .altered()
        .map(|group| group.pointer)
        .collect()
}

/// The numbers of calls and of results.
pub(crate) fn calls(mapped: &Mapped) -> (u64, u64) {
    (mapped.account.tool_calls, mapped.account.tool_results)
}

/// The items of a turn's message.
#[track_caller]
pub(crate) fn items(draft: &Draft) -> &[Value] {
    draft.messages[0].content.as_array().unwrap()
}

/// The types of the items.
#[track_caller]
pub(crate) fn kinds(draft: &Draft) -> Vec<&str> {
    let kinds = items(draft).iter();
    kinds
        .filter_map(|item| item.get("type")?.as_str())
        .collect()
}

/// A member of a turn's source item.
pub(crate) fn source<'a>(draft: &'a Draft, name: &str) -> Option<&'a Value> {
    let content = &draft.messages.last()?.content;
    content.as_array()?.first()?.get(name)
}

/// The same, if it is a text.
pub(crate) fn word<'a>(draft: &'a Draft, name: &str) -> Option<&'a str> {
    source(draft, name)?.as_str()
}
