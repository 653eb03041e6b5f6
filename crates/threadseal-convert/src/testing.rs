//! Views of sources as they were mapped; the tests of all formats use them.

pub(crate) use crate::{Draft, Mapped, detect, find};
pub(crate) use threadseal_core::canon::json::{Value, parse};

use crate::Group;

/// A source of the format `name`, mapped.
#[track_caller]
pub(crate) fn mapped_as(name: &str, source: impl AsRef<[u8]>) -> Mapped {
    // Without the rule that a mapping knows most of its source: tests have short sources.
    (find(name).unwrap().map)(source.as_ref()).unwrap()
}

/// The same, of a source whose format is detected.
#[track_caller]
pub(crate) fn detected(name: &str, source: impl AsRef<[u8]>) -> Mapped {
    assert_eq!(detect(source.as_ref()).unwrap().name, name);
    mapped_as(name, source)
}

/// Maps a source of these lines, whole, with each line missing, cut and with bytes changed: no
/// source makes a mapping panic, and each result is turns of the schema.
#[track_caller]
pub(crate) fn hostile(name: &str, lines: &[&str]) {
    let format = find(name).unwrap();
    let attack = |source: &[u8]| {
        if let Ok(mapped) = (format.map)(source) {
            mapped.into_turns().unwrap();
        }
    };
    for source in [
        "",
        "\n\n",
        "{}",
        "[]",
        "[7]",
        "7",
        "{\"a\":[[[]]]}\n[1]\nnull",
    ] {
        attack(source.as_bytes());
    }
    let whole = lines.join("\n");
    attack(whole.as_bytes());
    for left_out in 0..lines.len() {
        let rest = lines.iter().enumerate();
        let rest: Vec<&str> = rest
            .filter_map(|(index, line)| (index != left_out).then_some(*line))
            .collect();
        attack(rest.join("\n").as_bytes());
    }
    for place in 0..whole.len() {
        attack(&whole.as_bytes()[..place]);
        for byte in [b'7', b'"', b'{', 0xff] {
            let mut changed = whole.clone().into_bytes();
            changed[place] = byte;
            attack(&changed);
        }
    }
    for (found, replaced) in [("\"", "7"), ("{", "["), ("[", "7"), (":", ":null,\"x\":")] {
        for (place, _) in whole.match_indices(found) {
            let (before, after) = whole.split_at(place);
            let after = after.replacen(found, replaced, 1);
            attack(format!("{before}{after}").as_bytes());
        }
    }
    // Each value replaced by one of another type.
    for kind in ["null", "7", "\"t\"", "[]", "{}", "[{}]", "{\"a\":[]}"] {
        for line in lines.iter().filter_map(|line| parse(line.as_bytes()).ok()) {
            let mut changed = Vec::new();
            replacements(&line, &json(kind), &mut changed);
            for value in changed {
                attack(&threadseal_core::canon::python::rye_line(&value));
            }
        }
    }
}

/// Every value that differs from `value` in one place, where it has `other`.
fn replacements(value: &Value, other: &Value, found: &mut Vec<Value>) {
    found.push(other.clone());
    let mut inner = Vec::new();
    match value {
        Value::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                replacements(element, other, &mut inner);
                for changed in inner.drain(..) {
                    let mut elements = elements.clone();
                    elements[index] = changed;
                    found.push(Value::Array(elements));
                }
            }
        }
        Value::Object(members) => {
            for (index, (name, member)) in members.iter().enumerate() {
                replacements(member, other, &mut inner);
                for changed in inner.drain(..) {
                    let mut members = members.clone();
                    members[index] = (name.clone(), changed);
                    found.push(Value::Object(members));
                }
            }
        }
        _ => {}
    }
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
