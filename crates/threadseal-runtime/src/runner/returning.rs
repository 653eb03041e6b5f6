//! `directive_return`: how a thread returns the outputs that its directive declares.
//!
//! ```text
//! <outputs><output name="path">…</output></outputs>      directive_return {"path": "…"}
//! ```
//! A return is refused when it leaves out a required output, names another, or has one of another
//! type. The model receives the reason, and may return again. A directive that declares no outputs
//! has no such tool.

use crate::directive::Directive;
use crate::model::{ToolCall, ToolSchema};
use serde_json::{Map, Value, json};

const NAME: &str = "directive_return";

/// The outputs that a directive's thread may return.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Returning<'a>(pub(crate) &'a Directive);

impl Returning<'_> {
    pub(crate) fn is(&self, call: &ToolCall) -> bool {
        !self.0.outputs.is_empty() && call.name == NAME
    }

    pub(crate) fn schema(&self) -> Option<ToolSchema> {
        let outputs = &self.0.outputs;
        if outputs.is_empty() {
            return None;
        }
        let property = |output: &crate::directive::Parameter| json!({"type": output.kind.as_str(), "description": output.description});
        let properties: Map<String, Value> = outputs
            .iter()
            .map(|output| (output.name.clone(), property(output)))
            .collect();
        let required = outputs.iter().filter(|output| output.required);
        let required: Vec<&str> = required.map(|output| output.name.as_str()).collect();
        Some(ToolSchema {
            name: NAME.to_owned(),
            description:
                "Ends the thread and hands back its outputs. Call it once, when all is done."
                    .to_owned(),
            parameters: json!({"type": "object", "properties": properties, "required": required}),
        })
    }

    /// The outputs of a return.
    ///
    /// # Errors
    /// A message for the model.
    pub(crate) fn outputs(&self, input: &Value) -> Result<Map<String, Value>, String> {
        // Models also write {"outputs": {…}}, as Rye's transcripts show.
        let wrapped = input.get("outputs").filter(|_| !self.declares("outputs"));
        let given = wrapped.unwrap_or(input).as_object();
        let given = given.ok_or("the outputs must be an object")?;
        self.0
            .resolve_outputs(given)
            .map_err(|error| error.to_string())
    }

    fn declares(&self, name: &str) -> bool {
        self.0.outputs.iter().any(|output| output.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directive(outputs: &str) -> Directive {
        let text = format!(
            "```xml\n<directive name=\"say\" version=\"1\"><metadata><description>d</description>\
             <category>demo</category></metadata>{outputs}</directive>\n```\n\nGo.\n"
        );
        Directive::parse("say.md", &text).unwrap()
    }

    #[test]
    fn declared_outputs_come_back_and_others_are_named() {
        let outputs = "<outputs><output name=\"path\" required=\"true\">p</output>\
                       <output name=\"note\" required=\"false\">n</output></outputs>";
        let directive = directive(outputs);
        let returning = Returning(&directive);
        for input in [json!({"path": "a"}), json!({"outputs": {"path": "a"}})] {
            assert_eq!(returning.outputs(&input).unwrap()["path"], "a");
        }
        for wrong in [
            json!({"note": "x"}),
            json!({"path": "x", "pth": "y"}),
            json!("x"),
        ] {
            assert!(returning.outputs(&wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            returning.schema().unwrap().parameters["required"],
            json!(["path"])
        );
    }

    #[test]
    fn without_declared_outputs_there_is_nothing_to_return() {
        assert!(Returning(&directive("")).schema().is_none());
    }
}
