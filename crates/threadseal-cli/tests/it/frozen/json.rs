//! JSON text laid out for review: each token in the spelling of the command, and a value on one
//! line where it fits.
//!
//! Blanks between tokens are lost.

/// The longest line that holds more than one value.
const LINE_CHARS: usize = 110;

/// Members or elements, each with the text of its name.
enum Node<'t> {
    Atom(&'t str),
    Group(&'t str, &'t str, Vec<(&'t str, Node<'t>)>),
}

/// Lays out one JSON value.
pub(super) fn lay_out(text: &str) -> String {
    let (node, rest) = node(text);
    assert_eq!(rest, "", "one value: {text:?}");
    let mut out = String::new();
    write(&node, 0, &mut out);
    out + "\n"
}

/// How many bytes the string, number or word at the beginning has.
fn atom_bytes(text: &str) -> usize {
    let ends = |byte: u8| matches!(byte, b',' | b':' | b']' | b'}' | b' ');
    let bytes = text.as_bytes();
    if bytes[0] != b'"' {
        return bytes.iter().position(|b| ends(*b)).unwrap_or(text.len());
    }
    let mut at = 1;
    while bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

fn node(text: &str) -> (Node<'_>, &str) {
    let close = match &text[..1] {
        "{" => "}",
        "[" => "]",
        _ => {
            let (atom, rest) = text.split_at(atom_bytes(text));
            return (Node::Atom(atom), rest.trim_start());
        }
    };
    let (open, mut rest) = text.split_at(1);
    let mut parts = Vec::new();
    rest = rest.trim_start();
    while !rest.starts_with(close) {
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
        let mut name = "";
        if open == "{" {
            (name, rest) = rest.split_at(atom_bytes(rest));
            rest = rest.trim_start().strip_prefix(':').unwrap().trim_start();
        }
        let (value, after) = node(rest);
        parts.push((name, value));
        rest = after;
    }
    (Node::Group(open, close, parts), rest[1..].trim_start())
}

fn flat(node: &Node<'_>) -> String {
    let Node::Group(open, close, parts) = node else {
        let Node::Atom(atom) = node else {
            unreachable!()
        };
        return (*atom).to_owned();
    };
    let parts: Vec<String> = parts
        .iter()
        .map(|(name, value)| named(name) + &flat(value))
        .collect();
    format!("{open}{}{close}", parts.join(", "))
}

fn named(name: &str) -> String {
    match name {
        "" => String::new(),
        name => format!("{name}: "),
    }
}

fn write(node: &Node<'_>, indent: usize, out: &mut String) {
    let line = flat(node);
    let Node::Group(open, close, parts) = node else {
        return out.push_str(&line);
    };
    if line.chars().count() + indent <= LINE_CHARS {
        return out.push_str(&line);
    }
    out.push_str(open);
    for (at, (name, value)) in parts.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        out.push_str(&format!("{comma}\n{:1$}{2}", "", indent + 1, named(name)));
        write(value, indent + 1, out);
    }
    out.push_str(&format!("\n{:indent$}{close}", ""));
}

#[test]
fn tokens_stay_as_they_are() {
    let long = "x".repeat(LINE_CHARS);
    let text =
        format!(r#"{{"a":[1e5,-0, null ,{{ }}] , "b\"" : "\u00e9,:]","long":["{long}",[]]}}"#);
    let laid = lay_out(&text);
    assert_eq!(
        laid,
        format!(
            "{{\n \"a\": [1e5, -0, null, {{}}],\n \"b\\\"\": \"\\u00e9,:]\",\n \"long\": [\n  \"{long}\",\n  []\n ]\n}}\n"
        )
    );
}
