//! `sim script`: one scenario, step by step.

use std::io::Read;
use std::path::Path;

use dht_sim::script::{self, Outcome};

use crate::cli::args::SimScriptArgs;
use crate::cli::exit::{Exit, Failure, Kind, one_line};
use crate::cli::output::{Output, table_text};

pub(super) fn run(args: &SimScriptArgs, output: Output) -> Result<Exit, Failure> {
    let text = read(&args.file)?;
    let script = script::parse(&text).map_err(|error| {
        Failure::usage(format!("{}: {}", args.file.display(), one_line(&error.to_string())))
    })?;
    let mut last = Vec::new();
    let outcome = script::run_with(&script, args.seed, |line| last.push(line.to_owned()));
    output.result(&outcome, || for_people(&outcome, output))?;
    if !outcome.ok {
        last.iter().for_each(|line| output.note(line));
    }
    Ok(if outcome.ok { Exit::Done } else { Exit::Failed })
}

fn read(file: &Path) -> Result<String, Failure> {
    let unreadable = |error: std::io::Error| {
        Failure::new(Kind::Io, format!("cannot read {}: {error}", file.display()))
    };
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().take(MAX_SCRIPT).read_to_string(&mut text).map_err(unreadable)?;
        return Ok(text);
    }
    std::fs::read_to_string(file).map_err(unreadable)
}

fn for_people(outcome: &Outcome, output: Output) -> String {
    let verdict = if outcome.ok { "all held" } else { "NOT all held" };
    let mut text = format!(
        "{verdict}, to line {}; {:.1} s of virtual time, seed {}\n\n",
        outcome.step,
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
    for problem in &outcome.problems {
        let (line, kind) = (problem.step, problem.kind);
        text.push_str(&format!("\nline {line}: {kind}: {}\n", problem.message));
    }
    text
}

/// Most bytes of a script from stdin (guess: ten thousand long lines).
const MAX_SCRIPT: u64 = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_see_the_links_and_what_did_not_hold() {
        let script = script::parse("depth 2\nring 0 2\nexpect ring 0\n").expect("three steps");
        let outcome = script::run(&script, 1);
        let text = for_people(&outcome, Output::bare(false));
        assert!(!outcome.ok && text.starts_with("NOT all held, to line 3"), "{text}");
        assert!(text.contains("\nring: 0 2\n") && text.contains("\nline 3: "), "{text}");
    }
}
