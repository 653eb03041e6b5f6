//! Records, run states and actors as `AbstractRuntime` writes them, and the bytes that a hash
//! covers.

use super::*;

fn read(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap()
}

fn members(text: &str) -> Vec<(Text, Value)> {
    read(text).as_object().unwrap().to_vec()
}

fn started() -> StepRecord {
    let run = RunId::parse("run-1").unwrap();
    let effect = Effect::new("ask_user", read(r#"{"prompt":"é?","n":1.0}"#)).with_result_key("k");
    let step_id = step_id_from_random([0xff; 16]);
    StepRecord::start(run, step_id, "ask", Some(effect), at(0))
}

fn line(record: &StepRecord) -> String {
    String::from_utf8(record.to_line().unwrap()).unwrap()
}

#[test]
fn a_started_record_has_all_members_in_the_order_of_the_original() {
    assert_eq!(
        line(&started()),
        concat!(
            r#"{"run_id":"run-1","step_id":"ffffffff-ffff-4fff-bfff-ffffffffffff","node_id":"ask","#,
            r#""status":"started","effect":{"type":"ask_user","payload":{"prompt":"é?","n":1.0},"#,
            r#""result_key":"k"},"result":null,"error":null,"#,
            r#""started_at":"2026-11-22T20:30:01+00:00","ended_at":null,"actor_id":null,"#,
            r#""session_id":null,"attempt":1,"idempotency_key":null,"prev_hash":null,"#,
            r#""record_hash":null,"signature":null}"#,
        )
    );
}

#[test]
fn each_way_to_end_a_step_writes_what_the_original_writes() {
    let mut wait = WaitState::new(WaitReason::User);
    wait.choices = Some(vec!["yes".to_owned()]);
    type End<'a> = &'a dyn Fn(&mut StepRecord);
    let ends: [(End<'_>, &str); 4] = [
        (
            &|record| record.finish_success(Some(read(r#"{"a":1}"#)), at(5)),
            r#""result":{"a":1},"error":null"#,
        ),
        (
            &|record| record.finish_failure("why", at(5)),
            r#""result":null,"error":"why""#,
        ),
        (
            &|record| {
                let details = members(r#"{"by":"me","cancelled":"twice"}"#);
                record.finish_cancelled(details, at(5));
            },
            r#""result":{"cancelled":"twice","by":"me"},"error":null"#,
        ),
        (
            &|record| record.finish_waiting(&wait, at(5)),
            concat!(
                r#""result":{"wait":{"reason":"user","wait_key":null,"until":null,"#,
                r#""resume_to_node":null,"result_key":null,"prompt":null,"choices":["yes"],"#,
                r#""allow_free_text":true,"details":null}},"error":null"#
            ),
        ),
    ];
    for (end, written) in ends {
        let mut record = started();
        end(&mut record);
        let line = line(&record);
        assert!(line.contains(written), "{line}");
        let ended = r#""ended_at":"2026-11-22T20:30:01.000005+00:00""#;
        assert!(line.contains(ended), "{line}");
    }
}

#[test]
fn a_record_that_was_read_is_written_as_it_was() {
    let mut record = started();
    record.prev_hash = Some(Digest::of(b"p"));
    record.record_hash = Some(Digest::of(b"r"));
    record.signature = Some("s".to_owned());
    record.extra = members(r#"{"b":1,"a":2}"#);
    let value = record.to_value();
    assert_eq!(StepRecord::from_value(value.clone()), Ok(record));
    let shorter = read(
        r#"{"run_id":"r","step_id":"s","node_id":"n","status":"failed","started_at":"t","effect":{"type":"t","more":[]}}"#,
    );
    let record = StepRecord::from_value(shorter).unwrap();
    assert_eq!(record.attempt, 1);
    assert_eq!(record.effect.unwrap().extra, members(r#"{"more":[]}"#));
}

#[test]
fn what_is_no_record_is_refused_with_the_member_named() {
    let good = started().to_value();
    for (name, value, named) in [
        ("run_id", r#""""#, "run id"),
        ("step_id", "1", "`step_id`"),
        ("node_id", "null", "`node_id`"),
        ("status", r#""gone""#, "`status`"),
        ("effect", "[]", "effect"),
        ("attempt", "-1", "`attempt`"),
        ("error", "{}", "`error`"),
        ("prev_hash", r#""AB""#, "`prev_hash`"),
        ("record_hash", "5", "`record_hash`"),
    ] {
        let Value::Object(mut members) = good.clone() else {
            unreachable!()
        };
        members.retain(|(key, _)| key != name);
        members.push((name.into(), read(value)));
        let error = StepRecord::from_value(Value::Object(members)).unwrap_err();
        assert!(error.to_string().contains(named), "{name}: {error}");
    }
    assert!(StepRecord::from_value(Value::Null).is_err());
}

#[test]
fn a_run_id_may_be_any_text_of_one_line() {
    for good in ["r", "a/../b", "日本 1", &"x".repeat(512)] {
        assert!(RunId::parse(good).is_ok(), "{good}");
    }
    for bad in ["", "a\nb", "a\rb", "a\0b", &"x".repeat(513)] {
        assert!(RunId::parse(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn a_run_state_that_was_read_is_written_as_it_was() {
    let mut run = RunState::new(RunId::parse("r").unwrap(), "w", "n", at(0));
    run.actor_id = Some("ar_1".to_owned());
    run.session_id = Some("s".to_owned());
    run.status = RunStatus::Waiting;
    run.vars = read(r#"{"z":1,"_runtime":{}}"#);
    run.waiting = Some(WaitState::new(WaitReason::Until));
    assert_eq!(RunState::from_value(run.to_value()), Ok(run.clone()));
    let step = run.start_step("s-1", "n", None, at(1));
    assert_eq!(
        (step.actor_id, step.session_id),
        (run.actor_id, run.session_id)
    );
    let unknown = read(
        r#"{"run_id":"r","workflow_id":"w","status":"running","current_node":"n","created_at":"c","updated_at":"u","more":1}"#,
    );
    assert!(RunState::from_value(unknown).is_err());
}

#[test]
fn actor_ids_are_those_of_the_original() {
    for (kind, name, metadata, id) in [
        ("agent", None, "{}", "ar_8c5a3c7d7f2d7f7ef45267f3"),
        (
            "agent",
            None,
            r#"{"owner":"acme","v":1}"#,
            "ar_0e8412312cf666cef2250567",
        ),
        (
            "agent",
            Some("Ünï"),
            r#"{"é":"ü","r":0.1}"#,
            "ar_82d3058d84cab80c05cf852a",
        ),
    ] {
        let name = name.map(str::to_owned);
        let actor = ActorFingerprint::new(kind, name, members(metadata)).unwrap();
        assert_eq!(actor.actor_id(), id);
        assert_eq!(actor.public_key(), None);
    }
}

#[test]
fn an_actor_with_a_key_has_another_id_and_names_the_key() {
    let (one, two) = (key(1), key(2));
    let of = |key: &PublicKey| {
        let other = members(r#"{"public_key":"did:key:zother","v":1}"#);
        ActorFingerprint::for_key("agent", None, other, key).unwrap()
    };
    assert_eq!(of(&one).public_key(), Some(one));
    assert_ne!(of(&one).actor_id(), of(&two).actor_id());
    assert_eq!(of(&one).metadata().len(), 2);
}

#[test]
fn the_hash_covers_all_but_itself_and_the_signature() {
    let record = started();
    let hash = |record: &StepRecord| compute_record_hash(&record.to_value(), None).unwrap();
    let mut same = record.clone();
    same.record_hash = Some(Digest::of(b"x"));
    same.signature = Some("x".to_owned());
    same.prev_hash = Some(Digest::of(b"x"));
    assert_eq!(hash(&same), hash(&record));
    let behind = compute_record_hash(&record.to_value(), Some(&Digest::of(b"x"))).unwrap();
    assert_ne!(behind, hash(&record));
    let mut more = record.clone();
    more.extra = members(r#"{"note":null}"#);
    assert_ne!(hash(&more), hash(&record));
    let float = read(r#"{"n":2048.0}"#);
    let int = read(r#"{"n":2048}"#);
    assert_ne!(
        compute_record_hash(&float, None),
        compute_record_hash(&int, None)
    );
}
