//! A time-stamping authority for tests, made and run by the `openssl` command. Tests of other crates include this file, too.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a certificate for time stamps has.
pub(crate) const FIT: &str =
    "extendedKeyUsage=critical,timeStamping\nbasicConstraints=critical,CA:FALSE\n";

/// A root, a certificate that it signed, and where both are.
#[derive(Debug)]
pub(crate) struct OpenSsl {
    pub(crate) folder: PathBuf,
}

impl OpenSsl {
    /// An authority in `folder` with a key of this kind (`rsa:2048`, `P-256`, …), signing with `digest`; `extensions` are
    /// those of its certificate.
    pub(crate) fn new(folder: &Path, key: &str, digest: &str, extensions: &str) -> Self {
        let own = Self {
            folder: folder.to_owned(),
        };
        fs::create_dir_all(folder).unwrap();
        let root = "-x509 -days 3650 -subj /CN=root -addext keyUsage=critical,keyCertSign";
        own.request("root", key, root);
        own.request("tsa", key, "-subj /CN=tsa");
        own.issue("root", "tsa", extensions);
        fs::write(folder.join("serial"), "01\n").unwrap();
        let config = format!(
            "[tsa]\ndefault_tsa = it\n[it]\nserial = {}\ncrypto_device = builtin\ndefault_policy = 1.2.3.4.1\n\
             digests = sha256\nsigner_digest = {digest}\naccuracy = secs:1, millisecs:500\ness_cert_id_alg = sha256\n",
            folder.join("serial").display()
        );
        fs::write(folder.join("ts.cnf"), config).unwrap();
        own
    }

    /// A key and, with it, a request for a certificate or a self-signed certificate.
    pub(crate) fn request(&self, name: &str, key: &str, more: &str) {
        let how = match key.strip_prefix("P-") {
            Some(_) => format!("-newkey ec -pkeyopt ec_paramgen_curve:{key}"),
            None => format!("-newkey {key}"),
        };
        self.run(&format!(
            "req {how} -nodes -keyout {name}.key -out {name}.pem {more}"
        ));
    }

    /// Lets `issuer` sign the certificate of `name`, which was only asked for until now.
    pub(crate) fn issue(&self, issuer: &str, name: &str, extensions: &str) {
        self.issue_by("sha256", issuer, name, extensions);
    }

    /// The same with another digest function under the signature.
    pub(crate) fn issue_by(&self, digest: &str, issuer: &str, name: &str, extensions: &str) {
        fs::write(self.folder.join("extensions"), extensions).unwrap();
        fs::rename(
            self.folder.join(format!("{name}.pem")),
            self.folder.join("asked"),
        )
        .unwrap();
        self.run(&format!(
            "x509 -req -{digest} -in asked -CA {issuer}.pem -CAkey {issuer}.key -set_serial 2 -days 30 -extfile extensions -out {name}.pem"
        ));
    }

    /// The root in PEM.
    pub(crate) fn root(&self) -> Vec<u8> {
        fs::read(self.folder.join("root.pem")).unwrap()
    }

    /// What the authority answers to a request.
    pub(crate) fn reply(&self, request: &[u8]) -> Vec<u8> {
        fs::write(self.folder.join("query"), request).unwrap();
        let chain = match self.folder.join("between.pem").exists() {
            true => "-chain between.pem",
            false => "",
        };
        self.run(&format!(
            "ts -reply -config ts.cnf -queryfile query -signer tsa.pem -inkey tsa.key {chain} -out reply"
        ));
        fs::read(self.folder.join("reply")).unwrap()
    }

    /// Whether the command itself takes the response for a stamp of `message`.
    pub(crate) fn takes(&self, message: &[u8], response: &[u8]) -> bool {
        fs::write(self.folder.join("message"), message).unwrap();
        fs::write(self.folder.join("response"), response).unwrap();
        let arguments = "ts -verify -data message -in response -CAfile root.pem";
        self.command(arguments).output().unwrap().status.success()
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new("openssl");
        command
            .args(arguments.split_ascii_whitespace())
            .current_dir(&self.folder);
        command
    }

    /// Runs the command where the files are.
    pub(crate) fn run(&self, arguments: &str) {
        let ran = self.command(arguments).output().expect("openssl");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "openssl {arguments}: {said}");
    }
}
