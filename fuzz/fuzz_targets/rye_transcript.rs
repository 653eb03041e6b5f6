//! Rye's transcripts: one verdict for any bytes in any chunks. A record with a changed sealed byte
//! is never verified, and a verified record can be read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use threadseal_core::canon::json::Value;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, Signer};
use threadseal_core::record::ThreadId;
use threadseal_core::report::Verdict;
use threadseal_core::time::Timestamp;
use threadseal_formats::transcript::lines::VerifiedLines;
use threadseal_formats::transcript::messages::{self, Conversation};
use threadseal_formats::transcript::render::{self, Cost, Cover, Renderer};
use threadseal_formats::transcript::rye::{Options, RyeSealer, Verifier};
use threadseal_formats::transcript::rye_compat::{self, Pass, Scanner};
use threadseal_core::trust::{Trust, TrustName, TrustStore, TrustedKey};

static SIGNER: LazyLock<LocalSigner> =
    LazyLock::new(|| LocalSigner::new(PrivateKey::from_seed([1; 32]), KeyUsage::Rye));
static TRUST: LazyLock<Trust> = LazyLock::new(|| {
    let mut store = TrustStore::new();
    let name = TrustName::parse("fuzz").unwrap();
    store.add(TrustedKey::new(name, *SIGNER.public_key(), [KeyUsage::Rye])).unwrap();
    Trust::new(store)
});
static THREAD: LazyLock<ThreadId> = LazyLock::new(|| ThreadId::parse("fuzz/1").unwrap());

fn now() -> Timestamp {
    Timestamp::from_micros(1_800_000_000_000_000).unwrap()
}

fuzz_target!(|data: &[u8]| {
    any_bytes(data);
    if let [high, low, flip, rest @ ..] = data {
        changed(usize::from(*high) << 8 | usize::from(*low), *flip, rest);
    }
});

fn any_bytes(bytes: &[u8]) {
    let size = 1 + bytes.len() % 97;
    let mut whole = Verifier::new(Options::new(&TRUST, now()));
    whole.push(bytes);
    let whole = whole.finish();
    let mut pieces = Verifier::new(Options::new(&TRUST, now()));
    bytes.chunks(size).for_each(|chunk| pieces.push(chunk));
    assert_eq!(pieces.finish().report, whole.report);

    let keys = rye_compat::keys_of(&TRUST);
    let mut scanner = Scanner::new(&keys);
    bytes.chunks(size).for_each(|chunk| scanner.push(chunk));
    let answers = match scanner.finish() {
        Pass::Done(answers) => answers,
        Pass::Again(mut second) => {
            bytes.chunks(size).for_each(|chunk| second.push(chunk));
            second.finish()
        }
    };
    assert_eq!(answers, rye_compat::verify(bytes, &keys));
    let _ = answers.to_compat();

    let (mut conversation, mut renderer) = (Conversation::danger_new(), Renderer::danger_new());
    for line in bytes.split(|byte| *byte == b'\n') {
        let _ = conversation.push_line(line);
        let _ = renderer.push_line(line);
    }
    let cover = cover();
    let _ = renderer.finish(&cover);
    if let Some(verified) = &whole.verified {
        let lines = VerifiedLines::open(verified, bytes).unwrap();
        messages::reconstruct(&lines).unwrap();
        render::render(&lines, &cover).unwrap();
    }
}

/// A genuine record with this content; then one of its sealed bytes changes.
fn changed(at: usize, flip: u8, content: &[u8]) {
    let text = String::from_utf8_lossy(content).into_owned();
    let mut sealer = RyeSealer::new(THREAD.clone());
    let mut bytes = Vec::new();
    let mut sealed = 0;
    for turn in 1..=2 {
        for event_type in ["cognition_in", "cognition_out"] {
            let payload = Value::Object(vec![("text".into(), text.as_str().into())]);
            bytes.extend(sealer.event(now(), event_type, payload).unwrap());
        }
        sealed = bytes.len();
        bytes.extend(sealer.checkpoint(&*SIGNER, now(), turn).unwrap());
    }
    let verdict = |bytes: &[u8]| {
        let mut verifier = Verifier::new(Options::new(&TRUST, now()));
        verifier.push(bytes);
        verifier.finish().report.verdict
    };
    assert_eq!(verdict(&bytes), Verdict::Verified);
    if flip != 0 {
        let at = at % sealed;
        bytes[at] ^= flip;
        // Without the LF before it the last checkpoint is garbage in a tail.
        let expected = if at == sealed - 1 { 3 } else { 1 };
        assert_eq!(verdict(&bytes).exit_code(), expected);
    }
}

fn cover() -> Cover<'static> {
    Cover {
        thread: &THREAD,
        directive: "",
        status: "completed",
        model: "",
        cost: Cost::default(),
        permissions: &[],
    }
}
