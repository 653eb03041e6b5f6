//! [`HomeLog`]: the transparency log of a home, as far as there is one.

use std::sync::Arc;
use threadseal_log::{LoggedHeads, SealLog, Standing};
use threadseal_store::heads::HeadStore;

/// The log of a home.
#[derive(Debug, Clone, Default)]
pub enum HomeLog {
    /// The home never had one, or there is no home.
    #[default]
    Never,
    /// The log can be opened.
    There(Arc<SealLog>),
    /// The home had a log, and it is gone: the reason.
    Missing(String),
    /// The file that names the log cannot be read: the reason.
    Damaged(String),
}

impl HomeLog {
    /// Can it be shown that what this home knows of records is the newest that it ever knew?
    pub fn vouches(&self) -> bool {
        match self {
            Self::Never => true,
            Self::There(log) => log.standing().vouches(),
            Self::Missing(_) | Self::Damaged(_) => false,
        }
    }

    /// Why nothing can be written into the log, where that is known before a seal. A second place that cannot be read is
    /// no reason to refuse seals.
    pub fn obstacle(&self) -> Option<String> {
        match self {
            Self::Missing(why) | Self::Damaged(why) => Some(why.clone()),
            Self::There(log) => match log.standing() {
                Standing::Damaged(why) => Some(why),
                _ => None,
            },
            Self::Never => None,
        }
    }

    /// The heads of a home, with those that its log has.
    pub fn heads(&self, heads: Arc<dyn HeadStore>) -> Arc<dyn HeadStore> {
        match self {
            Self::Never => heads,
            Self::There(log) => Arc::new(LoggedHeads::new(heads, Arc::clone(log))),
            Self::Missing(_) | Self::Damaged(_) => Arc::new(LoggedHeads::without_log(heads)),
        }
    }
}
