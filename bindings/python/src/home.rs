//! The home of a user, whose signatures count, and the keys that seal.

use crate::errors::raised;
use pyo3::prelude::{PyResult, Python, pyclass, pyfunction, pymethods};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use threadseal::core::trust::{TrustName, TrustedKey};
use threadseal::reader::given::{Given, trust_of};
use threadseal::store::heads::HeadStore;
use threadseal::store::home;
use threadseal::{
    Error, KeyUsage, LocalSigner, OpenedHome, PrivateKey, PublicKey, TrustStore, Writer,
};

/// Where the home is by default, from these variables of the environment.
#[pyfunction]
#[pyo3(signature = (threadseal_home, xdg_data_home, home))]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 gives values")]
pub(crate) fn default_home(
    py: Python<'_>,
    threadseal_home: Option<OsString>,
    xdg_data_home: Option<OsString>,
    home: Option<OsString>,
) -> PyResult<PathBuf> {
    let path = home::default_path(
        threadseal_home.as_deref(),
        xdg_data_home.as_deref(),
        home.as_deref(),
    );
    path.map_err(|error| raised(py, &error))
}

/// A home that `threadseal init` made, or none.
#[pyclass(frozen, module = "threadseal._native")]
pub(crate) struct Home(pub(crate) OpenedHome);

#[pymethods]
impl Home {
    /// The home at `path`; `marks` are the folders where its log may have its second place.
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 gives values")]
    fn new(py: Python<'_>, path: PathBuf, marks: Vec<PathBuf>) -> PyResult<Self> {
        let opened = py.detach(|| OpenedHome::open(&path, &marks));
        opened.map(Self).map_err(|error| raised(py, &error))
    }

    /// No home: no head is known, no key trusted.
    #[staticmethod]
    fn none() -> Self {
        Self(OpenedHome::none())
    }
}

/// Whose signatures count.
#[pyclass(frozen, module = "threadseal._native")]
pub(crate) struct Trust(pub(crate) threadseal::Trust);

#[pymethods]
impl Trust {
    /// The trust of `home`; or what `sources` name instead; and `keys` alone where any are named.
    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 gives values")]
    fn of_home(
        py: Python<'_>,
        home: &Home,
        sources: Vec<PathBuf>,
        keys: Vec<String>,
    ) -> PyResult<Self> {
        let trust = py.detach(|| home.0.trust_in(&sources, &keys));
        trust.map(Self).map_err(|error| raised(py, &error))
    }

    /// What these files and texts give, (name, bytes) each, and nothing else: no home is asked.
    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 gives values")]
    fn of_bytes(
        py: Python<'_>,
        trusted: Vec<(String, Vec<u8>)>,
        for_usages: Vec<(String, String)>,
        pinned: Vec<Vec<u8>>,
    ) -> PyResult<Self> {
        let gathered = gather(&trusted, &for_usages, &pinned);
        gathered.map(Self).map_err(|error| raised(py, &error))
    }
}

fn known_in(heads: &dyn HeadStore, folder: &Path) -> Result<Vec<(PathBuf, String)>, Error> {
    let is_in = |place: &str| Path::new(place).parent() == Some(folder);
    let records = heads.records_in(&|places| places.iter().any(|place| is_in(place)))?;
    let mut found = Vec::new();
    for record in records {
        let Some(stored) = heads.fetch(&record)? else {
            continue;
        };
        let place = stored.path_hint.filter(|place| is_in(place));
        found.extend(
            place
                .map(PathBuf::from)
                .zip(stored.thread.map(|thread| thread.to_string())),
        );
    }
    Ok(found)
}

fn gather(
    trusted: &[(String, Vec<u8>)],
    for_usages: &[(String, String)],
    pinned: &[Vec<u8>],
) -> Result<threadseal::Trust, Error> {
    let mut store = TrustStore::new();
    for (at, (usage, key)) in for_usages.iter().enumerate() {
        let usage = KeyUsage::parse(usage)
            .ok_or_else(|| Error::invalid(format!("there is no use of keys {usage:?}")))?;
        let name = TrustName::parse(&format!("key-{at}"))?;
        store.add(TrustedKey::new(name, PublicKey::parse_any(key)?, [usage]))?;
    }
    let given = |(name, bytes): &'_ (String, Vec<u8>)| (name.clone(), bytes.clone());
    let trusted: Vec<(String, Vec<u8>)> = trusted.iter().map(given).collect();
    let trusted: Vec<Given<'_>> = trusted
        .iter()
        .map(|(name, bytes)| Given { name, bytes })
        .collect();
    let pinned: Vec<Given<'_>> = pinned
        .iter()
        .map(|bytes| Given { name: "", bytes })
        .collect();
    trust_of(store, &trusted, &pinned)
}

/// The keys of a person or machine, which seal.
#[pyclass(frozen, module = "threadseal._native")]
pub(crate) struct Identity(pub(crate) Writer);

#[pymethods]
impl Identity {
    /// The key `name` of a home, by default the one that `threadseal init` made.
    #[staticmethod]
    fn of_home(
        py: Python<'_>,
        home: &Home,
        name: Option<&str>,
        passphrase: Option<&str>,
    ) -> PyResult<Self> {
        let writer = py.detach(|| home.0.writer(name, passphrase));
        writer.map(Self).map_err(|error| raised(py, &error))
    }

    /// Keys from PEM texts; heads of records are kept in the folder `heads`.
    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 gives values")]
    fn of_keys(py: Python<'_>, native: &str, rye: &str, heads: PathBuf) -> PyResult<Self> {
        let signer =
            |pem: &str, usage| Ok::<_, Error>(LocalSigner::new(PrivateKey::from_pem(pem)?, usage));
        let made = signer(native, KeyUsage::Native)
            .and_then(|native| Ok((native, signer(rye, KeyUsage::Rye)?)))
            .and_then(|(native, rye)| Writer::new(native, rye, &heads));
        made.map(Self).map_err(|error| raised(py, &error))
    }

    /// Keys that anyone who has the seed has too: for examples and tests.
    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 gives values")]
    fn danger_with_seed(py: Python<'_>, seed: [u8; 32], folder: PathBuf) -> PyResult<Self> {
        let made = Writer::danger_with_seed(seed, &folder);
        made.map(Self).map_err(|error| raised(py, &error))
    }

    /// The public key that seals, 64 hex digits.
    #[getter]
    fn public_key(&self) -> String {
        self.0.public_key().to_hex()
    }

    /// The same as did:key.
    #[getter]
    fn did(&self) -> String {
        self.0.public_key().to_did_key()
    }

    /// Its id, 64 hex digits.
    #[getter]
    fn key_id(&self) -> String {
        self.0.public_key().key_id().to_hex()
    }

    /// The last head that is known here of a record at `path`, an absolute path.
    fn known_at(&self, py: Python<'_>, path: &str) -> PyResult<Option<String>> {
        let kind = threadseal::core::record::RecordKind::Transcript;
        let known = py.detach(|| self.0.host().heads.find_by_place(kind, path));
        let known = known.map_err(|error| raised(py, &error))?;
        Ok(known.map(|stored| stored.head.to_string()))
    }

    /// The records, as (path, thread), that are known here and lie in `folder`, an absolute path.
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 gives values")]
    fn known_in(&self, py: Python<'_>, folder: PathBuf) -> PyResult<Vec<(PathBuf, String)>> {
        let found = py.detach(|| known_in(&*self.0.host().heads, &folder));
        found.map_err(|error| raised(py, &error))
    }

    /// The ids of this key and of those that it replaced in its home.
    fn own_key_ids(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let earlier = py.detach(|| self.0.home().map_or(Ok(Vec::new()), OpenedHome::own_keys));
        let mut ids: Vec<String> = earlier
            .map_err(|error| raised(py, &error))?
            .iter()
            .map(|key| key.key_id().to_hex())
            .collect();
        ids.push(self.key_id());
        Ok(ids)
    }

    /// Trust in this key alone.
    #[getter]
    fn trust(&self) -> Trust {
        Trust(threadseal::Trust::key(self.0.public_key()))
    }

    /// The home whose keys these are; none for other keys.
    #[getter]
    fn home(&self) -> Option<Home> {
        self.0.home().cloned().map(Home)
    }
}
