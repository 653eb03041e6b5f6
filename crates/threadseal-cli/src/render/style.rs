//! Colour only supports a meaning; the text always gives it, too.

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use std::io;
use threadseal_core::report::Verdict;

/// `--color`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    /// When standard output is a terminal and `NO_COLOR` is not set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl ColorChoice {
    /// The palette for standard output, with `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` heeded.
    pub(crate) fn palette(self) -> Palette {
        let coloured = match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => {
                anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never
            }
        };
        Palette { coloured }
    }
}

/// Colours text, or leaves it plain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Palette {
    coloured: bool,
}

impl Palette {
    /// Prints plain text.
    pub(crate) const PLAIN: Self = Self { coloured: false };

    /// A verdict's word in its colour: green 0, red 1, yellow 3.
    pub(crate) fn verdict(self, verdict: Verdict) -> String {
        let colour = match verdict.exit_code() {
            0 => AnsiColor::Green,
            1 => AnsiColor::Red,
            _ => AnsiColor::Yellow,
        };
        self.paint(
            Style::new().bold().fg_color(Some(colour.into())),
            verdict.as_str(),
        )
    }

    /// A state that is well, in green.
    #[cfg(feature = "capture")]
    pub(crate) fn good(self, text: &str) -> String {
        self.paint(Style::new().fg_color(Some(AnsiColor::Green.into())), text)
    }

    /// A state that is not confirmed, in yellow.
    #[cfg(feature = "capture")]
    pub(crate) fn doubtful(self, text: &str) -> String {
        self.paint(Style::new().fg_color(Some(AnsiColor::Yellow.into())), text)
    }

    /// A state with evidence against it, in red.
    #[cfg(feature = "capture")]
    pub(crate) fn bad(self, text: &str) -> String {
        let style = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
        self.paint(style, text)
    }

    /// A less important label.
    pub(crate) fn faint(self, text: &str) -> String {
        self.paint(Style::new().dimmed(), text)
    }

    /// An important name.
    pub(crate) fn strong(self, text: &str) -> String {
        self.paint(Style::new().bold(), text)
    }

    fn paint(self, style: Style, text: &str) -> String {
        if self.coloured {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }
}
