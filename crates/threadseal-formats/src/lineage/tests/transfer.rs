//! igor's messages: reading, writing, refusals.

use super::super::transfer::longest_text;
use super::*;

const CODE: &[u8] = b"\0asm code";
const STATE: &[u8] = b"{\"tick\":55}";

/// A transfer as a node of igor sends it, with the agent's key 3.
fn transfer() -> AgentTransfer {
    let mut header = original(None);
    header.code = Digest::of(CODE);
    let made = Made::igor(header, 3, STATE);
    let receipt = Receipt {
        agent: "counter".to_owned(),
        node: "12D3KooW".to_owned(),
        first_tick: 1,
        last_tick: 55,
        cost: 1370,
        budget_after: 998_630,
        time: NOW,
        signature: vec![1; 64],
    };
    AgentTransfer {
        package: AgentPackage {
            agent: "counter".to_owned(),
            code: Some(CODE.to_vec()),
            code_hash: Some(Digest::of(CODE).as_bytes().to_vec()),
            checkpoint: Some(made.file),
            manifest: Some(b"{}".to_vec()),
            budget: made.header.budget,
            price: made.header.price,
            replay: Some(ReplayData {
                pre_tick_state: Some(b"before".to_vec()),
                tick: 55,
                entries: Some(vec![(1, Some(vec![1, 2])), (3, None)]),
            }),
            receipts: write_receipts(&[receipt]),
            epoch: 1,
            generation: 2,
            identity: identity(3).to_file(),
        },
        source: "12D3KooWsource".to_owned(),
    }
}

fn identity(seed: u8) -> AgentIdentity {
    AgentIdentity::new(PrivateKey::from_seed([seed; 32]), IdentityForm::Igor)
}

fn checked(transfer: &AgentTransfer) -> Result<CheckedTransfer, TransferFault> {
    let read = AgentTransfer::parse(&transfer.to_json()).unwrap();
    read.check(Some(&key(3)))
}

#[test]
fn a_transfer_of_the_original_is_read_checked_and_written_as_it_was() {
    let sent = transfer();
    let checked = checked(&sent).unwrap();
    assert_eq!(checked.transfer, sent);
    assert_eq!(checked.name.as_str(), "counter");
    assert_eq!(checked.checkpoint.header.tick, 55);
    assert_eq!(checked.identity.unwrap().public_key(), &key(3));
    assert_eq!(checked.receipts.len(), 1);
}

/// The output of `json.NewEncoder(w).Encode(AgentTransfer{…})` of Go 1.24, by its documented rules.
#[test]
fn the_messages_have_the_shape_that_go_writes() {
    let empty = AgentTransfer::default();
    assert_eq!(
        std::str::from_utf8(&empty.to_json()).unwrap(),
        "{\"Package\":{\"AgentID\":\"\",\"WASMBinary\":null,\"WASMHash\":null,\"Checkpoint\":null,\
         \"ManifestData\":null,\"Budget\":0,\"PricePerSecond\":0},\"SourceNodeID\":\"\"}\n"
    );
    let package = AgentPackage {
        agent: "a<b>&\u{2028}\"\\\u{1}\u{8}é".to_owned(),
        code: Some(b"\0asm".to_vec()),
        code_hash: Some(Vec::new()),
        budget: -1,
        replay: Some(ReplayData {
            tick: 7,
            entries: Some(vec![(1, Some(b"x".to_vec())), (8, None)]),
            ..ReplayData::default()
        }),
        receipts: vec![0; 4],
        epoch: 1,
        generation: 2,
        ..AgentPackage::default()
    };
    let full = AgentTransfer {
        package,
        source: String::new(),
    };
    assert_eq!(
        std::str::from_utf8(&full.to_json()).unwrap(),
        "{\"Package\":{\"AgentID\":\"a\\u003cb\\u003e\\u0026\\u2028\\\"\\\\\\u0001\\bé\",\
         \"WASMBinary\":\"AGFzbQ==\",\"WASMHash\":\"\",\"Checkpoint\":null,\"ManifestData\":null,\
         \"Budget\":-1,\"PricePerSecond\":0,\
         \"ReplayData\":{\"PreTickState\":null,\"TickNumber\":7,\
         \"Entries\":[{\"HostcallID\":1,\"Payload\":\"eA==\"},{\"HostcallID\":8,\"Payload\":null}]},\
         \"Receipts\":\"AAAAAA==\",\"MajorVersion\":1,\"LeaseGeneration\":2},\"SourceNodeID\":\"\"}\n"
    );
    assert!(AgentTransfer::parse(&full.to_json()).is_ok());
    let started = AgentStarted {
        agent: "a".to_owned(),
        node: "n".to_owned(),
        success: false,
        error: "no <room>".to_owned(),
    };
    let text = started.to_json();
    assert_eq!(
        text,
        b"{\"AgentID\":\"a\",\"NodeID\":\"n\",\"Success\":false,\"Error\":\"no \\u003croom\\u003e\"}\n"
    );
    assert_eq!(AgentStarted::parse(&text), Ok(started));
}

#[test]
fn a_message_with_anything_else_in_it_is_refused() {
    let text = String::from_utf8(transfer().to_json().to_vec()).unwrap();
    for (from, to) in [
        ("\"Budget\"", "\"budget\""),
        ("\"Budget\":998630", "\"Budget\":998630.5"),
        ("\"Budget\":998630", "\"Budget\":998630,\"Extra\":1"),
        ("\"Budget\":998630", "\"Budget\":998630,\"Budget\":1"),
        ("\"Budget\":998630,", ""),
        ("\"MajorVersion\":1", "\"MajorVersion\":-1"),
        ("\"HostcallID\":1", "\"HostcallID\":65536"),
        ("\"Entries\":[", "\"Entries\":[1,"),
        ("\"WASMHash\":\"", "\"WASMHash\":\" "),
        ("}\n", "}}\n"),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        assert!(AgentTransfer::parse(changed.as_bytes()).is_err(), "{to}");
    }
    assert!(AgentTransfer::parse(b"").is_err());
    assert!(AgentTransfer::parse(b"[]").is_err());
    assert!(AgentStarted::parse(text.as_bytes()).is_err());
}

// T-LIN-15
#[test]
fn a_package_whose_parts_do_not_fit_together_is_not_taken() {
    type Edit = fn(&mut AgentPackage);
    let signature = TransferFault::Checkpoint(LinkFault::Signature);
    let edits: [(TransferFault, Edit); 13] = [
        (TransferFault::Name, |p| p.agent = "../counter".to_owned()),
        (TransferFault::Code, |p| p.code = Some(b"other".to_vec())),
        (TransferFault::Code, |p| p.code_hash = None),
        (TransferFault::Code, |p| {
            p.code = Some(b"other".to_vec());
            p.code_hash = Some(Digest::of(b"other").as_bytes().to_vec());
        }),
        (TransferFault::Differs("budget"), |p| p.budget *= 1000),
        (TransferFault::Differs("price"), |p| p.price = 0),
        (TransferFault::Differs("epoch"), |p| p.epoch = 9),
        (TransferFault::Differs("generation"), |p| p.generation = 0),
        (TransferFault::Identity, |p| {
            p.identity = identity(4).to_file();
        }),
        (TransferFault::Identity, |p| p.identity[40] ^= 1),
        (TransferFault::Receipts, |p| p.receipts = vec![0xff; 4]),
        (TransferFault::Receipts, |p| p.agent = "other".to_owned()),
        (signature, |p| {
            *p.checkpoint.as_mut().unwrap().last_mut().unwrap() ^= 1;
        }),
    ];
    for (fault, edit) in edits {
        let mut changed = transfer();
        edit(&mut changed.package);
        assert_eq!(checked(&changed).err(), Some(fault.clone()), "{fault}");
    }
}

// T-LIN-03
#[test]
fn a_package_of_another_key_or_none_is_not_taken_where_the_key_is_known() {
    let sent = transfer().to_json();
    let read = || AgentTransfer::parse(&sent).unwrap();
    let refused = read().check(Some(&key(4))).err();
    assert_eq!(refused, Some(TransferFault::Signer));
    assert!(read().check(None).is_ok());
    // The downgrade that igor allows: strip the 128 bytes, write 3 in front.
    let mut stripped = transfer();
    let mut file = stripped.package.checkpoint.take().unwrap();
    file.drain(81..209);
    file[0] = 3;
    stripped.package.checkpoint = Some(file);
    assert_eq!(checked(&stripped).err(), Some(TransferFault::Unsigned));
    let message = stripped.to_json();
    assert!(AgentTransfer::parse(&message).unwrap().check(None).is_ok());
}

#[test]
fn a_package_without_the_key_says_so_and_one_with_a_native_checkpoint_is_none() {
    let mut keyless = transfer();
    keyless.package.identity.clear();
    assert!(checked(&keyless).unwrap().identity.is_none());
    let native = Made::native(genesis(1, &writer(1, 1, 0), b""), 1, b"");
    for (checkpoint, fault) in [
        (Some(native.file), HeaderError::Unsupported(5)),
        (None, HeaderError::Empty),
    ] {
        let mut changed = transfer();
        changed.package.checkpoint = checkpoint;
        let fault = TransferFault::Checkpoint(LinkFault::Header(fault));
        assert_eq!(checked(&changed).err(), Some(fault));
    }
}

#[test]
fn a_package_is_made_of_a_checkpoint_and_its_code_or_not_at_all() {
    let sent = transfer().package;
    let file = sent.checkpoint.clone().unwrap();
    let made = AgentPackage::of(&name(), &file, CODE, b"{}").unwrap();
    let expected = AgentPackage {
        replay: None,
        receipts: Vec::new(),
        identity: Default::default(),
        ..sent
    };
    assert_eq!(made, expected);
    let of = |file: &[u8], code: &[u8]| AgentPackage::of(&name(), file, code, b"{}").err();
    assert_eq!(of(&file, b"other"), Some(TransferFault::Code));
    let cut = of(&file[..file.len() - 1], CODE);
    assert!(matches!(cut, Some(TransferFault::Checkpoint(_))));
}

#[test]
fn a_message_never_grows_beyond_what_was_reserved_for_it() {
    let mut sent = transfer();
    sent.source = "<".repeat(1000);
    sent.package.agent = "\u{2028}".repeat(1000);
    let replay = sent.package.replay.as_mut().unwrap();
    replay.entries = Some((0..1000).map(|call| (call, Some(vec![1; 2]))).collect());
    replay.tick = u64::MAX;
    (sent.package.budget, sent.package.price) = (i64::MIN, i64::MIN);
    let message = sent.to_json();
    // A vector that grows leaves a copy of the private key in its old memory.
    assert!(sent.package.longest() + longest_text(&sent.source) >= message.len());
}
