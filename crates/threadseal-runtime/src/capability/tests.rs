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
    for (primary, kind, id, permitted) in [
        ("execute", "tool", "rye/file-system/read", true),
        ("execute", "tool", "rye/file-system/a/b", true),
        ("search", "directive", "", true),
        ("execute", "tool", "rye/bash/bash", false),
        ("load", "tool", "rye/file-system/read", false),
        ("execute", "Tool", "rye/file-system/read", false),
        ("execute", "tool", "rye/file-system", false),
    ] {
        let call = Call::new(primary, kind, Some(id).filter(|id| !id.is_empty()));
        assert_eq!(
            held.permits(&call.unwrap()),
            permitted,
            "{primary} {kind} {id}"
        );
    }
}

#[test]
fn a_thread_without_capabilities_may_call_nothing_whatever_its_name() {
    let emitter = Some("rye/agent/threads/internal/emitter");
    let call = Call::new("execute", "tool", emitter).unwrap();
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
    for wrong in ["", "rye.execute tool", "rye.\n"] {
        assert!(Capability::parse(wrong).is_err(), "{wrong:?}");
    }
    let long = Capability::parse(&"a".repeat(MAX_CAPABILITY_BYTES + 1));
    assert_eq!(long.unwrap_err().kind(), ErrorKind::Limit);
    let many: Vec<String> = (0..=MAX_CAPABILITIES).map(|n| format!("c{n}")).collect();
    let many = Capabilities::parse(&many);
    assert_eq!(many.unwrap_err().kind(), ErrorKind::Limit);
    assert_eq!(held(&["a", "a"]).to_texts(), ["a"]);
}

#[test]
fn risks_are_those_of_the_narrowest_class_and_of_all_that_is_covered() {
    let table = RiskTable::shipped().unwrap();
    let (block, elevated) = ("unrestricted Block", "elevated Acknowledge");
    for (text, acknowledged, expected) in [
        ("rye.*", &[][..], block),
        ("*", &[], block),
        ("rye.search.*", &[], ""),
        ("rye.execute.tool.rye.file-system.*", &[], ""),
        ("rye.execute.tool.rye.bash.bash", &[], elevated),
        ("rye.execute.tool.rye.*", &[], elevated),
        ("rye.execute.tool.rye.bash.bash", &["elevated"], ""),
        ("rye.*", &["unrestricted"], elevated),
        ("rye.*", &["unrestricted", "elevated"], ""),
        ("other.thing", &[], ""),
    ] {
        let found = table.unacknowledged(&held(&[text]), acknowledged);
        let first = found
            .first()
            .map(|found| format!("{} {:?}", found.risk, found.policy));
        assert_eq!(
            first.unwrap_or_default(),
            expected,
            "{text} {acknowledged:?}"
        );
    }
}
