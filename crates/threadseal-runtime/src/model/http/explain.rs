//! Which provider failed, and what its user can do about it.

use super::Endpoint;
use crate::model::ModelError;

/// The settings file of models and providers.
const SETTINGS: &str = ".ai/config/agent/models.yaml";

/// The provider of a model, as errors name it.
pub(super) fn place(endpoint: &Endpoint, base: &str, model: &str) -> String {
    let base = base.split(['?', '#']).next().unwrap_or(base);
    format!("model {model} of {} at {base}", endpoint.provider)
}

/// The next step after a failure.
pub(super) fn hint(error: &ModelError, endpoint: &Endpoint) -> String {
    let provider = &endpoint.provider;
    match (error.status, error.kind.as_str()) {
        (401 | 403, _) => match &endpoint.key_env {
            Some(name) => format!("set {name} to a key of {provider} that may use this model"),
            None => {
                format!("name the variable of the key as `key_env` of {provider} in {SETTINGS}")
            }
        },
        (402, _) => format!("pay for more use at {provider}"),
        (404, _) => {
            format!(
                "name a model of {provider} with --model, or correct its `base_url` in {SETTINGS}"
            )
        }
        (429, _) => {
            format!("wait, then threadseal thread resume; or get a higher quota from {provider}")
        }
        (300..400, _) => {
            format!("correct `base_url` of {provider} in {SETTINGS}: redirects are not followed")
        }
        (500.., _) => "wait, then threadseal thread resume".to_owned(),
        (400.., _) => {
            format!("compare the model and its settings in {SETTINGS} with what {provider} takes")
        }
        (_, "ConnectionError") if error.message.contains("certificate") => {
            format!("correct `base_url` in {SETTINGS}, or the certificate of {provider}")
        }
        (_, "ConnectionError" | "TimeoutError") => format!(
            "look whether {provider} can be reached, or correct its `base_url` in {SETTINGS}; then threadseal \
             thread resume"
        ),
        _ => format!("look whether `adapter` of {provider} in {SETTINGS} is its protocol"),
    }
}
