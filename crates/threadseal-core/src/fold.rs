//! Text without regard to case, for searches: never for a name that decides whether something is
//! trusted.

use unicase::UniCase;

/// `text` with upper and lower case as one: full case folding (The Unicode Standard, 3.13, toCasefold;
/// `CaseFolding.txt`, status C and F), without normalization. It may have another length than `text`.
pub fn folded(text: &str) -> String {
    UniCase::new(text).to_folded_case()
}

/// The bytes of `text` before the first place whose folded text begins with `needle`, which is folded.
///
/// `None` where it is not there, or begins within what one character folds to.
pub fn find_folded(text: &str, needle: &str) -> Option<usize> {
    let all = folded(text);
    let place = all.find(needle)?;
    if text.is_ascii() {
        return Some(place);
    }
    let mut length = 0;
    let ends = text.char_indices().find(|(_, letter)| {
        let is_there = length == place;
        length += match letter.is_ascii() {
            true => 1,
            false => folded(letter.encode_utf8(&mut [0; 4])).len(),
        };
        is_there
    });
    ends.map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_is_folded_as_unicode_does() {
        for (one, other) in [
            ("STRASSE", "straße"),
            ("STRAẞE", "Strasse"),
            ("ΟΔΟΣ", "οδος"),
            ("ὈΔΥΣΣΕΎΣ", "ὀδυσσεύς"),
            ("ﬁn", "FIN"),
            ("KELVIN", "\u{212A}elvin"),
            ("Ꮳ", "\u{abb3}"),
        ] {
            assert_eq!(folded(one), folded(other), "{one}");
        }
        // A letter of Turkish is not the other one, as in the table without its status T.
        assert_ne!(folded("ı"), folded("I"));
    }

    #[test]
    fn a_place_is_one_of_the_text_as_it_was_written() {
        let text = "İstanbul, STRAẞE, Bar";
        let find = |needle: &str| find_folded(text, &folded(needle)).map(|at| &text[at..]);
        assert_eq!(find("BAR"), Some("Bar"));
        assert_eq!(find("strasse"), Some("STRAẞE, Bar"));
        assert_eq!(find("İ"), Some(text));
        assert_eq!(find("se, bar"), None);
        assert_eq!(find("nothing"), None);
        assert_eq!(find_folded("One TWO", "two"), Some(4));
    }
}
