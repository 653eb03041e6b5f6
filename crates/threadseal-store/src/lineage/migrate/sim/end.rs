//! How a schedule ends: faults stop, everything is sent again, the root helps at most once.
#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking and says where, also in its helpers"
)]

use super::{KEYS, MACHINES, Plant, World, agent};
use crate::lineage::migrate::node::Node;
use crate::lineage::migrate::transport::Transport as _;
use crate::lineage::{Advance, CheckpointStore as _, NO_STATE, Saved, StateBytes};
use threadseal_core::error::Error;
use threadseal_formats::lineage::{LinkBody, Recover, Writer, draft, seal_native};

/// Rounds of sending everything again after which nothing moves any more.
const ROUNDS: usize = 6;

impl World {
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
            Saved::Differs(now) => Err(crate::lineage::overtaken(&agent(), &now)),
        }
    }
}
