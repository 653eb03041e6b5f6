//! Durable effects.
