//! Servers of both revisions of the protocol, over both transports.

use super::*;

#[test]
fn servers_of_either_revision_are_called_over_standard_input() {
    let scene = Scene::new();
    for mode in ["new", "old", "polite", "shut", "silent"] {
        let tool = stdio_within(40, &scene, mode, "").unwrap();
        assert_eq!(echo(&tool, mode), Outcome::ok(mode), "{mode}");
    }
    // One that speaks both is asked in the newer one, which each request names.
    assert_eq!(echo_of(&scene, "revision").text(), "2026-07-28");
}

#[test]
fn servers_of_either_revision_are_called_over_http() {
    let scene = Scene::new();
    for mode in ["new", "old", "polite", "silent"] {
        let server = web(&scene, mode, "");
        let declaration = server.declaration("timeout_seconds: 40\n");
        let tool = declared(&scene, &declaration, &[]).unwrap();
        assert_eq!(echo(&tool, mode), Outcome::ok(mode), "{mode}");
    }
}
