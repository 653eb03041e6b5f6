//! Members of conditions, and what templates insert, over one value.

use super::*;
use crate::condition::Condition;
use crate::interpolate::Template;
use crate::place::Place;

pub(super) const ROWS: &[Group] = &[
    group(
        "member of a condition",
        holds,
        "path  => {path: word, value: 3} => {path: count, value: 3}
         op    => {path: count, value: 2} => {path: count, op: gt, value: 2}
         value => {path: count} => {path: count, value: 3}
         any   => {any: []} => {any: [{path: count, value: 2}, {path: count, value: 3}]}
         all   => {all: []} => {all: [{path: count, value: 2}, {path: count, value: 3}]}
         not   => {} => {not: {}}",
    ),
    group(
        "operator",
        holds,
        "eq       => {path: count, op: eq, value: 2} => {path: count, op: eq, value: 3}
         ne       => {path: count, op: ne, value: 3} => {path: count, op: ne, value: 2}
         gt       => {path: count, op: gt, value: 3} => {path: count, op: gt, value: 2}
         gte      => {path: count, op: gte, value: 4} => {path: count, op: gte, value: 3}
         lt       => {path: count, op: lt, value: 3} => {path: count, op: lt, value: 4}
         lte      => {path: count, op: lte, value: 2} => {path: count, op: lte, value: 3}
         in       => {path: count, op: in, value: [1, 2]} => {path: count, op: in, value: [2, 3]}
         contains => {path: list, op: contains, value: 9} => {path: list, op: contains, value: 2}
         regex    => {path: word, op: regex, value: '^e'} => {path: word, op: regex, value: 'e.$'}
         exists   => {path: none, op: exists} => {path: count, op: exists}",
    ),
    group(
        "reference",
        rendered,
        "${path}                => count => ${count}
         ${a || b || c}         => ${none} => ${none || gone || word}
         ${path | filter | …}   => ${word} => ${word | upper | length}
         {input:name}           => {input:none} => {input:name}
         {input:name?}          => {input:none} => {input:none?}
         {input:name|default}   => {input:none} => {input:none|Bea}
         {input:name:default}   => {input:none} => {input:none:Bea}",
    ),
    group(
        "filter",
        rendered,
        "json      => ${list} => ${list | json}
         from_json => ${text} => ${text | from_json}
         length    => ${list} => ${list | length}
         keys      => ${map} => ${map | keys}
         upper     => ${word} => ${word | upper}
         lower     => ${inputs.name} => ${inputs.name | lower}",
    ),
];

fn context() -> Value {
    json!({"count": 3, "word": "tea", "list": [1, 2], "map": {"k": 1}, "text": "[7]",
           "inputs": {"name": "Ada"}})
}

fn holds(yaml: &str) -> String {
    let node = crate::yaml::parse("c.yaml", yaml).unwrap();
    match Condition::parse(&node).and_then(|condition| condition.eval(&context())) {
        Ok(true) => "it holds".to_owned(),
        Ok(false) => "it does not hold".to_owned(),
        Err(why) => why.to_string(),
    }
}

/// The value of a template, as JSON.
fn rendered(text: &str) -> String {
    let template = Template::parse(text, &Place::new("t.yaml").at(1)).unwrap();
    template.render(&context()).unwrap().to_string()
}
