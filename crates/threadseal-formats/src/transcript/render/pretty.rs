//! `json.dumps(value, indent=2)`.

use threadseal_core::canon::json::{Text, Value};
use threadseal_core::canon::python::rye_line;

/// Two blanks a level, one member a line, empty containers on one line, ASCII only.
pub(super) fn pretty(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value, 0);
    out
}

fn write(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            out.push('{');
            for (at, (name, member)) in members.iter().enumerate() {
                next_line(out, at > 0, depth + 1);
                scalar(out, &Value::String(Text::clone(name)));
                out.push_str(": ");
                write(out, member, depth + 1);
            }
            next_line(out, false, depth);
            out.push('}');
        }
        Value::Array(elements) if !elements.is_empty() => {
            out.push('[');
            for (at, element) in elements.iter().enumerate() {
                next_line(out, at > 0, depth + 1);
                write(out, element, depth + 1);
            }
            next_line(out, false, depth);
            out.push(']');
        }
        other => scalar(out, other),
    }
}

fn next_line(out: &mut String, comma: bool, depth: usize) {
    out.push_str(if comma { ",\n" } else { "\n" });
    out.extend(std::iter::repeat_n("  ", depth));
}

fn scalar(out: &mut String, value: &Value) {
    out.push_str(&String::from_utf8_lossy(&rye_line(value)));
}
