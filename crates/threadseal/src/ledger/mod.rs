//! Step ledgers: what each step of a run did, one record after the other, chained by hash.

mod record;

pub use record::RunId;
