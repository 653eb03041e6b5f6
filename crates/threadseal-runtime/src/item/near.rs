//! The known id that a person most likely meant.

use super::ItemId;

/// The most letters by which an id may differ from the one that was meant, for each of its letters.
const LETTERS_FOR_ONE_FAULT: usize = 3;

/// The id most like `asked`: the same but for a few letters, or in another folder.
pub(super) fn nearest(asked: &ItemId, known: &[ItemId]) -> Option<ItemId> {
    let faults = |other: &ItemId| {
        let whole = distance(asked.as_str(), other.as_str());
        whole.min(1 + distance(last(asked), last(other)))
    };
    let most = (last(asked).len() / LETTERS_FOR_ONE_FAULT).max(1);
    let near = known.iter().map(|other| (faults(other), other));
    let near = near.filter(|(faults, _)| *faults <= most);
    near.min_by_key(|(faults, _)| *faults)
        .map(|(_, other)| other.clone())
}

/// The name of an item without its folders.
fn last(id: &ItemId) -> &str {
    id.as_str().rsplit('/').next().unwrap_or_default()
}

/// How many letters must be added, removed or replaced.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (line, letter) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = line + 1;
        for (column, other) in b.iter().enumerate() {
            let replaced = corner + usize::from(letter != *other);
            corner = row[column + 1];
            row[column + 1] = replaced.min(corner + 1).min(row[column] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_id_differs_by_few_letters_or_by_its_folder() {
        let id = |text: &str| ItemId::parse(text).unwrap();
        let known = ["demo/greet", "demo/grow", "tools/fetch", "scout"].map(id);
        for (asked, found) in [
            ("demo/gret", Some("demo/greet")),
            ("demo/great", Some("demo/greet")),
            ("greet", Some("demo/greet")),
            ("other/fetch", Some("tools/fetch")),
            ("scuot", None),
            ("scoutt", Some("scout")),
            ("demo/publish", None),
            ("x", None),
        ] {
            assert_eq!(nearest(&id(asked), &known), found.map(id), "{asked}");
        }
    }
}
