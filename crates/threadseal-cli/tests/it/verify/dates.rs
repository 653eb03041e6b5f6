//! The dates of reports: by the signer's clock, by this host's, and by none that is not signed.

use crate::prelude::*;
use threadseal_core::time::Timestamp;

/// The moment of a text in a report.
#[track_caller]
fn moment(text: &Value) -> Timestamp {
    Timestamp::parse_iso_seconds(text.text()).unwrap()
}

// T-CMD-26
#[test]
fn a_report_names_when_each_kind_of_record_was_sealed_and_held() {
    let sandbox = ready();
    let day = Timestamp::parse_iso_seconds("2026-01-01T00:00:00Z").unwrap();
    sandbox.sealed("log.jsonl", "{\"type\":\"user\"}\n");
    sandbox.sealed("plan.json", "{\"plan\":1}\n");
    ended_record(&sandbox, "t/t.jsonl", 2);
    for name in ["log.jsonl", "plan.json", "t/t.jsonl"] {
        let report = sandbox.report(format!("verify {name}"));
        let dates = &report["dates"];
        let [sealed, first, last] =
            ["sealed", "first_held", "last_held"].map(|m| moment(&dates[m]));
        assert!(day < sealed && first <= last, "{report}");
        assert_eq!(dates["stamped"], Value::Null, "{report}");
        let text = sandbox.ok(format!("verify {name}"));
        text.prints("by the clock of its signer")
            .prints("first held here  ");
    }
    // A later seal moves what was held last, and not what was held first.
    let before = sandbox.report("verify log.jsonl")["dates"].clone();
    sandbox.write(
        "log.jsonl",
        "{\"type\":\"user\"}\n{\"type\":\"assistant\"}\n",
    );
    sandbox.ok("seal log.jsonl");
    let after = sandbox.report("verify log.jsonl")["dates"].clone();
    assert_eq!(before["first_held"], after["first_held"]);
    assert!(moment(&before["last_held"]) <= moment(&after["last_held"]));
}

// T-CMD-26
#[test]
fn a_host_that_never_held_a_record_has_the_signers_claim_alone() {
    let sandbox = ready();
    sandbox.sealed("plan.json", "{\"plan\":1}\n");
    let sealed = sandbox.report("verify plan.json")["dates"]["sealed"].clone();
    sandbox.ok("key export self --out self.pem");
    sandbox.forget();
    let report = sandbox.report("verify plan.json --key self.pem");
    let claim = json!({"sealed": sealed, "first_held": null, "last_held": null, "stamped": null});
    assert_eq!(report["dates"], claim, "{report}");
    // No signature covers the time in Rye's line.
    let rye = rye_events(&sandbox, "rye.jsonl", 2);
    sandbox.ok("seal rye.jsonl --profile rye");
    let report = sandbox.report(format!("verify {rye:?} --profile rye"));
    assert_eq!(report["dates"]["sealed"], Value::Null, "{report}");
}
