//! One record of a ledger: the effect of a step that ended, or that is about to run.
//!
//! ```text
//! {"run_id":…,"step_id":…,"node_id":…,"status":"started","effect":{"type":…,"payload":…,
//!  "result_key":…},"result":null,"error":null,"started_at":…,"ended_at":null,"actor_id":…,
//!  "session_id":…,"attempt":1,"idempotency_key":…,"prev_hash":…,"record_hash":…,"signature":null}
//! ```
//! The order is that of `AbstractRuntime`'s dataclass, and every member is always written. A record
//! without a member that is `null` has another hash. So verify a record that lacks a member by its
//! text ([`super::compute_record_hash`] of the value). Never verify the result of
//! [`StepRecord::to_value`] for it.

use super::members::{Members, object, text_or_null};
use super::run::WaitState;
use std::fmt;
use threadseal_core::canon::json::{Text, Value};
use threadseal_core::canon::python;
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::error::Error;
use threadseal_core::limits::MAX_RUN_ID_BYTES;
use threadseal_core::record::RecordId;
use threadseal_core::time::Timestamp;

/// The id of a run: any text of 1 to [`MAX_RUN_ID_BYTES`] bytes without NUL, CR and LF; mostly a
/// UUID. Stores that make a path of it check it further.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(String);

impl RunId {
    /// Checks and takes `text`.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::InvalidInput`] when it is empty, too long, or holds
    /// NUL, CR or LF.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.is_empty() || text.len() > MAX_RUN_ID_BYTES || text.contains(['\0', '\r', '\n']) {
            return Err(Error::invalid(format!(
                "a run id has 1 to {MAX_RUN_ID_BYTES} bytes, none of them NUL, CR or LF"
            )));
        }
        Ok(Self(text.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name under which a host stores the head of the run's ledger.
    pub fn record_id(&self) -> RecordId {
        let digest = Digest::tagged("threadseal/1 ledger run", &[self.0.as_bytes()]);
        RecordId::from_bytes(*digest.as_bytes())
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The status of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StepStatus {
    /// It is about to run.
    Started,
    /// It ran and has a result.
    Completed,
    /// It waits for a moment, an event or a person.
    Waiting,
    /// It failed.
    Failed,
    /// It was stopped while it ran.
    Cancelled,
}

impl StepStatus {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Started,
        Self::Completed,
        Self::Waiting,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The word in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Completed => "completed",
            Self::Waiting => "waiting",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Reads [`StepStatus::as_str`]'s words.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

impl fmt::Display for StepStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The effect that a step requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    /// `type`: an open list (`llm_call`, `tool_calls`, `ask_user`, `resume`, …).
    pub kind: String,
    /// Its arguments.
    pub payload: Value,
    /// Under which name the run keeps the result.
    pub result_key: Option<String>,
    /// Members that are none of these, in order.
    pub extra: Vec<(Text, Value)>,
}

impl Effect {
    /// An effect of `kind`.
    pub fn new(kind: impl Into<String>, payload: Value) -> Self {
        Self {
            kind: kind.into(),
            payload,
            result_key: None,
            extra: Vec::new(),
        }
    }

    /// With a name under which the run keeps the result.
    #[must_use]
    pub fn with_result_key(mut self, key: impl Into<String>) -> Self {
        self.result_key = Some(key.into());
        self
    }

    fn to_value(&self) -> Value {
        let members = [
            ("type", Value::from(self.kind.as_str())),
            ("payload", self.payload.clone()),
            ("result_key", text_or_null(self.result_key.as_deref())),
        ];
        with_extra(object(members), &self.extra)
    }

    fn from_value(value: Value) -> Result<Self, Error> {
        let mut members = Members::of(value, "an effect")?;
        Ok(Self {
            kind: members.text("type")?,
            payload: members.take("payload"),
            result_key: members.text_or_null("result_key")?,
            extra: members.rest(),
        })
    }
}

/// One record of a ledger, all of its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepRecord {
    /// The run.
    pub run_id: RunId,
    /// The step: the same in its `started` record and in the one that ends it.
    pub step_id: String,
    /// The node of the workflow.
    pub node_id: String,
    /// The status of the step.
    pub status: StepStatus,
    /// The effect that it requests; none for steps that only compute.
    pub effect: Option<Effect>,
    /// Its result.
    pub result: Option<Value>,
    /// Why it failed.
    pub error: Option<String>,
    /// When it began, as Python writes moments ([`Timestamp::to_python_text`]).
    pub started_at: String,
    /// When it ended, waited or failed.
    pub ended_at: Option<String>,
    /// The actor that did it.
    pub actor_id: Option<String>,
    /// In which session.
    pub session_id: Option<String>,
    /// Which attempt, from 1.
    pub attempt: u64,
    /// The same for all attempts at one effect.
    pub idempotency_key: Option<String>,
    /// The hash of the record before this one.
    pub prev_hash: Option<Digest>,
    /// The hash of this record.
    pub record_hash: Option<Digest>,
    /// A signature on `record_hash`, outside the bytes that this covers.
    pub signature: Option<String>,
    /// Members that are none of these, in order; the hash covers them.
    pub extra: Vec<(Text, Value)>,
}

impl StepRecord {
    /// The record of a step that is about to run. `step_id` must be new
    /// ([`step_id_from_random`]).
    pub fn start(
        run_id: RunId,
        step_id: impl Into<String>,
        node_id: impl Into<String>,
        effect: Option<Effect>,
        at: Timestamp,
    ) -> Self {
        Self {
            run_id,
            step_id: step_id.into(),
            node_id: node_id.into(),
            status: StepStatus::Started,
            effect,
            result: None,
            error: None,
            started_at: at.to_python_text(),
            ended_at: None,
            actor_id: None,
            session_id: None,
            attempt: 1,
            idempotency_key: None,
            prev_hash: None,
            record_hash: None,
            signature: None,
            extra: Vec::new(),
        }
    }

    /// The step ran and has a result.
    pub fn finish_success(&mut self, result: Option<Value>, at: Timestamp) {
        self.end(StepStatus::Completed, at);
        self.result = result;
    }

    /// The step failed.
    pub fn finish_failure(&mut self, error: impl Into<String>, at: Timestamp) {
        self.end(StepStatus::Failed, at);
        self.error = Some(error.into());
    }

    /// The step was stopped. The result is `{"cancelled":true}` with `details` over it.
    pub fn finish_cancelled(&mut self, details: Vec<(Text, Value)>, at: Timestamp) {
        self.end(StepStatus::Cancelled, at);
        let mut members: Vec<(Text, Value)> = vec![("cancelled".into(), true.into())];
        for (name, value) in details {
            match members.iter_mut().find(|(known, _)| *known == name) {
                Some(known) => known.1 = value,
                None => members.push((name, value)),
            }
        }
        self.result = Some(Value::Object(members));
    }

    /// The step waits. The result states for which event or answer.
    pub fn finish_waiting(&mut self, wait: &WaitState, at: Timestamp) {
        self.end(StepStatus::Waiting, at);
        self.result = Some(object([("wait", wait.to_value())]));
    }

    fn end(&mut self, status: StepStatus, at: Timestamp) {
        self.status = status;
        self.ended_at = Some(at.to_python_text());
    }

    /// The record as stored: all members, in `AbstractRuntime`'s order.
    pub fn to_value(&self) -> Value {
        let text = |text: &Option<String>| text_or_null(text.as_deref());
        let digest = |digest: &Option<Digest>| text(&digest.map(|digest| digest.to_hex()));
        let effect = self.effect.as_ref().map(Effect::to_value);
        let members = [
            ("run_id", self.run_id.as_str().into()),
            ("step_id", self.step_id.as_str().into()),
            ("node_id", self.node_id.as_str().into()),
            ("status", self.status.as_str().into()),
            ("effect", effect.unwrap_or(Value::Null)),
            ("result", self.result.clone().unwrap_or(Value::Null)),
            ("error", text(&self.error)),
            ("started_at", self.started_at.as_str().into()),
            ("ended_at", text(&self.ended_at)),
            ("actor_id", text(&self.actor_id)),
            ("session_id", text(&self.session_id)),
            ("attempt", self.attempt.into()),
            ("idempotency_key", text(&self.idempotency_key)),
            ("prev_hash", digest(&self.prev_hash)),
            ("record_hash", digest(&self.record_hash)),
            ("signature", text(&self.signature)),
        ];
        with_extra(object(members), &self.extra)
    }

    /// The line of the record, without LF: the compact output of `json.dumps`, in order.
    ///
    /// # Errors
    /// Kind `InvalidInput` when a string of it holds a lone surrogate.
    pub fn to_line(&self) -> Result<Vec<u8>, Error> {
        python::ledger_line(&self.to_value())
            .map_err(|why| Error::invalid(format!("the record cannot be written: {why}")))
    }

    /// Reads a record. A member that is absent counts as `null`, `attempt` as 1.
    ///
    /// # Errors
    /// Kind `InvalidInput`, which names the first invalid member.
    pub fn from_value(value: Value) -> Result<Self, Error> {
        let mut members = Members::of(value, "a record")?;
        let status = members.text("status")?;
        Ok(Self {
            run_id: RunId::parse(&members.text("run_id")?)?,
            step_id: members.text("step_id")?,
            node_id: members.text("node_id")?,
            status: StepStatus::parse(&status)
                .ok_or_else(|| members.wrong("status", "is not a status of a step"))?,
            effect: members
                .value_or_null("effect")
                .map(Effect::from_value)
                .transpose()?,
            result: members.value_or_null("result"),
            error: members.text_or_null("error")?,
            started_at: members.text("started_at")?,
            ended_at: members.text_or_null("ended_at")?,
            actor_id: members.text_or_null("actor_id")?,
            session_id: members.text_or_null("session_id")?,
            attempt: match members.value_or_null("attempt") {
                None => 1,
                Some(value) => value
                    .as_u64()
                    .ok_or_else(|| members.wrong("attempt", "is not the number of an attempt"))?,
            },
            idempotency_key: members.text_or_null("idempotency_key")?,
            prev_hash: members.digest_or_null("prev_hash")?,
            record_hash: members.digest_or_null("record_hash")?,
            signature: members.text_or_null("signature")?,
            extra: members.rest(),
        })
    }
}

/// A step id of random bytes: a version 4 UUID (RFC 9562 §5.4), as in `AbstractRuntime`.
pub fn step_id_from_random(mut random: [u8; 16]) -> String {
    random[6] = random[6] & 0x0f | 0x40;
    random[8] = random[8] & 0x3f | 0x80;
    let hex = encoding::hex(&random);
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32];
    parts.map(|part| &hex[part]).join("-")
}

fn with_extra(value: Value, extra: &[(Text, Value)]) -> Value {
    match value {
        Value::Object(mut members) => {
            members.extend_from_slice(extra);
            Value::Object(members)
        }
        other => other,
    }
}
