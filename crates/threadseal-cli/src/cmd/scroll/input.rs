//! Input and output of turns: a file, or the standard streams.

use crate::context::Context;
use crate::exit::Failure;
use crate::output::Out;
use crate::record;
use std::io::{ErrorKind, Read as _, stdin};
use std::path::{Path, PathBuf};
use threadseal_core::canon::{cbor, json};
use threadseal_core::error::{self, Error};
use threadseal_core::limits::{MAX_DOCUMENT_BYTES, MAX_TURN_BYTES};
use threadseal_formats::scroll::{Container, End, Form, Place, SealedTurn, Splitter};
use threadseal_store::atomic::NewFile;
use threadseal_store::read::{RegularFile, Source, open_regular};
use threadseal_store::scroll::each_turn;
use threadseal_verify::address::STANDARD_INPUT;
use threadseal_verify::detect::container_of;

/// Mode of a new scroll: only its user may read the output of an agent.
const SCROLL_MODE: u32 = 0o600;
/// The most bytes of standard input that one read takes.
const ARRIVING_BYTES: usize = 64 << 10;

/// All of standard input, up to [`MAX_DOCUMENT_BYTES`].
///
/// # Errors
/// When it cannot be read or has more.
pub(super) fn whole_stdin() -> Result<Vec<u8>, Failure> {
    record::whole_stdin(MAX_DOCUMENT_BYTES)
}

/// The path of an argument; None for standard input, which `-` names as well.
pub(super) fn file_of(argument: Option<&PathBuf>) -> Option<&Path> {
    let path = argument.map(PathBuf::as_path);
    path.filter(|path| *path != Path::new(STANDARD_INPUT))
}

/// The file at `path`.
///
/// # Errors
/// When it cannot be read.
pub(super) fn file(path: &Path, context: &Context) -> Result<RegularFile, Failure> {
    Ok(open_regular(&*context.fs, path)?)
}

/// Passes the turns of `path`, or of standard input, to `each`, in order and one at a time.
///
/// # Errors
/// When the input cannot be read; any error of `each`.
pub(super) fn turns(
    path: Option<&Path>,
    context: &Context,
    each: impl FnMut(&[u8], Form, Place) -> Result<(), Error>,
) -> Result<End, Failure> {
    turns_between(path, context, || Ok(()), each)
}

/// As [`turns`]; `pause` is called before each read, which may wait for input.
///
/// # Errors
/// As [`turns`]; any error of `pause`.
pub(super) fn turns_between(
    path: Option<&Path>,
    context: &Context,
    pause: impl FnMut() -> Result<(), Error>,
    mut each: impl FnMut(&[u8], Form, Place) -> Result<(), Error>,
) -> Result<End, Failure> {
    if let Some(path) = path {
        return turns_of_file(&file(path, context)?, pause, each);
    }
    let source = arriving(|_| false)?;
    let container = container_of(&source.first);
    let each = |piece: &[u8], place| each(piece, container.form(), place);
    Ok(each_turn(Pausing(source, pause), container, each)?)
}

/// A source, and what is done before each read of it.
struct Pausing<S, P>(S, P);

impl<S: Source, P: FnMut() -> Result<(), Error>> Source for Pausing<S, P> {
    fn next_chunk(&mut self, buffer: &mut Vec<u8>) -> Result<(), Error> {
        (self.1)()?;
        self.0.next_chunk(buffer)
    }
}

/// The same of an open file.
///
/// # Errors
/// As [`turns`].
pub(super) fn turns_of(
    file: &RegularFile,
    each: impl FnMut(&[u8], Form, Place) -> Result<(), Error>,
) -> Result<End, Failure> {
    turns_of_file(file, || Ok(()), each)
}

fn turns_of_file(
    file: &RegularFile,
    pause: impl FnMut() -> Result<(), Error>,
    mut each: impl FnMut(&[u8], Form, Place) -> Result<(), Error>,
) -> Result<End, Failure> {
    let container = container_in(file)?;
    let each = |piece: &[u8], place| each(piece, container.form(), place);
    Ok(each_turn(Pausing(file.chunks(), pause), container, each)?)
}

/// The container that the beginning of a file shows.
///
/// # Errors
/// When it cannot be read.
pub(super) fn container_in(file: &RegularFile) -> Result<Container, Failure> {
    let mut head = Vec::new();
    file.chunks().next_chunk(&mut head)?;
    Ok(container_of(&head))
}

/// Standard input. Enough of it was read to detect the container, and more for as long as
/// `wants_more` of the bytes so far.
///
/// # Errors
/// When it cannot be read, or has no end.
fn arriving(mut wants_more: impl FnMut(&[u8]) -> bool) -> Result<Resumed<Arriving>, Failure> {
    let (mut first, mut chunk) = (Vec::new(), Vec::new());
    let mut shows = false;
    while !shows || wants_more(&first) {
        Arriving.next_chunk(&mut chunk)?;
        if chunk.is_empty() {
            break;
        }
        if first.len() > 2 * MAX_TURN_BYTES {
            return Err(Failure::new(
                "the first turn on standard input is too large; hint: name a file",
            ));
        }
        shows |= !chunk.trim_ascii_start().is_empty();
        first.extend_from_slice(&chunk);
    }
    Ok(Resumed {
        first,
        source: Arriving,
    })
}

/// Standard input, of which the first turn was read.
///
/// # Errors
/// When it cannot be read, or that turn is too long.
pub(super) fn from_first_turn() -> Result<Resumed<Arriving>, Failure> {
    let (mut splitter, mut cut, mut seen) = (None, 0, false);
    arriving(|first| {
        let splitter = splitter.get_or_insert_with(|| Splitter::new(container_of(first)));
        splitter.push(first.get(cut..).unwrap_or_default(), &mut |_, _| {
            seen = true;
        });
        cut = first.len();
        !seen
    })
}

/// Standard input as it arrives: each turn in a pipe is sealed as soon as it is complete, before
/// the pipe ends.
pub(super) struct Arriving;

impl Source for Arriving {
    fn next_chunk(&mut self, buffer: &mut Vec<u8>) -> Result<(), Error> {
        buffer.resize(ARRIVING_BYTES, 0);
        let count = loop {
            match stdin().read(buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        let count = count.map_err(|error| {
            Error::new(
                error::ErrorKind::External,
                format!("cannot read standard input: {error}"),
            )
        })?;
        buffer.truncate(count);
        Ok(())
    }
}

/// The value of a turn in its container. A container has one form: bytes in the other form are no
/// turn, as in verification.
///
/// # Errors
/// Why it is no turn.
pub(super) fn value(bytes: &[u8], form: Form) -> Result<json::Value, String> {
    if form == Form::Json {
        return json::parse(bytes).map_err(|error| error.to_string());
    }
    let value = cbor::parse(bytes).map_err(|error| error.to_string())?;
    match value.get("enc").and_then(json::Value::as_str) {
        Some("cbor") => Ok(value),
        _ => Err("in CBOR `enc` must be \"cbor\"".to_owned()),
    }
}

/// A stream whose first bytes were read already.
pub(super) struct Resumed<S> {
    pub(super) first: Vec<u8>,
    source: S,
}

impl<S: Source> Source for Resumed<S> {
    fn next_chunk(&mut self, buffer: &mut Vec<u8>) -> Result<(), Error> {
        if self.first.is_empty() {
            return self.source.next_chunk(buffer);
        }
        std::mem::swap(buffer, &mut self.first);
        self.first.clear();
        Ok(())
    }
}

/// Refuses an input that is no complete container.
///
/// # Errors
/// When it is none.
pub(super) fn refuse_fault(end: &End) -> Result<(), Failure> {
    match end.fault {
        None => Ok(()),
        Some((_, at)) => Err(Failure::new(format!(
            "the input is not an array, lines or a CBOR sequence of turns (byte {at})"
        ))),
    }
}

/// Writes a container, turn by turn.
pub(super) struct Writer<'a> {
    container: Container,
    sink: Sink<'a>,
    turns: u64,
}

enum Sink<'a> {
    Out(&'a mut Out),
    File(Box<NewFile<'a>>),
}

impl<'a> Writer<'a> {
    /// Writes to a new file at `path`, or to standard output.
    ///
    /// # Errors
    /// When the file exists or cannot be made.
    pub(super) fn new(
        container: Container,
        path: Option<&Path>,
        context: &'a Context,
        out: &'a mut Out,
    ) -> Result<Self, Failure> {
        let sink = match path {
            Some(path) => Sink::File(Box::new(NewFile::begin(&*context.fs, path, SCROLL_MODE)?)),
            None => Sink::Out(out),
        };
        Ok(Self {
            container,
            sink,
            turns: 0,
        })
    }

    /// Writes one turn.
    ///
    /// # Errors
    /// When this container cannot hold it, or the file cannot be written.
    pub(super) fn turn(&mut self, turn: &SealedTurn) -> Result<(), Error> {
        let before: &[u8] = match (self.container, self.turns) {
            (Container::Array, 0) => b"[",
            (Container::Array, _) => b",",
            _ => b"",
        };
        self.put(before)?;
        self.turns += 1;
        match self.container {
            Container::Array => self.put(turn.canonical()),
            Container::Lines => {
                self.put(turn.canonical())?;
                self.put(b"\n")
            }
            Container::Sequence => {
                let item = turn
                    .to_cbor()
                    .map_err(|violation| Error::invalid(violation.to_string()))?;
                self.put(&item)
            }
        }
    }

    /// Ends the container. After `Ok` the file is complete and has its name.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        match (self.container, self.turns) {
            (Container::Array, 0) => self.put(b"[]\n")?,
            (Container::Array, _) => self.put(b"]\n")?,
            _ => {}
        }
        if let Sink::File(file) = self.sink {
            file.commit_new()?;
        }
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match &mut self.sink {
            Sink::Out(out) => {
                out.bytes(bytes);
                Ok(())
            }
            Sink::File(file) => file.write(bytes),
        }
    }
}
