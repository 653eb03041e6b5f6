//! [`SignedOrder`]: the line that an order's row contains, signed by the key that gives it.
//!
//! ```text
//! {"continues":null | {"after":TOKEN,"head":HEAD,"last":THREAD,"message":TEXT,"thread":THREAD}
//!                   | {"after":TOKEN,"head":HEAD,"last":RUN,"unresolved":WORD}
//!                   | {"after":TOKEN,"head":HEAD,"last":THREAD},
//!  "database":HEX,"expires":TIME,"given":TIME,"inputs":{…},"item":ID,"item_sha256":HEX,
//!  "kind":"run" | "graph" | "resume" | "handoff" | "graph_resume" | "adopt","limits":{…},"nonce":HEX,
//!  "order":null | N,"public":HEX,"signature":BASE64,"type":"threadseal/1 order"}
//! signature   by `public`, over tagged("threadseal/1 order", [the object without `signature`])
//! record      tagged("threadseal/1 order record", [the line]): the record of the thread
//! ```
//! RFC 8785, so each order has one text: a member that is unknown, doubled or spelt otherwise makes
//! it none. The record of the thread follows from the line. So one line never begins two threads,
//! and its giver recognises the result. An order that is given again has the number of its
//! row and its token then, `after`: only holders of a higher token are workers of it.
//!
//! Normative: `spec/runtime.md`, "Many machines".

use crate::bounds::{MAX_ORDER_BYTES, MAX_ORDER_LEAD, MAX_ORDER_LIFETIME, MAX_TAKEOVERS};
use crate::dynamic::dynamic;
use crate::item::ItemId;
use crate::limit::Limits;
use crate::project::ProjectId;
use serde_json::{Map, Value, json};
use threadseal_core::canon::{jcs, json as strict};
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::error::Error;
use threadseal_core::key::{KeyId, KeyUsage, Message, PublicKey, Signature, Signer};
use threadseal_core::record::{Head, RecordId, ThreadId};
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{Purpose, ScopeFormat, Standing, Trust};

const TAG: &str = "threadseal/1 order";
const RECORD_TAG: &str = "threadseal/1 order record";
const ADOPT: &str = "adopt";

/// Largest integer that every double holds exactly.
const MAX_EXACT_INTEGER: u64 = 1 << 53;
/// The same as a double.
const MAX_EXACT_DOUBLE: f64 = 9_007_199_254_740_992.0;
/// From here on RFC 8785 spells a double with an exponent; a smaller whole one is spelt as an integer.
const LEAST_WITH_EXPONENT: f64 = 1e21;

/// A line whose signature is valid. It does not prove that its key may give orders.
#[derive(Debug, Clone, PartialEq)]
pub struct SignedOrder {
    order: OrderLine,
    public: PublicKey,
    text: String,
}

/// The content of a line.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderLine {
    /// The database that the order was given to.
    pub database: ProjectId,
    /// When, to the second.
    pub given: Timestamp,
    /// Nothing of it begins from this moment on.
    pub expires: Timestamp,
    /// The directive or the graph.
    pub item: ItemId,
    /// Its file.
    pub item_sha256: Digest,
    /// Its inputs.
    pub inputs: Map<String, Value>,
    /// The highest limits of its thread.
    pub limits: Limits,
    /// What is to be done.
    pub task: Task,
    /// Random: no two orders are alike.
    pub nonce: [u8; 16],
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Task {
    /// A new thread.
    Run,
    /// A new run of a graph.
    Graph,
    /// A thread that continues another.
    GoOn(GoOn),
    /// A run that continues another.
    WalkOn(WalkOn),
    /// A thread that takes over the conversation and the end of one of Rye's.
    Adopt(From),
}

/// A thread that continues another.
#[derive(Debug, Clone, PartialEq)]
pub struct GoOn {
    /// Any thread of the chain.
    pub thread: ThreadId,
    /// How it is continued.
    pub way: ResumeMode,
    /// The next instruction.
    pub message: String,
    /// The end from which it continues.
    pub from: From,
}

/// A run that continues another.
#[derive(Debug, Clone, PartialEq)]
pub struct WalkOn {
    /// The decision about unresolved calls.
    pub unresolved: Unresolved,
    /// The end from which it continues.
    pub from: From,
}

/// How a thread is continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResumeMode {
    /// By a successor with the whole conversation.
    Resume,
    /// By a successor with the part that fits, and a summary where one is configured.
    HandOver,
}

impl ResumeMode {
    /// Its word in an order.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Resume => "resume",
            Self::HandOver => "handoff",
        }
    }

    /// The way of a word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Resume, Self::HandOver]
            .into_iter()
            .find(|way| way.as_str() == word)
    }
}

/// The decision about unresolved calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unresolved {
    /// Name them, and do nothing.
    #[default]
    Refuse,
    /// They count as made, without a result.
    Skip,
    /// They count as failed.
    Fail,
}

impl Unresolved {
    /// Its word in an order.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Skip => "skip",
            Self::Fail => "fail",
        }
    }

    /// The decision of a word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Refuse, Self::Skip, Self::Fail]
            .into_iter()
            .find(|decided| decided.as_str() == word)
    }
}

/// The end from which an order continues.
#[derive(Debug, Clone, PartialEq)]
pub struct From {
    /// The row of the order, which is given again.
    pub order: i64,
    /// Its token at that time.
    pub after: u64,
    /// The thread at which the chain ended.
    pub last: ThreadId,
    /// The seal with which its record ended.
    pub head: Head,
}

/// By what a worker judges a line.
#[derive(Debug)]
pub struct OrderGrounds<'a> {
    /// The keys whose orders it carries out.
    pub keys: &'a [KeyId],
    /// Whose signatures count.
    pub trust: &'a Trust,
    /// The time of the worker.
    pub now: Timestamp,
    /// The database of the worker.
    pub database: ProjectId,
    /// The number of the row in which the line was found.
    pub row: i64,
    /// The token of that row.
    pub token: u64,
}

/// An order that this worker may carry out, from the row in which it was found.
#[derive(Debug)]
pub struct VerifiedOrder {
    order: OrderLine,
    record: RecordId,
}

impl SignedOrder {
    /// Signs an order.
    ///
    /// # Errors
    /// Kind `InvalidInput` when it is too long, lasts too long, or contains a number that no double
    /// holds exactly; those of the signer.
    pub fn sign(order: OrderLine, signer: &dyn Signer) -> Result<Self, Error> {
        let order = OrderLine {
            given: order.given.floor_to_second(),
            expires: order.expires.floor_to_second(),
            ..order
        };
        order.check()?;
        let public = *signer.public_key();
        let none = || Error::invalid("the order has no canonical text");
        let signed = order.text(&public, None).ok_or_else(none)?;
        let signature = signer.sign(&Message::tagged(TAG, &[signed.as_bytes()]))?;
        let text = order.text(&public, Some(&signature)).ok_or_else(none)?;
        if text.len() > MAX_ORDER_BYTES {
            return Err(Error::invalid(format!(
                "an order has at most {MAX_ORDER_BYTES} bytes, and this one has {}",
                text.len()
            )));
        }
        Ok(Self {
            order,
            public,
            text,
        })
    }

    /// Reads a line, and verifies its signature. None for anything else.
    pub fn read(text: &str) -> Option<Self> {
        if text.len() > MAX_ORDER_BYTES {
            return None;
        }
        let value = dynamic(&strict::parse(text.as_bytes()).ok()?).ok()?;
        let order = OrderLine::read(&value)?;
        let public = PublicKey::from_hex(value["public"].as_str()?).ok()?;
        let signature = encoding::parse_base64(value["signature"].as_str()?)?;
        let signature = Signature::from_slice(&signature)?;
        let signed = order.text(&public, None)?;
        let holds = order.check().is_ok()
            && order.text(&public, Some(&signature))? == text
            && public
                .verify(&Message::tagged(TAG, &[signed.as_bytes()]), &signature)
                .is_ok();
        holds.then(|| Self {
            order,
            public,
            text: text.to_owned(),
        })
    }

    /// Its content.
    pub fn line(&self) -> &OrderLine {
        &self.order
    }

    /// The line.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The record of the thread that the order begins.
    pub fn record(&self) -> RecordId {
        RecordId::from_bytes(*Digest::tagged(RECORD_TAG, &[self.text.as_bytes()]).as_bytes())
    }

    /// May a worker carry it out, in the row where it was found?
    ///
    /// # Errors
    /// Kind `Refused`, with the reason.
    pub fn verify(self, grounds: &OrderGrounds<'_>) -> Result<VerifiedOrder, Error> {
        let refuse = |why: String| Err(Error::refused(why));
        let (id, order) = (self.public.key_id(), &self.order);
        if !grounds.keys.contains(&id) {
            return refuse(format!(
                "this worker takes no orders of key {id}; hint: threadseal worker --orders-from {id}"
            ));
        }
        let thread = order.thread();
        let purpose = Purpose {
            usage: KeyUsage::Native,
            format: ScopeFormat::Json,
            thread: Some(&thread),
            evidence: None,
            heads: &[],
        };
        let judged = grounds.trust.judge(&self.public, &purpose, grounds.now);
        if !judged.standing.counts() {
            return refuse(format!(
                "key {id} may not give it: {}",
                words(&judged.standing)
            ));
        }
        if order.database != grounds.database {
            return refuse("it was given to another database".to_owned());
        }
        if let Some(from) = order.from() {
            if from.order != grounds.row {
                return refuse(format!("it is order {}, in another row", from.order));
            }
            if grounds.token <= from.after {
                return refuse("the token of its row is lower than when it was given".to_owned());
            }
        }
        let record = self.record();
        Ok(VerifiedOrder {
            order: self.order,
            record,
        })
    }
}

impl OrderLine {
    /// The end from which it continues.
    pub fn from(&self) -> Option<&From> {
        match &self.task {
            Task::Run | Task::Graph => None,
            Task::GoOn(task) => Some(&task.from),
            Task::WalkOn(task) => Some(&task.from),
            Task::Adopt(from) => Some(from),
        }
    }

    /// The thread for which its key must be trusted.
    fn thread(&self) -> String {
        match self.from() {
            Some(from) => from.last.as_str().to_owned(),
            None => format!("{}-{}", self.item, self.given.as_micros() / 1000),
        }
    }

    /// Is it one that workers take?
    fn check(&self) -> Result<(), Error> {
        let lasts = self.expires.as_micros().checked_sub(self.given.as_micros());
        if lasts.is_none_or(|lasts| u128::from(lasts) > MAX_ORDER_LIFETIME.as_micros()) {
            return Err(Error::invalid(format!(
                "an order expires after it was given, and at most {} days later",
                MAX_ORDER_LIFETIME.as_secs() / 86_400
            )));
        }
        let limits = self.limits.to_json();
        let from = self.from().map(|from| json!([from.order, from.after]));
        let inputs = self.inputs.values().all(is_exact);
        match inputs && is_exact(&limits) && from.as_ref().is_none_or(is_exact) {
            true => Ok(()),
            false => Err(Error::invalid(
                "an order contains no integer beyond 2^53; hint: give it as text",
            )),
        }
    }

    /// Its only text, without the signature what is signed.
    fn text(&self, public: &PublicKey, signature: Option<&Signature>) -> Option<String> {
        let (kind, continues) = match &self.task {
            Task::Run => ("run", Value::Null),
            Task::Graph => ("graph", Value::Null),
            Task::GoOn(GoOn {
                thread,
                way,
                message,
                from,
            }) => (
                way.as_str(),
                json!({"after": from.after, "head": from.head.to_string(), "last": from.last.as_str(),
                       "message": message, "thread": thread.as_str()}),
            ),
            Task::WalkOn(WalkOn { unresolved, from }) => (
                "graph_resume",
                json!({"after": from.after, "head": from.head.to_string(), "last": from.last.as_str(),
                       "unresolved": unresolved.as_str()}),
            ),
            Task::Adopt(from) => (
                ADOPT,
                json!({"after": from.after, "head": from.head.to_string(), "last": from.last.as_str()}),
            ),
        };
        let mut order = json!({
            "continues": continues,
            "database": self.database.to_string(),
            "expires": self.expires.to_iso_seconds(),
            "given": self.given.to_iso_seconds(),
            "inputs": self.inputs,
            "item": self.item.as_str(),
            "item_sha256": self.item_sha256.to_hex(),
            "kind": kind,
            "limits": self.limits.to_json(),
            "nonce": encoding::hex(&self.nonce),
            "order": self.from().map(|from| from.order),
            "public": public.to_hex(),
            "type": TAG,
        });
        if let Some(signature) = signature {
            order["signature"] = encoding::base64(signature.as_bytes()).into();
        }
        String::from_utf8(jcs::canonicalize(order.to_string().as_bytes()).ok()?).ok()
    }

    /// The content of an object; what it lacks or has besides shows in its text.
    pub fn read(value: &Value) -> Option<Self> {
        let text = |name: &str| value[name].as_str();
        let task = match text("kind")? {
            "run" => Task::Run,
            "graph" => Task::Graph,
            kind => continuation(kind, value)?,
        };
        Some(Self {
            database: ProjectId::parse(text("database")?)?,
            given: Timestamp::parse_iso_seconds(text("given")?)?,
            expires: Timestamp::parse_iso_seconds(text("expires")?)?,
            item: ItemId::parse(text("item")?).ok()?,
            item_sha256: Digest::parse_hex(text("item_sha256")?)?,
            inputs: value["inputs"].as_object()?.clone(),
            limits: Limits::from_json(&value["limits"]).ok()?,
            task,
            nonce: encoding::parse_hex_array(text("nonce")?)?,
        })
    }
}

fn continuation(kind: &str, value: &Value) -> Option<Task> {
    let continues = &value["continues"];
    let text = |name: &str| continues[name].as_str();
    let from = From {
        order: value["order"].as_i64()?,
        after: continues["after"].as_u64()?,
        last: ThreadId::parse(text("last")?).ok()?,
        head: Head::parse(text("head")?)?,
    };
    if kind == ADOPT {
        return Some(Task::Adopt(from));
    }
    if kind == "graph_resume" {
        let unresolved = Unresolved::parse(text("unresolved")?)?;
        return Some(Task::WalkOn(WalkOn { unresolved, from }));
    }
    Some(Task::GoOn(GoOn {
        thread: ThreadId::parse(text("thread")?).ok()?,
        way: ResumeMode::parse(kind)?,
        message: text("message")?.to_owned(),
        from,
    }))
}

/// Why a key does not count.
fn words(standing: &Standing) -> String {
    match standing {
        Standing::Trusted | Standing::Pinned => "it counts".to_owned(),
        Standing::NotPinned => "only other keys are pinned".to_owned(),
        Standing::Unknown => "the trust store does not contain it".to_owned(),
        Standing::Revoked { reason, .. } => format!("it was revoked: {reason}"),
        Standing::OutOfScope { why } | Standing::Expired { why } => why.clone(),
    }
}

/// Does a double hold each integer in it?
fn is_exact(value: &Value) -> bool {
    match value {
        Value::Number(number) => {
            let whole = number.as_u64().or(number.as_i64().map(i64::unsigned_abs));
            let double = number.as_f64().map_or(f64::INFINITY, f64::abs);
            match whole {
                Some(whole) => whole <= MAX_EXACT_INTEGER,
                None => double <= MAX_EXACT_DOUBLE || double >= LEAST_WITH_EXPONENT,
            }
        }
        Value::Array(values) => values.iter().all(is_exact),
        Value::Object(members) => members.values().all(is_exact),
        _ => true,
    }
}

impl VerifiedOrder {
    /// The content of its line.
    pub fn line(&self) -> &OrderLine {
        &self.order
    }

    /// The record of its thread.
    pub fn record(&self) -> RecordId {
        self.record
    }

    /// Were too many workers lost over it?
    pub fn is_spent(&self, token: u64) -> bool {
        let after = self.order.from().map_or(0, |from| from.after);
        token.saturating_sub(after) > MAX_TAKEOVERS
    }

    /// May its thread begin now? A thread that has begun continues after that, too.
    ///
    /// # Errors
    /// Kind `Refused` before it was given, and from its expiry on.
    pub fn may_begin(&self, now: Timestamp) -> Result<(), Error> {
        let (given, expires) = (self.order.given, self.order.expires);
        if given.as_micros().saturating_sub(now.as_micros()) > MAX_ORDER_LEAD.as_secs() * 1_000_000
        {
            return Err(Error::refused(format!(
                "it was given at {}, which is in the future here",
                given.to_iso_seconds()
            )));
        }
        match now < expires {
            true => Ok(()),
            false => Err(Error::refused(format!(
                "it expired at {}; hint: give it again",
                expires.to_iso_seconds()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadseal_core::key::{LocalSigner, PrivateKey};
    use threadseal_core::trust::{TrustName, TrustStore, TrustedKey};

    const NOW: u64 = 1_800_000_000_000_000;

    fn signer(seed: u8) -> LocalSigner {
        LocalSigner::new(PrivateKey::from_seed([seed; 32]), KeyUsage::Native)
    }

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros).unwrap()
    }

    fn line() -> OrderLine {
        let inputs =
            json!({"name": "Ada \u{e9}\u{1f600} \"x\"", "n": 1.5, "list": [1, null, true]});
        OrderLine {
            database: ProjectId::new(RecordId::from_bytes([7; 32])),
            given: at(NOW),
            expires: at(NOW + 60_000_000),
            item: ItemId::parse("demo/greet").unwrap(),
            item_sha256: Digest::of(b"x"),
            inputs: inputs.as_object().unwrap().clone(),
            limits: Limits::from_json(&json!({"turns": 3, "spend": 0.05})).unwrap(),
            task: Task::Run,
            nonce: [9; 16],
        }
    }

    fn from() -> From {
        From {
            order: 5,
            after: 3,
            last: ThreadId::parse("demo/greet-2").unwrap(),
            head: Head {
                record: RecordId::from_bytes([1; 32]),
                seq: 2,
                size: 99,
                line: Digest::of(b"y"),
            },
        }
    }

    fn adopting() -> OrderLine {
        OrderLine {
            task: Task::Adopt(from()),
            ..line()
        }
    }

    fn again() -> OrderLine {
        OrderLine {
            task: Task::GoOn(GoOn {
                thread: ThreadId::parse("demo/greet-1").unwrap(),
                way: ResumeMode::HandOver,
                message: "Go\non.".to_owned(),
                from: from(),
            }),
            ..line()
        }
    }

    fn trust(keys: &[&LocalSigner]) -> Trust {
        let mut store = TrustStore::new();
        for (number, key) in keys.iter().enumerate() {
            let name = TrustName::parse(&format!("k{number}")).unwrap();
            let key = TrustedKey::new(name, *key.public_key(), [KeyUsage::Native]);
            store.add(key).unwrap();
        }
        Trust::new(store)
    }

    fn grounds<'a>(keys: &'a [KeyId], trust: &'a Trust) -> OrderGrounds<'a> {
        OrderGrounds {
            keys,
            trust,
            now: at(NOW),
            database: line().database,
            row: 5,
            token: 4,
        }
    }

    #[test]
    fn an_order_is_read_as_it_was_signed() {
        for line in [line(), again(), adopting()] {
            let made = SignedOrder::sign(line.clone(), &signer(1)).unwrap();
            let read = SignedOrder::read(made.text()).unwrap();
            assert_eq!((&read, &read.order), (&made, &line));
            let canonical = jcs::canonicalize(made.text().as_bytes()).unwrap();
            assert_eq!(canonical, made.text().as_bytes());
            // Another nonce is another record.
            let nonce = [8; 16];
            let other = SignedOrder::sign(OrderLine { nonce, ..line }, &signer(1)).unwrap();
            assert_ne!(other.record(), made.record());
        }
    }

    // T-FLT-23
    #[test]
    fn every_bit_of_an_order_counts() {
        for line in [line(), again(), adopting()] {
            let made = SignedOrder::sign(line, &signer(1)).unwrap();
            let bytes = made.text().as_bytes();
            for at in 0..bytes.len() {
                for bit in 0..8 {
                    let mut other = bytes.to_vec();
                    other[at] ^= 1 << bit;
                    if let Ok(other) = std::str::from_utf8(&other) {
                        assert_eq!(SignedOrder::read(other), None, "byte {at}, bit {bit}");
                    }
                }
            }
        }
    }

    // T-FLT-22
    #[test]
    fn no_member_is_added_left_out_doubled_or_respelt_and_no_key_takes_the_place_of_another() {
        let made = SignedOrder::sign(line(), &signer(1)).unwrap();
        let (mine, other) = (signer(1), signer(2));
        let theirs = SignedOrder::sign(line(), &other).unwrap();
        let (mine, other) = (mine.public_key().to_hex(), other.public_key().to_hex());
        for (from, to) in [
            ("{\"continues\"", "{\"a\":1,\"continues\""),
            ("\"continues\":null,", ""),
            ("\"kind\":\"run\"", "\"kind\":\"run\",\"kind\":\"run\""),
            ("\"kind\":\"run\"", "\"kind\":\"graph\""),
            ("0.05", "0.050"),
            ("\"turns\":3", "\"turns\":\"3\""),
            ("{\"continues\"", " {\"continues\""),
            ("\"order\":null", "\"order\":5"),
            (mine.as_str(), other.as_str()),
        ] {
            let bad = made.text().replacen(from, to, 1);
            assert_ne!(bad, made.text(), "{from}");
            assert_eq!(SignedOrder::read(&bad), None, "{bad}");
        }
        assert!(SignedOrder::read(theirs.text()).is_some());
        let long = format!("{}{}", made.text(), " ".repeat(MAX_ORDER_BYTES));
        assert_eq!(SignedOrder::read(&long), None);
        let observed = LocalSigner::new(PrivateKey::from_seed([1; 32]), KeyUsage::Observed);
        assert!(SignedOrder::sign(line(), &observed).is_err());
    }

    // T-FLT-24
    #[test]
    fn an_order_counts_of_a_named_and_trusted_key_in_its_row_and_time() {
        let (one, two) = (signer(1), signer(2));
        let ids = [one.public_key().key_id()];
        let (both, none) = (trust(&[&one, &two]), trust(&[&two]));
        let refuses = |line: OrderLine, key: &LocalSigner, grounds: OrderGrounds<'_>, why: &str| {
            let signed = SignedOrder::sign(line, key).unwrap();
            let error = signed.verify(&grounds).unwrap_err().to_string();
            assert!(error.contains(why), "{why}: {error}");
        };
        refuses(line(), &two, grounds(&ids, &both), "takes no orders of key");
        refuses(line(), &one, grounds(&ids, &none), "does not contain it");
        let database = ProjectId::new(RecordId::from_bytes([8; 32]));
        let elsewhere = OrderLine { database, ..line() };
        refuses(elsewhere, &one, grounds(&ids, &both), "another database");
        let row = OrderGrounds {
            row: 6,
            ..grounds(&ids, &both)
        };
        refuses(again(), &one, row, "in another row");
        let row = OrderGrounds {
            row: 6,
            ..grounds(&ids, &both)
        };
        refuses(adopting(), &one, row, "in another row");
        let token = OrderGrounds {
            token: 3,
            ..grounds(&ids, &both)
        };
        refuses(again(), &one, token, "is lower");
        let signed = SignedOrder::sign(again(), &one).unwrap();
        let verified = signed.verify(&grounds(&ids, &both)).unwrap();
        assert!(verified.may_begin(at(NOW)).is_ok());
        assert!(verified.may_begin(at(NOW - 299_000_000)).is_ok());
        assert!(verified.may_begin(at(NOW - 301_000_000)).is_err());
        assert!(verified.may_begin(at(NOW + 60_000_000)).is_err());
        assert!(!verified.is_spent(3 + MAX_TAKEOVERS));
        assert!(verified.is_spent(4 + MAX_TAKEOVERS));
    }

    /// A double is spelt as an integer where it is one: the giver signs what a worker reads.
    #[test]
    fn each_number_that_is_signed_is_read() {
        let of = |number: Value| {
            let inputs = json!({"n": [{"m": number}]}).as_object().unwrap().clone();
            SignedOrder::sign(OrderLine { inputs, ..line() }, &signer(1))
        };
        for number in [
            json!(0.0),
            json!(-0.0),
            json!(-1.0),
            json!(0.1),
            json!(5e-324),
            json!(9_007_199_254_740_992.0),
            json!(-9_007_199_254_740_992_i64),
            json!(1e21),
            json!(-1.5e300),
        ] {
            let signed = of(number.clone()).unwrap();
            assert!(SignedOrder::read(signed.text()).is_some(), "{number}");
        }
        for number in [
            json!(9_007_199_254_740_994.0),
            json!(-1e16),
            json!(1e19),
            json!(999e18),
        ] {
            let refused = of(number.clone()).unwrap_err().to_string();
            assert!(refused.contains("beyond 2^53"), "{number}: {refused}");
        }
    }

    #[test]
    fn an_order_that_lasts_too_long_or_holds_an_inexact_number_is_not_given() {
        let month = u64::try_from(MAX_ORDER_LIFETIME.as_micros()).unwrap();
        let until = |micros: u64| {
            let expires = at(micros);
            SignedOrder::sign(OrderLine { expires, ..line() }, &signer(1))
        };
        assert!(until(NOW + month).is_ok());
        assert!(until(NOW + month + 1_000_000).is_err());
        assert!(until(NOW - 1_000_000).is_err());
        let of = |number: u64| {
            let inputs = json!({"n": [{"m": number}]});
            let inputs = inputs.as_object().unwrap().clone();
            SignedOrder::sign(OrderLine { inputs, ..line() }, &signer(1))
        };
        assert!(of(1 << 53).is_ok());
        assert!(of((1 << 53) + 1).is_err());
    }
}
