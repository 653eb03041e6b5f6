//! Answers questions about records by the rules of `spec/`: the Rust implementation under the protocol
//! of `testkit/PROTOCOL.md`.

mod answer;

pub use answer::{answer_all, answer_line};

/// The result of a chore.
pub type Fallible<T> = Result<T, Box<dyn std::error::Error>>;
