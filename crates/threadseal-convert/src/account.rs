//! The account of a mapping: carried, altered, dropped or not understood, for every part of a
//! source.
//!
//! ```text
//! {"schema":"threadseal.scroll.from/1","format":"codex","records":N,
//!  "turns":N,"tool_calls":N,"tool_results":N,
//!  "tokens":{"input":N,"output":N,"cached":N,"reasoning":N},
//!  "dropped":  [{"pointer":"/cwd","reason":"metadata","count":N,"lines":[[1,40],[42,42]]}, …],
//!  "altered":  [{"pointer":P,"reason":R,"count":N,"lines":[…]}, …],
//!  "unmapped": [{"reason":R,"count":N,"lines":[…]}, …],
//!  "redacted": [{"pointer":P,"reason":RULE,"count":N,"turns":[…]}, …],
//!  "defaulted":[{"field":"params.temperature","turns":N,"why":W}, …],
//!  "ungrouped":N}
//! ```
//!
//! Entries of one pointer and one reason are one group that names its lines, so that an account is
//! small beside its source. Lines are counted from 1. If a source is not JSON Lines, the line is
//! the number of the record, as the format defines it. Line 0 is then the part that contains the
//! records.
//!
//! Groups beyond [`MAX_ACCOUNT_GROUPS`] are counted in `ungrouped` and not named. The account then
//! reports that it is incomplete.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use threadseal_core::canon::json::{Text, Value};
use threadseal_core::limits::MAX_ACCOUNT_GROUPS;

/// The account of one mapping.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// Records in the source (lines, for JSON Lines), including unreadable ones.
    pub records: u64,
    /// Turns made.
    pub turns: u64,
    /// Tool calls in those turns.
    pub tool_calls: u64,
    /// Tool results in those turns.
    pub tool_results: u64,
    /// Tokens that the source reports, each use counted once.
    pub tokens: Tokens,
    /// What the mapping does not know: records, and bytes of all such parts, approximately.
    lost_records: u64,
    lost: u64,
    dropped: Groups,
    altered: Groups,
    unmapped: Groups,
    redacted: Groups,
    defaulted: BTreeMap<(&'static str, &'static str), u64>,
}

/// Tokens, counted in the same way for every vendor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// All input of the model, whether read from a cache, written to one, or neither.
    pub input: u64,
    /// All output of the model, including reasoning.
    pub output: u64,
    /// The part of `input` that came from a cache.
    pub cached: u64,
    /// The part of `output` that was reasoning, if the source reports it.
    pub reasoning: u64,
}

/// Why a part of a source is not in the scroll.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The same content is in the scroll already, from another place of the source.
    Duplicate,
    /// Another record of the source, most often a later one, replaced it.
    Superseded,
    /// The vendor's own rendering of content that is in the scroll in the form that the model saw.
    View,
    /// Bookkeeping of the program or the host, known to the mapping's table.
    Metadata,
    /// A word that selected the rule of the mapping; the form of the turn expresses it.
    Form,
    /// `null`, `""`, `[]` or `{}`: no content.
    Empty,
    /// A member that the mapping does not know.
    Unknown,
}

/// How a value differs from its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Alteration {
    /// A number whose digits a double does not keep: carried as the string of its digits.
    InexactNumber,
    /// Nested deeper than a scroll may be: carried as the string of its JSON.
    TooDeep,
    /// A string with a lone surrogate, which UTF-8 cannot hold: carried with the surrogate spelled
    /// as an escape.
    LoneSurrogate,
}

/// One group of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group<'a> {
    /// JSON Pointer (RFC 6901) inside the record; empty for the whole record.
    pub pointer: &'a str,
    /// The reason for the entries.
    pub reason: &'a str,
    /// The lines and the count of the entries.
    pub lines: &'a Lines,
}

/// Line numbers, as ascending ranges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lines {
    ranges: Vec<(u64, u64)>,
    count: u64,
}

/// Groups by pointer and reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Groups {
    by_key: BTreeMap<(Box<str>, Box<str>), Lines>,
    beyond: u64,
}

impl Account {
    /// Records that the part at `pointer` of `line` is not in the scroll.
    pub fn drop_part(&mut self, line: u64, pointer: &str, reason: Reason) {
        self.dropped.add(pointer, reason.as_str(), line);
    }

    /// Records that the part at `pointer` of `line` is in the scroll in another form.
    pub fn alter(&mut self, line: u64, pointer: &str, how: Alteration) {
        self.altered.add(pointer, how.as_str(), line);
    }

    /// Records that the whole of `line` is not in the scroll, because it was not understood.
    pub fn unmapped(&mut self, line: u64, reason: &str) {
        self.unmapped.add("", reason, line);
    }

    /// Counts bytes of a part that the mapping does not know.
    pub(super) fn lose(&mut self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.lost = self.lost.saturating_add(bytes);
    }

    /// The same for a whole record.
    pub(super) fn lose_record(&mut self, bytes: usize) {
        self.lost_records = self.lost_records.saturating_add(1);
        self.lose(bytes);
    }

    /// How many records the mapping does not know. Those of other traffic in a capture are unmapped,
    /// and known.
    pub fn lost_records(&self) -> u64 {
        self.lost_records
    }

    /// The approximate size of the parts that the mapping does not know, in bytes: unmapped lines
    /// and unknown members.
    pub fn lost_bytes(&self) -> u64 {
        self.lost
    }

    /// Records that `rule` removed the part at `pointer` of the turn numbered `turn`.
    pub fn redact(&mut self, turn: u64, pointer: &str, rule: &str) {
        self.redacted.add(pointer, rule, turn);
    }

    /// The redacted parts, by pointer in the turn and rule; the lines are the numbers of turns.
    pub fn redacted(&self) -> impl Iterator<Item = Group<'_>> {
        self.redacted.iter()
    }

    /// Spells each pointer as `clean` does: names of members may be secrets.
    pub fn clean_pointers(&mut self, clean: impl Fn(&str) -> Cow<'_, str>) {
        for groups in [&mut self.dropped, &mut self.altered, &mut self.redacted] {
            groups.clean_pointers(&clean);
        }
    }

    /// Records that one more turn has a default for `field`.
    pub fn default_field(&mut self, field: &'static str, why: &'static str) {
        *self.defaulted.entry((field, why)).or_default() += 1;
    }

    /// The dropped parts, by pointer and reason.
    pub fn dropped(&self) -> impl Iterator<Item = Group<'_>> {
        self.dropped.iter()
    }

    /// The altered parts, by pointer and reason.
    pub fn altered(&self) -> impl Iterator<Item = Group<'_>> {
        self.altered.iter()
    }

    /// The lines that were not understood, by reason.
    pub fn not_mapped(&self) -> impl Iterator<Item = Group<'_>> {
        self.unmapped.iter()
    }

    /// The default fields: field, reason, number of turns.
    pub fn defaulted(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        self.defaulted
            .iter()
            .map(|((field, why), turns)| (*field, *why, *turns))
    }

    /// Entries that no group names, because there were too many groups.
    pub fn ungrouped(&self) -> u64 {
        self.dropped.beyond + self.altered.beyond + self.unmapped.beyond + self.redacted.beyond
    }

    /// How many lines were not understood.
    pub fn unmapped_lines(&self) -> u64 {
        self.unmapped.iter().map(|group| group.lines.count).sum()
    }

    /// The JSON of the module's heading.
    pub fn to_value(&self, format: &str) -> Value {
        let defaulted = self.defaulted().map(|(field, why, turns)| {
            object([
                ("field", field.into()),
                ("turns", turns.into()),
                ("why", why.into()),
            ])
        });
        object([
            ("schema", "threadseal.scroll.from/1".into()),
            ("format", format.into()),
            ("records", self.records.into()),
            ("turns", self.turns.into()),
            ("tool_calls", self.tool_calls.into()),
            ("tool_results", self.tool_results.into()),
            ("tokens", self.tokens.to_value()),
            ("dropped", self.dropped.to_value(true, "lines")),
            ("altered", self.altered.to_value(true, "lines")),
            ("unmapped", self.unmapped.to_value(false, "lines")),
            ("redacted", self.redacted.to_value(true, "turns")),
            ("defaulted", Value::Array(defaulted.collect())),
            ("ungrouped", self.ungrouped().into()),
        ])
    }
}

impl Tokens {
    /// Adds, without overflow.
    pub fn add(&mut self, more: Self) {
        self.input = self.input.saturating_add(more.input);
        self.output = self.output.saturating_add(more.output);
        self.cached = self.cached.saturating_add(more.cached);
        self.reasoning = self.reasoning.saturating_add(more.reasoning);
    }

    /// `{"input":…,"output":…,"cached":…,"reasoning":…}`; a number beyond a double's exact
    /// integers as the string of its digits.
    pub fn to_value(self) -> Value {
        object([
            ("input", count(self.input)),
            ("output", count(self.output)),
            ("cached", count(self.cached)),
            ("reasoning", count(self.reasoning)),
        ])
    }
}

impl Reason {
    /// The word in the account.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Duplicate => "duplicate",
            Self::Superseded => "superseded",
            Self::View => "view",
            Self::Metadata => "metadata",
            Self::Form => "form",
            Self::Empty => "empty",
            Self::Unknown => "unknown member",
        }
    }
}

impl Alteration {
    /// The words in the account.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InexactNumber => "inexact number",
            Self::TooDeep => "nested too deep",
            Self::LoneSurrogate => "lone surrogate",
        }
    }
}

impl Lines {
    /// Adds one line; lines mostly come in ascending order.
    pub fn add(&mut self, line: u64) {
        self.count += 1;
        match self.ranges.last_mut() {
            Some((_, last)) if *last == line => {}
            Some((_, last)) if last.checked_add(1) == Some(line) => *last = line,
            Some((_, last)) if *last > line => self.insert(line),
            _ => self.ranges.push((line, line)),
        }
    }

    /// Adds the lines of `other`, without naming a line twice.
    fn absorb(&mut self, other: &Self) {
        let count = self.count.saturating_add(other.count);
        let both = [self.ranges.as_slice(), other.ranges.as_slice()].concat();
        let mut ranges: Vec<(u64, u64)> = Vec::with_capacity(both.len());
        for (first, last) in sorted(both) {
            match ranges.last_mut() {
                Some((_, end)) if *end >= first || end.checked_add(1) == Some(first) => {
                    *end = last.max(*end);
                }
                _ => ranges.push((first, last)),
            }
        }
        *self = Self { ranges, count };
    }

    /// First and last line of each run, ascending.
    pub fn ranges(&self) -> &[(u64, u64)] {
        &self.ranges
    }

    /// How many entries there are; a line may have several.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether `line` is among them.
    pub fn contains(&self, line: u64) -> bool {
        let after = self.ranges.partition_point(|(first, _)| *first <= line);
        after > 0 && self.ranges[after - 1].1 >= line
    }

    fn insert(&mut self, line: u64) {
        if !self.contains(line) {
            let place = self.ranges.partition_point(|(first, _)| *first < line);
            self.ranges.insert(place, (line, line));
        }
    }
}

fn sorted(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    ranges
}

impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        for (index, (first, last)) in self.ranges.iter().take(SHOWN).enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
        }
        if self.ranges.len() > SHOWN {
            f.write_str(", …")?;
        }
        Ok(())
    }
}

impl Groups {
    fn clean_pointers(&mut self, clean: &impl Fn(&str) -> Cow<'_, str>) {
        let dirty = |(pointer, _): &&(Box<str>, Box<str>)| matches!(clean(pointer), Cow::Owned(_));
        let dirty: Vec<_> = self.by_key.keys().filter(dirty).cloned().collect();
        for key in dirty {
            if let Some(lines) = self.by_key.remove(&key) {
                let pointer = clean(&key.0).into_owned().into_boxed_str();
                let place = self.by_key.entry((pointer, key.1)).or_default();
                place.absorb(&lines);
            }
        }
    }

    fn add(&mut self, pointer: &str, reason: &str, line: u64) {
        let key = (Box::from(pointer), Box::from(reason));
        let room = self.by_key.len() < MAX_ACCOUNT_GROUPS;
        match self.by_key.get_mut(&key) {
            Some(lines) => lines.add(line),
            None if room => self.by_key.entry(key).or_default().add(line),
            None => self.beyond += 1,
        }
    }

    fn iter(&self) -> impl Iterator<Item = Group<'_>> {
        self.by_key.iter().map(|((pointer, reason), lines)| Group {
            pointer,
            reason,
            lines,
        })
    }

    fn to_value(&self, with_pointer: bool, places: &str) -> Value {
        let group = |group: Group<'_>| {
            let pair = |(first, last): &(u64, u64)| Value::Array(vec![count(*first), count(*last)]);
            let lines = group.lines.ranges.iter().map(pair).collect();
            let pointer = with_pointer.then(|| ("pointer", group.pointer.into()));
            let rest = [
                ("reason", group.reason.into()),
                ("count", group.lines.count.into()),
                (places, Value::Array(lines)),
            ];
            object(pointer.into_iter().chain(rest))
        };
        Value::Array(self.iter().map(group).collect())
    }
}

/// An object with these members, in this order.
pub(super) fn object<'a>(members: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    let named = |(name, value): (&'a str, Value)| (Text::from(name), value);
    Value::Object(members.into_iter().map(named).collect())
}

/// A count as a number, or as a string where a double would round it.
pub(super) fn count(value: u64) -> Value {
    if value <= threadseal_core::limits::MAX_SAFE_INTEGER {
        value.into()
    } else {
        value.to_string().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_ranges_in_any_order() {
        let mut lines = Lines::default();
        for line in [1, 2, 3, 3, 7, 5, 2] {
            lines.add(line);
        }
        assert_eq!(lines.ranges(), [(1, 3), (5, 5), (7, 7)]);
        assert_eq!(lines.count(), 7);
        assert_eq!(lines.to_string(), "1-3, 5, 7");
        assert!(lines.contains(2) && lines.contains(7) && !lines.contains(4));
        assert!(!lines.contains(0) && !lines.contains(8));
    }

    #[test]
    fn entries_of_one_pointer_and_reason_are_one_group() {
        let mut account = Account::default();
        for line in 1..=3 {
            account.drop_part(line, "/cwd", Reason::Metadata);
        }
        account.drop_part(2, "/cwd", Reason::Unknown);
        account.unmapped(9, "JSON: unexpected byte at byte 0");
        let groups: Vec<_> = account.dropped().collect();
        assert_eq!(groups.len(), 2);
        assert_eq!((groups[0].pointer, groups[0].reason), ("/cwd", "metadata"));
        assert_eq!(groups[0].lines.ranges(), [(1, 3)]);
        assert_eq!(account.unmapped_lines(), 1);
    }

    #[test]
    fn an_account_with_too_many_groups_counts_the_rest_and_says_so() {
        let mut account = Account::default();
        for member in 0..MAX_ACCOUNT_GROUPS + 5 {
            account.drop_part(1, &format!("/{member}"), Reason::Unknown);
        }
        assert_eq!(account.dropped().count(), MAX_ACCOUNT_GROUPS);
        assert_eq!(account.ungrouped(), 5);
    }

    #[test]
    fn tokens_saturate_and_stay_exact_in_json() {
        let mut tokens = Tokens {
            input: u64::MAX,
            ..Tokens::default()
        };
        tokens.add(tokens);
        let value = tokens.to_value();
        assert_eq!(
            value.get("input").unwrap().as_str(),
            Some("18446744073709551615")
        );
        assert_eq!(value.get("output").unwrap().as_u64(), Some(0));
    }
}
