//! Any answer of an authority and any file: a time stamp is the genuine one, or there is none.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadseal_log::timestamps::{Authority, NotStamped, verify};

const RESPONSE: &[u8] = include_bytes!("../seeds/timestamp/p256.tsr");
const AUTHORITY: &[u8] = include_bytes!("../seeds/timestamp/p256.tsa");
const MESSAGE: &[u8] = b"threadseal.log/00\n1\n\n";

fuzz_target!(|bytes: &[u8]| {
    let authority = Authority::parse(AUTHORITY).expect("an authority");
    let stamp = verify(RESPONSE, MESSAGE, &authority, None).expect("a stamp");
    match verify(bytes, MESSAGE, &authority, None) {
        Ok(other) => assert_eq!(other, stamp),
        Err(NotStamped::Refused { status, .. }) => assert!(status > 1),
        Err(_) => {}
    }
    assert!(verify(bytes, b"other", &authority, None).is_err());
    if let Ok(read) = Authority::parse(bytes) {
        assert_eq!(Authority::parse(read.to_text().as_bytes()).as_ref(), Ok(&read));
        assert_eq!(read.to_text().as_bytes(), bytes);
    }
});
