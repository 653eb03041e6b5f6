//! Tests of capabilities.

use super::*;
use crate::bounds::MAX_CAPABILITIES;
use crate::bounds::MAX_CAPABILITY_BYTES;
use threadseal_core::error::ErrorKind;

fn held(texts: &[&str]) -> Capabilities {
    Capabilities::parse(texts).unwrap()
}

fn attenuated(parent: &[&str], child: &[&str]) -> Vec<String> {
    held(parent).attenuate(&held(child)).unwrap().to_texts()
}

#[test]
fn a_call_is_permitted_where_a_capability_matches_all_of_it() {
    let held = held(&["rye.execute.tool.rye/file-system/*", "rye.search.*"]);
    let permits = |primary, kind, id| held.permits(&Call::new(primary, kind, id).unwrap());
    assert!(permits("execute", "tool", Some("rye/file-system/read")));
    assert!(permits("execute", "tool", Some("rye/file-system/a/b")));
    assert!(permits("search", "directive", None));
    assert!(!permits("execute", "tool", Some("rye/bash/bash")));
    assert!(!permits("load", "tool", Some("rye/file-system/read")));
    assert!(!permits("execute", "Tool", Some("rye/file-system/read")));
    assert!(!permits("execute", "tool", Some("rye/file-system")));
}

#[test]
fn a_thread_without_capabilities_may_call_nothing_whatever_its_name() {
    let call = Call::new(
        "execute",
        "tool",
        Some("rye/agent/threads/internal/emitter"),
    )
    .unwrap();
    assert!(!Capabilities::NONE.permits(&call));
}

#[test]
fn an_item_id_with_wildcards_is_a_name_and_not_a_pattern() {
    let call = Call::new("execute", "tool", Some("*")).unwrap();
    assert!(!held(&["rye.execute.tool.a"]).permits(&call));
    assert!(held(&["rye.execute.tool.?"]).permits(&call));
}

#[test]
fn inheritance_never_widens() {
    let parent = ["rye.execute.tool.files.*", "rye.load.*"];
    assert_eq!(
        attenuated(&parent, &["rye.execute.tool.files.read", "rye.sign.*"]),
        ["rye.execute.tool.files.read"]
    );
    assert_eq!(attenuated(&parent, &["rye.*"]), parent);
    assert_eq!(
        attenuated(&parent, &["rye.execute.*"]),
        ["rye.execute.tool.files.*"]
    );
    assert_eq!(attenuated(&["rye.?"], &["rye.*"]), ["rye.?"]);
    // Neither covers the other: one pattern cannot express what both permit.
    assert!(attenuated(&["rye.*.b"], &["rye.a.*"]).is_empty());
}

#[test]
fn all_parent_capabilities_that_a_broader_one_covers_are_kept_and_not_the_first_alone() {
    let parent = ["rye.execute.tool.a.*", "rye.execute.tool.b.*"];
    assert_eq!(attenuated(&parent, &["rye.execute.tool.*"]), parent);
}

#[test]
fn an_empty_parent_leaves_a_child_nothing() {
    assert!(attenuated(&[], &["rye.execute.tool.a"]).is_empty());
    assert!(attenuated(&["rye.*"], &[]).is_empty());
}

#[test]
fn capabilities_are_bounded_and_have_no_blanks() {
    assert!(Capability::parse("").is_err());
    assert!(Capability::parse("rye.execute tool").is_err());
    assert!(Capability::parse("rye.\n").is_err());
    let long = "a".repeat(MAX_CAPABILITY_BYTES + 1);
    assert_eq!(
        Capability::parse(&long).unwrap_err().kind(),
        ErrorKind::Limit
    );
    let many: Vec<String> = (0..=MAX_CAPABILITIES).map(|n| format!("c{n}")).collect();
    assert_eq!(
        Capabilities::parse(&many).unwrap_err().kind(),
        ErrorKind::Limit
    );
    assert_eq!(held(&["a", "a"]).to_texts(), ["a"]);
}

#[test]
fn risks_are_those_of_the_narrowest_class_and_of_all_that_is_covered() {
    let table = RiskTable::shipped().unwrap();
    let risk = |text: &str, acknowledged: &[&str]| {
        let found = table.unacknowledged(&held(&[text]), acknowledged);
        found
            .first()
            .map(|found| (found.risk.clone(), found.policy))
    };
    let block = Some(("unrestricted".to_owned(), RiskPolicy::Block));
    let elevated = Some(("elevated".to_owned(), RiskPolicy::Acknowledge));
    assert_eq!(risk("rye.*", &[]), block);
    assert_eq!(risk("*", &[]), block);
    assert_eq!(risk("rye.search.*", &[]), None);
    assert_eq!(risk("rye.execute.tool.rye.file-system.*", &[]), None);
    assert_eq!(risk("rye.execute.tool.rye.bash.bash", &[]), elevated);
    assert_eq!(risk("rye.execute.tool.rye.*", &[]), elevated);
    assert_eq!(risk("rye.execute.tool.rye.bash.bash", &["elevated"]), None);
    assert_eq!(risk("rye.*", &["unrestricted"]), elevated);
    assert_eq!(risk("rye.*", &["unrestricted", "elevated"]), None);
    assert_eq!(risk("other.thing", &[]), None);
}
