//! Cuts a file into turns, in one pass, holding one turn at most (`spec/scroll.md` §7).
//!
//! ```text
//! array      [ turn , turn , … ]        blanks anywhere between
//! lines      turn LF turn LF …          a last line without LF is passed on as unended
//! sequence   turn turn …                each one CBOR map (RFC 8742)
//! ```
//! The splitter examines only the bytes that show the ends of turns. The reader of a piece decides
//! whether it is JSON, or a turn. A turn above [`MAX_TURN_BYTES`] is passed on empty.

use super::facts::Form;
use threadseal_core::canon::cbor::{Skipped, Skipper};
use threadseal_core::limits::MAX_TURN_BYTES;

/// The container format of the turns in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Container {
    /// One JSON array.
    Array,
    /// A JSON object a line.
    Lines,
    /// A CBOR sequence.
    Sequence,
}

impl Container {
    /// The form of the turns in it.
    pub fn form(self) -> Form {
        match self {
            Self::Array | Self::Lines => Form::Json,
            Self::Sequence => Form::Cbor,
        }
    }
}

/// The position of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Offset of its first byte.
    pub from: u64,
    /// Offset after its last byte.
    pub to: u64,
    /// Line of its first byte, from 1; a CBOR sequence has none.
    pub line: Option<u64>,
    /// False for a last line without LF.
    pub ended: bool,
    /// Whether it is longer than [`MAX_TURN_BYTES`]; then its bytes are not passed on.
    pub too_long: bool,
}

/// A fault of the container, as opposed to a turn in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerFault {
    /// The first byte that is no blank does not begin an array, or there is none.
    NoArray,
    /// The file ends before the array does.
    Unended,
    /// A byte after the array, or a comma without a turn before or after it.
    Stray,
    /// Bytes that are no CBOR item; the bytes after them cannot be split.
    NoItem,
}

/// How a file ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Bytes of the file.
    pub bytes: u64,
    /// The first fault of the container, and its offset.
    pub fault: Option<(ContainerFault, u64)>,
}

/// Cuts a file. Push the file in order, then call [`Splitter::finish`].
#[derive(Debug)]
pub struct Splitter {
    container: Container,
    state: State,
    /// Offset of the current chunk.
    offset: u64,
    /// The part of the current piece that is in earlier chunks.
    carry: Vec<u8>,
    from: u64,
    /// Offset after the last kept byte that is no blank, in an array.
    solid: u64,
    line: u64,
    lines: u64,
    too_long: bool,
    /// Whether blanks after the kept bytes exceeded the limit.
    blanks_left_out: bool,
    fault: Option<(ContainerFault, u64)>,
}

#[derive(Debug)]
enum State {
    Start,
    /// After the bracket (`true`), or after a comma.
    Before(bool),
    Inside(Nesting),
    /// After the array, or where no further piece can be found.
    After,
    Line,
    Item(Skipper),
}

#[derive(Debug, Default)]
struct Nesting {
    depth: u64,
    string: bool,
    escaped: bool,
}

impl Splitter {
    /// A splitter at the beginning of a file.
    pub fn new(container: Container) -> Self {
        Self {
            container,
            state: match container {
                Container::Array => State::Start,
                Container::Lines => State::Line,
                Container::Sequence => State::Item(Skipper::new()),
            },
            offset: 0,
            carry: Vec::new(),
            from: 0,
            solid: 0,
            line: 1,
            lines: 1,
            too_long: false,
            blanks_left_out: false,
            fault: None,
        }
    }

    /// Takes the next bytes, and passes each piece that ends in them.
    pub fn push(&mut self, chunk: &[u8], each: &mut dyn FnMut(&[u8], Place)) {
        match self.container {
            Container::Array => self.push_array(chunk, each),
            Container::Lines => self.push_lines(chunk, each),
            Container::Sequence => self.push_items(chunk, each),
        }
        self.offset += chunk.len() as u64;
    }

    /// Ends the file.
    pub fn finish(mut self, each: &mut dyn FnMut(&[u8], Place)) -> End {
        let open = self.offset > self.from;
        match (&self.state, self.container) {
            (State::Line, _) if open && (self.too_long || !self.carry.iter().all(is_blank)) => {
                self.hand_over(&[], self.offset, false, each);
            }
            (State::Item(_), _) if open => {
                self.hand_over(&[], self.offset, false, each);
            }
            (State::Start, Container::Array) => self.fail(ContainerFault::NoArray, self.offset),
            (State::Before(_), _) => self.fail(ContainerFault::Unended, self.offset),
            (State::Inside(_), _) => {
                self.hand_over(&[], self.offset, false, each);
                self.fail(ContainerFault::Unended, self.offset);
            }
            _ => {}
        }
        End {
            bytes: self.offset,
            fault: self.fault,
        }
    }

    fn fail(&mut self, fault: ContainerFault, at: u64) {
        self.fault.get_or_insert((fault, at));
    }

    /// The offset in the file of a byte of the chunk.
    fn place(&self, at: usize) -> u64 {
        self.offset + at as u64
    }

    /// Notes the end of `text`, which begins at `start` of the chunk and does not end in a blank.
    fn solidify(&mut self, text: &[u8], start: usize) {
        if !text.is_empty() {
            self.solid = self.place(start + text.len());
        }
    }

    /// Keeps the beginning of a piece whose end is in a later chunk. In JSON, blanks count only if
    /// the piece continues after them.
    fn keep(&mut self, bytes: &[u8]) {
        let solid = match self.container {
            Container::Sequence => bytes,
            Container::Array | Container::Lines => trim_end(bytes),
        };
        let goes_on = !solid.is_empty();
        let overflows = self.blanks_left_out || self.carry.len() + solid.len() > MAX_TURN_BYTES;
        if self.too_long || (goes_on && overflows) {
            self.too_long = true;
            self.carry = Vec::new();
        } else if self.carry.len() + bytes.len() > MAX_TURN_BYTES {
            self.carry.extend_from_slice(solid);
            self.blanks_left_out = true;
        } else {
            self.carry.extend_from_slice(bytes);
        }
    }

    /// Passes on the kept bytes and `rest`, which ends at `to`.
    fn hand_over(&mut self, rest: &[u8], to: u64, ended: bool, each: &mut dyn FnMut(&[u8], Place)) {
        let whole = self.carry.is_empty() && !self.too_long && rest.len() <= MAX_TURN_BYTES;
        if !whole {
            self.keep(rest);
        }
        let bytes = if whole { rest } else { &self.carry };
        // Blanks behind a piece are none of it.
        let solid = match self.container {
            Container::Sequence => bytes,
            Container::Array | Container::Lines => trim_end(bytes),
        };
        let to = to - (bytes.len() - solid.len()) as u64;
        let line = (self.container != Container::Sequence).then_some(self.line);
        let place = Place {
            from: self.from,
            to,
            line,
            ended,
            too_long: self.too_long,
        };
        each(solid, place);
        self.carry.clear();
        self.too_long = false;
        self.blanks_left_out = false;
    }

    fn push_lines(&mut self, chunk: &[u8], each: &mut dyn FnMut(&[u8], Place)) {
        let mut at = 0;
        while let Some(length) = memchr::memchr(b'\n', &chunk[at..]) {
            let line = &chunk[at..at + length];
            let blank = self.carry.iter().all(is_blank) && line.iter().all(is_blank);
            if blank && !self.too_long {
                self.carry.clear();
                self.blanks_left_out = false;
            } else {
                self.hand_over(line, self.place(at + length), true, each);
            }
            at += length + 1;
            self.line += 1;
            self.from = self.place(at);
        }
        self.keep(&chunk[at..]);
    }

    fn push_items(&mut self, chunk: &[u8], each: &mut dyn FnMut(&[u8], Place)) {
        let mut at = 0;
        while let State::Item(skipper) = &mut self.state {
            let rest = &chunk[at..];
            if rest.is_empty() {
                return;
            }
            match skipper.push(rest) {
                Skipped::More => return self.keep(rest),
                Skipped::Bad => {
                    self.fail(ContainerFault::NoItem, self.from);
                    self.carry = Vec::new();
                    self.state = State::After;
                }
                Skipped::Done(length) => {
                    self.hand_over(&rest[..length], self.place(at + length), true, each);
                    at += length;
                    self.from = self.place(at);
                    self.state = State::Item(Skipper::new());
                }
            }
        }
    }

    fn push_array(&mut self, chunk: &[u8], each: &mut dyn FnMut(&[u8], Place)) {
        let (mut at, mut counted) = (0, 0);
        while let Some(byte) = chunk.get(at) {
            let blank = is_blank(byte);
            match &mut self.state {
                State::Start | State::Before(_) | State::After if blank => at += 1,
                State::Start if *byte == b'[' => {
                    self.state = State::Before(true);
                    at += 1;
                }
                State::Start => {
                    self.fail(ContainerFault::NoArray, self.place(at));
                    self.state = State::After;
                }
                State::Before(first) if matches!(byte, b']' | b',') => {
                    let empty = *first && *byte == b']';
                    if !empty {
                        self.fail(ContainerFault::Stray, self.place(at));
                    }
                    if *byte == b']' {
                        self.state = State::After;
                    }
                    at += 1;
                }
                State::Before(_) if *byte == b'}' => {
                    self.fail(ContainerFault::Stray, self.place(at));
                    self.state = State::After;
                }
                State::Before(_) => {
                    self.from = self.place(at);
                    self.solid = self.from;
                    self.lines += count_lines(&chunk[counted..at]);
                    counted = at;
                    self.line = self.lines;
                    self.state = State::Inside(Nesting::default());
                }
                State::Inside(nesting) => {
                    let start = at;
                    let Some(end) = nesting.end(chunk, at) else {
                        self.solidify(trim_end(&chunk[start..]), start);
                        self.keep(&chunk[start..]);
                        break;
                    };
                    let text = trim_end(&chunk[start..end]);
                    self.solidify(text, start);
                    if text.is_empty() {
                        // The blanks before the end are in earlier chunks.
                        self.carry.truncate(trim_end(&self.carry).len());
                    }
                    self.hand_over(text, self.solid, true, each);
                    self.state = match chunk[end] {
                        b',' => State::Before(false),
                        b']' => State::After,
                        _ => {
                            self.fail(ContainerFault::Stray, self.place(end));
                            State::After
                        }
                    };
                    at = end + 1;
                }
                State::After => {
                    if self.fault.is_none() {
                        self.fail(ContainerFault::Stray, self.place(at));
                    }
                    break;
                }
                State::Line | State::Item(_) => break,
            }
        }
        self.lines += count_lines(&chunk[counted..]);
    }
}

impl Nesting {
    /// The end of the element, searched from `at`. It is a comma or bracket of the array, or a
    /// brace without an opening one.
    fn end(&mut self, chunk: &[u8], mut at: usize) -> Option<usize> {
        loop {
            if self.string {
                if at < chunk.len() && std::mem::take(&mut self.escaped) {
                    at += 1;
                }
                let rest = chunk.get(at..)?;
                at += memchr::memchr2(b'"', b'\\', rest)?;
                if chunk[at] == b'"' {
                    self.string = false;
                } else {
                    self.escaped = true;
                }
                at += 1;
                continue;
            }
            match chunk.get(at)? {
                b'"' => self.string = true,
                b'{' | b'[' => self.depth += 1,
                b',' if self.depth == 0 => return Some(at),
                b'}' | b']' => match self.depth.checked_sub(1) {
                    None => return Some(at),
                    Some(less) => self.depth = less,
                },
                _ => {}
            }
            at += 1;
        }
    }
}

/// The four blanks of JSON (RFC 8259 §2); ASCII has more.
fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

pub(super) fn trim_end(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| !is_blank(byte));
    bytes
        .get(..end.map_or(0, |last| last + 1))
        .unwrap_or_default()
}

fn count_lines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The pieces with the offsets and lines where they begin.
    fn cut(container: Container, bytes: &[u8], size: usize) -> (Vec<(Vec<u8>, Place)>, End) {
        let mut pieces = Vec::new();
        let mut splitter = Splitter::new(container);
        let mut each = |bytes: &[u8], place: Place| pieces.push((bytes.to_vec(), place));
        for chunk in bytes.chunks(size.max(1)) {
            splitter.push(chunk, &mut each);
        }
        let end = splitter.finish(&mut each);
        (pieces, end)
    }

    fn texts(pieces: &[(Vec<u8>, Place)]) -> Vec<&[u8]> {
        pieces.iter().map(|(text, _)| text.as_slice()).collect()
    }

    #[test]
    fn an_array_is_cut_at_its_own_commas_whatever_the_chunks() {
        let text = b" [ {\"a\":\"],[\\\\\"} ,\n[1,{\"b\":[]}]\n, 2]\n";
        for size in 1..text.len() {
            let (pieces, end) = cut(Container::Array, text, size);
            let expected = [&b"{\"a\":\"],[\\\\\"}"[..], b"[1,{\"b\":[]}]", b"2"];
            assert_eq!(texts(&pieces), expected, "{size}");
            assert_eq!(cut(Container::Array, text, text.len()).0, pieces, "{size}");
            assert_eq!(end.fault, None, "{size}");
            let lines: Vec<_> = pieces.iter().map(|(_, place)| place.line).collect();
            assert_eq!(lines, [Some(1), Some(2), Some(3)], "{size}");
        }
    }

    #[test]
    fn what_is_wrong_with_an_array_is_named() {
        use ContainerFault::{NoArray, Stray, Unended};
        let cases: [(&[u8], ContainerFault, u64); 11] = [
            (b"", NoArray, 0),
            (b"  {}", NoArray, 2),
            (b"[", Unended, 1),
            (b"[1", Unended, 2),
            (b"[1,", Unended, 3),
            (b"[1,]", Stray, 3),
            (b"[,1]", Stray, 1),
            (b"[] x", Stray, 3),
            (b"[1]]", Stray, 3),
            (b"[1}", Stray, 2),
            (b"[1}]", Stray, 2),
        ];
        for (text, fault, at) in cases {
            for size in [1, 100] {
                let (_, end) = cut(Container::Array, text, size);
                assert_eq!(end.fault, Some((fault, at)), "{text:?}");
            }
        }
        assert_eq!(cut(Container::Array, b"[ ]", 1).1.fault, None);
    }

    #[test]
    fn only_the_blanks_of_json_are_passed_over() {
        let (pieces, end) = cut(Container::Array, b"[1\x0c,2\x0c]\n", 100);
        assert_eq!(texts(&pieces), [b"1\x0c", b"2\x0c"]);
        assert_eq!(end.fault, None);
        let (pieces, _) = cut(Container::Lines, b"{}\n\x0c\n \n\x0c", 100);
        assert_eq!(texts(&pieces), [&b"{}"[..], b"\x0c", b"\x0c"]);
    }

    #[test]
    fn lines_end_at_line_feeds_and_the_last_may_be_unended() {
        for size in 1..8 {
            let (pieces, end) = cut(Container::Lines, b"{}\n \n[\r\n\n{\"a", size);
            assert_eq!(texts(&pieces), [&b"{}"[..], b"[", b"{\"a"]);
            let places: Vec<_> = pieces
                .iter()
                .map(|(_, place)| (place.from, place.to, place.line, place.ended))
                .collect();
            let expected = [
                (0, 2, Some(1), true),
                (5, 6, Some(3), true),
                (9, 12, Some(5), false),
            ];
            assert_eq!(places, expected);
            assert_eq!((end.bytes, end.fault), (12, None));
        }
    }

    #[test]
    fn a_sequence_is_cut_at_the_ends_of_its_items() {
        let bytes = [0xa0, 0x82, 0x01, 0x61, 0x61, 0x00, 0x19, 0x01];
        for size in 1..9 {
            let (pieces, end) = cut(Container::Sequence, &bytes, size);
            let expected = [&[0xa0][..], &[0x82, 1, 0x61, 0x61], &[0], &[0x19, 1]];
            assert_eq!(texts(&pieces), expected);
            assert!(!pieces[3].1.ended && pieces[2].1.ended);
            assert_eq!(end.fault, None);
        }
        let (pieces, end) = cut(Container::Sequence, &[0xa0, 0xff, 0xa0], 1);
        assert_eq!(pieces.len(), 1);
        assert_eq!(end.fault, Some((ContainerFault::NoItem, 1)));
    }

    #[test]
    fn a_piece_that_is_too_long_is_handed_over_empty() {
        let long = vec![b'1'; MAX_TURN_BYTES + 1];
        let text = [b"[0,", long.as_slice(), b",2]"].concat();
        for size in [1 << 20, usize::MAX] {
            let (pieces, end) = cut(Container::Array, &text, size);
            assert_eq!(texts(&pieces), [&b"0"[..], b"", b"2"]);
            assert!(pieces[1].1.too_long && !pieces[2].1.too_long);
            assert_eq!(end.fault, None);
        }
    }

    #[test]
    fn blanks_behind_a_turn_make_it_no_longer() {
        let blanks = vec![b' '; MAX_TURN_BYTES + 1];
        let array = [b"[0", blanks.as_slice(), b",1", &blanks, b"]"].concat();
        let (pieces, end) = cut(Container::Array, &array, 1 << 20);
        assert_eq!(texts(&pieces), [b"0", b"1"]);
        assert!(pieces.iter().all(|(_, place)| !place.too_long) && end.fault.is_none());
        let lines = [b"0", blanks.as_slice(), b"\n", &blanks, b"\n1\n"].concat();
        let (pieces, _) = cut(Container::Lines, &lines, 1 << 20);
        let found: Vec<_> = pieces
            .iter()
            .map(|(text, _)| text.trim_ascii_end())
            .collect();
        assert_eq!(found, [b"0", b"1"]);
        assert!(pieces.iter().all(|(_, place)| !place.too_long));
        let inside = [b"[\"", blanks.as_slice(), b"\",1]"].concat();
        let (pieces, _) = cut(Container::Array, &inside, 1 << 20);
        assert!(pieces[0].1.too_long && !pieces[1].1.too_long);
    }

    proptest! {
        #[test]
        fn any_bytes_are_cut_the_same_whatever_the_chunks(bytes in "[\\[\\]{}\",\\\\ \n0a]{0,40}", size in 1_usize..9) {
            for container in [Container::Array, Container::Lines] {
                let (pieces, end) = cut(container, bytes.as_bytes(), size);
                let (whole, at_once) = cut(container, bytes.as_bytes(), bytes.len());
                prop_assert_eq!(end, at_once);
                let trimmed = |pieces: &[(Vec<u8>, Place)]| -> Vec<(Vec<u8>, u64, Option<u64>)> {
                    pieces.iter().map(|(t, p)| (t.trim_ascii_end().to_vec(), p.from, p.line)).collect()
                };
                prop_assert_eq!(trimmed(&pieces), trimmed(&whole));
            }
        }
    }
}
