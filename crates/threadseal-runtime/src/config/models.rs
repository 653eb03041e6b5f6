//! `agent/models`: the models, their prices, and their addresses.
//!
//! ```yaml
//! providers:
//!   anthropic: {adapter: anthropic, base_url: "https://…", key_env: ANTHROPIC_API_KEY}
//! tiers:
//!   fast: [claude-haiku-4-5, gpt-4.1-mini]
//! models:
//!   - {id: claude-haiku-4-5, provider: anthropic, context_window: 200000,
//!      max_output_tokens: 64000,
//!      prices: {input: 1, output: 5, cache_read: 0.1, cache_write: 1.25,
//!               source: "https://…", as_of: 2026-01-31}}
//! ```
//! Prices are dollars for a million tokens. Costs are whole billionths of a dollar, rounded up once
//! for each answer, so that the recorded spending is never below the debt.

use super::fields::{file_fields, set};
use super::resilience::at_least_one;
use crate::bounds::MAX_PRICE_AGE;
use crate::money::Nanos;
#[cfg(feature = "engine")]
use crate::secrets::Secrets;
use crate::yaml::{Entry, Node};
use serde_json::{Map, Value, json};
use std::time::Duration;
use threadseal_core::error::Error;
use threadseal_core::time::Timestamp;

/// Models and their providers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Models {
    models: Vec<Model>,
    providers: Vec<Provider>,
    tiers: Vec<(String, Vec<String>)>,
}

/// A model.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Its name at its provider.
    pub id: String,
    /// The name of its provider.
    pub provider: String,
    /// The size of its context in tokens; None where no file gives it.
    pub context_window: Option<u64>,
    /// How many it can answer with.
    pub max_output_tokens: Option<u64>,
    /// Its prices; None where no file gives them.
    pub prices: Option<Prices>,
    /// Where these are from; None where the file gives no date.
    pub listed: Option<PriceList>,
    /// Its system prompt.
    pub system_prompt: Option<String>,
}

/// Prices of a million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Prices {
    /// Given, and not from the cache.
    pub input: Nanos,
    /// Answered, reasoning included.
    pub output: Nanos,
    /// Given from the cache.
    pub cache_read: Nanos,
    /// Put into the cache.
    pub cache_write: Nanos,
    /// The prices of requests with a long input.
    pub above: Option<Above>,
}

/// Prices of all tokens of a request whose input has more than so many, those of the cache included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Above {
    /// The longest input at the other prices.
    pub tokens: u64,
    /// Given.
    pub input: Nanos,
    /// Answered, reasoning included.
    pub output: Nanos,
    /// Given from the cache.
    pub cache_read: Nanos,
    /// Put into the cache.
    pub cache_write: Nanos,
}

/// Where prices are from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceList {
    /// The list of the vendor, as a person finds it; None where the file gives none.
    pub source: Option<String>,
    /// The day on which it had these prices, `YYYY-MM-DD`.
    pub as_of: String,
    /// The beginning of that day.
    since: Timestamp,
}

impl PriceList {
    /// Is it older than [`MAX_PRICE_AGE`] at that time?
    pub fn is_old(&self, now: Timestamp) -> bool {
        let age = now.as_micros().saturating_sub(self.since.as_micros());
        Duration::from_micros(age) > MAX_PRICE_AGE
    }
}

/// Tokens of one answer, each counted once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Given, and neither from the cache nor put into it.
    pub input: u64,
    /// Answered, reasoning included.
    pub output: u64,
    /// Given from the cache.
    pub cache_read: u64,
    /// Put into the cache.
    pub cache_write: u64,
}

/// Where models answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// Its name.
    pub name: String,
    /// Its protocol.
    pub adapter: String,
    /// Its address; None for the protocol's own.
    pub base_url: Option<String>,
    /// The variable of the caller's environment that holds the key; None for none.
    pub key_env: Option<String>,
    /// The answers of an adapter `script`: the text of a script with `conversations`.
    pub script: Option<String>,
}

/// The adapter without a protocol: answers are in a file.
const SCRIPT_ADAPTER: &str = "script";

/// The protocols of providers.
pub(crate) const ADAPTERS: [&str; 5] = [
    "anthropic",
    "openai",
    "openai_responses",
    "gemini",
    SCRIPT_ADAPTER,
];

impl Models {
    /// Applies a file's settings: models, providers and tiers of a known name are replaced. A file
    /// that is not `vouched` for names no key and no address, and moves no model.
    ///
    /// # Errors
    /// With file and line.
    pub fn overlay(&mut self, node: &Node, vouched: bool) -> Result<(), Error> {
        let Some(mut fields) = file_fields(node)? else {
            return Ok(());
        };
        if let Some(node) = fields.take("providers") {
            for entry in node.entries()? {
                let provider = provider(entry)?;
                if !vouched {
                    self.keeps_its_place(entry, &provider)?;
                }
                self.providers.retain(|known| known.name != provider.name);
                self.providers.push(provider);
            }
        }
        if let Some(node) = fields.take("models") {
            let mut new = Vec::new();
            for node in node.list()? {
                let model = model(node)?;
                if !self
                    .providers
                    .iter()
                    .any(|known| known.name == model.provider)
                {
                    return Err(node.error(format!("unknown provider `{}`", model.provider)));
                }
                let moves = |known: &Model| known.provider != model.provider;
                if !vouched && self.model(&model.id).is_some_and(moves) {
                    let what = format!("another provider of the known model `{}`", model.id);
                    return Err(node.place.unvouched(what));
                }
                self.models.retain(|known| known.id != model.id);
                new.push(model);
            }
            new.append(&mut self.models);
            self.models = new;
        }
        if let Some(node) = fields.take("tiers") {
            for entry in node.entries()? {
                let ids = entry.value.list()?.iter();
                let ids = ids.map(|id| id.text().map(ToOwned::to_owned));
                let tier = (entry.key.clone(), ids.collect::<Result<_, _>>()?);
                self.tiers.retain(|(known, _)| *known != tier.0);
                self.tiers.push(tier);
            }
        }
        fields.finish("the models")
    }

    /// Refuses a provider that names a key or an address, or replaces one that may have either.
    fn keeps_its_place(&self, entry: &Entry, provider: &Provider) -> Result<(), Error> {
        let mut fields = entry.value.fields()?;
        for name in ["key_env", "base_url"] {
            if let Some(entry) = fields.take_entry(name) {
                return Err(entry.place.unvouched(format!("`{name}` of a provider")));
            }
        }
        match self.provider(&provider.name) {
            None => Ok(()),
            Some(known) => Err(entry
                .place
                .unvouched(format!("another provider `{}`", known.name))),
        }
    }

    /// Makes `secrets` know the keys of all providers, and the secrets in their addresses.
    #[cfg(feature = "engine")]
    pub fn teach(&self, environment: &[(String, String)], secrets: &Secrets) {
        for provider in &self.providers {
            if let Some(url) = &provider.base_url {
                secrets.learn_address(url);
            }
            let keys = environment.iter();
            let keys = keys.filter(|(name, _)| provider.key_env.as_ref() == Some(name));
            keys.for_each(|(_, value)| secrets.learn(value));
        }
    }

    /// The model of this name.
    pub fn model(&self, id: &str) -> Option<&Model> {
        self.models.iter().find(|model| model.id == id)
    }

    /// The provider of this name.
    pub fn provider(&self, name: &str) -> Option<&Provider> {
        self.providers.iter().find(|known| known.name == name)
    }

    /// The models of a class, those of `preferred` first.
    pub(crate) fn tier(&self, name: &str, preferred: Option<&str>) -> Vec<&Model> {
        let tier = self.tiers.iter().find(|(known, _)| known == name);
        let ids = tier.map_or(&[][..], |(_, ids)| ids.as_slice());
        let mut models: Vec<&Model> = ids.iter().filter_map(|id| self.model(id)).collect();
        models.sort_by_key(|model| Some(model.provider.as_str()) != preferred);
        models
    }

    /// All models, a project's first.
    pub fn iter(&self) -> impl Iterator<Item = &Model> {
        self.models.iter()
    }
}

impl Prices {
    const MILLION: u128 = 1_000_000;

    /// Prices from their members alone, in dollars for a million tokens.
    ///
    /// # Errors
    /// When `input` or `output` is missing, another member is unknown, or a value is no amount.
    pub fn from_members(members: &Map<String, Value>) -> Result<Self, Error> {
        const NAMES: [&str; 4] = ["input", "output", "cache_read", "cache_write"];
        if let Some(name) = members.keys().find(|name| !NAMES.contains(&name.as_str())) {
            let known = NAMES.join(", ");
            return Err(Error::invalid(format!(
                "unknown price `{name}`; known: {known}"
            )));
        }
        let named = |name: &str| members.get(name).map(Nanos::from_json).transpose();
        let required = |name: &str| {
            let missing = || Error::invalid(format!("the price `{name}` is missing"));
            named(name)?.ok_or_else(missing)
        };
        let input = required("input")?;
        Ok(Self {
            input,
            output: required("output")?,
            cache_read: named("cache_read")?.unwrap_or(input),
            cache_write: named("cache_write")?.unwrap_or(input),
            above: None,
        })
    }

    /// The prices of a request whose input has so many tokens.
    fn of(&self, input: u64) -> Self {
        match self.above.filter(|above| input > above.tokens) {
            None => Self {
                above: None,
                ..*self
            },
            Some(above) => Self {
                input: above.input,
                output: above.output,
                cache_read: above.cache_read,
                cache_write: above.cache_write,
                above: None,
            },
        }
    }

    /// The highest prices of an input's token and of an output's, where the input has at most so
    /// many.
    fn dearest(&self, input: u64) -> (Nanos, Nanos) {
        let given = |prices: &Self| prices.input.max(prices.cache_read).max(prices.cache_write);
        let (short, long) = (self.of(0), self.of(input));
        (
            given(&short).max(given(&long)),
            short.output.max(long.output),
        )
    }

    /// The most that a request costs whose input and output have at most so many tokens.
    pub(crate) fn at_most(&self, input: u64, output: u64) -> Nanos {
        let (given, answered) = self.dearest(input);
        let dearest = Self {
            input: given,
            output: answered,
            ..Self::default()
        };
        dearest.cost(&Tokens {
            input,
            output,
            ..Tokens::default()
        })
    }

    /// The most tokens of output that `money` pays beside such an input, whatever of it is cached.
    pub(crate) fn output_within(&self, input: u64, money: Nanos) -> u64 {
        let (given, answered) = self.dearest(input);
        if answered == Nanos::ZERO {
            return u64::MAX;
        }
        let input = u128::from(given.get()) * u128::from(input);
        let left = (u128::from(money.get()) * Self::MILLION).saturating_sub(input);
        u64::try_from(left / u128::from(answered.get())).unwrap_or(u64::MAX)
    }

    /// The cost of these tokens, rounded up to a billionth; at most [`Nanos::MAX`].
    pub fn cost(&self, tokens: &Tokens) -> Nanos {
        let given = tokens.input.saturating_add(tokens.cache_read);
        let prices = self.of(given.saturating_add(tokens.cache_write));
        let parts = [
            (prices.input, tokens.input),
            (prices.output, tokens.output),
            (prices.cache_read, tokens.cache_read),
            (prices.cache_write, tokens.cache_write),
        ];
        let millionths: u128 = parts
            .iter()
            .map(|(price, count)| u128::from(price.get()) * u128::from(*count))
            .sum();
        u64::try_from(millionths.div_ceil(Self::MILLION))
            .ok()
            .and_then(Nanos::new)
            .unwrap_or(Nanos::MAX)
    }
}

fn provider(entry: &Entry) -> Result<Provider, Error> {
    let mut fields = entry.value.fields()?;
    fields.ignore(&["description"]);
    let adapter = fields.require("adapter")?;
    if !ADAPTERS.contains(&adapter.text()?) {
        let message = format!("unknown adapter; known: {}", ADAPTERS.join(", "));
        return Err(adapter.error(message));
    }
    let mut provider = Provider {
        name: entry.key.clone(),
        adapter: adapter.text()?.to_owned(),
        base_url: None,
        key_env: None,
        script: None,
    };
    if let Some(node) = fields.take("conversations") {
        if provider.adapter != SCRIPT_ADAPTER {
            let text = format!("`conversations` are for the adapter {SCRIPT_ADAPTER}");
            return Err(node.error(text));
        }
        provider.script = Some(json!({"conversations": node.to_json()}).to_string());
    }
    let text = |node: &Node| node.text().map(|text| Some(text.to_owned()));
    set(&mut fields, "key_env", &mut provider.key_env, text)?;
    set(
        &mut fields,
        "base_url",
        &mut provider.base_url,
        |node| match node.text()? {
            url if url.starts_with("https://") || url.starts_with("http://") => {
                Ok(Some(url.to_owned()))
            }
            _ => Err(node.error("an address must begin with https:// or http://")),
        },
    )?;
    fields.finish("a provider")?;
    Ok(provider)
}

fn model(node: &Node) -> Result<Model, Error> {
    let mut fields = node.fields()?;
    fields.ignore(&["description"]);
    let mut model = Model {
        id: fields.require("id")?.text()?.to_owned(),
        provider: fields.require("provider")?.text()?.to_owned(),
        context_window: None,
        max_output_tokens: None,
        prices: None,
        listed: None,
        system_prompt: None,
    };
    for (key, slot) in [
        ("context_window", &mut model.context_window),
        ("max_output_tokens", &mut model.max_output_tokens),
    ] {
        set(&mut fields, key, slot, |node| at_least_one(node).map(Some))?;
    }
    if let Some(node) = fields.take("prices") {
        let (prices, listed) = prices(node)?;
        (model.prices, model.listed) = (Some(prices), listed);
    }
    let text = |node: &Node| node.text().map(|text| Some(text.to_owned()));
    set(&mut fields, "system_prompt", &mut model.system_prompt, text)?;
    fields.finish("a model")?;
    Ok(model)
}

/// The prices of requests with a long input.
fn above(node: &Node) -> Result<Above, Error> {
    let mut fields = node.fields()?;
    let dollars =
        |node: &Node| Nanos::from_json(&node.to_json()).map_err(|error| node.error(error));
    let input = dollars(fields.require("input")?)?;
    let mut above = Above {
        tokens: fields.require("tokens")?.whole()?,
        input,
        output: dollars(fields.require("output")?)?,
        cache_read: input,
        cache_write: input,
    };
    set(&mut fields, "cache_read", &mut above.cache_read, dollars)?;
    set(&mut fields, "cache_write", &mut above.cache_write, dollars)?;
    fields.finish("`above`")?;
    Ok(above)
}

/// A price of the cache that is not given is the input's: rather too much than too little.
fn prices(node: &Node) -> Result<(Prices, Option<PriceList>), Error> {
    let mut fields = node.fields()?;
    let dollars =
        |node: &Node| Nanos::from_json(&node.to_json()).map_err(|error| node.error(error));
    let input = dollars(fields.require("input")?)?;
    let mut prices = Prices {
        input,
        output: dollars(fields.require("output")?)?,
        cache_read: input,
        cache_write: input,
        above: None,
    };
    set(&mut fields, "cache_read", &mut prices.cache_read, dollars)?;
    set(&mut fields, "cache_write", &mut prices.cache_write, dollars)?;
    prices.above = fields.take("above").map(above).transpose()?;
    let source = fields.take("source");
    let source = source.map(|node| node.text().map(ToOwned::to_owned));
    let source = source.transpose()?;
    let listed = fields.take("as_of").map(|node| {
        let as_of = node.text()?;
        let since = Timestamp::parse_rfc3339(&format!("{as_of}T00:00:00Z"));
        let since = since.ok_or_else(|| node.error("a day is written as YYYY-MM-DD"))?;
        Ok::<_, Error>(PriceList {
            source,
            as_of: as_of.to_owned(),
            since,
        })
    });
    fields.finish("`prices`")?;
    Ok((prices, listed.transpose()?))
}
