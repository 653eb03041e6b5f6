//! Every bound of the runtime, in one place.
//!
//! A bound exists so that hostile input costs bounded memory and time. Each is far above what real
//! projects hold.

/// Longest capability in bytes: a thread's longest id and what stands before it.
pub const MAX_CAPABILITY_BYTES: usize = 1024;
/// Most capabilities of one thread.
pub const MAX_CAPABILITIES: usize = 4096;
/// Most classifications of one table of risks.
pub const MAX_CLASSIFICATIONS: usize = 4096;
