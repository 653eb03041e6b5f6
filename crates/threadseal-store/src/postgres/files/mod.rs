//! [`LeasedFs`]: folders that are stored in PostgreSQL; all other paths stay on the disk.
//!
//! ```text
//! threadseal_files    path, folder, inode, order_id, is_folder, mode, size, version, changed_at
//! threadseal_chunks   inode, at, bytes: those of one append
//! ```
//! A path below one of the folders opens a file of the database. The same code that writes to a
//! disk writes records, metadata, ledgers and entries of threads there. No part of them is on a
//! disk. (Files of lines on a shared disk have no fencing: a writer that slept may write after
//! another took over.)
//!
//! * Each change is one statement. It checks the lease ([`super::leases`]), and that the file
//!   belongs to the lease's order. The file's version and size must be those that this writer
//!   knows. The statement advances both. If it returns no row, the writer stops.
//! * After one refused change a process writes nothing more, to no file.
//! * A change is durable when it returns; there is nothing to sync.
//! * A new file is held in memory until it gets its name. So a crash leaves no half of one.
//! * The lock of a file separates the threads of one process; the lease separates processes.
//! * Without a lease everything is read-only; only a request to the holder may be left ([`leave`]).
//!
//! | file | owns |
//! |---|---|
//! | `leased_fs` | paths: which are in the database, and under which row |
//! | `changes` | changes under the lease, and the stop after one that was refused |
//! | `row`, `node`, `handle` | a row; a file that is written; open files |
//! | `leaving`, `listing` | requests to the holder; all rows, for verification |

mod changes;
mod handle;
mod leased_fs;
mod leaving;
mod listing;
mod node;
mod row;

pub use leased_fs::LeasedFs;
pub use leaving::leave;
pub use listing::{Listing, list, of_order, order_of};
