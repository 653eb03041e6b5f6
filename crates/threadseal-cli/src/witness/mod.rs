//! A witness as a service: requests over HTTP to what the store remembers (`spec/anchors.md`, "A witness as a service").
//!
//! | file | owns |
//! |---|---|
//! | `http` | one request of HTTP/1.1 and its answer |
//! | `service` | what is answered to what |
//! | `server` | connections: how many, how long |

mod http;
mod server;
mod service;

pub(crate) use server::serve;
pub(crate) use service::Service;
