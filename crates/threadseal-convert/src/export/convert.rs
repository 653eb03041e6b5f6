//! Converts values to the form of another API: pictures, definitions of tools, texts of bodies.
//!
//! `spec/scroll-mappings.md` W6 has the table.

use super::super::account::object;
use threadseal_core::canon::json::{Text, Value};
use threadseal_core::canon::{jcs, python};

/// The URL of a picture, or a URL that contains it (RFC 2397).
pub(super) struct Picture {
    pub(super) url: String,
}

impl Picture {
    /// The picture in a block of any of the APIs.
    pub(super) fn of(block: &Value) -> Option<Self> {
        let text = |value: &Value, name: &str| Some(value.get(name)?.as_str()?.to_owned());
        let url = match block.get("type").and_then(Value::as_str) {
            Some("image") => {
                let source = block.get("source")?;
                match source.get("type").and_then(Value::as_str)? {
                    "url" => text(source, "url")?,
                    "base64" => data_url(&text(source, "media_type")?, &text(source, "data")?),
                    _ => return None,
                }
            }
            Some("image_url") => text(block.get("image_url")?, "url")?,
            Some("input_image") => text(block, "image_url")?,
            _ => {
                let inline = block
                    .get("inlineData")
                    .or_else(|| block.get("inline_data"))?;
                let kind = text(inline, "mimeType").or_else(|| text(inline, "mime_type"))?;
                data_url(
                    kind.starts_with("image/").then_some(&kind)?,
                    &text(inline, "data")?,
                )
            }
        };
        Some(Self { url })
    }

    /// Type and base64 of a picture that the URL contains.
    pub(super) fn data(&self) -> Option<(&str, &str)> {
        self.url.strip_prefix("data:")?.split_once(";base64,")
    }

    pub(super) fn to_anthropic(&self) -> Value {
        let source = match self.data() {
            Some((kind, data)) => object([
                ("type", "base64".into()),
                ("media_type", kind.into()),
                ("data", data.into()),
            ]),
            None => object([("type", "url".into()), ("url", self.url.as_str().into())]),
        };
        object([("type", "image".into()), ("source", source)])
    }

    pub(super) fn to_openai(&self) -> Value {
        let url = object([("url", self.url.as_str().into())]);
        object([("type", "image_url".into()), ("image_url", url)])
    }
}

fn data_url(kind: &str, data: &str) -> String {
    format!("data:{kind};base64,{data}")
}

/// A tool's name, description and schema in any API. Tools of the vendor have no schema.
struct Tool<'a> {
    name: &'a Value,
    description: Option<&'a Value>,
    schema: &'a Value,
}

impl<'a> Tool<'a> {
    fn of(tool: &'a Value) -> Option<Self> {
        let body = tool.get("function").unwrap_or(tool);
        let schema = body
            .get("parameters")
            .or_else(|| body.get("input_schema"))?;
        Some(Self {
            name: body.get("name")?,
            description: body.get("description"),
            schema,
        })
    }

    fn members(&self, schema: &str) -> Value {
        let mut members: Vec<(Text, Value)> = vec![("name".into(), self.name.clone())];
        members.extend(
            self.description
                .map(|text| ("description".into(), text.clone())),
        );
        members.push((schema.into(), self.schema.clone()));
        Value::Object(members)
    }
}

/// Definitions in Anthropic's form; Anthropic's own stay unchanged.
pub(super) fn tools_to_anthropic(tools: &[Value]) -> Vec<Value> {
    let convert = |tool: &Value| match Tool::of(tool) {
        Some(known) if tool.get("input_schema").is_none() => known.members("input_schema"),
        _ => tool.clone(),
    };
    tools.iter().map(convert).collect()
}

/// Definitions in OpenAI's form; OpenAI's own stay unchanged.
pub(super) fn tools_to_openai(tools: &[Value]) -> Vec<Value> {
    let convert = |tool: &Value| match Tool::of(tool) {
        Some(known) if tool.get("function").is_none() => object([
            ("type", "function".into()),
            ("function", known.members("parameters")),
        ]),
        _ => tool.clone(),
    };
    tools.iter().map(convert).collect()
}

/// A value as compact JSON.
pub(super) fn json_text(value: &Value) -> String {
    let text = jcs::to_vec(value).unwrap_or_else(|_| python::rye_line(value));
    String::from_utf8_lossy(&text).into_owned()
}

/// A document as the bytes of a file.
pub(super) fn json_file(value: &Value) -> Vec<u8> {
    let mut text = json_text(value).into_bytes();
    text.push(b'\n');
    text
}

/// The arguments, wrapped in an object if they are not one.
pub(super) fn args_object(args: Option<&Value>) -> Value {
    match args {
        Some(args @ Value::Object(_)) => args.clone(),
        Some(other) => object([("input", other.clone())]),
        None => Value::Object(Vec::new()),
    }
}
