//! Directives.
//!
//! * Reading never panics, and a second reading gives the same result or the same error.
//! * An error names the file.
//! * A granted capability can be parsed.
//! * `resolve_inputs` gives only declared names, each of its type.
//! * Rendering never reads an inserted text as a template.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};
use threadseal_runtime::capability::Capabilities;
use threadseal_runtime::directive::Directive;

/// The value of an input. If it were read as a template, the output would differ.
const INSERTED: &str = "{input:a}${inputs.a}{input:b|c}";

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let directive = match Directive::parse("fuzz.md", text) {
        Ok(directive) => directive,
        Err(error) => {
            assert!(error.to_string().contains("fuzz.md"), "{error}");
            let again = Directive::parse("fuzz.md", text).expect_err("read twice alike");
            assert_eq!(again.to_string(), error.to_string());
            return;
        }
    };
    let again = Directive::parse("fuzz.md", text).expect("read twice alike");
    assert_eq!(format!("{again:?}"), format!("{directive:?}"));
    let granted = directive.permissions.iter().map(|permission| &permission.capability);
    if let Ok(capabilities) = Capabilities::parse(granted) {
        let texts = capabilities.to_texts();
        let again = Capabilities::parse(texts.iter().map(String::as_str)).expect("spelled as it is read");
        assert_eq!(again.to_texts(), texts);
    }
    let given: Map<String, Value> =
        directive.inputs.iter().map(|input| (input.name.clone(), INSERTED.into())).collect();
    let Ok(inputs) = directive.resolve_inputs(&given) else {
        return;
    };
    for (name, value) in &inputs {
        let declared = directive.inputs.iter().find(|input| input.name == *name).expect("declared");
        assert!(declared.kind.admits(value), "{name}: {value}");
    }
    let prompt = directive.render_prompt(&inputs).expect("within its bounds");
    // Each reference to a declared input became the whole of that text.
    if let [only] = directive.inputs.as_slice() {
        let reference = format!("{{input:{}}}", only.name);
        if inputs.contains_key(&only.name) && directive.prompt() == reference {
            assert_eq!(prompt, INSERTED);
        }
    }
});
