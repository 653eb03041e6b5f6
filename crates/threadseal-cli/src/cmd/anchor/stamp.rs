//! Stamps of the log by time-stamping authorities: requested, kept, and judged again offline.

use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::render::clean::Clean;
use crate::render::text::entries;
use serde::Serialize;
use std::fmt;
use threadseal_log::timestamps::ask_for_stamp;
use threadseal_log::timestamps::{Authority, TimeStamp, request, verify};
use threadseal_log::{JudgedStamp, KeptStamp, LogView, SealLog};
use threadseal_store::random;

/// The most bad stamps that one authority's line lists.
const MAX_BAD_TOLD: usize = 4;

/// The last stamp of an authority.
#[derive(Debug, Serialize)]
pub(super) struct AuthorityOutput {
    name: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

impl AuthorityOutput {
    /// An authority whose file cannot be read.
    pub(super) fn unreadable(name: String, why: String) -> Self {
        Self::without_stamp(name, "unreadable", Some(why))
    }

    fn without_stamp(name: String, state: &'static str, why: Option<String>) -> Self {
        Self {
            name,
            state,
            size: None,
            time: None,
            why,
        }
    }

    pub(super) fn exit(&self) -> Exit {
        match self.state {
            "contradicted" => Exit::Evidence,
            "stamped" => Exit::Done,
            _ => Exit::Unconfirmed,
        }
    }
}

/// Gets a stamp on the present log, unless it has one or `offline` is set, and reports the last
/// stamp.
pub(super) fn check(
    log: &SealLog,
    view: &LogView,
    name: &str,
    authority: &Authority,
    offline: bool,
    context: &Context,
) -> Result<AuthorityOutput, Failure> {
    let known = last(log, view, name, authority)?;
    let size = view.tree().size;
    if offline || matches!(known.state, "stamped" | "contradicted") {
        return Ok(known);
    }
    let note = view.checkpoint();
    let message = note.to_string();
    let nonce = random::array(&context.random)?;
    let asked = ask_for_stamp(authority.url(), request(message.as_bytes(), nonce)?);
    let stamped = asked.and_then(|response| {
        let stamp = verify(&response, message.as_bytes(), authority, Some(nonce));
        let stamp = stamp.map_err(|error| error.to_string())?;
        Ok((stamp, response))
    });
    Ok(match stamped {
        Ok((stamp, response)) => {
            log.keep_timestamp(size, note, name, &response)?;
            told(name, "stamped", size, stamp)
        }
        Err(why) => AuthorityOutput {
            why: Some(why),
            ..known
        },
    })
}

/// The last stamp of each authority, if it has one.
pub(super) fn last_of_each(
    log: Option<&SealLog>,
    authorities: &[(String, Authority)],
) -> Result<Vec<Option<AuthorityOutput>>, Failure> {
    let Some(log) = log else {
        return Ok(authorities.iter().map(|_| None).collect());
    };
    let view = log.view()?;
    let last =
        |(name, authority): &(String, Authority)| last(log, &view, name, authority).map(Some);
    authorities.iter().map(last).collect()
}

/// The last good stamp among those that are kept. A stamp that the log does not continue takes
/// precedence.
fn last(
    log: &SealLog,
    view: &LogView,
    name: &str,
    authority: &Authority,
) -> Result<AuthorityOutput, Failure> {
    let mut good: Option<(KeptStamp, TimeStamp)> = None;
    let mut bad = Vec::new();
    for kept in log.timestamps()?.into_iter().rev() {
        if kept.authority != name {
            continue;
        }
        match log.judge_timestamp(&kept, authority, view) {
            JudgedStamp::Contradicts(stamp) => {
                let here = view.tree().size;
                let why = match kept.size > here {
                    true => format!(
                        "log_rolled_back: the log of this home has {}",
                        entries(here)
                    ),
                    false => "forked: the log of this home has another tree".to_owned(),
                };
                let told = told(name, "contradicted", kept.size, stamp);
                return Ok(AuthorityOutput {
                    why: Some(why),
                    ..told
                });
            }
            // Older stamps were judged when they were the newest, so the search ends here.
            JudgedStamp::Good(stamp) => {
                good = Some((kept, stamp));
                break;
            }
            JudgedStamp::Bad(why) => {
                bad.push(format!("the timestamp of {}: {why}", entries(kept.size)));
            }
        }
    }
    let more = bad.len().saturating_sub(MAX_BAD_TOLD);
    bad.truncate(MAX_BAD_TOLD);
    if more > 0 {
        bad.push(format!("and {more} more"));
    }
    let why = Some(bad.join("; ")).filter(|why| !why.is_empty());
    Ok(match good {
        Some((kept, stamp)) => {
            let state = match kept.size == view.tree().size {
                true => "stamped",
                false => "behind",
            };
            AuthorityOutput {
                why,
                ..told(name, state, kept.size, stamp)
            }
        }
        None => AuthorityOutput::without_stamp(name.to_owned(), "not_stamped", why),
    })
}

fn told(name: &str, state: &'static str, size: u64, stamp: TimeStamp) -> AuthorityOutput {
    AuthorityOutput {
        name: name.to_owned(),
        state,
        size: Some(size),
        time: Some(stamp.latest_second().to_iso_seconds()),
        why: None,
    }
}

impl fmt::Display for AuthorityOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {}", Clean(&self.name), self.state)?;
        if let (Some(size), Some(time)) = (self.size, &self.time) {
            write!(f, ": {}, no later than {time}", entries(size))?;
        }
        if let Some(why) = &self.why {
            write!(f, "; {}", Clean(why))?;
        }
        Ok(())
    }
}
