//! Prints what `threadseal verify --json --trust TRUST PATH…` prints on a host without a home.

use std::io::Write as _;
use std::path::PathBuf;
use threadseal_verify::home_log::HomeLog;
use threadseal_verify::notices::Silent;
use threadseal_verify::trust_locality::Locality;
use threadseal_verify::trust_sources::TrustSources;
use threadseal_verify::{Verifier, VerifyRequest, hosts};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    let trusted = args.next().ok_or("name a trust file, then paths")?;
    let paths: Vec<PathBuf> = args.collect();
    let host = hosts::without_home();
    let locality = Locality::to(&paths, false, &host.fs);
    let trust = TrustSources::without_home(&host.fs, &Silent).gather(&[trusted], &[], &locality)?;
    let now = host.clock.now()?;
    let verifier = Verifier::new(VerifyRequest::by(trust), host, HomeLog::Never, now);
    std::io::stdout().write_all(&verifier.verify_all(paths)?.to_json())?;
    Ok(())
}
