//! Retries after errors of a model, as the configuration decides.

use super::cycle::{Judgement, Recovery};
use crate::config::Config;
use crate::config::errors::{ErrorTable, RetryPolicy};
use crate::config::resilience::DEFAULT_POLICY;
use crate::model::ModelError;

/// The tables of `agent/error_classification` and `agent/resilience`.
pub(super) struct Configured {
    errors: ErrorTable,
    max_retries: u64,
    default: RetryPolicy,
}

impl Configured {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            errors: config.errors.clone(),
            max_retries: config.resilience.max_retries,
            default: config.resilience.retry_policies[DEFAULT_POLICY].clone(),
        }
    }
}

impl Recovery for Configured {
    fn judge(&self, error: &ModelError, attempts: u32) -> Judgement {
        let never = |code: &str| Judgement {
            code: code.to_owned(),
            category: "permanent".to_owned(),
            retryable: false,
            retry: None,
            again: None,
        };
        if error.is_final {
            // Without a status it looks like a connection that dropped.
            return never("no_answer");
        }
        let Ok(found) = self.errors.classify(&error.to_value()) else {
            return never("unclassified");
        };
        let header = |name: &str| match error.retry_after.filter(|_| name == "retry-after") {
            Some(wait) => Some(wait.as_secs_f64().to_string()),
            None => error.header(name).map(str::to_owned),
        };
        let policy = found.retry.as_ref().unwrap_or(&self.default);
        let left = u64::from(attempts) <= self.max_retries;
        let delay = || policy.delay(attempts.saturating_sub(1), &header);
        let again = left.then(delay).flatten();
        Judgement {
            code: found.code.clone(),
            category: found.category.clone(),
            retryable: found.retryable,
            retry: again.filter(|_| found.retryable),
            again,
        }
    }
}
