//! `<metadata>`: model, limits, permissions, context, hooks.

use super::{Directive, item_id};
use crate::hook_control::{self, Scope};
use crate::hook_declaration::{HookDeclaration, Primary};
use crate::item::{ItemId, ItemKind};
use crate::xml::Element;
use serde_json::Value;
use threadseal_core::error::Error;

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
    pub place: crate::place::Place,
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
    pub(super) fn metadata(&mut self, element: &Element) -> Result<(), Error> {
        element.only_attributes(&[])?;
        element.no_text()?;
        let mut seen: Vec<&str> = Vec::new();
        for child in &element.children {
            if seen.contains(&child.name.as_str()) {
                return Err(child.error(format!("a second <{}>", child.name)));
            }
            seen.push(&child.name);
            match child.name.as_str() {
                "description" => child.only_text()?.clone_into(&mut self.description),
                "category" => self.category = category(child)?,
                "author" => child.only_text()?.clone_into(&mut self.author),
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

fn category(element: &Element) -> Result<String, Error> {
    match element.only_text()? {
        "" => Ok(String::new()),
        text => Ok(item_id(text, element)?.as_str().to_owned()),
    }
}

/// The element's text is for people.
fn model(element: &Element) -> Result<ModelChoice, Error> {
    element.only_attributes(&["tier", "id", "provider", "fallback", "parallel"])?;
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
