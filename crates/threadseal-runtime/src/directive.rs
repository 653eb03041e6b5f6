//! Directives: a prompt, and the permissions of the thread that runs it.
//!
//! ````text
//! # Title                          text for people
//! ```xml
//! <directive name="…" version="…" extends="…">
//!   <metadata> description category author model limits permissions context hooks
//!              continuation_directive </metadata>
//!   <inputs>  <input name type required default>…</input>  </inputs>
//!   <outputs> <output name type required>…</output>  <success>…</success>  </outputs>
//! </directive>
//! ```
//! everything after the fence is the prompt, with {input:name} in it
//! ````
//! Strict: anything outside the lists of `spec/declarations.md` §2 is an error at its line.
//!
//! Elsewhere: whether the file may be trusted ([`crate::item`]), limits and capabilities as such,
//! hooks ([`crate::hook_declaration`]).

mod block;
mod inputs;

pub use inputs::{Outcome, Parameter, ParameterType};

use crate::hook_control;
use crate::hook_control::Scope;
use crate::hook_declaration::HookDeclaration;
use crate::hook_declaration::Primary;
use crate::interpolate::Template;
use crate::item::ItemId;
use crate::item::ItemKind;
use crate::limit::Limits;
use crate::place::Place;
use crate::status::Status;
use crate::xml::{self, Element};
use serde_json::{Map, Value};
use threadseal_core::error::Error;

/// A directive, read.
#[derive(Debug, Clone)]
pub struct Directive {
    /// Its name: the last part of its id.
    pub name: String,
    /// Its version, as written.
    pub version: String,
    /// The directive whose context and permissions it inherits.
    pub extends: Option<ItemId>,
    /// Its purpose, for people and models.
    pub description: String,
    /// Everything before the last part of its id; empty at the top.
    pub category: String,
    /// Its author; empty where the file names none.
    pub author: String,
    /// Which model.
    pub model: ModelChoice,
    /// The limits it names.
    pub limits: Limits,
    /// Its permissions. Empty: none.
    pub permissions: Vec<Permission>,
    /// Risks that its author takes knowingly.
    pub acknowledged: Vec<Acknowledgement>,
    /// Knowledge around the prompt.
    pub context: ContextItems,
    /// Its hooks.
    pub hooks: Vec<HookDeclaration>,
    /// The directive that words the first message of a continuation.
    pub continuation_directive: Option<ItemId>,
    /// Its required and optional inputs.
    pub inputs: Vec<Parameter>,
    /// The outputs that it returns through `directive_return`.
    pub outputs: Vec<Parameter>,
    /// `<success>` and `<failure>`: what people are shown when it ends.
    pub outcomes: Vec<Outcome>,
    /// Elements of the file without a meaning, with their places.
    pub ignored: Vec<(Place, String)>,
    prompt: Template,
    prompt_text: String,
}

/// Which model a directive wants. Nothing named: the configuration's choice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelChoice {
    /// A class of models, such as `fast`.
    pub tier: Option<String>,
    /// One model.
    pub id: Option<String>,
    /// The provider of the model.
    pub provider: Option<String>,
    /// Models to try when the first cannot be reached, in order.
    pub fallback: Vec<String>,
}

/// A right, as `rye.<primary>.<item_type>.<pattern>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permission {
    /// The capability, with its patterns.
    pub capability: String,
    /// Its place.
    pub place: Place,
}

/// A risk that the author takes knowingly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acknowledgement {
    /// The level, such as `elevated`.
    pub risk: String,
    /// Why.
    pub reason: String,
}

/// Knowledge around the prompt, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContextItems {
    /// In the system prompt.
    pub system: Vec<ItemId>,
    /// Before the prompt.
    pub before: Vec<ItemId>,
    /// After the prompt.
    pub after: Vec<ItemId>,
    /// Items of inherited context or of hooks that stay out.
    pub suppress: Vec<ItemId>,
}

impl Directive {
    /// Reads a directive. `file` is named in errors.
    ///
    /// # Errors
    /// Kind `InvalidInput` with file and line; `Limit` beyond a bound.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let block = block::find(file, text)?;
        let root = xml::parse(block.xml, &block.xml_place)?;
        if root.name != "directive" {
            return Err(root.error("the block must contain a <directive>"));
        }
        root.only_attributes(&["name", "version", "extends"])?;
        root.no_text()?;
        let mut directive = Self {
            name: name(&root)?,
            version: root.require("version")?.to_owned(),
            extends: root
                .attribute("extends")
                .map(|id| item_id(id, &root))
                .transpose()?,
            description: String::new(),
            category: String::new(),
            author: String::new(),
            model: ModelChoice::default(),
            limits: Limits::default(),
            permissions: Vec::new(),
            acknowledged: Vec::new(),
            context: ContextItems::default(),
            hooks: Vec::new(),
            continuation_directive: None,
            inputs: Vec::new(),
            outputs: Vec::new(),
            outcomes: Vec::new(),
            ignored: Vec::new(),
            prompt: Template::parse_prompt(block.prompt, &block.prompt_place)?,
            prompt_text: block.prompt.to_owned(),
        };
        directive.sections(&root)?;
        Ok(directive)
    }

    /// Reads each section once, in any order.
    fn sections(&mut self, root: &Element) -> Result<(), Error> {
        let mut seen: Vec<&str> = Vec::new();
        for child in &root.children {
            if seen.contains(&child.name.as_str()) {
                return Err(child.error(format!("a second <{}>", child.name)));
            }
            seen.push(&child.name);
            match child.name.as_str() {
                "metadata" => self.metadata(child)?,
                "inputs" => self.inputs = inputs::read(child, "input")?,
                "outputs" => (self.outputs, self.outcomes) = inputs::read_outputs(child)?,
                "description" => self.describe(child)?,
                // Rye grants nothing for permissions outside the metadata either.
                "permissions" | "process" | "success_criteria" | "template" | "example" | "raw" => {
                    self.ignored.push((child.place.clone(), child.name.clone()));
                }
                _ => return Err(child.unknown("directive")),
            }
        }
        if !seen.contains(&"metadata") {
            return Err(root.error("<metadata> is missing"));
        }
        Ok(())
    }

    /// Checks that the directive has this id: a moved file is another directive, and no Rye
    /// signature shows the move.
    ///
    /// # Errors
    /// Kind `Refused` when name or category differ.
    pub(crate) fn check_id(&self, id: &ItemId) -> Result<(), Error> {
        if self.name == id.name() && self.category == id.category() {
            return Ok(());
        }
        let own = match self.category.as_str() {
            "" => self.name.clone(),
            category => format!("{category}/{}", self.name),
        };
        Err(Error::refused(format!(
            "the file of directive {id} names the directive {own}"
        )))
    }

    /// The values to run with: those given, of their declared types, and defaults. A text that
    /// spells a value of the declared type becomes that value.
    ///
    /// # Errors
    /// Kind `InvalidInput` for an input that is missing, not declared, or of another type.
    pub fn resolve_inputs(&self, given: &Map<String, Value>) -> Result<Map<String, Value>, Error> {
        inputs::resolve(&self.inputs, given, "input")
    }

    /// The same for the values given to `directive_return`.
    ///
    /// # Errors
    /// As [`Directive::resolve_inputs`].
    pub(crate) fn resolve_outputs(
        &self,
        given: &Map<String, Value>,
    ) -> Result<Map<String, Value>, Error> {
        inputs::resolve(&self.outputs, given, "output")
    }

    /// The prompt with these inputs.
    ///
    /// # Errors
    /// Kind `Limit` when it grows beyond the bound.
    pub fn render_prompt(&self, inputs: &Map<String, Value>) -> Result<String, Error> {
        self.prompt
            .render_text(&serde_json::json!({ "inputs": inputs }))
    }

    /// What people are shown when a thread of it ends so.
    pub(crate) fn outcome(&self, status: Status) -> Option<&str> {
        let name = match status {
            Status::Completed => "success",
            _ => "failure",
        };
        let outcome = self.outcomes.iter().find(|outcome| outcome.name == name);
        outcome.map(|outcome| outcome.text.as_str())
    }

    /// The prompt as it is written.
    pub fn prompt(&self) -> &str {
        &self.prompt_text
    }

    /// The inputs that the prompt names and the directive does not declare.
    #[cfg(test)]
    pub(crate) fn undeclared_inputs(&self) -> Vec<&str> {
        let declared = |name: &str| self.inputs.iter().any(|input| input.name == name);
        let mut names: Vec<&str> = self
            .prompt
            .inputs()
            .filter(|name| !declared(name))
            .collect();
        names.dedup();
        names
    }

    fn metadata(&mut self, element: &Element) -> Result<(), Error> {
        element.only_attributes(&[])?;
        element.no_text()?;
        let mut seen: Vec<&str> = Vec::new();
        for child in &element.children {
            if seen.contains(&child.name.as_str()) {
                return Err(child.error(format!("a second <{}>", child.name)));
            }
            seen.push(&child.name);
            match child.name.as_str() {
                "description" => self.describe(child)?,
                "category" => self.category = category(child)?,
                "author" => child.only_text()?.clone_into(&mut self.author),
                "model" | "model_class" if seen.contains(&other_model(&child.name)) => {
                    return Err(child.error("<model> and <model_class> are the same: use one"));
                }
                "model" | "model_class" => self.model = model(child)?,
                "limits" => self.limits(child)?,
                "permissions" => self.permissions(child)?,
                "context" => self.context = context(child)?,
                "hooks" => {
                    self.hooks = HookDeclaration::list_from_xml(child)?;
                    hook_control::check(&self.hooks, Scope::Thread)?;
                }
                "continuation_directive" => {
                    self.continuation_directive = Some(item_id(child.only_text()?, child)?);
                }
                "tags" | "license" | "runtime" | "relationships" => {
                    self.ignored.push((child.place.clone(), child.name.clone()));
                }
                _ => return Err(child.unknown("metadata")),
            }
        }
        Ok(())
    }

    fn describe(&mut self, element: &Element) -> Result<(), Error> {
        if !self.description.is_empty() {
            return Err(element.error("a second <description>"));
        }
        element.only_text()?.clone_into(&mut self.description);
        Ok(())
    }

    fn limits(&mut self, element: &Element) -> Result<(), Error> {
        element.only_text()?;
        element.no_text()?;
        for (name, text) in &element.attributes {
            self.limits
                .set(name, &Value::String(text.clone()))
                .map_err(|error| element.error(error))?;
        }
        Ok(())
    }

    /// Reads permissions as Rye does, with two additions. `/` in a pattern is `.`, because
    /// capabilities are spelled with dots (in Rye such a pattern never matches). `fetch`, which
    /// replaces search and load in later versions, grants both.
    fn permissions(&mut self, element: &Element) -> Result<(), Error> {
        element.only_attributes(&[])?;
        match element.text.as_str() {
            "" => {}
            "*" if element.children.is_empty() => {
                self.grant("*", element);
                return Ok(());
            }
            _ => return Err(element.error("<permissions> must contain elements, or `*` alone")),
        }
        for child in &element.children {
            if child.name == "acknowledge" {
                self.acknowledged.push(acknowledgement(child)?);
                continue;
            }
            child.only_attributes(&[])?;
            let primaries = match Primary::parse(&child.name) {
                Some(primary) => vec![primary],
                None if child.name == "fetch" => vec![Primary::Search, Primary::Load],
                None => return Err(child.unknown("permissions")),
            };
            for primary in primaries {
                self.grant_primary(primary, child)?;
            }
        }
        Ok(())
    }

    fn grant_primary(&mut self, primary: Primary, element: &Element) -> Result<(), Error> {
        let primary = primary.as_str();
        match (element.text.as_str(), element.children.is_empty()) {
            ("", false) => {}
            ("*", true) => {
                self.grant(&format!("{primary}.*"), element);
                return Ok(());
            }
            ("", true) => return Err(element.error(format!("<{}> grants nothing", element.name))),
            _ => {
                let message = format!("<{}> must contain elements, or `*` alone", element.name);
                return Err(element.error(message));
            }
        }
        for item in &element.children {
            item.only_attributes(&[])?;
            let kind =
                ItemKind::parse_callable(&item.name).ok_or_else(|| item.unknown(&element.name))?;
            let pattern = item.only_text()?;
            let plain = |c: char| c.is_alphanumeric() || "_-./@+*?[]!".contains(c);
            if pattern.is_empty() || !pattern.chars().all(plain) {
                return Err(item.error(format!("{pattern:?} is not a valid pattern of item ids")));
            }
            let dotted = pattern.replace('/', ".");
            self.grant(&format!("{primary}.{kind}.{dotted}"), item);
        }
        Ok(())
    }

    fn grant(&mut self, pattern: &str, element: &Element) {
        self.permissions.push(Permission {
            capability: format!("rye.{pattern}"),
            place: element.place.clone(),
        });
    }
}

fn name(root: &Element) -> Result<String, Error> {
    let name = root.require("name")?;
    let plain = name
        .chars()
        .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
    match plain {
        true => Ok(name.to_owned()),
        false => Err(root.error(format!(
            "{name:?} is not a valid name: use letters, digits, _ and -"
        ))),
    }
}

fn item_id(text: &str, element: &Element) -> Result<ItemId, Error> {
    ItemId::parse(text).map_err(|error| element.error(error))
}

fn category(element: &Element) -> Result<String, Error> {
    match element.only_text()? {
        "" => Ok(String::new()),
        text => Ok(item_id(text, element)?.as_str().to_owned()),
    }
}

/// The other name of the element that names a model.
fn other_model(name: &str) -> &'static str {
    match name {
        "model" => "model_class",
        _ => "model",
    }
}

/// The element's text is for people.
fn model(element: &Element) -> Result<ModelChoice, Error> {
    element.only_attributes(&["tier", "id", "provider", "fallback"])?;
    element.only_text()?;
    let named = |name: &str| {
        element
            .attribute(name)
            .filter(|text| !text.is_empty())
            .map(ToOwned::to_owned)
    };
    let fallback = element.attribute("fallback").unwrap_or_default().split(',');
    Ok(ModelChoice {
        tier: named("tier"),
        id: named("id"),
        provider: named("provider"),
        fallback: fallback
            .map(str::trim)
            .filter(|text| !text.is_empty())
            .map(ToOwned::to_owned)
            .collect(),
    })
}

fn acknowledgement(element: &Element) -> Result<Acknowledgement, Error> {
    element.only_attributes(&["risk"])?;
    Ok(Acknowledgement {
        risk: element.require("risk")?.to_owned(),
        reason: element.only_text()?.to_owned(),
    })
}

fn context(element: &Element) -> Result<ContextItems, Error> {
    element.only_attributes(&[])?;
    element.no_text()?;
    let mut items = ContextItems::default();
    for child in &element.children {
        let list = match child.name.as_str() {
            "system" => &mut items.system,
            "before" => &mut items.before,
            "after" => &mut items.after,
            "suppress" => &mut items.suppress,
            _ => return Err(child.unknown("context")),
        };
        child.only_attributes(&[])?;
        list.push(item_id(child.only_text()?, child)?);
    }
    Ok(items)
}

#[cfg(test)]
mod tests;
