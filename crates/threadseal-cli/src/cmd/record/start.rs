//! How a record begins, is opened again, or is continued by another one
//! (`spec/record-protocol.md` §1, §7).
//!
//! ```text
//! no --resume                 ─► a new file
//! --resume, not ended         ─► the same file: lock ─► verify ─► set the tail aside, or adopt it
//! --resume, ended             ─► lock ─► verify ─► a new file whose line 1 names the old seal
//!                                            ─► thread_resumed and a final seal in the old one
//! ```

use super::RecordArgs;
use super::answer::SetAside;
use super::request::{self, Begin, Refusal};
use super::session::Started;
use crate::context::Context;
use crate::events::Events;
use crate::exit::Failure;
use crate::keyring::Keyring;
use crate::record::{self, address_of};
use crate::trust_file;
use crate::verifying::verifier_by;
use memchr::memmem;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::canon::json::{Value, parse};
use threadseal_core::error::Error;
use threadseal_core::key::{KeyUsage, LocalSigner, PublicKey};
use threadseal_core::record::{Head, RecordId, ThreadId};
use threadseal_formats::transcript::event::{Payload, is_link};
use threadseal_formats::transcript::ext::Ext;
use threadseal_formats::transcript::manifest::{self, Bodies, Manifest};
use threadseal_formats::transcript::{Ending, Link};
use threadseal_store::address::Intent;
use threadseal_store::examine;
use threadseal_store::heads::RecordKind;
use threadseal_store::home::Home;
use threadseal_store::host::Host;
use threadseal_store::read::RegularFile;
use threadseal_store::recorder::{Keys, Opened, Recorder, TailPolicy};
use threadseal_store::sys::path_text;
use threadseal_verify::address::STANDARD_INPUT;
use threadseal_verify::all_records;
use threadseal_verify::layout::{THREADS, TRANSCRIPT_FILE};

/// Begins records with the keys of the home.
pub(super) struct Start<'a> {
    args: &'a RecordArgs,
    context: &'a Context,
    home: Home,
    host: Host,
    native: Arc<LocalSigner>,
    /// The record that a new one is to continue, under its lock.
    old: Option<Recorder>,
}

impl<'a> Start<'a> {
    /// Opens the home and its key.
    ///
    /// # Errors
    /// When there is no home or no key, or the key needs a passphrase that is not given.
    pub(super) fn of(args: &'a RecordArgs, context: &'a Context) -> Result<Self, Failure> {
        let home = context.existing_home()?;
        let host = context.host()?;
        let (name, passphrase) = (args.key.as_deref(), args.passphrase());
        let keyring = Keyring::of(&home);
        let native = keyring.signer(name, KeyUsage::Native, &passphrase, context)?;
        Ok(Self {
            args,
            context,
            home,
            host,
            native: Arc::new(native),
            old: None,
        })
    }

    /// The record, if the options alone determine it.
    ///
    /// # Errors
    /// When it cannot be made, or opened again.
    pub(super) fn at_once(&mut self) -> Result<Option<Started>, Failure> {
        if let Some(named) = &self.args.resume {
            let path = self.place_of(named)?;
            let reopened = self.reopen(&path);
            let reopened = reopened.map_err(|failure| failure.about(&path))?;
            match reopened.recorder.state().is_ended() {
                false => return self.grown(reopened).map(Some),
                true => self.old = Some(self.not_continued(reopened.recorder, &path)?),
            }
        }
        let Some(thread) = &self.args.thread else {
            return Ok(None);
        };
        let begin = begin_of(self.args, ThreadId::parse(thread)?)?;
        self.begin(&begin).map(Some)
    }

    /// Begins a new record.
    ///
    /// # Errors
    /// When it cannot be made, or the record that it continues cannot be linked to it.
    pub(super) fn begin(&mut self, begin: &Begin) -> Result<Started, Failure> {
        let keys = self.keys(None)?;
        let (authority, rye) = (*keys.native.public_key(), *keys.rye.public_key());
        let record = self.host.new_record()?;
        let mut manifest = Manifest::new(record, authority, rye);
        manifest.directive.clone_from(&begin.directive);
        manifest.model.clone_from(&begin.model);
        manifest.capabilities.clone_from(&begin.capabilities);
        manifest.limits = begin.limits.clone();
        manifest.meta = begin.meta.clone();
        manifest.workspace.clone_from(&begin.workspace);
        manifest.bodies = begin.bodies;
        let continues = self
            .old
            .as_ref()
            .and_then(|old| old.state().head().copied());
        if let Some(old) = &self.old {
            let thread = old.state().thread();
            if *thread == begin.thread {
                let text = "a record that continues another one has a thread of its own; hint: give another --thread";
                return Err(Failure::new(text));
            }
            manifest.predecessor = continues;
            manifest.meta = naming(&manifest.meta, thread)?;
        }
        let mut recorder = self.create(begin.thread.clone(), manifest, keys)?;
        if let Some(old) = &mut self.old {
            if let Err(error) = link(old, &begin.thread, record) {
                // No link names it, so it is never continued.
                let why = json!({"error": "the record before it could not be linked to it"});
                let why = Payload::parse(why.to_string().as_bytes())?;
                recorder.end(Ending::Error, &why, 0)?;
                return Err(error.into());
            }
            self.old = None;
        }
        Ok(Started {
            recorder,
            resumed: false,
            continues,
            set_aside: None,
            adopted: None,
        })
    }

    fn create(
        &self,
        thread: ThreadId,
        manifest: Manifest,
        keys: Keys,
    ) -> Result<Recorder, Failure> {
        let host = self.host.clone();
        let path = match &self.args.file {
            Some(path) => path.clone(),
            None => PathBuf::from(format!("{}.jsonl", thread.as_str().replace('/', "-"))),
        };
        refuse_thread_of_project(&path)?;
        if path == Path::new(STANDARD_INPUT) {
            let text = "standard input has the events; hint: name a file for the record";
            return Err(Failure::new(text));
        }
        let created = match address_of(&path) {
            Some(address) => {
                let (store, name) = record::one(address, Intent::Write)?;
                Recorder::create_in(host, &*store, &name, thread, manifest, keys)
            }
            None => Recorder::create(host, &path, thread, manifest, keys),
        };
        created.map_err(|error| Failure::from(error).about(&path))
    }

    fn keys(&self, rye: Option<&PublicKey>) -> Result<Keys, Failure> {
        let passphrase = self.args.passphrase();
        let rye = Keyring::of(&self.home).rye_half(rye, &passphrase)?;
        Ok(Keys {
            native: Arc::clone(&self.native) as _,
            rye: Arc::new(rye),
            epochs: Some(self.home.epochs()),
        })
    }

    /// Verifies a record under its lock, and settles its tail.
    fn reopen(&self, path: &Path) -> Result<Opened, Failure> {
        refuse_thread_of_project(path)?;
        let file = record::open(&*self.host.fs, path)?;
        let first = examine::first_line(&file)?;
        let named = first.as_deref().and_then(manifest::parse_line);
        let keys = self.keys(named.map(|manifest| manifest.rye_key).as_ref())?;
        let trust = trust_file::trust_of_home(&self.home, self.context)?;
        let verifier = verifier_by(trust, self.context)?;
        let tail = match self.args.adopt_tail {
            true => TailPolicy::Adopt,
            false => TailPolicy::SetAside,
        };
        let host = self.host.clone();
        let opened = match address_of(path) {
            Some(address) => {
                let (store, name) = record::one(address, Intent::Write)?;
                Recorder::open_in(host, &*store, &name, keys, &verifier, tail)
            }
            None => Recorder::open(host, path, keys, &verifier, tail),
        };
        let mut opened = opened?;
        // A record that may only be looked at is refused here, before the first line.
        opened.recorder.flush()?;
        Ok(opened)
    }

    /// A record that grows in its file.
    fn grown(&self, opened: Opened) -> Result<Started, Failure> {
        let state = opened.recorder.state();
        if let Some(file) = &self.args.file {
            let text = "the record has not ended, and grows in its file; hint: leave FILE out";
            return Err(Failure::new(text).about(file));
        }
        let asked = self.args.thread.as_deref();
        if asked.is_some_and(|thread| thread != state.thread().as_str()) {
            let thread = state.thread().as_str();
            let text = format!("the record is of the thread {thread}; hint: leave --thread out");
            return Err(Failure::new(text));
        }
        self.refuse_unlinked(state.manifest())?;
        let sealed = opened.report.head.map_or(0, |head| head.size);
        let tail = [sealed, opened.report.stats.bytes];
        let has_tail = tail[1] > tail[0];
        Ok(Started {
            recorder: opened.recorder,
            resumed: true,
            continues: None,
            set_aside: opened.moved.map(|moved| SetAside {
                bytes: tail,
                path: path_text(&moved.path),
            }),
            adopted: (has_tail && self.args.adopt_tail).then_some(tail),
        })
    }

    /// Refuses a record whose predecessor does not name it: its beginning was interrupted before the
    /// link was sealed, so another record may continue the predecessor. One that is not known here
    /// cannot be asked.
    fn refuse_unlinked(&self, manifest: &Manifest) -> Result<(), Failure> {
        let Some(before) = manifest.predecessor else {
            return Ok(());
        };
        let known = self.host.heads.fetch(&before.record)?;
        let Some(place) = known.as_ref().and_then(all_records::place_of) else {
            return Ok(());
        };
        let Ok(file) = record::open(&*self.host.fs, &place) else {
            return Ok(());
        };
        let named = format!("\"successor\":\"{}\"", manifest.record);
        let mut events = Events::of(&file);
        while let Some(event) = events.next()? {
            if event.is_seal() && memmem::find(&event.bytes, named.as_bytes()).is_some() {
                return Ok(());
            }
        }
        let text =
            "the record before it does not name it; hint: continue that one with another --thread";
        Err(Failure::new(text).about(&place))
    }

    /// The ended record, unless another one continues it already.
    fn not_continued(&self, recorder: Recorder, path: &Path) -> Result<Recorder, Failure> {
        let file = record::open(&*self.host.fs, path)?;
        match has_link(&file)? {
            true => Err(Failure::new("another record continues it already").about(path)),
            false => Ok(recorder),
        }
    }

    /// The record that a path, an address or the id of a thread names.
    fn place_of(&self, named: &str) -> Result<PathBuf, Failure> {
        let path = PathBuf::from(named);
        if address_of(&path).is_some() || self.host.fs.metadata(&path).is_ok() {
            return Ok(path);
        }
        let unknown =
            || Failure::new("neither a file nor a thread of a record that this home knows");
        let thread = ThreadId::parse(named).map_err(|_| unknown().about(&path))?;
        let known = self.home.heads().stored()?;
        let of_thread = known.iter().filter(|known| {
            known.kind == RecordKind::Transcript && known.thread.as_ref() == Some(&thread)
        });
        let mut places: Vec<_> = of_thread
            .filter_map(|known| Some((known.is_final, all_records::place_of(known)?)))
            .collect();
        // The one that has not ended is meant, where there is one.
        if places.iter().any(|(is_final, _)| !is_final) {
            places.retain(|(is_final, _)| !is_final);
        }
        match places.as_slice() {
            [] => Err(unknown().about(&path)),
            [(_, place)] => Ok(place.clone()),
            [(_, first), ..] => {
                let text = format!(
                    "{} records of this thread are known; hint: name one, for example {}",
                    places.len(),
                    first.display()
                );
                Err(Failure::new(text).about(&path))
            }
        }
    }
}

/// Line 1 as the options give it.
fn begin_of(args: &RecordArgs, thread: ThreadId) -> Result<Begin, Failure> {
    let value = |option: &str, text: &Option<String>| match text {
        None => Ok(Value::Object(Vec::new())),
        Some(text) => {
            parse(text.as_bytes()).map_err(|error| Failure::new(format!("{option}: {error}")))
        }
    };
    let refused = |refusal: Refusal| Failure::new(refusal.why);
    Ok(Begin {
        directive: args.directive.clone(),
        model: args.model.clone(),
        capabilities: args.capability.clone(),
        limits: request::object("--limits", &value("--limits", &args.limits)?).map_err(refused)?,
        meta: request::meta(&value("--meta", &args.meta)?).map_err(refused)?,
        workspace: args.workspace.clone(),
        bodies: args.bodies.map_or(Bodies::Inline, Bodies::from),
        ..Begin::of(thread)
    })
}

/// `meta` with the thread that the record continues.
fn naming(meta: &Value, thread: &ThreadId) -> Result<Value, Failure> {
    let named = json!({"predecessor_thread": thread.as_str()}).to_string();
    let named = parse(named.as_bytes()).map_err(Error::from)?;
    let members = meta.as_object().into_iter().chain(named.as_object());
    let all = Value::Object(members.flatten().cloned().collect());
    request::object("meta", &all).map_err(|refusal| Failure::new(refusal.why))
}

/// Seals in `old` that `record` continues it.
fn link(old: &mut Recorder, thread: &ThreadId, record: RecordId) -> Result<Head, Error> {
    let payload = json!({"new_thread_id": thread.as_str()}).to_string();
    let ext = Ext {
        successor: Some(record),
        ..Ext::default()
    };
    old.link(Link::Resumed, &Payload::parse(payload.as_bytes())?, ext)
}

/// Is there a link in a record that was verified under its lock?
fn has_link(file: &RegularFile) -> Result<bool, Failure> {
    let mut events = Events::of(file);
    while let Some(event) = events.next()? {
        if is_link(&event.event_type) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Threads of projects have more files than their transcript, which the runtime keeps together.
fn refuse_thread_of_project(path: &Path) -> Result<(), Failure> {
    let in_threads = path.ancestors().any(|above| above.ends_with(THREADS));
    match in_threads && path.ends_with(TRANSCRIPT_FILE) {
        true => Err(Failure::new(
            "this is the transcript of a project's thread; hint: threadseal thread resume, or thread recover",
        )
        .about(path)),
        false => Ok(()),
    }
}
