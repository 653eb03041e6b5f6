//! Every page of help, short and long, of every command at every depth.

use crate::frame::COMMANDS;
use crate::prelude::*;

/// Headings of lists of commands: one list on most pages, groups on the main page.
const HEADINGS: [&str; 7] = [
    "Commands:",
    "Everyday commands:",
    "Agents on this machine:",
    "Reading and proving:",
    "Source formats:",
    "Projects:",
    "Keys and operations:",
];

/// The names under [`HEADINGS`].
fn commands_of(page: &str) -> Vec<String> {
    let mut listed = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if !HEADINGS.contains(&line) {
            continue;
        }
        let list = lines.by_ref().take_while(|line| !line.is_empty());
        let names = list.filter_map(|line| line.strip_prefix("  "));
        let names = names.filter(|line| !line.starts_with(' '));
        listed.extend(names.map(|line| line.split(' ').next().unwrap().to_owned()));
    }
    listed
}

#[test]
fn every_page_of_help_is_frozen() {
    let sandbox = Sandbox::new();
    let page = |path: &[String], flag: &str| {
        let ran = sandbox.run([path, &[flag.to_owned()]].concat()).exits(0);
        assert_eq!(ran.stderr, "", "{path:?}");
        ran.stdout
    };
    assert_eq!(commands_of(&page(&[], "-h")), COMMANDS);
    let (mut pages, mut pending) = (String::new(), vec![Vec::new()]);
    while let Some(path) = pending.pop() {
        let (long, short) = (page(&path, "--help"), page(&path, "-h"));
        let name = [&["threadseal".to_owned()], &path[..]].concat().join(" ");
        pages += &format!("==== {name} --help\n{long}\n");
        pages += &match short == long {
            true => format!("==== {name} -h: the same\n\n"),
            false => format!("==== {name} -h\n{short}\n"),
        };
        let below = commands_of(&short).into_iter().rev();
        pending.extend(below.map(|command| [&path[..], &[command]].concat()));
    }
    snapshot("help", &pages);
}
