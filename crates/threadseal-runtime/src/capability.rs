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

mod capabilities;
mod pattern;
mod risk;
pub use capabilities::{Call, Capabilities, Capability};
pub use risk::{Classification, Risk, RiskPolicy, RiskTable};
#[cfg(test)]
mod tests;
