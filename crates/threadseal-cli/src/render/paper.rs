//! Reports as files for people: one page of HTML or Markdown over all records of a run.
//!
//! ```text
//! title, counts ─► when, by which program, with which trust ─► each record: verdict, findings, rows
//!                                                          ─► paths without a verdict
//! ```
//! Names and texts come from hostile records. All of them pass [`Clean`], and then one escape: in
//! HTML each of `& < > " '` is an entity, in Markdown each ASCII punctuation has a backslash
//! (CommonMark 0.31 §2.4). So no text becomes markup, a link, an image or a script. The page loads
//! nothing and runs nothing: its policy forbids both.

use super::clean::Clean;
use super::style::Palette;
use super::text;
use std::fmt::Write as _;
use std::path::Path;
use threadseal_core::report::Report;
use threadseal_core::time::Timestamp;
use threadseal_verify::output::is_pruned;
use threadseal_verify::run::VerifyRun;

/// The form of a report, by the ending of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `.html`
    Html,
    /// `.md`
    Markdown,
}

impl Form {
    /// That of `path`; none for another ending.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "html" => Some(Self::Html),
            "md" => Some(Self::Markdown),
            _ => None,
        }
    }

    /// The page over `run`, which was made at `now`.
    pub(crate) fn page(self, run: &VerifyRun, now: Timestamp) -> String {
        let page = Page::of(run, now);
        match self {
            Self::Html => html(&page),
            Self::Markdown => markdown(&page),
        }
    }
}

/// What both forms show.
struct Page {
    closing: String,
    /// What was done, and with what.
    about: Vec<(&'static str, String)>,
    records: Vec<Record>,
    /// Paths without a verdict.
    errors: Vec<String>,
}

struct Record {
    /// `verified  PATH  (transcript, native)`
    heading: String,
    /// 0: verified, 1: evidence, 3: not confirmed.
    exit: u8,
    findings: Vec<String>,
    rows: Vec<(&'static str, String)>,
}

impl Page {
    fn of(run: &VerifyRun, now: Timestamp) -> Self {
        let mut about = vec![
            ("verified at", now.to_iso_seconds()),
            (
                "by",
                concat!("threadseal ", env!("CARGO_PKG_VERSION")).to_owned(),
            ),
        ];
        let mut trusts: Vec<String> = run
            .results
            .iter()
            .filter_map(|report| Some(report.trust?.to_hex()))
            .collect();
        trusts.sort_unstable();
        trusts.dedup();
        about.extend(trusts.into_iter().map(|trust| ("with the trust", trust)));
        Self {
            closing: text::closing(&run.results, &run.errors, run.passed_over),
            about,
            records: run.results.iter().map(Record::of).collect(),
            errors: run
                .errors
                .iter()
                .map(|error| Clean(&error.message).to_string())
                .collect(),
        }
    }
}

impl Record {
    fn of(report: &Report) -> Self {
        Self {
            heading: text::heading(report, Palette::PLAIN),
            // Nothing of a pruned record is here.
            exit: if is_pruned(report) {
                3
            } else {
                report.verdict.exit_code()
            },
            findings: report.findings.iter().map(text::finding).collect(),
            rows: text::rows(report),
        }
    }
}

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;\
overflow-wrap:anywhere;color-scheme:light dark}h2{font-size:1rem;margin:1.5rem 0 .3rem}.e0{border-left:4px solid #2a7}\
.e1{border-left:4px solid #c33}.e3{border-left:4px solid #c90}section{padding-left:.8rem}\
table{border-spacing:0}th{text-align:left;font-weight:normal;opacity:.7;vertical-align:top;padding-right:1rem;\
white-space:nowrap}@media(max-width:40rem){th,td{display:block}}";

fn html(page: &Page) -> String {
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width\"/>\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\
         <title>Verification report</title><style>{STYLE}</style></head><body>\n\
         <h1>Verification report</h1>\n<p>{}</p>\n",
        entities(&page.closing)
    );
    html_table(&mut out, &page.about);
    for record in &page.records {
        let Record {
            heading,
            exit,
            findings,
            rows,
        } = record;
        let _ = writeln!(
            out,
            "<section class=\"e{exit}\"><h2>{}</h2>",
            entities(heading)
        );
        html_list(&mut out, findings);
        html_table(&mut out, rows);
        out.push_str("</section>\n");
    }
    if !page.errors.is_empty() {
        out.push_str("<section class=\"e3\"><h2>Without a verdict</h2>\n");
        html_list(&mut out, &page.errors);
        out.push_str("</section>\n");
    }
    out.push_str("</body></html>\n");
    out
}

fn html_list(out: &mut String, items: &[String]) {
    if items.is_empty() {
        return;
    }
    out.push_str("<ul>");
    for item in items {
        let _ = write!(out, "<li><bdi>{}</bdi></li>", entities(item));
    }
    out.push_str("</ul>\n");
}

fn html_table(out: &mut String, rows: &[(&str, String)]) {
    out.push_str("<table>");
    for (label, text) in rows {
        let text = entities(text);
        let _ = write!(out, "<tr><th>{label}</th><td><bdi>{text}</bdi></td></tr>");
    }
    out.push_str("</table>\n");
}

fn entities(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

fn markdown(page: &Page) -> String {
    let mut out = format!("# Verification report\n\n{}\n\n", escaped(&page.closing));
    markdown_rows(&mut out, &page.about);
    for record in &page.records {
        let _ = writeln!(out, "\n## {}\n", escaped(&record.heading));
        for finding in &record.findings {
            let _ = writeln!(out, "* {}", escaped(finding));
        }
        markdown_rows(&mut out, &record.rows);
    }
    if !page.errors.is_empty() {
        out.push_str("\n## Without a verdict\n\n");
        for error in &page.errors {
            let _ = writeln!(out, "* {}", escaped(error));
        }
    }
    out
}

fn markdown_rows(out: &mut String, rows: &[(&str, String)]) {
    for (label, text) in rows {
        let _ = writeln!(out, "* {label}: {}", escaped(text));
    }
}

/// A text on one line of which nothing is markup.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.trim().chars() {
        if c.is_ascii_punctuation() {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadseal_core::report::{Finding, FindingCode, Format, Profile, Verdict};

    /// Texts that would be markup, a link, a script or another line.
    const HOSTILE: [&str; 16] = [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "' onmouseover='alert(1)",
        "</td></table><h1>verified</h1>",
        "<!--",
        "]]></style><svg/onload=alert(1)>",
        "&lt;b&gt;",
        "[verified](javascript:alert(1))",
        "![](https://example.com/p.png)",
        "https://example.com/ www.example.com a@example.com",
        "`code` **bold** _it_ ~~no~~ | cell |",
        "# verified",
        "x\n## verified\n* all is well",
        "x\r\u{2028}y\u{202e}fdp.exe",
        "\u{1b}[2Jverified",
        "\\",
    ];

    fn run_of(text: &str) -> VerifyRun {
        let mut report = Report::begin(Format::Transcript, Profile::Native);
        report.path = text.to_owned();
        report.downgrade(
            Verdict::Tampered,
            Finding::error(FindingCode::LineChanged, text),
        );
        report.unauthenticated.push(format!("name={text}"));
        let mut run = VerifyRun::failed(&threadseal_verify::VerifyError::invalid(text));
        run.results.push(report);
        run
    }

    // T-CMD-23
    #[test]
    fn no_text_of_a_record_becomes_markup_in_a_page() {
        let now = Timestamp::UNIX_EPOCH;
        let shape = |page: &str| -> Vec<String> {
            let tags = page.split('<').skip(1);
            tags.map(|tag| tag.split('>').next().unwrap_or_default().to_owned())
                .collect()
        };
        let plain = Form::Html.page(&run_of("x"), now);
        for text in HOSTILE {
            let page = Form::Html.page(&run_of(text), now);
            assert_eq!(shape(&page), shape(&plain), "{text:?}");
            assert_eq!(page.lines().count(), plain.lines().count(), "{text:?}");
            let body = page.split("<body>").nth(1).unwrap();
            assert!(!body.contains("='") && !body.contains("=\"x"), "{text:?}");
        }
    }

    // T-CMD-23
    #[test]
    fn no_text_of_a_record_becomes_markup_in_markdown() {
        let now = Timestamp::UNIX_EPOCH;
        let plain = Form::Markdown.page(&run_of("x"), now);
        for text in HOSTILE {
            let page = Form::Markdown.page(&run_of(text), now);
            assert_eq!(page.lines().count(), plain.lines().count(), "{text:?}");
            let shown = escaped(&Clean(text).to_string());
            let mut before = None;
            for c in shown.chars() {
                let is_escaped = before == Some('\\');
                assert!(
                    !c.is_ascii_punctuation() || c == '\\' || is_escaped,
                    "{text:?}: {shown}"
                );
                before = if c == '\\' && is_escaped {
                    None
                } else {
                    Some(c)
                };
            }
            assert!(page.contains(&shown), "{text:?}");
        }
    }

    #[test]
    fn a_page_names_records_faults_and_what_has_no_verdict() {
        let run = run_of("runs/7");
        let page = Form::Markdown.page(&run, Timestamp::UNIX_EPOCH);
        for part in [
            "1 record",
            "verified at: 1970\\-01\\-01T00\\:00\\:00Z",
            "## tampered  runs\\/7",
            "\\[line\\_changed\\]",
            "## Without a verdict",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert_eq!(Form::of(Path::new("a.html")), Some(Form::Html));
        assert_eq!(Form::of(Path::new("a.pdf")), None);
    }
}
