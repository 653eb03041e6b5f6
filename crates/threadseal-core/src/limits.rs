//! Every bound of the core, in one place.
//!
//! A bound exists so that hostile input costs bounded memory and time. Each is far above the output
//! of real agents (the longest line seen in real sessions is below 3 MB).

/// Longest line of a transcript or log in bytes, LF not counted.
pub const MAX_LINE_BYTES: usize = 16 << 20;
/// Strings of at least this many bytes of JSON text, quotes included, are detached under any name.
pub const MIN_DETACHED_BYTES: usize = 256;
/// Most commitments to bodies of one record; a verifier keeps some 100 bytes of each.
pub const MAX_RECORD_BODIES: usize = 1 << 20;
/// Most bodies that one event redacts: their digests fit a line.
pub const MAX_REDACTED_AT_ONCE: usize = 1 << 16;
/// Largest file of a conflict of checkpoints in bytes: two notes.
pub const MAX_CONFLICT_BYTES: usize = 4 << 20;
/// Most seals of one record that are marked as the first to cover a redaction.
pub const MAX_REDACTING_SEALS: usize = 1 << 12;
/// Most records that one tombstone covers: a transcript, and the other records in its thread's
/// folder.
pub const MAX_TOMBSTONE_RECORDS: usize = 16;
/// Largest tombstone in bytes: the longest texts, escaped, and all records.
pub const MAX_TOMBSTONE_BYTES: usize = 64 << 10;
/// Longest name in bytes of the author of a redaction or a pruning.
pub const MAX_REDACTOR_BYTES: usize = 256;
/// Longest reason of a redaction, or of pruning, in bytes.
pub const MAX_REDACTION_REASON_BYTES: usize = 4096;
/// Deepest nesting of JSON arrays and objects.
pub const MAX_JSON_DEPTH: usize = 128;
/// Deepest nesting of a document read as Python reads it.
///
/// Python stops near depth 1000, counted from the bottom of its call stack.
pub const MAX_PYTHON_JSON_DEPTH: usize = 512;
/// Longest JSON number literal in bytes.
pub const MAX_NUMBER_BYTES: usize = 4096;
/// Most digits of an integer that Python reads (`sys.int_info.default_max_str_digits`).
pub const MAX_PYTHON_INTEGER_DIGITS: usize = 4300;
/// Most values (scalars, arrays and objects) of one JSON text.
///
/// Each takes some 64 bytes of memory. So the values of a document cost no more than the largest
/// document itself.
pub const MAX_JSON_VALUES: usize = 1 << 20;
/// Largest document (signed JSON or signed text) in bytes.
pub const MAX_DOCUMENT_BYTES: usize = 64 << 20;
/// Longest thread id in bytes.
pub const MAX_THREAD_ID_BYTES: usize = 512;
/// Longest text of a signed note in bytes.
pub const MAX_NOTE_BYTES: usize = 1 << 20;
/// Most signature lines of a signed note (C2SP signed-note requires at least 16).
pub const MAX_NOTE_SIGNATURES: usize = 64;
/// Longest id and signature of one line of a signed note in bytes.
///
/// ML-DSA-44 has 2,420, SLH-DSA up to 49,856.
pub const MAX_NOTE_SIGNATURE_BYTES: usize = 64 << 10;
/// Most hashes of one proof about a tree: enough for 2^63 leaves, the bound of C2SP tlog-witness.
pub const MAX_PROOF_HASHES: usize = 63;
/// Most hashes of a proof about a run of leaves: one before and one after the run on each level.
pub const MAX_RANGE_PROOF_HASHES: usize = 2 * MAX_PROOF_HASHES;
/// Largest file of fork evidence that a log accepts, in bytes.
pub const MAX_EVIDENCE_BYTES: usize = 64 << 20;
/// Largest proof of a turn in bytes.
pub const MAX_TURN_PROOF_BYTES: usize = 64 << 20;
/// Most lines of a record that a proof of a turn shows.
pub const MAX_TURN_PROOF_LINES: usize = 1 << 20;
/// Longest entry of any log in bytes: its length is a u16 (C2SP tlog-tiles).
pub const MAX_TILE_ENTRY_BYTES: usize = 65_535;
/// Longest entry of a seal log in bytes; C2SP tlog-tiles holds up to 65,535.
pub const MAX_LOG_ENTRY_BYTES: usize = 4096;
/// Longest origin of a log in bytes.
pub const MAX_ORIGIN_BYTES: usize = 1024;
/// Most lines of a checkpoint after its root.
pub const MAX_CHECKPOINT_EXTENSIONS: usize = 16;
/// Longest `extra` of a proof of an entry in bytes (C2SP tlog-proof sets no bound).
pub const MAX_PROOF_EXTRA_BYTES: usize = 1 << 20;
/// Longest key of a note in bytes, its type included (ML-DSA-44 has 1,313, ML-DSA-87 2,593).
pub const MAX_NOTE_KEY_BYTES: usize = 4 << 10;
/// Largest policy about logs and witnesses in bytes.
pub const MAX_POLICY_BYTES: usize = 1 << 20;
/// Most logs of one policy (C2SP tlog-policy requires at least 32, as for the next two).
pub const MAX_POLICY_LOGS: usize = 256;
/// Most witnesses of one policy.
pub const MAX_POLICY_WITNESSES: usize = 256;
/// Most groups of one policy.
pub const MAX_POLICY_GROUPS: usize = 256;
/// Largest body of a request to a witness in bytes, and of its answer.
///
/// It holds more than forty signatures of ML-DSA-44.
pub const MAX_WITNESS_BODY_BYTES: usize = 256 << 10;
/// Longest name of a note key in bytes.
pub const MAX_KEY_NAME_BYTES: usize = 1024;
/// Most tails that a record may adopt over its life.
pub const MAX_ADOPTED_TAILS: usize = 1 << 16;
/// Most keys that may seal one record over its life.
pub const MAX_RECORD_KEYS: usize = 1024;
/// Keys that a reader of scrolls or ledgers keeps in memory, each with 640 KiB once it is frequent.
pub const MAX_REPEATED_KEYS: usize = 4;
/// Most findings of one code that one report keeps.
pub const MAX_FINDINGS: usize = 64;
/// Most keys that a report names whose seals count through one signer.
pub const MAX_SIGNER_SEALERS: usize = 64;
/// Largest key file in bytes.
pub const MAX_KEY_FILE_BYTES: usize = 64 << 10;
/// Longest passphrase of a private key in bytes.
pub const MAX_PASSPHRASE_BYTES: usize = 1024;
/// Most memory that a key file may make scrypt take: 128 r (N + p) bytes (RFC 7914 §6).
pub const MAX_SCRYPT_MEMORY_BYTES: u128 = 256 << 20;
/// Most memory that a key file may make scrypt fill over all its p rounds: 128 N r p bytes.
pub const MAX_SCRYPT_WORK_BYTES: u128 = 1 << 30;
/// Most iterations that a key file may ask of PBKDF2.
pub const MAX_PBKDF2_ITERATIONS: u32 = 2_000_000;
/// Largest identity file in bytes, LF included.
pub const MAX_IDENTITY_BYTES: usize = 64 << 10;
/// Most keys of one identity, ended ones included.
pub const MAX_IDENTITY_KEYS: usize = 128;
/// Most native keys that follow each other in one identity.
pub const MAX_IDENTITY_LINKS: usize = 64;
/// Longest name of an identity in bytes: names of trusted keys add a usage and digits to it.
pub const MAX_IDENTITY_NAME_BYTES: usize = 96;
/// Largest trust store file in bytes.
pub const MAX_TRUST_FILE_BYTES: usize = 4 << 20;
/// Most keys in one trust store.
pub const MAX_TRUSTED_KEYS: usize = 1 << 14;
/// Most keys that one run may pin.
pub const MAX_PINNED_KEYS: usize = 64;
/// Longest name of a trusted key in bytes.
pub const MAX_TRUST_NAME_BYTES: usize = 128;
/// Longest note or reason in a trust store in bytes.
pub const MAX_TRUST_TEXT_BYTES: usize = 4096;
/// Most thread patterns of one trusted key.
pub const MAX_SCOPE_PATTERNS: usize = 1024;
/// Most key files of one Rye trust folder.
pub const MAX_RYE_KEY_FILES: usize = 10_000;
/// Largest integer that every JSON reader keeps exactly (2^53 - 1).
pub const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;
/// Most bytes of checkpoint lines that wait for a second pass when Rye's answer is computed.
pub const MAX_COMPAT_DEFERRED_BYTES: usize = 16 << 20;
/// Longest event type in bytes.
pub const MAX_EVENT_TYPE_BYTES: usize = 128;
/// Most lines of one observed log under seals; a verifier keeps 32 bytes for each.
pub const MAX_OBSERVED_LINES: usize = 1 << 20;
/// Most secrets that give the salts of one observed log: up to 32 for each redacted run of lines.
pub const MAX_SALT_SECRETS: usize = 1 << 16;
/// Most statements of redactions in one seal file of an observed log.
pub const MAX_OBSERVED_REDACTIONS: usize = 1 << 10;
/// Most keys that a seal file of an observed log names after its first one.
pub const MAX_OBSERVED_NEXT_KEYS: usize = 64;
/// Most characters that rendering shows of one tool result (Rye's bound).
pub const MAX_SHOWN_RESULT_CHARS: usize = 2000;
/// Most characters that rendering shows of a file that a tool writes (Rye's bound).
pub const MAX_SHOWN_FILE_CHARS: usize = 500;
/// Longest turn of a scroll in bytes, as stored in the file.
pub const MAX_TURN_BYTES: usize = 32 << 20;
/// Longest turn that is read a second time by laxer rules after the strict reader refused it.
pub const MAX_LENIENT_TURN_BYTES: usize = 1 << 20;
/// Most failures that the answer of agent-scroll v0.1 lists; the rest are counted.
pub const MAX_COMPAT_FAILURES: usize = 10_000;
/// Most bytes of the failures that AbstractRuntime's answer lists; the rest are counted.
pub const MAX_COMPAT_FAILURE_BYTES: usize = 4 << 20;
/// Most values (scalars, arrays and maps) of one turn in CBOR, which is read into a tree.
pub const MAX_CBOR_VALUES: usize = 1 << 20;
/// Deepest nesting of a value inside a turn that is mapped from another format.
///
/// A scroll adds up to eight levels around it, and [`MAX_JSON_DEPTH`] still holds.
pub const MAX_CARRIED_DEPTH: usize = 112;
/// Largest source that is mapped into a scroll in bytes.
pub const MAX_SOURCE_BYTES: usize = 128 << 20;
/// Most members of an archive of logs.
pub const MAX_ARCHIVE_MEMBERS: usize = 1 << 16;
/// Most bytes to which one byte of a packed member may unpack. Deflate reaches 1,032.
pub const MAX_ARCHIVE_RATIO: usize = 1 << 12;
/// Largest back-reference of a Zstandard frame in bytes (RFC 8878 §3.1.1.1.2 recommends 8 MiB).
pub const MAX_ARCHIVE_WINDOW: u64 = 8 << 20;
/// Most lines of a source that are mapped into a scroll.
pub const MAX_SOURCE_LINES: u64 = 1 << 20;
/// Most values (scalars, arrays and objects) of all lines of a source that is mapped into a scroll.
///
/// A mapping that holds all lines at once has the bound [`MAX_JSON_VALUES`].
pub const MAX_SOURCE_VALUES: usize = 1 << 23;
/// Most groups (pointer and reason) that the account of a mapping names; the rest are counted.
pub const MAX_ACCOUNT_GROUPS: usize = 1 << 16;
/// Most lines that format detection examines. [`MAX_DETECT_BYTES`] bounds the lines after the
/// first.
pub const MAX_DETECT_LINES: usize = 64;
/// Most bytes of lines after the first; see [`MAX_DETECT_LINES`].
pub const MAX_DETECT_BYTES: usize = 1 << 20;
/// Longest id of a run in bytes.
pub const MAX_RUN_ID_BYTES: usize = 512;
/// Longest record of a ledger that is read into a tree, after the quick way gave up on it.
///
/// A tree takes up to forty times as much memory.
pub const MAX_LENIENT_RECORD_BYTES: usize = 4 << 20;
/// Most records of a ledger in one line; AbstractRuntime never writes two.
pub const MAX_LINE_RECORDS: usize = 1024;
/// Longest `prev_hash` or `record_hash` that is read as a value where it is no digest.
pub const MAX_LINK_BYTES: usize = 64 << 10;
/// Most markers for content elsewhere that are looked at in one record.
pub const MAX_RECORD_MARKERS: usize = 1024;
/// Most steps of a ledger that are tracked at once between their start and their end.
pub const MAX_OPEN_STEPS: usize = 4096;
/// Most bytes of records that are kept for such steps.
pub const MAX_OPEN_STEP_BYTES: usize = 8 << 20;
/// How many times its own length is read of such a record, for the markers that refer to it.
pub const MAX_SLIM_READS: usize = 16;
/// Most ended steps that are remembered.
pub const MAX_RECENT_STEPS: usize = 4096;
/// Most records of a ledger that are searched for a fork.
pub const MAX_FORK_RECORDS: usize = 1024;
/// Most actors of a ledger that a report shows.
pub const MAX_SHOWN_ACTORS: usize = 8;
/// Most runs of one history bundle.
pub const MAX_BUNDLE_RUNS: usize = 1 << 16;
/// Longest name of an agent in bytes.
pub const MAX_AGENT_NAME_BYTES: usize = 63;
/// Longest media type of a checkpoint's state in bytes.
pub const MAX_MEDIA_TYPE_BYTES: usize = 31;
/// Longest reason of a refusal in bytes.
pub const MAX_REFUSAL_BYTES: usize = 127;
/// Longest file of a delegation in bytes.
pub const MAX_DELEGATION_BYTES: usize = 4 << 10;
/// Largest file of receipts in bytes.
pub const MAX_RECEIPTS_BYTES: usize = 64 << 20;
/// Largest package of an agent in bytes: igor's complete, ThreadSeal's without its state.
pub const MAX_PACKAGE_BYTES: usize = 256 << 20;
/// Most links of one package.
pub const MAX_PACKAGE_LINKS: usize = 1 << 18;
/// Most checkpoint files that are joined into lineages at once.
pub const MAX_LINEAGE_LINKS: usize = 1 << 18;
