//! [`Limits`] of a thread, where they come from, and when one is hit.
//!
//! ```text
//! turns  tokens  spend  spawns  depth  duration_seconds       spend_currency: USD and nothing else
//!
//! shipped defaults → project's → directive's → caller's      the later one counts
//! then at most the parent's; depth at most the parent's less one; below 0: no such child
//!
//! before a turn    turns, tokens, spend, duration_seconds    hit at the limit
//! after a turn     the same                                  hit above it
//! before a child   spawns at the limit, depth at 0
//! ```
//! Names, defaults and codes are Rye's (`resilience.yaml`, `safety_harness.py`). Rye checks only
//! before a turn.

use crate::money::Nanos;
use serde_json::{Map, Value, json};
use std::fmt;
use std::time::Duration;
use threadseal_core::error::Error;

/// Names as files spell them, in the seed's order.
const NAMES: [&str; 6] = [
    "turns",
    "tokens",
    "spend",
    "spawns",
    "depth",
    "duration_seconds",
];

/// Limits; None where a layer sets none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Turns of the model.
    pub turns: Option<u64>,
    /// Tokens in and out, together.
    pub tokens: Option<u64>,
    /// Money, children's included.
    pub spend: Option<Nanos>,
    /// Children it may start.
    pub spawns: Option<u64>,
    /// Generations below it.
    pub depth: Option<u64>,
    /// Seconds it may run.
    pub duration_seconds: Option<u64>,
}

impl Limits {
    /// Rye's defaults: 25 turns, 200,000 tokens, 1 dollar, 50 children, 10 generations, half an
    /// hour.
    pub fn shipped() -> Self {
        Self {
            turns: Some(25),
            tokens: Some(200_000),
            spend: Nanos::new(crate::money::NANOS_PER_DOLLAR),
            spawns: Some(50),
            depth: Some(10),
            duration_seconds: Some(1800),
        }
    }

    /// Sets one limit by its name, from a number or from digits in a string.
    ///
    /// # Errors
    /// Kind `InvalidInput` for an unknown name, or a value that is no whole number of zero or more.
    /// For `spend`, it also covers a value that is no amount of dollars, and a currency other than
    /// `USD`.
    pub fn set(&mut self, name: &str, value: &Value) -> Result<(), Error> {
        match name {
            "turns" => self.turns = Some(whole(name, value)?),
            "tokens" => self.tokens = Some(whole(name, value)?),
            "spend" => {
                let spend = Nanos::from_json(value);
                self.spend = Some(spend.map_err(|error| invalid(name, &error.to_string()))?);
            }
            "spawns" => self.spawns = Some(whole(name, value)?),
            "depth" => self.depth = Some(whole(name, value)?),
            "duration_seconds" => self.duration_seconds = Some(whole(name, value)?),
            "spend_currency" if value.as_str() == Some("USD") => {}
            "spend_currency" => return Err(invalid(name, "money is counted in USD")),
            other => {
                return Err(Error::invalid(format!(
                    "{other:?} is not a limit; the limits are: {}",
                    NAMES.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// Reads an object of limits.
    ///
    /// # Errors
    /// As [`Limits::set`], and when it is no object.
    pub fn from_json(value: &Value) -> Result<Self, Error> {
        let object = value
            .as_object()
            .ok_or_else(|| Error::invalid("limits are an object of names and numbers"))?;
        let mut limits = Self::default();
        for (name, value) in object {
            limits.set(name, value)?;
        }
        Ok(limits)
    }

    /// The members that are set, in the seed's order; money in dollars.
    pub fn members(&self) -> Vec<(&'static str, Value)> {
        let values = [
            self.turns.map(Value::from),
            self.tokens.map(Value::from),
            self.spend.map(dollars),
            self.spawns.map(Value::from),
            self.depth.map(Value::from),
            self.duration_seconds.map(Value::from),
        ];
        let named = NAMES.into_iter().zip(values);
        named
            .filter_map(|(name, value)| Some((name, value?)))
            .collect()
    }

    /// The object of [`Limits::members`].
    pub fn to_json(&self) -> Value {
        let members = self.members().into_iter();
        let owned = members.map(|(name, value)| (name.to_owned(), value));
        Value::Object(owned.collect::<Map<_, _>>())
    }

    /// The limits that `layers` give together, from the most general to the most special, under a
    /// parent.
    ///
    /// # Errors
    /// Kind `Refused` when the parent's depth leaves no child.
    pub fn resolve(layers: &[&Self], parent: Option<&Self>) -> Result<Self, Error> {
        let mut limits = Self::default();
        for layer in layers {
            limits = layer.or(&limits);
        }
        match parent {
            Some(parent) => limits.under(parent),
            None => Ok(limits),
        }
    }

    fn or(&self, general: &Self) -> Self {
        Self {
            turns: self.turns.or(general.turns),
            tokens: self.tokens.or(general.tokens),
            spend: self.spend.or(general.spend),
            spawns: self.spawns.or(general.spawns),
            depth: self.depth.or(general.depth),
            duration_seconds: self.duration_seconds.or(general.duration_seconds),
        }
    }

    /// The lower one of each limit; one that only one side sets counts.
    #[must_use]
    pub fn at_most(&self, other: &Self) -> Self {
        Self {
            turns: least(self.turns, other.turns),
            tokens: least(self.tokens, other.tokens),
            spend: least(self.spend, other.spend),
            spawns: least(self.spawns, other.spawns),
            depth: least(self.depth, other.depth),
            duration_seconds: least(self.duration_seconds, other.duration_seconds),
        }
    }

    /// What a use leaves of them; a second that began counts.
    #[must_use]
    pub fn less(&self, cost: &Cost) -> Self {
        let seconds = cost.elapsed.as_secs() + u64::from(cost.elapsed.subsec_nanos() > 0);
        let left = |limit: Option<u64>, used: u64| limit.map(|limit| limit.saturating_sub(used));
        Self {
            turns: left(self.turns, cost.turns),
            tokens: left(self.tokens, cost.tokens()),
            spend: self.spend.map(|limit| limit.saturating_sub(cost.spend)),
            spawns: left(self.spawns, cost.spawns),
            depth: self.depth,
            duration_seconds: left(self.duration_seconds, seconds),
        }
    }

    /// The names of the limits that are higher than those of `most`.
    pub fn above(&self, most: &Self) -> Vec<&'static str> {
        let higher = [
            self.turns > most.turns && most.turns.is_some(),
            self.tokens > most.tokens && most.tokens.is_some(),
            self.spend > most.spend && most.spend.is_some(),
            self.spawns > most.spawns && most.spawns.is_some(),
            self.depth > most.depth && most.depth.is_some(),
            self.duration_seconds > most.duration_seconds && most.duration_seconds.is_some(),
        ];
        let named = NAMES.into_iter().zip(higher);
        named
            .filter_map(|(name, higher)| higher.then_some(name))
            .collect()
    }

    fn under(&self, parent: &Self) -> Result<Self, Error> {
        let depth = match parent.depth {
            None => None,
            Some(depth) => Some(depth.checked_sub(1).ok_or_else(|| {
                Error::refused("depth_exceeded: this thread may not start another thread")
            })?),
        };
        Ok(self.at_most(&Self { depth, ..*parent }))
    }

    /// The first limit that `cost` has hit at this point.
    pub fn check(&self, when: When, cost: &Cost) -> Option<LimitHit> {
        if when == When::BeforeChild {
            let spawns = Check::of("spawns_exceeded", cost.spawns, self.spawns);
            let depth = self.depth.filter(|depth| *depth == 0).map(|_| LimitHit {
                code: "depth_exceeded",
                current: 1.into(),
                max: 0.into(),
                needed: None,
            });
            return spawns.hit(when).or(depth);
        }
        let tokens = cost.tokens();
        let turns = Check::of("turns_exceeded", cost.turns, self.turns);
        let tokens = Check::of("tokens_exceeded", tokens, self.tokens);
        turns.hit(when).or_else(|| tokens.hit(when)).or_else(|| {
            let spend = Check::of("spend_exceeded", cost.spend, self.spend);
            let allowed = self.duration_seconds.map(Duration::from_secs);
            let elapsed = Check::of("duration_seconds_exceeded", cost.elapsed, allowed);
            let spend = spend.hit_as(when, dollars);
            spend.or_else(|| elapsed.hit_as(when, |time| time.as_secs_f64().into()))
        })
    }
}

/// When limits are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Before the model is asked.
    BeforeTurn,
    /// After a turn's tools have run.
    AfterTurn,
    /// Before a child is started.
    BeforeChild,
}

/// The use of a thread so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Turns of the model.
    pub turns: u64,
    /// Tokens that the model read.
    pub input_tokens: u64,
    /// Tokens that the model wrote.
    pub output_tokens: u64,
    /// Money, children's included.
    pub spend: Nanos,
    /// Children started.
    pub spawns: u64,
    /// How long it has run.
    pub elapsed: Duration,
}

impl Cost {
    /// Tokens that went in and came out, together.
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Counts a turn. A model may report any number of tokens.
    pub fn add_turn(&mut self, input_tokens: u64, output_tokens: u64) {
        self.turns = self.turns.saturating_add(1);
        self.input_tokens = self.input_tokens.saturating_add(input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(output_tokens);
    }

    /// Both together.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            turns: self.turns.saturating_add(other.turns),
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            spend: self.spend.saturating_add(other.spend),
            spawns: self.spawns.saturating_add(other.spawns),
            elapsed: self.elapsed.saturating_add(other.elapsed),
        }
    }

    /// `turns`, `input_tokens`, `output_tokens`, `spend` in dollars, `elapsed_seconds`: the members
    /// of the seed and of Rye.
    pub fn to_json(&self) -> Value {
        json!({
            "turns": self.turns,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "spend": dollars(self.spend),
            "elapsed_seconds": self.elapsed.as_secs_f64(),
        })
    }

    /// Reads the output of [`Cost::to_json`], and Rye's, whose additional members are ignored.
    ///
    /// # Errors
    /// Kind `InvalidInput` when it is no object, or one of these members is no such number.
    pub fn from_json(value: &Value) -> Result<Self, Error> {
        let object = value
            .as_object()
            .ok_or_else(|| Error::invalid("a cost is an object of names and numbers"))?;
        let number = |name: &str| object.get(name).map_or(Ok(0), |value| whole(name, value));
        let spend = object.get("spend").map(|value| match value.as_f64() {
            // Rye adds up doubles, whose digits are finer than a billionth.
            Some(real) => Nanos::from_real(real),
            None => Nanos::from_json(value),
        });
        let seconds = object
            .get("elapsed_seconds")
            .map_or(Some(0.0), Value::as_f64);
        let elapsed = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        Ok(Self {
            turns: number("turns")?,
            input_tokens: number("input_tokens")?,
            output_tokens: number("output_tokens")?,
            spend: spend.transpose()?.unwrap_or_default(),
            spawns: 0,
            elapsed: elapsed.ok_or_else(|| invalid("elapsed_seconds", "not a length of time"))?,
        })
    }
}

/// A limit that was hit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitHit {
    /// `turns_exceeded`, `tokens_exceeded`, `spend_exceeded`, `duration_seconds_exceeded`,
    /// `spawns_exceeded` or `depth_exceeded`.
    pub code: &'static str,
    /// The use: a number, money in dollars, time in seconds.
    pub current: Value,
    /// The limit, in the same unit.
    pub max: Value,
    /// What the next request would need, where that did not fit.
    pub needed: Option<Value>,
}

impl LimitHit {
    /// The limit on tokens at this use.
    pub fn of_tokens(limits: &Limits, used: &Cost) -> Self {
        Self {
            code: "tokens_exceeded",
            current: used.tokens().into(),
            max: limits.tokens.into(),
            needed: None,
        }
    }

    /// The limit on money at this use.
    pub fn of_spend(limits: &Limits, used: &Cost) -> Self {
        Self {
            code: "spend_exceeded",
            current: dollars(used.spend),
            max: limits.spend.map(dollars).into(),
            needed: None,
        }
    }

    /// `limit_code`, `current_value`, `current_max`, `needed`: the values for hooks.
    pub fn to_json(&self) -> Value {
        let mut hit = json!({
            "limit_code": self.code,
            "current_value": self.current,
            "current_max": self.max,
        });
        if let Some(needed) = &self.needed {
            hit["needed"] = needed.clone();
        }
        hit
    }
}

impl fmt::Display for LimitHit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} of {}", self.code, self.current, self.max)?;
        match &self.needed {
            Some(needed) => write!(f, "; the next answer needs {needed}"),
            None => Ok(()),
        }
    }
}

/// One use against its limit.
struct Check<T> {
    code: &'static str,
    current: T,
    max: Option<T>,
}

impl<T: PartialOrd + Copy> Check<T> {
    fn of(code: &'static str, current: T, max: Option<T>) -> Self {
        Self { code, current, max }
    }

    fn hit_as(&self, when: When, shown: impl Fn(T) -> Value) -> Option<LimitHit> {
        let max = self.max?;
        let hit = match when {
            When::BeforeTurn | When::BeforeChild => self.current >= max,
            When::AfterTurn => self.current > max,
        };
        hit.then(|| LimitHit {
            code: self.code,
            current: shown(self.current),
            max: shown(max),
            needed: None,
        })
    }
}

impl Check<u64> {
    fn hit(&self, when: When) -> Option<LimitHit> {
        self.hit_as(when, Value::from)
    }
}

fn least<T: Ord>(own: Option<T>, other: Option<T>) -> Option<T> {
    match (own, other) {
        (Some(own), Some(other)) => Some(own.min(other)),
        (own, other) => own.or(other),
    }
}

/// Dollars as a JSON number: the double nearest to the amount, whose shortest digits are it again.
fn dollars(amount: Nanos) -> Value {
    amount.to_real().into()
}

/// A whole number of zero or more, also where it is written as `25.0` or in a string.
fn whole(name: &str, value: &Value) -> Result<u64, Error> {
    let text = match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        _ => String::new(),
    };
    let digits = text.strip_suffix(".0").unwrap_or(&text);
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = plain.then(|| digits.parse().ok()).flatten();
    number.ok_or_else(|| invalid(name, "not a whole number that is zero or more"))
}

fn invalid(name: &str, why: &str) -> Error {
    Error::invalid(format!("limit {name}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadseal_core::error::ErrorKind;

    fn limits(value: &Value) -> Limits {
        Limits::from_json(value).unwrap()
    }

    #[test]
    fn limits_are_read_from_numbers_and_from_digits_and_from_nothing_else() {
        let read = limits(&json!({"turns": "6", "tokens": 4096.0, "spend": "0.10",
            "spend_currency": "USD"}));
        assert_eq!(read.turns, Some(6));
        assert_eq!(read.tokens, Some(4096));
        assert_eq!(read.spend, Some(Nanos::parse("0.1").unwrap()));
        assert_eq!(read.depth, None);
        for bad in [
            json!({"turns": -1}),
            json!({"turns": 1.5}),
            json!({"turns": true}),
            json!({"turns": ""}),
            json!({"turns": null}),
            json!({"spend": -0.1}),
            json!({"spend_currency": "EUR"}),
            json!({"max_turns": 3}),
            json!([]),
        ] {
            let error = Limits::from_json(&bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{bad}");
        }
    }

    #[test]
    fn later_layers_count_and_a_parent_is_never_exceeded() {
        let (project, directive) = (json!({"turns": 30, "spend": 2}), json!({"turns": 5}));
        let layers = [
            &Limits::shipped(),
            &limits(&project),
            &limits(&directive),
            &limits(&json!({"tokens": 900_000})),
        ];
        let own = Limits::resolve(&layers, None).unwrap();
        assert_eq!((own.turns, own.tokens), (Some(5), Some(900_000)));
        assert_eq!(own.spend, Some(Nanos::parse("2").unwrap()));
        let parent = limits(&json!({"tokens": 1000, "depth": 3, "turns": 90}));
        let child = Limits::resolve(&layers, Some(&parent)).unwrap();
        assert_eq!((child.turns, child.tokens), (Some(5), Some(1000)));
        assert_eq!(child.depth, Some(2));
    }

    #[test]
    fn no_child_stands_below_depth_zero() {
        let parent = limits(&json!({"depth": 1}));
        let child = Limits::resolve(&[&Limits::shipped()], Some(&parent)).unwrap();
        assert_eq!(child.depth, Some(0));
        let refused = Limits::resolve(&[&Limits::shipped()], Some(&child)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Refused);
        let hit = child.check(When::BeforeChild, &Cost::default()).unwrap();
        assert_eq!(hit.code, "depth_exceeded");
    }

    #[test]
    fn a_limit_is_hit_at_it_before_a_turn_and_above_it_after_one() {
        let limits = limits(&json!({"turns": 2, "tokens": 100, "spend": 0.5,
            "duration_seconds": 10, "spawns": 1}));
        let code = |when, cost: &Cost| limits.check(when, cost).map(|hit| hit.code);
        let mut cost = Cost {
            turns: 2,
            ..Cost::default()
        };
        assert_eq!(code(When::BeforeTurn, &cost), Some("turns_exceeded"));
        assert_eq!(code(When::AfterTurn, &cost), None);
        cost.turns = 1;
        (cost.input_tokens, cost.output_tokens) = (60, 41);
        assert_eq!(code(When::AfterTurn, &cost), Some("tokens_exceeded"));
        cost.input_tokens = 0;
        cost.spend = Nanos::parse("0.5").unwrap();
        assert_eq!(code(When::BeforeTurn, &cost), Some("spend_exceeded"));
        assert_eq!(code(When::AfterTurn, &cost), None);
        cost.spend = Nanos::ZERO;
        cost.elapsed = Duration::from_millis(10_001);
        assert_eq!(
            code(When::AfterTurn, &cost),
            Some("duration_seconds_exceeded")
        );
        assert_eq!(code(When::BeforeChild, &cost), None);
        cost.spawns = 1;
        assert_eq!(code(When::BeforeChild, &cost), Some("spawns_exceeded"));
    }

    #[test]
    fn a_hit_is_told_in_the_words_of_hooks() {
        let cost = Cost {
            spend: Nanos::parse("0.25").unwrap(),
            ..Cost::default()
        };
        let hit = limits(&json!({"spend": 0.1})).check(When::AfterTurn, &cost);
        assert_eq!(
            hit.unwrap().to_json(),
            json!({"limit_code": "spend_exceeded", "current_value": 0.25, "current_max": 0.1})
        );
    }

    #[test]
    fn costs_of_the_original_are_read_and_ours_come_back() {
        let theirs = json!({"turns": 2, "input_tokens": 1600, "output_tokens": 400,
            "spend": 0.003_768_999_999_999_999_8, "elapsed_seconds": 0.5, "_status": "completed"});
        let cost = Cost::from_json(&theirs).unwrap();
        assert_eq!(cost.spend, Nanos::parse("0.003769").unwrap());
        assert_eq!(cost.elapsed, Duration::from_millis(500));
        assert_eq!(Cost::from_json(&cost.to_json()).unwrap(), cost);
        assert!(Cost::from_json(&json!({"turns": "x"})).is_err());
        assert!(Cost::from_json(&json!({"elapsed_seconds": -1})).is_err());
    }

    #[test]
    fn limits_come_back_from_their_object() {
        let shipped = Limits::shipped();
        assert_eq!(Limits::from_json(&shipped.to_json()).unwrap(), shipped);
        assert!(Limits::default().members().is_empty());
    }
}
