//! The bytes that the log of a host leaves after a fixed life, frozen in `tests/snapshots`.
#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking and reports where, also in its helpers"
)]

use std::path::Path;
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, Signer as _};
use threadseal_core::record::{Head, RecordId, RecordKind};
use threadseal_core::tlog::entry::LoggedHead;
use threadseal_log::{Description, LogHome, LogId, LogKey, LogRegistry, SealLog};
use threadseal_store::fault::FaultFs;
use threadseal_store::random::SeededRandom;
use threadseal_store::{atomic, snapshot};

const DISK: &str = "/disk";
const HOME: &str = "/home";

fn logged(record: u8, seq: u64) -> LoggedHead {
    LoggedHead {
        kind: RecordKind::Transcript,
        head: Head {
            record: RecordId::from_bytes([record; 32]),
            seq,
            size: 100 * (seq + 1),
            line: Digest::of(format!("{record} {seq}").as_bytes()),
        },
        root: Some(Digest::of(b"root")),
        key: None,
    }
}

#[test]
fn the_log_of_a_host_is_frozen() {
    let fs = FaultFs::new();
    for folder in [DISK, HOME] {
        atomic::create_directories(&fs, Path::new(folder), 0o700).unwrap();
    }
    let tree = || {
        [DISK, HOME]
            .map(|folder| snapshot::tree(&*fs.shared(), Path::new(folder)))
            .concat()
    };
    let registry = LogRegistry::new(LogHome {
        fs: fs.shared(),
        path: HOME.into(),
        mark: "/disk/mark".into(),
        elsewhere: Vec::new(),
        host: None,
        settings: Vec::new(),
    });
    let key = Arc::new(LocalSigner::new(
        PrivateKey::from_seed([9; 32]),
        KeyUsage::Log,
    ));
    let description = Description {
        id: LogId::from_bytes([0xab; 16]),
        key: *key.public_key(),
        host: None,
        marks: Vec::new(),
        single_host: false,
    };
    registry
        .create(
            &description,
            &LogKey(Arc::clone(&key) as _),
            &[logged(1, 0)],
            &|| Ok(()),
        )
        .unwrap();
    let description = registry.current().unwrap().unwrap();
    let log = SealLog::open(
        registry,
        description,
        Some(LogKey(key)),
        Arc::new(SeededRandom::new(5)),
    );
    let flushed = || {
        let published = log.flush();
        assert!(published.error.is_none(), "{published:?}");
    };
    // One by one: how many share a commit is a matter of time.
    for seq in 1..=130 {
        for record in [1, 2] {
            log.publish(&logged(record, seq));
            flushed();
        }
    }
    log.commit_tombstones(&[logged(2, 130)]).unwrap();
    let published = tree();
    log.fold().unwrap();
    drop(log);
    freeze(
        "log",
        &format!("# published\n{published}\n# folded\n{}", tree()),
    );
}

/// Freezes in `tests/snapshots`; `THREADSEAL_BLESS=1` writes there instead.
#[track_caller]
#[expect(
    clippy::disallowed_methods,
    reason = "the environment of the test run tells whether a change is meant"
)]
fn freeze(name: &str, text: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    let bless = std::env::var_os("THREADSEAL_BLESS").is_some();
    snapshot::check(&folder.join(format!("{name}.txt")), text, bless);
}
