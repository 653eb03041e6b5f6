//! Drafts in order, with every field that the schema requires.
//!
//! The heading of `draft` lists the defaults for fields that the source lacks.

use super::account::Account;
use super::draft::Draft;
use super::mapped::Mapped;
use super::packed::Drafts;

const SILENT: &str = "not in the source";
const UNKNOWN: &str = "unknown";

/// The turns of one source while it is read.
#[derive(Debug, Default)]
pub(super) struct Build {
    drafts: Drafts,
    /// The first model and vendor that a turn names.
    model: First,
    vendor: First,
}

/// The first turn with the value, by its place.
type First = Option<(usize, String)>;

impl Build {
    /// Adds a turn and returns its place.
    pub(super) fn push(&mut self, draft: &Draft) -> usize {
        let place = self.drafts.push(draft);
        self.note(place, draft);
        place
    }

    /// Keeps a place for a turn that still grows.
    pub(super) fn reserve(&mut self) -> usize {
        self.drafts.reserve()
    }

    /// Puts a turn in the place that was kept for it.
    pub(super) fn set(&mut self, place: usize, draft: &Draft) {
        self.drafts.set(place, draft);
        self.note(place, draft);
    }

    fn note(&mut self, place: usize, draft: &Draft) {
        let note = |first: &mut First, word: Option<&String>| {
            if let Some(word) = word.filter(|_| first.as_ref().is_none_or(|(at, _)| place < *at)) {
                *first = Some((place, word.clone()));
            }
        };
        note(&mut self.model, draft.model.id.as_ref());
        let vendor = Some(&draft.model.vendor).filter(|vendor| !vendor.is_empty());
        note(&mut self.vendor, vendor);
    }

    /// Fills in the missing fields, counts the turns, and completes the account.
    pub(super) fn finish(mut self, mut account: Account) -> Mapped {
        let mut model = self.model.map(|(_, model)| model);
        let mut vendor = self.vendor.map_or(UNKNOWN.to_owned(), |(_, vendor)| vendor);
        let mut moment = 0;
        self.drafts.rewrite(|_, draft| {
            account.turns += 1;
            account.tool_calls += draft.tool_calls.len() as u64;
            account.tool_results += draft.tool_results.len() as u64;
            fill_vendor(draft, &mut vendor, &mut account);
            fill_model(draft, &mut model, &mut account);
            fill_moment(draft, &mut moment, &mut account);
            if draft.params.temperature.is_none() {
                account.default_field("params.temperature", SILENT);
            }
            if draft.params.top_p.is_none() {
                account.default_field("params.top_p", SILENT);
            }
        });
        Mapped {
            drafts: self.drafts,
            account,
        }
    }
}

/// Sets the vendor: that of the turn before, or the first one that a turn names.
fn fill_vendor(draft: &mut Draft, last: &mut String, account: &mut Account) {
    if draft.model.vendor.is_empty() {
        account.default_field("model.vendor", SILENT);
        draft.model.vendor.clone_from(last);
    } else {
        last.clone_from(&draft.model.vendor);
    }
}

fn fill_model(draft: &mut Draft, last: &mut Option<String>, account: &mut Account) {
    if draft.model.id.is_none() {
        account.default_field("model.id", SILENT);
        draft.model.id.clone_from(last);
    } else {
        last.clone_from(&draft.model.id);
    }
}

fn fill_moment(draft: &mut Draft, last: &mut u64, account: &mut Account) {
    match draft.timestamp_ns {
        Some(moment) => *last = moment,
        None => {
            account.default_field("timestamp_ns", SILENT);
            draft.timestamp_ns = Some(*last);
        }
    }
}

/// Nanoseconds since 1970 of an RFC 3339 moment, if it is between 1970 and 2262.
pub(super) fn rfc3339_ns(text: &str) -> Option<u64> {
    let moment: jiff::Timestamp = text.parse().ok()?;
    i64::try_from(moment.as_nanosecond()).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadseal_formats::scroll::Role;

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
            build.push(&draft);
        }
        let mapped = build.finish(Account::default());
        let turns = mapped.turns();
        let models: Vec<_> = turns.iter().map(|turn| turn.model.id.as_deref()).collect();
        assert_eq!(models, [Some("a"), Some("a"), Some("a"), Some("b")]);
        let moments: Vec<_> = turns.iter().map(|turn| turn.timestamp_ns).collect();
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
