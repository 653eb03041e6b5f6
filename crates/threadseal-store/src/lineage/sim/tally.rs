//! The result of a schedule: its counts, or the law that it broke.

use std::fmt;

/// The violations of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    /// The source acts after it released.
    TicksAfterRelease,
    /// The release is sent and not durable.
    ReleaseNotDurable,
    /// The target takes an offer although it knows the links after it.
    TakesStalePackage,
    /// The target refuses an offer that it accepted.
    RefusesAfterAccept,
    /// The root recovers at an epoch that another may have.
    RecoversWithoutJump,
}

impl Plant {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::TicksAfterRelease,
        Self::ReleaseNotDurable,
        Self::TakesStalePackage,
        Self::RefusesAfterAccept,
        Self::RecoversWithoutJump,
    ];
}

/// The counts of a schedule that broke no law.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Offers that were made durable.
    pub releases: u64,
    /// Offers that were taken.
    pub accepts: u64,
    /// Offers that were refused.
    pub refusals: u64,
    /// Calls of stores that failed.
    pub faults: u64,
    /// Machines that were lost for good.
    pub lost: u64,
    /// Links of the root's.
    pub recoveries: u64,
    /// Copies that the network delivered again.
    pub repeated: u64,
}

impl Tally {
    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            releases: self.releases + other.releases,
            accepts: self.accepts + other.accepts,
            refusals: self.refusals + other.refusals,
            faults: self.faults + other.faults,
            lost: self.lost + other.lost,
            recoveries: self.recoveries + other.recoveries,
            repeated: self.repeated + other.repeated,
        }
    }
}

/// A schedule that broke a law.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Its seed.
    pub seed: u64,
    /// The law that it broke.
    pub law: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "schedule {}: {}", self.seed, self.law)
    }
}
