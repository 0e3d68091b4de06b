//! `sim script`: one scenario, step by step.

use std::collections::VecDeque;
use std::io::Read;
use std::path::Path;

use dht_sim::script::{self, Outcome};

use crate::cli::args::SimScriptArgs;
use crate::cli::deadline::Deadline;
use crate::cli::exit::{Exit, Failure, Kind, one_line};
use crate::cli::output::{Output, table_text};

pub(super) fn run(
    args: &SimScriptArgs,
    deadline: Deadline,
    output: Output,
) -> Result<Exit, Failure> {
    let wrong = |complaint: &str| {
        Failure::usage(format!("{}: {}", args.file.display(), one_line(complaint)))
    };
    let text = String::from_utf8(read(&args.file)?).map_err(|error| {
        wrong(&format!("line {}: this is no text", line_of(error.utf8_error(), error.as_bytes())))
    })?;
    let script = script::parse(&text).map_err(|error| wrong(&error.to_string()))?;
    let seed = args.seed;
    let (outcome, last) = deadline.bound_thread(move || {
        let mut last = VecDeque::new();
        let outcome = script::run_with(&script, seed, |line| {
            if last.len() == SHOWN {
                last.pop_front();
            }
            last.push_back(line.to_owned());
        });
        (outcome, last)
    })?;
    let exit = if outcome.ok { Exit::Done } else { Exit::Failed };
    let exit = exit.having_said(output.result(&outcome, || for_people(&outcome, output)))?;
    if !outcome.ok && !output.is_json() {
        output.note("\nwhat happened last:");
        last.iter().for_each(|line| output.note(line));
    }
    Ok(exit)
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let unreadable = |error: std::io::Error| {
        let text =
            format!("cannot read {}: {error}; a script is a file, or - for stdin", file.display());
        Failure::new(Kind::Io, text)
    };
    let mut bytes = Vec::new();
    let from: &mut dyn Read = match file == Path::new("-") {
        true => &mut std::io::stdin(),
        false => &mut std::fs::File::open(file).map_err(unreadable)?,
    };
    from.take(MAX_SCRIPT + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_SCRIPT {
        let text = format!("{} is longer than the {MAX_SCRIPT} bytes of a script", file.display());
        return Err(Failure::usage(text));
    }
    Ok(bytes)
}

/// The line of the first byte that is no text, from 1 on.
fn line_of(error: std::str::Utf8Error, bytes: &[u8]) -> usize {
    1 + bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count()
}

fn for_people(outcome: &Outcome, output: Output) -> String {
    let step = outcome.step;
    let verdict = match outcome.problems.first() {
        None => format!("all held, to line {step}"),
        Some(problem) => format!("failed at line {step}: {}: {}", problem.kind, problem.message),
    };
    let mut text = format!(
        "{verdict}\n{:.1} s of virtual time, seed {}\n\n",
        outcome.elapsed_ms as f64 / 1000.0,
        outcome.seed
    );
    let numbers = |list: &[u64]| list.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
    let mut table = output.table(&[">node", "state", ">predecessor", "successors"]);
    for member in &outcome.members {
        table.add_row([
            member.id.to_string(),
            member.state.to_owned(),
            member.predecessor.map_or("-".to_owned(), |id| id.to_string()),
            numbers(&member.successors),
        ]);
    }
    text.push_str(&table_text(&table));
    for ring in &outcome.rings {
        text.push_str(&format!("\nring: {}\n", numbers(ring)));
    }
    for problem in outcome.problems.iter().skip(1) {
        let (line, kind) = (problem.step, problem.kind);
        text.push_str(&format!("\nline {line}: {kind}: {}\n", problem.message));
    }
    text
}

/// Lines of the trace shown after a failure (guess: they fit a screen with the links above).
const SHOWN: usize = 20;
/// Most bytes of a script (guess: ten thousand long lines).
const MAX_SCRIPT: u64 = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_see_the_links_and_what_did_not_hold() {
        let script = script::parse("depth 2\nring 0 2\nexpect ring 0\n").expect("three steps");
        let outcome = script::run(&script, 1);
        let text = for_people(&outcome, Output::bare(false));
        assert!(!outcome.ok && text.starts_with("failed at line 3: "), "{text}");
        assert!(text.contains(": node 2 lives\n") && text.contains("\nring: 0 2\n"), "{text}");
        assert_eq!(text.matches("node 2 lives").count(), 1, "{text}");
    }

    #[test]
    fn bytes_that_are_no_text_have_a_line() {
        let bytes = b"ring 0\nfail\n\xff".to_vec();
        let error = String::from_utf8(bytes).expect_err("no text");
        assert_eq!(line_of(error.utf8_error(), error.as_bytes()), 3);
    }
}
