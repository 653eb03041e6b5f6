//! A program that links the library prints the JSON that the command prints.

use crate::prelude::*;
use threadseal_verify::home_log::HomeLog;
use threadseal_verify::notices::Silent;
use threadseal_verify::trust_locality::Locality;
use threadseal_verify::trust_sources::TrustSources;
use threadseal_verify::{Verifier, VerifyRequest, hosts};

/// Trusts the testkit's key of seed `01` × 32.
const TRUST: &str = "\
version = 1

[[key]]
name = \"testkit\"
key = \"8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c\"
usage = [\"native\", \"scroll\"]
";

/// The lines of `examples/verify.rs`.
fn library(trust: &Path, paths: &[PathBuf]) -> Vec<u8> {
    let host = hosts::without_home();
    let locality = Locality::to(paths, false, &host.fs);
    let sources = TrustSources::without_home(&host.fs, &Silent);
    let trust = sources.gather(&[trust.to_owned()], &[], &locality).unwrap();
    let now = host.clock.now().unwrap();
    let verifier = Verifier::new(VerifyRequest::by(trust), host, HomeLog::Never, now);
    verifier.verify_all(paths.to_vec()).unwrap().to_json()
}

#[test]
fn a_program_prints_what_the_command_prints_for_every_file_of_the_testkit() {
    let sandbox = Sandbox::new();
    let trust = sandbox.write("trust.toml", TRUST);
    let testkit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testkit");
    let testkit = testkit.canonicalize().unwrap();
    let mut folders: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
    for file in walk(&testkit).into_iter().filter(|path| path.is_file()) {
        let folder = file.parent().unwrap().to_owned();
        folders.entry(folder).or_default().push(file);
    }
    let mut compared = 0;
    for files in folders.values() {
        let mut arguments = vec!["verify".into(), "--json".into(), "--trust".into()];
        arguments.push(trust.clone().into_os_string());
        arguments.extend(files.iter().map(|file| file.clone().into_os_string()));
        let ran = sandbox.run(arguments);
        let expected = String::from_utf8(library(&trust, files)).unwrap();
        assert_eq!(ran.stdout.trim_end(), expected.trim_end(), "{files:?}");
        compared += files.len();
    }
    assert!(compared > 700, "{compared} files");
}
