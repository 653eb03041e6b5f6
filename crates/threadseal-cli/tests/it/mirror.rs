//! `log publish` and `log fsck STORE`, as real processes.

use crate::anchor::{logged, seal};
use crate::prelude::*;

const STORE: &str = "object+file:mirror";

// T-LOG-43
#[test]
fn a_log_is_published_checked_and_never_taken_back() {
    let (sandbox, log) = logged();
    sandbox.exits(2, format!("log fsck {STORE}"));
    let first = sandbox.json(format!("log publish {STORE}"));
    assert_eq!((&first["from"], &first["size"]), (&0.into(), &2.into()));
    let copied = sandbox.path("copied");
    copy(&sandbox.home(), &copied);
    seal(&sandbox, "second");
    sandbox.ok(format!("log publish {STORE}"));
    let checked = sandbox.json(format!("log fsck {STORE}"));
    assert_eq!(checked["entries"], 3);
    let mirror = sandbox.path("mirror");
    let own = sandbox.home().join("log").join(&log[15..47]);
    for name in ["checkpoint", "tile/0/000.p/3", "tile/entries/000.p/3"] {
        let [here, there] = [&own, &mirror].map(|root| fs::read(root.join(name)).unwrap());
        assert_eq!(here, there, "{name}");
    }
    // Home and mark roll back together: the copy elsewhere shows it, and stays as it is.
    put_back(&copied, &sandbox.home());
    fs::remove_dir_all(sandbox.home().with_extension("marks")).unwrap();
    let checkpoint = fs::read(mirror.join("checkpoint")).unwrap();
    for name in ["other", "more", "yet more"] {
        let told = sandbox
            .exits(1, format!("log publish {STORE} --json"))
            .json();
        told.is(json!({"state": "contradicted", "size": 3}));
        sandbox.exits(1, format!("log fsck {STORE}"));
        seal(&sandbox, name);
    }
    assert_eq!(fs::read(mirror.join("checkpoint")).unwrap(), checkpoint);
    sandbox.exits(2, "log publish s3://");
}

// T-LOG-51
#[test]
fn a_wrong_tile_of_a_published_copy_is_repaired() {
    let (sandbox, _) = logged();
    seal(&sandbox, "second");
    sandbox.ok(format!("log publish {STORE}"));
    let path = sandbox.path("mirror").join("tile/entries/000.p/3");
    fs::write(&path, "wrong").unwrap();
    sandbox.exits(1, format!("log fsck {STORE}"));
    sandbox
        .ok(format!("log publish {STORE}"))
        .prints("repaired: 1");
    sandbox.ok(format!("log fsck {STORE}"));
}

/// A home and its copy both continued; no checkpoint of one has the size of a checkpoint of the
/// other.
// T-FRK-04
#[test]
fn a_published_copy_of_another_history_convicts_the_log_at_any_size() {
    let (sandbox, log) = logged();
    let copied = sandbox.path("copied");
    copy(&sandbox.home(), &copied);
    let fsck = format!("log fsck {STORE} --evidence evidence");
    seal(&sandbox, "second");
    sandbox.ok(format!("log publish {STORE}"));
    sandbox.ok(&fsck).warns("no evidence was written");
    put_back(&copied, &sandbox.home());
    fs::remove_dir_all(sandbox.home().with_extension("marks")).unwrap();
    // The log was only rolled back: that convicts no key.
    sandbox.exits(1, &fsck);
    let evidence = sandbox.path("evidence");
    assert!(!evidence.exists());
    seal(&sandbox, "other");
    seal(&sandbox, "more");
    let told = sandbox.exits(1, format!("{fsck} --json"));
    assert_eq!(told.json()["evidence"], "evidence");
    assert!(read(&evidence).contains("\nparted 2\n"));
    sandbox
        .exits(3, "check-proof evidence")
        .prints("with another entry 2");
    let key = format!("keys/log-{}.log.pub", &log[15..31]);
    let key = sandbox.home().join(key);
    sandbox.ok(format!("check-proof evidence --key {key:?}"));
    sandbox.exits(2, &fsck);
}
