//! `agent/agent`: the default provider.

use super::fields::{file_fields, set};
use super::resilience::at_least_one;
use crate::bounds::MIN_USEFUL_OUTPUT_TOKENS;
use crate::yaml::Node;
use threadseal_core::error::Error;

/// Settings that hold for every model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// The provider whose models are preferred.
    pub provider: Option<String>,
    /// Tokens that an answer may have at most, where the model's own bound is not lower.
    pub max_output_tokens: u64,
    /// Tokens that an answer must have room for: a request that cannot get them is not made.
    pub min_output_tokens: u32,
    /// The system prompt of every model.
    pub system_prompt: Option<String>,
}

impl Default for Agent {
    /// No provider is preferred; 256 to 16,384 tokens.
    fn default() -> Self {
        Self {
            provider: None,
            max_output_tokens: 16_384,
            min_output_tokens: MIN_USEFUL_OUTPUT_TOKENS,
            system_prompt: None,
        }
    }
}

impl Agent {
    /// Applies a file's settings.
    ///
    /// # Errors
    /// With file and line.
    pub fn overlay(&mut self, node: &Node) -> Result<(), Error> {
        let Some(mut fields) = file_fields(node)? else {
            return Ok(());
        };
        if let Some(node) = fields.take("provider") {
            let mut provider = node.fields()?;
            let name = |node: &Node| node.text().map(|text| Some(text.to_owned()));
            set(&mut provider, "default", &mut self.provider, name)?;
            provider.finish("`provider`")?;
        }
        let tokens = &mut self.max_output_tokens;
        set(&mut fields, "max_output_tokens", tokens, at_least_one)?;
        let least = |node: &Node| {
            let tokens = u32::try_from(at_least_one(node)?);
            tokens.map_err(|_| node.error(format!("at most {}", u32::MAX)))
        };
        set(
            &mut fields,
            "min_output_tokens",
            &mut self.min_output_tokens,
            least,
        )?;
        let text = |node: &Node| node.text().map(|text| Some(text.to_owned()));
        set(&mut fields, "system_prompt", &mut self.system_prompt, text)?;
        fields.finish("the agent")
    }
}
