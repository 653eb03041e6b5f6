//! The record formats: the spelling, sealing and verification of each.
//!
//! The crate is pure. Its inputs are bytes, trust and the caller's "now". Its output is a
//! [`Report`](threadseal_core::report::Report), and a [`Verified`](verified::Verified) value for
//! the verdict `verified` alone. `threadseal-store` has the files, locks and clocks.
//!
//! Modules, lowest first; a module uses only modules above it (a test enforces this):
//!
//! | module | owns |
//! |---|---|
//! | [`verified`] | [`verified::Verified`], which only the verifiers of this crate can make |
//! | [`document`] | signed JSON and signed text files |
//! | [`transcript`] | signed event logs: native, Rye, observed |
//! | [`scroll`] | chains of sealed turns: agent-scroll v0.1 |
//! | [`ledger`] | hash-chained step ledgers: `AbstractRuntime` |
//! | [`lineage`] | signed checkpoints of an agent, and the keys that may write the next: igor |
#![forbid(unsafe_code)]

#[cfg(feature = "document")]
pub mod document;
#[cfg(feature = "ledger")]
pub mod ledger;
#[cfg(feature = "lineage")]
pub mod lineage;
#[cfg(feature = "scroll")]
pub mod scroll;
#[cfg(test)]
mod testing;
#[cfg(feature = "transcript")]
pub mod transcript;
pub mod verified;
