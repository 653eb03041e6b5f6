//! What the modules of `threadseal.compat` need: signatures and spellings of other programs.

use crate::errors::raised;
use crate::verify::{text, thrown};
use pyo3::prelude::{PyResult, Python, pyfunction};
use threadseal::core::canon::{jcs, json};
use threadseal::core::digest::Digest;
use threadseal::core::encoding;
use threadseal::core::key::Message;
use threadseal::formats::scroll::{self, Turn};
use threadseal::{Error, KeyUsage, LocalSigner, PrivateKey, Signer as _};

/// Signs a SHA-256 as Rye does: the signature and the fingerprint of the key, which is PEM.
#[pyfunction]
pub(crate) fn rye_sign(
    py: Python<'_>,
    private_pem: &str,
    digest: &str,
) -> PyResult<(Vec<u8>, String)> {
    let signed = || {
        let key = PrivateKey::from_pem(private_pem)?;
        let digest = Digest::parse_hex(digest).ok_or_else(|| Error::invalid("it is no digest"))?;
        let signer = LocalSigner::new(key, KeyUsage::Rye);
        let signature = signer.sign(&Message::rye_hash(&digest))?;
        let fingerprint = signer.public_key().rye_fingerprint().to_hex();
        Ok((signature.as_bytes().to_vec(), fingerprint))
    };
    signed().map_err(|error: Error| raised(py, &error))
}

/// A new private key from the system's randomness and its public half: two PEM texts.
#[pyfunction]
pub(crate) fn new_key(py: Python<'_>) -> PyResult<(String, String)> {
    let random = threadseal::store::random::SystemRandom;
    let seed = threadseal::store::random::array(&random).map_err(|error| raised(py, &error))?;
    let key = PrivateKey::from_seed(seed);
    Ok((key.to_pem().to_string(), key.public_key().to_pem()))
}

/// The RFC 8785 text of a JSON text.
#[pyfunction]
pub(crate) fn jcs_text(py: Python<'_>, value: &[u8]) -> PyResult<Vec<u8>> {
    jcs::canonicalize(value).map_err(|error| raised(py, &error.into()))
}

/// Seals a turn, JSON, as agent-scroll does; `prev` is the hash of the turn before, `seed` the key.
#[pyfunction]
pub(crate) fn scroll_seal(
    py: Python<'_>,
    turn: &[u8],
    prev: Option<&str>,
    seed: Option<[u8; 32]>,
) -> PyResult<String> {
    py.detach(|| sealed(turn, prev, seed)).map_err(thrown)
}

fn sealed(turn: &[u8], prev: Option<&str>, seed: Option<[u8; 32]>) -> Result<String, Error> {
    let value = json::parse(turn).map_err(Error::from)?;
    let turn = Turn::from_value(value).map_err(|why| Error::invalid(why.to_string()))?;
    let prev = prev.map(|prev| {
        let digits = prev.strip_prefix("sha256:").unwrap_or(prev);
        Digest::parse_hex(digits).ok_or_else(|| Error::invalid("prev_hash is no digest"))
    });
    let key = seed.map(|seed| LocalSigner::new(PrivateKey::from_seed(seed), KeyUsage::Scroll));
    let signer = key.as_ref().map(|key| key as _);
    let sealed = scroll::seal(turn, prev.transpose()?, signer)?;
    Ok(text(sealed.canonical().to_vec()))
}

/// The raw public key of a seed, 64 hex digits.
#[pyfunction]
pub(crate) fn public_of_seed(seed: [u8; 32]) -> String {
    encoding::hex(PrivateKey::from_seed(seed).public_key().as_bytes())
}
