//! `fnmatch` patterns, and which of two permits more.
//!
//! ```text
//! *   any characters    ?   one    [seq]   one of seq    [!seq]   one not in seq    else   itself
//! ```
//! As Python's `fnmatch.translate`: a `]` that is first in a set belongs to it, and a `[` that is
//! never closed is literal. `a-z` is a range (empty when reversed). Matching is one greedy walk
//! that only ever returns to the last `*`. Its time is at most the product of both lengths.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern(Vec<Token>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Any,
    One,
    Char(char),
    Set(Set),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Set {
    negated: bool,
    /// First and last character of each range, never reversed.
    ranges: Vec<(char, char)>,
}

impl Pattern {
    /// Every text is a pattern.
    pub(super) fn parse(text: &str) -> Self {
        let text: Vec<char> = text.chars().collect();
        let (mut tokens, mut at) = (Vec::new(), 0);
        while let Some(&c) = text.get(at) {
            at += 1;
            tokens.push(match c {
                '*' => Token::Any,
                '?' => Token::One,
                '[' => match set_end(&text, at) {
                    Some(end) => {
                        let set = Set::parse(&text[at..end]);
                        at = end + 1;
                        Token::Set(set)
                    }
                    None => Token::Char('['),
                },
                c => Token::Char(c),
            });
        }
        Self(tokens)
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        self.walk(&text, |token, c| match token {
            Token::Any | Token::One => true,
            Token::Char(own) => own == c,
            Token::Set(set) => set.contains(*c),
        })
    }

    /// Does it match everything that `other` matches? Each of the other's tokens must be taken by
    /// one of ours, and a `*` only by a `*`.
    pub(super) fn covers(&self, other: &Self) -> bool {
        self.walk(&other.0, |token, taken| match (token, taken) {
            (Token::Any, _) => true,
            (_, Token::Any) => false,
            (Token::One, _) => true,
            (Token::Char(own), Token::Char(c)) => own == c,
            (Token::Set(set), Token::Char(c)) => set.contains(*c),
            (Token::Set(set), Token::Set(inner)) => set.includes(inner),
            (Token::Char(_) | Token::Set(_), Token::One) | (Token::Char(_), Token::Set(_)) => false,
        })
    }

    fn walk<T>(&self, subject: &[T], takes: impl Fn(&Token, &T) -> bool) -> bool {
        let (mut own, mut at) = (0, 0);
        // Where to resume when the walk fails: after the last `*`, which takes one more.
        let mut retry: Option<(usize, usize)> = None;
        while at < subject.len() {
            match self.0.get(own) {
                Some(Token::Any) => {
                    own += 1;
                    retry = Some((own, at));
                }
                Some(token) if takes(token, &subject[at]) => {
                    own += 1;
                    at += 1;
                }
                _ => {
                    let Some((behind, taken)) = retry else {
                        return false;
                    };
                    (own, at) = (behind, taken + 1);
                    retry = Some((own, at));
                }
            }
        }
        self.0[own..].iter().all(|token| *token == Token::Any)
    }
}

/// The end of the set that begins at `from`, after its `[`.
fn set_end(text: &[char], from: usize) -> Option<usize> {
    let negated = text.get(from) == Some(&'!');
    let first = from + usize::from(negated);
    let inside = first + usize::from(text.get(first) == Some(&']'));
    let closing = text.get(inside..)?.iter().position(|c| *c == ']')?;
    Some(inside + closing)
}

impl Set {
    fn parse(inside: &[char]) -> Self {
        let negated = inside.first() == Some(&'!');
        let mut rest = &inside[usize::from(negated)..];
        let mut ranges = Vec::new();
        loop {
            rest = match rest {
                [] => break,
                [first, '-', last, rest @ ..] => {
                    if first <= last {
                        ranges.push((*first, *last));
                    }
                    rest
                }
                [c, rest @ ..] => {
                    ranges.push((*c, *c));
                    rest
                }
            };
        }
        Self { negated, ranges }
    }

    fn contains(&self, c: char) -> bool {
        let listed = self
            .ranges
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&c));
        listed != self.negated
    }

    /// Is each character of `other` one of ours? False where that is not seen range by range.
    fn includes(&self, other: &Self) -> bool {
        let within = |outer: &Self, inner: &Self| {
            let range = |(first, last): &(char, char)| {
                outer
                    .ranges
                    .iter()
                    .any(|(from, to)| from <= first && last <= to)
            };
            inner.ranges.iter().all(range)
        };
        let apart = |(first, last): &(char, char)| {
            self.ranges
                .iter()
                .all(|(from, to)| last < from || to < first)
        };
        match (self.negated, other.negated) {
            (false, false) => within(self, other),
            (true, true) => within(other, self),
            (true, false) => other.ranges.iter().all(apart),
            (false, true) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Pattern::parse(pattern).matches(text)
    }

    fn covers(pattern: &str, other: &str) -> bool {
        Pattern::parse(pattern).covers(&Pattern::parse(other))
    }

    #[test]
    fn patterns_match_as_fnmatch_matches() {
        for (pattern, text, expected) in [
            ("rye.*", "rye.execute.tool.a.b", true),
            ("rye.*", "rye", false),
            ("a*b*c", "a.b.b.c", true),
            ("a*b*c", "a.c.b", false),
            ("*", "", true),
            ("?", "é", true),
            ("?", "", false),
            ("[abc].x", "b.x", true),
            ("[!abc].x", "b.x", false),
            ("[!abc].x", "d.x", true),
            ("[a-c]", "b", true),
            ("[c-a]", "b", false),
            ("[!c-a]", "b", true),
            ("[]]", "]", true),
            ("[!]]", "]", false),
            ("[]", "[]", true),
            ("[a", "[a", true),
            ("[-a]", "-", true),
            ("[a-]", "-", true),
            ("[a-c-e]", "d", false),
            ("[a-c-e]", "-", true),
            ("[^a]", "^", true),
            ("\\*", "\\x", true),
            ("RYE.*", "rye.x", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_pattern_covers_only_what_matches_in_every_case() {
        for (pattern, other, expected) in [
            ("rye.*", "rye.execute.*", true),
            ("rye.execute.*", "rye.*", false),
            ("rye.?", "rye.*", false),
            ("rye.*", "rye.?", true),
            ("rye.[ab]", "rye.?", false),
            ("rye.?", "rye.[ab]", true),
            ("rye.[a-d]", "rye.[bc]", true),
            ("rye.[bc]", "rye.[a-d]", false),
            ("rye.[!a]", "rye.[bc]", true),
            ("rye.[!a]", "rye.[!ab]", true),
            ("rye.[!ab]", "rye.[!a]", false),
            ("rye.[ab]", "rye.[!a]", false),
            ("rye.[[]*]", "rye.*", false),
            ("a*c", "a*b*c", true),
            ("a*b*c", "a*c", false),
            ("**", "*", true),
            ("*", "", true),
        ] {
            assert_eq!(covers(pattern, other), expected, "{pattern} {other}");
        }
    }

    #[test]
    fn many_stars_cost_no_more_than_the_product_of_the_lengths() {
        let pattern = "*a".repeat(400) + "b";
        assert!(!matches(&pattern, &"a".repeat(1000)));
    }
}
