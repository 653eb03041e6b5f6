//! What the tests of all formats share.

use std::fmt::Debug;

/// Names the row of a table if the test fails while this value lives.
pub(crate) struct Row<T: Debug>(pub(crate) T);

impl<T: Debug> Drop for Row<T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("in the row {:?}", self.0);
        }
    }
}
