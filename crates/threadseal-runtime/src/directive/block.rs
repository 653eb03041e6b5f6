//! Finds the XML and the prompt in the Markdown.

use crate::bounds::MAX_ITEM_BYTES;
use crate::place::Place;
use threadseal_core::error::Error;

/// The two parts of a directive's file.
pub(super) struct Block<'a> {
    /// The content of the fence.
    pub(super) xml: &'a str,
    pub(super) xml_place: Place,
    /// The text after the fence, without the white space around it.
    pub(super) prompt: &'a str,
    pub(super) prompt_place: Place,
}

/// Finds the first `xml` fence outside another fence, as Rye does (`core/parsers/markdown/xml.py`).
/// Fences of tildes, indented fences and fences of another language also hide it (`CommonMark`
/// §4.5).
pub(super) fn find<'a>(file: &str, text: &'a str) -> Result<Block<'a>, Error> {
    let place = Place::new(file);
    if text.len() > MAX_ITEM_BYTES {
        return Err(place.beyond(format!("larger than {MAX_ITEM_BYTES} bytes")));
    }
    let mut lines = Lines {
        text,
        at: 0,
        number: 0,
    };
    let mut outer: Option<Fence<'_>> = None;
    let mut opened = None;
    while let Some(line) = lines.next() {
        let fence = Fence::of(line);
        match (&outer, fence) {
            (Some(outer), Some(fence)) if fence.closes(outer) => {}
            (None, Some(fence)) if fence.is_xml() && line.starts_with('`') => {
                opened = Some((lines.at, lines.number));
                break;
            }
            (None, Some(fence)) => {
                outer = Some(fence);
                continue;
            }
            _ => continue,
        }
        outer = None;
    }
    let Some((start, fence)) = opened else {
        return Err(place.error("no ```xml block"));
    };
    loop {
        let end = lines.at;
        let Some(line) = lines.next() else {
            return Err(place.at(fence).error("the ```xml block does not end"));
        };
        if line.trim_end() != "```" {
            continue;
        }
        let after = &text[lines.at..];
        let prompt = after.trim();
        let skipped = after.len() - after.trim_start().len();
        let blank = after[..skipped].matches('\n').count() as u64;
        return Ok(Block {
            xml: &text[start..end],
            xml_place: place.at(fence + 1),
            prompt,
            prompt_place: place.at(lines.number + 1 + blank),
        });
    }
}

/// A line that opens or closes a fence.
struct Fence<'a> {
    mark: char,
    length: usize,
    info: &'a str,
}

impl<'a> Fence<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let text = line.trim_start_matches(' ');
        let mark = text
            .chars()
            .next()
            .filter(|mark| matches!(mark, '`' | '~'))?;
        let info = text.trim_start_matches(mark);
        let length = text.len() - info.len();
        // Ticks in a line of ticks make it code within a paragraph.
        let opens = mark == '~' || !info.contains('`');
        let is_fence = line.len() - text.len() <= 3 && length >= 3 && opens;
        is_fence.then(|| Self {
            mark,
            length,
            info: info.trim(),
        })
    }

    fn is_xml(&self) -> bool {
        self.mark == '`' && self.length == 3 && self.info == "xml"
    }

    fn closes(&self, outer: &Self) -> bool {
        self.mark == outer.mark && self.length >= outer.length && self.info.is_empty()
    }
}

/// Lines with their number, LF not included.
struct Lines<'a> {
    text: &'a str,
    at: usize,
    number: u64,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let rest = &self.text[self.at..];
        if rest.is_empty() {
            return None;
        }
        let end = rest.find('\n');
        self.at += end.map_or(rest.len(), |end| end + 1);
        self.number += 1;
        Some(&rest[..end.unwrap_or(rest.len())])
    }
}
