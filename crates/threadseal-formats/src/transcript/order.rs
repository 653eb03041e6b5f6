//! Which line may follow in a record (`spec/transcript.md` §4).
//!
//! ```text
//! open ── terminal event ─► closing ── final seal ─► ended ── link, authority, redacted, tail_… ─► final seal
//!   └────── link ─────────────────────── final seal ───┘
//! ```
//! One set of rules for the writer, for verification and for proofs.

use super::event::{is_link, is_terminal};

/// The state after a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Order {
    /// A final seal ended the record.
    ended: bool,
    /// The thread ended in the last line: nothing but a final seal may follow.
    must_end: bool,
    /// The last line allows a final seal.
    may_end: bool,
}

impl Order {
    /// After a checkpoint.
    pub(crate) fn after_seal(is_final: bool) -> Self {
        Self {
            ended: is_final,
            ..Self::default()
        }
    }

    /// Did a final seal end the record?
    pub(crate) fn has_ended(self) -> bool {
        self.ended
    }

    /// Takes an event of this type; false if it may not follow.
    pub(crate) fn event(&mut self, event_type: &str) -> bool {
        let recovers = matches!(event_type, "tail_adopted" | "tail_dropped");
        let after_end = recovers || matches!(event_type, "redacted" | "authority");
        let is_link = is_link(event_type);
        let may_follow = match self.must_end {
            true => recovers,
            false => !self.ended || after_end || is_link,
        };
        self.must_end = is_terminal(event_type);
        self.may_end = is_link || self.must_end || (self.ended && after_end);
        may_follow
    }

    /// May this checkpoint follow?
    pub(crate) fn allows_seal(self, is_final: bool) -> bool {
        match is_final {
            true => self.may_end,
            false => !self.must_end && !self.ended,
        }
    }

    /// The same where lines before are not known: they may allow a final seal.
    pub(crate) fn behind_unknown_lines(self) -> Self {
        Self {
            may_end: true,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // T-TRA-41
    #[test]
    fn each_state_takes_the_lines_that_the_table_names() {
        let states = [
            ("open", Order::after_seal(false)),
            ("ended", Order::after_seal(true)),
        ];
        for (name, state) in states {
            for (event, is_allowed, may_end) in [
                ("cognition_in", !state.ended, false),
                ("key", !state.ended, false),
                ("thread_completed", !state.ended, true),
                ("thread_resumed", true, true),
                ("redacted", true, state.ended),
                ("authority", true, state.ended),
                ("tail_dropped", true, state.ended),
                ("tail_adopted", true, state.ended),
            ] {
                let mut next = state;
                assert_eq!(next.event(event), is_allowed, "{name} {event}");
                assert_eq!(next.allows_seal(true), may_end, "{name} {event}");
                let must_end = state.ended || event == "thread_completed";
                assert_eq!(next.allows_seal(false), !must_end, "{name} {event}");
            }
            assert!(!state.allows_seal(true));
        }
        let mut closing = Order::after_seal(false);
        closing.event("thread_error");
        for event in ["thread_completed", "thread_resumed", "redacted", "x"] {
            assert!(!closing.clone().event(event), "{event}");
        }
        // The recorder's statement about a tail restores the state of the last seal.
        assert!(closing.event("tail_adopted") && closing.allows_seal(false));
    }
}
