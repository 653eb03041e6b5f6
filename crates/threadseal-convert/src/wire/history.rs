//! Known messages: the conversations of a source as one tree.
//!
//! ```text
//! root ─ A ─ B ─ C            a request has A, its response B, the next request A B C
//!            └── D            a later one A B D: a fork
//! ```
//! A message is known if the same message follows the same messages. So a word that occurs twice is
//! two messages, and a repeated request adds none.

use super::super::fit::fit;
use std::collections::HashMap;
use threadseal_core::canon::json::Value;
use threadseal_core::canon::{jcs, python};
use threadseal_core::digest::Digest;

/// A place in the tree; [`Place::default`] is the root.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Place(usize);

/// The tree.
#[derive(Debug)]
pub(super) struct History {
    next: HashMap<(Place, Digest), Place>,
    /// The turn that carries each message.
    turns: Vec<Option<usize>>,
}

impl Default for History {
    fn default() -> Self {
        Self {
            next: HashMap::new(),
            turns: vec![None],
        }
    }
}

impl History {
    /// Continues from `place` with `message`. Returns the new place, and whether it was known.
    pub(super) fn step(&mut self, place: Place, message: &Value) -> (Place, bool) {
        let new = Place(self.turns.len());
        let found = *self.next.entry((place, digest(message))).or_insert(new);
        if found == new {
            self.turns.push(None);
        }
        (found, found != new)
    }

    /// Sets the turn that carries the message at `place`.
    pub(super) fn set_turn(&mut self, place: Place, turn: usize) {
        if let Some(known) = self.turns.get_mut(place.0) {
            *known = Some(turn);
        }
    }

    /// The turn of the message at `place`; none at the root.
    pub(super) fn turn(&self, place: Place) -> Option<usize> {
        self.turns.get(place.0).copied().flatten()
    }
}

/// A digest of `value` that also distinguishes numbers with the same double.
pub(super) fn digest(value: &Value) -> Digest {
    let fitted = fit(value, &mut String::new(), &mut |_, _| {});
    let canonical = jcs::to_vec(&fitted).unwrap_or_else(|_| python::rye_line(&fitted));
    Digest::of(&canonical)
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadseal_core::canon::json::parse;

    #[test]
    fn a_message_is_known_where_the_same_ones_stood_before_it() {
        let mut history = History::default();
        let root = Place::default();
        let (a, known) = history.step(root, &"a".into());
        assert!(!known);
        let (b, _) = history.step(a, &"b".into());
        let (again, known) = history.step(b, &"b".into());
        assert!(!known, "said twice");
        assert_ne!(again, b);
        assert_eq!(history.step(root, &"a".into()), (a, true));
        assert_eq!(history.step(a, &"b".into()), (b, true));
        history.set_turn(b, 7);
        assert_eq!(history.turn(b), Some(7));
        assert_eq!(history.turn(root), None);
    }

    #[test]
    fn the_order_of_names_does_not_count_and_every_digit_does() {
        let of = |text: &str| digest(&parse(text.as_bytes()).unwrap());
        assert_eq!(of(r#"{"a":1,"b":2}"#), of(r#"{"b":2,"a":1}"#));
        assert_ne!(of("12345678901234567890"), of("12345678901234567891"));
    }
}
