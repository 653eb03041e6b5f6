//! Every mapping into scrolls, selected by the first byte. No source makes a mapping panic, its
//! output is valid turns, and the same source gives the same turns.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadseal_convert::{FORMATS, detect};

fuzz_target!(|data: &[u8]| {
    let Some((selector, source)) = data.split_first() else {
        return;
    };
    if let Some(format) = detect(source) {
        let _ = format.map(source);
    }
    let format = &FORMATS[usize::from(*selector) % FORMATS.len()];
    let Ok(mapped) = format.map(source) else {
        return;
    };
    assert_eq!(format.map(source).as_ref(), Ok(&mapped));
    let turns = mapped.drafts.len();
    let turns_made = mapped.into_turns().expect("what is mapped is of the schema");
    assert_eq!(turns_made.len(), turns);
});
