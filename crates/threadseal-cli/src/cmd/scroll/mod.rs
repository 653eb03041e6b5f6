//! `scroll …`: chains of sealed turns, agent-scroll v0.1 (`spec/scroll.md`).
//!
//! Without a file, the commands read standard input, as agent-scroll's own command does.

mod canon;
mod convert;
mod digits;
#[cfg(feature = "convert")]
mod from;
mod head;
mod input;
mod seal;
mod source;
#[cfg(feature = "convert")]
mod table;
#[cfg(feature = "convert")]
mod to;
mod verify;

use crate::context::Context;
use crate::exit::Outcome;
use crate::output::Out;
use clap::{Subcommand, ValueEnum};
use threadseal_formats::scroll::Container;

/// What to do with scrolls.
#[derive(Debug, Subcommand)]
pub(crate) enum ScrollCommand {
    /// Print the canonical text of one JSON value, or its deterministic CBOR
    Canon(canon::CanonArgs),
    /// Seal turns: hash, link and sign them
    Seal(seal::SealArgs),
    /// Verify a scroll and print a verdict
    Verify(verify::VerifyArgs),
    /// Print the head of a scroll, to keep elsewhere
    Head(head::HeadArgs),
    /// Convert another program's session to a sealed scroll, with an account of every part
    #[cfg(feature = "convert")]
    From(from::FromArgs),
    /// Convert a scroll to another container; hashes and signatures stay
    Convert(convert::ConvertArgs),
    /// Convert a scroll to another format
    #[cfg(feature = "convert")]
    To(to::ToArgs),
}

pub(crate) fn run(command: &ScrollCommand, context: &Context, out: &mut Out) -> Outcome {
    match command {
        ScrollCommand::Canon(args) => canon::run(args, context, out),
        ScrollCommand::Seal(args) => seal::run(args, context, out),
        ScrollCommand::Verify(args) => verify::run(args, context, out),
        ScrollCommand::Head(args) => head::run(args, context, out),
        #[cfg(feature = "convert")]
        ScrollCommand::From(args) => from::run(args, context, out),
        ScrollCommand::Convert(args) => convert::run(args, context, out),
        #[cfg(feature = "convert")]
        ScrollCommand::To(args) => to::run(args, context, out),
    }
}

/// `--to`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ContainerArg {
    /// One JSON array
    Array,
    /// One turn in each line
    Lines,
    /// A CBOR sequence; its turns must be hashed as CBOR
    Cbor,
}

impl From<ContainerArg> for Container {
    fn from(container: ContainerArg) -> Self {
        match container {
            ContainerArg::Array => Self::Array,
            ContainerArg::Lines => Self::Lines,
            ContainerArg::Cbor => Self::Sequence,
        }
    }
}
