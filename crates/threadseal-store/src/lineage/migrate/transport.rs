//! [`Transport`]: carries packages and answers; the way of arrival gives them no trust.
//!
//! ```text
//! package   begins with "TSMOVE1"     to the target
//! answer    a link of v0x05           to the source
//! ```
//! A transport may lose, repeat, delay and reorder its messages, and may show them to anyone. A
//! package is signed, not secret.

use super::node::{Confirmed, Imported, Node};
use super::parcel::MAX_HANDOVER_BYTES;
use crate::lineage::StateBytes;
use crate::lineage::state::read_all;
use crate::read::Source;
use threadseal_core::error::Error;
use threadseal_core::key::PublicKey;
use threadseal_formats::lineage::{AgentName, RefusalReason};

/// Carries bytes between machines that are named by their keys.
pub trait Transport {
    /// Gives `bytes` to be carried to `to`. They may arrive never, once or often.
    ///
    /// # Errors
    /// Those of the transport; then they may arrive all the same.
    fn send(&mut self, to: &PublicKey, bytes: &mut dyn Source) -> Result<(), Error>;

    /// The next message for `me`, if one arrived.
    ///
    /// # Errors
    /// Those of the transport.
    fn receive(&mut self, me: &PublicKey) -> Result<Option<Box<dyn Source>>, Error>;
}

/// The answer to an offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Take the agent.
    Accept,
    /// Give it back.
    Refuse(RefusalReason),
    /// Do not answer yet.
    Wait,
}

/// The result of an arrival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// An offer, and the answer to it.
    Offer(AgentName, Answer),
    /// An offer that had been answered before.
    Again(AgentName),
    /// An answer.
    Answer(Confirmed),
}

/// Takes the next arrival at `node`, if there is one. It is a package of an agent of `root` or an
/// answer to one. Sends the answer that is due, and returns the kind of the arrival.
///
/// # Errors
/// [`threadseal_core::error::ErrorKind::Refused`] for a message that is not taken: it is gone then
/// and changed nothing. Those of the store and the transport; after them it may arrive again.
pub fn exchange(
    node: &Node<'_>,
    transport: &mut dyn Transport,
    root: &PublicKey,
    decide: &mut dyn FnMut(&AgentName) -> Answer,
) -> Result<Option<Received>, Error> {
    let Some(mut source) = transport.receive(&node.key())? else {
        return Ok(None);
    };
    let mut first = Vec::new();
    source.next_chunk(&mut first)?;
    if first.first() == Some(&threadseal_formats::lineage::Version::V5.byte()) {
        let rest = read_all(&mut *source, MAX_HANDOVER_BYTES)?;
        let confirmed = node.confirm(&[first, rest].concat())?;
        return Ok(Some(Received::Answer(confirmed)));
    }
    let mut package = Rejoined {
        first: StateBytes::new(first),
        rest: source,
    };
    let (agent, to) = match node.import(&mut package, root)? {
        Imported::Answered {
            agent,
            source,
            answer,
        } => {
            transport.send(&source, &mut StateBytes::new(answer))?;
            return Ok(Some(Received::Again(agent)));
        }
        Imported::Offered(package) => (package.name.clone(), package.offer.source.key),
        Imported::Waiting(agent) => {
            let (_, standing) = node.standing(&agent)?;
            match standing.authority() {
                threadseal_formats::lineage::Authority::Released(offer) => {
                    (agent, offer.source.key)
                }
                _ => return Ok(Some(Received::Again(agent))),
            }
        }
    };
    let answer = decide(&agent);
    let bytes = match &answer {
        Answer::Accept => node.accept(&agent)?,
        Answer::Refuse(reason) => node.refuse(&agent, reason)?,
        Answer::Wait => return Ok(Some(Received::Offer(agent, answer))),
    };
    transport.send(&to, &mut StateBytes::new(bytes))?;
    Ok(Some(Received::Offer(agent, answer)))
}

/// A source whose first piece was read.
struct Rejoined {
    first: StateBytes<Vec<u8>>,
    rest: Box<dyn Source>,
}

impl Source for Rejoined {
    fn next_chunk(&mut self, buffer: &mut Vec<u8>) -> Result<(), Error> {
        self.first.next_chunk(buffer)?;
        match buffer.is_empty() {
            true => self.rest.next_chunk(buffer),
            false => Ok(()),
        }
    }
}
