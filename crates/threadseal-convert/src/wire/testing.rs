//! Helpers for the tests of the APIs: a source in, turns and account out, as JSON.

use super::super::format::Format;
use super::super::mapped::Mapped;
use threadseal_core::canon::json::{Value, parse};
use threadseal_formats::scroll::{Turn, seal_chain};

/// The result of a source. The turns follow the schema, seal and verify.
pub(super) struct Outcome {
    turns: Vec<Turn>,
    pub(super) mapped: Mapped,
}

pub(super) fn map(format: Format, source: impl AsRef<[u8]>) -> Outcome {
    let mapped = format.map(source.as_ref()).unwrap();
    let turns = mapped.clone().into_turns().unwrap();
    let sealed = seal_chain(turns.clone(), None).unwrap();
    let values: Vec<_> = sealed.iter().map(|turn| turn.as_value().clone()).collect();
    assert!(threadseal_formats::scroll::verify(&values, None).ok());
    Outcome { turns, mapped }
}

impl Outcome {
    pub(super) fn len(&self) -> usize {
        self.turns.len()
    }

    /// Turn `index`, canonical.
    pub(super) fn turn(&self, index: usize) -> String {
        String::from_utf8(self.turns[index].canonical().to_vec()).unwrap()
    }

    /// The value at `pointer` of turn `index`, or `null`.
    pub(super) fn at(&self, index: usize, pointer: &str) -> Value {
        let mut value = parse(self.turns[index].canonical()).unwrap();
        for name in pointer.split('/').skip(1) {
            let next = match &value {
                Value::Array(elements) => elements.get(name.parse::<usize>().unwrap()).cloned(),
                other => other.get(name).cloned(),
            };
            value = next.unwrap_or(Value::Null);
        }
        value
    }

    /// [`Self::at`] as canonical text.
    pub(super) fn text(&self, index: usize, pointer: &str) -> String {
        let canonical = threadseal_core::canon::jcs::to_vec(&self.at(index, pointer)).unwrap();
        String::from_utf8(canonical).unwrap()
    }

    pub(super) fn roles(&self) -> Vec<String> {
        let role = |turn: usize| self.at(turn, "/role").as_str().unwrap().to_owned();
        (0..self.len()).map(role).collect()
    }

    /// `pointer: reason` of each dropped part, except for words that the form of a turn expresses.
    pub(super) fn dropped(&self) -> Vec<String> {
        let all = self.mapped.account.dropped();
        let told = all.filter(|group| group.reason != "form");
        told.map(|group| format!("{}: {}", group.pointer, group.reason))
            .collect()
    }

    /// The default fields, except for those of almost every source.
    pub(super) fn defaulted(&self) -> Vec<(&'static str, u64)> {
        let usual = [
            "params.temperature",
            "params.top_p",
            "timestamp_ns",
            "model.id",
        ];
        let all = self.mapped.account.defaulted();
        all.map(|(field, _, turns)| (field, turns))
            .filter(|(field, _)| !usual.contains(field))
            .collect()
    }
}

/// Sources with a fault in every place: each value of `sample` is replaced by values of other
/// types, including deep ones.
pub(super) fn spoilt(sample: &str) -> Vec<String> {
    let deep = format!("{}{}", "[".repeat(120), "]".repeat(120));
    let values = [
        "null",
        "true",
        "-1",
        "1e300",
        "\"\"",
        "\"x\"",
        "[]",
        "[null]",
        "{}",
        "{\"type\":7}",
        &deep,
    ];
    let sample = parse(sample.as_bytes()).unwrap();
    let mut count = 0;
    walk(&sample, &mut |_| count += 1);
    let mut all = Vec::new();
    for place in 0..count {
        for value in values {
            let value = parse(value.as_bytes()).unwrap();
            let spoilt = replaced(&sample, &mut place.clone(), &value);
            let text = threadseal_core::canon::jcs::to_vec(&spoilt).unwrap();
            all.push(String::from_utf8(text).unwrap());
        }
    }
    all
}

fn walk(value: &Value, each: &mut dyn FnMut(&Value)) {
    each(value);
    match value {
        Value::Array(elements) => elements.iter().for_each(|element| walk(element, each)),
        Value::Object(members) => members.iter().for_each(|(_, member)| walk(member, each)),
        _ => {}
    }
}

/// `value` with its `place`-th part replaced, in the order of [`walk`].
fn replaced(value: &Value, place: &mut usize, with: &Value) -> Value {
    if *place == 0 {
        *place = usize::MAX;
        return with.clone();
    }
    *place = place.wrapping_sub(1);
    match value {
        Value::Array(elements) => Value::Array(
            elements
                .iter()
                .map(|part| replaced(part, place, with))
                .collect(),
        ),
        Value::Object(members) => {
            let member =
                |(name, part): &(_, Value)| (Clone::clone(name), replaced(part, place, with));
            Value::Object(members.iter().map(member).collect())
        }
        other => other.clone(),
    }
}
