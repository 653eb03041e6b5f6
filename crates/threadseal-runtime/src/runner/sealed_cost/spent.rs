//! How long a thread has run, by the times in its sealed lines.
//!
//! ```text
//! line 1 … checkpoint {fence: 1} … checkpoint {fence: 1} │ tail_dropped … checkpoint {fence: 2} …
//! └──────────── the first holder's time ───────────────┘ gone └──────── the next one's ────────
//! ```
//! The lines up to a checkpoint are those of its holder. The time between two holders counts for
//! none. Clocks of hosts differ: a time that goes backwards counts for nothing.

use serde_json::Value;
use std::time::Duration;

/// The time that the holders of a thread spent.
#[derive(Default)]
pub(super) struct Spent {
    whole: Duration,
    /// The holder of the last checkpoint, when its lines begin, and when they end.
    holder: Option<(Value, f64, f64)>,
    /// When the first line after that was written.
    since: Option<f64>,
}

impl Spent {
    pub(super) fn line(&mut self, event: &Value) {
        let Some(now) = event["timestamp"].as_f64() else {
            return;
        };
        let since = *self.since.get_or_insert(now);
        if event["event_type"] != "checkpoint" {
            return;
        }
        self.since = None;
        let token = &event["payload"]["seal"]["ext"]["fence"];
        match &mut self.holder {
            Some((known, _, until)) if known == token => *until = now,
            _ => {
                self.whole = self.total();
                self.holder = Some((token.clone(), since, now));
            }
        }
    }

    /// The time that all of them spent.
    pub(super) fn total(&self) -> Duration {
        let Some((_, from, until)) = self.holder else {
            return self.whole;
        };
        let last = Duration::try_from_secs_f64(until - from);
        self.whole.saturating_add(last.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spent(lines: &[(f64, Option<u64>)]) -> u64 {
        let mut spent = Spent::default();
        for (time, seal) in lines {
            let event = match seal {
                None => json!({"timestamp": time, "event_type": "cognition_out", "payload": {}}),
                Some(token) => json!({"timestamp": time, "event_type": "checkpoint",
                                      "payload": {"seal": {"ext": {"fence": token}}}}),
            };
            spent.line(&event);
        }
        spent.total().as_secs()
    }

    // T-FLT-16
    #[test]
    fn each_holders_time_counts_and_what_passed_between_them_does_not() {
        let first = [
            (100.0, None),
            (101.0, Some(1)),
            (105.0, None),
            (110.0, Some(1)),
        ];
        assert_eq!(spent(&first), 10);
        let mut both = first.to_vec();
        both.extend([(900.0, None), (905.0, Some(2)), (920.0, Some(2))]);
        assert_eq!(spent(&both), 30);
        // A host whose clock is slow.
        both.extend([(5.0, None), (3.0, Some(3)), (4.0, Some(4)), (6.0, Some(4))]);
        assert_eq!(spent(&both), 32);
        assert_eq!(spent(&[]), 0);
    }
}
