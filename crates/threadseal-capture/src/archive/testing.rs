//! The scene of tests: a host whose agent writes logs, and its archive.

use super::*;
use crate::session::identify;
use std::time::Duration;
use threadseal_core::key::{KeyUsage, LocalSigner};
use threadseal_core::record::Head;
use threadseal_core::report::Verdict;
use threadseal_core::time::Timestamp;
use threadseal_formats::transcript::observed;
use threadseal_store::fault::FaultFs;
use threadseal_store::heads::MemoryHeadStore;
use threadseal_store::host::Host;
use threadseal_store::observer;
use threadseal_store::random::SeededRandom;
use threadseal_store::testing::{host, signer, trust};
use threadseal_verify::home_log::HomeLog;
use threadseal_verify::{Verifier, VerifyRequest};

pub(crate) const HOME: &str = "/home/ann/threadseal";
pub(crate) const LOG: &str = "/home/ann/logs/3f9c1a2e-0b1c-4d5e-8f60-718293a4b5c6.jsonl";
pub(crate) const COPY: &str = "/home/ann/logs/77b2c0aa-0b1c-4d5e-8f60-718293a4b5c6.jsonl";

/// The word that passes for a secret.
pub(crate) const WORD: &str = "hunter2-is-the-word";

/// Finds [`WORD`].
struct WordFinder;

impl Finder for WordFinder {
    fn rule_for(&self, line: &[u8]) -> Result<Option<String>, Error> {
        let found = memchr::memmem::find(line, WORD.as_bytes());
        Ok(found.map(|_| "test word".to_owned()))
    }
}

/// A host whose agent writes logs, and its archive.
pub(crate) struct Bench {
    pub(crate) disk: FaultFs,
    pub(crate) host: Host,
    pub(crate) signer: LocalSigner,
    pub(crate) secret: Option<Secret>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::on(FaultFs::new())
    }

    pub(crate) fn on(disk: FaultFs) -> Self {
        for folder in [HOME, "/home/ann/logs"] {
            atomic::create_directories(&disk, Path::new(folder), 0o700).unwrap();
        }
        Self {
            host: host(disk.shared(), MemoryHeadStore::default()),
            signer: signer(3, KeyUsage::Observed),
            secret: None,
            disk,
        }
    }

    /// The same host with a copy of its disk.
    pub(crate) fn copy(&self) -> Self {
        let disk = self.disk.copy();
        Self {
            host: Host {
                fs: disk.shared(),
                ..self.host.clone()
            },
            signer: signer(3, KeyUsage::Observed),
            secret: self.secret.clone(),
            disk,
        }
    }

    pub(crate) fn encrypted() -> Self {
        let secret = Secret::from_seed(&[7; 32]);
        let bench = Self {
            secret: Some(secret.clone()),
            ..Self::new()
        };
        let settings = Settings {
            encrypted: true,
            ..Settings::default()
        };
        bench.archive().set(settings, Some(secret)).unwrap();
        bench
    }

    pub(crate) fn archive(&self) -> Archive {
        self.try_archive().unwrap()
    }

    pub(crate) fn try_archive(&self) -> Result<Archive, Error> {
        let effects = Effects {
            fs: self.disk.shared(),
            clock: Arc::clone(&self.host.clock),
            random: Arc::new(SeededRandom::new(self.disk.calls() as u64)),
        };
        Archive::open(effects, Path::new(HOME), self.secret.clone())
    }

    pub(crate) fn write(&self, path: &str, text: &[u8]) {
        self.put(Path::new(path), text);
    }

    pub(crate) fn put(&self, path: &Path, bytes: &[u8]) {
        if self.disk.set_bytes(path, bytes).is_err() {
            atomic::create_new(&self.disk, path, bytes, 0o600).unwrap();
        }
    }

    pub(crate) fn file(&self, path: &str) -> SessionFile {
        let head = self.disk.bytes_of(Path::new(path)).unwrap();
        identify(Path::new(path), &head, &[]).unwrap()
    }

    pub(crate) fn seal(&self, path: &str) {
        let (host, path, wait) = (&self.host, Path::new(path), Duration::ZERO);
        observer::seal(host, path, false, wait, &self.signer, &|_| {}).unwrap();
    }

    pub(crate) fn keep(&self, path: &str) -> Result<Kept, Error> {
        self.keep_as(&self.file(path), path)
    }

    pub(crate) fn keep_as(&self, file: &SessionFile, path: &str) -> Result<Kept, Error> {
        let path = Path::new(path);
        let seals = observer::read_seals(&self.host, path)?.unwrap();
        let read = observed::parse(&seals).unwrap();
        let sealed = SealedLog {
            path,
            head: read.last().unwrap().head,
            seals: &seals[..usize::try_from(read.sealed_bytes).unwrap()],
            recall: false,
            search: Some(Search {
                finder: &WordFinder,
                signer: &self.signer,
                by: "self-observed",
            }),
        };
        self.try_archive()?.keep(file, &sealed)
    }

    /// The agent writes a log, it is sealed and archived.
    pub(crate) fn keep_text(&self, path: &str, text: &[u8]) -> Kept {
        self.write(path, text);
        self.seal(path);
        self.keep(path).unwrap()
    }

    pub(crate) fn verdict(&self, log: &ArchivedLog, version: &Version, state: &State) -> Verdict {
        self.verdict_as_of(log, version, state, None)
    }

    pub(crate) fn verdict_as_of(
        &self,
        log: &ArchivedLog,
        version: &Version,
        state: &State,
        as_of: Option<Head>,
    ) -> Verdict {
        let mut fs = ArchiveFs::new(&self.archive());
        let mounted = fs.mount(log, version, state);
        let host = Host {
            fs: Arc::new(fs),
            ..self.host.clone()
        };
        let now = Timestamp::from_micros(1 << 50).unwrap();
        let request = VerifyRequest {
            as_of,
            ..VerifyRequest::by(trust(&self.signer))
        };
        let verifier = Verifier::new(request, host, HomeLog::Never, now);
        let found = verifier.verify_path(&mounted.log);
        found.reports()[0].verdict
    }

    pub(crate) fn newest_verdict(&self, log: &ArchivedLog) -> Verdict {
        let newest = log.newest().unwrap();
        self.verdict(log, newest, &newest.last())
    }

    pub(crate) fn fsck(&self) -> FsckResult {
        self.archive().fsck(&mut |_| {}).unwrap()
    }

    pub(crate) fn text(&self, log: &ArchivedLog) -> Vec<u8> {
        self.archive().read(log, log.newest().unwrap(), 0).unwrap()
    }

    pub(crate) fn chunk_files(&self) -> usize {
        let chunks = Path::new(HOME).join("archive/chunks");
        let folders = list(&self.disk, &chunks).unwrap();
        let files = folders
            .iter()
            .map(|folder| list(&self.disk, &chunks.join(folder)).unwrap().len());
        files.sum()
    }
}

/// Lines of a session of Claude Code. Other words for another `seed`.
pub(crate) fn lines(seed: u64, count: usize) -> Vec<u8> {
    let random = SeededRandom::new(seed);
    let mut text = String::new();
    for number in 0..count {
        let words: Vec<String> = (0..40)
            .map(|_| format!("{:x}", random.next_u64()))
            .collect();
        let words = words.join(" ");
        text.push_str(&format!(
            "{{\"type\":\"user\",\"message\":{{\"role\":\"user\",\"content\":\"{words}\"}},\"uuid\":\"{number}\",\"parentUuid\":null,\"timestamp\":\"t\",\"cwd\":\"/p\",\"sessionId\":\"s\"}}\n"
        ));
    }
    text.into_bytes()
}
