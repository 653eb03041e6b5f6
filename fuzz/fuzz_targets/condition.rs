//! Conditions: the first line of an input is a context as JSON, the rest a condition as YAML.
//!
//! * Reading and evaluating never fail, and give the same result twice.
//! * `not` inverts the answer. `all` and `any` of one condition equal that condition.
//! * `all` of a condition and its opposite never holds, and `any` of them always holds.
//! * A condition sees only its paths. Other parts of the context change no answer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use threadseal_core::error::Error;
use threadseal_runtime::condition::Condition;
use threadseal_runtime::place::Place;
use threadseal_runtime::yaml;

fn eval(condition: &Value, context: &Value) -> Option<Result<bool, Error>> {
    let condition = Condition::from_json(condition, &Place::new("fuzz.yaml")).ok()?;
    Some(condition.eval(context))
}

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = std::str::from_utf8(data).ok().and_then(|text| text.split_once('\n')) else {
        return;
    };
    let (Ok(mut context), Ok(node)) = (serde_json::from_str::<Value>(first), yaml::parse("fuzz.yaml", rest)) else {
        return;
    };
    let Ok(condition) = Condition::parse(&node) else {
        return;
    };
    let answer = condition.eval(&context);
    assert_eq!(condition.eval(&context).map_err(|e| e.to_string()), answer.clone().map_err(|e| e.to_string()));
    let plain = node.to_json();
    let Ok(holds) = answer else {
        return;
    };
    // One more part may exceed the bounds on number or depth.
    let same = |built: Value, wanted: bool| {
        if let Some(answer) = eval(&built, &context) {
            assert_eq!(answer.ok(), Some(wanted), "{built}");
        }
    };
    same(json!({"not": plain}), !holds);
    same(json!({"all": [plain]}), holds);
    same(json!({"any": [plain]}), holds);
    same(json!({"all": [plain, {"not": plain}]}), false);
    same(json!({"any": [plain, {"not": plain}]}), true);
    let named = |name: &str| condition.paths().iter().any(|path| path.parts().first().is_none_or(|part| part == name));
    if !named("elsewhere")
        && let Some(members) = context.as_object_mut()
        && !members.contains_key("elsewhere")
    {
        members.insert("elsewhere".to_owned(), json!([1, {"a": null}]));
        assert_eq!(condition.eval(&context).ok(), Some(holds));
    }
});
