//! The cost of a job, and the cores that it may use.

/// The cost of a job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) wall_seconds: f64,
    pub(crate) cpu_seconds: f64,
    pub(crate) peak_bytes: u64,
    /// The count of the job: events, files or seals.
    pub(crate) count: u64,
    /// A second count, such as fsyncs.
    pub(crate) extra: u64,
}

/// Cores that this process may use.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
