//! The result of one file.

use crate::output::PathError;
use threadseal_core::report::Report;
use threadseal_formats::lineage::LinkFacts;

/// What came of a file.
#[derive(Debug)]
pub enum FileResult {
    /// One report for each claim.
    Reports(Vec<Report>),
    /// No record.
    PassedOver,
    /// Its report is with another file of the same folder.
    Elsewhere,
    /// A checkpoint, to be joined with others, and reports of the files beside it.
    Link(Box<LinkFacts>, Vec<Report>),
    /// No verdict: it was named, was read, and is no record.
    NoRecord(PathError),
    /// No verdict: it could not be read.
    Failed(PathError),
}

impl FileResult {
    /// The reports; none of a checkpoint, which is judged with others.
    pub fn reports(&self) -> &[Report] {
        match self {
            Self::Reports(reports) => reports,
            _ => &[],
        }
    }

    /// Is there a result about a record?
    pub fn tells(&self) -> bool {
        match self {
            Self::Reports(reports) => !reports.is_empty(),
            Self::Link(..) | Self::NoRecord(_) | Self::Failed(_) => true,
            // Its report is with another file.
            Self::PassedOver | Self::Elsewhere => false,
        }
    }
}
