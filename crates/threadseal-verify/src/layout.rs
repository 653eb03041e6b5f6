//! Where the files of threads are.

/// The folder of a project's threads.
pub const THREADS: &str = ".ai/agent/threads";
/// The metadata of a thread, in its folder.
pub const THREAD_FILE: &str = "thread.json";
/// The record of a thread, in its folder.
pub const TRANSCRIPT_FILE: &str = "transcript.jsonl";
/// What a thread may do, in its folder.
pub const CAPABILITIES_FILE: &str = "capabilities.md";
/// A request to end a thread, in its folder.
pub const CANCEL_FILE: &str = "cancel.json";
/// The identity of a project, beside its threads.
pub const IDENTITY_FILE: &str = "project.json";
