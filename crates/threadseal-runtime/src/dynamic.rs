//! Values of sealed lines, as the runtime handles values.

use serde_json::Value;
use threadseal_core::canon::json::{Text, Value as Sealed};
use threadseal_core::error::Error;

/// A value of a sealed line as the runtime handles values.
///
/// # Errors
/// Kind `Refused` for a value that no text or double can represent: half of a surrogate pair, a
/// number too large.
pub(crate) fn dynamic(value: &Sealed) -> Result<Value, Error> {
    let refuse = |what: &str| {
        Error::refused(format!(
            "the transcript contains {what}, which cannot be sent to a model"
        ))
    };
    let string = |text: &Text| {
        let text = text
            .as_str()
            .ok_or_else(|| refuse("half of a surrogate pair"))?;
        Ok::<_, Error>(text.to_owned())
    };
    Ok(match value {
        Sealed::Null => Value::Null,
        Sealed::Bool(truth) => Value::Bool(*truth),
        Sealed::Number(number) => {
            let whole = number.as_i64().map(serde_json::Number::from);
            let whole = whole.or_else(|| number.as_u64().map(serde_json::Number::from));
            let any = whole.or_else(|| serde_json::Number::from_f64(number.as_f64()));
            Value::Number(any.ok_or_else(|| refuse("a number that is not finite"))?)
        }
        Sealed::String(text) => Value::String(string(text)?),
        Sealed::Array(items) => Value::Array(items.iter().map(dynamic).collect::<Result<_, _>>()?),
        Sealed::Object(members) => {
            let members = members.iter();
            let members = members.map(|(name, value)| Ok((string(name)?, dynamic(value)?)));
            Value::Object(members.collect::<Result<_, Error>>()?)
        }
    })
}
