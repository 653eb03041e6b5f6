//! `agent/coordination`: handoff, waiting, how strictly records are read.
//!
//! Each key may be at the top, under `coordination` or under `coordination.continuation`. The seed
//! documents the first; Rye ships the others, and reads `transcript_integrity` from a place where
//! its files lack it. The same key in two of these places with two values is an error.

use super::fields::header;
use crate::bounds::MAX_SETTING_SECONDS;
use crate::item::ItemId;
use crate::limit::Limits;
use crate::yaml::{Fields, Node};
use std::time::Duration;
use threadseal_core::error::Error;
use threadseal_formats::transcript::manifest::Bodies;

/// How threads hand over, wait and are read.
#[derive(Debug, Clone, PartialEq)]
pub struct Coordination {
    /// The share of a context window at which a thread hands over; above 0, at most 1.
    pub trigger_threshold: f64,
    /// Tokens of the predecessor's last messages that a successor gets at most.
    pub resume_ceiling_tokens: u64,
    /// The context window of a model that names none, in tokens.
    pub context_window: u64,
    /// The integrity that a transcript needs to be resumed.
    pub transcript_integrity: Integrity,
    /// Where new transcripts keep messages, calls and results.
    pub transcript_bodies: Bodies,
    /// Does a successor keep them outside its transcript if its predecessor did? Not where the
    /// caller chose.
    pub bodies_inherited: bool,
    /// How long `wait_threads` waits by default.
    pub wait_default: Duration,
    /// How long it waits at most.
    pub wait_max: Duration,
    /// The directive that summarises a thread, where a hook asks for it.
    pub summary_directive: Option<ItemId>,
    /// The class of models that does.
    pub summary_model: Option<String>,
    /// The limits of that thread.
    pub summary_limits: Limits,
    /// The length that a summary aims at, in tokens.
    pub summary_max_tokens: u64,
    /// Whether the program searches for threads whose process is gone.
    pub orphans: Orphans,
}

/// The integrity that a transcript needs to be resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Integrity {
    /// Verified to its last byte.
    Strict,
    /// Events after the last seal are taken too, marked as unverified.
    Lenient,
}

/// How the program searches for threads whose process is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Orphans {
    /// At all.
    pub enabled: bool,
    /// When the program starts.
    pub scan_on_startup: bool,
    /// After how long without a sign of life, where no process of this host is known.
    pub stale: Duration,
    /// What happens to those that are found.
    pub action: OrphanAction,
}

/// What happens to a thread whose process is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrphanAction {
    /// Its record gets an end.
    End,
    /// Its record gets an end, and another thread continues it.
    Resume,
    /// It is named, and stays as it is.
    Report,
}

impl Default for Coordination {
    /// The seed's values.
    fn default() -> Self {
        Self {
            trigger_threshold: 0.9,
            resume_ceiling_tokens: 16_000,
            context_window: 200_000,
            transcript_integrity: Integrity::Strict,
            transcript_bodies: Bodies::Inline,
            bodies_inherited: true,
            wait_default: Duration::from_secs(600),
            wait_max: Duration::from_secs(3600),
            summary_directive: None,
            summary_model: None,
            summary_limits: Limits::default(),
            summary_max_tokens: 4000,
            orphans: Orphans {
                enabled: true,
                scan_on_startup: true,
                stale: Duration::from_secs(3600),
                action: OrphanAction::End,
            },
        }
    }
}

impl Coordination {
    /// Applies a file's settings.
    ///
    /// # Errors
    /// With file and line, for an unknown key, a bad value, or one key with two values.
    pub fn overlay(&mut self, node: &Node) -> Result<(), Error> {
        if node.is_null() {
            return Ok(());
        }
        let mut scopes = Scopes::open(node)?;
        if let Some(node) = scopes.one("trigger_threshold")? {
            self.trigger_threshold = match node.number()? {
                share if share > 0.0 && share <= 1.0 => share,
                _ => return Err(node.error("`trigger_threshold` must be above 0 and at most 1")),
            };
        }
        for (key, slot) in [
            ("resume_ceiling_tokens", &mut self.resume_ceiling_tokens),
            ("context_window", &mut self.context_window),
            ("summary_max_tokens", &mut self.summary_max_tokens),
        ] {
            if let Some(node) = scopes.one(key)? {
                *slot = match node.whole()? {
                    0 => return Err(node.error(format!("`{key}` must be at least 1"))),
                    tokens => tokens,
                };
            }
        }
        if let Some(node) = scopes.one("transcript_integrity")? {
            self.transcript_integrity = match node.text()? {
                "strict" => Integrity::Strict,
                "lenient" => Integrity::Lenient,
                _ => return Err(node.error("`transcript_integrity` must be strict or lenient")),
            };
        }
        if let Some(node) = scopes.one("transcript_bodies")? {
            self.transcript_bodies = match node.text()? {
                "inline" => Bodies::Inline,
                "detached" => Bodies::Detached,
                _ => return Err(node.error("`transcript_bodies` must be inline or detached")),
            };
        }
        if let Some(node) = scopes.one("summary_directive")? {
            let id = ItemId::parse(node.text()?).map_err(|error| node.error(error))?;
            self.summary_directive = Some(id);
        }
        if let Some(node) = scopes.one("summary_model")? {
            self.summary_model = Some(node.text()?.to_owned());
        }
        if let Some(node) = scopes.one("summary_limit_overrides")? {
            let limits = Limits::from_json(&node.to_json());
            self.summary_limits = limits.map_err(|error| node.error(error))?;
        }
        self.waiting(&mut scopes)?;
        self.orphan_detection(&mut scopes)?;
        scopes.finish()
    }

    /// How long a wait takes that was asked for: never longer than `wait_threads.max_timeout`.
    pub fn wait(&self, asked: Option<Duration>) -> Duration {
        asked.unwrap_or(self.wait_default).min(self.wait_max)
    }

    fn waiting(&mut self, scopes: &mut Scopes<'_>) -> Result<(), Error> {
        for (key, slot) in [
            ("default_timeout", &mut self.wait_default),
            ("max_timeout", &mut self.wait_max),
        ] {
            if let Some(node) = scopes.nested("wait_threads", key)? {
                *slot = seconds(node)?;
            }
        }
        Ok(())
    }

    fn orphan_detection(&mut self, scopes: &mut Scopes<'_>) -> Result<(), Error> {
        for (key, slot) in [
            ("enabled", &mut self.orphans.enabled),
            ("scan_on_startup", &mut self.orphans.scan_on_startup),
        ] {
            if let Some(node) = scopes.nested("orphan_detection", key)? {
                *slot = node.bool()?;
            }
        }
        if let Some(node) = scopes.nested("orphan_detection", "action")? {
            self.orphans.action = match node.text()? {
                "end" => OrphanAction::End,
                "resume" => OrphanAction::Resume,
                "report" => OrphanAction::Report,
                _ => return Err(node.error("`action` must be end, resume or report")),
            };
        }
        if let Some(node) = scopes.nested("orphan_detection", "stale_threshold_minutes")? {
            let minutes = node.whole()?;
            let stale = minutes.checked_mul(60).map(Duration::from_secs);
            self.orphans.stale = stale.ok_or_else(|| node.error("too many minutes"))?;
        }
        Ok(())
    }
}

/// A number of seconds above 0, at most 30 days.
pub(super) fn seconds(node: &Node) -> Result<Duration, Error> {
    match node.number()? {
        number if number > 0.0 && number <= MAX_SETTING_SECONDS => {
            Ok(Duration::from_secs_f64(number))
        }
        _ => Err(node.error("the value must be a time in seconds, above 0 and at most 30 days")),
    }
}

/// The three places of a key.
struct Scopes<'a> {
    open: Vec<Fields<'a>>,
    /// Mappings within them, by name.
    inner: Vec<(&'static str, Fields<'a>)>,
}

impl<'a> Scopes<'a> {
    fn open(node: &'a Node) -> Result<Self, Error> {
        let mut top = node.fields()?;
        header(&mut top)?;
        let mut open = Vec::new();
        if let Some(node) = top.take("coordination") {
            let mut fields = node.fields()?;
            if let Some(node) = fields.take("continuation") {
                open.push(node.fields()?);
            }
            open.push(fields);
        }
        if let Some(node) = top.take("continuation") {
            open.push(node.fields()?);
        }
        open.push(top);
        let mut inner = Vec::new();
        for name in ["wait_threads", "orphan_detection"] {
            for fields in &mut open {
                if let Some(node) = fields.take(name) {
                    inner.push((name, node.fields()?));
                }
            }
        }
        Ok(Self { open, inner })
    }

    fn one(&mut self, key: &str) -> Result<Option<&'a Node>, Error> {
        let found = self.open.iter_mut().filter_map(|fields| fields.take(key));
        agreed(key, found.collect())
    }

    /// The key of a mapping; `mapping.key` may replace it.
    fn nested(&mut self, mapping: &str, key: &str) -> Result<Option<&'a Node>, Error> {
        let dotted = format!("{mapping}.{key}");
        let inner = self.inner.iter_mut();
        let inner = inner.filter(|(name, _)| *name == mapping);
        let mut found: Vec<&Node> = inner.filter_map(|(_, fields)| fields.take(key)).collect();
        let open = self.open.iter_mut();
        found.extend(open.filter_map(|fields| fields.take(&dotted)));
        agreed(&dotted, found)
    }

    fn finish(self) -> Result<(), Error> {
        for (name, fields) in self.inner {
            fields.finish(&format!("`{name}`"))?;
        }
        for fields in self.open {
            fields.finish("the coordination")?;
        }
        Ok(())
    }
}

fn agreed<'a>(key: &str, found: Vec<&'a Node>) -> Result<Option<&'a Node>, Error> {
    let mut found = found.into_iter();
    let Some(first) = found.next() else {
        return Ok(None);
    };
    match found.find(|other| other.to_json() != first.to_json()) {
        None => Ok(Some(first)),
        Some(other) => {
            let (earlier, later) = match first.place.line() <= other.place.line() {
                true => (first, other),
                false => (other, first),
            };
            Err(later.error(format!(
                "`{key}` has another value than at {}",
                earlier.place
            )))
        }
    }
}
