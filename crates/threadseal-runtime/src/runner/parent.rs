//! The thread that starts a child, and what the child inherits.

use crate::capability::Capabilities;
use crate::history::VerifiedChain;
use crate::limit::Limits;
use crate::toolbox::Parentage;
use threadseal_core::record::ThreadId;
use threadseal_formats::ledger::Parent;

/// The inheritance of a child from its parent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Inherited {
    pub(super) limits: Limits,
    pub(super) capabilities: Capabilities,
}

impl Inherited {
    /// The inheritance of all threads of a chain from their parent.
    pub(super) fn of_chain(chain: &VerifiedChain) -> Option<Self> {
        chain.parent().map(|parent| Self {
            limits: parent.limits,
            capabilities: parent.capabilities.clone(),
        })
    }
}

pub(super) struct ParentThread<'a> {
    pub(super) id: &'a ThreadId,
    pub(super) inherited: &'a Inherited,
    pub(super) record: &'a mut dyn Parentage,
    pub(super) ledger: Parent,
}
