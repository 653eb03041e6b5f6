//! Canonical texts.
