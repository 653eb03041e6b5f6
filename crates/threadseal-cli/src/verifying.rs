//! How a command makes a verifier: the options, the host, the trust, and the notices to the user.

use crate::context::Context;
use crate::exit::Failure;
#[cfg(all(feature = "agent", feature = "cloud"))]
use crate::fleet::Databases;
use crate::progress::Bar;
use crate::record;
use crate::trust_file;
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::key::PublicKey;
use threadseal_core::report::Report;
use threadseal_core::time::Timestamp;
use threadseal_core::trust::Trust;
use threadseal_store::home::Home;
use threadseal_verify::request::{RequestedProfile, ScrollRequest, VerifyRequest};
use threadseal_verify::trust_locality::Locality;
use threadseal_verify::trust_sources::{self, TrustSources};
use threadseal_verify::verifier::Verifier;
use threadseal_verify::{Need, OpenError, VerifiedRecord};

/// `--profile`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileArg {
    /// Every signature; parts without cover count against the record
    Auto,
    /// ThreadSeal's own seals
    Native,
    /// Rye's signatures, with Rye's coverage
    Rye,
    /// The seal file of a log
    Observed,
    /// agent-scroll's own seals, with the coverage of v0.1
    #[value(name = "scroll-v0.1")]
    ScrollV01,
}

impl From<ProfileArg> for RequestedProfile {
    fn from(profile: ProfileArg) -> Self {
        match profile {
            ProfileArg::Auto => Self::Auto,
            ProfileArg::Native => Self::Native,
            ProfileArg::Rye => Self::Rye,
            ProfileArg::Observed => Self::Observed,
            ProfileArg::ScrollV01 => Self::ScrollV01,
        }
    }
}

/// What may be asked of scrolls only.
#[derive(Debug, Args)]
pub(crate) struct ScrollArgs {
    /// Number of turns that a scroll must have; only for scrolls
    #[arg(long, value_name = "N")]
    pub(crate) expect_length: Option<u64>,
    /// Refuse signed turns that claim to be older: 90s, 15m, 12h, 30d; only for scrolls
    #[arg(long, value_name = "DUR", value_parser = duration_ns)]
    max_age: Option<u64>,
    /// Present time for --max-age: 2026-01-31T12:00:00Z [default: now]
    #[arg(long, value_name = "TIME", value_parser = moment, requires = "max_age")]
    now: Option<Timestamp>,
    /// Hold the last digits of a turn's timestamp, which no hash covers, against a scroll as those
    /// of any other number
    #[arg(long)]
    strict_digits: bool,
}

impl ScrollArgs {
    /// The question; its moments are counted from the clock where no other is named.
    ///
    /// # Errors
    /// When the clock is out of range.
    pub(crate) fn request(&self, context: &Context) -> Result<ScrollRequest, Failure> {
        let now = match self.now {
            Some(now) => now,
            None => context.now()?,
        };
        let now_ns = now.as_micros().saturating_mul(1000);
        Ok(ScrollRequest {
            length: self.expect_length,
            not_before_ns: self.max_age.map(|age| now_ns.saturating_sub(age)),
            strict_digits: self.strict_digits,
        })
    }
}

/// Identities that count in one run.
#[derive(Debug, Args)]
pub(crate) struct IdArgs {
    /// Trust this identity instead of the home's trust store, each of its keys for its own usage: its
    /// file (id export), or the name of an imported one; repeatable
    #[arg(long = "id", value_name = "FILE|NAME")]
    ids: Vec<PathBuf>,
}

impl IdArgs {
    /// The sources of `--trust`, and the identities.
    pub(crate) fn and(&self, trust: &[PathBuf]) -> Vec<PathBuf> {
        self.ids.iter().chain(trust).cloned().collect()
    }
}

/// A verifier of this host for `request`; `bar` shows what it reads.
///
/// # Errors
/// When the home must not be trusted, or the clock is out of range.
pub(crate) fn verifier(
    request: VerifyRequest,
    bar: &Bar,
    context: &Context,
) -> Result<Verifier, Failure> {
    let (host, log) = context.reading_host()?;
    let tombstones = context.home()?.map(|home| home.tombstones());
    let verifier = Verifier::new(request, host, log, context.now()?);
    #[cfg(all(feature = "agent", feature = "cloud"))]
    let verifier = verifier.with_databases(Arc::new(Databases));
    Ok(verifier
        .with_stores(record::stores())
        .with_tombstones(tombstones)
        .with_progress(Arc::new(bar.clone())))
}

/// A verifier that asks nothing but whose signatures count.
///
/// # Errors
/// As [`verifier`].
pub(crate) fn verifier_by(trust: Trust, context: &Context) -> Result<Verifier, Failure> {
    verifier(VerifyRequest::by(trust), &Bar::hidden(), context)
}

/// The same by the trust of the home.
///
/// # Errors
/// As [`gather`] and [`verifier`].
pub(crate) fn verifier_of_home(context: &Context) -> Result<Verifier, Failure> {
    let locality = Locality::to(&[], false, &context.fs);
    verifier_by(gather(&[], &[], &locality, context)?, context)
}

/// The transcript at `path`, if its verdict by the home's trust allows `need`; else the report.
///
/// # Errors
/// When there is no verdict.
pub(crate) fn open(
    path: &Path,
    need: Need,
    context: &Context,
) -> Result<Result<VerifiedRecord, Box<Report>>, Failure> {
    opened(verifier_of_home(context)?.open_verified(path, need))
}

/// The same of what was opened.
///
/// # Errors
/// When there is no verdict.
pub(crate) fn opened(
    opened: Result<VerifiedRecord, OpenError>,
) -> Result<Result<VerifiedRecord, Box<Report>>, Failure> {
    match opened {
        Ok(record) => Ok(Ok(record)),
        Err(OpenError::NotVerified(report)) => Ok(Err(report)),
        Err(OpenError::Failed(error)) => Err(error.into()),
    }
}

/// The trust for one run of a verifying command.
///
/// # Errors
/// When something named cannot be read, or `locality` does not admit it.
pub(crate) fn gather(
    sources: &[PathBuf],
    keys: &[String],
    locality: &Locality,
    context: &Context,
) -> Result<Trust, Failure> {
    let home = context.home()?;
    let log = || Ok(context.reading_host()?.1);
    let sources_of = TrustSources {
        fs: &context.fs,
        home: home.as_ref(),
        log: &log,
        notices: context,
    };
    Ok(sources_of.gather(sources, keys, locality)?)
}

/// The same also where nothing names a home.
///
/// # Errors
/// As [`gather`].
pub(crate) fn gather_anywhere(
    sources: &[PathBuf],
    keys: &[String],
    locality: &Locality,
    context: &Context,
) -> Result<Trust, Failure> {
    let home = context.home_where_named()?;
    let log = || Ok(context.reading_host()?.1);
    let sources_of = TrustSources {
        fs: &context.fs,
        home: home.as_ref(),
        log: &log,
        notices: context,
    };
    Ok(sources_of.gather(sources, keys, locality)?)
}

/// A public key as people give it, for another use than verifying.
///
/// # Errors
/// When it is none.
pub(crate) fn public_key(text: &str, context: &Context) -> Result<PublicKey, Failure> {
    let home = context.home()?;
    let log = || Ok(context.reading_host()?.1);
    let sources = TrustSources {
        fs: &context.fs,
        home: home.as_ref(),
        log: &log,
        notices: context,
    };
    Ok(sources.public_key(text)?)
}

/// The key that 64 hex digits name: itself, or one that the home trusts or has by its id. None where the text is no such digits.
///
/// # Errors
/// When a key file or the trust store cannot be read, or the digits are the id of an unknown key.
pub(crate) fn key_of_digits(
    text: &str,
    home: &Home,
    context: &Context,
) -> Result<Option<PublicKey>, Failure> {
    let log = || Ok(context.reading_host()?.1);
    let sources = TrustSources {
        fs: &context.fs,
        home: Some(home),
        log: &log,
        notices: context,
    };
    let pin = sources.of_digits(text, &trust_file::of_home(home)?)?;
    let key = pin.map(|pin| trust_sources::whole(&pin, Some(home)));
    Ok(key.transpose()?)
}

const NANOS: u64 = 1_000_000_000;

fn duration_ns(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a duration: write 90s, 15m, 12h or 30d");
    let split = text.len() - usize::from(text.ends_with(|c: char| c.is_ascii_alphabetic()));
    let (number, unit) = text.split_at(split);
    let seconds = match unit {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86400,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(seconds * NANOS).ok_or_else(wrong)
}

fn moment(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse_iso_seconds(text)
        .ok_or_else(|| format!("{text:?} is not a time: write 2026-01-31T12:00:00Z"))
}
