//! Addresses of object storage.
//!
//! ```text
//! s3://BUCKET[/PREFIX]           settings AWS_…      and others of the crate object_store for S3
//! gs://BUCKET[/PREFIX]                    GOOGLE_…
//! az://CONTAINER[/PREFIX]                 AZURE_…
//! object+file:FOLDER             files of a folder
//! ```
//! Settings are an argument, because only the command reads the environment. Without TLS (`http:`
//! in `AWS_ENDPOINT_URL`) only this machine is reached, unless `AWS_ALLOW_HTTP` is `true`.

use super::{Cloud, Folder, Objects};
use crate::sys::RealFs;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{ObjectStore, RetryConfig};
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use threadseal_core::error::Error;

/// Limits of the repeats of a request, before the caller gets the error.
const MAX_RETRIES: usize = 4;
const RETRY_TIMEOUT: Duration = Duration::from_secs(30);

/// Opens the storage at `url`, with `settings` as environments spell them (`AWS_REGION`, …). Names
/// that have no meaning for this storage are ignored.
///
/// # Errors
/// [`threadseal_core::error::ErrorKind::InvalidInput`] for an address or settings that cannot be
/// used; the message repeats no setting.
pub fn open(url: &str, settings: &[(String, String)]) -> Result<Arc<dyn Objects>, Error> {
    if let Some(folder) = url.strip_prefix("object+file:") {
        return Ok(Arc::new(Folder::new(RealFs::shared(), folder)));
    }
    let unusable = || {
        let text = "object storage has an address like s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, \
                    az://CONTAINER/PREFIX or object+file:FOLDER";
        Error::invalid(text)
    };
    let (scheme, rest) = url.split_once("://").ok_or_else(unusable)?;
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    if bucket.is_empty() || rest.contains(['?', '#', '@']) {
        return Err(unusable());
    }
    install_tls();
    let store: Arc<dyn ObjectStore> = match scheme {
        "s3" => Arc::new(s3(bucket, settings)?),
        "gs" => {
            let builder = GoogleCloudStorageBuilder::new().with_bucket_name(bucket);
            let known = known::<GoogleConfigKey>(settings, "GOOGLE_");
            let builder = known.fold(builder, |b, (key, value)| b.with_config(key, value));
            Arc::new(
                builder
                    .with_retry(retry())
                    .build()
                    .map_err(|error| unfit(&error))?,
            )
        }
        "az" => {
            let builder = MicrosoftAzureBuilder::new().with_container_name(bucket);
            let known = known::<AzureConfigKey>(settings, "AZURE_");
            let builder = known.fold(builder, |b, (key, value)| b.with_config(key, value));
            Arc::new(
                builder
                    .with_retry(retry())
                    .build()
                    .map_err(|error| unfit(&error))?,
            )
        }
        _ => return Err(unusable()),
    };
    Ok(Arc::new(Cloud::new(store, prefix)))
}

fn s3(bucket: &str, settings: &[(String, String)]) -> Result<object_store::aws::AmazonS3, Error> {
    let setting = |name: &str| {
        let found = settings.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    };
    let endpoint = setting("AWS_ENDPOINT_URL_S3").or_else(|| setting("AWS_ENDPOINT_URL"));
    let allowed = setting("AWS_ALLOW_HTTP").is_some_and(|value| value == "true");
    let is_plain = endpoint.is_some_and(|url| url.starts_with("http://"));
    if is_plain && !allowed && !endpoint.is_some_and(is_this_machine) {
        return Err(Error::invalid(
            "AWS_ENDPOINT_URL has no TLS and is not on this machine; set AWS_ALLOW_HTTP=true if \
             every host in between may read and change records",
        ));
    }
    let builder = AmazonS3Builder::new().with_bucket_name(bucket);
    let known = known::<AmazonS3ConfigKey>(settings, "AWS_");
    let builder = known.fold(builder, |b, (key, value)| b.with_config(key, value));
    let builder = endpoint
        .into_iter()
        .fold(builder, AmazonS3Builder::with_endpoint);
    let builder = builder.with_allow_http(is_plain).with_retry(retry());
    builder.build().map_err(|error| unfit(&error))
}

/// The settings that this storage knows by name.
fn known<K: FromStr>(
    settings: &[(String, String)],
    prefix: &str,
) -> impl Iterator<Item = (K, String)> {
    settings
        .iter()
        .filter(move |(name, _)| name.starts_with(prefix))
        .filter_map(|(name, value)| Some((name.to_ascii_lowercase().parse().ok()?, value.clone())))
}

fn is_this_machine(url: &str) -> bool {
    let authority = url.trim_start_matches("http://").split('/').next();
    let authority = authority.unwrap_or_default();
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn retry() -> RetryConfig {
    RetryConfig {
        max_retries: MAX_RETRIES,
        retry_timeout: RETRY_TIMEOUT,
        ..RetryConfig::default()
    }
}

/// The HTTP client takes the provider of the process; one that is set already stays.
fn install_tls() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn unfit(error: &object_store::Error) -> Error {
    // The library's message names the setting that is missing or unreadable.
    Error::invalid(format!("the settings of the object storage: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(endpoint: &str, more: &[(&str, &str)]) -> Vec<(String, String)> {
        let all = [
            ("AWS_ENDPOINT_URL", endpoint),
            ("AWS_ACCESS_KEY_ID", "id"),
            ("AWS_SECRET_ACCESS_KEY", "secret word"),
        ];
        let all = all.iter().chain(more);
        all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    // T-STO-23
    #[test]
    fn only_this_machine_is_reached_without_tls_unless_it_is_allowed() {
        let opens = |endpoint: &str, more: &[(&str, &str)]| {
            open("s3://bucket/a/b", &settings(endpoint, more)).map(|objects| objects.place())
        };
        for here in [
            "http://127.0.0.1:5000",
            "http://localhost/x",
            "http://[::1]:9",
        ] {
            assert!(opens(here, &[]).is_ok(), "{here}");
        }
        for there in [
            "http://example.org",
            "http://127.0.0.1.example.org:80",
            "http://10.0.0.1",
        ] {
            let error = opens(there, &[]).unwrap_err().to_string();
            assert!(error.contains("AWS_ALLOW_HTTP"), "{error}");
            assert!(opens(there, &[("AWS_ALLOW_HTTP", "true")]).is_ok());
        }
        assert!(opens("https://example.org", &[]).is_ok());
    }

    #[test]
    fn addresses_that_name_no_storage_are_refused_without_repeating_secrets() {
        for url in [
            "",
            "s3:",
            "s3://",
            "s3:///x",
            "ftp://b",
            "s3://key:secret@b",
            "s3://b?x=y",
        ] {
            let error = open(url, &[]).unwrap_err().to_string();
            assert!(error.contains("s3://BUCKET"), "{url}: {error}");
            assert!(!error.contains("secret"));
        }
    }
}
