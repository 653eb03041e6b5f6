//! Texts that a source contains twice.
//!
//! Some programs write the same text in several records: as part of the conversation, and again as
//! an event for their user interface. A mapping reads the source twice. The first pass notes the
//! texts of the conversation, the second carries them. An event that only repeats a text is dropped
//! as a duplicate. An event with a new text is carried.

use std::collections::HashMap;
use threadseal_core::digest::Digest;

/// How often each text occurs in the conversation, and how often an event repeated it.
#[derive(Debug, Default)]
pub(super) struct RepeatedTexts {
    counts: HashMap<Digest, Count>,
}

#[derive(Debug, Default)]
struct Count {
    said: u64,
    echoed: u64,
}

impl RepeatedTexts {
    /// Notes that the conversation contains `text`.
    pub(super) fn note(&mut self, text: &str) {
        self.counts
            .entry(Digest::of(text.as_bytes()))
            .or_default()
            .said += 1;
    }

    /// Whether the conversation contains `text`.
    pub(super) fn has(&self, text: &str) -> bool {
        self.counts.contains_key(&Digest::of(text.as_bytes()))
    }

    /// Whether this occurrence of `text` repeats one of the conversation that no earlier call
    /// counted as repeated. If not, the caller carries it.
    pub(super) fn repeats(&mut self, text: &str) -> bool {
        let Some(count) = self.counts.get_mut(&Digest::of(text.as_bytes())) else {
            return false;
        };
        let repeats = count.echoed < count.said;
        count.echoed += u64::from(repeats);
        repeats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_saying_explains_one_repetition() {
        let mut said = RepeatedTexts::default();
        said.note("yes");
        said.note("yes");
        assert!(said.has("yes") && !said.has("no"));
        assert!(said.repeats("yes"));
        assert!(said.repeats("yes"));
        assert!(!said.repeats("yes"), "said twice, this is the third");
        assert!(!said.repeats("no"));
    }
}
