//! Records a thread: how a program that runs an agent uses this library.
//!
//! ```text
//! record HOME FILE [--open] < entries
//!
//! cognition_in {"text": "…", "role": "user"}    an event and its payload
//! 1                                             turn 1 is over: seal it
//! ```
//! `HOME` is a folder that `threadseal init` made. An existing `FILE` is continued, if it verifies.
//! At the end of the input the thread is completed and its record final; with `--open` both can
//! continue later.

use std::error::Error;
use std::io::BufRead as _;
use std::path::Path;
use std::sync::Arc;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, Signer as _};
use threadseal_core::record::ThreadId;
use threadseal_core::trust::{Trust, TrustStore};
use threadseal_formats::transcript::Ending;
use threadseal_formats::transcript::event::{EventType, Payload};
use threadseal_formats::transcript::ext::Ext;
use threadseal_formats::transcript::manifest::Manifest;
use threadseal_store::home::{Home, KeyFileName};
use threadseal_store::recorder::{Keys, Recorder, TailPolicy};
use threadseal_store::sys::RealFs;
use threadseal_verify::home_log::HomeLog;
use threadseal_verify::{Verifier, VerifyRequest, hosts};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (home, file, stays_open) = match arguments.as_slice() {
        [home, file] => (home, file, false),
        [home, file, open] if open == "--open" => (home, file, true),
        _ => return Err("usage: record HOME FILE [--open] < entries".into()),
    };
    let mut recorder = begin(home.as_ref(), file.as_ref())?;
    let mut turn = recorder.state().turn();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if let Ok(over) = line.parse() {
            turn = over;
            // Durable from here on, and no longer to be changed, cut or reordered unnoticed.
            recorder.seal(turn, Ext::default())?;
        } else {
            let (event_type, payload) = line.split_once(' ').ok_or("no payload")?;
            let payload = Payload::parse(payload.as_bytes())?;
            recorder.append(&EventType::parse(event_type)?, &payload)?;
        }
    }
    if !stays_open {
        recorder.end(Ending::Completed, &Payload::parse(b"{}")?, turn)?;
    }
    Ok(())
}

fn begin(home: &Path, file: &Path) -> Result<Recorder, Box<dyn Error>> {
    let home = Home::open(RealFs::shared(), home)?;
    let native = signer(&home, "self.native", KeyUsage::Native)?;
    let rye = signer(&home, "self-rye.rye", KeyUsage::Rye)?;
    let host = hosts::of_home(&home, &HomeLog::Never);
    let (authority, rye_key) = (*native.public_key(), *rye.public_key());
    let keys = Keys {
        native: Arc::new(native),
        rye: Arc::new(rye),
        epochs: None,
    };
    if file.exists() {
        let (request, now) = (VerifyRequest::by(trust(&home)?), host.clock.now()?);
        let verifier = Verifier::new(request, host.clone(), HomeLog::Never, now);
        return Ok(Recorder::open(host, file, keys, &verifier, TailPolicy::Refuse)?.recorder);
    }
    let manifest = Manifest::new(host.new_record()?, authority, rye_key);
    let thread = ThreadId::parse("example/thread")?;
    Ok(Recorder::create(host, file, thread, manifest, keys)?)
}

fn trust(home: &Home) -> Result<Trust, Box<dyn Error>> {
    let text = home.read_trust()?.ok_or("the home trusts nobody")?;
    let store = TrustStore::parse(std::str::from_utf8(&text)?)?;
    Ok(Trust::new(store))
}

fn signer(home: &Home, name: &str, usage: KeyUsage) -> Result<LocalSigner, Box<dyn Error>> {
    let pem = home.keys().read_private(&KeyFileName::parse(name)?)?;
    let key = PrivateKey::from_pem(std::str::from_utf8(&pem)?)?;
    Ok(LocalSigner::new(key, usage))
}
