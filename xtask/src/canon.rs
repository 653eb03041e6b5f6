//! RFC 8785 for many texts at once, one per line, for comparison with other canonicalizers.
//!
//! ```text
//! stdin   JSON text LF …    stdout   canonical text LF … , or `error: …` LF for an invalid line
//! ```
//! `cargo xtask canon < FILE`; `interop/scroll/check_canonical.py` calls it.

use std::error::Error;
use std::io::{BufRead as _, BufWriter, Write as _};
use threadseal_core::canon::jcs;

/// Answers each line of the standard input.
pub(crate) fn run() -> Result<bool, Box<dyn Error>> {
    let mut input = std::io::stdin().lock();
    let mut output = BufWriter::new(std::io::stdout().lock());
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        match jcs::canonicalize(line.strip_suffix(b"\n").unwrap_or(&line)) {
            Ok(text) => output.write_all(&text)?,
            Err(error) => write!(output, "error: {error}")?,
        }
        output.write_all(b"\n")?;
    }
    output.flush()?;
    Ok(true)
}
