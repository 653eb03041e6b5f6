//! Finds one member of an object in its text.

use super::fast::{Str, Visitor, walk};
use super::keys::Key;
use std::ops::Range;

/// Where the value of the member called `name` is in the text of an object, however the name is
/// spelled. `None` for a text that is invalid, is no object, or has no such member.
pub fn member_of(text: &[u8], name: &str) -> Option<Range<usize>> {
    let mut finder = Finder {
        name,
        depth: 0,
        found: None,
    };
    walk(text, &mut finder)?;
    finder.found
}

struct Finder<'n> {
    name: &'n str,
    /// How many objects and arrays are open.
    depth: usize,
    found: Option<Range<usize>>,
}

impl<'a> Visitor<'a> for Finder<'_> {
    type Object = ();

    fn open(&mut self) {
        self.depth += 1;
    }

    fn name(&mut self, (): &mut (), _: Str<'a>) -> Option<()> {
        Some(())
    }

    fn member(&mut self, (): &mut (), name: Str<'a>, value: Range<usize>) {
        if self.depth == 1 && Key::new(name.token).is(self.name) {
            self.found = Some(value);
        }
    }

    fn close(&mut self, (): (), _: usize) -> Option<()> {
        self.depth = self.depth.checked_sub(1)?;
        Some(())
    }

    fn open_array(&mut self) {
        self.depth += 1;
    }

    fn close_array(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_member_of_the_outermost_object_is_found() {
        let found = |text: &str| member_of(text.as_bytes(), "a").map(|at| text[at].to_owned());
        for (text, value) in [
            (r#"{"b":{"a":1},"a":2}"#, Some("2")),
            (r#" { "\u0061" : [ 3 ] , "c":[{"a":4}]}"#, Some("[ 3 ]")),
            (r#"{"b":[{"a":1}]}"#, None),
            (r#"[{"a":1}]"#, None),
            (r#"{"a":1"#, None),
            ("7", None),
        ] {
            assert_eq!(found(text).as_deref(), value, "{text}");
        }
    }
}
