//! Templates: the first line of an input is a context as JSON, the rest a template.
//!
//! * Reading and rendering never panic, and give the same result twice.
//! * A text without references renders as itself. A text around a template stays around its output.
//! * Inserted text is never read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use threadseal_runtime::interpolate::Template;
use threadseal_runtime::place::Place;

fuzz_target!(|data: &[u8]| {
    let Some((first, text)) = std::str::from_utf8(data).ok().and_then(|text| text.split_once('\n')) else {
        return;
    };
    let place = Place::new("fuzz");
    let read = [Template::parse(text, &place), Template::parse_prompt(text, &place)];
    // A template as an inserted value is not rendered.
    let outer = Template::parse("a${x}b", &place).expect("a template");
    assert_eq!(outer.render_text(&json!({"x": text})).ok().as_deref(), Some(format!("a{text}b").as_str()));
    let Ok(context) = serde_json::from_str::<Value>(first) else {
        return;
    };
    for template in read.into_iter().flatten() {
        let rendered = template.render_text(&context);
        let again = template.render_text(&context);
        assert_eq!(rendered.clone().map_err(|e| e.to_string()), again.map_err(|e| e.to_string()));
        let Ok(rendered) = rendered else {
            continue;
        };
        if template.is_plain() {
            assert_eq!(rendered, text);
        }
        match template.render(&context) {
            Ok(Value::String(value)) => assert_eq!(value, rendered),
            // A single expression keeps its type.
            Ok(_) => assert!(text.starts_with("${") && text.ends_with('}')),
            Err(error) => panic!("as text it was rendered: {error}"),
        }
        for name in template.inputs() {
            assert!(text.contains(name), "{name}");
        }
    }
});
