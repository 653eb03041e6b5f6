//! The declaration of a ledger before its first step (`spec/ledger.md` §6).
//!
//! ```text
//! record 0   an ordinary completed record, effect {"type":"threadseal.genesis","payload":{
//!              "format":"threadseal-ledger/1","record":<64 hex, random>,
//!              "workflow_id":…,"workflow_sha256":…,"inputs_sha256":…,
//!              "parent":{"run_id":…,"head":…}|null,
//!              "actors":{<actor id>:{"kind","display_name",
//!                                    "metadata":{"public_key":<did:key>,…}},…},
//!              "created_at":…}}
//! later      effect {"type":"threadseal.actors","payload":{"actors":{…}}}: further actors
//!            effect {"type":"threadseal.beginnings",…}: later beginnings (`beginnings`)
//! ```
//! `AbstractRuntime` hashes and verifies such records like any other. A ledger whose beginning
//! names actors is *signed*: each of its records bears the signature of its actor's key. An actor
//! id commits to the key, since it is the digest of a fingerprint that contains the key. So each id
//! is computed again here.

use super::actor::ActorFingerprint;
use super::beginnings::{BEGINNINGS_EFFECT, LaterBeginnings};
use super::members::{object, text_or_null};
use super::record::{Effect, RunId, StepRecord};
use threadseal_core::canon::json::Value;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::PublicKey;
use threadseal_core::limits::MAX_RECORD_KEYS;
use threadseal_core::record::RecordId;
use threadseal_core::time::Timestamp;

/// `effect.type` of the first record.
pub const GENESIS_EFFECT: &str = "threadseal.genesis";
/// `effect.type` of a record that names further actors.
pub const ACTORS_EFFECT: &str = "threadseal.actors";
/// `payload.format` of the first record.
pub const FORMAT: &str = "threadseal-ledger/1";

/// Actors with their keys, each id once, in order of the ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Actors(Vec<(ActorFingerprint, PublicKey)>);

impl Actors {
    /// Adds an actor; an actor that is already present keeps its entry.
    ///
    /// # Errors
    /// Kind `InvalidInput` when its description has no key, `Limit` beyond [`MAX_RECORD_KEYS`].
    pub fn add(&mut self, actor: ActorFingerprint) -> Result<(), Error> {
        let key = actor
            .public_key()
            .ok_or_else(|| Error::invalid("an actor of a signed ledger has a key"))?;
        let by_id =
            |(known, _): &(ActorFingerprint, PublicKey)| known.actor_id().cmp(actor.actor_id());
        let Err(at) = self.0.binary_search_by(by_id) else {
            return Ok(());
        };
        if self.0.len() == MAX_RECORD_KEYS {
            let text = format!("a ledger has at most {MAX_RECORD_KEYS} actors");
            return Err(Error::new(ErrorKind::Limit, text));
        }
        self.0.insert(at, (actor, key));
        Ok(())
    }

    /// Adds all of `others`.
    ///
    /// # Errors
    /// As [`Actors::add`].
    pub fn join(&mut self, others: Self) -> Result<(), Error> {
        others
            .0
            .into_iter()
            .try_for_each(|(actor, _)| self.add(actor))
    }

    /// The key of the actor of this id.
    pub fn key_of(&self, actor_id: &str) -> Option<&PublicKey> {
        let by_id = |(known, _): &(ActorFingerprint, PublicKey)| known.actor_id().cmp(actor_id);
        let at = self.0.binary_search_by(by_id).ok()?;
        self.0.get(at).map(|(_, key)| key)
    }

    /// The actors of this key.
    pub fn of_key<'a>(&'a self, key: &'a PublicKey) -> impl Iterator<Item = &'a ActorFingerprint> {
        let pairs = self.0.iter().filter(move |(_, known)| known == key);
        pairs.map(|(actor, _)| actor)
    }

    /// All keys.
    pub fn keys(&self) -> impl Iterator<Item = &PublicKey> {
        self.0.iter().map(|(_, key)| key)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The record with which the actor of the id `by` makes these actors of the run as well.
    pub fn to_record(
        &self,
        run: RunId,
        step_id: impl Into<String>,
        by: impl Into<String>,
        at: Timestamp,
    ) -> StepRecord {
        let payload = object([("actors", self.to_value())]);
        completed(ACTORS_EFFECT, payload, run, step_id, Some(by.into()), at)
    }

    fn to_value(&self) -> Value {
        let members = self.0.iter().map(|(actor, _)| {
            let fingerprint = object([
                ("kind", actor.kind().into()),
                ("display_name", text_or_null(actor.display_name())),
                ("metadata", Value::Object(actor.metadata().to_vec())),
            ]);
            (actor.actor_id().into(), fingerprint)
        });
        Value::Object(members.collect())
    }

    fn from_value(value: &Value) -> Result<Self, Error> {
        let wrong = |what: &str| Error::invalid(format!("`actors` {what}"));
        let members = value.as_object().ok_or_else(|| wrong("is not an object"))?;
        let mut actors = Self::default();
        for (id, fingerprint) in members {
            let text = |name: &str| fingerprint.get(name).and_then(Value::as_str);
            let kind = text("kind").ok_or_else(|| wrong("name no kind"))?;
            let shown = fingerprint.get("display_name");
            if shown.is_some_and(|shown| !shown.is_null() && shown.as_str().is_none()) {
                return Err(wrong("show a name that is no text"));
            }
            let metadata = fingerprint.get("metadata").and_then(Value::as_object);
            let actor = ActorFingerprint::new(
                kind,
                text("display_name").map(str::to_owned),
                metadata.unwrap_or_default().to_vec(),
            )
            .map_err(|_| wrong("hold a lone surrogate"))?;
            if *id != *actor.actor_id() {
                return Err(wrong(
                    "name an id that is not the digest of its fingerprint",
                ));
            }
            actors.add(actor)?;
        }
        Ok(actors)
    }
}

/// The run that started this one, and where its ledger ended then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    /// The run.
    pub run_id: RunId,
    /// The hash of its last record then, if it was chained.
    pub head: Option<Digest>,
}

/// The facts to which the first record binds a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Genesis {
    /// 32 random bytes: no two ledgers have the same, also not of one run id.
    pub record: RecordId,
    /// Which workflow runs.
    pub workflow_id: Option<String>,
    /// The digest of the workflow's definition.
    pub workflow_sha256: Option<Digest>,
    /// The digest of the workflow's inputs.
    pub inputs_sha256: Option<Digest>,
    /// The run that started it.
    pub parent: Option<Parent>,
    /// The actors that may sign; with any, every record must be signed.
    pub actors: Actors,
    /// When the ledger began, by the clock of its creator.
    pub created_at: Timestamp,
}

impl Genesis {
    /// The beginning of a ledger with no other declarations. `record` must be random.
    pub fn new(record: RecordId, created_at: Timestamp) -> Self {
        Self {
            record,
            workflow_id: None,
            workflow_sha256: None,
            inputs_sha256: None,
            parent: None,
            actors: Actors::default(),
            created_at,
        }
    }

    /// The first record of the ledger of `run`, by the actor of the id `by`.
    pub fn to_record(
        &self,
        run: RunId,
        step_id: impl Into<String>,
        by: Option<String>,
    ) -> StepRecord {
        let digest =
            |digest: &Option<Digest>| text_or_null(digest.map(|digest| digest.to_hex()).as_deref());
        let parent = self.parent.as_ref().map_or(Value::Null, |parent| {
            object([
                ("run_id", parent.run_id.as_str().into()),
                ("head", digest(&parent.head)),
            ])
        });
        let payload = object([
            ("format", FORMAT.into()),
            ("record", self.record.to_hex().into()),
            ("workflow_id", text_or_null(self.workflow_id.as_deref())),
            ("workflow_sha256", digest(&self.workflow_sha256)),
            ("inputs_sha256", digest(&self.inputs_sha256)),
            ("parent", parent),
            ("actors", self.actors.to_value()),
            ("created_at", self.created_at.to_python_text().into()),
        ]);
        completed(GENESIS_EFFECT, payload, run, step_id, by, self.created_at)
    }

    fn from_payload(payload: &Value) -> Result<Self, Error> {
        let wrong =
            |name: &str| Error::invalid(format!("`{name}` of the first record is not valid"));
        let text = |of: &Value, name: &str| match of.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value
                .as_str()
                .map(str::to_owned)
                .map(Some)
                .ok_or_else(|| wrong(name)),
        };
        let digest = |of: &Value, name: &str| {
            let text = text(of, name)?;
            let read = |text: String| Digest::parse_hex(&text).ok_or_else(|| wrong(name));
            text.map(read).transpose()
        };
        if text(payload, "format")?.as_deref() != Some(FORMAT) {
            return Err(wrong("format"));
        }
        let record = text(payload, "record")?.and_then(|hex| RecordId::parse_hex(&hex));
        let created = text(payload, "created_at")?.and_then(|at| Timestamp::parse_rfc3339(&at));
        let parent = payload.get("parent").filter(|parent| !parent.is_null());
        Ok(Self {
            record: record.ok_or_else(|| wrong("record"))?,
            workflow_id: text(payload, "workflow_id")?,
            workflow_sha256: digest(payload, "workflow_sha256")?,
            inputs_sha256: digest(payload, "inputs_sha256")?,
            parent: parent
                .map(|parent| {
                    let run_id = text(parent, "run_id")?.ok_or_else(|| wrong("parent"))?;
                    Ok::<_, Error>(Parent {
                        run_id: RunId::parse(&run_id)?,
                        head: digest(parent, "head")?,
                    })
                })
                .transpose()?,
            actors: match payload.get("actors") {
                None | Some(Value::Null) => Actors::default(),
                Some(actors) => Actors::from_value(actors)?,
            },
            created_at: created.ok_or_else(|| wrong("created_at"))?,
        })
    }
}

/// The declaration in a record about its own ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Declaration {
    /// It is the beginning of one.
    Genesis(Box<Genesis>),
    /// Further actors may sign from here on.
    Actors(Actors),
    /// Records before it are beginnings that came too late.
    LaterBeginnings(LaterBeginnings),
}

impl Declaration {
    /// The declaration in `record`, if it is a declaring record.
    ///
    /// # Errors
    /// Kind `InvalidInput` when it is a declaring record that cannot be read.
    pub fn of(record: &Value) -> Result<Option<Self>, Error> {
        let Some(effect) = record.get("effect") else {
            return Ok(None);
        };
        let payload = effect.get("payload").unwrap_or(&Value::Null);
        match effect.get("type").and_then(Value::as_str) {
            Some(GENESIS_EFFECT) => {
                let genesis = Genesis::from_payload(payload)?;
                Ok(Some(Self::Genesis(Box::new(genesis))))
            }
            Some(ACTORS_EFFECT) => {
                let actors = payload.get("actors").unwrap_or(&Value::Null);
                Ok(Some(Self::Actors(Actors::from_value(actors)?)))
            }
            Some(BEGINNINGS_EFFECT) => {
                let later = LaterBeginnings::from_payload(payload)?;
                Ok(Some(Self::LaterBeginnings(later)))
            }
            _ => Ok(None),
        }
    }
}

pub(super) fn completed(
    kind: &str,
    payload: Value,
    run: RunId,
    step_id: impl Into<String>,
    by: Option<String>,
    at: Timestamp,
) -> StepRecord {
    let effect = Effect::new(kind, payload);
    let mut record = StepRecord::start(run, step_id, kind, Some(effect), at);
    record.actor_id = by;
    record.finish_success(None, at);
    record
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadseal_core::testing::{key, micros};

    fn actor(seed: u8, name: &str) -> ActorFingerprint {
        ActorFingerprint::for_key("agent", Some(name.into()), Vec::new(), &key(seed)).unwrap()
    }

    fn genesis() -> Genesis {
        let at = micros(1_700_000_000_000_001);
        let mut genesis = Genesis::new(RecordId::from_bytes([7; 32]), at);
        genesis.workflow_id = Some("w".into());
        genesis.inputs_sha256 = Some(Digest::of(b"in"));
        genesis.parent = Some(Parent {
            run_id: RunId::parse("parent").unwrap(),
            head: Some(Digest::of(b"head")),
        });
        genesis.actors.add(actor(1, "one")).unwrap();
        genesis.actors.add(actor(2, "two")).unwrap();
        genesis
    }

    fn declared(record: &StepRecord) -> Result<Option<Declaration>, Error> {
        Declaration::of(&record.to_value())
    }

    #[test]
    fn a_beginning_comes_back_as_it_was_written() {
        let genesis = genesis();
        let record = genesis.to_record(RunId::parse("r").unwrap(), "s", None);
        let back = declared(&record).unwrap();
        assert_eq!(back, Some(Declaration::Genesis(Box::new(genesis))));
        assert!(StepRecord::from_value(record.to_value()).is_ok());
        let step = StepRecord::start(record.run_id, "s", "n", None, micros(0));
        assert_eq!(declared(&step), Ok(None));
    }

    // T-LED-27
    #[test]
    fn actors_who_join_are_read_and_each_id_is_computed_again() {
        let mut actors = Actors::default();
        actors.add(actor(3, "three")).unwrap();
        let record = actors.to_record(RunId::parse("r").unwrap(), "s", "ar_x", micros(0));
        let joined = Declaration::Actors(actors.clone());
        assert_eq!(declared(&record), Ok(Some(joined)));
        let (key, other) = (key(3), key(4));
        let id = actor(3, "three").actor_id().to_owned();
        assert_eq!(actors.key_of(&id), Some(&key));
        assert_eq!(actors.of_key(&key).count(), 1);
        assert_eq!(actors.key_of("ar_x"), None);

        // An attacker who puts another key under an id must find a fingerprint with the same
        // digest.
        let text = String::from_utf8(record.to_line().unwrap()).unwrap();
        let text = text.replace(&key.to_did_key(), &other.to_did_key());
        let forged = threadseal_core::canon::json::parse(text.as_bytes()).unwrap();
        assert!(Declaration::of(&forged).is_err());
    }

    #[test]
    fn an_actor_without_a_key_is_none_of_a_signed_ledger() {
        let keyless = ActorFingerprint::new("agent", None, Vec::new()).unwrap();
        assert!(Actors::default().add(keyless).is_err());
    }

    #[test]
    fn a_beginning_that_is_not_one_is_told() {
        let line = genesis()
            .to_record(RunId::parse("r").unwrap(), "s", None)
            .to_line()
            .unwrap();
        let line = String::from_utf8(line).unwrap();
        for (from, to) in [
            ("threadseal-ledger/1", "threadseal-ledger/9"),
            ("\"workflow_id\":\"w\"", "\"workflow_id\":1"),
            ("\"kind\":\"agent\"", "\"kind\":null"),
            (&*"07".repeat(32), "07"),
        ] {
            let spoiled = line.replace(from, to);
            assert_ne!(spoiled, line);
            let value = threadseal_core::canon::json::parse(spoiled.as_bytes()).unwrap();
            assert!(Declaration::of(&value).is_err(), "{from}");
        }
    }
}
