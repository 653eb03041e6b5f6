//! The pages of the documentation: each `console` block is run, in the order of its page, and prints
//! what the page shows.
//!
//! ```text
//! $ command        run by one shell for the page, in a folder of its own that has testkit/
//! a line           printed, by standard output or standard error
//! a … line         any text in the place of …
//! …                any lines, also none
//! ```
//! A block `console example` shows what depends on the machine, and is not run.

use crate::prelude::*;
use crate::sandbox::PROGRAM;
use std::fmt::Write as _;
use threadseal_testkit::in_repository;

/// A command of a page, and the lines that it prints.
struct Step<'a> {
    at: usize,
    command: &'a str,
    shown: Vec<&'a str>,
}

/// The commands of the `console` blocks of a page.
fn steps(page: &str) -> Vec<Step<'_>> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    let mut inside = false;
    for (number, line) in page.lines().enumerate() {
        match (inside, line.trim_start().strip_prefix("```")) {
            (false, Some("console")) => inside = true,
            (true, Some("")) => inside = false,
            (true, _) => match line.strip_prefix("$ ") {
                Some(command) => steps.push(Step {
                    at: number + 1,
                    command,
                    shown: Vec::new(),
                }),
                None => steps.last_mut().unwrap().shown.push(line),
            },
            _ => {}
        }
    }
    steps
}

/// Do the lines show what was printed?
fn show(shown: &[&str], printed: &[&str]) -> bool {
    match shown {
        [] => printed.is_empty(),
        ["…", rest @ ..] => (0..=printed.len()).any(|skipped| show(rest, &printed[skipped..])),
        [first, rest @ ..] => printed
            .split_first()
            .is_some_and(|(line, others)| shows(first, line) && show(rest, others)),
    }
}

/// The same of one line.
fn shows(shown: &str, printed: &str) -> bool {
    let mut parts = shown.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = printed.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Runs the commands of a page; what each printed.
fn printed(sandbox: &Sandbox, steps: &[Step<'_>]) -> Vec<String> {
    let (work, outputs) = (sandbox.work(), sandbox.path("../outputs"));
    fs::create_dir(&outputs).unwrap();
    symlink(
        in_repository("testkit").canonicalize().unwrap(),
        work.join("testkit"),
    )
    .unwrap();
    let mut script = String::new();
    for (number, step) in steps.iter().enumerate() {
        let _ = writeln!(
            script,
            "{{ {}\n}} > {}/{number} 2>&1",
            step.command,
            outputs.display()
        );
    }
    let programs = Path::new(PROGRAM).parent().unwrap().display();
    let mut shell = Command::new("bash");
    shell
        .args(["-c", &script])
        .env_clear()
        .env("PATH", format!("{programs}:/usr/local/bin:/usr/bin:/bin"))
        .env("HOME", sandbox.path("../person"))
        .env("LC_ALL", "C.UTF-8")
        .current_dir(&work)
        .stdin(Stdio::null());
    shell.status().unwrap();
    let output = |number: usize| fs::read_to_string(outputs.join(number.to_string())).unwrap();
    (0..steps.len()).map(output).collect()
}

/// All pages, below the folder of the project.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![in_repository("README.md")];
    for entry in walkdir::WalkDir::new(in_repository("docs")) {
        let path = entry.unwrap().into_path();
        if path.extension().is_some_and(|ending| ending == "md") {
            pages.push(path);
        }
    }
    pages.sort();
    pages
}

#[test]
fn each_page_shows_what_its_commands_print() {
    let mut commands = 0;
    let mut wrong = String::new();
    for path in pages() {
        let page = fs::read_to_string(&path).unwrap();
        let steps = steps(&page);
        let sandbox = Sandbox::new();
        for (step, printed) in steps.iter().zip(printed(&sandbox, &steps)) {
            let lines: Vec<&str> = printed.lines().collect();
            if !show(&step.shown, &lines) {
                let place = path.strip_prefix(in_repository("")).unwrap().display();
                let _ = writeln!(wrong, "{place}:{}: $ {}\n{printed}", step.at, step.command);
            }
        }
        commands += steps.len();
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(commands > 150, "{commands}");
}

#[test]
fn a_page_that_shows_another_line_is_noticed() {
    let page = "x\n```console\n$ echo one; echo two 2 three\none\ntwo … three\n$ ls none\n…\n```\n\
                ```console example\n$ threadseal install\n```\n";
    let steps = steps(page);
    assert_eq!(steps.len(), 2);
    let printed = printed(&Sandbox::new(), &steps);
    let lines: Vec<&str> = printed[0].lines().collect();
    assert!(show(&steps[0].shown, &lines));
    assert!(printed[1].contains("none"), "{printed:?}");
    for shown in [vec!["one"], vec!["one", "two …four"], vec!["two … three"]] {
        assert!(!show(&shown, &lines), "{shown:?}");
    }
    assert!(show(&["…"], &lines) && show(&["one", "…", "…ree"], &lines));
}
