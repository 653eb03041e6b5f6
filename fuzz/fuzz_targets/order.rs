//! Orders for workers.
//!
//! * An order has one text.
//! * What its giver signs is read, as it was signed, and begins one record.
//! * A worker takes it of a key that it names and trusts, in its row and its database.
//! * An order begins after it was given, and before it expires.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use threadseal_core::key::{KeyId, KeyUsage, LocalSigner, PrivateKey, Signer as _};
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{Trust, TrustName, TrustStore, TrustedKey};
use threadseal_runtime::project::ProjectId;
use threadseal_runtime::signed_order::{OrderGrounds, OrderLine, SignedOrder};

static GIVER: LazyLock<LocalSigner> =
    LazyLock::new(|| LocalSigner::new(PrivateKey::from_seed([1; 32]), KeyUsage::Native));

static TRUST: LazyLock<Trust> = LazyLock::new(|| {
    let name = TrustName::parse("giver").expect("a name");
    let mut store = TrustStore::new();
    store
        .add(TrustedKey::new(name, *GIVER.public_key(), [KeyUsage::Native]))
        .expect("one key");
    Trust::new(store)
});

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Some(read) = SignedOrder::read(text) {
        assert_eq!(read.text(), text);
        // The seeds are of another key than the giver.
        assert!(verified(read, &[GIVER.public_key().key_id()], 0, 0).is_none());
    }
    let value = serde_json::from_str(text).ok();
    let Some(line) = value.as_ref().and_then(OrderLine::read) else {
        return;
    };
    let Ok(signed) = SignedOrder::sign(line, &*GIVER) else {
        return;
    };
    let read = SignedOrder::read(signed.text()).expect("what is signed is read");
    assert_eq!((read.text(), read.record()), (signed.text(), signed.record()));
    let again = SignedOrder::sign(read.line().clone(), &*GIVER).expect("it was signed before");
    assert_eq!(again.text(), signed.text());
    judged(&read);
});

/// Judges an order of the giver under other grounds, one by one.
fn judged(order: &SignedOrder) {
    let giver = [GIVER.public_key().key_id()];
    let (row, after) = order.line().from().map_or((0, 0), |from| (from.order, from.after));
    let token = after.saturating_add(1);
    assert!(verified(order.clone(), &[], row, token).is_none());
    if order.line().from().is_some() {
        assert!(verified(order.clone(), &giver, row.wrapping_add(1), token).is_none());
        assert!(verified(order.clone(), &giver, row, after).is_none());
    }
    // A trust store may bound the threads of a key, this one does not.
    let taken = verified(order.clone(), &giver, row, token).expect("in its row, of its giver");
    assert_eq!(taken.record(), order.record());
    assert!(!taken.is_spent(token));
    let (given, expires) = (order.line().given, order.line().expires);
    assert_eq!(taken.may_begin(given).is_ok(), given < expires);
    assert!(taken.may_begin(expires).is_err());
    let other = OrderLine {
        database: other(order.line().database),
        ..order.line().clone()
    };
    let other = SignedOrder::sign(other, &*GIVER).expect("as well as the first");
    assert_ne!(other.record(), order.record());
    let grounds = grounds(&giver, row, token, order.line().database);
    assert!(other.verify(&grounds).is_err());
}

fn verified(
    order: SignedOrder,
    keys: &[KeyId],
    row: i64,
    token: u64,
) -> Option<threadseal_runtime::signed_order::VerifiedOrder> {
    let database = order.line().database;
    order.verify(&grounds(keys, row, token, database)).ok()
}

fn grounds(keys: &[KeyId], row: i64, token: u64, database: ProjectId) -> OrderGrounds<'_> {
    OrderGrounds {
        keys,
        trust: &TRUST,
        now: Timestamp::from_micros(1_800_000_000_000_000).expect("in range"),
        database,
        row,
        token,
    }
}

/// Another database.
fn other(database: ProjectId) -> ProjectId {
    let text = database.to_string();
    let first = if text.starts_with('0') { "1" } else { "0" };
    ProjectId::parse(&format!("{first}{}", &text[1..])).expect("as long as before")
}
