//! XML as elements with their lines, and strict reading of their attributes and children.
//!
//! ```text
//! <a x="1">text<b/></a>    Element { name: "a", attributes: [x], text: "text", children: [b] }
//! ```
//! No document type, no entities but the five and character references, no processing instructions.
//! So the content of a directive is completely in its file. CDATA is text.

use crate::bounds::{MAX_DECLARED_DEPTH, MAX_XML_ATTRIBUTES, MAX_XML_ELEMENTS};
use crate::place::Place;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use threadseal_core::error::Error;

/// An element.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Element {
    /// Where its opening tag begins.
    pub place: Place,
    /// Its tag.
    pub name: String,
    /// Its attributes, in order.
    pub attributes: Vec<(String, String)>,
    /// All text directly in it, without the white space around it.
    pub text: String,
    /// The elements in it, in order.
    pub children: Vec<Self>,
}

impl Element {
    /// An error at this element.
    pub(crate) fn error(&self, message: impl std::fmt::Display) -> Error {
        self.place.error(message)
    }

    /// An attribute.
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// An attribute that must be there and not empty.
    ///
    /// # Errors
    /// When it is not.
    pub(crate) fn require(&self, name: &str) -> Result<&str, Error> {
        match self.attribute(name) {
            Some(value) if !value.is_empty() => Ok(value),
            _ => Err(self.error(format!("<{}> needs `{name}`", self.name))),
        }
    }

    /// Checks that the element has no other attributes than these.
    ///
    /// # Errors
    /// When it has.
    pub(crate) fn only_attributes(&self, known: &[&str]) -> Result<(), Error> {
        match self
            .attributes
            .iter()
            .find(|(name, _)| !known.contains(&name.as_str()))
        {
            None => Ok(()),
            Some((name, _)) => {
                Err(self.error(format!("<{}> has no attribute `{name}`", self.name)))
            }
        }
    }

    /// Checks that the element contains no text.
    ///
    /// # Errors
    /// When there is text in it.
    pub(crate) fn no_text(&self) -> Result<(), Error> {
        if self.text.is_empty() {
            return Ok(());
        }
        Err(self.error(format!("<{}> cannot contain text", self.name)))
    }

    /// The text of an element that has no children.
    ///
    /// # Errors
    /// When it has any.
    pub(crate) fn only_text(&self) -> Result<&str, Error> {
        match self.children.first() {
            None => Ok(&self.text),
            Some(child) => Err(child.unknown(&self.name)),
        }
    }

    /// An error: this element is not permitted in `parent`.
    pub(crate) fn unknown(&self, parent: &str) -> Error {
        self.error(format!("<{}> has no <{}>", parent, self.name))
    }
}

/// Reads one root element. `place` is where `text` begins.
///
/// # Errors
/// Kind `InvalidInput` with the line when it is not well-formed, or has parts that the heading
/// excludes; `Limit` beyond a bound.
pub(crate) fn parse(text: &str, place: &Place) -> Result<Element, Error> {
    let mut reader = Reader::from_str(text);
    let mut builder = Builder {
        text,
        first: place,
        counted: (0, 0),
        open: Vec::new(),
        root: None,
        elements: 0,
    };
    loop {
        let before = reader.buffer_position();
        let event = reader.read_event();
        let at = builder.place(before);
        let event = event.map_err(|error| {
            let line = builder.place(reader.error_position());
            line.error(error)
        })?;
        if !builder.take(event, &at)? {
            break;
        }
    }
    if let Some(open) = builder.open.pop() {
        return Err(open.error(format!("<{}> is not closed", open.name)));
    }
    builder
        .root
        .ok_or_else(|| place.error("there is no element"))
}

struct Builder<'a> {
    text: &'a str,
    first: &'a Place,
    /// A byte of the text, and the lines before it.
    counted: (usize, u64),
    open: Vec<Element>,
    root: Option<Element>,
    elements: usize,
}

impl Builder<'_> {
    fn place(&mut self, byte: u64) -> Place {
        let byte = usize::try_from(byte)
            .unwrap_or(usize::MAX)
            .min(self.text.len());
        let (from, lines) = if byte < self.counted.0 {
            (0, 0)
        } else {
            self.counted
        };
        let passed = &self.text.as_bytes()[from..byte];
        let lines = lines + passed.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.counted = (byte, lines);
        self.first.at(self.first.line() + lines)
    }

    /// Reads one event; false at the end.
    fn take(&mut self, event: Event<'_>, at: &Place) -> Result<bool, Error> {
        match event {
            Event::Start(tag) => {
                let element = self.element(&tag, at)?;
                self.open.push(element);
            }
            Event::Empty(tag) => {
                let element = self.element(&tag, at)?;
                self.close(element);
            }
            Event::End(_) => {
                if let Some(mut element) = self.open.pop() {
                    element.text = element.text.trim().to_owned();
                    self.close(element);
                }
            }
            Event::Text(text) => self.add(&text.xml10_content(), at)?,
            Event::CData(text) => self.add(&text.xml10_content(), at)?,
            Event::GeneralRef(reference) => self.add(&resolve(&reference, at)?, at)?,
            Event::Comment(_) => {}
            Event::Eof => return Ok(false),
            Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {
                return Err(at.error("declarations are not allowed in a directive"));
            }
        }
        Ok(true)
    }

    fn element(&mut self, tag: &BytesStart<'_>, at: &Place) -> Result<Element, Error> {
        self.elements += 1;
        if self.elements > MAX_XML_ELEMENTS || self.open.len() >= MAX_DECLARED_DEPTH {
            return Err(at.beyond(format!(
                "at most {MAX_XML_ELEMENTS} elements, {MAX_DECLARED_DEPTH} deep"
            )));
        }
        if self.root.is_some() {
            return Err(at.error("there is a second element after the first"));
        }
        let mut attributes = Vec::new();
        for attribute in tag.attributes() {
            let attribute = attribute.map_err(|error| at.error(error))?;
            // Each is compared with all before it.
            if attributes.len() >= MAX_XML_ATTRIBUTES {
                let message = format!("an element has at most {MAX_XML_ATTRIBUTES} attributes");
                return Err(at.beyond(message));
            }
            // XML 1.0 §3.1: no `<` in attribute values; the reader lets it pass.
            if attribute.value.contains('<') {
                return Err(at.error("`<` in an attribute must be written `&lt;`"));
            }
            let value = attribute
                .normalized_value(XmlVersion::Implicit1_0)
                .map_err(|error| at.error(error))?;
            attributes.push((attribute.key.as_ref().to_owned(), value.into_owned()));
        }
        Ok(Element {
            place: at.clone(),
            name: tag.name().as_ref().to_owned(),
            attributes,
            text: String::new(),
            children: Vec::new(),
        })
    }

    fn close(&mut self, element: Element) {
        match self.open.last_mut() {
            Some(parent) => parent.children.push(element),
            None => self.root = Some(element),
        }
    }

    fn add(&mut self, text: &str, at: &Place) -> Result<(), Error> {
        match self.open.last_mut() {
            Some(element) => element.text.push_str(text),
            None if text.trim().is_empty() => {}
            None => return Err(at.error("text outside the element")),
        }
        Ok(())
    }
}

/// The five entities of XML, and characters by their number.
fn resolve(reference: &BytesRef<'_>, at: &Place) -> Result<String, Error> {
    if let Some(letter) = reference
        .resolve_char_ref()
        .map_err(|error| at.error(error))?
    {
        return Ok(letter.to_string());
    }
    let name = reference.xml10_content();
    quick_xml::escape::resolve_predefined_entity(&name)
        .map(ToOwned::to_owned)
        .ok_or_else(|| at.error(format!("no entity `&{name};`")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::prelude::rows;

    fn read(text: &str) -> Result<Element, Error> {
        parse(text, &Place::new("d.md").at(10))
    }

    #[test]
    fn elements_know_their_lines_attributes_and_text() {
        let root =
            read("<a x=\"1\" y='&lt;&#65;'>\n t &amp; <b/>\n<c>\n<![CDATA[<raw>]]></c> u\n</a>")
                .unwrap();
        assert_eq!(root.name, "a");
        assert_eq!(root.attribute("x"), Some("1"));
        assert_eq!(root.attribute("y"), Some("<A"));
        assert!(
            root.text.starts_with("t & ") && root.text.ends_with(" u"),
            "{:?}",
            root.text
        );
        let lines: Vec<_> = root
            .children
            .iter()
            .map(|c| (c.name.as_str(), c.place.line()))
            .collect();
        assert_eq!(lines, [("b", 11), ("c", 12)]);
        assert_eq!(root.children[1].text, "<raw>");
    }

    // T-DEC-18
    #[test]
    fn what_is_not_well_formed_or_reaches_outside_is_refused_with_its_line() {
        for [text, line] in rows(
            r#"<a>\n<b>\n</a> => d.md:1
               <a> => d.md:10
                => d.md:10
               <a/>\n<b/> => d.md:11
               x<a/> => d.md:10
               <a/>\ny => d.md:1
               <!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]><a>&e;</a> => d.md:10
               <a>\n&nbsp;</a> => d.md:1
               <?php x?><a/> => d.md:10
               <a x=1/> => d.md:10
               <a x='1' x='2'/> => d.md:10
               <a x='<'/> => d.md:10
               </a> => d.md:10"#,
        ) {
            let result = read(&text);
            let error = match result {
                Err(error) => error.to_string(),
                Ok(read) => panic!("{text:?} gave {read:?}"),
            };
            assert!(error.starts_with(&line), "{text:?} gave {error}");
        }
        assert!(read(&"<a>".repeat(MAX_DECLARED_DEPTH + 1)).is_err());
        assert!(read(&format!("<a>{}</a>", "<b/>".repeat(MAX_XML_ELEMENTS))).is_err());
        let many: String = (0..=MAX_XML_ATTRIBUTES)
            .map(|at| format!(" a{at}=''"))
            .collect();
        assert!(read(&format!("<a{many}/>")).is_err());
    }
}
