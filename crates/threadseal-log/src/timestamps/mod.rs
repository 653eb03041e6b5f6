//! Time stamps (RFC 3161): proof that some bytes existed no later than at some time, by an authority that one trusts.
//!
//! | file | owns |
//! |---|---|
//! | `asn1` | requests and responses as DER |
//! | `ecdsa` | the signatures that the crates of TLS leave out |
//! | `authority` | an authority's address and pinned roots |
//! | `response` | requests, and the verification of responses |
//! | `signed` | the signature, the certificate and its chain |
//! | `files` | the stamps beside a log |
//! | `client` | sending requests (feature `peer`) |

mod asn1;
mod authority;
#[cfg(feature = "peer")]
mod client;
mod ecdsa;
pub(crate) mod files;
#[cfg(test)]
pub(crate) mod openssl;
mod response;
mod signed;

pub use authority::{Authority, MAX_AUTHORITY_BYTES};
#[cfg(feature = "peer")]
pub use client::ask_for_stamp;
pub(crate) use files::first_covering;
pub use files::{JudgedStamp, KeptStamp};
pub use response::{
    MAX_TIMESTAMP_BYTES, Nonce, NotStamped, QUERY_CONTENT_TYPE, TimeStamp, request, verify,
};
