//! Records a run: how a program that runs a workflow uses this library.
//!
//! ```text
//! run HOME DIRECTORY RUN < steps
//!
//! ask llm_call {"prompt": "…"}       a node, the effect that it asks for, and the payload
//! ```
//! `HOME` is a folder that `threadseal init` made. The ledger is `DIRECTORY/ledger_<RUN>.jsonl`,
//! chained and signed by an agent whose key is the home's native key. `AbstractRuntime` reads it as
//! its own.

use std::error::Error;
use std::io::BufRead as _;
use std::path::Path;
use std::sync::Arc;
use threadseal_core::canon::json;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, Signer as _};
use threadseal_formats::ledger::{ActorFingerprint, Effect, Genesis, RunId};
use threadseal_store::clock::SystemClock;
use threadseal_store::home::{Home, KeyFileName};
use threadseal_store::host::Host;
use threadseal_store::key_ends::NoKeyEnds;
use threadseal_store::ledger::{
    ActorSigners, HashChainedLedgerStore, JsonlLedgerStore, RunRecorder, Step,
};
use threadseal_store::random::SystemRandom;
use threadseal_store::sys::RealFs;

type Recorder = RunRecorder<HashChainedLedgerStore<JsonlLedgerStore>>;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [home, directory, run] = arguments.as_slice() else {
        return Err("usage: run HOME DIRECTORY RUN < steps".into());
    };
    let recorder = begin(home.as_ref(), directory.as_ref(), RunId::parse(run)?)?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let mut words = line.splitn(3, ' ');
        let (Some(node), Some(kind), Some(payload)) = (words.next(), words.next(), words.next())
        else {
            return Err("a step is a node, an effect and its payload".into());
        };
        let payload = json::parse(payload.as_bytes())?;
        let effect = Effect::new(kind, payload.clone());
        // Durable before the effect runs: a started step is known even if this process dies in it.
        let step = recorder.start(Step::new(node, Some(effect)))?;
        recorder.succeed(step, Some(payload))?;
    }
    Ok(())
}

fn begin(home: &Path, directory: &Path, run: RunId) -> Result<Recorder, Box<dyn Error>> {
    let fs = RealFs::shared();
    let home = Home::open(Arc::clone(&fs), home)?;
    let pem = home
        .keys()
        .read_private(&KeyFileName::parse("self.native")?)?;
    let key = PrivateKey::from_pem(std::str::from_utf8(&pem)?)?;
    let signer = LocalSigner::new(key, KeyUsage::Native);
    let agent = ActorFingerprint::for_key("agent", None, Vec::new(), signer.public_key())
        .map_err(|why| why.to_string())?;
    let actor_id = agent.actor_id().to_owned();
    let host = Host {
        fs: Arc::clone(&fs),
        clock: Arc::new(SystemClock),
        random: Arc::new(SystemRandom),
        heads: Arc::new(home.heads()),
        keys: Arc::new(NoKeyEnds),
    };
    let mut genesis = Genesis::new(host.new_record()?, host.clock.now()?);
    genesis.actors.add(agent)?;
    let signers = ActorSigners::new().with(actor_id.clone(), Arc::new(signer));
    let ledger = HashChainedLedgerStore::new(JsonlLedgerStore::open(fs, directory)?)
        .with_signer(Arc::new(signers))
        .with_host(host.clone());
    Ok(RunRecorder::create(
        ledger,
        host,
        run,
        Some(actor_id),
        None,
        &genesis,
    )?)
}
