//! `agent/error_classification`: which errors are retried, and when.
//!
//! ```text
//! context   {status_code, error: {type, code, message}, cancelled, headers}
//! pattern   id, name, category, retryable, match: condition, retry_policy
//! ```
//! The first pattern that matches counts. A file's patterns replace those of the same id in place;
//! its others come before all earlier ones.

use super::fields::{file_fields, known_words, set};
use crate::bounds::MAX_RETRY_SECONDS;
use crate::condition::{self, Condition};
use crate::yaml::{Data, Fields, Node};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use threadseal_core::error::Error;

/// The patterns, in the order in which they are tried.
#[derive(Debug, Clone)]
pub struct ErrorTable {
    patterns: Vec<ErrorPattern>,
    default: Classification,
}

/// One pattern.
#[derive(Debug, Clone)]
pub struct ErrorPattern {
    /// Its id.
    pub id: String,
    /// When it matches.
    pub condition: Condition,
    /// The classification of an error that matches.
    pub classification: Classification,
}

/// The classification of an error.
#[derive(Debug, Clone, PartialEq)]
pub struct Classification {
    /// Name of the kind of error, such as `rate_limited`.
    pub code: String,
    /// `permanent`, `transient`, `rate_limited`, `cancelled`, or a project's own word.
    pub category: String,
    /// Whether another try may help.
    pub retryable: bool,
    /// When to try again; None: as the default policy of `agent/resilience`.
    pub retry: Option<RetryPolicy>,
}

/// When to try again.
#[derive(Debug, Clone, PartialEq)]
pub enum RetryPolicy {
    /// Never.
    None,
    /// After `base` seconds, then twice as long each time, at most `max`.
    Exponential {
        /// Seconds before the first retry.
        base: f64,
        /// Seconds at most.
        max: f64,
    },
    /// After so many seconds, each time.
    Fixed {
        /// Seconds.
        delay: f64,
    },
    /// After the seconds that the answer's header gives.
    UseHeader {
        /// Name of the header, in small letters.
        header: String,
        /// Without it.
        fallback: Box<Self>,
    },
}

/// Policies by the names that patterns may use, of `agent/resilience`.
pub type NamedPolicies = BTreeMap<String, RetryPolicy>;

impl RetryPolicy {
    const TYPES: [&str; 4] = ["none", "exponential", "fixed", "use_header"];

    /// Reads a policy, or the name of one of `named`.
    ///
    /// # Errors
    /// With file and line.
    pub fn parse(node: &Node, named: &NamedPolicies) -> Result<Self, Error> {
        let name = |node: &Node, name: &str| {
            named.get(name).cloned().ok_or_else(|| {
                let known: Vec<&str> = named.keys().map(String::as_str).collect();
                let known = known.join(", ");
                node.error(format!("unknown policy `{name}`; known: {known}"))
            })
        };
        if let Data::Text(word) = &node.data {
            return name(node, word);
        }
        let mut fields = node.fields()?;
        if let Some(policy) = fields.take("policy")
            && !Self::TYPES.contains(&policy.text()?)
        {
            fields.finish("a named retry policy")?;
            return name(policy, policy.text()?);
        }
        let mut fields = node.fields()?;
        let kind = fields.take("type").or_else(|| fields.take("policy"));
        let kind = kind.ok_or_else(|| node.error("`type` is missing"))?;
        let mut number = |name: &str, default: f64| match fields.take(name) {
            None => Ok(default),
            Some(node) => match node.number()? {
                seconds if (0.0..=MAX_RETRY_SECONDS).contains(&seconds) => Ok(seconds),
                _ => Err(node.error(format!("0 to {MAX_RETRY_SECONDS} seconds"))),
            },
        };
        let policy = match kind.text()? {
            "none" => Self::None,
            "exponential" => {
                let base = number("base", 2.0)?;
                let max = number("max_delay", 120.0)?;
                let max = number("max", max)?;
                Self::Exponential { base, max }
            }
            "fixed" => Self::Fixed {
                delay: number("delay", 60.0)?,
            },
            "use_header" => Self::UseHeader {
                header: match fields.take("header") {
                    Some(node) => node.text()?.to_ascii_lowercase(),
                    None => "retry-after".to_owned(),
                },
                fallback: Box::new(match fields.take("fallback") {
                    Some(node) => Self::parse(node, named)?,
                    None => Self::None,
                }),
            },
            other => {
                let known = Self::TYPES.join(", ");
                let message = format!("unknown policy `{other}`; known: {known}");
                return Err(kind.error(message));
            }
        };
        fields.finish("a retry policy of this type")?;
        Ok(policy)
    }

    /// How long to wait before retry `attempt` (from 0). `header` looks up a header of the answer
    /// by its name in small letters. None: do not try again.
    pub(crate) fn delay(
        &self,
        attempt: u32,
        header: &dyn Fn(&str) -> Option<String>,
    ) -> Option<Duration> {
        let seconds = match self {
            Self::None => return None,
            Self::Exponential { base, max } => {
                let doubled = i32::try_from(attempt).unwrap_or(i32::MAX).min(64);
                (base * 2_f64.powi(doubled)).min(*max)
            }
            Self::Fixed { delay } => *delay,
            Self::UseHeader {
                header: name,
                fallback,
            } => {
                let told = header(name).and_then(|text| text.trim().parse::<f64>().ok());
                match told.filter(|seconds| *seconds >= 0.0) {
                    Some(seconds) => seconds,
                    None => return fallback.delay(attempt, header),
                }
            }
        };
        Some(Duration::from_secs_f64(seconds.min(MAX_RETRY_SECONDS)))
    }
}

impl Default for ErrorTable {
    /// No patterns: every error is permanent.
    fn default() -> Self {
        Self {
            patterns: Vec::new(),
            default: Classification {
                code: "unclassified".to_owned(),
                category: "permanent".to_owned(),
                retryable: false,
                retry: None,
            },
        }
    }
}

impl ErrorTable {
    /// Applies a file's patterns, which may name policies of `named`.
    ///
    /// # Errors
    /// With file and line, for an unknown key or a bad value.
    pub fn overlay(&mut self, node: &Node, named: &NamedPolicies) -> Result<(), Error> {
        let Some(mut fields) = file_fields(node)? else {
            return Ok(());
        };
        known_words(&mut fields, "operators", &condition::OPERATORS)?;
        known_words(&mut fields, "combinators", &condition::COMBINATORS)?;
        known_words(&mut fields, "retry_policy_types", &RetryPolicy::TYPES)?;
        let mut new: Vec<ErrorPattern> = Vec::new();
        if let Some(list) = fields.take("patterns") {
            for node in list.list()? {
                let pattern = pattern(node, named)?;
                if new.iter().any(|known| known.id == pattern.id) {
                    return Err(node.error(format!("a second pattern `{}`", pattern.id)));
                }
                match self
                    .patterns
                    .iter_mut()
                    .find(|known| known.id == pattern.id)
                {
                    Some(known) => *known = pattern,
                    None => new.push(pattern),
                }
            }
        }
        self.patterns.splice(0..0, new);
        if let Some(node) = fields.take("default") {
            let mut fields = node.fields()?;
            let classification = classification(&mut fields, "unclassified", named)?;
            fields.finish("`default`")?;
            self.default = classification;
        }
        fields.finish("the error classification")
    }

    /// Classifies an error.
    ///
    /// # Errors
    /// When a condition compares values without an order.
    pub fn classify(&self, context: &Value) -> Result<&Classification, Error> {
        for pattern in &self.patterns {
            if pattern.condition.eval(context)? {
                return Ok(&pattern.classification);
            }
        }
        Ok(&self.default)
    }

    /// The patterns, in the order in which they are tried.
    pub fn patterns(&self) -> &[ErrorPattern] {
        &self.patterns
    }
}

fn pattern(node: &Node, named: &NamedPolicies) -> Result<ErrorPattern, Error> {
    let mut fields = node.fields()?;
    fields.ignore(&["description"]);
    let id = fields.require("id")?.text()?.to_owned();
    let condition = Condition::parse(fields.require("match")?)?;
    let name = match fields.take("name") {
        Some(node) => node.text()?.to_owned(),
        None => id.clone(),
    };
    let classification = classification(&mut fields, &name, named)?;
    fields.finish("a pattern")?;
    Ok(ErrorPattern {
        id,
        condition,
        classification,
    })
}

fn classification(
    fields: &mut Fields<'_>,
    code: &str,
    named: &NamedPolicies,
) -> Result<Classification, Error> {
    let mut read = Classification {
        code: code.to_owned(),
        category: fields.require("category")?.text()?.to_owned(),
        retryable: fields.require("retryable")?.bool()?,
        retry: None,
    };
    set(fields, "retry_policy", &mut read.retry, |node| {
        RetryPolicy::parse(node, named).map(Some)
    })?;
    Ok(read)
}
