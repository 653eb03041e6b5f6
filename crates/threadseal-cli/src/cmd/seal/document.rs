//! Signatures in documents.
//!
//! A document is edited and sealed again. If a native seal no longer fits, the next version of its
//! record replaces it. That seal must be of the same key or its predecessor: the seal of another key
//! is never removed. If the file was rewritten without its seal, the next version follows the last
//! one that this host sealed here.
//!
//! Outside a project's `.ai` the seal is in a file of its own, and the document stays as it is. A
//! document with a seal in it keeps it there.
//!
//! Every bound is checked before the seal is signed. A number is signed once: a file may be ahead of
//! its known head, where a process was killed before it published.

use super::{Action, Sealed, Sealing, log};
use crate::exit::{Failure, complain};
use crate::key_log;
use std::cell::RefCell;
use std::path::Path;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::{KeyId, KeyUsage, LocalSigner, Message, PublicKey, Signature, Signer};
use threadseal_core::limits::MAX_DOCUMENT_BYTES;
use threadseal_core::record::{Head, RecordId};
use threadseal_core::report::{FindingCode, Profile, Report, SignerReport, SignerStatus, Verdict};
use threadseal_formats::document::{
    self, DocumentKind, MAX_BESIDE_BYTES, NativeSealing, Options, RyeSigning, is_beside,
    sign_beside, sign_native, sign_rye,
};
use threadseal_store::atomic::{self, Mode, SHARED_FILE};
use threadseal_store::examine;
use threadseal_store::heads::{Durability, RecordKind, StoredHead};
use threadseal_store::host::Published;
use threadseal_store::observer::{read_seal_file, seal_path};
use threadseal_store::read::{RegularFile, Stability, open_regular, read_small};
use threadseal_store::sys::{Access, directory_of, failure};

/// The folder of a project's items.
const AI_FOLDER: &str = ".ai";

/// Most seals of a document that the home may not know: each needs a process that was killed.
const MAX_UNKNOWN_SEALS: u64 = 1024;

pub(super) fn seal(
    sealing: &Sealing<'_>,
    path: &Path,
    kind: DocumentKind,
    rye: bool,
) -> Result<Sealed, Failure> {
    if sealing.args.is_final || sealing.args.turn.is_some() {
        let message = "--final and --turn are for transcripts and logs";
        return Err(Failure::new(message).about(path));
    }
    let usage = if rye { KeyUsage::Rye } else { KeyUsage::Native };
    // The passphrase prompt comes before the lock, so that no other process waits for it.
    let signer = sealing.signer(usage)?;
    let _alone = sealing.home.enter_documents()?;
    let file = open_regular(&*sealing.host.fs, path)?;
    let sealed = if rye {
        seal_as_rye(sealing, &file, kind, &signer)
    } else {
        seal_natively(sealing, &file, kind, &signer)
    };
    sealed.map_err(|failure| failure.about(path))
}

fn seal_natively(
    sealing: &Sealing<'_>,
    file: &RegularFile,
    kind: DocumentKind,
    signer: &LocalSigner,
) -> Result<Sealed, Failure> {
    let path = file.path();
    let bytes = file.read_whole(MAX_DOCUMENT_BYTES)?;
    let naming = examine::naming_leaves(file)?;
    let inside = look(sealing, &bytes, kind)?;
    let is_inside = inside.profile == Profile::Native || sealing.args.inline || is_of_project(path);
    let beside = match seals_beside(sealing, path)? {
        Beside::Nothing => None,
        Beside::OfLog if is_inside => None,
        Beside::OfLog => return log::seal(sealing, path),
        Beside::OfDocument(_) if sealing.args.inline => {
            let message = "its seal is beside it; remove FILE.seal to seal it with --inline";
            return Err(Failure::new(message));
        }
        Beside::OfDocument(seal) => Some(seal),
    };
    let is_inside = is_inside && beside.is_none();
    // What is not readable as its kind would be reported as such in spite of its seal.
    if !is_inside && inside.verdict == Verdict::Malformed {
        let fault = inside.findings.first();
        let why = match std::str::from_utf8(&bytes) {
            Err(_) => "it is not UTF-8".to_owned(),
            Ok(_) => fault.map_or_else(String::new, |fault| fault.message.clone()),
        };
        let text = format!("not a document of its kind: {why}; hint: --detached seals it as a log");
        return Err(Failure::new(text));
    }
    let before = match &beside {
        Some(seal) => look_beside(sealing, &bytes, seal, kind)?,
        None => inside,
    };
    let sealed_before = before.head.filter(|_| before.profile == Profile::Native);
    if let Some(head) = sealed_before {
        if before
            .findings
            .iter()
            .any(|found| found.code == FindingCode::KeyEndDoubted)
        {
            let message = "a key that has ended sealed it, and the log of this home was rolled back: it cannot show whether the key ended \
                           later. The seal may be valid; hint: threadseal log status";
            return Err(Failure::new(message));
        }
        let by = before.signers.iter();
        let is_own = |by: &SignerReport| {
            let key = KeyId::parse_hex(&by.key);
            key.is_some_and(|key| is_own(sealing, signer, key))
        };
        if by.clone().any(|by| !is_own(by)) {
            let message = "another key sealed it; remove that seal to seal it with your key";
            return Err(Failure::new(message));
        }
        if by.clone().any(|by| by.status == SignerStatus::Revoked) {
            let message = "a key that has ended sealed it, and no evidence shows that the key ended later; inspect it, and remove \
                           that seal to seal it with your key";
            return Err(Failure::new(message));
        }
        // A copy that replaces another document on purpose becomes a record of its own here.
        let displaces =
            examine::displaced(&sealing.host, path, RecordKind::Document, &head.record, &[])?;
        let holds = by.clone().all(|by| by.status != SignerStatus::Rejected);
        // Others may know only the end of the key before, so the present key seals once more.
        let present = Some(signer.public_key().key_id());
        let is_present = by.clone().all(|by| KeyId::parse_hex(&by.key) == present);
        if holds && is_present && displaces.is_none() {
            let by = by.clone().find_map(|by| KeyId::parse_hex(&by.key));
            let sealed = match &beside {
                Some(_) => seal_path(path),
                None => path.to_owned(),
            };
            publish_pending(sealing, (path, &sealed), &head, by, &naming)?;
            return Ok(Sealed::new(path, "native", Action::Unchanged).with_head(Some(&head)));
        }
    }
    let (record, seq) = version(sealing, file, sealed_before.as_ref(), signer)?;
    let size = bytes.len() as u64;
    let of = (&record, RecordKind::Document);
    sealing.host.admit(of, (seq, size), &naming)?;
    let _section = sealing.host.enter_seal(&[signer.public_key()])?;
    let native = NativeSealing {
        record,
        seq,
        time: sealing.host.clock.now()?,
        signer,
    };
    let after = match is_inside {
        true => {
            let signed = sign_native(&bytes, kind, &native)?;
            replace(sealing, file, path, &signed)?;
            look(sealing, &signed, kind)?
        }
        false => {
            let seal = sign_beside(&bytes, kind, &native)?;
            replace(sealing, file, &seal_path(path), &seal)?;
            look_beside(sealing, &bytes, &seal, kind)?
        }
    };
    if let Some(head) = after.head {
        publish(
            sealing,
            path,
            head,
            Some(signer.public_key().key_id()),
            &naming,
        )?;
    }
    Ok(Sealed::new(path, "native", Action::Sealed).with_head(after.head.as_ref()))
}

/// Is the file in the `.ai` of a project, whose readers expect the seal in it?
fn is_of_project(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == AI_FOLDER)
}

/// What the seal file beside a document holds.
enum Beside {
    Nothing,
    /// The seal of the document: the seal file.
    OfDocument(Vec<u8>),
    /// Seals of its lines: it was sealed as a log.
    OfLog,
}

fn seals_beside(sealing: &Sealing<'_>, path: &Path) -> Result<Beside, Failure> {
    let seals = seal_path(path);
    Ok(match read_seal_file(&sealing.host, &seals)? {
        None => Beside::Nothing,
        Some(bytes) if is_beside(&bytes) => {
            let fs = &*sealing.host.fs;
            Beside::OfDocument(read_small(fs, &seals, MAX_BESIDE_BYTES)?)
        }
        Some(_) => Beside::OfLog,
    })
}

fn publish(
    sealing: &Sealing<'_>,
    path: &Path,
    head: Head,
    key: Option<KeyId>,
    naming: &[Digest],
) -> Result<(), Failure> {
    Ok(sealing.host.publish(&Published {
        head,
        root: None,
        salts: None,
        key,
        kind: RecordKind::Document,
        is_final: false,
        thread: None,
        path: Some(path),
        aliases: naming,
        durability: Durability::Durable,
    })?)
}

/// Publishes the head of the document at `path`, whose seal in the file `sealed` holds, if the home
/// knows no head as new: the process that sealed it was killed before.
fn publish_pending(
    sealing: &Sealing<'_>,
    (path, sealed): (&Path, &Path),
    head: &Head,
    key: Option<KeyId>,
    naming: &[Digest],
) -> Result<(), Failure> {
    let host = &sealing.host;
    let known = host.heads.fetch(&head.record)?;
    let is_known = known
        .as_ref()
        .is_some_and(|known| known.head.seq >= head.seq);
    let vouches = host.heads.vouches() && known.is_none_or(|known| known.vouches);
    if is_known || !vouches || host.heads.pruned(&head.record)?.is_some() {
        return Ok(());
    }
    let of = (&head.record, RecordKind::Document);
    host.admit(of, (head.seq, head.size), naming)?;
    let opened = host.fs.open(sealed, Access::Append);
    opened
        .and_then(|file| file.sync_all())
        .and_then(|()| host.fs.sync_dir(directory_of(sealed)))
        .map_err(|error| failure("make durable", sealed, &error))?;
    publish(sealing, path, *head, key, naming)
}

/// Is it this key, or one of its predecessors?
fn is_own(sealing: &Sealing<'_>, signer: &LocalSigner, by: KeyId) -> bool {
    let own = signer.public_key();
    let history = sealing.trust.places.as_ref().and_then(|log| log.keys());
    let took_place = || {
        history
            .zip(sealing.trust.by_key_id(by))
            .is_some_and(|(history, before)| history.succession(&before, own).is_some())
    };
    by == own.key_id() || took_place()
}

/// The record and seal number of the next version. An edited document's old seal proves nothing,
/// not even its record. The next version follows only a head that this host made for this place;
/// otherwise a new record begins.
fn version(
    sealing: &Sealing<'_>,
    file: &RegularFile,
    sealed: Option<&Head>,
    signer: &LocalSigner,
) -> Result<(RecordId, u64), Failure> {
    let place = sealing.host.place(file.path());
    let here = match sealed {
        Some(head) => {
            let known = sealing.host.heads.fetch(&head.record)?;
            known.filter(|known| known.path_hint.as_deref() == Some(place.as_str()))
        }
        None => written_anew(sealing, &place, signer)?,
    };
    if let Some(known) = &here {
        let what = format!("version {} was sealed here", known.head.seq);
        sealing.host.refuse_doubted(&what, Some(known))?;
        sealing.host.refuse_pruned(&known.head.record)?;
    }
    let Some(known) = here else {
        return Ok((sealing.host.new_record()?, 0));
    };
    let claimed = sealed.map_or(known.head.seq, |head| head.seq);
    Ok((known.head.record, next_number(known.head.seq, claimed)?))
}

/// The number after the known seal and the one in the file, which may be newer. Where the file was
/// edited, nothing proves its number: one that is too far ahead is refused.
fn next_number(known: u64, in_file: u64) -> Result<u64, Failure> {
    if in_file > known.saturating_add(MAX_UNKNOWN_SEALS) {
        return Err(Failure::new(format!(
            "its seal has the number {in_file}, but this home knows number {known} as the last; hint: remove the seal, then seal it again"
        )));
    }
    Ok(known.max(in_file).saturating_add(1))
}

/// The document that this host sealed last at `place`, for a file there without a seal: the file
/// was rewritten, so the version before is not missing. A document that another key sealed, or that
/// was pruned, is another record.
fn written_anew(
    sealing: &Sealing<'_>,
    place: &str,
    signer: &LocalSigner,
) -> Result<Option<StoredHead>, Failure> {
    let last = sealing
        .host
        .heads
        .find_by_place(RecordKind::Document, place)?;
    let Some(last) = last else {
        return Ok(None);
    };
    let logged = last.logged.as_ref().and_then(|at| at.logged.key);
    let by = logged.or(last.key);
    if by.is_some_and(|by| !is_own(sealing, signer, by)) {
        return Ok(None);
    }
    match sealing.host.refuse_pruned(&last.head.record) {
        Err(error) if error.kind() == ErrorKind::Refused => Ok(None),
        looked => Ok(looked.map(|()| Some(last))?),
    }
}

fn seal_as_rye(
    sealing: &Sealing<'_>,
    file: &RegularFile,
    kind: DocumentKind,
    signer: &LocalSigner,
) -> Result<Sealed, Failure> {
    let bytes = file.read_whole(MAX_DOCUMENT_BYTES)?;
    if look(sealing, &bytes, kind)?.profile == Profile::Native {
        let message = "it has a native seal, which Rye's signature would break; remove the seal to sign it in Rye's format";
        return Err(Failure::new(message));
    }
    let _section = sealing.host.enter_seal(&[signer.public_key()])?;
    let noting = Noting::new(signer);
    let signed = sign_rye(
        &bytes,
        kind,
        &RyeSigning {
            item_type: None,
            time: sealing.host.clock.now()?,
            signer: &noting,
        },
    )?;
    log_signatures(sealing, noting.made.into_inner())?;
    replace(sealing, file, file.path(), &signed)?;
    Ok(Sealed::new(file.path(), "rye", Action::Sealed))
}

/// A signer that notes the signatures which it makes.
struct Noting<'a> {
    signer: &'a LocalSigner,
    made: RefCell<Vec<Signature>>,
}

impl<'a> Noting<'a> {
    fn new(signer: &'a LocalSigner) -> Self {
        Self {
            signer,
            made: RefCell::default(),
        }
    }
}

impl Signer for Noting<'_> {
    fn public_key(&self) -> &PublicKey {
        self.signer.public_key()
    }

    fn usage(&self) -> KeyUsage {
        self.signer.usage()
    }

    fn sign(&self, message: &Message) -> Result<Signature, Error> {
        let signature = self.signer.sign(message)?;
        self.made.borrow_mut().push(signature);
        Ok(signature)
    }
}

/// Adds signatures to the log of the home, so that they outlive the end of their key. A log that
/// takes nothing now holds up no signature.
fn log_signatures(sealing: &Sealing<'_>, made: Vec<Signature>) -> Result<(), Failure> {
    let Some(log) = key_log::log(sealing.context)? else {
        return Ok(());
    };
    for signature in made {
        let digest = Digest::of(signature.as_bytes());
        if let Err(error) = log.commit_signature(&digest) {
            complain(&format!(
                "warning: the log of this home does not have the signature, which will not count after the end of its key: {error}"
            ));
        }
    }
    Ok(())
}

fn look(sealing: &Sealing<'_>, bytes: &[u8], kind: DocumentKind) -> Result<Report, Failure> {
    let now = sealing.host.clock.now()?;
    let options = Options::new(kind, &sealing.trust, now);
    Ok(document::verify(bytes, &options)?.report)
}

fn look_beside(
    sealing: &Sealing<'_>,
    bytes: &[u8],
    seal: &[u8],
    kind: DocumentKind,
) -> Result<Report, Failure> {
    let now = sealing.host.clock.now()?;
    let options = Options::new(kind, &sealing.trust, now);
    Ok(document::verify_beside(bytes, seal, &options).report)
}

/// Writes `to`, the document or its seal file, if the document is still as it was read.
fn replace(
    sealing: &Sealing<'_>,
    file: &RegularFile,
    to: &Path,
    signed: &[u8],
) -> Result<(), Failure> {
    if file.stability()? != Stability::Same {
        return Err(Failure::new(
            "it changed while it was sealed; seal it again",
        ));
    }
    let mode = Mode::KeepOr(SHARED_FILE);
    Ok(atomic::replace(&*sealing.host.fs, to, signed, mode)?)
}
