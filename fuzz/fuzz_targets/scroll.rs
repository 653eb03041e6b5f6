//! Scrolls in all three containers.
//!
//! * The pieces of a file, and the verdict on it, do not depend on its chunks.
//! * The facts of a turn do not depend on the way in which it is read.
//! * The specification's `verify` and the report agree on the chains that hold.
//! * v0.1's answer in the report equals the result of its rules over values.
//! * A sealed chain verifies. With one byte changed it no longer does.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use threadseal_core::canon::json::{self, Value};
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, Signer};
use threadseal_core::report::{Report, Verdict};
use threadseal_formats::scroll::{
    ChainOptions, Container, Judging, Place, SealedTurn, Splitter, Turn, TurnReader, Verifier, conclude,
    deserialize, judge, seal_chain, verify, verify_as_v01,
};
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{Trust, TrustName, TrustStore, TrustedKey};

static SIGNER: LazyLock<LocalSigner> =
    LazyLock::new(|| LocalSigner::new(PrivateKey::from_seed([1; 32]), KeyUsage::Scroll));
static TRUST: LazyLock<Trust> = LazyLock::new(|| {
    let mut store = TrustStore::new();
    let name = TrustName::parse("fuzz").expect("a name");
    let key = TrustedKey::new(name, *SIGNER.public_key(), [KeyUsage::Scroll]);
    store.add(key).expect("one key");
    Trust::new(store)
});

fn judging() -> Judging<'static> {
    let now = Timestamp::from_micros(1_800_000_000_000_000).expect("in range");
    Judging::new(&TRUST, now)
}

fuzz_target!(|data: &[u8]| {
    for container in [Container::Array, Container::Lines, Container::Sequence] {
        any_chunks(data, container);
    }
    if let Ok(Value::Array(chain)) = json::parse(data) {
        over_values(&chain, data);
    }
    if let [high, low, flip, rest @ ..] = data {
        changed(usize::from(*high) << 8 | usize::from(*low), *flip, rest);
    }
});

fn report_in_chunks(bytes: &[u8], container: Container, size: usize) -> Report {
    let mut verifier = Verifier::new(ChainOptions::default());
    let mut reader = TurnReader::new(container.form(), &[]);
    let mut each = |piece: &[u8], place: Place| {
        let read = reader.read(piece);
        verifier.take(&read, place);
    };
    let mut splitter = Splitter::new(container);
    bytes.chunks(size).for_each(|chunk| splitter.push(chunk, &mut each));
    let end = splitter.finish(&mut each);
    conclude(verifier, &end, &judging()).report
}

fn any_chunks(bytes: &[u8], container: Container) {
    let whole = judge(bytes, container, ChainOptions::default(), &judging());
    assert_eq!(whole.verified.is_some(), whole.report.verdict == Verdict::Verified);
    let mut quick = TurnReader::new(container.form(), &[]);
    let mut careful = TurnReader::new(container.form(), &[]).careful();
    let mut both = |piece: &[u8], _: Place| assert_eq!(quick.read(piece), careful.read(piece));
    let mut splitter = Splitter::new(container);
    splitter.push(bytes, &mut both);
    splitter.finish(&mut both);
    let size = 1 + bytes.len() % 61;
    assert_eq!(report_in_chunks(bytes, container, size), whole.report);
}

/// Compares the two answers over values with the report over their text.
fn over_values(chain: &[Value], text: &[u8]) {
    let report = judge(text, Container::Array, ChainOptions::default(), &judging()).report;
    let strict = verify(chain, None);
    if matches!(report.verdict, Verdict::Verified | Verdict::Consistent | Verdict::Partial) {
        assert!(strict.ok(), "{:?}", strict.failures);
    }
    let v01 = verify_as_v01(chain, None);
    if strict.ok() {
        assert!(v01.ok() || has_member(chain, "enc"), "{:?}", v01.failures);
    }
}

fn has_member(chain: &[Value], name: &str) -> bool {
    chain.iter().any(|turn| turn.get(name).is_some())
}

/// Seals the turns in `rest`, one per line, and changes a byte of the lines.
fn changed(at: usize, flip: u8, rest: &[u8]) {
    let turns: Vec<Turn> = rest
        .split(|byte| *byte == b'\n')
        .filter_map(|line| deserialize(line).ok())
        .collect();
    let Ok(chain) = seal_chain(turns, Some(&*SIGNER as &dyn Signer)) else {
        return;
    };
    if chain.is_empty() {
        return;
    }
    let mut file: Vec<u8> = chain
        .iter()
        .flat_map(|turn: &SealedTurn| [turn.canonical(), b"\n"].concat())
        .collect();
    let verdict = |file: &[u8]| judge(file, Container::Lines, ChainOptions::default(), &judging()).report;
    let before = verdict(&file);
    let at = at % file.len();
    // The end of a line is no part of a turn.
    let in_turn = file[at] != b'\n';
    file[at] ^= flip;
    if flip != 0 && in_turn && before.verdict == Verdict::Verified {
        assert_ne!(verdict(&file).verdict, Verdict::Verified);
    }
}
