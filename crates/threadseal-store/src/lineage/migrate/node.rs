//! [`Node`]: one machine with its key and its store. The command and the simulation both use it.

use super::super::{
    Advance, CheckpointStore, NO_STATE, Newest, Saved, Standings, StoredLink, overtaken,
};
use super::parcel::{Behind, MAX_HANDOVER_BYTES, OutgoingPackage, PackageExtras};
use crate::clock::Clock;
use crate::random::{self, Random};
use crate::read::Source;
use std::fmt;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::{PublicKey, Signer};
use threadseal_formats::lineage::{
    AgentName, Authority, Certificate, CheckedPackage, CheckpointHeader, ContentHash, LinkBody,
    LinkKind, Offer, PACKAGE_PROLOGUE_LENGTH, PackageExpectation, PackagePrologue, Recover,
    RefusalReason, Release, Standing, StateSeal, WholeLink, Writer, draft, seal_native,
};

/// One machine that may hold agents.
#[derive(Clone, Copy)]
pub struct Node<'n> {
    /// The store of its links.
    pub store: &'n dyn CheckpointStore,
    /// The verified standings of them.
    pub standings: &'n Standings,
    /// Its key: a session key, or the root.
    pub signer: &'n dyn Signer,
    /// The certificate of the key; `None` for the root.
    pub certificate: Option<Certificate>,
    /// For the times that links state.
    pub clock: &'n dyn Clock,
    /// For nonces.
    pub random: &'n dyn Random,
}

impl fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("key", self.signer.public_key())
            .finish_non_exhaustive()
    }
}

/// The result of importing a package.
#[derive(Debug)]
pub enum Imported {
    /// It is durable here and waits for an answer.
    Offered(Box<CheckedPackage>),
    /// It was here before, and waits for an answer.
    Waiting(AgentName),
    /// It was here before, and this is the answer.
    Answered {
        /// The agent.
        agent: AgentName,
        /// The machine that offered it.
        source: Box<PublicKey>,
        /// The whole link.
        answer: Vec<u8>,
    },
}

/// The result of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Confirmed {
    /// It is durable here, and names the machine that may act.
    Taken(AgentName),
    /// It was here before.
    Known(AgentName),
    /// Another child of the same link is here: the signer of both sent different answers.
    Forked {
        /// The agent.
        agent: AgentName,
        /// The child that is here.
        here: ContentHash,
        /// The one that came.
        came: ContentHash,
    },
}

impl Node<'_> {
    /// Its public key.
    pub fn key(&self) -> PublicKey {
        *self.signer.public_key()
    }

    /// The newest link of an agent, and its standing, all of it verified.
    ///
    /// # Errors
    /// As [`Standings::of`].
    pub fn standing(&self, agent: &AgentName) -> Result<(Newest, Standing), Error> {
        self.standings.of(self.store, agent)
    }

    /// May this machine write the next checkpoint?
    ///
    /// # Errors
    /// As [`Standings::of`].
    pub fn holds(&self, agent: &AgentName) -> Result<bool, Error> {
        Ok(self.standing(agent)?.1.authority().holder() == Some(&self.key()))
    }

    /// Begins an agent, or its history in v0x05, with `header`. This call fills in signer, time and
    /// `prev`.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] when it may not follow there or another writer was faster; those of
    /// the store.
    pub fn begin(
        &self,
        agent: &AgentName,
        mut header: CheckpointHeader,
        state: &mut dyn Source,
    ) -> Result<ContentHash, Error> {
        let (_, standing) = self.standing(agent)?;
        header.signer = Some(*self.key().as_bytes());
        header.prev = standing.newest();
        if let Some(native) = &mut header.native {
            native.certificate = self.certificate;
            native.time = self.now()?;
        }
        self.save_header(agent, &standing, header, state)
    }

    /// Writes the next checkpoint: the header of the newest link with `change`, and this state.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] when this machine does not hold the agent, the change is not allowed,
    /// the state is not the sealed one, or another writer was faster; those of the store.
    pub fn checkpoint(
        &self,
        agent: &AgentName,
        seal: StateSeal,
        state: &mut dyn Source,
        change: &mut dyn FnMut(&mut CheckpointHeader),
    ) -> Result<ContentHash, Error> {
        let (_, standing) = self.standing(agent)?;
        let (hash, before) = newest_of(agent, &standing)?;
        let mut header = before.following(hash, &self.writer()?)?;
        change(&mut header);
        if let Some(native) = &mut header.native {
            native.state = seal;
        }
        self.save_header(agent, &standing, header, state)
    }

    /// Offers the agent to `target`. The offer is durable when this returns; from then on this
    /// machine does not act. A second call returns the open offer.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] when this machine does not hold the agent, its newest link is no
    /// checkpoint, or another offer is open; those of the store.
    pub fn release(&self, agent: &AgentName, target: &PublicKey) -> Result<Offer, Error> {
        let (_, standing) = self.standing(agent)?;
        let me = self.key();
        let holding = match standing.authority() {
            Authority::Released(offer) if offer.source.key == me && offer.target == *target => {
                return Ok(**offer);
            }
            Authority::Released(offer) => {
                let target = offer.target.to_did_key();
                return Err(Error::refused(format!(
                    "{agent} is already offered to {target}"
                )));
            }
            Authority::Held(holding) if holding.key == me => holding,
            _ => return Err(not_holder(agent)),
        };
        let Some(checkpoint) = holding.checkpoint else {
            let text =
                format!("write a checkpoint of {agent} first: it is released only after one");
            return Err(Error::refused(text));
        };
        let body = LinkBody::Release(Release {
            epoch: next(holding.epoch, 1)?,
            checkpoint,
            target: *target,
            nonce: random::array(self.random)?,
        });
        match self.write(agent, &standing, &body)?.0.authority() {
            Authority::Released(offer) => Ok(**offer),
            _ => Err(not_holder(agent)),
        }
    }

    /// The package of the open offer, for any number of calls.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] when no offer is open, or the state is not here; those of the store.
    pub fn export(
        &self,
        agent: &AgentName,
        extras: &PackageExtras<'_>,
    ) -> Result<OutgoingPackage, Error> {
        let (_, standing) = self.standing(agent)?;
        let Authority::Released(offer) = standing.authority() else {
            return Err(Error::refused(format!("{agent} is not offered to any key")));
        };
        let history = self.store.history(agent)?;
        let links = history.iter().map(|hash| self.load(agent, hash));
        OutgoingPackage::of(links, extras, offer.target)
    }

    /// Takes a package into the store, if all of it verifies and this machine knows nothing that it
    /// lacks. Nothing is written before that, and no machine acts after it: see [`Node::accept`].
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] when it does not verify, is stale or a fork, or another writer was
    /// faster; those of the store.
    pub fn import(&self, package: &mut dyn Source, root: &PublicKey) -> Result<Imported, Error> {
        let (package, mut state) = self.read_package(package, root)?;
        let agent = package.name.clone();
        let (newest, _) = self.standing(&agent)?;
        if let Some(known) = self.known(&package)? {
            return Ok(known);
        }
        let advance = Advance::of_package(&newest, &package, true)?;
        self.save(&agent, &advance, &mut state)?;
        Ok(Imported::Offered(Box::new(package)))
    }

    /// Refuses a package without its state: only the proof of the refusal's place is kept.
    ///
    /// # Errors
    /// As [`Node::import`] and [`Node::refuse`].
    pub fn refuse_package(
        &self,
        package: &mut dyn Source,
        root: &PublicKey,
        reason: &RefusalReason,
    ) -> Result<Vec<u8>, Error> {
        let (package, _) = self.read_package(package, root)?;
        if self.known(&package)?.is_none() {
            let (newest, _) = self.standing(&package.name)?;
            let advance = Advance::of_package(&newest, &package, false)?;
            self.save(&package.name, &advance, &mut NO_STATE.clone())?;
        }
        self.refuse(&package.name, reason)
    }

    /// Takes the agent that is offered to this machine, which may act when this returns. Returns
    /// the link for the source. A second call returns the same link.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] when nothing is offered to this machine; those of the store.
    pub fn accept(&self, agent: &AgentName) -> Result<Vec<u8>, Error> {
        self.answer(agent, LinkKind::Accept, &|release| LinkBody::Accept {
            release,
        })
    }

    /// Gives back the agent that is offered to this machine. Returns the link for the source.
    ///
    /// # Errors
    /// As [`Node::accept`].
    pub fn refuse(&self, agent: &AgentName, reason: &RefusalReason) -> Result<Vec<u8>, Error> {
        self.answer(agent, LinkKind::Refuse, &|release| LinkBody::Refuse {
            release,
            reason: reason.clone(),
        })
    }

    /// Takes the answer to an offer, or a link of the root's: the newest link then decides who may
    /// act.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] when it may not follow, or builds on a link that is not known here;
    /// those of the store.
    pub fn confirm(&self, answer: &[u8]) -> Result<Confirmed, Error> {
        let refuse = |why: &dyn fmt::Display| Error::refused(format!("no answer: {why}"));
        let link = WholeLink::read(answer).map_err(|fault| refuse(&fault))?;
        let native = link.header.native.as_ref();
        let agent = native
            .filter(|native| native.kind != LinkKind::Checkpoint)
            .map(|native| native.name.clone())
            .ok_or_else(|| refuse(&"it moves no authority"))?;
        let (_, standing) = self.standing(&agent)?;
        if standing.newest().is_some() && standing.newest() == link.header.prev {
            let advance = Advance::of_answer(&standing, answer)?;
            self.save(&agent, &advance, &mut NO_STATE.clone())?;
            return Ok(Confirmed::Taken(agent));
        }
        let history = self.store.history(&agent)?;
        if history.contains(&link.hash) {
            return Ok(Confirmed::Known(agent));
        }
        let at = history
            .iter()
            .position(|hash| Some(*hash) == link.header.prev);
        let Some((at, here)) = at.and_then(|at| Some((at, *history.get(at + 1)?))) else {
            return Err(refuse(&"it builds on a link that is not known here"));
        };
        // Only a link that could follow in that place proves a fork.
        let mut then = Standing::begin();
        for hash in history.iter().take(at + 1) {
            let link = self.load(&agent, hash)?.verified()?;
            then = then.follow(&link).map_err(|fault| refuse(&fault))?;
        }
        then.follow(&link).map_err(|fault| refuse(&fault))?;
        let came = link.hash;
        Ok(Confirmed::Forked { agent, here, came })
    }

    /// Gives the agent to `key`, whichever machine had it. Only the root may do this, and only
    /// where the holder is lost for good. `void` names another child of the newest link, where one
    /// is known.
    ///
    /// # Errors
    /// [`ErrorKind::Key`] when this machine's key is not the agent's root; [`ErrorKind::Refused`]
    /// for an agent before v0x05; those of the store.
    pub fn recover(
        &self,
        agent: &AgentName,
        key: &PublicKey,
        void: Option<ContentHash>,
    ) -> Result<Vec<u8>, Error> {
        let (_, standing) = self.standing(agent)?;
        let source = match standing.authority() {
            Authority::Held(holding) => holding,
            Authority::Released(offer) => &Box::new(offer.source),
            _ => {
                return Err(Error::refused(format!(
                    "{agent} has no root key to recover it"
                )));
            }
        };
        if source.root != self.key() {
            return Err(Error::key(format!(
                "only the root key of {agent} recovers it"
            )));
        }
        let body = LinkBody::Recover(Recover {
            epoch: next(source.epoch, 2)?,
            void,
            key: *key,
            nonce: random::array(self.random)?,
        });
        self.write(agent, &standing, &body).map(|(_, bytes)| bytes)
    }

    /// The newest checkpoint of an agent, whichever links follow it.
    ///
    /// # Errors
    /// As [`Standings::of`].
    pub fn newest_checkpoint(&self, agent: &AgentName) -> Result<Option<StoredLink>, Error> {
        let mut at = self.store.newest(agent)?;
        while let Newest::Link(hash) = at {
            let link = self.load(agent, &hash)?;
            let kind = link.header.native.as_ref().map(|native| native.kind);
            if kind.is_none_or(|kind| kind == LinkKind::Checkpoint) {
                return Ok(Some(link));
            }
            at = link.header.prev.map_or(Newest::Nothing, Newest::Link);
        }
        Ok(None)
    }

    fn read_package<'s>(
        &self,
        package: &'s mut dyn Source,
        root: &PublicKey,
    ) -> Result<(CheckedPackage, Behind<'s>), Error> {
        let refuse = |fault: &dyn fmt::Display| Error::refused(format!("not accepted: {fault}"));
        let mut source = Behind::new(package);
        let first = source.take(PACKAGE_PROLOGUE_LENGTH)?;
        let first = first
            .first_chunk()
            .ok_or_else(|| refuse(&"it is truncated"))?;
        let prologue = PackagePrologue::parse(first).map_err(|fault| refuse(&fault))?;
        let head = source.take(prologue.head)?;
        let me = self.key();
        let expect = PackageExpectation {
            root,
            name: None,
            target: &me,
            // The known newest link is compared once the agent is known.
            known: None,
        };
        let read = CheckedPackage::read_head(&prologue, &head, &expect);
        // The store checks the state while it takes it.
        let (package, _) = read.map_err(|fault| refuse(&fault))?;
        Ok((package, source))
    }

    /// The earlier result of the offer in a package, if it is known here.
    fn known(&self, package: &CheckedPackage) -> Result<Option<Imported>, Error> {
        let agent = &package.name;
        let history = self.store.history(agent)?;
        let Some(at) = history
            .iter()
            .position(|hash| *hash == package.release.hash)
        else {
            return Ok(None);
        };
        let Some(child) = history.get(at + 1) else {
            return Ok(Some(Imported::Waiting(agent.clone())));
        };
        Ok(Some(Imported::Answered {
            agent: agent.clone(),
            source: Box::new(package.offer.source.key),
            answer: self.load(agent, child)?.whole(MAX_HANDOVER_BYTES)?,
        }))
    }

    fn answer(
        &self,
        agent: &AgentName,
        kind: LinkKind,
        body: &dyn Fn(ContentHash) -> LinkBody,
    ) -> Result<Vec<u8>, Error> {
        let (_, standing) = self.standing(agent)?;
        let (newest, header) = newest_of(agent, &standing)?;
        match standing.authority() {
            Authority::Released(offer) if offer.target == self.key() => {
                let written = self.write(agent, &standing, &body(offer.release));
                written.map(|(_, bytes)| bytes)
            }
            _ => {
                let native = header.native.as_ref();
                let is_done = native.is_some_and(|native| native.kind == kind)
                    && header.signer == Some(*self.key().as_bytes());
                match is_done {
                    true => self.load(agent, &newest)?.whole(MAX_HANDOVER_BYTES),
                    false => Err(Error::refused(format!(
                        "{agent} is not offered to this key"
                    ))),
                }
            }
        }
    }

    fn load(&self, agent: &AgentName, hash: &ContentHash) -> Result<StoredLink, Error> {
        let found = self.store.load(agent, hash)?;
        found.ok_or_else(|| Error::refused(format!("the link {hash} of {agent} is gone")))
    }

    fn write(
        &self,
        agent: &AgentName,
        standing: &Standing,
        body: &LinkBody,
    ) -> Result<(Standing, Vec<u8>), Error> {
        let (hash, before) = newest_of(agent, standing)?;
        let header = draft(before, hash, body, &self.writer()?)?;
        let _section = self.store.enter_seal(&self.key())?;
        let sealed = seal_native(header, self.signer)?;
        let bytes = [sealed.bytes, body.encode()].concat();
        let advance = Advance::of_bytes(standing, &bytes)?;
        self.save(agent, &advance, &mut NO_STATE.clone())?;
        Ok((advance.standing().clone(), bytes))
    }

    fn save_header(
        &self,
        agent: &AgentName,
        standing: &Standing,
        header: CheckpointHeader,
        state: &mut dyn Source,
    ) -> Result<ContentHash, Error> {
        let _section = self.store.enter_seal(&self.key())?;
        let sealed = seal_native(header, self.signer)?;
        let advance = Advance::of_header(standing, &sealed.bytes)?;
        self.save(agent, &advance, state)?;
        Ok(sealed.hash)
    }

    fn save(
        &self,
        agent: &AgentName,
        advance: &Advance,
        state: &mut dyn Source,
    ) -> Result<(), Error> {
        match self.store.save(agent, advance, state)? {
            Saved::Stored => {
                self.standings.learn(advance.standing());
                Ok(())
            }
            Saved::Differs(now) => Err(overtaken(agent, &now)),
        }
    }

    fn writer(&self) -> Result<Writer, Error> {
        Ok(Writer {
            key: self.key(),
            certificate: self.certificate,
            time: self.now()?,
        })
    }

    fn now(&self) -> Result<i64, Error> {
        let micros = i64::try_from(self.clock.now()?.as_micros()).ok();
        let time = micros.and_then(|micros| micros.checked_mul(1000));
        time.ok_or_else(|| Error::new(ErrorKind::External, "the clock is beyond 2262"))
    }
}

fn newest_of<'s>(
    agent: &AgentName,
    standing: &'s Standing,
) -> Result<(ContentHash, &'s CheckpointHeader), Error> {
    let newest = standing.newest().zip(standing.header());
    newest.ok_or_else(|| Error::invalid(format!("there is no agent {agent} here")))
}

fn not_holder(agent: &AgentName) -> Error {
    Error::refused(format!(
        "this key does not hold {agent}; its newest link names the holder"
    ))
}

fn next(epoch: u64, by: u64) -> Result<u64, Error> {
    let text = "the epochs of this agent are used up";
    epoch.checked_add(by).ok_or_else(|| Error::refused(text))
}
