//! [`Preferring`]: the models for summaries, which the settings name.

use super::catalogue::{Chosen, Models};
use crate::directive::ModelChoice;
use serde_json::{Map, Value};
use std::sync::Arc;
use threadseal_core::error::Error;

/// Models regardless of directives: the class or model that the settings name for
/// summaries.
pub(crate) struct Preferring {
    pub(crate) inner: Arc<dyn Models>,
    /// The name of a class of models, or of a model.
    pub(crate) name: String,
}

impl Models for Preferring {
    fn choose(&self, wanted: &ModelChoice) -> Result<Chosen, Error> {
        let tier = ModelChoice {
            tier: Some(self.name.clone()),
            ..ModelChoice::default()
        };
        let model = ModelChoice {
            id: Some(self.name.clone()),
            ..ModelChoice::default()
        };
        self.inner
            .choose(&tier)
            .or_else(|_| self.inner.choose(&model))
            .or_else(|_| self.inner.choose(wanted))
    }

    fn of_child(&self, directive: &str, inputs: &Map<String, Value>) -> Option<Arc<dyn Models>> {
        let inner = self.inner.of_child(directive, inputs)?;
        let name = self.name.clone();
        Some(Arc::new(Self { inner, name }))
    }

    fn may_go_on(&self) -> Result<(), Error> {
        self.inner.may_go_on()
    }
}
