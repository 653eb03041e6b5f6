//! Every page of help, short and long, of every command at every depth.

use crate::frame::COMMANDS;
use crate::sandbox::{Sandbox, snapshot};

/// The names under `Commands:`.
fn commands_of(page: &str) -> Vec<String> {
    let listed = page.lines().skip_while(|line| *line != "Commands:").skip(1);
    listed
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| !line.starts_with(' '))
        .map(|line| line.split(' ').next().unwrap().to_owned())
        .collect()
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
