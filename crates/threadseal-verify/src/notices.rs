//! [`Notices`], messages for people that change no verdict, and [`Progress`] of long work.

/// Receives what people should know beside the verdicts. Every method may be called from several threads.
pub trait Notices: Send + Sync {
    /// A file of the home that is passed over.
    fn note(&self, _text: &str) {}

    /// A key that was named and is not trusted.
    fn untrusted(&self, _text: &str) {}

    /// A problem of the host; one text may come more than once.
    fn warn(&self, _text: &str) {}

    /// A file that cannot be read, and is evidence of nothing then.
    fn unread(&self, _why: &str) {}

    /// Receives warnings of time stamps that do not count.
    fn of_stamps(&self) -> fn(&str) {
        |_| {}
    }
}

/// Discards all messages.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Notices for Silent {}

/// Follows how far a run is.
pub trait Progress: Send + Sync {
    /// So many bytes more were read.
    fn read(&self, bytes: u64);

    /// All files were read; what follows is short.
    fn done(&self) {}
}
