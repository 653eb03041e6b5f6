//! The repository keeps its own rules. This test also compiles the chores together with the tests.

use std::process::Command;

#[test]
fn the_repository_is_tidy() {
    let told = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .arg("tidy")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&told.stdout);
    let wrong = String::from_utf8_lossy(&told.stderr);
    assert!(told.status.success(), "{said}{wrong}");
}
