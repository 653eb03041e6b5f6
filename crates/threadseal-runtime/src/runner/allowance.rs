//! [`Allowed`]: how long an answer may be, by what is left of tokens and money.
//!
//! ```text
//! bound of the input ─┬─► tokens left ─► longest answer ─► least and most cost
//! bound of the model ─┘                                          │
//!                     longest answer that the hold pays ◄── hold ┘   less than a useful one: none
//! ```

use crate::config::models::Prices;
use crate::limit::{Cost, LimitHit, Limits};
use crate::model::Usage;
use crate::money::Nanos;
use serde_json::Value;
use std::ops::RangeInclusive;

/// One request for an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt {
    /// Which turn it is for, from 1.
    pub(crate) turn: u64,
    /// Which one for that turn, from 1.
    pub(crate) number: u32,
}

/// A request that may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allowed {
    pub(crate) max_output_tokens: u32,
    /// Set aside for it.
    pub(crate) held: Nanos,
    /// The limit that makes its answer shorter than the model could.
    pub(crate) clamped: Option<Limiting>,
}

/// A limit on what requests use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limiting {
    Tokens,
    Spend,
}

/// Why a request may not be made: what it would need of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Short {
    Tokens(u64),
    Spend(Nanos),
}

/// What is paid for an attempt.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bill {
    /// These tokens.
    Used(Usage),
    /// An answer began and is lost: all that was held.
    Held,
    /// No answer began.
    Nothing,
}

/// A request within its limit on tokens, before money.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sized {
    input: u64,
    least: u32,
    most: u32,
    clamped: Option<Limiting>,
}

impl Sized {
    /// A request whose input has at most `input` tokens, with so many tokens left. A useful answer
    /// has so many tokens as `answer` begins with, or the model's bound, with which it ends.
    ///
    /// # Errors
    /// What it needs, if no useful answer fits.
    pub(crate) fn within(
        input: u64,
        answer: RangeInclusive<u32>,
        left: Option<u64>,
    ) -> Result<Self, Short> {
        let longest = *answer.end();
        let least = longest.min(*answer.start());
        let room = left.map_or(u64::MAX, |left| left.saturating_sub(input));
        let most = u32::try_from(room).unwrap_or(u32::MAX).min(longest);
        if most < least {
            return Err(Short::Tokens(input.saturating_add(least.into())));
        }
        Ok(Self {
            input,
            least,
            most,
            clamped: (most < longest).then_some(Limiting::Tokens),
        })
    }

    /// The most that it costs with the shortest useful answer, and with the longest.
    pub(crate) fn costs(&self, prices: &Prices) -> (Nanos, Nanos) {
        let cost = |output: u32| prices.at_most(self.input, output.into());
        (cost(self.least), cost(self.most))
    }

    /// The same with this money, which pays the shortest useful answer.
    pub(crate) fn paid_by(self, prices: &Prices, held: Nanos) -> Allowed {
        let affordable = prices.output_within(self.input, held);
        let affordable = u32::try_from(affordable).unwrap_or(u32::MAX);
        Allowed {
            max_output_tokens: affordable.min(self.most),
            held,
            clamped: match affordable < self.most {
                true => Some(Limiting::Spend),
                false => self.clamped,
            },
        }
    }
}

impl Limiting {
    /// This limit, as it was hit.
    pub(crate) fn hit(self, limits: &Limits, used: &Cost) -> LimitHit {
        match self {
            Self::Tokens => LimitHit::of_tokens(limits, used),
            Self::Spend => LimitHit::of_spend(limits, used),
        }
    }
}

impl Short {
    /// The limit, as it was hit.
    pub(crate) fn hit(self, limits: &Limits, used: &Cost) -> LimitHit {
        let (limiting, needed) = match self {
            Self::Tokens(needed) => (Limiting::Tokens, Value::from(needed)),
            Self::Spend(needed) => (Limiting::Spend, needed.to_real().into()),
        };
        LimitHit {
            needed: Some(needed),
            ..limiting.hit(limits, used)
        }
    }
}

impl Bill {
    /// The amount, of which `held` was set aside. Tokens that the provider did not count are no
    /// bound: all that was held is paid.
    pub(crate) fn amount(&self, prices: &Prices, held: Nanos) -> Nanos {
        match self {
            Self::Used(usage) if usage.estimated => prices.cost(&usage.tokens()).max(held),
            Self::Used(usage) => prices.cost(&usage.tokens()),
            Self::Held => held,
            Self::Nothing => Nanos::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::MIN_USEFUL_OUTPUT_TOKENS;

    fn prices(input: u64, output: u64, cache_write: u64) -> Prices {
        let price = |nanos| Nanos::new(nanos).unwrap();
        Prices {
            input: price(input),
            output: price(output),
            cache_read: Nanos::ZERO,
            cache_write: price(cache_write),
            above: None,
        }
    }

    // T-RUN-29
    #[test]
    fn no_answer_within_the_clamp_costs_more_than_was_held_or_exceeds_the_tokens() {
        let mut seed = 7_u64;
        let mut next = |below: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let (mut allowed_in_all, mut refused) = (0, 0);
        for _ in 0..20_000 {
            let (input, longest) = (next(300_000), u32::try_from(next(60_000)).unwrap() + 1);
            let left = (next(2) == 0).then(|| next(400_000));
            let prices = prices(next(1 << 34), next(1 << 36), next(1 << 35));
            let money = Nanos::new(next(2_000_000_000)).unwrap();
            let Ok(sized) = Sized::within(input, MIN_USEFUL_OUTPUT_TOKENS..=longest, left) else {
                assert!(left.unwrap() < input + u64::from(longest.min(MIN_USEFUL_OUTPUT_TOKENS)));
                refused += 1;
                continue;
            };
            let (least, most) = sized.costs(&prices);
            let held = most.min(money);
            if held < least {
                refused += 1;
                continue;
            }
            let allowed = sized.paid_by(&prices, held);
            let output = u64::from(allowed.max_output_tokens);
            assert!(allowed.max_output_tokens >= longest.min(MIN_USEFUL_OUTPUT_TOKENS));
            assert_eq!(
                allowed.clamped.is_none(),
                allowed.max_output_tokens == longest
            );
            assert!(left.is_none_or(|left| input + output <= left));
            let cache_write = next(input + 1);
            let used = Usage {
                input_tokens: input,
                cached_tokens: next(input - cache_write + 1),
                cache_write_tokens: cache_write,
                output_tokens: output,
                ..Usage::default()
            };
            let bill = Bill::Used(used).amount(&prices, held);
            assert!(bill <= held, "{used:?} {prices:?} {bill} {held}");
            allowed_in_all += 1;
        }
        assert!(
            allowed_in_all > 2000 && refused > 2000,
            "{allowed_in_all} {refused}"
        );
    }
}
