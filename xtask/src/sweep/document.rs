//! Natively sealed documents of each kind, with and without a signature for Rye.

use std::error::Error;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, Signer};
use threadseal_core::record::RecordId;
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{Trust, TrustName, TrustStore, TrustedKey};
use threadseal_formats::document::{
    DocumentKind, NativeSealing, Options, RyeSigning, sign_native, sign_rye, verify,
};

/// A small file of each kind.
const FILES: [(DocumentKind, &str); 7] = [
    (DocumentKind::Json, "{\"n\": 1.50}\n"),
    (DocumentKind::Markdown, "---\nname: x\n---\nbody\n"),
    (DocumentKind::Yaml, "a: 1\n"),
    (DocumentKind::Toml, "a = 1\n"),
    (DocumentKind::Python, "#!/usr/bin/env python3\nx\n"),
    (DocumentKind::Shell, "#!/bin/sh\n"),
    (DocumentKind::JavaScript, "export {}\n"),
];

/// A sealed file.
pub(super) struct Sealed {
    pub(super) name: String,
    pub(super) kind: DocumentKind,
    pub(super) bytes: Vec<u8>,
}

/// Keys, trust and a clock.
pub(super) struct Bench {
    native: LocalSigner,
    rye: LocalSigner,
    trust: Trust,
    now: Timestamp,
}

impl Bench {
    pub(super) fn new() -> Result<Self, Box<dyn Error>> {
        let signer = |seed, usage| LocalSigner::new(PrivateKey::from_seed([seed; 32]), usage);
        let (native, rye) = (signer(1, KeyUsage::Native), signer(2, KeyUsage::Rye));
        let mut store = TrustStore::new();
        for (name, signer) in [("native", &native), ("rye", &rye)] {
            let name = TrustName::parse(name)?;
            store.add(TrustedKey::new(
                name,
                *signer.public_key(),
                [signer.usage()],
            ))?;
        }
        Ok(Self {
            native,
            rye,
            trust: Trust::new(store),
            now: Timestamp::from_micros(1_800_000_000_000_000)?,
        })
    }

    /// Each file, sealed.
    pub(super) fn files(&self) -> Result<Vec<Sealed>, Box<dyn Error>> {
        let mut files = Vec::new();
        for (kind, text) in FILES {
            files.push(Sealed {
                name: kind.to_string(),
                kind,
                bytes: self.seal(text.as_bytes(), kind)?,
            });
            let signing = RyeSigning {
                item_type: None,
                time: self.now,
                signer: &self.rye,
            };
            let signed = sign_rye(text.as_bytes(), kind, &signing)?;
            files.push(Sealed {
                name: format!("{kind} signed for Rye too"),
                kind,
                bytes: self.seal(&signed, kind)?,
            });
        }
        Ok(files)
    }

    fn seal(&self, bytes: &[u8], kind: DocumentKind) -> Result<Vec<u8>, Box<dyn Error>> {
        let sealing = NativeSealing {
            record: RecordId::from_bytes([9; 32]),
            seq: 0,
            time: self.now,
            signer: &self.native,
        };
        Ok(sign_native(bytes, kind, &sealing)?)
    }

    pub(super) fn verifies(&self, bytes: &[u8], kind: DocumentKind) -> bool {
        let outcome = verify(bytes, &Options::new(kind, &self.trust, self.now));
        outcome.is_ok_and(|outcome| outcome.verified.is_some())
    }
}
