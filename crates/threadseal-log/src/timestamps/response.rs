//! Requests for time stamps, and the verification of responses (RFC 3161) without any network.
//!
//! ```text
//! message ─ SHA-256 ─► request ─► authority ─► response: TSTInfo { imprint, genTime, accuracy, nonce }, signed
//!                                                   │
//! pinned roots, message ─────────────────────► verify ─► TimeStamp: these bytes existed no later than then
//! ```
//! `spec/tlog.md`, "Time stamps", is normative. Requests are sent by `client`.

#[cfg(test)]
mod tests;

use crate::timestamps::asn1::{self, MessageImprint, TimeStampReq, TimeStampResp, TstInfo};
use crate::timestamps::authority::Authority;
use crate::timestamps::signed;
use der::Decode;
use der::asn1::{ObjectIdentifier, OctetString};
use std::fmt;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::time::Timestamp;
use x509_cert::spki::AlgorithmIdentifierOwned;

/// Largest response in bytes; with a chain of certificates they have some 6 KiB.
pub const MAX_TIMESTAMP_BYTES: usize = 64 << 10;
/// The type of a request's body (RFC 3161 §3.4).
pub const QUERY_CONTENT_TYPE: &str = "application/timestamp-query";

pub(crate) const SHA_256: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.1");

/// Random bytes of one request, which its response must repeat.
pub type Nonce = [u8; 8];

/// Proof that some bytes existed no later than at some time, by a trusted authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeStamp {
    time: Timestamp,
    latest: Timestamp,
}

impl TimeStamp {
    /// The time at which the authority saw the bytes.
    pub fn time(&self) -> Timestamp {
        self.time
    }

    /// Until when that may have been at the latest: its accuracy is added.
    pub fn latest(&self) -> Timestamp {
        self.latest
    }

    /// The first whole second that is not before [`TimeStamp::latest`].
    pub fn latest_second(&self) -> Timestamp {
        let floor = self.latest.floor_to_second();
        let next = Timestamp::from_micros(floor.as_micros() + 1_000_000);
        match floor == self.latest {
            true => floor,
            false => next.unwrap_or(self.latest),
        }
    }
}

/// Why a response stamps nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotStamped {
    /// It cannot be read as RFC 3161 writes responses; the part that could not.
    Malformed(&'static str),
    /// The authority did not grant the request.
    Refused {
        /// `PKIStatus`.
        status: u8,
        /// Its explanation.
        text: String,
    },
    /// It is about other bytes.
    OtherMessage,
    /// It answers another request.
    OtherNonce,
    /// Signature and content, or signature and certificate, do not fit.
    Forged(&'static str),
    /// The certificate does not serve for time stamps, or an algorithm is not known here.
    Unfit(String),
    /// No chain leads from the certificate to a pinned root at the time of the token.
    Untrusted(String),
}

impl fmt::Display for NotStamped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(what) => write!(f, "its answer has a bad {what}"),
            Self::Refused { status, text } if text.is_empty() => {
                write!(f, "the authority refused (status {status})")
            }
            Self::Refused { status, text } => {
                write!(f, "the authority refused (status {status}): {text}")
            }
            Self::OtherMessage => f.write_str("the stamp covers other bytes"),
            Self::OtherNonce => f.write_str("the stamp answers another request"),
            Self::Forged(why) => write!(f, "forged: {why}"),
            Self::Unfit(why) => f.write_str(why),
            Self::Untrusted(why) => {
                write!(
                    f,
                    "no chain leads to a pinned root at the time of the stamp: {why}"
                )
            }
        }
    }
}

impl std::error::Error for NotStamped {}

/// A request to stamp `message`, with the authority's certificates in the answer.
///
/// # Errors
/// None that these arguments can give.
pub fn request(message: &[u8], nonce: Nonce) -> Result<Vec<u8>, Error> {
    let odd = |error: der::Error| Error::invalid(format!("cannot write a request: {error}"));
    let request = TimeStampReq {
        version: 1,
        message_imprint: MessageImprint {
            hash_algorithm: AlgorithmIdentifierOwned {
                oid: SHA_256,
                parameters: None,
            },
            hashed_message: OctetString::new(Digest::of(message).as_bytes().as_slice())
                .map_err(odd)?,
        },
        nonce: asn1::unsigned(nonce).map_err(odd)?,
        cert_req: true,
    };
    asn1::to_der(&request).map_err(odd)
}

/// Verifies a response (`TimeStampResp`) as a stamp of `message`; with `nonce`, as the answer to that request.
///
/// # Errors
/// Why it stamps nothing.
pub fn verify(
    response: &[u8],
    message: &[u8],
    authority: &Authority,
    nonce: Option<Nonce>,
) -> Result<TimeStamp, NotStamped> {
    if response.len() > MAX_TIMESTAMP_BYTES {
        return Err(NotStamped::Malformed("length"));
    }
    let response =
        TimeStampResp::from_der(response).map_err(|_| NotStamped::Malformed("response"))?;
    // PKIStatus: 0 granted, 1 granted with modifications.
    if response.status.status > 1 {
        return Err(NotStamped::Refused {
            status: response.status.status,
            text: response.status.text(),
        });
    }
    let token = response.token.ok_or(NotStamped::Malformed("token"))?;
    let signed = signed::open(&token)?;
    let info = TstInfo::from_der(&signed.info).map_err(|_| NotStamped::Malformed("TSTInfo"))?;
    let extensions = info.extensions.iter().flatten();
    if info.version != 1 || extensions.into_iter().any(|extension| extension.critical) {
        return Err(NotStamped::Malformed("TSTInfo"));
    }
    let imprint = &info.message_imprint;
    if imprint.hash_algorithm.oid != SHA_256
        || imprint.hashed_message.as_bytes() != Digest::of(message).as_bytes()
    {
        return Err(NotStamped::OtherMessage);
    }
    if let Some(nonce) = nonce {
        let asked = asn1::unsigned(nonce).map_err(|_| NotStamped::OtherNonce)?;
        if info.nonce.as_ref() != Some(&asked) {
            return Err(NotStamped::OtherNonce);
        }
    }
    let time = info.time().ok_or(NotStamped::Malformed("time"))?;
    let accuracy = match &info.accuracy {
        None => Some(0),
        Some(accuracy) => accuracy.micros(),
    };
    let latest = accuracy.and_then(|micros| time.as_micros().checked_add(micros));
    let latest = latest.and_then(|micros| Timestamp::from_micros(micros).ok());
    let latest = latest.ok_or(NotStamped::Malformed("accuracy"))?;
    signed.check_chain(authority.roots(), time)?;
    Ok(TimeStamp { time, latest })
}
