//! A witness as a service: requests over HTTP to the memory of the store (`spec/anchors.md`, "A
//! witness as a service").
//!
//! | file | owns |
//! |---|---|
//! | `http` | one request of HTTP/1.1 and its answer |
//! | `service` | the answer to each request |
//! | `server` | connections: their number and duration |

mod http;
mod server;
mod service;

pub(crate) use server::serve;
pub(crate) use service::Service;
