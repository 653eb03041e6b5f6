//! The suite that every store of lineages passes; only for tests.
//!
//! A store's test gives a function that makes an empty place and returns how to open it; opening it
//! twice must give two stores over the same data, as two processes would have.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking and says where, also in its helpers"
)]

use super::migrate::{Confirmed, Imported, Node, PackageExtras};
use super::state::{each_chunk, read_all};
use super::{Advance, CheckpointStore, Newest, Saved, Standings, StateBytes};
use crate::clock::ManualClock;
use crate::random::SeededRandom;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, PublicKey, Signer as _};
use threadseal_formats::lineage::{
    AgentIdentity, AgentName, Certificate, CheckpointHeader, ContentHash, Delegation, Epoch,
    IdentityForm, LinkKind, MediaType, NativeHeader, Standing, StateSeal, Version, seal_original,
};

/// Opens one place again and again.
pub type Opener = Box<dyn Fn() -> Box<dyn CheckpointStore> + Sync>;

/// Runs the whole suite; `fresh` makes an empty place each time it is called.
///
/// # Panics
/// When the store breaks a law.
pub fn run(fresh: &dyn Fn() -> Opener) {
    for law in [
        an_agent_begins_with_its_first_link,
        states_of_every_length_come_back,
        a_link_that_builds_on_another_than_the_newest_changes_nothing,
        a_state_that_was_not_sealed_is_not_saved,
        of_many_writers_one_wins_each_time,
        links_of_every_version_are_kept,
        an_identity_is_never_replaced,
        a_deleted_agent_takes_no_link_but_its_own_history,
        agents_are_listed_in_order_and_in_pages,
        an_agent_moves_and_comes_back,
        a_refusal_needs_no_state,
    ] {
        law(&fresh());
    }
}

/// The agent of the tests.
pub fn agent() -> AgentName {
    AgentName::parse("counter").unwrap()
}

/// A key of the tests; the root is the first.
pub struct Key {
    /// The signer.
    pub signer: LocalSigner,
    certificate: Option<Certificate>,
    clock: ManualClock,
    random: SeededRandom,
}

impl Key {
    /// The root key.
    pub fn root() -> Self {
        Self::new(1)
    }

    /// A session key, or the root where `seed` is 1.
    pub fn new(seed: u8) -> Self {
        let signer = |seed| LocalSigner::new(PrivateKey::from_seed([seed; 32]), KeyUsage::Native);
        let delegated = |key: PublicKey| {
            let window = [0, i64::MAX];
            let made = Delegation::sign(&signer(1), agent(), key, u64::from(seed), window);
            made.unwrap().certificate
        };
        let key = *signer(seed).public_key();
        Self {
            signer: signer(seed),
            certificate: (seed != 1).then(|| delegated(key)),
            clock: ManualClock::default(),
            random: SeededRandom::new(u64::from(seed)),
        }
    }

    /// Its public half.
    pub fn public(&self) -> PublicKey {
        *self.signer.public_key()
    }

    /// A machine with this key.
    pub fn node<'n>(
        &'n self,
        store: &'n dyn CheckpointStore,
        standings: &'n Standings,
    ) -> Node<'n> {
        Node {
            store,
            standings,
            signer: &self.signer,
            certificate: self.certificate,
            clock: &self.clock,
            random: &self.random,
        }
    }
}

/// The first header of an agent of this name.
pub fn genesis(name: &AgentName, state: &[u8]) -> CheckpointHeader {
    CheckpointHeader {
        version: Version::V5,
        budget: 1000,
        price: 1,
        tick: 0,
        code: Digest::of(b"code"),
        epoch: Epoch::default(),
        lease_expiry: 0,
        prev: None,
        signer: None,
        signature: None,
        native: Some(Box::new(NativeHeader {
            kind: LinkKind::Checkpoint,
            seq: 0,
            time: 0,
            state: seal(state),
            transcript: None,
            manifest: None,
            receipts: None,
            parent: None,
            name: name.clone(),
            root: Key::root().public(),
            certificate: None,
        })),
    }
}

/// The seal of a state.
pub fn seal(state: &[u8]) -> StateSeal {
    StateSeal::of(state, MediaType::bytes())
}

/// Begins the agent with this state.
///
/// # Errors
/// Those of the store.
pub fn begin(store: &dyn CheckpointStore, state: &[u8]) -> Result<ContentHash, Error> {
    let (key, standings) = (Key::root(), Standings::new());
    let node = key.node(store, &standings);
    node.begin(
        &agent(),
        genesis(&agent(), state),
        &mut StateBytes::new(state),
    )
}

/// Writes the next checkpoint with this state.
///
/// # Errors
/// Those of the store.
pub fn tick(store: &dyn CheckpointStore, state: &[u8]) -> Result<ContentHash, Error> {
    let (key, standings) = (Key::root(), Standings::new());
    let node = key.node(store, &standings);
    node.checkpoint(
        &agent(),
        seal(state),
        &mut StateBytes::new(state),
        &mut |header| {
            header.tick += 1;
        },
    )
}

/// The state of a link, which must be whole.
pub fn state_of(store: &dyn CheckpointStore, link: &ContentHash) -> Vec<u8> {
    let mut state = store.load(&agent(), link).unwrap().unwrap().state.unwrap();
    read_all(&mut *state, usize::MAX).unwrap()
}

/// All links of the agent, each of them verified after the one before; states too.
pub fn whole_history(store: &dyn CheckpointStore) -> Vec<ContentHash> {
    let (newest, standing) = Standings::new().of(store, &agent()).unwrap();
    assert_eq!(newest.known(), standing.newest());
    let history = store.history(&agent()).unwrap();
    assert_eq!(history.last().copied(), newest.known());
    for link in &history {
        if let Some(mut state) = store.load(&agent(), link).unwrap().unwrap().state {
            each_chunk(&mut *state, &mut |_| Ok(())).unwrap();
        }
    }
    history
}

fn an_agent_begins_with_its_first_link(open: &Opener) {
    let store = open();
    assert_eq!(store.newest(&agent()).unwrap(), Newest::Nothing);
    assert!(store.history(&agent()).unwrap().is_empty());
    let first = begin(&*store, b"one").unwrap();
    assert_eq!(store.newest(&agent()).unwrap(), Newest::Link(first));
    let second = tick(&*store, b"two").unwrap();
    let other = open();
    assert_eq!(other.newest(&agent()).unwrap(), Newest::Link(second));
    assert_eq!(whole_history(&*other), [first, second]);
    assert_eq!(state_of(&*other, &first), b"one");
    assert_eq!(state_of(&*other, &second), b"two");
    assert!(
        other
            .load(&agent(), &ContentHash::of(b"x"))
            .unwrap()
            .is_none()
    );
}

fn states_of_every_length_come_back(open: &Opener) {
    let store = open();
    begin(&*store, b"").unwrap();
    for length in [1, 65_536, 65_537, 300_000, 9 << 20] {
        let state: Vec<u8> = (0..length)
            .map(|at: usize| (at % 251).to_le_bytes()[0])
            .collect();
        let link = tick(&*store, &state).unwrap();
        assert_eq!(state_of(&*store, &link), state);
        assert_eq!(tick(&*store, b"x").map(|_| ()), Ok(()));
        assert_eq!(state_of(&*open(), &link), state);
    }
    assert_eq!(whole_history(&*store).len(), 11);
}

/// A link that may follow the newest one, with its own state.
fn next(store: &dyn CheckpointStore, state: &[u8]) -> Advance {
    let (key, standings) = (Key::root(), Standings::new());
    let (_, standing) = standings.of(store, &agent()).unwrap();
    let (hash, header) = (standing.newest().unwrap(), standing.header().unwrap());
    let writer = threadseal_formats::lineage::Writer {
        key: key.public(),
        certificate: None,
        time: 0,
    };
    let mut header = header.following(hash, &writer).unwrap();
    header.native.as_mut().unwrap().state = seal(state);
    let sealed = threadseal_formats::lineage::seal_native(header, &key.signer).unwrap();
    Advance::of_header(&standing, &sealed.bytes).unwrap()
}

fn a_link_that_builds_on_another_than_the_newest_changes_nothing(open: &Opener) {
    let store = open();
    begin(&*store, b"one").unwrap();
    let late = next(&*store, b"late");
    let second = tick(&*store, b"two").unwrap();
    let answer = store.save(&agent(), &late, &mut StateBytes::new(b"late"));
    assert_eq!(answer.unwrap(), Saved::Differs(Newest::Link(second)));
    assert_eq!(whole_history(&*store).len(), 2);
    // The newest link can be saved again any number of times.
    let third = next(&*store, b"three");
    for _ in 0..2 {
        let answer = store.save(&agent(), &third, &mut StateBytes::new(b"three"));
        assert_eq!(answer.unwrap(), Saved::Stored);
    }
    let other = AgentName::parse("other").unwrap();
    let error = store.save(&other, &third, &mut StateBytes::new(b"three"));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidInput);
}

fn a_state_that_was_not_sealed_is_not_saved(open: &Opener) {
    let store = open();
    let first = begin(&*store, b"one").unwrap();
    let long = vec![7; 200_000];
    for (sealed, given) in [
        (&b"sealed"[..], &b"Sealed"[..]),
        (b"sealed", b"seale"),
        (b"sealed", b"sealed!"),
        (b"sealed", b""),
        (&long, &long[1..]),
    ] {
        let error = store.save(
            &agent(),
            &next(&*store, sealed),
            &mut StateBytes::new(given),
        );
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Refused);
        assert_eq!(store.newest(&agent()).unwrap(), Newest::Link(first));
    }
    // The failed saves left nothing in the way.
    let saved = store.save(&agent(), &next(&*store, &long), &mut StateBytes::new(&long));
    assert_eq!(saved.unwrap(), Saved::Stored);
    assert_eq!(whole_history(&*store).len(), 2);
}

fn of_many_writers_one_wins_each_time(open: &Opener) {
    begin(&*open(), b"0").unwrap();
    let won = AtomicUsize::new(0);
    thread::scope(|scope| {
        for number in 0..4 {
            let won = &won;
            scope.spawn(move || {
                let store = open();
                for _ in 0..5 {
                    let state = format!("{number}");
                    match tick(&*store, state.as_bytes()) {
                        Ok(_) => {
                            won.fetch_add(1, Ordering::SeqCst);
                        }
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Refused, "{error}"),
                    }
                }
            });
        }
    });
    assert_eq!(whole_history(&*open()).len(), 1 + won.into_inner());
}

fn links_of_every_version_are_kept(open: &Opener) {
    let store = open();
    let mut standing = Standing::begin();
    let old = |version, prev| CheckpointHeader {
        version,
        prev,
        native: None,
        ..genesis(&agent(), b"")
    };
    let unsigned = [old(Version::V3, None).encode().unwrap(), b"state".to_vec()].concat();
    let igor = LocalSigner::new(PrivateKey::from_seed([1; 32]), KeyUsage::Igor);
    let mut signed = old(Version::V4, Some(ContentHash::of(&unsigned)));
    signed.signer = Some(*igor.public_key().as_bytes());
    let signed = [
        seal_original(signed, b"state", &igor).unwrap().bytes,
        b"state".to_vec(),
    ]
    .concat();
    for file in [&unsigned, &signed] {
        let advance = Advance::of_file(&standing, &mut StateBytes::new(file)).unwrap();
        let state = &file[file.len() - 5..];
        let saved = store.save(&agent(), &advance, &mut StateBytes::new(state));
        assert_eq!(saved.unwrap(), Saved::Stored);
        standing = advance.standing().clone();
    }
    // A header without its signature, and one with another state, are no links.
    for file in [&signed[..200], &signed[..signed.len() - 1]] {
        assert!(Advance::of_bytes(&standing, file).is_err());
        assert!(Advance::of_file(&standing, &mut StateBytes::new(file)).is_err());
    }
    let (key, standings) = (Key::root(), Standings::new());
    let mut first = genesis(&agent(), b"new");
    first.native.as_mut().unwrap().seq = 2;
    let node = key.node(&*store, &standings);
    node.begin(&agent(), first, &mut StateBytes::new(b"new"))
        .unwrap();
    let history = whole_history(&*store);
    assert_eq!(
        history[..2],
        [ContentHash::of(&unsigned), ContentHash::of(&signed)]
    );
    assert_eq!(state_of(&*store, &history[1]), b"state");
    // From here on nothing older follows.
    let (_, standing) = Standings::new().of(&*store, &agent()).unwrap();
    assert!(Advance::of_bytes(&standing, &signed).is_err());
}

fn an_identity_is_never_replaced(open: &Opener) {
    let store = open();
    assert!(store.load_identity(&agent()).unwrap().is_none());
    let identity = |seed, form| AgentIdentity::new(PrivateKey::from_seed([seed; 32]), form);
    let mine = identity(1, IdentityForm::Igor);
    store.save_identity(&agent(), &mine).unwrap();
    let other = store.save_identity(&agent(), &identity(2, IdentityForm::Pem));
    assert_eq!(other.unwrap_err().kind(), ErrorKind::InvalidInput);
    let loaded = open().load_identity(&agent()).unwrap().unwrap();
    assert_eq!(loaded.public_key(), mine.public_key());
    store.delete_identity(&agent()).unwrap();
    store.delete_identity(&agent()).unwrap();
    assert!(store.load_identity(&agent()).unwrap().is_none());
    store
        .save_identity(&agent(), &identity(2, IdentityForm::Pem))
        .unwrap();
}

fn a_deleted_agent_takes_no_link_but_its_own_history(open: &Opener) {
    let store = open();
    let first = begin(&*store, b"one").unwrap();
    let second = tick(&*store, b"two").unwrap();
    let differs = store.delete(&agent(), &first).unwrap();
    assert_eq!(differs, Saved::Differs(Newest::Link(second)));
    let late = next(&*store, b"three");
    for _ in 0..2 {
        assert_eq!(store.delete(&agent(), &second).unwrap(), Saved::Stored);
        assert_eq!(store.newest(&agent()).unwrap(), Newest::Deleted(second));
    }
    assert!(store.load(&agent(), &first).unwrap().is_none());
    assert!(store.list(None, 9).unwrap().is_empty());
    let saved = store.save(&agent(), &late, &mut StateBytes::new(b"three"));
    assert_eq!(saved.unwrap(), Saved::Differs(Newest::Deleted(second)));
    assert!(begin(&*store, b"again").is_err());
    assert_eq!(open().newest(&agent()).unwrap(), Newest::Deleted(second));
}

fn agents_are_listed_in_order_and_in_pages(open: &Opener) {
    let store = open();
    let mut names: Vec<AgentName> = ["b", "a", "a b", "日本", "Z", "a.b"]
        .map(|name| AgentName::parse(name).unwrap())
        .to_vec();
    let (key, standings) = (Key::root(), Standings::new());
    for name in &names {
        let node = key.node(&*store, &standings);
        node.begin(name, genesis(name, b"s"), &mut StateBytes::new(b"s"))
            .unwrap();
        store
            .save_identity(
                name,
                &AgentIdentity::new(PrivateKey::from_seed([3; 32]), IdentityForm::Igor),
            )
            .unwrap();
    }
    names.sort();
    assert_eq!(store.list(None, 99).unwrap(), names);
    let (mut paged, mut after) = (Vec::new(), None);
    loop {
        let page = store.list(after.as_ref(), 2).unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.clone());
        paged.extend(page);
    }
    assert_eq!(paged, names);
}

fn packed(node: &Node<'_>) -> Vec<u8> {
    let mut package = node.export(&agent(), &PackageExtras::default()).unwrap();
    let mut bytes = Vec::new();
    each_chunk(&mut package, &mut |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    })
    .unwrap();
    assert_eq!(bytes.len() as u64, package.bytes);
    bytes
}

fn an_agent_moves_and_comes_back(open: &Opener) {
    let (here, there) = (open(), super::MemoryCheckpointStore::new());
    let (one, two) = (Key::root(), Key::new(2));
    let standings = Standings::new();
    let (source, target) = (one.node(&*here, &standings), two.node(&there, &standings));
    let state = vec![5; 100_000];
    begin(&*here, b"one").unwrap();
    tick(&*here, &state).unwrap();
    let root = Key::root().public();
    let mut stale = None;
    for (from, to) in [(&source, &target), (&target, &source), (&source, &target)] {
        from.release(&agent(), &to.key()).unwrap();
        assert!(!from.holds(&agent()).unwrap() && !to.holds(&agent()).unwrap());
        let package = packed(from);
        // Cut anywhere, it is nothing, and leaves nothing.
        let before = to.store.newest(&agent()).unwrap();
        for length in [0, 10, 500, package.len() - 1] {
            let cut = to.import(&mut StateBytes::new(&package[..length]), &root);
            assert_eq!(cut.unwrap_err().kind(), ErrorKind::Refused);
        }
        assert_eq!(to.store.newest(&agent()).unwrap(), before);
        let imported = to.import(&mut StateBytes::new(&package), &root).unwrap();
        assert!(matches!(imported, Imported::Offered(_)));
        let again = to.import(&mut StateBytes::new(&package), &root).unwrap();
        assert!(matches!(again, Imported::Waiting(_)));
        let answer = to.accept(&agent()).unwrap();
        assert_eq!(to.accept(&agent()).unwrap(), answer);
        assert!(to.holds(&agent()).unwrap());
        assert_eq!(from.confirm(&answer).unwrap(), Confirmed::Taken(agent()));
        assert_eq!(from.confirm(&answer).unwrap(), Confirmed::Known(agent()));
        let stored = to.newest_checkpoint(&agent()).unwrap().unwrap();
        assert_eq!(state_of(to.store, &stored.hash), state);
        to.checkpoint(
            &agent(),
            seal(&state),
            &mut StateBytes::new(&state),
            &mut |header| {
                header.tick += 1;
            },
        )
        .unwrap();
        if let Some(stale) = stale.replace(package) {
            let answered = from.import(&mut StateBytes::new(&stale), &root).unwrap();
            assert!(matches!(answered, Imported::Answered { .. }));
        }
    }
    assert_eq!(target.store.history(&agent()).unwrap().len(), 11);
    assert_eq!(source.store.history(&agent()).unwrap().len(), 10);
    whole_history(&*here);
    whole_history(&there);
}

fn a_refusal_needs_no_state(open: &Opener) {
    let (here, there) = (super::MemoryCheckpointStore::new(), open());
    let (one, two) = (Key::root(), Key::new(2));
    let standings = Standings::new();
    let (source, target) = (one.node(&here, &standings), two.node(&*there, &standings));
    begin(&here, b"one").unwrap();
    let root = Key::root().public();
    source.release(&agent(), &target.key()).unwrap();
    let package = packed(&source);
    let reason = threadseal_formats::lineage::RefusalReason::parse("no room").unwrap();
    let refusal = target.refuse_package(&mut StateBytes::new(&package), &root, &reason);
    let refusal = refusal.unwrap();
    assert_eq!(source.confirm(&refusal).unwrap(), Confirmed::Taken(agent()));
    assert!(source.holds(&agent()).unwrap() && !target.holds(&agent()).unwrap());
    assert!(target.accept(&agent()).is_err());
    assert!(
        target
            .newest_checkpoint(&agent())
            .unwrap()
            .unwrap()
            .state
            .is_none()
    );
    assert_eq!(whole_history(&*there).len(), 3);
    // And the next offer comes with it.
    tick(&here, b"two").unwrap();
    source.release(&agent(), &target.key()).unwrap();
    let package = packed(&source);
    target
        .import(&mut StateBytes::new(&package), &root)
        .unwrap();
    target.accept(&agent()).unwrap();
    let stored = target.newest_checkpoint(&agent()).unwrap().unwrap();
    assert_eq!(state_of(&*there, &stored.hash), b"two");
}
