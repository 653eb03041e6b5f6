//! Every operator, and the conditions that are refused on reading.

use super::*;
use crate::testing::prelude::{Fails as _, rows};
use serde_json::json;

fn condition(value: &Value) -> Result<Condition, Error> {
    Condition::from_json(value, &Place::new("f"))
}

fn test(op: &str, found: &Value, value: &Value) -> Result<bool, Error> {
    let read = condition(&json!({"path": "x", "op": op, "value": value}))?;
    read.eval(&json!({ "x": found }))
}

#[test]
fn each_operator_compares_as_specified() {
    for [op, found, value, expected] in rows(
        r#"eq => 1 => 1.0 => yes
           eq => "1" => 1 => no
           eq => true => 1 => no
           eq => {"a": [1, 2.0]} => {"a": [1.0, 2]} => yes
           eq => null => null => yes
           ne => "a" => "b" => yes
           gt => "42\u000a" => "10" => yes
           gt => "9\u000a" => "10" => no
           gt => 11 => "10" => yes
           gte => 0.8 => 0.8 => yes
           lt => "abc" => "abd" => yes
           lt => "9a" => "10a" => no
           lte => -1 => "-0.5" => yes
           lt => 9007199254740992 => 9007199254740993 => yes
           eq => 9007199254740993 => 9007199254740992.0 => no
           gt => null => 1 => no
           in => 500 => [500, 502] => yes
           in => 500.0 => [500] => yes
           in => "5" => [5] => no
           contains => "a timeout b" => "timeout" => yes
           contains => ["a", "b"] => "b" => yes
           contains => ["ab"] => "b" => no
           contains => {"k": 1} => "k" => yes
           contains => 1234 => 23 => yes
           contains => null => "x" => no
           regex => "Rate limit" => "(?i)rate limit" => yes
           regex => 429 => "^4" => yes
           exists => 0 => null => yes
           exists => null => true => no"#,
    ) {
        let [left, right] = [&found, &value].map(|text| serde_json::from_str(text).unwrap());
        let holds = test(&op, &left, &right);
        assert_eq!(holds, Ok(expected == "yes"), "{found} {op} {value}");
    }
}

#[test]
fn what_has_no_order_is_an_error_at_its_line() {
    let node = crate::yaml::parse("g.yaml", "path: x\nop: gt\nvalue: 5\n").unwrap();
    let read = Condition::parse(&node).unwrap();
    for found in [json!(true), json!([1]), json!({"a": 1}), json!("many")] {
        let why = read.eval(&json!({ "x": found })).why();
        assert!(why.starts_with("g.yaml:2: `x` is "), "{why}");
    }
    assert_eq!(read.eval(&json!({})), Ok(false));
}

#[test]
fn parts_combine_and_stop_at_the_first_that_decides() {
    let yes = json!({"path": "a", "value": 1});
    let no = json!({"path": "a", "op": "ne", "value": 1});
    let unordered = json!({"path": "b", "op": "gt", "value": 1});
    let context = json!({"a": 1, "b": []});
    for (value, expected) in [
        (json!({"any": [no, yes, unordered]}), true),
        (json!({"all": [yes, no, unordered]}), false),
        (json!({"not": {"all": [yes, no]}}), true),
        (json!({}), true),
        (json!({"all": []}), true),
        (json!({"any": []}), false),
    ] {
        let read = condition(&value).unwrap();
        assert_eq!(read.eval(&context), Ok(expected), "{value}");
    }
    let read = condition(&json!({"all": [unordered]})).unwrap();
    assert!(read.eval(&context).is_err());
}

// T-DEC-16
#[test]
fn what_would_silently_never_hold_is_refused() {
    for value in [
        json!({"path": "a", "op": "greater", "value": 1}),
        json!({"path": "a", "op": "eq"}),
        json!({"path": "a", "op": "in", "value": "abc"}),
        json!({"path": "a", "op": "gt", "value": [1]}),
        json!({"path": "a", "op": "gt", "value": true}),
        json!({"path": "a", "op": "regex", "value": "("}),
        json!({"path": "a", "op": "regex", "value": "(?=x)"}),
        json!({"path": "a", "op": "regex", "value": "(a{1000}){1000}"}),
        json!({"path": "a", "op": "exists", "value": false}),
        json!({"path": "a b", "op": "exists"}),
        json!({"op": "eq", "value": 1}),
        json!({"path": "a", "value": 1, "values": 2}),
        json!({"any": [], "path": "a"}),
        json!({"any": {}}),
        json!([]),
        json!("state.x"),
    ] {
        assert!(condition(&value).is_err(), "{value}");
    }
}

// T-DEC-18
#[test]
fn deep_and_wide_conditions_are_refused() {
    let mut deep = json!({});
    for _ in 0..=MAX_CONDITION_DEPTH {
        deep = json!({ "not": deep });
    }
    assert!(condition(&deep).is_err());
    let wide = vec![json!({}); MAX_CONDITION_PARTS + 1];
    assert!(condition(&json!({ "any": wide })).is_err());
}

#[test]
fn a_condition_names_the_paths_it_looks_at() {
    let read = condition(
        &json!({"any": [{"path": "a.b", "value": 1}, {"not": {"path": "c", "op": "exists"}}]}),
    );
    let paths: Vec<String> = read
        .unwrap()
        .paths()
        .into_iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(paths, ["a.b", "c"]);
}
