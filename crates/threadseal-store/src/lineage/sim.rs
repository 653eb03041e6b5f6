//! A deterministic simulation of agents that move between machines; only for tests.
//!
//! ```text
//! schedule   = seed: the next machine and its step; the losses, repeats and new orders of the
//!              network; the failing calls of stores; the machine that is lost for good
//! machine    = the shipped Node on the shipped store in memory, with a fault before it
//! after each step   at most one machine may act; the histories of all machines are one line
//! at the end        faults stop, everything is sent again; then, after at most one link of the
//!                   root's, exactly one machine may act, and no repeated old message changes that
//! ```
//! `cast` has the participants, `tally` the counts. A crash loses everything but the
//! objects of the store. A lost machine loses its key as well. With a [`Plant`] one machine does
//! what the protocol forbids; the same checks must notice.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking and says where, also in its helpers"
)]

mod cast;
mod tally;

pub use tally::{Broken, Plant, Tally};

use super::migrate::{Answer, Imported, Node, PackageExtras, Transport as _, exchange};
use super::{
    Advance, CheckpointStore, KeyedCheckpointStore, NO_STATE, Newest, Saved, Standings, StateBytes,
    conformance, overtaken,
};
use crate::clock::ManualClock;
use crate::objects::fault::ObjectFault;
use cast::{Counting, KEYS, Lots, MACHINES, Machine, Network, Parcel, agent};
use std::sync::Arc;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::{PublicKey, Signer as _};
use threadseal_formats::lineage::{
    AgentName, Authority, ContentHash, LinkBody, MediaType, Recover, RefusalReason, StateSeal,
    Writer, draft, seal_native,
};

const STEPS: usize = 40;
/// Rounds of sending everything again after which nothing moves any more.
const ROUNDS: usize = 6;
const STATE: &[u8] = b"state";

/// Runs the schedule of `seed`.
///
/// # Errors
/// The law that it broke.
pub fn run(seed: u64, plant: Option<Plant>) -> Result<Tally, Broken> {
    let mut world = World::new(seed, plant);
    let done = world.run();
    done.map(|()| world.tally)
        .map_err(|law| Broken { seed, law })
}

/// Runs the schedules `from..to`.
///
/// # Errors
/// The first one that broke a law.
pub fn run_many(from: u64, to: u64) -> Result<Tally, Broken> {
    (from..to).try_fold(Tally::default(), |sum, seed| Ok(sum.plus(run(seed, None)?)))
}

struct World {
    plant: Option<Plant>,
    lots: Lots,
    machines: Vec<Machine>,
    network: Network,
    standings: Standings,
    clock: ManualClock,
    random: Counting,
    faults: bool,
    tally: Tally,
}

fn reason() -> RefusalReason {
    RefusalReason::parse("no room").unwrap()
}

impl World {
    fn new(seed: u64, plant: Option<Plant>) -> Self {
        let start = (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let machines = (0..MACHINES).map(|_| Machine::new(Arc::default()));
        Self {
            plant,
            lots: Lots(start),
            machines: machines.collect(),
            network: Network {
                loses: true,
                lots: Some(Lots(start.rotate_left(17) | 1)),
                ..Network::default()
            },
            standings: Standings::new(),
            clock: ManualClock::default(),
            random: Counting::default(),
            faults: true,
            tally: Tally::default(),
        }
    }

    /// The shipped code on this machine, over `store`.
    fn node<'w>(&'w self, machine: usize, store: &'w dyn CheckpointStore) -> Node<'w> {
        let (signer, certificate) = &KEYS.machines[machine];
        Node {
            store,
            standings: &self.standings,
            signer,
            certificate: Some(*certificate),
            clock: &self.clock,
            random: &self.random,
        }
    }

    fn key(machine: usize) -> PublicKey {
        *KEYS.machines[machine].0.public_key()
    }

    fn run(&mut self) -> Result<(), String> {
        self.begin();
        for step in 0..STEPS {
            let what = self.step();
            self.check()
                .map_err(|law| format!("step {step}, {what}: {law}"))?;
        }
        self.settle()
    }

    fn begin(&mut self) {
        let mut header = conformance::genesis(&agent(), STATE);
        if let Some(native) = &mut header.native {
            native.root = *KEYS.root.public_key();
        }
        let node = self.node(0, &self.machines[0].seen);
        node.begin(&agent(), header, &mut StateBytes::new(STATE))
            .unwrap();
    }

    /// One step of one machine or the network; returns a description.
    fn step(&mut self) -> String {
        let machine = self.lots.below(MACHINES);
        if self.machines[machine].is_lost {
            return "nothing".to_owned();
        }
        if self.lots.one_in(80) && self.tally.lost == 0 && self.somebody_else_knows(machine) {
            self.lose(machine);
            return format!("machine {machine} is lost");
        }
        if self.faults && self.lots.one_in(3) {
            let call = self.lots.below(8);
            let kind = ObjectFault::ALL[self.lots.below(ObjectFault::ALL.len())];
            self.machines[machine].faulty.plan(call, kind);
        }
        let what = match self.lots.below(8) {
            0 | 1 => self.tick(machine),
            2 => {
                let other = self.lots.below(MACHINES);
                self.release(machine, other)
            }
            3 => self.send_again(machine),
            4 => self.answer(machine),
            _ => self.deliver(),
        };
        // A machine that failed may be dead; a restarted one knows what is durable, and no more.
        for machine in &self.machines {
            machine.faulty.plan(usize::MAX, ObjectFault::Fails);
        }
        what
    }

    fn somebody_else_knows(&self, machine: usize) -> bool {
        let knows = |other: &Machine| {
            !other.is_lost && !matches!(other.seen.newest(&agent()), Ok(Newest::Nothing))
        };
        (0..MACHINES).any(|other| other != machine && knows(&self.machines[other]))
    }

    fn lose(&mut self, machine: usize) {
        self.tally.lost += 1;
        let mut lost = Machine::new(Arc::default());
        lost.is_lost = true;
        self.machines[machine] = lost;
    }

    fn told(&mut self, what: String, done: Result<(), Error>) -> String {
        match done {
            Ok(()) => what,
            Err(error) => {
                self.tally.faults += u64::from(error.kind() == ErrorKind::External);
                format!("{what}: {error}")
            }
        }
    }

    fn tick(&mut self, machine: usize) -> String {
        let node = self.node(machine, &self.machines[machine].store);
        let seal = StateSeal::of(STATE, MediaType::bytes());
        let done = node.checkpoint(&agent(), seal, &mut StateBytes::new(STATE), &mut |header| {
            header.tick += 1;
        });
        self.told(format!("{machine} ticks"), done.map(drop))
    }

    fn release(&mut self, machine: usize, other: usize) -> String {
        if self.plant == Some(Plant::ReleaseNotDurable) {
            return self.release_in_vain(machine, other);
        }
        let held = self.would_act(machine).unwrap_or(false);
        let done = {
            let node = self.node(machine, &self.machines[machine].store);
            node.release(&agent(), &Self::key(other)).map(drop)
        };
        if done.is_ok() {
            self.tally.releases += 1;
            self.machines[machine].believes = held;
        }
        self.told(format!("{machine} releases to {other}"), done)
    }

    /// Acts as a machine that sends a release which it did not save.
    fn release_in_vain(&mut self, machine: usize, other: usize) -> String {
        let copy = self.machines[machine].copy();
        let mut package = None;
        let done = {
            let node = self.node(machine, &copy);
            node.release(&agent(), &Self::key(other))
                .and_then(|_| node.export(&agent(), &PackageExtras::default()))
                .map(|made| package = Some(made))
        };
        if let Some(mut package) = package {
            let _ = self.network.send(&Self::key(other), &mut package);
        }
        self.told(format!("{machine} releases to {other}"), done)
    }

    fn send_again(&mut self, machine: usize) -> String {
        let package = {
            let node = self.node(machine, &self.machines[machine].store);
            node.export(&agent(), &PackageExtras::default())
        };
        let done = package.and_then(|mut package| {
            let target = package.target;
            self.network.send(&target, &mut package)
        });
        self.told(format!("{machine} sends its package"), done)
    }

    /// Answers an offer that waits, as after a crash.
    fn answer(&mut self, machine: usize) -> String {
        let refuses = self.lots.one_in(4);
        let before = self.offered_to(machine);
        let done = {
            let node = self.node(machine, &self.machines[machine].store);
            match refuses {
                true => node.refuse(&agent(), &reason()),
                false => node.accept(&agent()),
            }
        };
        let done = done.and_then(|bytes| {
            self.tally.accepts += u64::from(before.is_some() && !refuses);
            self.tally.refusals += u64::from(before.is_some() && refuses);
            let to = before.unwrap_or_else(|| Self::key(self.lots.below(MACHINES)));
            self.network.send(&to, &mut StateBytes::new(bytes))
        });
        self.told(format!("{machine} answers"), done)
    }

    /// The machine that offers the agent to this one.
    fn offered_to(&self, machine: usize) -> Option<PublicKey> {
        let node = self.node(machine, &self.machines[machine].seen);
        match node.standing(&agent()).ok()?.1.authority() {
            Authority::Released(offer) if offer.target == Self::key(machine) => {
                Some(offer.source.key)
            }
            _ => None,
        }
    }

    fn deliver(&mut self) -> String {
        let network = &mut self.network;
        let again = self.lots.one_in(3) || network.waiting.is_empty();
        let parcel = match (again, network.delivered.len(), network.waiting.len()) {
            (true, 1.., _) => {
                self.tally.repeated += 1;
                network.delivered[self.lots.below(network.delivered.len())].clone()
            }
            (_, _, 1..) => network
                .waiting
                .swap_remove(self.lots.below(network.waiting.len())),
            _ => return "nothing".to_owned(),
        };
        self.hand_over(&parcel)
    }

    fn hand_over(&mut self, parcel: &Parcel) -> String {
        self.network.delivered.push(parcel.clone());
        let machine = (0..MACHINES)
            .find(|machine| Self::key(*machine) == parcel.to)
            .unwrap();
        if self.machines[machine].is_lost {
            return "nothing".to_owned();
        }
        let choice = self.lots.below(8);
        let mut decide = |_: &AgentName| match choice {
            0 | 1 => Answer::Wait,
            2 => Answer::Refuse(reason()),
            _ => Answer::Accept,
        };
        let mut network = std::mem::take(&mut self.network);
        network.now = Some(parcel.clone());
        let before = self.machines[machine].seen.newest(&agent()).ok();
        let copy = self.machines[machine].copy();
        let root = *KEYS.root.public_key();
        let done = {
            let node = self.node(machine, &self.machines[machine].store);
            exchange(&node, &mut network, &root, &mut decide)
        };
        self.network = network;
        self.misbehave(machine, parcel, &copy);
        let after = self.machines[machine].seen.newest(&agent()).ok();
        if before != after {
            self.tally.accepts += u64::from(choice > 2);
            self.tally.refusals += u64::from(choice == 2);
        }
        self.told(format!("{machine} receives"), done.map(drop))
    }

    /// The wrong action of a machine with a planted bug on an arrival, beside the right one.
    fn misbehave(&mut self, machine: usize, parcel: &Parcel, before: &KeyedCheckpointStore) {
        let root = *KEYS.root.public_key();
        match self.plant {
            Some(Plant::TakesStalePackage) => {
                let fresh = Machine::new(Arc::default());
                let node = self.node(machine, &fresh.store);
                let mut bytes = StateBytes::new(parcel.bytes.to_vec());
                if node.import(&mut bytes, &root).is_ok() && node.accept(&agent()).is_ok() {
                    self.machines[machine] = fresh;
                }
            }
            Some(Plant::RefusesAfterAccept) => {
                let node = self.node(machine, before);
                let mut bytes = StateBytes::new(parcel.bytes.to_vec());
                let source = match node.import(&mut bytes, &root) {
                    Ok(Imported::Offered(package)) => package.offer.source.key,
                    _ => return,
                };
                if let Ok(refusal) = node.refuse(&agent(), &reason()) {
                    let _ = self.network.send(&source, &mut StateBytes::new(refusal));
                }
            }
            _ => {}
        }
    }

    /// Would this machine write the next checkpoint?
    fn would_act(&self, machine: usize) -> Result<bool, String> {
        let here = &self.machines[machine];
        if here.is_lost {
            return Ok(false);
        }
        if self.plant == Some(Plant::TicksAfterRelease) && here.believes {
            return Ok(true);
        }
        let node = self.node(machine, &here.seen);
        node.holds(&agent()).map_err(|error| error.to_string())
    }

    fn holders(&self) -> Result<Vec<usize>, String> {
        let mut holders = Vec::new();
        for machine in 0..MACHINES {
            if self.would_act(machine)? {
                holders.push(machine);
            }
        }
        Ok(holders)
    }

    fn check(&mut self) -> Result<(), String> {
        let holders = self.holders()?;
        if holders.len() > 1 {
            return Err(format!("machines {holders:?} may act at once"));
        }
        let mut longest: &[ContentHash] = &[];
        let living = self.machines.iter_mut().filter(|machine| !machine.is_lost);
        for machine in living {
            let links = machine.links().map_err(|error| error.to_string())?;
            let both = longest.iter().zip(links);
            if let Some((one, other)) = both.into_iter().find(|(one, other)| one != other) {
                return Err(format!("{one} and {other} are children of one link"));
            }
            if links.len() > longest.len() {
                longest = links;
            }
        }
        Ok(())
    }

    /// Faults stop, everything arrives; then some machine must hold the agent, and no other machine
    /// ever.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        (self.faults, self.network.loses) = (false, false);
        self.drain("draining")?;
        if self.holders()?.is_empty() {
            self.recover()?;
            self.check().map_err(|law| format!("recovering: {law}"))?;
        }
        let holders = self.holders()?;
        let [holder] = holders[..] else {
            return Err("nobody may act, and the root could not change that".to_owned());
        };
        let what = self.tick(holder);
        if what != format!("{holder} ticks") {
            return Err(format!("the holder cannot act: {what}"));
        }
        for parcel in self.network.delivered.clone() {
            self.hand_over(&parcel);
            self.check().map_err(|law| format!("old parcels: {law}"))?;
        }
        self.network.waiting.clear();
        match self.holders()?.len() {
            1 => Ok(()),
            _ => Err("what was old changed who may act".to_owned()),
        }
    }

    fn drain(&mut self, when: &str) -> Result<(), String> {
        for _ in 0..ROUNDS {
            for machine in 0..MACHINES {
                if !self.machines[machine].is_lost {
                    self.send_again(machine);
                    self.answer_if_offered(machine);
                }
            }
            while let Some(parcel) = self.network.waiting.pop() {
                self.hand_over(&parcel);
                self.check().map_err(|law| format!("{when}: {law}"))?;
            }
        }
        Ok(())
    }

    fn answer_if_offered(&mut self, machine: usize) {
        if let Some(source) = self.offered_to(machine) {
            let accepted = self
                .node(machine, &self.machines[machine].store)
                .accept(&agent());
            let _ = self
                .network
                .send(&source, &mut StateBytes::new(accepted.unwrap()));
        }
    }

    /// The root gives the agent to the machine that knows most.
    fn recover(&mut self) -> Result<(), String> {
        let length = |machine: &usize| {
            let history = self.machines[*machine].seen.history(&agent());
            history.map_or(0, |history| history.len())
        };
        let living = (0..MACHINES).filter(|machine| !self.machines[*machine].is_lost);
        let machine = living.max_by_key(length).unwrap();
        let store = &self.machines[machine].store;
        let root = Node {
            signer: &KEYS.root,
            certificate: None,
            ..self.node(machine, store)
        };
        let done = match self.plant {
            Some(Plant::RecoversWithoutJump) => self.recover_without_jump(&root, machine),
            _ => root.recover(&agent(), &Self::key(machine), None).map(drop),
        };
        self.tally.recoveries += 1;
        done.map_err(|error| format!("the root cannot recover: {error}"))
    }

    fn recover_without_jump(&self, root: &Node<'_>, machine: usize) -> Result<(), Error> {
        let (_, standing) = root.standing(&agent())?;
        let (header, hash) = (standing.header().unwrap(), standing.newest().unwrap());
        let body = LinkBody::Recover(Recover {
            epoch: header.epoch.major + 1,
            void: None,
            key: Self::key(machine),
            nonce: [0; 32],
        });
        let writer = Writer {
            key: root.key(),
            certificate: None,
            time: 0,
        };
        let sealed = seal_native(draft(header, hash, &body, &writer)?, root.signer)?;
        let bytes = [sealed.bytes, body.encode()].concat();
        let advance = Advance::of_bytes(&standing, &bytes)?;
        match root.store.save(&agent(), &advance, &mut NO_STATE.clone())? {
            Saved::Stored => Ok(()),
            Saved::Differs(now) => Err(overtaken(&agent(), &now)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_one_machine_may_act_and_the_agent_is_never_lost() {
        let tally = run_many(0, 2000).unwrap_or_else(|broken| panic!("{broken}"));
        println!("{tally:?}");
        // A simulation in which nothing happens proves nothing.
        assert!(tally.releases > 1000 && tally.accepts > 500 && tally.refusals > 100);
        assert!(tally.faults > 500 && tally.repeated > 200);
        assert!(tally.lost > 100 && tally.recoveries > 20);
    }

    #[test]
    fn every_planted_bug_is_caught() {
        for plant in Plant::ALL {
            let caught = (0..3000).find_map(|seed| run(seed, Some(plant)).err());
            let caught = caught.unwrap_or_else(|| panic!("{plant:?} is not caught"));
            println!("{plant:?}: {caught}");
        }
    }

    #[test]
    fn a_schedule_repeats() {
        for seed in 0..50 {
            assert_eq!(run(seed, None), run(seed, None));
        }
    }
}
