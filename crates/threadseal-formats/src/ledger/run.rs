//! The state of a run, as `AbstractRuntime` stores it beside the ledger.
//!
//! ```text
//! {"run_id","workflow_id","status","current_node","vars":{…},"waiting":null|{…},"output","error",
//!  "created_at","updated_at","actor_id","session_id","parent_run_id"}
//! waiting  {"reason","wait_key","until","resume_to_node","result_key","prompt","choices",
//!           "allow_free_text","details"}
//! ```
//! No hash covers it: any process that can write the file can change it. Facts that must be proved
//! belong in the ledger.

use super::members::{Members, object, text_or_null};
use super::record::{Effect, RunId, StepRecord};
use threadseal_core::canon::json::Value;
use threadseal_core::error::Error;
use threadseal_core::time::Timestamp;

/// The status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunStatus {
    /// Its steps run.
    Running,
    /// A step waits.
    Waiting,
    /// It ended normally.
    Completed,
    /// It failed.
    Failed,
    /// It was stopped.
    Cancelled,
}

impl RunStatus {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Running,
        Self::Waiting,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The word in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Reads [`RunStatus::as_str`]'s words.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// The kind of event that a run waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaitReason {
    /// An event.
    Event,
    /// A moment.
    Until,
    /// A person's answer.
    User,
    /// A job elsewhere.
    Job,
    /// Another run.
    Subworkflow,
}

impl WaitReason {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Event,
        Self::Until,
        Self::User,
        Self::Job,
        Self::Subworkflow,
    ];

    /// The word in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Until => "until",
            Self::User => "user",
            Self::Job => "job",
            Self::Subworkflow => "subworkflow",
        }
    }

    /// Reads [`WaitReason::as_str`]'s words.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }
}

/// The reason for a wait, and how the run continues afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitState {
    /// The reason.
    pub reason: WaitReason,
    /// Which event, answer or job ends it.
    pub wait_key: Option<String>,
    /// The moment that ends it.
    pub until: Option<String>,
    /// The node that continues.
    pub resume_to_node: Option<String>,
    /// The name under which the run keeps the answer.
    pub result_key: Option<String>,
    /// The question to a person.
    pub prompt: Option<String>,
    /// Answers to choose from.
    pub choices: Option<Vec<String>>,
    /// May the answer be another one?
    pub allow_free_text: bool,
    /// More details, for waits that no person answers.
    pub details: Option<Value>,
}

impl WaitState {
    /// A wait for `reason`, with no other details.
    pub fn new(reason: WaitReason) -> Self {
        Self {
            reason,
            wait_key: None,
            until: None,
            resume_to_node: None,
            result_key: None,
            prompt: None,
            choices: None,
            allow_free_text: true,
            details: None,
        }
    }

    /// As in run states and in the results of waiting steps.
    pub fn to_value(&self) -> Value {
        let text = |text: &Option<String>| text_or_null(text.as_deref());
        let choices = self.choices.as_ref().map(|choices| {
            let choices = choices.iter().map(|choice| choice.as_str().into());
            Value::Array(choices.collect())
        });
        object([
            ("reason", self.reason.as_str().into()),
            ("wait_key", text(&self.wait_key)),
            ("until", text(&self.until)),
            ("resume_to_node", text(&self.resume_to_node)),
            ("result_key", text(&self.result_key)),
            ("prompt", text(&self.prompt)),
            ("choices", choices.unwrap_or(Value::Null)),
            ("allow_free_text", self.allow_free_text.into()),
            ("details", self.details.clone().unwrap_or(Value::Null)),
        ])
    }

    /// Reads [`WaitState::to_value`]'s members.
    ///
    /// # Errors
    /// Kind `InvalidInput`, which names the first invalid or unknown member.
    pub fn from_value(value: Value) -> Result<Self, Error> {
        let mut members = Members::of(value, "a wait")?;
        let reason = members.text("reason")?;
        let wait = Self {
            reason: WaitReason::parse(&reason)
                .ok_or_else(|| members.wrong("reason", "is not a reason to wait"))?,
            wait_key: members.text_or_null("wait_key")?,
            until: members.text_or_null("until")?,
            resume_to_node: members.text_or_null("resume_to_node")?,
            result_key: members.text_or_null("result_key")?,
            prompt: members.text_or_null("prompt")?,
            choices: choices(&mut members)?,
            allow_free_text: match members.value_or_null("allow_free_text") {
                None => true,
                Some(value) => value
                    .as_bool()
                    .ok_or_else(|| members.wrong("allow_free_text", "is not a boolean"))?,
            },
            details: members.value_or_null("details"),
        };
        no_more(members, "a wait")?;
        Ok(wait)
    }
}

fn choices(members: &mut Members) -> Result<Option<Vec<String>>, Error> {
    let wrong = |members: &Members| members.wrong("choices", "is not a list of strings");
    match members.take("choices") {
        Value::Null => Ok(None),
        Value::Array(choices) => {
            let texts = choices
                .iter()
                .map(|choice| Some(choice.as_str()?.to_owned()));
            let texts: Option<Vec<String>> = texts.collect();
            texts.map(Some).ok_or_else(|| wrong(members))
        }
        _ => Err(wrong(members)),
    }
}

fn no_more(members: Members, what: &str) -> Result<(), Error> {
    match members.rest().first() {
        None => Ok(()),
        Some((name, _)) => Err(Error::invalid(format!("{what} has no member {name:?}"))),
    }
}

/// The state of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunState {
    /// The run.
    pub run_id: RunId,
    /// The workflow it runs.
    pub workflow_id: String,
    /// Its status.
    pub status: RunStatus,
    /// The node that is next.
    pub current_node: String,
    /// Its variables: an object.
    pub vars: Value,
    /// The event or answer that it waits for.
    pub waiting: Option<WaitState>,
    /// Its output.
    pub output: Option<Value>,
    /// Why it failed.
    pub error: Option<String>,
    /// When it was made, as Python writes moments.
    pub created_at: String,
    /// When it was last stored.
    pub updated_at: String,
    /// The actor that runs it.
    pub actor_id: Option<String>,
    /// In which session.
    pub session_id: Option<String>,
    /// The run that started it.
    pub parent_run_id: Option<String>,
}

impl RunState {
    /// A run that is about to begin.
    pub fn new(
        run_id: RunId,
        workflow_id: impl Into<String>,
        entry_node: impl Into<String>,
        at: Timestamp,
    ) -> Self {
        Self {
            run_id,
            workflow_id: workflow_id.into(),
            status: RunStatus::Running,
            current_node: entry_node.into(),
            vars: Value::Object(Vec::new()),
            waiting: None,
            output: None,
            error: None,
            created_at: at.to_python_text(),
            updated_at: at.to_python_text(),
            actor_id: None,
            session_id: None,
            parent_run_id: None,
        }
    }

    /// The record of a step of this run that is about to begin: run, actor and session are the
    /// run's.
    pub fn start_step(
        &self,
        step_id: impl Into<String>,
        node_id: impl Into<String>,
        effect: Option<Effect>,
        at: Timestamp,
    ) -> StepRecord {
        let mut record = StepRecord::start(self.run_id.clone(), step_id, node_id, effect, at);
        record.actor_id.clone_from(&self.actor_id);
        record.session_id.clone_from(&self.session_id);
        record
    }

    /// As in `run_<run_id>.json`.
    pub fn to_value(&self) -> Value {
        let text = |text: &Option<String>| text_or_null(text.as_deref());
        let waiting = self.waiting.as_ref().map(WaitState::to_value);
        object([
            ("run_id", self.run_id.as_str().into()),
            ("workflow_id", self.workflow_id.as_str().into()),
            ("status", self.status.as_str().into()),
            ("current_node", self.current_node.as_str().into()),
            ("vars", self.vars.clone()),
            ("waiting", waiting.unwrap_or(Value::Null)),
            ("output", self.output.clone().unwrap_or(Value::Null)),
            ("error", text(&self.error)),
            ("created_at", self.created_at.as_str().into()),
            ("updated_at", self.updated_at.as_str().into()),
            ("actor_id", text(&self.actor_id)),
            ("session_id", text(&self.session_id)),
            ("parent_run_id", text(&self.parent_run_id)),
        ])
    }

    /// Reads [`RunState::to_value`]'s members.
    ///
    /// # Errors
    /// Kind `InvalidInput`, which names the first invalid or unknown member.
    pub fn from_value(value: Value) -> Result<Self, Error> {
        let mut members = Members::of(value, "a run state")?;
        let status = members.text("status")?;
        let run = Self {
            run_id: RunId::parse(&members.text("run_id")?)?,
            workflow_id: members.text("workflow_id")?,
            status: RunStatus::parse(&status)
                .ok_or_else(|| members.wrong("status", "is not a status of a run"))?,
            current_node: members.text("current_node")?,
            vars: match members.take("vars") {
                Value::Null => Value::Object(Vec::new()),
                vars @ Value::Object(_) => vars,
                _ => return Err(members.wrong("vars", "is not an object")),
            },
            waiting: members
                .value_or_null("waiting")
                .map(WaitState::from_value)
                .transpose()?,
            output: members.value_or_null("output"),
            error: members.text_or_null("error")?,
            created_at: members.text("created_at")?,
            updated_at: members.text("updated_at")?,
            actor_id: members.text_or_null("actor_id")?,
            session_id: members.text_or_null("session_id")?,
            parent_run_id: members.text_or_null("parent_run_id")?,
        };
        no_more(members, "a run state")?;
        Ok(run)
    }
}
