//! The jobs of the rows on lineages, each in a process of its own.
//!
//! The baseline is the same hash code alone, over the bytes that must be hashed.

use crate::console::Fallible;
use sha2::{Digest as _, Sha256, Sha512};
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;
use threadseal_core::digest::Digest;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, Signer as _};
use threadseal_formats::lineage::{
    AgentName, CheckpointHeader, Epoch, FileReader, LinkKind, MediaType, NativeHeader, Seal,
    SealedHeader, StateSeal, Version, seal_native, seal_original,
};
use threadseal_store::read::{Source as _, open_regular};
use threadseal_store::sys::RealFs;

/// Runs a job of this file; `None` when it has no such job.
pub(super) fn run(name: &str, path: &Path, rest: &[&str]) -> Option<Fallible<(u64, u64)>> {
    Some(match (name, rest) {
        ("lineage-state", [bytes]) => bytes
            .parse()
            .map_err(Into::into)
            .and_then(|bytes| state(path, bytes)),
        ("lineage-hash", passes) => hash(path, passes),
        ("lineage-sign", [version]) => sign(path, version),
        ("lineage-verify", []) => verify(path),
        _ => return None,
    })
}

/// Writes a state, and a checkpoint of each version with that state next to it.
fn state(path: &Path, bytes: u64) -> Fallible<(u64, u64)> {
    let piece: Vec<u8> = (0..=u8::MAX).cycle().take(1 << 20).collect();
    let mut file = BufWriter::new(File::create(path)?);
    let mut left = bytes;
    while left > 0 {
        let now = left.min(piece.len() as u64);
        file.write_all(piece.get(..usize::try_from(now)?).unwrap_or_default())?;
        left -= now;
    }
    file.flush()?;
    drop(file);
    let state = fs::read(path)?;
    for version in ["4", "5"] {
        let sealed = seal(version, &state)?;
        let mut file = File::create(path.with_extension(version))?;
        file.write_all(&sealed.bytes)?;
        file.write_all(&state)?;
    }
    Ok((bytes, 0))
}

/// The passes over a state that a format requires, as `512` and `256`.
fn hash(path: &Path, passes: &[&str]) -> Fallible<(u64, u64)> {
    let state = fs::read(path)?;
    let mut used = 0_u64;
    for pass in passes {
        let first = match *pass {
            "512" => Sha512::digest(&state).first().copied(),
            _ => Sha256::digest(&state).first().copied(),
        };
        used += u64::from(first.unwrap_or_default());
    }
    Ok((state.len() as u64, used))
}

fn sign(path: &Path, version: &str) -> Fallible<(u64, u64)> {
    let state = fs::read(path)?;
    let sealed = seal(version, &state)?;
    Ok((state.len() as u64, sealed.bytes.len() as u64))
}

fn seal(version: &str, state: &[u8]) -> Fallible<SealedHeader> {
    let (version, usage) = match version {
        "4" => (Version::V4, KeyUsage::Igor),
        _ => (Version::V5, KeyUsage::Native),
    };
    let signer = LocalSigner::new(PrivateKey::from_seed([1; 32]), usage);
    let root = *signer.public_key();
    let native = NativeHeader {
        kind: LinkKind::Checkpoint,
        seq: 0,
        time: 1_700_000_000_000_000_000,
        state: match version {
            Version::V5 => StateSeal::of(state, MediaType::bytes()),
            _ => StateSeal::of(b"", MediaType::bytes()),
        },
        transcript: None,
        manifest: None,
        receipts: None,
        parent: None,
        name: AgentName::parse("bench")?,
        root,
        certificate: None,
    };
    let header = CheckpointHeader {
        version,
        budget: 1_000_000,
        price: 1000,
        tick: 7,
        code: Digest::of(b"code"),
        epoch: Epoch::default(),
        lease_expiry: 0,
        prev: None,
        signer: Some(*root.as_bytes()),
        signature: None,
        native: (version == Version::V5).then(|| Box::new(native)),
    };
    Ok(match version {
        Version::V5 => seal_native(header, &signer)?,
        _ => seal_original(header, state, &signer)?,
    })
}

fn verify(path: &Path) -> Fallible<(u64, u64)> {
    let file = open_regular(&RealFs, path)?;
    let (mut chunks, mut buffer, mut reader) = (file.chunks(), Vec::new(), FileReader::new());
    loop {
        chunks.next_chunk(&mut buffer)?;
        if buffer.is_empty() {
            break;
        }
        reader.push(&buffer);
    }
    let facts = reader.finish("bench", 0);
    match facts.link() {
        Some(link) if link.seal == Seal::Good => Ok((facts.bytes, 0)),
        _ => Err("the seal does not hold".into()),
    }
}
