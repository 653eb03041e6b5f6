//! The parts that all APIs share: turns with their settings, parts, arguments and ids.
//!
//! `spec/scroll-mappings.md` W1 has the table of these rules.

use super::super::account::{Account, Reason, Tokens, object};
use super::super::build::Build;
use super::super::draft::{Draft, Message, Params, Source};
use super::super::fit::{fit, fit_text};
use super::super::mapped::Mapped;
use super::super::source::Node;
use super::Exchange;
use super::history::{History, Place, digest};
use std::collections::{HashMap, HashSet};
use threadseal_core::canon::json::{Number, Text, Value, parse};
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_formats::scroll::Role;

/// Types of items that are the scroll's own words.
const RESERVED: [&str; 4] = ["tool_call", "tool_result", "source", "part"];

/// The turns of one source while it is read.
#[derive(Debug)]
pub(super) struct Talk {
    format: &'static str,
    vendor: &'static str,
    build: Build,
    turns: usize,
    pub(super) history: History,
    /// Instructions and tools, and the turn that contains them.
    settings: HashMap<Digest, usize>,
    /// The last known value of each parameter.
    params: HashMap<Text, Digest>,
    pub(super) tokens: Tokens,
    unnamed: u64,
    /// Ids of the responses that were read.
    responses: HashSet<String>,
    /// The turn that a next one follows without naming it.
    last: Option<usize>,
}

/// Facts about all turns of an exchange.
#[derive(Debug, Clone, Default)]
pub(super) struct Setting {
    pub(super) vendor: Option<String>,
    pub(super) model: Option<String>,
    pub(super) fingerprint: Option<String>,
    pub(super) params: Params,
    pub(super) record: u64,
    pub(super) alone: bool,
    pub(super) moment: Option<u64>,
    /// The moment as the source spells it.
    pub(super) time: Option<Value>,
    /// Turns that hold the instructions and tools in force.
    pub(super) in_force: Vec<usize>,
}

/// The members of a body that hold for a whole conversation.
pub(super) struct Names {
    pub(super) system: &'static [&'static str],
    pub(super) tools: &'static [&'static str],
    /// The members that the mapping reads; every other member is a parameter.
    pub(super) known: &'static [&'static str],
}

impl Setting {
    pub(super) fn of(exchange: &Exchange<'_, '_>) -> Self {
        Self {
            record: exchange.record,
            alone: exchange.alone,
            moment: exchange.moment,
            time: exchange.time.clone(),
            ..Self::default()
        }
    }

    /// Takes the moment of a response, if `read` understands it.
    pub(super) fn happened(&mut self, time: Option<Node<'_, '_>>, read: fn(&Value) -> Option<u64>) {
        let Some(time) = time else { return };
        if let Some(moment) = read(time.peek()) {
            self.moment = Some(moment);
            self.time = Some(time.take());
        }
    }
}

impl Talk {
    pub(super) fn new(format: &'static str, vendor: &'static str) -> Self {
        Self {
            format,
            vendor,
            build: Build::default(),
            turns: 0,
            history: History::default(),
            settings: HashMap::new(),
            params: HashMap::new(),
            tokens: Tokens::default(),
            unnamed: 0,
            responses: HashSet::new(),
            last: None,
        }
    }

    /// The turns and the account.
    ///
    /// # Errors
    /// If there is no turn.
    pub(super) fn finish(self, mut account: Account) -> Result<Mapped, Error> {
        if self.turns == 0 {
            let message = format!("no message of {} in the source", self.format);
            return Err(Error::invalid(message));
        }
        account.tokens.add(self.tokens);
        Ok(self.build.finish(account))
    }

    /// A turn of `role` under `setting`.
    pub(super) fn draft(&self, role: Role, setting: &Setting) -> Draft {
        let mut draft = Draft::new(role, setting.vendor.as_deref().unwrap_or(self.vendor));
        draft.model.id.clone_from(&setting.model);
        draft.model.fingerprint.clone_from(&setting.fingerprint);
        draft.params = setting.params.clone();
        draft.timestamp_ns = setting.moment;
        draft
    }

    /// The facts of the source other than content: the record, and the turn that is followed,
    /// unless that is the one before.
    pub(super) fn source(&self, setting: &Setting, follows: Place) -> Source {
        let mut source = Source::new(self.format);
        source.set("lines", Value::Array(vec![setting.record.into()]));
        source.set_some("time", setting.time.clone());
        if !setting.in_force.is_empty() {
            let turns = setting.in_force.iter().map(|turn| turn_number(*turn));
            source.set("settings", Value::Array(turns.collect()));
        }
        let follows = self.history.turn(follows);
        if let Some(turn) = follows.filter(|_| follows != self.last) {
            source.set("follows", turn_number(turn));
        }
        source
    }

    /// Whether a response is a repetition. Its id is known, or it has no id and its content is
    /// `known` at this place.
    ///
    /// Two responses with the same content and two ids are two.
    pub(super) fn repeats(&mut self, id: Option<&str>, known: bool) -> bool {
        match id {
            Some(id) => !self.responses.insert(id.to_owned()),
            None => known,
        }
    }

    /// Whether the turn after `place` is the one after the last.
    pub(super) fn goes_on(&self, place: Place) -> bool {
        let follows = self.history.turn(place);
        follows.is_none() || follows == self.last
    }

    /// Adds a turn for the message at `place`.
    pub(super) fn push(&mut self, draft: &Draft, place: Place) {
        self.push_all(draft, &[place]);
    }

    /// Adds a turn for the messages at `places`.
    pub(super) fn push_all(&mut self, draft: &Draft, places: &[Place]) {
        for place in places {
            self.history.set_turn(*place, self.turns);
        }
        self.add(draft);
    }

    fn add(&mut self, draft: &Draft) {
        self.last = Some(self.build.push(draft));
        self.turns += 1;
    }

    /// Adds a turn for the new members of `body` other than its messages. Notes the turns that
    /// contain the settings in force.
    pub(super) fn instruct(&mut self, body: Node<'_, '_>, names: &Names, setting: &mut Setting) {
        let mut draft = self.draft(Role::System, setting);
        let turn = self.turns;
        for (role, names) in [("system", names.system), ("tools", names.tools)] {
            for part in names.iter().filter_map(|name| body.get(name)) {
                if says_nothing(part.peek()) {
                    continue;
                }
                let known = *self.settings.entry(digest(part.peek())).or_insert(turn);
                if !setting.in_force.contains(&known) {
                    setting.in_force.push(known);
                }
                if known == turn {
                    draft.messages.push(whole_message(role, part.take()));
                } else {
                    part.discard(Reason::Duplicate);
                }
            }
        }
        let params = self.new_params(body, names);
        if params.is_empty() && draft.messages.is_empty() {
            return;
        }
        let mut source = self.source(setting, Place::default());
        if !params.is_empty() {
            source.set("params", Value::Object(params));
        }
        draft.close(source);
        self.add(&draft);
    }

    /// The parameters that differ from their last known values.
    fn new_params(&mut self, body: Node<'_, '_>, names: &Names) -> Vec<(Text, Value)> {
        let mut params = Vec::new();
        let read = [names.system, names.tools, names.known].concat();
        for (name, node) in body.members().into_iter().flatten() {
            let is_read = name.as_str().is_some_and(|name| read.contains(&name));
            if is_read || says_nothing(node.peek()) {
                continue;
            }
            let now = digest(node.peek());
            match self.params.insert(name.clone(), now) {
                Some(before) if before == now => node.discard(Reason::Duplicate),
                _ => params.push((fit_name(name), node.take())),
            }
        }
        params
    }

    /// A name for a call that has none.
    pub(super) fn unnamed(&mut self, field: &'static str, account: &mut Account) -> String {
        self.unnamed += 1;
        account.default_field(field, "not in the source");
        format!("unnamed-{}", self.unnamed)
    }
}

fn turn_number(turn: usize) -> Value {
    u64::try_from(turn).unwrap_or(u64::MAX).into()
}

fn whole_message(role: &str, part: Value) -> Message {
    let content = match part {
        Value::String(_) | Value::Array(_) => part,
        other => Value::Array(vec![other]),
    };
    let role = role.to_owned();
    Message { role, content }
}

fn fit_name(name: &Text) -> Text {
    fit_text(name).0.into()
}

/// Whether `value` is `null`, `""`, `[]` or `{}`.
pub(super) fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.as_bytes().is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// [`Node::take`] of the member `name`, unless it is empty.
pub(super) fn take_some(node: Node<'_, '_>, name: &str) -> Option<Value> {
    let member = node.get(name)?;
    (!says_nothing(member.peek())).then(|| member.take())
}

/// The number called `name` as its double is written. A number that a double does not keep is
/// reported.
pub(super) fn number_of(node: Node<'_, '_>, name: &str) -> Option<Number> {
    let member = node.get(name)?;
    let number = member.peek().as_number()?;
    let double = number.as_f64();
    if !double.is_finite() {
        return None;
    }
    match member.take() {
        Value::Number(number) => Some(number),
        _ => Number::parse(ryu_js::Buffer::new().format_finite(double)),
    }
}

/// The integer called `name`.
pub(super) fn integer_of(node: Node<'_, '_>, name: &str) -> Option<i64> {
    let member = node.get(name)?;
    let value = member.peek().as_i64()?;
    // Beyond a double's integers the hash would not cover the digits of the turn.
    let is_exact = value.unsigned_abs() <= threadseal_core::limits::MAX_SAFE_INTEGER;
    is_exact.then(|| {
        let _ = member.read();
        value
    })
}

/// A part of a message, as an item.
pub(super) fn part_item(part: Value) -> Value {
    let kind = part.get("type").and_then(Value::as_str);
    if kind.is_some_and(|kind| !RESERVED.contains(&kind)) {
        return part;
    }
    object([("type", "part".into()), ("part", part)])
}

/// Arguments that the source spells as a string of JSON.
pub(super) fn arguments(node: Node<'_, '_>) -> Value {
    let Some(text) = node.text() else {
        return node.take();
    };
    let mut altered = false;
    let parsed = parse(text.as_bytes())
        .ok()
        .filter(|value| value.as_object().is_some());
    let fitted = parsed.map(|value| fit(&value, &mut String::new(), &mut |_, _| altered = true));
    match fitted {
        Some(value) if !altered => value,
        _ => text.into(),
    }
}

/// Nanoseconds since 1970 of a count of seconds.
pub(super) fn seconds(time: &Value) -> Option<u64> {
    time.as_u64()?.checked_mul(1_000_000_000)
}

/// A figure of a usage report.
pub(super) fn figure(usage: Option<&Value>, path: &[&str]) -> u64 {
    let found = usage.and_then(|usage| path.iter().try_fold(usage, |value, name| value.get(name)));
    found.and_then(Value::as_u64).unwrap_or_default()
}
