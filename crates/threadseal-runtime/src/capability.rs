//! Capabilities of threads, their inheritance, their risk.
//!
//! ```text
//! rye.<primary>.<item_type>.<item id, "/" as ".">      primary   execute search load sign
//! rye.search.<item_type>                               item_type tool directive knowledge …
//!
//! *         any characters, dots too      ?   one character
//! [a-z_]    one of these                  [!…] one that is none of these
//! ```
//! These are `fnmatch` patterns as Rye has them (`safety_harness.py`), always case-sensitive. A
//! call names one thing and is never a pattern, even if its id contains the characters of one. `/`
//! and `.` are one separator: a thread that may call `a.b` may also call `a/b`.
//!
//! **Inheritance never widens.** A child's capability is kept where one of its parent's covers it.
//! A broader one is replaced by all of the parent's that it covers; anything else is dropped. A
//! parent that may do nothing has children that may do nothing. (Rye lets such children do
//! everything they declare.) The patterns' structure decides whether one covers another. The answer
//! may be no where yes could be proved, never the reverse. (Rye compares texts, so `rye.?` covers
//! `rye.*`.)

mod pattern;
mod risk;

pub use risk::{Classification, Risk, RiskPolicy, RiskTable};

use crate::bounds::{MAX_CAPABILITIES, MAX_CAPABILITY_BYTES};
use pattern::Pattern;
use std::fmt;
use threadseal_core::error::{Error, ErrorKind};

/// One capability: a pattern over calls.
#[derive(Clone, PartialEq, Eq)]
pub struct Capability {
    text: String,
    pattern: Pattern,
}

impl Capability {
    /// Reads a capability; `/` becomes `.`.
    ///
    /// # Errors
    /// Kind `InvalidInput` when it is empty or has blanks or control characters, `Limit` above
    /// [`MAX_CAPABILITY_BYTES`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        let text = dotted(text, "capability")?;
        let pattern = Pattern::parse(&text);
        Ok(Self { text, pattern })
    }

    /// The text, with dots.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Does it permit `call`?
    pub fn permits(&self, call: &Call) -> bool {
        self.pattern.matches(&call.text)
    }

    /// Does it permit everything that `other` permits? False where that cannot be seen.
    pub fn covers(&self, other: &Self) -> bool {
        self.pattern.covers(&other.pattern)
    }
}

impl fmt::Debug for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// One thing that a thread wants to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    text: String,
}

impl Call {
    /// `rye.<primary>.<item_type>.<item_id>`; without the last for a search.
    ///
    /// # Errors
    /// Kind `InvalidInput` when a part is empty or has blanks or control characters, `Limit` above
    /// [`MAX_CAPABILITY_BYTES`].
    pub fn new(primary: &str, item_type: &str, item_id: Option<&str>) -> Result<Self, Error> {
        let mut text = String::from("rye");
        for part in [Some(primary), Some(item_type), item_id]
            .into_iter()
            .flatten()
        {
            text.push('.');
            text.push_str(&dotted(part, "part of a call")?);
        }
        check_length(&text)?;
        Ok(Self { text })
    }

    /// The text, with dots.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// All that a thread may do. Empty: nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capabilities(Vec<Capability>);

impl Capabilities {
    /// A thread that may do nothing.
    pub const NONE: Self = Self(Vec::new());

    /// Those of `list`, each once, in its order.
    ///
    /// # Errors
    /// Kind `Limit` above [`MAX_CAPABILITIES`].
    pub fn new(list: impl IntoIterator<Item = Capability>) -> Result<Self, Error> {
        let mut kept = Self::NONE;
        for capability in list {
            kept.add(capability)?;
        }
        Ok(kept)
    }

    /// Reads each text.
    ///
    /// # Errors
    /// As [`Capability::parse`] and [`Capabilities::new`].
    pub fn parse<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Result<Self, Error> {
        let mut kept = Self::NONE;
        for text in texts {
            kept.add(Capability::parse(text.as_ref())?)?;
        }
        Ok(kept)
    }

    /// The capabilities of a child that declares `declared` under a parent that has `self`.
    ///
    /// # Errors
    /// Kind `Limit` above [`MAX_CAPABILITIES`].
    pub fn attenuate(&self, declared: &Self) -> Result<Self, Error> {
        let mut kept = Self::NONE;
        for wanted in &declared.0 {
            if self.0.iter().any(|held| held.covers(wanted)) {
                kept.add(wanted.clone())?;
                continue;
            }
            for held in self.0.iter().filter(|held| wanted.covers(held)) {
                kept.add(held.clone())?;
            }
        }
        Ok(kept)
    }

    /// Is `call` permitted?
    pub fn permits(&self, call: &Call) -> bool {
        self.0.iter().any(|capability| capability.permits(call))
    }

    /// Each, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Capability> {
        self.0.iter()
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Their texts, as `thread.json` and line 1 of a transcript list them.
    pub fn to_texts(&self) -> Vec<String> {
        self.0.iter().map(|held| held.text.clone()).collect()
    }

    fn add(&mut self, capability: Capability) -> Result<(), Error> {
        if self.0.iter().any(|held| held.text == capability.text) {
            return Ok(());
        }
        if self.0.len() >= MAX_CAPABILITIES {
            return Err(Error::new(
                ErrorKind::Limit,
                format!("a thread has at most {MAX_CAPABILITIES} capabilities"),
            ));
        }
        self.0.push(capability);
        Ok(())
    }
}

fn dotted(text: &str, what: &str) -> Result<String, Error> {
    if text.is_empty() || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(Error::invalid(format!(
            "{text:?} is not a valid {what}: it is empty, or has blanks or control characters"
        )));
    }
    check_length(text)?;
    Ok(text.replace('/', "."))
}

fn check_length(text: &str) -> Result<(), Error> {
    match text.len() <= MAX_CAPABILITY_BYTES {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::Limit,
            format!(
                "a capability has {} bytes; at most {MAX_CAPABILITY_BYTES} are allowed",
                text.len()
            ),
        )),
    }
}

#[cfg(test)]
mod tests;
