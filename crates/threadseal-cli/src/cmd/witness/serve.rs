//! `witness serve`: serves C2SP tlog-witness over HTTP.

use super::files;
use crate::context::{self, Context};
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::keyring::Keyring;
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use clap::Args;
use serde::Serialize;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use threadseal_core::key::{KeyUsage, Signer as _};
use threadseal_core::note::KeyName;
use threadseal_log::witness::{PeerLimit, WitnessKey, WitnessService, serve};
use threadseal_store::clock::SystemClock;

/// What `witness serve` takes.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Address to listen on; port 0 picks a free port. A proxy must provide TLS
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7380")]
    listen: SocketAddr,
    /// The key to cosign with, of usage witness [default: self-witness]
    #[arg(long, value_name = "NAME")]
    key: Option<String>,
    /// Public name of the key, best an address without `https://` [default: threadseal.witness/ and
    /// 16 digits of the key's id]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// All connections come from a proxy, which bounds those of each client; else a client has 8
    #[arg(long)]
    behind_proxy: bool,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

#[derive(Serialize)]
struct ServeOutput {
    schema: &'static str,
    vkey: String,
    url: String,
}

/// Serves until a signal arrives.
pub(super) fn run(args: &ServeArgs, context: &Context, out: &mut Out) -> Outcome {
    let end = Arc::<AtomicBool>::default();
    context::cancel_on_interrupt(&end)?;
    let home = context.existing_home()?;
    let keyring = Keyring::of(&home);
    let name = args.key.as_deref();
    let signer = keyring.signer(name, KeyUsage::Witness, &args.passphrase, context)?;
    let name = args.name.clone().unwrap_or_else(|| {
        let id = signer.public_key().key_id().to_string();
        format!("threadseal.witness/{id:.16}")
    });
    let name = KeyName::parse(&name).map_err(|error| Failure::new(format!("{name:?}: {error}")))?;
    let key = WitnessKey {
        name,
        signer: Arc::new(signer),
    };
    let unheard = |error| Failure::new(format!("cannot listen on {}: {error}", args.listen));
    let listener = TcpListener::bind(args.listen).map_err(unheard)?;
    let url = format!("http://{}", listener.local_addr().map_err(unheard)?);
    let vkey = key.verifier().to_string();
    if context.json {
        out.json_line(&ServeOutput {
            schema: "threadseal.witness.serve/1",
            vkey,
            url,
        });
    } else {
        out.line(format_args!("witness  {vkey}"));
        out.line(format_args!("listens  {url}"));
    }
    out.flush();
    let files = files(&home, context);
    let service = WitnessService::new(files, key, Box::new(SystemClock), complain);
    let limit = match args.behind_proxy {
        true => PeerLimit::Proxy,
        false => PeerLimit::Clients,
    };
    serve(listener, service, limit, &end)?;
    Ok(Exit::Done)
}
