//! Drafts in order, with every field that the schema demands.
//!
//! What is made up where the source is silent, and when, says the heading of `draft`.

use super::Mapped;
use super::account::Account;
use super::draft::Draft;

const SILENT: &str = "the source does not tell";

/// The turns of one source while it is read.
#[derive(Debug, Default)]
pub(super) struct Build {
    drafts: Vec<Draft>,
}

impl Build {
    /// Adds a turn; gives its place.
    pub(super) fn push(&mut self, draft: Draft) -> usize {
        self.drafts.push(draft);
        self.drafts.len() - 1
    }

    /// The turn at `place`, to add to it.
    pub(super) fn at(&mut self, place: usize) -> Option<&mut Draft> {
        self.drafts.get_mut(place)
    }

    /// The turns so far.
    pub(super) fn turns(&self) -> &[Draft] {
        &self.drafts
    }

    /// Makes up what the source does not tell, counts, and tells the account.
    pub(super) fn finish(mut self, mut account: Account) -> Mapped {
        self.fill_models(&mut account);
        self.fill_moments(&mut account);
        for draft in &self.drafts {
            account.turns += 1;
            account.tool_calls += draft.tool_calls.len() as u64;
            account.tool_results += draft.tool_results.len() as u64;
            if draft.params.temperature.is_none() {
                account.default_field("params.temperature", SILENT);
            }
            if draft.params.top_p.is_none() {
                account.default_field("params.top_p", SILENT);
            }
        }
        Mapped {
            turns: self.drafts,
            account,
        }
    }

    fn fill_models(&mut self, account: &mut Account) {
        let known = |draft: &Draft| draft.model.id.clone();
        let mut last = self.drafts.iter().find_map(known);
        for draft in &mut self.drafts {
            if draft.model.id.is_some() {
                last.clone_from(&draft.model.id);
            } else {
                account.default_field("model.id", SILENT);
                draft.model.id.clone_from(&last);
            }
        }
    }

    fn fill_moments(&mut self, account: &mut Account) {
        let mut last = 0;
        for draft in &mut self.drafts {
            match draft.timestamp_ns {
                Some(moment) => last = moment,
                None => {
                    account.default_field("timestamp_ns", SILENT);
                    draft.timestamp_ns = Some(last);
                }
            }
        }
    }
}

/// Nanoseconds since 1970 of a moment spelled as RFC 3339 says, if it lies between 1970 and 2262.
pub(super) fn rfc3339_ns(text: &str) -> Option<u64> {
    let moment: jiff::Timestamp = text.parse().ok()?;
    i64::try_from(moment.as_nanosecond()).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scroll::Role;

    #[test]
    fn silent_fields_come_from_the_turn_before_and_are_told() {
        let mut build = Build::default();
        for (model, moment) in [
            (None, None),
            (Some("a"), Some(5)),
            (None, None),
            (Some("b"), Some(3)),
        ] {
            let mut draft = Draft::new(Role::User, "v");
            draft.model.id = model.map(str::to_owned);
            draft.timestamp_ns = moment;
            build.push(draft);
        }
        let mapped = build.finish(Account::default());
        let models: Vec<_> = mapped
            .turns
            .iter()
            .map(|turn| turn.model.id.as_deref())
            .collect();
        assert_eq!(models, [Some("a"), Some("a"), Some("a"), Some("b")]);
        let moments: Vec<_> = mapped.turns.iter().map(|turn| turn.timestamp_ns).collect();
        assert_eq!(moments, [Some(0), Some(5), Some(5), Some(3)]);
        let told: Vec<_> = mapped
            .account
            .defaulted()
            .map(|(field, _, n)| (field, n))
            .collect();
        assert_eq!(
            told,
            [
                ("model.id", 2),
                ("params.temperature", 4),
                ("params.top_p", 4),
                ("timestamp_ns", 2)
            ]
        );
    }

    #[test]
    fn moments_outside_of_what_a_scroll_holds_are_none() {
        assert_eq!(rfc3339_ns("1970-01-01T00:00:01.5Z"), Some(1_500_000_000));
        assert_eq!(
            rfc3339_ns("2026-11-21T21:38:42.932+01:00"),
            Some(1_795_293_522_932_000_000)
        );
        for none in [
            "",
            "1969-12-31T23:59:59Z",
            "9999-01-01T00:00:00Z",
            "yesterday",
        ] {
            assert_eq!(rfc3339_ns(none), None, "{none}");
        }
    }
}
