//! [`Catalogue`]: which model a directive gets.
//!
//! ```text
//! the caller's wish (a model, a provider, an address, an existing model)
//!   else <model id="…">         the model of this name, then its fallbacks
//!   else <model tier="…">       the models of this class, the preferred provider's first
//!   else                        the class `general`
//! ```
//! The first of these whose provider has a key answers. A model of unknown window or price is
//! refused: limits on tokens and money would have no effect.

use super::{Endpoint, HttpModel, Model, ReplayModel, ScriptModel, Shape};
use crate::config::agent::Agent;
use crate::config::models::{self, PriceList, Prices, Provider};
use crate::directive::ModelChoice;
use serde_json::{Map, Value};
use std::sync::Arc;
use threadseal_core::error::Error;

const DEFAULT_TIER: &str = "general";

/// A source of models.
pub trait Models: Send + Sync {
    /// The model that a directive wants.
    ///
    /// # Errors
    /// Kind `InvalidInput` when none exists; the message names the setting to configure.
    fn choose(&self, wanted: &ModelChoice) -> Result<Chosen, Error>;

    /// The models of a child that is started to run `directive` with `inputs`, where it has others.
    fn of_child(&self, _directive: &str, _inputs: &Map<String, Value>) -> Option<Arc<dyn Models>> {
        None
    }

    /// May a thread with these models continue other threads?
    ///
    /// # Errors
    /// Kind `Refused` where the other threads would get the answers meant for this one.
    fn may_go_on(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// A model, and the facts that a thread needs about it.
#[derive(Clone)]
pub struct Chosen {
    /// The model.
    pub model: Arc<dyn Model>,
    /// Its prices.
    pub prices: Prices,
    /// Where these are from, if that is known.
    pub listed: Option<PriceList>,
    /// How many tokens it can be given.
    pub context_window: u64,
    /// Most tokens of one answer.
    pub max_output_tokens: u32,
    /// The system prompt from the settings.
    pub system_prompt: Option<String>,
}

/// The caller's choice, which overrides directives.
#[derive(Clone, Default)]
pub struct Wish {
    /// This one answers all.
    pub there: Option<Arc<dyn Model>>,
    /// This one answers, and its children answer for the thread's children.
    pub replay: Option<ReplayModel>,
    /// The model of this name.
    pub model: Option<String>,
    /// Of this provider.
    pub provider: Option<String>,
    /// At this address.
    pub base_url: Option<String>,
    /// For these prices.
    pub prices: Option<Prices>,
}

/// The models of the configuration.
#[derive(Clone)]
pub struct Catalogue {
    models: models::Models,
    agent: Agent,
    wish: Wish,
    context_window: u64,
    environment: Arc<Vec<(String, String)>>,
}

impl Catalogue {
    /// The models that `models` lists. `context_window` applies to an existing model that is not
    /// listed; keys are looked up in `environment`.
    pub fn new(
        models: models::Models,
        agent: Agent,
        wish: Wish,
        context_window: u64,
        environment: Arc<Vec<(String, String)>>,
    ) -> Self {
        Self {
            models,
            agent,
            wish,
            context_window,
            environment,
        }
    }

    /// The names to try, in order.
    fn candidates(&self, wanted: &ModelChoice) -> Vec<String> {
        if let Some(model) = &self.wish.model {
            return vec![model.clone()];
        }
        if let Some(id) = &wanted.id {
            return [id].into_iter().chain(&wanted.fallback).cloned().collect();
        }
        let tier = wanted.tier.as_deref().unwrap_or(DEFAULT_TIER);
        let preferred = self.wish.provider.as_deref().or(wanted.provider.as_deref());
        let preferred = preferred.or(self.agent.provider.as_deref());
        let models = self.models.tier(tier, preferred);
        let ids = models.into_iter().map(|model| &model.id);
        ids.chain(&wanted.fallback).cloned().collect()
    }

    fn open(&self, id: &str) -> Result<Chosen, Error> {
        let invalid = |why: &str| {
            Error::invalid(format!(
                "model {id}: {why}; hint: see .ai/config/agent/models.yaml"
            ))
        };
        let model = self
            .models
            .model(id)
            .ok_or_else(|| invalid("not configured"))?;
        let provider = self.wish.provider.as_deref().unwrap_or(&model.provider);
        let provider = self
            .models
            .provider(provider)
            .ok_or_else(|| invalid("its provider is not configured"))?;
        let bound = model
            .max_output_tokens
            .unwrap_or(u64::MAX)
            .min(self.agent.max_output_tokens);
        Ok(Chosen {
            model: self.answering(id, provider)?,
            prices: self.wish.prices.or(model.prices).ok_or_else(|| {
                invalid("its prices are not configured (--price gives them for one run)")
            })?,
            listed: model.listed.clone().filter(|_| self.wish.prices.is_none()),
            context_window: model.context_window.unwrap_or(self.context_window),
            max_output_tokens: u32::try_from(bound).unwrap_or(u32::MAX),
            system_prompt: model.system_prompt.clone(),
        })
    }

    /// The model `id` at its provider: over HTTP, or from the script in its settings.
    fn answering(&self, id: &str, provider: &Provider) -> Result<Arc<dyn Model>, Error> {
        if let Some(script) = &provider.script {
            return Ok(Arc::new(ScriptModel::parse(id, script)?));
        }
        let shape = Shape::parse(&provider.adapter).ok_or_else(|| {
            Error::invalid(format!(
                "model {id}: it answers from a script only; hint: see .ai/config/agent/models.yaml"
            ))
        })?;
        let base_url = self.wish.base_url.as_ref().or(provider.base_url.as_ref());
        let endpoint = Endpoint {
            shape,
            base_url: base_url.cloned(),
            provider: provider.name.clone(),
            key_env: provider.key_env.clone(),
            api_key: self.key(provider)?,
        };
        Ok(Arc::new(HttpModel::new(&endpoint, id)?))
    }

    fn key(&self, provider: &Provider) -> Result<Option<String>, Error> {
        let Some(name) = &provider.key_env else {
            return Ok(None);
        };
        let known = self
            .environment
            .iter()
            .find(|(variable, value)| variable == name && !value.is_empty());
        match known {
            Some((_, value)) => Ok(Some(value.clone())),
            None => Err(Error::invalid(format!(
                "cannot ask {0}: {name} is not set; hint: set {name} to a key of {0}",
                provider.name
            ))),
        }
    }
}

impl Models for Catalogue {
    fn choose(&self, wanted: &ModelChoice) -> Result<Chosen, Error> {
        let replay = || {
            let replay = self.wish.replay.clone()?;
            Some(Arc::new(replay) as Arc<dyn Model>)
        };
        if let Some(model) = self.wish.there.clone().or_else(replay) {
            let known = self.models.model(model.name());
            return Ok(Chosen {
                model: Arc::clone(&model),
                // Answers that are there already cost nothing, unless a price is named.
                prices: self
                    .wish
                    .prices
                    .or(known.and_then(|known| known.prices))
                    .unwrap_or_default(),
                listed: None,
                context_window: known
                    .and_then(|known| known.context_window)
                    .unwrap_or(self.context_window),
                max_output_tokens: u32::try_from(self.agent.max_output_tokens).unwrap_or(u32::MAX),
                system_prompt: known.and_then(|known| known.system_prompt.clone()),
            });
        }
        let mut first = None;
        for id in self.candidates(wanted) {
            match self.open(&id) {
                Ok(chosen) => return Ok(chosen),
                Err(error) => first = first.or(Some(error)),
            }
        }
        let nothing =
            || Error::invalid("no model is configured for this; hint: name one with --model");
        Err(first.unwrap_or_else(nothing))
    }

    fn of_child(&self, directive: &str, inputs: &Map<String, Value>) -> Option<Arc<dyn Models>> {
        let replay = self.wish.replay.as_ref()?;
        let mut own = self.clone();
        own.wish.replay = Some(replay.child(directive, inputs));
        Some(Arc::new(own))
    }

    fn may_go_on(&self) -> Result<(), Error> {
        match &self.wish.replay {
            None => Ok(()),
            Some(_) => Err(Error::refused(
                "a replay cannot continue other threads: the answers to these are in other records",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::prelude::{Fails as _, ask, user};
    use crate::yaml;

    const FILE: &str = "providers:\n  near: {adapter: anthropic, key_env: NEAR_KEY}\n  far: {adapter: openai}\n\
        models:\n  - {id: a, provider: near, context_window: 1000, max_output_tokens: 10, prices: {input: 1, output: 2}}\n  \
        - {id: b, provider: far, context_window: 2000, prices: {input: 0, output: 0}}\n  \
        - {id: unpriced, provider: far, context_window: 2000}\n\
        tiers: {general: [a, b], fast: [b]}\n";

    /// The name, window and bound of the answers of the chosen model, where this key is set.
    fn chosen(wish: Wish, key: &str, wanted: &ModelChoice) -> Result<String, Error> {
        let mut models = models::Models::default();
        models
            .overlay(&yaml::parse("models.yaml", FILE).unwrap(), true)
            .unwrap();
        let environment = Arc::new(vec![("NEAR_KEY".to_owned(), key.to_owned())]);
        let catalogue = Catalogue::new(models, Agent::default(), wish, 5000, environment);
        let chosen = catalogue.choose(wanted)?;
        let (name, window) = (chosen.model.name(), chosen.context_window);
        Ok(format!("{name} {window} {}", chosen.max_output_tokens))
    }

    fn named(id: &str, fallback: &[&str]) -> ModelChoice {
        ModelChoice {
            id: Some(id.to_owned()),
            fallback: fallback.iter().map(|id| (*id).to_owned()).collect(),
            ..ModelChoice::default()
        }
    }

    #[test]
    fn the_first_model_whose_key_is_there_answers() {
        let any = ModelChoice::default();
        for (key, wanted, expected) in [
            ("k", &any, "a 1000 10"),
            ("", &any, "b 2000 16384"),
            ("", &named("a", &["b"]), "b 2000 16384"),
        ] {
            assert_eq!(chosen(Wish::default(), key, wanted).unwrap(), expected);
        }
        let unset = "cannot ask near: NEAR_KEY is not set; hint: set NEAR_KEY to a key of near";
        chosen(Wish::default(), "", &named("a", &[])).fails_with(unset);
    }

    #[test]
    fn a_model_without_a_price_or_a_place_is_refused() {
        for id in ["unpriced", "unknown"] {
            chosen(Wish::default(), "", &named(id, &[])).fails_with(id);
        }
    }

    #[test]
    fn a_script_in_the_settings_answers_where_no_key_is_set() {
        let text = "providers:\n  near: {adapter: anthropic, key_env: NEAR_KEY}\n  \
                    told: {adapter: script, conversations: [{when: go, answers: [{text: Hello.}]}]}\n\
                    models:\n  - {id: a, provider: near, context_window: 10, prices: {input: 1, output: 1}}\n  \
                    - {id: s, provider: told, context_window: 10, prices: {input: 0, output: 0}}\n\
                    tiers: {general: [a, s]}\n";
        let mut models = models::Models::default();
        let node = yaml::parse("models.yaml", text).unwrap();
        models.overlay(&node, true).unwrap();
        let chosen = |environment| {
            let (agent, wish) = (Agent::default(), Wish::default());
            let catalogue = Catalogue::new(models.clone(), agent, wish, 5, Arc::new(environment));
            catalogue.choose(&ModelChoice::default()).unwrap()
        };
        let key = ("NEAR_KEY".to_owned(), "k".to_owned());
        assert_eq!(chosen(vec![key]).model.name(), "a");
        // Each thread is answered from its beginning.
        for _ in 0..2 {
            let answer = ask(&*chosen(Vec::new()).model, &[user("go")]).unwrap();
            assert_eq!(&*answer.text, "Hello.");
        }
        let wrong = text.replace("adapter: script", "adapter: openai");
        let node = yaml::parse("models.yaml", &wrong).unwrap();
        models.overlay(&node, true).fails_with("conversations");
    }

    #[test]
    fn a_model_without_prices_takes_those_of_the_caller() {
        let unpriced = named("unpriced", &[]);
        chosen(Wish::default(), "k", &unpriced).fails_with("--price");
        let wish = Wish {
            prices: Some(Prices::default()),
            ..Wish::default()
        };
        assert_eq!(chosen(wish, "k", &unpriced).unwrap(), "unpriced 2000 16384");
    }

    #[test]
    fn the_callers_wish_goes_first() {
        let script = ScriptModel::parse("script", "answers: []").unwrap();
        let by_name = Wish {
            model: Some("b".to_owned()),
            ..Wish::default()
        };
        let by_itself = Wish {
            there: Some(Arc::new(script)),
            ..Wish::default()
        };
        for (wish, expected) in [(by_name, "b 2000 16384"), (by_itself, "script 5000 16384")] {
            assert_eq!(chosen(wish, "k", &named("a", &[])).unwrap(), expected);
        }
    }
}
