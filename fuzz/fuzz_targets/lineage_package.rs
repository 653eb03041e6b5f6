//! Packages of agents, ThreadSeal's and igor's.
//!
//! * An accepted package has the expected sender and receiver, and its links form a history.
//! * With any byte changed it is not accepted.
//! * A consistent message of igor is written back unchanged, if Go writes it in that form.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use threadseal_core::key::{PrivateKey, PublicKey};
use threadseal_formats::lineage::{
    AgentStarted, AgentTransfer, CheckedPackage, PackageExpectation, PackageFault,
};

static ROOT: LazyLock<PublicKey> = LazyLock::new(|| *PrivateKey::from_seed([1; 32]).public_key());
static TARGET: LazyLock<PublicKey> = LazyLock::new(|| *PrivateKey::from_seed([3; 32]).public_key());

fn read(bytes: &[u8]) -> Result<CheckedPackage, PackageFault> {
    let expect = PackageExpectation {
        root: &ROOT,
        name: None,
        target: &TARGET,
        known: None,
    };
    CheckedPackage::read(bytes, &expect).map(|(package, _)| package)
}

fuzz_target!(|data: &[u8]| {
    messages(data);
    if let Ok(package) = read(data) {
        assert_eq!(package.offer.target, *TARGET);
        assert_eq!(package.offer.source.root, *ROOT);
        assert_eq!(package.release.header.prev, Some(package.checkpoint.hash));
        assert!(package.links().len() >= 2);
    }
    if let [high, low, flip, package @ ..] = data
        && *flip > 0
        && read(package).is_ok()
    {
        let mut package = package.to_vec();
        let at = (usize::from(*high) << 8 | usize::from(*low)) % package.len();
        package[at] ^= flip;
        assert!(read(&package).is_err(), "byte {at}");
    }
});

fn messages(text: &[u8]) {
    if let Ok(answer) = AgentStarted::parse(text) {
        assert_eq!(AgentStarted::parse(&answer.to_json()), Ok(answer));
    }
    let Ok(transfer) = AgentTransfer::parse(text).map(|read| read.check(None)) else {
        return;
    };
    if let Ok(checked) = transfer {
        let written = checked.transfer.to_json();
        let again = AgentTransfer::parse(&written).expect("we read what we write");
        let again = again.check(None).expect("it fits together still");
        assert_eq!(again.transfer, checked.transfer);
        assert_eq!(again.transfer.to_json(), written);
    }
}
