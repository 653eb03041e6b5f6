//! Declarations of hooks: at which event, under which condition, which items are called.
//!
//! ```text
//! <hook id="…" event="after_complete" layer="1">           - id: …      (YAML: settings, graphs)
//!   <condition path="…" op="…" value="…"/>                   event: after_step
//!   <action primary="execute" item_type="tool" item_id="…">  condition: {path, op, value}
//!     <param name="…">${…}</param>                           action: {primary, item_type,
//!   </action>                                                         item_id, params}
//! </hook>
//! ```
//! Both spellings become one [`HookDeclaration`]. An action's `item_id` and parameters are
//! templates.
//!
//! Elsewhere: running hooks, and the effect of their answers. Normative: `spec/declarations.md` §5.

use crate::condition::Condition;
use crate::interpolate::{Template, Tree};
use crate::item::ItemKind;
use crate::place::Place;
use crate::xml::Element;
use crate::yaml::Node;
use serde_json::Value;
use threadseal_core::error::Error;

/// The event at which hooks add to the system prompt.
pub(crate) const BUILD_SYSTEM_PROMPT: &str = "build_system_prompt";

/// The event at which a hook names the base of a directive that extends nothing.
pub(crate) const RESOLVE_EXTENDS: &str = "resolve_extends";

/// The events at which hooks may fire.
pub(crate) const EVENTS: [&str; 15] = [
    BUILD_SYSTEM_PROMPT,
    RESOLVE_EXTENDS,
    "thread_started",
    "thread_continued",
    "after_step",
    "error",
    "limit",
    "context_limit_reached",
    "context_window_pressure",
    "directive_return",
    "after_complete",
    "graph_started",
    "graph_completed",
    "graph_error",
    "graph_cancelled",
];

/// One hook, as declared.
#[derive(Debug, Clone)]
pub struct HookDeclaration {
    /// Its name.
    pub id: String,
    /// Where it is declared.
    pub place: Place,
    /// The event at which it fires, one of [`EVENTS`].
    pub event: String,
    /// Its layer, where it names one: lower ones run first.
    pub layer: Option<u64>,
    /// When it fires; None for always.
    pub condition: Option<Condition>,
    /// Its calls, in order; at least one.
    pub actions: Vec<Action>,
    /// Where a context hook puts its item's text.
    pub position: Position,
    /// Whether a context hook wraps its item's text in an element of its name.
    pub wrap: bool,
}

/// Where a context hook puts its item's text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Position {
    /// Before the prompt.
    #[default]
    Before,
    /// After it.
    After,
}

/// The operations on an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Primary {
    /// Run it, or for knowledge: insert it.
    Execute,
    /// Look for items.
    Search,
    /// Read it.
    Load,
    /// Sign it.
    Sign,
}

impl Primary {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Execute, Self::Search, Self::Load, Self::Sign];

    /// The word in files and capabilities.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Execute => "execute",
            Self::Search => "search",
            Self::Load => "load",
            Self::Sign => "sign",
        }
    }

    /// Reads [`Primary::as_str`]'s words.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|item| item.as_str() == word)
    }
}

/// One call.
#[derive(Debug, Clone, PartialEq)]
pub struct Action {
    /// Where it is declared.
    pub place: Place,
    /// The operation.
    pub primary: Primary,
    /// The kind of the item.
    pub item_type: ItemKind,
    /// With which; render it, then read it as an item id.
    pub item_id: Template,
    /// Parameters; a mapping.
    pub params: Tree,
}

impl HookDeclaration {
    /// Reads a hook from YAML.
    ///
    /// # Errors
    /// At its line, when it is not one.
    pub(crate) fn from_yaml(node: &Node) -> Result<Self, Error> {
        let mut fields = node.fields()?;
        fields.ignore(&["description", "name"]);
        let id = fields.require("id")?.text()?.to_owned();
        let event = fields.require("event")?;
        let hook = Self {
            id,
            place: node.place.clone(),
            event: known_event(event.text()?, &event.place)?,
            layer: fields.take("layer").map(Node::whole).transpose()?,
            condition: fields.take("condition").map(Condition::parse).transpose()?,
            actions: match (fields.take("action"), fields.take("actions")) {
                (Some(action), None) => vec![Action::from_yaml(action)?],
                (None, Some(actions)) if !actions.list()?.is_empty() => {
                    let actions = actions.list()?.iter();
                    actions.map(Action::from_yaml).collect::<Result<_, _>>()?
                }
                _ => return Err(node.error("a hook must have either `action` or `actions`")),
            },
            position: fields
                .take("position")
                .map_or(Ok(Position::Before), |at| position(at.text()?, &at.place))?,
            wrap: fields.take("wrap").map_or(Ok(true), Node::bool)?,
        };
        let beside = ["position", "wrap"].map(|name| node.data.has(name));
        fields.finish("a hook")?;
        hook.check_knowledge(beside)?;
        Ok(hook)
    }

    /// Reads a list of hooks from YAML; no two may have one id.
    ///
    /// # Errors
    /// At the hook's line.
    pub(crate) fn list_from_yaml(node: &Node) -> Result<Vec<Self>, Error> {
        let hooks = node.list()?.iter().map(Self::from_yaml);
        distinct(hooks.collect::<Result<_, _>>()?)
    }

    /// Reads `<hook>`.
    ///
    /// # Errors
    /// At its line, when it is not one.
    pub(crate) fn from_xml(element: &Element) -> Result<Self, Error> {
        element.only_attributes(&["id", "event", "layer", "position", "wrap"])?;
        element.no_text()?;
        let mut hook = Self {
            id: element.require("id")?.to_owned(),
            place: element.place.clone(),
            event: known_event(element.require("event")?, &element.place)?,
            layer: match element.attribute("layer") {
                Some(text) => Some(
                    text.parse()
                        .map_err(|_| element.error("`layer` must be a number"))?,
                ),
                None => None,
            },
            condition: None,
            actions: Vec::new(),
            position: element
                .attribute("position")
                .map_or(Ok(Position::Before), |word| position(word, &element.place))?,
            wrap: match element.attribute("wrap") {
                None | Some("true") => true,
                Some("false") => false,
                Some(_) => return Err(element.error("`wrap` must be true or false")),
            },
        };
        for child in &element.children {
            match child.name.as_str() {
                "condition" if hook.condition.is_none() => {
                    hook.condition = Some(condition_from_xml(child)?);
                }
                "condition" => {
                    return Err(child.error("a hook can have only one <condition>; use <all>"));
                }
                "action" => hook.actions.extend(Action::list_from_xml(child)?),
                "description" => {}
                _ => return Err(child.unknown("hook")),
            }
        }
        if hook.actions.is_empty() {
            return Err(element.error("a hook needs an <action>"));
        }
        let beside = ["position", "wrap"].map(|name| element.attribute(name).is_some());
        hook.check_knowledge(beside)?;
        Ok(hook)
    }

    /// Checks that knowledge is added where something reads it, and that `position` and `wrap`
    /// have something to say about it.
    fn check_knowledge(&self, [position, wrap]: [bool; 2]) -> Result<(), Error> {
        let executes =
            |action: &Action, kind| action.primary == Primary::Execute && action.item_type == kind;
        let event = self.event.as_str();
        for action in &self.actions {
            let adds = executes(action, ItemKind::Knowledge);
            let why = match event {
                BUILD_SYSTEM_PROMPT if !adds => {
                    "at build_system_prompt a hook can only execute knowledge"
                }
                RESOLVE_EXTENDS if !executes(action, ItemKind::Directive) => {
                    "at resolve_extends a hook can only execute a directive, the base"
                }
                BUILD_SYSTEM_PROMPT | RESOLVE_EXTENDS | "thread_started" | "thread_continued" => {
                    continue;
                }
                _ if adds => "no model reads knowledge that is executed at this event",
                _ => continue,
            };
            return Err(action.place.error(why));
        }
        let adds = |action: &&Action| executes(action, ItemKind::Knowledge);
        let with_params = |action: &&Action| match &action.params {
            Tree::Map(entries) => !entries.is_empty(),
            _ => true,
        };
        // Knowledge is added as it is, and a base has the inputs of the directive itself.
        let unread = |action: &&Action| adds(action) || event == RESOLVE_EXTENDS;
        if let Some(action) = self.actions.iter().filter(unread).find(with_params) {
            let why = "no `params` are read by knowledge that is added, nor by a base";
            return Err(action.place.error(why));
        }
        if (position || wrap) && !self.actions.iter().any(|action| adds(&action)) {
            return Err(self.place.error(
                "`position` and `wrap` are for knowledge, and no action of this hook adds any",
            ));
        }
        match position && event == BUILD_SYSTEM_PROMPT {
            true => Err(self
                .place
                .error("the system prompt has no `position`: hooks add to its end")),
            false => Ok(()),
        }
    }

    /// Reads the children of `<hooks>`; no two may have one id.
    ///
    /// # Errors
    /// At the hook's line.
    pub(crate) fn list_from_xml(element: &Element) -> Result<Vec<Self>, Error> {
        element.only_attributes(&[])?;
        element.no_text()?;
        let hooks = element
            .children
            .iter()
            .map(|child| match child.name.as_str() {
                "hook" => Self::from_xml(child),
                _ => Err(child.unknown("hooks")),
            });
        distinct(hooks.collect::<Result<_, _>>()?)
    }
}

impl Action {
    /// Reads `{primary, item_type, item_id, params}`.
    ///
    /// # Errors
    /// At its line, when it is not that.
    pub(crate) fn from_yaml(node: &Node) -> Result<Self, Error> {
        let mut fields = node.fields()?;
        let primary = fields.require("primary")?;
        let item_type = fields.require("item_type")?;
        let item_id = fields.require("item_id")?;
        let params = match fields.take("params") {
            Some(params) => {
                params.entries()?;
                Tree::parse(params)?
            }
            None => Tree::Map(Vec::new()),
        };
        fields.finish("an action")?;
        Ok(Self {
            place: node.place.clone(),
            primary: known_primary(primary.text()?, &primary.place)?,
            item_type: known_type(item_type.text()?, &item_type.place)?,
            item_id: Template::parse(item_id.text()?, &item_id.place)?,
            params,
        })
    }

    /// `<action primary=… item_type=… item_id=…>` is one call. An `<action>` without these
    /// attributes contains the calls as `<execute item_type=… item_id=…>` and the like.
    fn list_from_xml(element: &Element) -> Result<Vec<Self>, Error> {
        element.no_text()?;
        if let Some(primary) = element.attribute("primary") {
            element.only_attributes(&["primary", "item_type", "item_id"])?;
            return Ok(vec![Self::from_xml(element, primary)?]);
        }
        element.only_attributes(&[])?;
        if element.children.is_empty() {
            return Err(element.error("<action> is empty"));
        }
        let calls = element.children.iter().map(|call| {
            call.only_attributes(&["item_type", "item_id"])?;
            call.no_text()?;
            Self::from_xml(call, &call.name)
        });
        calls.collect()
    }

    fn from_xml(element: &Element, primary: &str) -> Result<Self, Error> {
        let mut params: Vec<(String, Tree)> = Vec::new();
        for child in &element.children {
            if child.name != "param" {
                return Err(child.unknown(&element.name));
            }
            child.only_attributes(&["name", "value"])?;
            let text = match (child.attribute("value"), child.only_text()?) {
                (Some(value), "") => value,
                (None, text) => text,
                (Some(_), _) => {
                    return Err(child.error("a <param> must have either a `value` or text"));
                }
            };
            let name = child.require("name")?.to_owned();
            if params.iter().any(|(known, _)| *known == name) {
                return Err(child.error(format!("a second parameter `{name}`")));
            }
            params.push((name, Tree::Text(Template::parse(text, &child.place)?)));
        }
        Ok(Self {
            place: element.place.clone(),
            primary: known_primary(primary, &element.place)?,
            item_type: known_type(element.require("item_type")?, &element.place)?,
            item_id: Template::parse(element.require("item_id")?, &element.place)?,
            params: Tree::Map(params),
        })
    }
}

/// `<condition path op value/>`, or one `<any>`, `<all>` or `<not>` of conditions.
fn condition_from_xml(element: &Element) -> Result<Condition, Error> {
    let json = condition_json(element)?;
    Condition::from_json(&json, &element.place)
}

fn condition_json(element: &Element) -> Result<Value, Error> {
    element.no_text()?;
    let Some(inner) = element.children.first() else {
        return test_json(element);
    };
    element.only_attributes(&[])?;
    inner.only_attributes(&[])?;
    inner.no_text()?;
    if let Some(second) = element.children.get(1) {
        return Err(second.error("a <condition> must contain only one <any>, <all> or <not>"));
    }
    let conditions = inner
        .children
        .iter()
        .map(|child| match child.name.as_str() {
            "condition" => condition_json(child),
            _ => Err(child.unknown(&inner.name)),
        });
    let mut conditions: Vec<Value> = conditions.collect::<Result<_, _>>()?;
    match (inner.name.as_str(), conditions.len()) {
        (word @ ("any" | "all"), _) => Ok(serde_json::json!({ word: conditions })),
        ("not", 1) => Ok(serde_json::json!({ "not": conditions.pop() })),
        ("not", _) => Err(inner.error("<not> must contain one <condition>")),
        _ => Err(inner.unknown("condition")),
    }
}

fn test_json(element: &Element) -> Result<Value, Error> {
    element.only_attributes(&["path", "op", "value"])?;
    let mut test = serde_json::Map::new();
    for (name, value) in &element.attributes {
        test.insert(name.clone(), Value::String(value.clone()));
    }
    if let Some(value) = element.attribute("value") {
        let value = match element.attribute("op") {
            Some("regex" | "contains") => value.into(),
            Some("in") => serde_json::from_str(value)
                .map_err(|_| element.error("`in` needs a JSON array as `value`"))?,
            _ => spelled(value),
        };
        test.insert("value".to_owned(), value);
    }
    Ok(Value::Object(test))
}

/// The truth value or number that a text spells, else the text (`_coerce_value` of Rye).
fn spelled(text: &str) -> Value {
    match text {
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => match serde_json::from_str(text) {
            Ok(Value::Number(number)) => Value::Number(number),
            _ => Value::String(text.to_owned()),
        },
    }
}

fn known_event(word: &str, place: &Place) -> Result<String, Error> {
    if EVENTS.contains(&word) {
        return Ok(word.to_owned());
    }
    Err(place.error(format!(
        "unknown event `{word}`; known: {}",
        EVENTS.join(", ")
    )))
}

fn known_primary(word: &str, place: &Place) -> Result<Primary, Error> {
    Primary::parse(word).ok_or_else(|| {
        place.error(format!(
            "unknown action `{word}`; known: execute, search, load, sign"
        ))
    })
}

fn known_type(word: &str, place: &Place) -> Result<ItemKind, Error> {
    ItemKind::parse_callable(word).ok_or_else(|| {
        place.error(format!(
            "unknown item type `{word}`; known: directive, tool, knowledge"
        ))
    })
}

fn position(word: &str, place: &Place) -> Result<Position, Error> {
    match word {
        "before" => Ok(Position::Before),
        "after" => Ok(Position::After),
        _ => Err(place.error("`position` must be before or after")),
    }
}

fn distinct(hooks: Vec<HookDeclaration>) -> Result<Vec<HookDeclaration>, Error> {
    for (at, hook) in hooks.iter().enumerate() {
        if let Some(first) = hooks[..at].iter().find(|known| known.id == hook.id) {
            let message = format!(
                "duplicate hook `{}`; the first one: {}",
                hook.id, first.place
            );
            return Err(hook.place.error(message));
        }
    }
    Ok(hooks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::prelude::{Fails as _, rows};
    use serde_json::json;

    fn xml(text: &str) -> Result<Vec<HookDeclaration>, Error> {
        let element = crate::xml::parse(text, &Place::new("d.md").at(1))?;
        HookDeclaration::list_from_xml(&element)
    }

    /// The summary hooks of the seed, in its own spelling.
    const SUMMARY: &str = r#"<hooks>
  <hook id="summarize_on_complete" event="after_complete">
    <condition path="cost.turns" op="gte" value="1" />
    <action primary="execute" item_type="tool" item_id="rye/agent/threads/thread_summary">
      <param name="thread_id">${thread_id}</param>
    </action>
  </hook>
  <hook id="reinject_summary" event="thread_continued">
    <action primary="execute" item_type="knowledge" item_id="agent/threads/${inputs.previous_summary_id}" />
  </hook>
</hooks>"#;

    #[test]
    fn the_seeds_summary_hooks_are_read() {
        let hooks = xml(SUMMARY).unwrap();
        assert_eq!(hooks.len(), 2);
        let condition = hooks[0].condition.as_ref().unwrap();
        assert!(condition.eval(&json!({"cost": {"turns": 1}})).unwrap());
        assert!(!condition.eval(&json!({"cost": {"turns": 0}})).unwrap());
        let id = json!({"thread_id": "t-1"});
        assert_eq!(hooks[0].actions[0].params.render(&id), Ok(id));
        let inject = &hooks[1].actions[0];
        assert_eq!(inject.item_type, ItemKind::Knowledge);
        let context = json!({"inputs": {"previous_summary_id": "s/1"}});
        let item = inject.item_id.render(&context);
        assert_eq!(item, Ok(json!("agent/threads/s/1")));
    }

    #[test]
    fn hooks_with_many_actions_and_nested_conditions_are_read() {
        let hooks = xml(r#"<hooks><hook id="a" event="thread_started" layer="2" position="after" wrap="false">
            <condition><any><condition path="code" op="in" value="[500, &quot;x&quot;]"/>
              <condition><not><condition path="ok" value="true"/></not></condition></any></condition>
            <action><execute item_type="knowledge" item_id="x"/>
              <load item_type="knowledge" item_id="y"/></action></hook></hooks>"#)
        .unwrap();
        let hook = &hooks[0];
        assert_eq!((hook.layer, hook.wrap), (Some(2), false));
        assert_eq!(hook.position, Position::After);
        assert_eq!(hook.actions.len(), 2);
        assert_eq!(hook.actions[1].primary, Primary::Load);
        let condition = hook.condition.as_ref().unwrap();
        for (context, holds) in [
            (json!({"code": 500, "ok": true}), true),
            (json!({"code": 1, "ok": true}), false),
            (json!({"code": 1}), true),
        ] {
            assert_eq!(condition.eval(&context), Ok(holds), "{context}");
        }
    }

    // T-DEC-16
    #[test]
    fn mistakes_in_hooks_are_named() {
        for [text, message] in rows(
            r"<hooks><hook id='a' event='error'><action primary='execute' item_type='knowledge' item_id='x'/></hook></hooks> => no model reads knowledge
              <hooks><hook id='a' event='build_system_prompt'><action primary='execute' item_type='tool' item_id='x'/></hook></hooks> => only execute knowledge
              <hooks><hook id='a' event='resolve_extends'><action primary='load' item_type='directive' item_id='x'/></hook></hooks> => only execute a directive
              <hooks><hook id='a' event='build_system_prompt' position='after'><action primary='execute' item_type='knowledge' item_id='x'/></hook></hooks> => has no `position`
              <hooks><hook id='a' event='build_system_prompt'><action primary='execute' item_type='knowledge' item_id='x'><param name='p' value='1'/></action></hook></hooks> => no `params` are read
              <hooks><hook id='a' event='thread_started'><action><execute item_type='knowledge' item_id='x'><param name='p' value='1'/></execute></action></hook></hooks> => no `params` are read
              <hooks><hook id='a' event='resolve_extends'><action primary='execute' item_type='directive' item_id='x'><param name='p' value='1'/></action></hook></hooks> => no `params` are read
              <hooks><hook id='a' event='later'/></hooks> => unknown event `later`
              <hooks><hook id='a' event='error'/></hooks> => needs an <action>
              <hooks><hook event='error'/></hooks> => needs `id`
              <hooks><hook id='a' event='error'><action/></hook></hooks> => is empty
              <hooks><hook id='a' event='error'><action primary='run' item_type='tool' item_id='x'/></hook></hooks> => unknown action `run`
              <hooks><hook id='a' event='error'><action primary='sign' item_type='graph' item_id='x'/></hook></hooks> => unknown item type
              <hooks><hook id='a' event='error'><condition path='x' op='in' value='abc'/><action primary='sign' item_type='tool' item_id='x'/></hook></hooks> => JSON array
              <hooks><hook id='a' event='error'><when/></hook></hooks> => <hook> has no <when>",
        ) {
            let why = xml(&text).why();
            assert!(
                why.starts_with("d.md:1: ") && why.contains(&message),
                "{why}"
            );
        }
        let twice = SUMMARY.trim_end_matches("</hooks>").to_owned() + &SUMMARY["<hooks>".len()..];
        xml(&twice).fails_with("duplicate hook");
    }

    #[test]
    fn yaml_hooks_say_the_same() {
        let text = "
- id: retry
  event: error
  layer: 2
  condition: {path: classification.retryable, op: eq, value: true}
  action:
    primary: execute
    item_type: tool
    item_id: rye/agent/threads/internal/control
    params: {action: retry, payload: {turn: '${cost.turns}'}}
  description: any
";
        let node = crate::yaml::parse("h.yaml", text).unwrap();
        let hooks = HookDeclaration::list_from_yaml(&node).unwrap();
        assert_eq!(hooks[0].place.to_string(), "h.yaml:2");
        let context = json!({"cost": {"turns": 3}});
        let params = hooks[0].actions[0].params.render(&context);
        let expected = json!({"action": "retry", "payload": {"turn": 3}});
        assert_eq!(params, Ok(expected));
        for [bad, line] in rows(
            r"- id: a\n  event: error\n => h:1:\s
              - id: a\n  event: x\n  action: {}\n => h:2:\s
              - id: a\n  event: error\n  actions: []\n => h:1:\s
              - id: a\n  event: error\n  action: {primary: execute, item_type: tool, item_id: x, param: {}}\n => h:3:\s",
        ) {
            let node = crate::yaml::parse("h", &bad).unwrap();
            let error = HookDeclaration::list_from_yaml(&node).why();
            assert!(error.starts_with(&line), "{error}");
        }
    }
}
