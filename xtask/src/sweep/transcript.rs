//! A native transcript with all features of seals.
//!
//! ```text
//! manifest · seal 0 · events, key change · seal · events, end · final seal · link · final seal
//! ```

use std::error::Error;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, Signer};
use threadseal_core::record::{Head, RecordId, ThreadId};
use threadseal_core::report::Verdict;
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{Trust, TrustName, TrustStore, TrustedKey};
use threadseal_formats::transcript::event::{EventType, Payload, Salt};
use threadseal_formats::transcript::ext::Ext;
use threadseal_formats::transcript::manifest::Manifest;
use threadseal_formats::transcript::{
    Ending, Link, ScanOptions, Sealer, Signers, Stamp, Verifier, VerifyOptions,
};

/// Keys, trust and a clock for one record.
pub(super) struct Bench {
    native: LocalSigner,
    next: LocalSigner,
    rye: LocalSigner,
    trust: Trust,
    now: Timestamp,
}

impl Bench {
    pub(super) fn new() -> Result<Self, Box<dyn Error>> {
        let signer = |seed, usage| LocalSigner::new(PrivateKey::from_seed([seed; 32]), usage);
        let native = signer(1, KeyUsage::Native);
        let mut store = TrustStore::new();
        let name = TrustName::parse("self")?;
        store.add(TrustedKey::new(
            name,
            *native.public_key(),
            [KeyUsage::Native],
        ))?;
        Ok(Self {
            native,
            next: signer(2, KeyUsage::Native),
            rye: signer(3, KeyUsage::Rye),
            trust: Trust::new(store),
            now: Timestamp::from_micros(1_800_000_000_000_000)?,
        })
    }

    /// A record that was ended and continued elsewhere, with all features of seals.
    pub(super) fn record(&self) -> Result<Vec<u8>, Box<dyn Error>> {
        let mut out = Vec::new();
        let mut stamps = (1_u8..).map(|count| {
            let timestamp = Timestamp::from_micros(1_739_820_405_000_000 + u64::from(count))?;
            let salt = Salt::from_bytes([count; 16]);
            Ok::<_, threadseal_core::error::Error>(Stamp { timestamp, salt })
        });
        let mut stamp = || {
            stamps
                .next()
                .ok_or("out of stamps")?
                .map_err(Box::<dyn Error>::from)
        };
        let first = Signers {
            native: &self.native,
            rye: &self.rye,
        };
        let second = Signers {
            native: &self.next,
            rye: &self.rye,
        };
        let id = RecordId::from_bytes([7; 32]);
        let manifest = Manifest::new(id, *self.native.public_key(), *self.rye.public_key());
        let thread = ThreadId::parse("demo/t-1")?;
        let mut sealer = Sealer::begin(thread, manifest, [stamp()?, stamp()?], first, &mut out)?;
        let input = EventType::parse("cognition_in")?;
        let text = Payload::parse(br#"{"text":"h\u00e9","n":[1.5e-7,null,true]}"#)?;
        sealer.event(stamp()?, &input, &text, &mut out)?;
        sealer.announce_key(stamp()?, self.next.public_key(), &mut out)?;
        let ext = Ext::default();
        sealer.seal(stamp()?, 1, false, ext.clone(), first, &mut out)?;
        sealer.event(stamp()?, &input, &text, &mut out)?;
        sealer.end(
            stamp()?,
            Ending::Completed,
            &Payload::parse(b"{}")?,
            &mut out,
        )?;
        sealer.seal(stamp()?, 2, true, ext.clone(), second, &mut out)?;
        let successor = RecordId::from_bytes([8; 32]).to_hex();
        let successor = Payload::parse(format!("{{\"successor\":\"{successor}\"}}").as_bytes())?;
        sealer.link(stamp()?, Link::Handoff, &successor, &mut out)?;
        let _: Head = sealer.seal(stamp()?, 2, true, ext, second, &mut out)?;
        Ok(out)
    }

    pub(super) fn verifies(&self, bytes: &[u8]) -> bool {
        let mut verifier = Verifier::new(ScanOptions::default());
        verifier.push(bytes);
        let outcome = verifier.finish(&VerifyOptions {
            trust: &self.trust,
            now: self.now,
            held_since: None,
            thread: None,
        });
        outcome.report.verdict == Verdict::Verified || outcome.verified.is_some()
    }
}
