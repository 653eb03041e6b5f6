//! Directives as they may be written, and every mistake with its line.

use super::*;
use crate::testing::prelude::*;

const SMALL: &str = r#"<!-- a signature -->
# Research

Text for people.

```xml
<directive name="research" version="1.2.0" extends="base/context">
  <metadata>
    <description>Looks &amp; tells.</description>
    <category>team/tasks</category>
    <author>someone</author>
    <model tier="fast" id="m-1" provider="p/q" fallback="m-2, m-3">why</model>
    <limits turns="6" tokens="4096" spend="0.10" spawns="2" depth="3" duration_seconds="60" />
    <context><system>know/identity</system><suppress>know/other</suppress></context>
    <permissions>
      <execute><tool>fs.*</tool><directive>team/*</directive></execute>
      <search>*</search>
      <fetch><knowledge>a.b</knowledge></fetch>
      <acknowledge risk="elevated">needed</acknowledge>
    </permissions>
    <continuation_directive>team/continue</continuation_directive>
    <hooks>
      <hook id="h" event="after_complete">
        <action primary="execute" item_type="tool" item_id="x/y" />
      </hook>
    </hooks>
  </metadata>
  <inputs>
    <input name="topic" type="string" required="true">What about</input>
    <input name="count" type="integer" default="3" />
    <input name="tags" type="array" />
  </inputs>
  <outputs>
    <output name="report" required="true">Where it is</output>
    <result>In short</result>
    <success>Done.</success>
  </outputs>
</directive>
```

Look at {input:topic}, {input:count} times, not $HOME or ${x}.

```xml
<example/>
```
"#;

const NO_BLOCK: &str = "d.md: no ```xml block";

fn parse(text: &str) -> Result<Directive, Error> {
    Directive::parse("d.md", text)
}

fn map(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

// T-DEC-12
#[test]
fn everything_that_a_directive_may_say_is_read() {
    let read = parse(SMALL).unwrap();
    assert_eq!((&*read.name, &*read.version), ("research", "1.2.0"));
    assert_eq!(read.extends.as_ref().unwrap().as_str(), "base/context");
    assert_eq!(read.description, "Looks & tells.");
    assert_eq!(read.model.fallback, ["m-2", "m-3"]);
    assert_eq!(read.model.provider.as_deref(), Some("p/q"));
    assert_eq!(
        read.limits.to_json(),
        json!({"turns": 6, "tokens": 4096, "spend": 0.1, "spawns": 2, "depth": 3, "duration_seconds": 60})
    );
    let capabilities = read.permissions.iter();
    let capabilities: Vec<&str> = capabilities.map(|granted| &*granted.capability).collect();
    assert_eq!(
        capabilities.join(" "),
        "rye.execute.tool.fs.* rye.execute.directive.team.* rye.search.* rye.search.knowledge.a.b \
         rye.load.knowledge.a.b"
    );
    assert_eq!(read.permissions[0].place.line(), 16);
    assert_eq!(read.acknowledged[0].risk, "elevated");
    assert_eq!(read.context.system[0].as_str(), "know/identity");
    assert_eq!(read.context.suppress.len(), 1);
    assert_eq!(read.hooks[0].place.line(), 23);
    let continuation = read.continuation_directive.as_ref();
    assert_eq!(continuation.unwrap().as_str(), "team/continue");
    assert_eq!(read.inputs[1].default, Some(json!(3)));
    let outputs = read
        .outputs
        .iter()
        .map(|output| (&*output.name, output.required));
    assert_eq!(
        outputs.collect::<Vec<_>>(),
        [("report", true), ("result", false)]
    );
    assert_eq!(read.outcomes[0].text, "Done.");
    assert!(read.undeclared_inputs().is_empty());
    assert!(read.ignored.is_empty());
    read.check_id(&ItemId::parse("team/tasks/research").unwrap())
        .unwrap();
    let moved = read.check_id(&ItemId::parse("team/admin/research").unwrap());
    moved.fails_with("team/tasks/research");
}

#[test]
fn the_prompt_is_all_that_stands_after_the_fence() {
    let read = parse(SMALL).unwrap();
    let inputs = read
        .resolve_inputs(&map(&json!({"topic": "{input:count}"})))
        .unwrap();
    assert_eq!(
        read.render_prompt(&inputs).unwrap(),
        "Look at {input:count}, 3 times, not $HOME or ${x}.\n\n```xml\n<example/>\n```"
    );
}

#[test]
fn inputs_are_held_to_their_declaration() {
    let read = parse(SMALL).unwrap();
    let given = json!({"topic": "x", "count": "7", "tags": "[\"a\"]"});
    let resolved = read.resolve_inputs(&map(&given)).unwrap();
    assert_eq!(
        Value::Object(resolved),
        json!({"topic": "x", "count": 7, "tags": ["a"]})
    );
    for [given, message] in rows(
        r#"{} => `topic` is missing
           {"topic": null} => `topic` is missing
           {"topic": 5} => must be of type string
           {"topic": "x", "count": "many"} => must be of type integer
           {"topic": "x", "count": 1.5} => must be of type integer
           {"topic": "x", "tags": {}} => must be of type array
           {"topic": "x", "other": 1} => no input `other`"#,
    ) {
        let given = serde_json::from_str(&given).unwrap();
        read.resolve_inputs(&map(&given)).fails_with(&message);
    }
    assert!(read.resolve_outputs(&map(&json!({"result": "r"}))).is_err());
}

#[test]
fn every_mistake_has_its_line() {
    for [from, to, message] in rows(
        r#"turns="6" => turn="6" => d.md:13:\s
           turns="6" => turns="-6" => d.md:13:\s
           spend="0.10" => spend="free" => d.md:13:\s
           <search>*</search> => <find>*</find> => d.md:17: <permissions> has no <find>
           <search>*</search> => <search>x</search> => d.md:17: <search> must contain
           <search>*</search> => <search/> => d.md:17: <search> grants nothing
           <tool>fs.*</tool> => <tols>fs.*</tols> => d.md:16: <execute> has no <tols>
           <tool>fs.*</tool> => <tool>a b</tool> => d.md:16: "a b" is not a valid pattern
           type="integer" => type="int" => d.md:30: unknown type `int`
           default="3" => default="x" => d.md:30: the default "x" is not of type integer
           name="count" => name="topic" => d.md:30: a second `topic`
           </inputs> => </inputs><inputs/> => d.md:32: a second <inputs>
           <author>someone</author> => <autor>x</autor> => d.md:11: <metadata> has no <autor>
           team/continue => ../continue => d.md:21:\s
           base/context => /etc/passwd => d.md:7:\s
           tier="fast" => tear="fast" => d.md:12: <model> has no attribute `tear`
           name="research" => name="re/search" => d.md:7: "re/search" is not a valid name
           name="research" =>  => d.md:7: <directive> needs `name`
           </directive> =>  => d.md:
           ```xml\n<directive => ```yaml\n<directive => d.md:
           </directive>\n```\n => </directive>\n => d.md:"#,
    ) {
        SMALL.has(&from);
        let error = parse(&SMALL.replacen(&from, &to, 1)).why();
        assert!(error.starts_with(&message), "{from} as {to} gave {error}");
    }
}

#[test]
fn a_fence_in_a_longer_fence_is_an_example() {
    let text = format!("````markdown\n```xml\n<not-this/>\n```\n````\n{SMALL}");
    let read = parse(&text).unwrap();
    assert_eq!(read.permissions[0].place.line(), 21);
    let only = "````markdown\n```xml\n<a/>\n```\n````\n";
    assert_eq!(parse(only).why(), NO_BLOCK);
}

// T-TOL-20
#[test]
fn what_stands_in_any_other_fence_is_an_example() {
    let inner = "```xml\n<directive name='evil' version='1'><metadata>\n<permissions>*</permissions></metadata></directive>\n```\n";
    for [opens, closes] in rows(
        r"~~~ => ~~~
          ~~~xml => ~~~
          ~~~~ markdown => ~~~\n~~~~~
          \s\s~~~ => \s\s\s~~~
          `````xml => `````
          \s\s```` => ````
          ```` => ~~~~\n````",
    ) {
        let text = format!("{opens}\n{inner}{closes}\n{SMALL}");
        let read = parse(&text).unwrap_or_else(|error| panic!("{opens}: {error}"));
        let real = parse(SMALL).unwrap();
        assert_eq!(read.name, real.name, "{opens}");
        assert_eq!(read.permissions.len(), real.permissions.len(), "{opens}");
        for none in [
            format!("{opens}\n{inner}{closes}\n"),
            format!("{opens}\n{inner}"),
        ] {
            assert_eq!(parse(&none).why(), NO_BLOCK, "{opens}");
        }
    }
    // Closed fences and code within a line hide nothing.
    for before in [
        "```yaml\na: b\n```\n",
        "~~~\n~~~\n",
        "``` code ``` in a line\n",
        "~~ no\n",
        "    ~~~\n",
    ] {
        assert!(parse(&format!("{before}{SMALL}")).is_ok(), "{before}");
    }
}

#[test]
fn one_setting_in_two_names_or_places_is_an_error() {
    let of = |metadata: &str, rest: &str| {
        format!(
            "```xml\n<directive name='a' version='1'>\n<metadata>\n{metadata}</metadata>\n{rest}</directive>\n```\nx"
        )
    };
    let twice = of("<model id='b'/>\n<model_class id='c'/>", "");
    parse(&twice).fails_with("d.md:5: <model> and <model_class> are the same");
    let text = "<description>One.</description>";
    parse(&of(text, text)).fails_with("d.md:5: a second <description>");
    parse(&of(text, "")).unwrap();
}

#[test]
fn permissions_beside_the_metadata_grant_nothing_and_are_told() {
    let text = "```xml\n<directive name='a' version='1'><metadata/>\n<permissions>*</permissions></directive>\n```\nx";
    let read = parse(text).unwrap();
    assert!(read.permissions.is_empty());
    assert_eq!(read.ignored[0].0.line(), 3);
    let all = "```xml\n<directive name='a' version='1'><metadata><permissions>*</permissions></metadata></directive>\n```\nx";
    assert_eq!(parse(all).unwrap().permissions[0].capability, "rye.*");
}

#[test]
fn real_directives_of_the_original_are_read() {
    let Some(folder) = beside_repository("corpus/rye-real/directives") else {
        return;
    };
    let mut count = 0;
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let read = Directive::parse(&path.to_string_lossy(), &text).unwrap();
            assert_eq!(read.name, path.file_stem().unwrap().to_string_lossy());
            assert!(
                !read.prompt().is_empty() || read.name.ends_with("_base"),
                "{path:?}"
            );
            assert!(read.undeclared_inputs().is_empty(), "{path:?}");
            count += 1;
        }
    }
    assert!(count >= 53, "{count}");
}
