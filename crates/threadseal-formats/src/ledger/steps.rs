//! The steps of a run as recorded: begun once, ended once, in the order of time.
//!
//! ```text
//! started ─► completed | waiting | failed | cancelled        two records of one step
//! resume, effect null, `system:…`                            one record, nothing before it
//! ```
//! A hash chain covers none of this, and no rule of it is a proof. A clock may be set back, and a
//! process may die between two records. So all are warnings.
//!
//! Memory is bounded: [`MAX_OPEN_STEPS`] open steps, [`MAX_OPEN_STEP_BYTES`] of their records, and
//! the last [`MAX_RECENT_STEPS`] that ended. Time is bounded too: a record is read for markers
//! until [`MAX_SLIM_READS`] times its length were read.

use super::beginnings::BEGINNINGS_EFFECT;
use super::facts::{Facts, StepKey};
use super::genesis::{ACTORS_EFFECT, GENESIS_EFFECT};
use super::load::Place;
use super::marker::{Marker, content, payload, resolves, step_of};
use super::record::StepStatus;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use threadseal_core::canon::json::{self, Value};
use threadseal_core::limits::{
    MAX_LENIENT_RECORD_BYTES, MAX_OPEN_STEP_BYTES, MAX_OPEN_STEPS, MAX_RECENT_STEPS, MAX_SLIM_READS,
};
use threadseal_core::time::Timestamp;

/// Content below this many bytes is never replaced by a `$slim` marker.
const SMALLEST_SLIM: usize = 512;

/// Something odd about a record among the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepFault {
    /// The step has begun before.
    StartedTwice,
    /// The step has ended before.
    EndedTwice,
    /// It ends, and has not begun.
    Unstarted,
    /// It is older than the record before it.
    Backwards,
    /// A `$slim` marker replaces content that the step's first record does not have.
    SlimDiffers,
}

/// The state at the end.
#[derive(Debug, Default)]
pub(super) struct StepsEnd {
    /// Steps that have begun and not ended, and the record and place of the first of them.
    pub(super) open: u64,
    pub(super) first_open: Option<(u64, Place)>,
    /// Too many steps were open at once, or a record was too large, to follow all steps.
    pub(super) lost_track: bool,
    /// Markers that were checked and correct, markers not checked for lack of memory or time, and
    /// contents of artifact stores.
    pub(super) slim: u64,
    pub(super) slim_unchecked: u64,
    pub(super) artifacts: u64,
}

/// Follows the steps.
#[derive(Debug, Default)]
pub(super) struct Steps {
    open: BTreeMap<StepKey, Open>,
    bytes: usize,
    recent: Recent,
    latest: Option<Timestamp>,
    end: StepsEnd,
}

#[derive(Debug)]
struct Open {
    index: u64,
    place: Place,
    /// The `started` record, for the check of markers.
    record: Option<Box<[u8]>>,
    /// Bytes that were read for markers.
    looked_at: usize,
}

impl Steps {
    /// Takes the next record, whose text is `text`.
    pub(super) fn take(
        &mut self,
        facts: &Facts,
        text: &[u8],
        (index, place): (u64, Place),
        fault: &mut dyn FnMut(StepFault),
    ) {
        self.markers(facts, fault);
        if let Some(at) = facts.at {
            if self.latest.is_some_and(|latest| at < latest) {
                fault(StepFault::Backwards);
            }
            self.latest = Some(at);
        }
        let (Some(step), Some(status)) = (facts.step, facts.status) else {
            return;
        };
        if status == StepStatus::Started {
            self.start(step, text, (index, place), fault);
        } else if let Some(open) = self.open.remove(&step) {
            self.bytes -= open.record.map_or(0, |record| record.len());
            self.recent.add(step);
        } else if self.recent.holds(&step) {
            fault(StepFault::EndedTwice);
        } else {
            self.recent.add(step);
            if text.len() > MAX_LENIENT_RECORD_BYTES {
                self.end.lost_track = true;
            } else if !self.end.lost_track && !stands_alone(text) {
                fault(StepFault::Unstarted);
            }
        }
    }

    pub(super) fn end(mut self) -> StepsEnd {
        self.end.open = self.open.len() as u64;
        let first = self.open.values().min_by_key(|open| open.index);
        self.end.first_open = first.map(|open| (open.index, open.place));
        self.end
    }

    fn start(
        &mut self,
        step: StepKey,
        text: &[u8],
        (index, place): (u64, Place),
        fault: &mut dyn FnMut(StepFault),
    ) {
        if self.open.contains_key(&step) || self.recent.holds(&step) {
            return fault(StepFault::StartedTwice);
        }
        if self.open.len() == MAX_OPEN_STEPS {
            self.end.lost_track = true;
            return;
        }
        let room = (MAX_OPEN_STEP_BYTES - self.bytes).min(MAX_LENIENT_RECORD_BYTES);
        let keep = (SMALLEST_SLIM..=room).contains(&text.len());
        let record = keep.then(|| text.into());
        if keep {
            self.bytes += text.len();
        }
        let open = Open {
            index,
            place,
            record,
            looked_at: 0,
        };
        self.open.insert(step, open);
    }

    fn markers(&mut self, facts: &Facts, fault: &mut dyn FnMut(StepFault)) {
        let mut read: Option<(StepKey, Option<Value>)> = None;
        for marker in &facts.markers {
            let slim = match marker {
                Marker::Slim(slim) => slim,
                Marker::Artifact => {
                    self.end.artifacts += 1;
                    continue;
                }
                Marker::TooMany => {
                    self.end.slim_unchecked += 1;
                    continue;
                }
                Marker::Omitted => continue,
            };
            let Some(step) = step_of(slim).map(StepKey::of) else {
                fault(StepFault::SlimDiffers);
                continue;
            };
            let Some(open) = self.open.get_mut(&step) else {
                fault(StepFault::SlimDiffers);
                continue;
            };
            let text = open.record.as_deref().unwrap_or_default();
            if open.looked_at >= MAX_SLIM_READS * text.len() {
                self.end.slim_unchecked += 1;
                continue;
            }
            let known = read.as_ref().is_some_and(|(known, _)| *known == step);
            if !known {
                open.looked_at += text.len();
                let parsed = json::parse_python(text).ok();
                read = Some((step, parsed.map(|document| document.value)));
            }
            let started = read.as_ref().and_then(|(_, record)| record.as_ref());
            let content = started
                .and_then(payload)
                .and_then(|payload| content(slim, payload));
            open.looked_at += content.as_ref().map_or(text.len(), Vec::len);
            if content.is_some_and(|content| resolves(slim, &content)) {
                self.end.slim += 1;
            } else {
                fault(StepFault::SlimDiffers);
            }
        }
    }
}

/// Whether a record is of a kind without a `started` record. Such are a run's own end or reported
/// status, the answer to a wait, and a ledger's declaration.
fn stands_alone(text: &[u8]) -> bool {
    let Ok(document) = json::parse_python(text) else {
        return true;
    };
    let record = document.value;
    let effect = record.get("effect").filter(|effect| !effect.is_null());
    let kind = effect.and_then(|effect| effect.get("type")?.as_str());
    let key = record.get("idempotency_key").and_then(Value::as_str);
    let alone = ["resume", GENESIS_EFFECT, ACTORS_EFFECT, BEGINNINGS_EFFECT];
    let alone = kind.is_some_and(|kind| alone.contains(&kind));
    effect.is_none() || alone || key.is_some_and(|key| key.starts_with("system:"))
}

/// The steps that ended last.
#[derive(Debug, Default)]
struct Recent {
    in_order: VecDeque<StepKey>,
    known: BTreeSet<StepKey>,
}

impl Recent {
    fn add(&mut self, step: StepKey) {
        if self.in_order.len() == MAX_RECENT_STEPS
            && let Some(oldest) = self.in_order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.in_order.push_back(step);
        self.known.insert(step);
    }

    fn holds(&self, step: &StepKey) -> bool {
        self.known.contains(step)
    }
}
