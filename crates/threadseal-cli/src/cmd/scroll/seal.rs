//! `scroll seal`: reads turns and writes sealed turns, one at a time.
//!
//! ```text
//! turns ─► seal after the last one ─► standard output, a new file, or the end of a live scroll
//! ```
//! A written file is durable before this host remembers its head.

use super::ContainerArg;
use super::digits::Digits;
use super::input::{self, Writer};
use super::source;
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::keyring::Keyring;
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use clap::Args;
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, PublicKey, Signer};
use threadseal_core::record::{Head, RecordId};
use threadseal_formats::scroll::{
    Encoding, SealedTurn, Signatures, Turn, check_place, deserialize, seal, signer_name,
};
use threadseal_store::heads::RecordKind;
use threadseal_store::host::Host;
use threadseal_store::scroll::{LiveScroll, publish};

/// What `scroll seal` takes.
#[derive(Debug, Args)]
pub(crate) struct SealArgs {
    /// Turns: a JSON array, one turn in each line, or CBOR [default: standard input]
    file: Option<PathBuf>,
    /// Sign with a key of this home by name, or with a seed of 64 hex digits [default: unsigned].
    /// Other users of this machine may see a seed
    #[arg(long, value_name = "NAME|HEX")]
    key: Option<String>,
    /// Hash and sign deterministic CBOR instead of canonical JSON
    #[arg(long)]
    cbor: bool,
    /// Seal only the covered value of numbers with digits that no hash covers, and report each place;
    /// without this option such a turn is refused. Digits of timestamps are always only reported
    #[arg(long)]
    anyway: bool,
    /// Container of the sealed turns [default: array; with --cbor: cbor]
    #[arg(long, value_enum, conflicts_with = "append")]
    to: Option<ContainerArg>,
    /// New file for the scroll, whose head this home remembers [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Append to this live scroll, or begin it
    #[arg(long, value_name = "FILE", conflicts_with = "out")]
    append: Option<PathBuf>,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

/// Seals and writes.
pub(super) fn run(args: &SealArgs, context: &Context, out: &mut Out) -> Outcome {
    // A tampered file of turns must not become a verified scroll.
    if let Some(path) = input::file_of(args.file.as_ref()) {
        let source = source::by_seals(path, context)?;
        if let Some(report) = source.evidence() {
            return Ok(source::refuse(source.reports(), report, context, out));
        }
    }
    let signer = signer(args.key.as_deref(), &args.passphrase, context)?;
    let signer = signer.as_ref().map(|signer| signer as &dyn Signer);
    match &args.append {
        Some(path) => append(args, path, signer, context, out),
        None => write(args, signer, context, out),
    }
}

/// The signer of turns: `--key`.
///
/// # Errors
/// When there is no such key, or it cannot be used.
pub(super) fn signer(
    key: Option<&str>,
    passphrase: &PassphraseArgs,
    context: &Context,
) -> Result<Option<LocalSigner>, Failure> {
    let Some(key) = key else {
        return Ok(None);
    };
    if let Some(seed) = encoding::parse_hex_array(key) {
        let key = PrivateKey::from_seed(seed);
        return Ok(Some(LocalSigner::new(key, KeyUsage::Scroll)));
    }
    let keyring = Keyring::of(&context.existing_home()?);
    let signer = keyring.signer(Some(key), KeyUsage::Scroll, passphrase, context)?;
    Ok(Some(signer))
}

/// The digits that sealing may leave out. Most programs write timestamps that no double keeps.
fn digits(args: &SealArgs) -> Digits {
    Digits {
        any: args.anyway,
        of_timestamps: true,
        done: "sealed",
        turns: 0,
    }
}

/// Is a turn of the input in CBOR? There each number is a double.
fn is_cbor(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|byte| byte >> 5 == 5)
}

/// A turn of the input, in the requested encoding.
fn turn(bytes: &[u8], args: &SealArgs) -> Result<Turn, Error> {
    let invalid = |violation: threadseal_formats::scroll::SchemaViolation| {
        Error::invalid(violation.to_string())
    };
    let turn = deserialize(bytes).map_err(invalid)?;
    if args.cbor {
        return turn.with_encoding(Encoding::Cbor).map_err(invalid);
    }
    Ok(turn)
}

fn about(place: u64) -> impl Fn(Error) -> Error {
    move |error| Error::new(error.kind(), format!("turn at index {place}: {error}"))
}

fn write(
    args: &SealArgs,
    signer: Option<&dyn Signer>,
    context: &Context,
    out: &mut Out,
) -> Outcome {
    let to = args.to.unwrap_or(match args.cbor {
        true => ContainerArg::Cbor,
        false => ContainerArg::Array,
    });
    let mut writer = Writer::new(to.into(), args.out.as_deref(), context, out)?;
    let (mut written, mut encoding): (Option<Written>, _) = (None, None);
    let mut digits = digits(args);
    let end = input::turns(
        input::file_of(args.file.as_ref()),
        context,
        |bytes, _, at| {
            let place = written.map_or(0, |written| written.head.seq + 1);
            if !is_cbor(bytes) {
                digits.check(place, bytes, at.from)?;
            }
            let sealed = turn(bytes, args)
                .and_then(|turn| {
                    check_place(&turn, place, encoding)?;
                    seal(turn, written.map(|written| written.head.line), signer)
                })
                .map_err(about(place))?;
            written = Some(Written::then(written, &sealed));
            encoding = Some(sealed.encoding());
            writer.turn(&sealed)
        },
    )?;
    input::refuse_fault(&end)?;
    finish(writer, written, signer, args.out.as_deref(), context)?;
    digits.finish();
    Ok(Exit::Done)
}

/// Finishes the scroll. One in a new file appears, and its head is remembered and printed, if the key
/// has not ended meanwhile and the head can be remembered.
///
/// # Errors
/// When the key has ended, or the file or the home cannot be written.
pub(super) fn finish(
    writer: Writer<'_>,
    written: Option<Written>,
    signer: Option<&dyn Signer>,
    path: Option<&Path>,
    context: &Context,
) -> Result<(), Failure> {
    let (Some(written), Some(path)) = (written, path) else {
        return writer.finish();
    };
    let head = written.head;
    let host = context.host()?;
    let keys: Vec<_> = signer.map(Signer::public_key).into_iter().collect();
    let _section = host.enter_seal(&keys)?;
    let names: Vec<Digest> = keys.iter().map(|key| signer_name(key)).collect();
    let of = (&head.record, RecordKind::Scroll);
    host.admit(of, (head.seq, head.size), &names)?;
    writer.finish()?;
    remember(written, signer, path, &host)?;
    if !context.quiet {
        complain(&format!("sealed {}  head {head}", path.display()));
    }
    Ok(())
}

/// The turns that were written so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    /// The last of them.
    pub(super) head: Head,
    signatures: Signatures,
}

impl Written {
    /// After one more turn.
    pub(super) fn then(before: Option<Self>, sealed: &SealedTurn) -> Self {
        let head = after(before.map(|before| before.head), sealed);
        let signatures = before.map_or_else(Signatures::default, |before| before.signatures);
        Self {
            head,
            signatures: signatures.then(head.seq, sealed.signature()),
        }
    }
}

/// The head after one more turn.
pub(super) fn after(head: Option<Head>, sealed: &SealedTurn) -> Head {
    let first = RecordId::from_bytes(*sealed.hash().as_bytes());
    Head {
        record: head.map_or(first, |head| head.record),
        seq: head.map_or(0, |head| head.seq + 1),
        size: head.map_or(0, |head| head.size) + sealed.covered_bytes(),
        line: sealed.hash(),
    }
}

/// Two scrolls can begin with the same turn: then the home keeps the one that it remembered first.
fn remember(
    written: Written,
    signer: Option<&dyn Signer>,
    path: &Path,
    host: &Host,
) -> Result<(), Failure> {
    let key = signer.map(Signer::public_key);
    let names: Vec<Digest> = key.map(signer_name).into_iter().collect();
    let Written { head, signatures } = written;
    match publish(host, (head, signatures), key.map(PublicKey::key_id), &names) {
        Err(error) if error.kind() == ErrorKind::Refused => {
            complain(&format!(
                "note: {}: this host knows another scroll that begins with the same turn; the head is not remembered",
                path.display()
            ));
            Ok(())
        }
        done => {
            done?;
            host.heads.note_place(&head.record, &host.place(path));
            Ok(())
        }
    }
}

fn append(
    args: &SealArgs,
    path: &Path,
    signer: Option<&dyn Signer>,
    context: &Context,
    out: &mut Out,
) -> Outcome {
    let host = context.host()?;
    let mut live = None;
    if path.exists() {
        let opened = LiveScroll::open(host.clone(), path)?;
        if let Some(moved) = &opened.moved {
            complain(&format!(
                "note: {}: {} bytes of a torn turn were moved to {}",
                path.display(),
                moved.length,
                moved.path.display()
            ));
        }
        if opened.ended {
            complain(&format!(
                "note: {}: the missing line feed of the last turn was added",
                path.display()
            ));
        }
        if !opened.known {
            complain(&format!(
                "note: {}: this host knows no head of this scroll; its present turns are continued unchecked",
                path.display()
            ));
        }
        for doubt in &opened.doubts {
            complain(&format!("note: {}: {doubt}", path.display()));
        }
        live = Some(opened.scroll);
    }
    let (place, live) = (Cell::new(0), RefCell::new(live));
    let mut digits = digits(args);
    let end = input::turns_between(
        input::file_of(args.file.as_ref()),
        context,
        // Before it waits for input, so that the key may end meanwhile.
        || match &mut *live.borrow_mut() {
            Some(scroll) => scroll.sync().map(drop),
            None => Ok(()),
        },
        |bytes, _, at| {
            if !is_cbor(bytes) {
                digits.check(place.get(), bytes, at.from)?;
            }
            let turn = turn(bytes, args).map_err(about(place.get()))?;
            let live = &mut *live.borrow_mut();
            match live {
                Some(scroll) => drop(scroll.append(turn, signer).map_err(about(place.get()))?),
                None => *live = Some(LiveScroll::create(host.clone(), path, turn, signer)?),
            }
            place.set(place.get() + 1);
            Ok(())
        },
    )
    .and_then(|end| input::refuse_fault(&end));
    let place: u64 = place.get();
    let Some(mut live) = live.into_inner() else {
        return Err(end
            .err()
            .unwrap_or_else(|| Failure::new("there is no turn to begin the scroll with")));
    };
    digits.finish();
    // Appended turns are part of the scroll, whatever followed in the input.
    let head = live.sync()?;
    if place > 0 || end.is_ok() {
        if end.is_err() {
            complain(&format!(
                "note: {}: the {place} turns before the error are appended",
                path.display()
            ));
        }
        if !context.quiet {
            out.line(format!("{head}"));
        }
    }
    end.map(|()| Exit::Done)
}
