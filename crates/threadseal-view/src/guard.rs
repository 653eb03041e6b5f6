//! Who may ask, and the policy of every answer.
//!
//! ```text
//! http://127.0.0.1:PORT/TOKEN/…
//! http://127.0.0.1:PORT/open/TICKET    leads there once: a browser's arguments are no secret
//! ```
//! A token in the path keeps other users and programs of the machine out, the name of the host a page that rebinds its
//! own name to this address, and the policy whatever a session may contain.

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use std::fmt;
use threadseal_core::digest::Digest;
use threadseal_core::encoding;

/// Nothing is loaded but from this origin; nothing runs but its modules and WebAssembly.
pub const POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; \
     img-src 'self' blob: data:; connect-src 'self'; worker-src 'self'; font-src 'self'; manifest-src 'none'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The headers of every answer.
const HEADERS: [(HeaderName, &str); 8] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
    // Sessions have secrets: no copy stays in the cache of a browser.
    (CACHE_CONTROL, "no-store"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    ),
];

/// The secret in the path of every address of a viewer: 32 hex digits.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Of 16 random bytes.
    pub fn new(random: [u8; 16]) -> Self {
        Self(encoding::hex(&random))
    }

    /// The path that all addresses of the viewer begin with: `/TOKEN/`.
    pub fn base(&self) -> String {
        format!("/{}/", self.0)
    }

    /// The rest of a path behind [`Token::base`]; `None` for another token. Digests are compared, so that the time
    /// that it takes gives nothing of the token away.
    pub fn strip<'p>(&self, path: &'p str) -> Option<&'p str> {
        let (token, rest) = path.strip_prefix('/')?.split_once('/')?;
        self.is(token).then_some(rest)
    }

    pub(crate) fn is(&self, given: &str) -> bool {
        Digest::of(given.as_bytes()) == Digest::of(self.0.as_bytes())
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// May this request be answered? `port` is that of the viewer.
///
/// # Errors
/// The status, and why not.
pub fn check(
    method: &Method,
    headers: &HeaderMap,
    port: u16,
) -> Result<(), (StatusCode, &'static str)> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Err((StatusCode::METHOD_NOT_ALLOWED, "the viewer only reads"));
    }
    let mut hosts = headers.get_all(HOST).iter();
    let is_ours = |host: &HeaderValue| {
        let names = ["127.0.0.1", "localhost", "[::1]"];
        let mut names = names.map(|name| format!("{name}:{port}")).into_iter();
        names.any(|name| host.as_bytes().eq_ignore_ascii_case(name.as_bytes()))
    };
    if !(hosts.next().is_some_and(is_ours) && hosts.next().is_none()) {
        return Err((
            StatusCode::MISDIRECTED_REQUEST,
            "this host is not the viewer's",
        ));
    }
    // A link to the viewer may be followed; another site's page gets no data.
    let fetch = |name: &str| headers.get(name).map(HeaderValue::as_bytes);
    let is_foreign =
        matches!(fetch("sec-fetch-site"), Some(site) if site != b"same-origin" && site != b"none");
    if is_foreign && fetch("sec-fetch-mode") != Some(b"navigate") {
        return Err((StatusCode::FORBIDDEN, "another site asks"));
    }
    Ok(())
}

/// Adds the headers of every answer.
pub fn protect(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    // T-VIEW-05
    #[test]
    fn only_this_machine_and_this_page_are_answered() {
        let ask = |pairs: &[(&'static str, &'static str)]| {
            check(&Method::GET, &headers(pairs), 7).is_ok()
        };
        for host in ["127.0.0.1:7", "localhost:7", "LOCALHOST:7", "[::1]:7"] {
            assert!(ask(&[("host", host)]), "{host}");
        }
        for host in [
            "evil.example:7",
            "127.0.0.1:8",
            "127.0.0.1",
            "127.0.0.1:7.evil.example",
            "",
        ] {
            assert!(!ask(&[("host", host)]), "{host}");
        }
        assert!(!ask(&[]));
        assert!(!ask(&[("host", "localhost:7"), ("host", "localhost:7")]));
        let site = |site, mode| {
            ask(&[
                ("host", "localhost:7"),
                ("sec-fetch-site", site),
                ("sec-fetch-mode", mode),
            ])
        };
        assert!(
            site("same-origin", "cors")
                && site("none", "navigate")
                && site("cross-site", "navigate")
        );
        assert!(
            !site("cross-site", "cors")
                && !site("same-site", "no-cors")
                && !site("cross-site", "websocket")
        );
        for method in [
            Method::POST,
            Method::PUT,
            Method::DELETE,
            Method::OPTIONS,
            Method::CONNECT,
        ] {
            assert!(
                check(&method, &headers(&[("host", "localhost:7")]), 7).is_err(),
                "{method}"
            );
        }
    }

    // T-VIEW-05
    #[test]
    fn an_address_needs_the_token() {
        let token = Token::new([7; 16]);
        let base = token.base();
        assert_eq!(token.strip(&format!("{base}api/x")), Some("api/x"));
        assert_eq!(token.strip(&base), Some(""));
        let upper = base.replace('7', "8");
        for path in ["/", "", "/api/x", base.trim_end_matches('/'), &upper, "//"] {
            assert_eq!(token.strip(path), None, "{path}");
        }
        assert!(!format!("{token:?}").contains("07"));
    }

    #[test]
    fn every_answer_has_the_policy() {
        let mut headers = HeaderMap::new();
        protect(&mut headers);
        let policy = headers[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(
            !policy.contains("unsafe-inline") && !policy.contains("'unsafe-eval'"),
            "{policy}"
        );
        assert!(
            !policy.contains("http:") && !policy.contains('*'),
            "{policy}"
        );
        assert_eq!(headers.len(), HEADERS.len());
    }
}
