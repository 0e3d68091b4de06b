//! What is wrong with a command line that clap could not read, as the one line that errors are.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Command, CommandFactory};

use super::args::Cli;
use super::exit::{clip, one_line};

/// The complaint, and where the right form stands.
pub(crate) fn complaint(arguments: &[OsString], error: &clap::Error) -> String {
    let root = Cli::command();
    let words: Vec<&str> = arguments.iter().skip(1).filter_map(|word| word.to_str()).collect();
    let (path, command) = command_of(&root, &words);
    let what = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            let all = command.get_subcommands().filter(|sub| !sub.is_hide_set());
            let names: Vec<&str> =
                all.map(Command::get_name).filter(|name| *name != "help").collect();
            format!("`{path}` needs one of its commands: {}", names.join(", "))
        }
        _ => first_paragraph(error, &words),
    };
    format!("{what}{}; see {path} --help", suggestion(error))
}

/// The words of the program and its commands that the arguments name, and the innermost command.
fn command_of<'a>(root: &'a Command, words: &[&str]) -> (String, &'a Command) {
    let (mut path, mut command) = (root.get_name().to_owned(), root);
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if *word == "--" {
            break;
        }
        if takes_next(root, word) || takes_next(command, word) {
            rest.next();
        } else if let Some(sub) = command.find_subcommand(word) {
            path = format!("{path} {}", sub.get_name());
            command = sub;
        }
    }
    (path, command)
}

/// Whether the word is a flag whose value is the word after it.
fn takes_next(command: &Command, word: &str) -> bool {
    let Some(name) = word.strip_prefix("--") else { return false };
    command.get_arguments().any(|arg| {
        arg.get_long() == Some(name)
            && !arg.is_require_equals_set()
            && matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
    })
}

/// What comes after it are tips and usage, which `--help` shows too.
fn first_paragraph(error: &clap::Error, words: &[&str]) -> String {
    let text = error.render().to_string();
    let first = text.trim_start_matches("error:").split("\n\n").next().unwrap_or_default();
    let values =
        words.iter().flat_map(|word| [Some(*word), word.split_once('=').map(|pair| pair.1)]);
    let long = values.flatten().filter(|word| clip(word) != **word);
    // Once read as a text, an argument may stand there as it was written.
    one_line(&long.fold(first.to_owned(), |text, word| text.replace(word, &clip(word))))
}

fn suggestion(error: &clap::Error) -> String {
    let kinds =
        [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue];
    let found = kinds.into_iter().find_map(|kind| match error.get(kind)? {
        ContextValue::String(word) => Some(word.clone()),
        ContextValue::Strings(words) => words.first().cloned(),
        _ => None,
    });
    found.map(|word| format!("; did you mean {word}?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn of(line: &str) -> String {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        complaint(&words, &Cli::try_parse_from(&words).expect_err(line))
    }

    #[test]
    fn a_complaint_is_one_line_that_says_where_to_look() {
        let table = [
            ("dht-node put", "the following required arguments were not provided: ", "put"),
            ("dht-node get k --no-such", "unexpected argument '--no-such' found", "get"),
            ("dht-node get k --node put --no-such", "unexpected argument '--no-such' found", "get"),
            (
                "dht-node sim",
                "`dht-node sim` needs one of its commands: hops, script, churn, check;",
                "sim",
            ),
            ("dht-node sim hops --nodes x", "invalid value 'x' for '--nodes <N,..>'", "sim hops"),
            (
                "dht-node --json sim",
                "`dht-node sim` needs one of its commands: hops, script, churn, check;",
                "sim",
            ),
        ];
        for (line, begin, command) in table {
            let said = of(line);
            assert!(said.starts_with(begin), "{line}: {said}");
            assert!(said.ends_with(&format!("; see dht-node {command} --help")), "{line}: {said}");
            assert!(!said.contains('\n'), "{said}");
        }
        assert!(of("dht-node lookp k").ends_with("; did you mean lookup?; see dht-node --help"));
        assert!(of("dht-node ls --lmit 3").contains("; did you mean --limit?; "));
    }

    #[test]
    fn long_arguments_are_cut() {
        let long = "x".repeat(5000);
        for line in [format!("dht-node ls --limit {long}"), format!("dht-node ls --limit={long}")] {
            assert!(of(&line).len() < 300, "{}", of(&line));
        }
    }
}
