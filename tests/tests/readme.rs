//! The commands in the documents are commands that exist, with the flags that they are shown with.

use std::collections::BTreeMap;

use dht_tests::client::run;
use dht_tests::workspace::{read, root};

/// Documents whose shell blocks are checked.
const DOCUMENTS: [&str; 3] = ["README.md", "CONTRIBUTING.md", "docs/operations.md"];

/// What `cargo` is asked to do in the documents, and is known to do.
const CARGO: [&str; 6] = ["run", "test", "build", "install", "fmt", "clippy"];

#[test]
fn shown_commands_exist() {
    let mut helps: BTreeMap<String, String> = BTreeMap::new();
    let mut checked = 0;
    for document in DOCUMENTS {
        for command in commands(&read(document)) {
            let words: Vec<&str> = command.split_whitespace().collect();
            let args = match words.as_slice() {
                ["dht-node", args @ ..] => args,
                ["cargo", "run", "--release", "--", args @ ..] => args,
                ["cargo", verb, ..] if CARGO.contains(verb) => continue,
                [path] if root().join(path).exists() => continue,
                ["tar" | "cat", ..] => continue,
                ["export", setting] if setting.starts_with("DHT_NODE=") => continue,
                _ => panic!("{document}: what is this? {command}"),
            };
            let is_command = |word: &&&str| !word.starts_with('-');
            let path: Vec<&str> = match args.iter().take(1).find(is_command) {
                Some(&"sim") => args.iter().take(2).copied().collect(),
                Some(&name) => vec![name],
                None => vec!["run"],
            };
            let help = helps.entry(path.join(" ")).or_insert_with(|| help_of(&path));
            for flag in args.iter().filter(|word| word.starts_with("--")) {
                assert!(help.contains(flag), "{document}: {flag} is no flag of this: {command}");
            }
            checked += 1;
        }
    }
    assert!(checked >= 15, "only {checked} commands were found: were the blocks renamed?");
}

fn help_of(path: &[&str]) -> String {
    let mut args = path.to_vec();
    args.push("--help");
    String::from_utf8(run(&args).expect(0).stdout).expect("help is UTF-8")
}

/// The commands in shell blocks, one each, without comments; a pipe joins two.
fn commands(text: &str) -> Vec<String> {
    let mut in_shell = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if let Some(language) = line.strip_prefix("```") {
            in_shell = language == "sh";
        } else if in_shell {
            let code = line.split('#').next().unwrap_or_default();
            found.extend(code.split('|').map(|part| part.trim().to_owned()));
        }
    }
    found.retain(|command| !command.is_empty());
    found
}

#[test]
fn commands_are_found() {
    let text = "```sh\na b  # c\nd | e\n\n```\n```\nf\n```\n";
    assert_eq!(commands(text), ["a b", "d", "e"]);
}
