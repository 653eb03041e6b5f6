//! The schemas of `spec/schemas`: all JSON that the command prints in these tests is validated
//! against them, and each of them can refuse.

use crate::prelude::*;
use jsonschema::{Registry, Validator};
use std::sync::{LazyLock, OnceLock};
use threadseal_capture::Agent;
use threadseal_core::key::KeyUsage;
use threadseal_core::report::{CheckName, FindingCode, Format, Profile, Verdict};
use threadseal_core::trust::ScopeFormat;
use threadseal_runtime::status::Status;
use threadseal_testkit::in_repository;

const FOLDER: &str = "spec/schemas";
/// Names of files are relative to this.
const BASE: &str = "json-schema:///";
const COMMON: &str = "common.schema.json";
/// The kinds of answers of `record`, which have no member `schema`.
const ANSWERS: [&str; 6] = [
    "recording",
    "written",
    "durable",
    "sealed",
    "refused",
    "ended",
];
const ANSWER: &str = "threadseal-record-1.schema.json";

/// Validates standard output that is JSON of ours: one object, or lines of objects.
pub(crate) fn check(output: &str) {
    let mut values = serde_json::Deserializer::from_str(output).into_iter::<Value>();
    let Some(Ok(first)) = values.next() else {
        return;
    };
    if file_of(&first).is_none() {
        return;
    }
    validate(&first);
    for value in values {
        let value = value.unwrap_or_else(|error| panic!("{error} in {output}"));
        validate(&value);
    }
}

fn validate(value: &Value) {
    let file = file_of(value).unwrap_or_else(|| panic!("an object without a schema: {value}"));
    let schema = SCHEMAS.files.get(&file);
    let schema =
        schema.unwrap_or_else(|| panic!("{FOLDER}/{file} does not exist; it is for {value}"));
    let errors = schema.validator().iter_errors(value);
    let errors: Vec<String> = errors
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(
        errors.is_empty(),
        "{FOLDER}/{file} refuses {value}:\n{}",
        errors.join("\n")
    );
}

/// The file with the schema of an output; none for what is no output of ours.
fn file_of(value: &Value) -> Option<String> {
    let members = value.as_object()?;
    if let Some(name) = members.get("schema") {
        let name = name
            .as_str()
            .filter(|name| name.starts_with("threadseal."))?;
        return Some(format!("{}.schema.json", name.replace('/', "-")));
    }
    let kind = members.keys().next().filter(|_| members.len() == 1)?;
    ANSWERS.contains(&kind.as_str()).then(|| ANSWER.to_owned())
}

/// All schemas; each is compiled when it is needed first.
struct Schemas {
    files: BTreeMap<String, Schema>,
    registry: Registry<'static>,
}

struct Schema {
    file: String,
    text: Value,
    compiled: OnceLock<Validator>,
}

static SCHEMAS: LazyLock<Schemas> = LazyLock::new(|| {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(in_repository(FOLDER)).unwrap() {
        let path = entry.unwrap().path();
        let file = name_of(&path).to_owned();
        if file.ends_with(".json") {
            let schema = Schema {
                text: json_file(&path),
                compiled: OnceLock::new(),
                file: file.clone(),
            };
            files.insert(file, schema);
        }
    }
    let named = files
        .iter()
        .map(|(file, schema)| (format!("{BASE}{file}"), schema.text.clone()));
    let registry = Registry::new().extend(named).unwrap().prepare().unwrap();
    Schemas { files, registry }
});

impl Schema {
    fn validator(&self) -> &Validator {
        self.compiled.get_or_init(|| {
            jsonschema::options()
                .offline()
                .with_registry(&SCHEMAS.registry)
                .with_base_uri(format!("{BASE}{}", self.file))
                .build(&self.text)
                .unwrap_or_else(|error| panic!("{}: {error}", self.file))
        })
    }

    /// The schema that a reference in this one names.
    fn referred<'s>(&'s self, reference: &str) -> Node<'s> {
        let (file, pointer) = reference.split_once('#').unwrap_or((reference, ""));
        let schema = match file {
            "" => self,
            file => &SCHEMAS.files[file],
        };
        let node = schema.text.pointer(pointer);
        let node = node.unwrap_or_else(|| panic!("{}: {reference} leads nowhere", self.file));
        Node { schema, node }
    }

    /// The forms of the whole: the members of each of `anyOf` are all that it has.
    fn forms(&self) -> Vec<Node<'_>> {
        let forms = self.text.get("anyOf").and_then(Value::as_array);
        let nodes = forms.map_or_else(|| vec![&self.text], |forms| forms.iter().collect());
        let node = |node| Node { schema: self, node };
        nodes.into_iter().map(node).collect()
    }
}

/// A schema within a file.
#[derive(Clone, Copy)]
struct Node<'s> {
    schema: &'s Schema,
    node: &'s Value,
}

impl<'s> Node<'s> {
    fn at(self, node: &'s Value) -> Self {
        Self { node, ..self }
    }

    /// The schema itself, or the one that it refers to; of several that it allows the first.
    fn resolved(self) -> Self {
        if let Some(reference) = self.node.get("$ref") {
            return self.schema.referred(reference.text()).resolved();
        }
        match self.node.get("anyOf") {
            Some(forms) => self.at(&forms[0]).resolved(),
            None => self,
        }
    }

    fn members(self) -> impl Iterator<Item = (&'s String, Self)> {
        let members = self.node.get("properties").and_then(Value::as_object);
        let members = members.into_iter().flatten();
        members.map(move |(name, node)| (name, self.at(node).resolved()))
    }

    fn kind(self) -> &'s str {
        match &self.node["type"] {
            Value::Array(kinds) => kinds[0].text(),
            kind => kind.as_str().unwrap_or_default(),
        }
    }

    /// A value that it allows, with every member.
    fn sample(self) -> Value {
        if let Some(value) = self.node.get("const") {
            return value.clone();
        }
        for values in ["examples", "enum"] {
            if let Some(values) = self.node.get(values) {
                return values[0].clone();
            }
        }
        assert!(
            self.node.get("pattern").is_none(),
            "a pattern has no example: {}",
            self.node
        );
        match self.kind() {
            "string" => "text".into(),
            "boolean" => true.into(),
            "integer" | "number" => self.node.get("minimum").cloned().unwrap_or(7.into()),
            "array" => {
                let least = self.node.get("minItems").map_or(1, Json::number);
                let item = self.at(&self.node["items"]).resolved().sample();
                (0..least).map(|_| item.clone()).collect()
            }
            "object" | "" if self.node.get("properties").is_some() => {
                let members = self.members();
                members
                    .map(|(name, member)| (name.clone(), member.sample()))
                    .collect()
            }
            "object" => json!({}),
            _ => "any".into(),
        }
    }

    /// Values that it refuses, each a sample with one fault, and what the fault is.
    fn faulty(self) -> Vec<(String, Value)> {
        let sample = self.sample();
        let mut faulty = Vec::new();
        for (name, member) in self.members() {
            for (fault, value) in member.faulty() {
                faulty.push((format!("{name}/{fault}"), with(&sample, name, value)));
            }
        }
        for name in self
            .node
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let mut value = sample.clone();
            value.as_object_mut().unwrap().remove(name.text());
            faulty.push((format!("no {name}"), value));
        }
        if self.node["additionalProperties"] == json!(false) {
            faulty.push((
                "a member".to_owned(),
                with(&sample, "not_of_ours", 1.into()),
            ));
        }
        if let ("array", Some(items)) = (self.kind(), self.node.get("items")) {
            let items = self.at(items).resolved().faulty();
            faulty.extend(
                items
                    .into_iter()
                    .map(|(fault, value)| (fault, json!([value]))),
            );
        }
        let is_leaf = ["string", "boolean", "integer", "number"].contains(&self.kind());
        if is_leaf || self.node.get("const").or(self.node.get("enum")).is_some() {
            faulty.push(("another type".to_owned(), json!([{}])));
        }
        faulty
    }
}

fn with(object: &Value, name: &str, value: Value) -> Value {
    let mut object = object.clone();
    object[name] = value;
    object
}

#[test]
fn each_schema_is_valid_and_refuses_each_fault() {
    for (file, schema) in &SCHEMAS.files {
        jsonschema::meta::validate(&schema.text).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_eq!(schema.text["$id"], *file);
        assert!(schema.text["title"].text().ends_with('.'), "{file}");
        if file == COMMON {
            continue;
        }
        let mut faults = 0;
        for form in schema.forms() {
            let sample = form.sample();
            validate_by(schema, &sample);
            for (fault, value) in form.faulty() {
                assert!(
                    !schema.validator().is_valid(&value),
                    "{file} allows {fault}: {value}"
                );
                faults += 1;
            }
        }
        assert!(faults >= 3, "{file}: {faults}");
    }
}

fn validate_by(schema: &Schema, value: &Value) {
    let result = schema.validator().validate(value);
    result.unwrap_or_else(|error| panic!("{}: {error} in {value}", schema.file));
}

#[test]
fn the_words_of_the_schemas_are_those_of_the_source() {
    fn words<T: ToString>(all: &[T]) -> Value {
        all.iter().map(ToString::to_string).collect()
    }
    let defined = |name: &str| &SCHEMAS.files[COMMON].text["$defs"][name]["enum"];
    assert_eq!(*defined("verdict"), words(&Verdict::ALL));
    assert_eq!(*defined("format"), words(Format::ALL));
    assert_eq!(*defined("profile"), words(Profile::ALL));
    assert_eq!(*defined("check_name"), words(CheckName::ALL));
    assert_eq!(*defined("finding_code"), words(FindingCode::ALL));
    assert_eq!(*defined("usage"), words(&KeyUsage::ALL));
    assert_eq!(*defined("agent"), words(&Agent::ALL));
    assert_eq!(*defined("status"), words(&Status::ALL));
    let formats = ScopeFormat::ALL.map(ScopeFormat::as_str);
    assert_eq!(*defined("record_format"), words(&formats));
}

#[test]
fn an_output_without_a_schema_or_with_an_unknown_member_is_found() {
    let good = json!({"schema": "threadseal.log.catch-up/1", "came": 0, "size": 1, "exit": 0, "code": null});
    check(&good.to_string());
    check("{\"text\":1}\n");
    check(&format!("{good}\n{good}\n"));
    let bad = [
        with(&good, "more", 1.into()),
        with(&good, "size", Value::Null),
        with(&good, "schema", "threadseal.log.catch-up/2".into()),
        with(&good, "schema", "other/1".into()),
        json!({"written": {"input": 1}}),
    ];
    for bad in bad {
        let lines = format!("{good}\n{bad}\n");
        let refused = std::panic::catch_unwind(|| check(&lines));
        assert!(refused.is_err(), "{bad}");
    }
    let cut = format!("{good}\n{{\"schema\":");
    assert!(std::panic::catch_unwind(|| check(&cut)).is_err());
}
