//! What a command writes, and where: results on stdout, everything else on stderr.

use std::io::{self, IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};
use comfy_table::presets::NOTHING;
use comfy_table::{Attribute, Cell, CellAlignment, LineStyle, Table};
use serde::Serialize;

use super::args::{ColorArg, Globals};
use super::exit::{Failure, Kind};
use super::json::ErrorJson;
use super::progress::Progress;

/// How a command shows what it found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    json: bool,
    quiet: bool,
    progress: bool,
    color: ColorArg,
}

impl Output {
    /// As the global flags say.
    pub(crate) fn new(globals: &Globals) -> Output {
        Output {
            json: globals.json,
            quiet: globals.quiet,
            progress: !globals.no_progress && !globals.quiet,
            color: globals.color,
        }
    }

    /// Before the flags could be read: only whether JSON is wanted is known.
    pub(crate) fn bare(json: bool) -> Output {
        Output { json, quiet: false, progress: false, color: ColorArg::Auto }
    }

    /// Whether only results and errors are wanted.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Whether the result is one JSON value.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// The result as JSON, on one line.
    pub(crate) fn json<T: Serialize>(&self, value: &T) -> Result<(), Failure> {
        let mut text =
            serde_json::to_string(value).expect("the shapes have text keys and no fallible parts");
        text.push('\n');
        self.write_stdout(&text)
    }

    /// The result for people. Colours are taken out where they are not wanted.
    pub(crate) fn text(&self, text: &str) -> Result<(), Failure> {
        if self.is_colored() {
            self.write_stdout(text)
        } else {
            self.write_stdout(&anstream::adapter::strip_str(text).to_string())
        }
    }

    /// The result in the form that was asked for.
    pub(crate) fn result<T: Serialize>(
        &self,
        value: &T,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        if self.json { self.json(value) } else { self.text(&text()) }
    }

    /// What was done, as JSON or for people; the latter not with `--quiet`.
    pub(crate) fn summary<T: Serialize>(
        &self,
        value: &T,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        if self.quiet && !self.json { Ok(()) } else { self.result(value, text) }
    }

    /// A remark for people, on stderr; not with `--quiet`.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            // There is nobody to tell that nobody listens.
            let _ = writeln!(self.stderr(), "{text}");
        }
    }

    /// What went wrong: with `--json` an object on stdout, else one line on stderr.
    pub(crate) fn failure(&self, kind: Kind, message: &str) {
        let is_told = self.json
            && match self.json(&ErrorJson::new(kind, message)) {
                // Whoever read stdout wants no more.
                Ok(()) | Err(Failure::ReaderGone) => true,
                // A full disk, say, which may be the very failure.
                Err(Failure::Told { .. }) => false,
            };
        if !is_told {
            // As above.
            let _ = writeln!(self.stderr(), "dht-node: {message}");
        }
    }

    /// A progress display: on stderr, on a terminal only, and not if it is unwanted.
    pub(crate) fn progress(&self) -> Progress {
        Progress::new(self.progress && io::stderr().is_terminal())
    }

    /// A table without borders. Columns whose heading begins with `>` are flushed right.
    pub(crate) fn table(&self, headings: &[&str]) -> Table {
        let mut table = Table::new();
        let rule = LineStyle::none().fill('-').junction('-');
        table.load_style(NOTHING.header_separator(rule));
        if self.is_colored() {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        let cells = headings.iter().map(|heading| {
            Cell::new(heading.trim_start_matches('>')).add_attribute(Attribute::Bold)
        });
        table.set_header(cells.collect::<Vec<Cell>>());
        for (at, heading) in headings.iter().enumerate() {
            if heading.starts_with('>')
                && let Some(column) = table.column_mut(at)
            {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }

    /// Whether stdout takes colours.
    pub(crate) fn is_colored(&self) -> bool {
        match self.color {
            ColorArg::Always => true,
            ColorArg::Never => false,
            ColorArg::Auto => AutoStream::choice(&io::stdout()) != ColorChoice::Never,
        }
    }

    fn stderr(&self) -> AutoStream<io::Stderr> {
        AutoStream::new(io::stderr(), self.color.choice())
    }

    /// One write, so that a reader never sees half of a line.
    fn write_stdout(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| match error
            .kind()
        {
            io::ErrorKind::BrokenPipe => Failure::ReaderGone,
            _ => Failure::new(Kind::Io, format!("cannot write to stdout: {error}")),
        })
    }
}

/// A table as text, with its last line ended.
pub(crate) fn table_text(table: &Table) -> String {
    table.lines().fold(String::new(), |mut text, line| {
        text.push_str(line.trim_end());
        text.push('\n');
        text
    })
}
