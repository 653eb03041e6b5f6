//! `log publish` and `log fsck STORE`, as real processes.

use crate::anchor::{logged, seal};
use crate::sandbox::copy;
use std::fs;

const STORE: &str = "object+file:mirror";

// T-LOG-43
#[test]
fn a_log_is_published_checked_and_never_taken_back() {
    let (sandbox, log) = logged();
    sandbox.run(["log", "fsck", STORE]).exits(2);
    let first = sandbox
        .run(["log", "publish", STORE, "--json"])
        .exits(0)
        .json();
    assert_eq!((&first["from"], &first["size"]), (&0.into(), &2.into()));
    let copied = sandbox.work().join("copied");
    copy(&sandbox.home(), &copied);
    seal(&sandbox, "second");
    sandbox.run(["log", "publish", STORE]).exits(0);
    let checked = sandbox
        .run(["log", "fsck", STORE, "--json"])
        .exits(0)
        .json();
    assert_eq!(checked["entries"], 3);
    let mirror = sandbox.work().join("mirror");
    let own = sandbox.home().join("log").join(&log[15..47]);
    for name in ["checkpoint", "tile/0/000.p/3", "tile/entries/000.p/3"] {
        let [here, there] = [&own, &mirror].map(|root| fs::read(root.join(name)).unwrap());
        assert_eq!(here, there, "{name}");
    }
    // Home and mark roll back together: the copy elsewhere shows it, and stays as it is.
    fs::remove_dir_all(sandbox.home()).unwrap();
    copy(&copied, &sandbox.home());
    fs::remove_dir_all(sandbox.home().with_extension("marks")).unwrap();
    let checkpoint = fs::read(mirror.join("checkpoint")).unwrap();
    for name in ["other", "more", "yet more"] {
        let told = sandbox
            .run(["log", "publish", STORE, "--json"])
            .exits(1)
            .json();
        assert_eq!(
            (&told["state"], &told["size"]),
            (&"contradicted".into(), &3.into())
        );
        sandbox.run(["log", "fsck", STORE]).exits(1);
        seal(&sandbox, name);
    }
    assert_eq!(fs::read(mirror.join("checkpoint")).unwrap(), checkpoint);
    sandbox.run(["log", "publish", "s3://"]).exits(2);
}

/// A home and its copy both continued; no checkpoint of one has the size of a checkpoint of the
/// other.
// T-FRK-04
#[test]
fn a_published_copy_of_another_history_convicts_the_log_at_any_size() {
    let (sandbox, log) = logged();
    let copied = sandbox.work().join("copied");
    copy(&sandbox.home(), &copied);
    let fsck = ["log", "fsck", STORE, "--evidence", "evidence"];
    seal(&sandbox, "second");
    sandbox.run(["log", "publish", STORE]).exits(0);
    let none = sandbox.run(fsck).exits(0);
    assert!(none.stderr.contains("no evidence was written"), "{none:?}");
    fs::remove_dir_all(sandbox.home()).unwrap();
    copy(&copied, &sandbox.home());
    fs::remove_dir_all(sandbox.home().with_extension("marks")).unwrap();
    // The log was only rolled back: that convicts no key.
    sandbox.run(fsck).exits(1);
    let evidence = sandbox.work().join("evidence");
    assert!(!evidence.exists());
    seal(&sandbox, "other");
    seal(&sandbox, "more");
    let told = sandbox.run([&fsck[..], &["--json"]].concat()).exits(1);
    assert_eq!(told.json()["evidence"], "evidence");
    assert!(
        fs::read_to_string(&evidence)
            .unwrap()
            .contains("\nparted 2\n")
    );
    let open = sandbox.run(["check-proof", "evidence"]).exits(3);
    assert!(open.stdout.contains("entry 2 is another one"), "{open:?}");
    let key = format!("keys/log-{}.log.pub", &log[15..31]);
    let key = sandbox.home().join(key);
    let check = ["check-proof", "evidence", "--key", key.to_str().unwrap()];
    sandbox.run(check).exits(0);
    sandbox.run(fsck).exits(2);
}
