use crate::list::Folder;
pub(crate) fn vectors() -> Folder { Folder::new("x","native",vec![]) }
