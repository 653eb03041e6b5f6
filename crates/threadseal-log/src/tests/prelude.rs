//! Names that most modules of these tests use.

pub(crate) use super::scene::*;
pub(crate) use crate::commit::batch::HeadBatch;
pub(crate) use crate::index::head_index::HeadIndex;
pub(crate) use crate::layout::home_secret::HomeSecret;
pub(crate) use crate::marks::folder_mark::FolderMark;
pub(crate) use crate::tree::writer::{Writer, sign};
pub(crate) use crate::*;
pub(crate) use std::collections::{BTreeMap, BTreeSet};
pub(crate) use std::fs;
pub(crate) use std::ops::Range;
pub(crate) use std::path::{Path, PathBuf};
pub(crate) use std::sync::{Arc, Mutex};
pub(crate) use std::thread;
pub(crate) use std::time::Duration;
pub(crate) use tempfile::TempDir;
pub(crate) use threadseal_core::digest::Digest;
pub(crate) use threadseal_core::error::{Error, ErrorKind};
pub(crate) use threadseal_core::key::{
    KeyId, KeyUsage, LocalSigner, Message, PrivateKey, PublicKey, Signature, Signer,
};
pub(crate) use threadseal_core::merkle::TreeHead;
pub(crate) use threadseal_core::note::{KeyName, NoteSignature, SignedNote};
pub(crate) use threadseal_core::record::{Head, RecordId};
pub(crate) use threadseal_core::tlog::checkpoint::Checkpoint;
pub(crate) use threadseal_core::tlog::entry::key_event::{KeyChange, KeyEvent, KeyHistory};
pub(crate) use threadseal_core::tlog::entry::{LogEntry, LoggedHead, Restart};
pub(crate) use threadseal_store::atomic::{self, PRIVATE_DIRECTORY, PRIVATE_FILE};
pub(crate) use threadseal_store::fault::{FaultFs, FaultKind, Keep};
pub(crate) use threadseal_store::heads::{
    Durability, FileHeadStore, HeadStore as _, LoggedAt, RecordKind, StoredHead, Swap,
};
pub(crate) use threadseal_store::random::SeededRandom;
pub(crate) use threadseal_store::sys::{Fs, RealFs};
pub(crate) use threadseal_store::testing::signer;
