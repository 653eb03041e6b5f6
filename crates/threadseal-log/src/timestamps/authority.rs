//! Who is asked for stamps, and whose certificates count for it.
//!
//! ```text
//! threadseal/1 time-stamping authority LF
//! <address, http or https> LF
//! <certificates in PEM>                     the pinned roots, 1 to 16
//! ```

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use threadseal_core::error::Error;
use webpki::anchor_from_trusted_cert;

/// Largest such file in bytes.
pub const MAX_AUTHORITY_BYTES: usize = 256 << 10;
const MAX_ROOTS: usize = 16;
const MAX_URL_BYTES: usize = 2048;
const FIRST_LINE: &str = "threadseal/1 time-stamping authority";

/// A time-stamping authority as one trusts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    url: String,
    pem: String,
    roots: Vec<CertificateDer<'static>>,
}

impl Authority {
    /// The authority at `url` whose certificates lead to those in `pem`.
    ///
    /// # Errors
    /// Kind `InvalidInput` when the address is none of HTTP, or `pem` holds no certificates that can be roots.
    pub fn new(url: &str, pem: &[u8]) -> Result<Self, Error> {
        let rest = ["https://", "http://"]
            .iter()
            .find_map(|s| url.strip_prefix(s));
        let plain = url.len() <= MAX_URL_BYTES && url.bytes().all(|b| b.is_ascii_graphic());
        if !plain || rest.is_none_or(|rest| rest.is_empty() || rest.starts_with('/')) {
            return Err(Error::invalid(format!("{url:?} is not an HTTP address")));
        }
        let pem = std::str::from_utf8(pem).map_err(|_| Error::invalid("the roots are not PEM"))?;
        let roots = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>();
        let roots =
            roots.map_err(|error| Error::invalid(format!("the roots are not PEM: {error}")))?;
        if roots.is_empty() || roots.len() > MAX_ROOTS {
            let text = format!(
                "there are {} certificates, not 1 to {MAX_ROOTS}",
                roots.len()
            );
            return Err(Error::invalid(text));
        }
        for root in &roots {
            anchor_from_trusted_cert(root)
                .map_err(|error| Error::invalid(format!("a root cannot be used: {error}")))?;
        }
        Ok(Self {
            url: url.to_owned(),
            pem: pem.to_owned(),
            roots,
        })
    }

    /// Reads what [`Authority::to_text`] wrote.
    ///
    /// # Errors
    /// Kind `InvalidInput` for anything else.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let lines = std::str::from_utf8(bytes).ok().and_then(|text| {
            let rest = text.strip_prefix(FIRST_LINE)?.strip_prefix('\n')?;
            rest.split_once('\n')
        });
        let (url, pem) = lines.ok_or_else(|| {
            Error::invalid(format!(
                "it does not begin with {FIRST_LINE:?} and an address"
            ))
        })?;
        Self::new(url, pem.as_bytes())
    }

    /// The text of its file.
    pub fn to_text(&self) -> String {
        format!("{FIRST_LINE}\n{}\n{}", self.url, self.pem)
    }

    /// Where it is asked.
    pub fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn roots(&self) -> &[CertificateDer<'static>] {
        &self.roots
    }
}
