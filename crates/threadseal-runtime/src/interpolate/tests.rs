//! The values that templates insert, the ones they refuse, and texts that they never read again.

use super::*;
use serde_json::json;

fn place() -> Place {
    Place::new("f").at(1)
}

fn render(text: &str, context: &Value) -> Value {
    Template::parse(text, &place())
        .unwrap()
        .render(context)
        .unwrap()
}

#[test]
fn values_are_inserted_as_text_or_stand_for_themselves() {
    let context = json!({
        "a": {"b": [7, true, {"c": null}]}, "t": "text", "n": 1.5,
        "inputs": {"dir": "out", "n": 3, "empty": ""}
    });
    for (template, expected) in [
        ("${a.b.0}", json!(7)),
        ("${ a.b }", json!([7, true, {"c": null}])),
        ("${zzz}", Value::Null),
        ("${zzz || t}", json!("text")),
        ("${zzz || a.b[1]}", json!(true)),
        ("x${a.b.0}y${t}", json!("x7ytext")),
        ("x${zzz}y", json!("xy")),
        (
            "${a.b} ${a.b.1} ${n}",
            json!("[7,true,{\"c\":null}] true 1.5"),
        ),
        ("${t} ", json!("text ")),
        ("${t}${n}", json!("text1.5")),
        ("{input:dir}/{input:n}", json!("out/3")),
        ("{input:n}", json!("3")),
        ("{input:no}/x", json!("{input:no}/x")),
        ("{input:no?}/x", json!("/x")),
        ("{input:no|outputs}/x", json!("outputs/x")),
        ("{input:no:a|b}", json!("a|b")),
        ("{input:empty|d}", json!("")),
        ("{input:a b}", json!("{input:a b}")),
        ("{input:}", json!("{input:}")),
        ("$5 {x} ${} ${open $", json!("$5 {x} ${} ${open $")),
        ("$${t}", json!("$text")),
        ("{${t}}", json!("{text}")),
        ("{\"count\": ${a.b.0}}", json!("{\"count\": 7}")),
        ("", json!("")),
        ("päth ${t} 🦀", json!("päth text 🦀")),
    ] {
        assert_eq!(render(template, &context), expected, "{template}");
    }
}

#[test]
fn filters_change_what_was_found_and_leave_nothing_alone() {
    let context = json!({"list": [1, 2], "t": "aß🦀", "j": "{\"k\": [1]}", "m": {"b": 1, "a": 2}});
    for (template, expected) in [
        ("${list | length}", json!(2)),
        ("${t|length}", json!(3)),
        ("${m | json}", json!("{\"b\":1,\"a\":2}")),
        ("${j | from_json}", json!({"k": [1]})),
        ("${j | from_json | keys}", json!(["k"])),
        ("${zzz || t | upper}", json!("ASS🦀")),
        ("${zzz | length}", Value::Null),
        ("n=${list | length}", json!("n=2")),
    ] {
        assert_eq!(render(template, &context), expected, "{template}");
    }
    let bad = Template::parse("${t | from_json}", &place()).unwrap();
    assert!(bad.render(&context).is_err());
}

// T-DEC-15
#[test]
fn what_is_inserted_is_not_read_again() {
    let context = json!({
        "a": "${b} {input:secret}", "b": "never",
        "inputs": {"secret": "hidden", "x": "{input:secret} ${b}"}
    });
    assert_eq!(
        render("<${a}> {input:x}", &context),
        json!("<${b} {input:secret}> {input:secret} ${b}")
    );
}

#[test]
fn expressions_that_are_none_are_refused_at_their_line() {
    for text in [
        "a\nb ${VAR:-default}",
        "a\n${a || }",
        "\n${a | shout}",
        "\n${a b}",
        "\n${ }",
        "x\n${a |}",
    ] {
        let error = Template::parse(text, &place()).unwrap_err().to_string();
        assert!(error.starts_with("f:2: "), "{text:?} gave {error}");
        assert!(Template::parse_prompt(text, &place()).is_ok());
    }
}

#[test]
fn prompts_know_inputs_only() {
    let prompt = Template::parse_prompt("run ${HOME} on {input:x}", &place()).unwrap();
    let context = json!({"HOME": "secret", "inputs": {"x": "y"}});
    assert_eq!(prompt.render_text(&context).unwrap(), "run ${HOME} on y");
    assert_eq!(prompt.inputs().collect::<Vec<_>>(), ["x"]);
}

#[test]
fn trees_render_their_texts_and_keep_the_rest() {
    let text = "command: ls ${inputs.dir}\ncount: ${n}\n${n}: [1, true, null, '${n}x']\n";
    let node = crate::yaml::parse("f", text).unwrap();
    let tree = Tree::parse(&node).unwrap();
    let context = json!({"inputs": {"dir": "d"}, "n": 4});
    assert_eq!(
        tree.render(&context).unwrap(),
        json!({"command": "ls d", "count": 4, "${n}": [1, true, null, "4x"]})
    );
    let paths: Vec<&str> = tree
        .templates()
        .iter()
        .flat_map(|template| template.paths().map(Path::as_str))
        .collect();
    assert_eq!(paths, ["inputs.dir", "n", "n"]);
}

#[test]
fn a_template_says_what_is_not_there() {
    let template = Template::parse("${a} ${b || c} ${d}", &place()).unwrap();
    assert_eq!(
        template.missing(&json!({"a": 1, "d": null})),
        ["b || c", "d"]
    );
}

#[test]
fn renderings_and_templates_are_bounded() {
    let long = "x".repeat(MAX_RENDERED_BYTES / 4);
    let context = json!({ "a": long });
    let template = Template::parse("${a}${a}${a}${a}${a}", &place()).unwrap();
    assert!(template.render(&context).is_err());
    let node = crate::yaml::parse("f", "['${a}', '${a}', '${a}', '${a}', '${a}']").unwrap();
    assert!(Tree::parse(&node).unwrap().render(&context).is_err());
    assert!(Template::parse(&"${a}".repeat(MAX_TEMPLATE_PARTS + 1), &place()).is_err());
}

// T-DEC-18
#[test]
fn references_that_never_end_cost_no_more_than_the_text() {
    for text in ["${", "{input:", "{input:a", "{input:{", "${}"] {
        let many = text.repeat(1 << 17);
        let template = Template::parse_prompt(&many, &place()).unwrap();
        assert!(template.is_plain());
        assert_eq!(Template::parse(&many, &place()).unwrap().parts.len(), 1);
    }
    let closed = format!("{}}}", "{input:{".repeat(1 << 17));
    assert!(
        Template::parse_prompt(&closed, &place())
            .unwrap()
            .is_plain()
    );
}

// T-DEC-18
#[test]
fn filters_cannot_double_a_text_without_end() {
    let context = json!({ "t": "\"".repeat(1 << 20) });
    let template = |count: usize| format!("${{t{}}}", " | json".repeat(count));
    let doubled = Template::parse(&template(8), &place()).unwrap();
    assert!(doubled.render(&context).is_err());
    assert!(Template::parse(&template(MAX_FILTERS + 1), &place()).is_err());
}
