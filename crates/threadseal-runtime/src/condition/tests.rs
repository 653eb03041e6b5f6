//! Every operator, and the conditions that are refused on reading.

use super::*;
use serde_json::json;

fn condition(value: &Value) -> Result<Condition, Error> {
    Condition::from_json(value, &Place::new("f"))
}

fn holds(value: &Value, context: &Value) -> bool {
    condition(value).unwrap().eval(context).unwrap()
}

fn test(op: &str, found: &Value, value: &Value) -> Result<bool, Error> {
    let read = condition(&json!({"path": "x", "op": op, "value": value}))?;
    read.eval(&json!({ "x": found }))
}

#[test]
fn each_operator_compares_as_specified() {
    for (op, found, value, expected) in [
        ("eq", json!(1), json!(1.0), true),
        ("eq", json!("1"), json!(1), false),
        ("eq", json!(true), json!(1), false),
        ("eq", json!({"a": [1, 2.0]}), json!({"a": [1.0, 2]}), true),
        ("eq", Value::Null, Value::Null, true),
        ("ne", json!("a"), json!("b"), true),
        ("gt", json!("42\n"), json!("10"), true),
        ("gt", json!("9\n"), json!("10"), false),
        ("gt", json!(11), json!("10"), true),
        ("gte", json!(0.8), json!(0.8), true),
        ("lt", json!("abc"), json!("abd"), true),
        ("lt", json!("9a"), json!("10a"), false),
        ("lte", json!(-1), json!("-0.5"), true),
        (
            "lt",
            json!(9_007_199_254_740_992_u64),
            json!(9_007_199_254_740_993_u64),
            true,
        ),
        (
            "eq",
            json!(9_007_199_254_740_993_u64),
            json!(9_007_199_254_740_992.0),
            false,
        ),
        ("gt", Value::Null, json!(1), false),
        ("in", json!(500), json!([500, 502]), true),
        ("in", json!(500.0), json!([500]), true),
        ("in", json!("5"), json!([5]), false),
        ("contains", json!("a timeout b"), json!("timeout"), true),
        ("contains", json!(["a", "b"]), json!("b"), true),
        ("contains", json!(["ab"]), json!("b"), false),
        ("contains", json!({"k": 1}), json!("k"), true),
        ("contains", json!(1234), json!(23), true),
        ("contains", Value::Null, json!("x"), false),
        ("regex", json!("Rate limit"), json!("(?i)rate limit"), true),
        ("regex", json!(429), json!("^4"), true),
        ("exists", json!(0), Value::Null, true),
        ("exists", Value::Null, json!(true), false),
    ] {
        assert_eq!(
            test(op, &found, &value),
            Ok(expected),
            "{found} {op} {value}"
        );
    }
}

#[test]
fn what_has_no_order_is_an_error_at_its_line() {
    let node = crate::yaml::parse("g.yaml", "path: x\nop: gt\nvalue: 5\n").unwrap();
    let read = Condition::parse(&node).unwrap();
    for found in [json!(true), json!([1]), json!({"a": 1}), json!("many")] {
        let error = read.eval(&json!({ "x": found })).unwrap_err().to_string();
        assert!(error.starts_with("g.yaml:2: `x` is "), "{error}");
    }
    assert_eq!(read.eval(&json!({})), Ok(false));
}

#[test]
fn parts_combine_and_stop_at_the_first_that_decides() {
    let yes = json!({"path": "a", "value": 1});
    let no = json!({"path": "a", "op": "ne", "value": 1});
    let unordered = json!({"path": "b", "op": "gt", "value": 1});
    let context = json!({"a": 1, "b": []});
    assert!(holds(&json!({"any": [no, yes, unordered]}), &context));
    assert!(!holds(&json!({"all": [yes, no, unordered]}), &context));
    assert!(holds(&json!({"not": {"all": [yes, no]}}), &context));
    assert!(holds(&json!({}), &context));
    assert!(holds(&json!({"all": []}), &context));
    assert!(!holds(&json!({"any": []}), &context));
    assert!(
        condition(&json!({"all": [unordered]}))
            .unwrap()
            .eval(&context)
            .is_err()
    );
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
