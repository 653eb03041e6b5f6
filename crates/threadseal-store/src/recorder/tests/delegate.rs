//! Delegations under failing disks: a key may seal if a sealed line of the record names it, and
//! never otherwise.

use crate::fault::{FaultKind, Keep, ends, fail_each_call};
use crate::recorder::TailPolicy;
use crate::recorder::epoch::tests::{Bench, say};
use crate::testing::{end, signer};
use threadseal_core::error::Error;
use threadseal_core::key::{KeyUsage, LocalSigner, Signer as _};
use threadseal_core::record::Head;
use threadseal_core::report::Verdict;

fn delegate() -> LocalSigner {
    signer(9, KeyUsage::Native)
}

/// One delegation in a process of its own: its first seal also gives up the key of the epoch.
fn work(bench: &Bench) -> Result<Option<Head>, Error> {
    let mut recorder = bench.open(TailPolicy::SetAside)?;
    recorder.delegate(delegate().public_key())
}

/// Works until the fault, ends according to `end`, checks the record, and runs it again. False when
/// no call was left to fail.
fn survives(begun: &Bench, call: usize, kind: FaultKind, end_of_process: Option<Keep>) -> bool {
    let at = format!("{kind:?} at call {call}, {end_of_process:?}");
    let bench = begun.copy();
    bench.fs.plan(call, kind);
    let done = work(&bench);
    if bench.fs.struck().is_none() {
        assert!(done.unwrap().is_some());
        return false;
    }
    let bench = bench.ended_by(end_of_process);
    let outcome = bench.verify();
    let calm = [Verdict::Open, Verdict::UnsignedTail];
    let report = &outcome.report;
    let findings = &report.findings;
    assert!(calm.contains(&report.verdict), "{at}: {findings:?}");
    // A caller that got a success finds the key in the record.
    let is_in = outcome.delegations.len() == 1;
    assert!(is_in || done.is_err(), "{at}");
    let recorder = bench.open(TailPolicy::SetAside).unwrap();
    let (state, key) = (recorder.state(), delegate());
    assert_eq!(state.is_delegate(key.public_key()), is_in, "{at}");
    assert_eq!(bench.may_seal(state, &key), is_in, "{at}");
    drop(recorder);
    // A second run writes only the missing parts, and nothing twice.
    assert_eq!(work(&bench).unwrap().is_none(), is_in, "{at}");
    assert_eq!(bench.verify().delegations.len(), 1, "{at}");
    assert_eq!(bench.loot().len(), 1, "{at}");
    let mut recorder = bench.open(TailPolicy::Refuse).unwrap();
    assert!(bench.may_seal(recorder.state(), &key), "{at}");
    say(&mut recorder).unwrap();
    end(&mut recorder).unwrap();
    drop(recorder);
    assert_eq!(bench.verify().report.verdict, Verdict::Verified, "{at}");
    true
}

// T-KLOG-34
#[test]
fn whatever_fails_in_a_delegation_the_key_is_in_where_a_seal_says_so_and_nowhere_else() {
    let begun = Bench::empty();
    say(&mut begun.create().unwrap()).unwrap();
    fail_each_call(
        30,
        |call, _| ends(call),
        |call, kind, end| survives(&begun, call, kind, end),
    );
}
