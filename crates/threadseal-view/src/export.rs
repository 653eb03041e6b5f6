//! One file that has everything inside: the page, a session, its seals (`spec/page.md`).
//!
//! ```text
//! frame  <title>TITLE</title> … <pre id="text">TEXT</pre> … id="boot">BOOT</script> <!--parts-->PARTS<!--/parts--> … code
//! BOOT   {"mode":"export","schema":"threadseal.page/1","index":{"name","parts":[…],"left_out":[…]},"lock":null}
//! part   gzip of the bytes; with a lock: nonce, AES-256-GCM of it under a key of PBKDF2, its id authenticated
//! ```
//! Invariants: of the four places each has a form that admits nothing else, so what is around them is the *frame*, whose
//! digest separates a known code from a changed one. A received file is taken apart without running anything of it.

use aes_gcm::aead::{Aead as _, KeyInit as _, Payload};
use aes_gcm::{Aes256Gcm, Key, Nonce};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use threadseal_core::digest::Digest;
use threadseal_core::encoding::{base64, parse_base64};
use threadseal_core::error::{Error, ErrorKind};

/// Bytes of all parts in one file, as base64; what is beyond goes into files beside it.
pub const MAX_EXPORT_BYTES: usize = 64 << 20;
/// Bytes of one file that is taken apart.
pub const MAX_FILE_BYTES: usize = 256 << 20;
/// Bytes of one part when it is unpacked.
pub const MAX_PART_BYTES: u64 = 1 << 30;
/// Parts of one file.
const MAX_PARTS: usize = 10_000;
/// Rounds of PBKDF2 with SHA-256, as OWASP advises since 2023.
const ROUNDS: u32 = 600_000;
/// A file that names more rounds would only keep a reader busy.
const MAX_ROUNDS: u32 = 10_000_000;
const NONCE_BYTES: usize = 12;
const SALT_BYTES: usize = 16;

const SCHEMA: &str = "threadseal.page/1";
const KDF: &str = "PBKDF2-SHA-256";
const CIPHER: &str = "AES-256-GCM";
/// What an encrypted page shows without scripts.
pub const LOCKED_TEXT: &str =
    "The session is encrypted. It opens with its passphrase, in a browser that runs scripts.";
/// What the index is authenticated as.
const INDEX_ID: &str = "index";

/// The four places of a frame: their tokens, what is before and what is after.
const PLACES: [(&str, &str, &str); 4] = [
    ("@@TITLE@@", "<title>", "</title>"),
    ("@@TEXT@@", "<pre id=\"text\">", "</pre>"),
    (
        "@@BOOT@@",
        "<script type=\"application/json\" id=\"boot\">",
        "</script>",
    ),
    ("@@PARTS@@", "<!--parts-->\n", "<!--/parts-->"),
];
const PART_OPEN: &str = "<script type=\"application/octet-stream\" id=\"";
const PART_CLOSE: &str = "</script>\n";

/// What a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A log or record.
    Log,
    /// The seals beside it.
    Seals,
    /// Its detached bodies.
    Bodies,
    /// A proof of one turn, in the place of a log.
    Proof,
}

/// One part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartEntry {
    /// Its id in the file.
    pub id: String,
    /// The log that it is, or belongs to.
    pub log: String,
    /// What it is of that.
    pub role: Role,
    /// The log whose agent began this one's.
    pub parent: Option<String>,
    /// Its bytes.
    pub bytes: u64,
    /// Their SHA-256, in hex digits.
    pub sha256: String,
    /// The file beside that has it; none where it is inside.
    pub file: Option<String>,
}

/// What a file has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// The session.
    pub name: String,
    /// The parts.
    pub parts: Vec<PartEntry>,
    /// What was left out on purpose: `bodies`, `turns`.
    pub left_out: Vec<String>,
}

/// How a file is encrypted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Lock {
    kdf: String,
    iterations: u32,
    salt: String,
    cipher: String,
    index: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Boot {
    mode: String,
    schema: String,
    index: Option<Index>,
    lock: Option<Lock>,
}

/// A log that goes into a file.
#[derive(Debug, Clone)]
pub struct LogBytes {
    /// Its name.
    pub log: String,
    /// The log whose agent began this one's.
    pub parent: Option<String>,
    /// [`Role::Log`] or [`Role::Proof`].
    pub role: Role,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its seals.
    pub seals: Option<Vec<u8>>,
    /// Its detached bodies.
    pub bodies: Option<Vec<u8>>,
}

/// How a file is made.
pub struct Filling<'a> {
    /// The session.
    pub name: &'a str,
    /// What is shown without scripts.
    pub text: &'a str,
    /// What was left out on purpose.
    pub left_out: Vec<String>,
    /// Encrypts all of it.
    pub passphrase: Option<&'a [u8]>,
    /// Fills a buffer with random bytes.
    pub random: &'a mut dyn FnMut(&mut [u8]) -> Result<(), Error>,
}

/// A file, and those beside it.
#[derive(Debug)]
pub struct Filled {
    /// The page.
    pub html: String,
    /// Parts beyond [`MAX_EXPORT_BYTES`], by the names of their files.
    pub files: Vec<(String, Vec<u8>)>,
}

/// Fills the places of `template`.
///
/// # Errors
/// Kind `External` when there is no randomness, `InvalidInput` when the template lacks a place.
pub fn fill(template: &str, logs: &[LogBytes], filling: Filling<'_>) -> Result<Filled, Error> {
    let mut salt = [0; SALT_BYTES];
    let mut cipher = None;
    if let Some(passphrase) = filling.passphrase {
        (filling.random)(&mut salt)?;
        cipher = Some(cipher_of(passphrase, &salt, ROUNDS));
    }
    let mut packer = Packer {
        name: filling.name,
        cipher: cipher.as_ref(),
        random: filling.random,
        entries: Vec::new(),
        inside: String::new(),
        files: Vec::new(),
    };
    for log in logs {
        packer.add(log, log.role, &log.bytes)?;
        for (role, bytes) in [(Role::Seals, &log.seals), (Role::Bodies, &log.bodies)] {
            if let Some(bytes) = bytes {
                packer.add(log, role, bytes)?;
            }
        }
    }
    let index = Index {
        name: filling.name.to_owned(),
        parts: std::mem::take(&mut packer.entries),
        left_out: filling.left_out,
    };
    let mut boot = Boot {
        mode: "export".to_owned(),
        schema: SCHEMA.to_owned(),
        index: None,
        lock: None,
    };
    let (mut title, mut text) = (format!("{} · ThreadSeal", filling.name), filling.text);
    match cipher {
        None => boot.index = Some(index),
        Some(_) => {
            let index = packer.sealed(INDEX_ID, json(&index).as_bytes())?;
            boot.lock = Some(Lock {
                kdf: KDF.to_owned(),
                iterations: ROUNDS,
                salt: base64(&salt),
                cipher: CIPHER.to_owned(),
                index: base64(&index),
            });
            title = "Encrypted session · ThreadSeal".to_owned();
            text = LOCKED_TEXT;
        }
    }
    // What could end its element is written as an escape of JSON.
    let boot = json(&boot).replace('<', "\\u003c");
    let values = [escaped(&title), escaped(text), boot, packer.inside];
    Ok(Filled {
        html: filled(template, &values)?,
        files: packer.files,
    })
}

fn json(value: &impl Serialize) -> String {
    // Texts and numbers under names: JSON can express all of them.
    serde_json::to_string(value).unwrap_or_default()
}

/// All places are found before one is filled: foreign text may hold their tokens.
fn filled(template: &str, values: &[String; 4]) -> Result<String, Error> {
    let (mut html, mut rest) = (String::new(), template);
    for ((token, _, _), value) in PLACES.iter().zip(values) {
        let (before, after) = rest
            .split_once(token)
            .ok_or_else(|| Error::invalid(format!("the page lacks its place {token}")))?;
        html.push_str(before);
        html.push_str(value);
        rest = after;
    }
    html.push_str(rest);
    Ok(html)
}

struct Packer<'a, 'r> {
    name: &'a str,
    cipher: Option<&'a Aes256Gcm>,
    random: &'r mut dyn FnMut(&mut [u8]) -> Result<(), Error>,
    entries: Vec<PartEntry>,
    inside: String,
    files: Vec<(String, Vec<u8>)>,
}

impl Packer<'_, '_> {
    fn add(&mut self, log: &LogBytes, role: Role, bytes: &[u8]) -> Result<(), Error> {
        let id = format!("part-{}", self.entries.len());
        let stored = match self.cipher {
            Some(_) => self.sealed(&id, &packed(bytes))?,
            None => packed(bytes),
        };
        let is_beyond = self.inside.len() + stored.len() / 3 * 4 > MAX_EXPORT_BYTES;
        let file = is_beyond.then(|| format!("{}.{id}", file_name(self.name)));
        match &file {
            Some(file) => self.files.push((file.clone(), stored)),
            None => {
                self.inside.push_str(&format!(
                    "{PART_OPEN}{id}\">{}{PART_CLOSE}",
                    base64(&stored)
                ));
            }
        }
        self.entries.push(PartEntry {
            id,
            log: log.log.clone(),
            role,
            parent: log.parent.clone(),
            bytes: bytes.len() as u64,
            sha256: Digest::of(bytes).to_hex(),
            file,
        });
        Ok(())
    }

    /// The nonce, and the bytes encrypted under it.
    fn sealed(&mut self, id: &str, bytes: &[u8]) -> Result<Vec<u8>, Error> {
        let mut stored = vec![0; NONCE_BYTES];
        (self.random)(&mut stored)?;
        let nonce: [u8; NONCE_BYTES] = std::array::from_fn(|at| stored[at]);
        let payload = Payload {
            msg: bytes,
            aad: id.as_bytes(),
        };
        let cipher = self
            .cipher
            .ok_or_else(|| Error::invalid("there is no key"))?;
        let sealed = cipher.encrypt(&Nonce::from(nonce), payload);
        stored
            .extend(sealed.map_err(|_| {
                Error::new(ErrorKind::Limit, "a part is too large to be encrypted")
            })?);
        Ok(stored)
    }
}

/// A name for files, of a session's.
pub fn file_name(name: &str) -> String {
    let plain = |letter: char| match letter {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '_' | '-' => letter,
        _ => '-',
    };
    name.chars().map(plain).collect()
}

fn cipher_of(passphrase: &[u8], salt: &[u8], rounds: u32) -> Aes256Gcm {
    let mut key = [0; 32];
    pbkdf2::pbkdf2_hmac::<Sha256>(passphrase, salt, rounds, &mut key);
    Aes256Gcm::new(&Key::<Aes256Gcm>::from(key))
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    // A vector takes everything.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

/// Text that is safe between tags, whatever it is.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '\r' => safe.push_str("&#13;"),
            '\0' => safe.push('\u{fffd}'),
            letter => safe.push(letter),
        }
    }
    safe
}

fn unescaped(text: &str) -> String {
    text.replace("&#13;", "\r")
        .replace("&gt;", ">")
        .replace("&lt;", "<")
        .replace("&amp;", "&")
}

/// A received file, taken apart.
#[derive(Debug)]
pub struct PageFile {
    /// What its window is called.
    pub title: String,
    /// What it shows without scripts.
    pub text: String,
    /// The SHA-256 of all but the four places, in hex digits.
    pub frame: String,
    boot: Boot,
    parts: BTreeMap<String, String>,
}

impl PageFile {
    /// Takes a file apart.
    ///
    /// # Errors
    /// Kind `InvalidInput` when it has another form, or anything else is between its parts.
    pub fn read(bytes: &[u8]) -> Result<Self, Error> {
        let other =
            |what: &str| Error::invalid(format!("this is no page that export writes: {what}"));
        let file = std::str::from_utf8(bytes).map_err(|_| other("it is not UTF-8"))?;
        let (mut frame, mut found, mut at) = (String::new(), Vec::new(), 0);
        for (token, open, close) in PLACES {
            let start = file[at..]
                .find(open)
                .ok_or_else(|| other(&format!("it lacks {open}")))?;
            let from = at + start + open.len();
            let to = from
                + file[from..]
                    .find(close)
                    .ok_or_else(|| other(&format!("it lacks {close}")))?;
            found.push(&file[from..to]);
            frame.push_str(&file[at..from]);
            frame.push_str(token);
            at = to;
        }
        frame.push_str(&file[at..]);
        let [title, text, boot, parts] = *found.as_slice() else {
            return Err(other("it lacks a place"));
        };
        let boot: Boot = serde_json::from_str(boot).map_err(|error| other(&error.to_string()))?;
        if boot.mode != "export" || boot.schema != SCHEMA {
            return Err(other("its form is not known"));
        }
        Ok(Self {
            title: unescaped(title),
            text: unescaped(text),
            frame: Digest::of(frame.as_bytes()).to_hex(),
            boot,
            parts: parts_of(parts)
                .ok_or_else(|| other("between its parts is what does not belong there"))?,
        })
    }

    /// Does it open with a passphrase only?
    pub fn is_locked(&self) -> bool {
        self.boot.lock.is_some()
    }

    /// Opens it; `beside` reads a file that has a part.
    ///
    /// # Errors
    /// Kind `InvalidInput` when a part is missing, was changed or does not fit the index, or the passphrase is wrong.
    pub fn open(
        &self,
        passphrase: Option<&[u8]>,
        beside: &dyn Fn(&str) -> Result<Vec<u8>, Error>,
    ) -> Result<OpenPage, Error> {
        let cipher = match (&self.boot.lock, passphrase) {
            (None, _) => None,
            (Some(_), None) => {
                return Err(Error::invalid(
                    "the session is encrypted; hint: threadseal verify FILE --unlock FILE",
                ));
            }
            (Some(lock), Some(passphrase)) => Some(opening(lock, passphrase)?),
        };
        let index = match (&self.boot.lock, &cipher) {
            (Some(lock), Some(cipher)) => {
                let wrong = || Error::invalid("the passphrase does not open it");
                let stored = parse_base64(&lock.index).ok_or_else(wrong)?;
                let plain = unsealed(cipher, INDEX_ID, &stored).ok_or_else(wrong)?;
                serde_json::from_slice(&plain)
                    .map_err(|error| Error::invalid(format!("its index: {error}")))?
            }
            _ => self
                .boot
                .index
                .clone()
                .ok_or_else(|| Error::invalid("the page has no index"))?,
        };
        if index.parts.len() > MAX_PARTS {
            return Err(Error::new(
                ErrorKind::Limit,
                format!("it has more than {MAX_PARTS} parts"),
            ));
        }
        let mut logs: Vec<LogBytes> = Vec::new();
        let mut used = 0;
        for part in &index.parts {
            let stored = match (self.parts.get(&part.id), &part.file) {
                (Some(text), _) => {
                    used += 1;
                    parse_base64(text)
                        .ok_or_else(|| Error::invalid(format!("{} is no base64", part.id)))?
                }
                (None, Some(file)) if file_name(file) == *file && !file.starts_with('.') => {
                    beside(file)?
                }
                _ => return Err(Error::invalid(format!("it lacks {}", part.id))),
            };
            let bytes = unpacked(part, &stored, cipher.as_ref())?;
            match part.role {
                Role::Log | Role::Proof if !logs.iter().any(|log| log.log == part.log) => logs
                    .push(LogBytes {
                        log: part.log.clone(),
                        parent: part.parent.clone(),
                        role: part.role,
                        bytes,
                        seals: None,
                        bodies: None,
                    }),
                role => {
                    let log = logs.iter_mut().find(|log| log.log == part.log);
                    let place = match (log, role) {
                        (Some(log), Role::Seals) => Some(&mut log.seals),
                        (Some(log), Role::Bodies) => Some(&mut log.bodies),
                        _ => None,
                    };
                    match place {
                        Some(place @ None) => *place = Some(bytes),
                        _ => {
                            return Err(Error::invalid(format!(
                                "{} has no place in its index",
                                part.id
                            )));
                        }
                    }
                }
            }
        }
        if used < self.parts.len() {
            return Err(Error::invalid("it has a part that its index does not name"));
        }
        Ok(OpenPage { index, logs })
    }
}

/// What a received file has inside.
#[derive(Debug)]
pub struct OpenPage {
    /// Its index.
    pub index: Index,
    /// Its logs.
    pub logs: Vec<LogBytes>,
}

impl OpenPage {
    /// The title of a page with this index.
    pub fn title(&self, is_locked: bool) -> String {
        let name = if is_locked {
            "Encrypted session"
        } else {
            &self.index.name
        };
        // As a place of the page has it.
        format!("{} · ThreadSeal", name.replace('\0', "\u{fffd}"))
    }
}

fn opening(lock: &Lock, passphrase: &[u8]) -> Result<Aes256Gcm, Error> {
    let salt = parse_base64(&lock.salt).filter(|salt| salt.len() == SALT_BYTES);
    let is_known = lock.kdf == KDF && lock.cipher == CIPHER;
    match salt {
        Some(salt) if is_known && (1..=MAX_ROUNDS).contains(&lock.iterations) => {
            Ok(cipher_of(passphrase, &salt, lock.iterations))
        }
        _ => Err(Error::invalid(
            "it is encrypted in a way that this program does not know",
        )),
    }
}

fn unsealed(cipher: &Aes256Gcm, id: &str, stored: &[u8]) -> Option<Vec<u8>> {
    let (nonce, msg) = stored.split_at_checked(NONCE_BYTES)?;
    let nonce: [u8; NONCE_BYTES] = nonce.try_into().ok()?;
    let payload = Payload {
        msg,
        aad: id.as_bytes(),
    };
    cipher.decrypt(&Nonce::from(nonce), payload).ok()
}

fn unpacked(part: &PartEntry, stored: &[u8], cipher: Option<&Aes256Gcm>) -> Result<Vec<u8>, Error> {
    let id = &part.id;
    if part.bytes > MAX_PART_BYTES {
        return Err(Error::new(
            ErrorKind::Limit,
            format!("{id} has more than {MAX_PART_BYTES} bytes"),
        ));
    }
    let opened = match cipher {
        Some(cipher) => &unsealed(cipher, id, stored)
            .ok_or_else(|| Error::invalid(format!("{id} was changed")))?,
        None => stored,
    };
    let mut bytes = Vec::new();
    let unpacked = GzDecoder::new(opened)
        .take(part.bytes.saturating_add(1))
        .read_to_end(&mut bytes);
    unpacked.map_err(|error| Error::invalid(format!("{id} cannot be unpacked: {error}")))?;
    match bytes.len() as u64 == part.bytes && Digest::of(&bytes).to_hex() == part.sha256 {
        true => Ok(bytes),
        false => Err(Error::invalid(format!("{id} is not that of the index"))),
    }
}

/// The parts, by their ids; `None` where anything else is between them.
fn parts_of(mut text: &str) -> Option<BTreeMap<String, String>> {
    let mut parts = BTreeMap::new();
    while !text.is_empty() {
        let (id, rest) = text.strip_prefix(PART_OPEN)?.split_once("\">")?;
        let (stored, rest) = rest.split_once(PART_CLOSE)?;
        let digits = id.strip_prefix("part-")?;
        let is_id =
            (1..=5).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_digit());
        let is_base64 =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
        if !is_id || !stored.bytes().all(is_base64) || parts.len() >= MAX_PARTS {
            return None;
        }
        if parts.insert(id.to_owned(), stored.to_owned()).is_some() {
            return None;
        }
        text = rest;
    }
    Some(parts)
}

#[cfg(test)]
mod tests;
