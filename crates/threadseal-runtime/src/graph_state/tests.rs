//! Courses and the files that follow them.
