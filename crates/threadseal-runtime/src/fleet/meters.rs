//! [`Meters`]: what one worker did; [`Monitor`]: the same and the database, for Prometheus.
//!
//! ```text
//! worker ─► Meters ─┐
//! threads ─► Activity ├─► Monitor ─► /metrics   text, format 0.0.4
//! database, asked at most once in 5 s ─┘  └──► /healthz   well, or why not
//! ```
//! No label is an id or a name that others choose, but this worker's own: the series stay few.

use super::Fleet;
use super::census::Census;
use crate::registry::{Activity, TURN_SECONDS};
use crate::runner::{Progress, Watch};
use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_store::clock::{Clock as _, SystemClock};

/// The content type of the metrics.
pub const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Until the database is asked again.
const MAX_SAMPLE_AGE: Duration = Duration::from_secs(5);
/// For its answer.
const MAX_SAMPLE_TIME: Duration = Duration::from_secs(3);
/// Without contact for longer than this, and than its lease, a worker is not well. An idle one looks every 30 s.
const MAX_SILENCE: Duration = Duration::from_secs(90);

/// What one worker did.
#[derive(Debug, Default)]
pub(super) struct Meters {
    pub(super) activity: Arc<Activity>,
    pub(super) done: AtomicU64,
    pub(super) left: AtomicU64,
    pub(super) set_aside: AtomicU64,
    pub(super) taken_over: AtomicU64,
    pub(super) leases_lost: AtomicU64,
    pub(super) polls: AtomicU64,
    pub(super) errors: AtomicU64,
    pub(super) is_busy: AtomicBool,
    /// When the server answered last, in microseconds of the steady clock.
    contact: AtomicU64,
}

impl Meters {
    /// Counts one.
    pub(super) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// The server answered.
    pub(super) fn answered(&self) {
        let now = u64::try_from(SystemClock.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.contact.store(now, Ordering::Relaxed);
    }

    fn silence(&self) -> Duration {
        let contact = Duration::from_micros(self.contact.load(Ordering::Relaxed));
        SystemClock.elapsed().saturating_sub(contact)
    }
}

/// Counts the progress of threads for [`Activity`], and passes it on.
pub(super) struct CountingWatch {
    pub(super) inner: Arc<dyn Watch>,
    pub(super) activity: Arc<Activity>,
}

impl Watch for CountingWatch {
    fn progress(&self, thread: &ThreadId, progress: Progress<'_>) {
        match progress {
            Progress::Failed(category) => self.activity.failed(category),
            Progress::Turned(took) => self.activity.turned(took),
            _ => {}
        }
        self.inner.progress(thread, progress);
    }
}

/// Shows a worker and its database to a monitoring system.
pub struct Monitor {
    fleet: Fleet,
    worker: String,
    lease: Duration,
    version: &'static str,
    began: f64,
    sampler: Arc<Sampler>,
}

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monitor")
            .field("worker", &self.worker)
            .finish_non_exhaustive()
    }
}

type Sample = Result<Census, String>;

/// Asks the database on a thread of its own: one that hangs must not hang its callers.
#[derive(Default)]
struct Sampler {
    state: Mutex<Sampled>,
    changed: Condvar,
}

#[derive(Default)]
struct Sampled {
    last: Option<(Duration, Sample)>,
    is_asking: bool,
}

impl Monitor {
    /// The monitor of the worker that is called `worker`, and holds orders for `lease`.
    ///
    /// # Errors
    /// When the clock cannot be read.
    pub fn new(
        fleet: &Fleet,
        worker: &str,
        lease: Duration,
        version: &'static str,
    ) -> Result<Self, Error> {
        Ok(Self {
            fleet: fleet.clone(),
            worker: worker.to_owned(),
            lease,
            version,
            began: seconds(SystemClock.now()?.as_micros()),
            sampler: Arc::default(),
        })
    }

    /// Why it is not well.
    ///
    /// # Errors
    /// The reason: the database is away, or the worker has not asked it for too long.
    pub fn health(&self) -> Result<(), String> {
        self.sample()?;
        let (silence, most) = (self.fleet.meters.silence(), self.lease.max(MAX_SILENCE));
        match silence <= most {
            true => Ok(()),
            false => Err(format!(
                "the worker asked the database {} seconds ago, and should each {}",
                silence.as_secs(),
                most.as_secs()
            )),
        }
    }

    /// All metrics as text.
    pub fn text(&self) -> String {
        let mut text = Exposition::default();
        self.about_worker(&mut text);
        about_activity(&self.fleet.meters.activity, &mut text);
        let sample = self.sample();
        let up = [("", f64::from(u8::from(sample.is_ok())))];
        text.family(&DATABASE_UP, &up);
        if let Ok(census) = sample {
            about_database(&census, &mut text);
        }
        text.0
    }

    fn about_worker(&self, text: &mut Exposition) {
        let meters = &self.fleet.meters;
        let get = |counter: &AtomicU64| counted(counter.load(Ordering::Relaxed));
        let worker = escaped(&self.worker);
        let info = format!("{{version=\"{}\",worker=\"{worker}\"}}", self.version);
        text.family(&INFO, &[(&info, 1.0)]);
        text.family(&STARTED, &[("", self.began)]);
        let ends = [
            ("{end=\"done\"}", get(&meters.done)),
            ("{end=\"left\"}", get(&meters.left)),
            ("{end=\"set_aside\"}", get(&meters.set_aside)),
        ];
        text.family(&ENDS, &ends);
        text.family(&TAKEOVERS, &[("", get(&meters.taken_over))]);
        text.family(&LOSSES, &[("", get(&meters.leases_lost))]);
        text.family(&POLLS, &[("", get(&meters.polls))]);
        text.family(&ERRORS, &[("", get(&meters.errors))]);
        let is = |yes: bool| [("", f64::from(u8::from(yes)))];
        text.family(&BUSY, &is(meters.is_busy.load(Ordering::Relaxed)));
        text.family(&LISTENING, &is(self.fleet.database.hears()));
        text.family(&SILENCE, &[("", meters.silence().as_secs_f64())]);
    }

    /// The counts of the database, at most [`MAX_SAMPLE_AGE`] old.
    fn sample(&self) -> Sample {
        let sampler = &self.sampler;
        let mut state = sampler.held();
        let is_new = |at: Duration| SystemClock.elapsed().saturating_sub(at) < MAX_SAMPLE_AGE;
        if let Some((at, sample)) = &state.last
            && is_new(*at)
        {
            return sample.clone();
        }
        if !state.is_asking {
            state.is_asking = true;
            let (fleet, sampler) = (self.fleet.clone(), Arc::clone(sampler));
            std::thread::spawn(move || sampler.ask(&fleet));
        }
        let asking = |state: &mut Sampled| state.is_asking;
        let waited = sampler
            .changed
            .wait_timeout_while(state, MAX_SAMPLE_TIME, asking);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match &state.last {
            Some((at, sample)) if is_new(*at) => sample.clone(),
            _ => Err(format!(
                "the database did not answer within {} seconds",
                MAX_SAMPLE_TIME.as_secs()
            )),
        }
    }
}

impl Sampler {
    fn held(&self) -> MutexGuard<'_, Sampled> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, fleet: &Fleet) {
        let sample = fleet.census().map_err(|error| error.to_string());
        let mut state = self.held();
        state.last = Some((SystemClock.elapsed(), sample));
        state.is_asking = false;
        self.changed.notify_all();
    }
}

fn about_activity(activity: &Activity, text: &mut Exposition) {
    text.family(&TURNS, &[("", counted(activity.turns()))]);
    let [input, output] = activity.tokens().map(counted);
    let tokens = [("{kind=\"input\"}", input), ("{kind=\"output\"}", output)];
    text.family(&TOKENS, &tokens);
    text.family(&SPEND, &[("", counted(activity.spend_nanos()) / 1e9)]);
    let ends = activity.ends().map(|(status, count)| {
        let label = format!("{{status=\"{}\"}}", status.as_str());
        (label, counted(count))
    });
    text.labelled(&THREADS, ends);
    let errors = activity.model_errors();
    let errors = errors.map(|(kind, count)| (format!("{{kind=\"{kind}\"}}"), counted(count)));
    text.labelled(&MODEL_ERRORS, errors);
    let (times, micros) = activity.turn_times();
    text.histogram(&TURN_TIMES, &TURN_SECONDS, &times, seconds(micros));
}

fn about_database(census: &Census, text: &mut Exposition) {
    let orders = [
        ("{state=\"ready\"}", counted(census.ready)),
        ("{state=\"taken\"}", counted(census.taken)),
        ("{state=\"expired\"}", counted(census.expired)),
        ("{state=\"set_aside\"}", counted(census.set_aside)),
    ];
    text.family(&ORDERS, &orders);
    text.family(&OLDEST, &[("", census.oldest_ready.as_secs_f64())]);
    text.family(&LIVE, &[("", counted(census.live))]);
    text.family(&ORPHANED, &[("", counted(census.orphaned))]);
    let [open, most] = census.connections.map(counted);
    text.family(&CONNECTIONS, &[("", open)]);
    text.family(&MAX_CONNECTIONS, &[("", most)]);
    if let Ok(now) = SystemClock.now() {
        let server = u64::try_from(census.server_micros).unwrap_or(0);
        let skew = seconds(now.as_micros()) - seconds(server);
        text.family(&SKEW, &[("", skew)]);
    }
}

/// One metric: its name, its kind, and what it counts.
struct Family(&'static str, &'static str, &'static str);

const INFO: Family = Family(
    "threadseal_worker_info",
    "gauge",
    "This worker: its version and its name; always 1.",
);
const STARTED: Family = Family(
    "threadseal_worker_start_time_seconds",
    "gauge",
    "When this worker began, in seconds since 1970.",
);
const ENDS: Family = Family(
    "threadseal_worker_orders_total",
    "counter",
    "Orders that this worker let go, by how.",
);
const TAKEOVERS: Family = Family(
    "threadseal_worker_takeovers_total",
    "counter",
    "Orders that this worker took after another one.",
);
const LOSSES: Family = Family(
    "threadseal_worker_lease_losses_total",
    "counter",
    "Leases that this worker lost.",
);
const POLLS: Family = Family(
    "threadseal_worker_polls_total",
    "counter",
    "Requests of this worker for an order.",
);
const ERRORS: Family = Family(
    "threadseal_worker_database_errors_total",
    "counter",
    "Requests of this worker that the database failed.",
);
const BUSY: Family = Family(
    "threadseal_worker_busy",
    "gauge",
    "1 while this worker has an order.",
);
const LISTENING: Family = Family(
    "threadseal_worker_listening",
    "gauge",
    "1 while notices of the database arrive.",
);
const SILENCE: Family = Family(
    "threadseal_worker_silence_seconds",
    "gauge",
    "Time since the database answered this worker.",
);
const TURNS: Family = Family(
    "threadseal_worker_turns_total",
    "counter",
    "Turns of models in threads of this worker.",
);
const TOKENS: Family = Family(
    "threadseal_worker_tokens_total",
    "counter",
    "Tokens that models read (input) and wrote (output).",
);
const SPEND: Family = Family(
    "threadseal_worker_spend_dollars_total",
    "counter",
    "Money that threads of this worker spent.",
);
const THREADS: Family = Family(
    "threadseal_worker_threads_total",
    "counter",
    "Threads of this worker that are over, by status.",
);
const MODEL_ERRORS: Family = Family(
    "threadseal_worker_model_errors_total",
    "counter",
    "Requests to models without an answer, by the kind of the error.",
);
const TURN_TIMES: Family = Family(
    "threadseal_worker_turn_seconds",
    "histogram",
    "How long turns of threads of this worker took, with their calls.",
);
const DATABASE_UP: Family = Family(
    "threadseal_database_up",
    "gauge",
    "1 if the database answered.",
);
const ORDERS: Family = Family(
    "threadseal_orders",
    "gauge",
    "Orders in the database, by state.",
);
const OLDEST: Family = Family(
    "threadseal_orders_oldest_ready_seconds",
    "gauge",
    "How long the first ready order has waited.",
);
const LIVE: Family = Family(
    "threadseal_threads_live",
    "gauge",
    "Threads that run by their rows.",
);
const ORPHANED: Family = Family(
    "threadseal_threads_orphaned",
    "gauge",
    "Threads that run by their rows, and that no worker continues.",
);
const CONNECTIONS: Family = Family(
    "threadseal_database_connections",
    "gauge",
    "Connections to the database server.",
);
const MAX_CONNECTIONS: Family = Family(
    "threadseal_database_connections_max",
    "gauge",
    "Connections that the database server allows.",
);
const SKEW: Family = Family(
    "threadseal_worker_clock_skew_seconds",
    "gauge",
    "How far the clock here is ahead of that of the database.",
);

/// A text of Prometheus.
#[derive(Default)]
struct Exposition(String);

impl Exposition {
    /// The same of labels that are made for it.
    fn labelled(&mut self, family: &Family, series: impl Iterator<Item = (String, f64)>) {
        let series: Vec<(String, f64)> = series.collect();
        let series = series.iter().map(|(labels, value)| (&**labels, *value));
        self.family(family, &series.collect::<Vec<_>>());
    }

    /// Adds a histogram: how many values are at most each of `ends`, then all, and their sum.
    fn histogram(&mut self, family: &Family, ends: &[u64], counts: &[u64], sum: f64) {
        let name = family.0;
        self.head(family);
        let ends = ends.iter().map(ToString::to_string);
        for (end, count) in ends.chain(["+Inf".to_owned()]).zip(counts) {
            let _ = writeln!(self.0, "{name}_bucket{{le=\"{end}\"}} {count}");
        }
        let all = counts.last().unwrap_or(&0);
        let _ = writeln!(self.0, "{name}_sum {sum}\n{name}_count {all}");
    }

    fn head(&mut self, Family(name, kind, help): &Family) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Adds the series of a metric: labels, and value.
    fn family(&mut self, family: &Family, series: &[(&str, f64)]) {
        let name = family.0;
        self.head(family);
        for (labels, value) in series {
            let _ = writeln!(self.0, "{name}{labels} {value}");
        }
    }
}

/// A value of a label.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    text.replace('\n', "\\n")
}

#[expect(
    clippy::cast_precision_loss,
    reason = "Prometheus counts in such numbers"
)]
fn counted(count: u64) -> f64 {
    count as f64
}

fn seconds(micros: u64) -> f64 {
    counted(micros) / 1e6
}
