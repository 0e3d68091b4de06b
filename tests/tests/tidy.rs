//! Habits that no compiler checks: sizes of files, forbidden words, links in the documents, and what
//! comments refer to (CONTRIBUTING.md).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use dht_tests::workspace::{files, read, root};

/// Most lines of code in one file: above it, look for the seam (CONTRIBUTING.md, rule 5).
const MAX_CODE_LINES: usize = 500;

/// What a reader may rely on finding.
const TREE: [&str; 21] = [
    ".ci/run",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "crates/dht-core/clippy.toml",
    "crates/dht-core/src/lib.rs",
    "crates/dht-net/src/lib.rs",
    "crates/dht-node/src/lib.rs",
    "crates/dht-node/src/main.rs",
    "crates/dht-sim/src/lib.rs",
    "crates/dht-store/src/lib.rs",
    "deny.toml",
    "docs/decisions",
    "docs/operations.md",
    "docs/protocol.md",
    "examples",
];

fn sources() -> Vec<(PathBuf, String)> {
    files(&[".rs"]).into_iter().map(|path| (path.clone(), read(path))).collect()
}

fn documents() -> Vec<(PathBuf, String)> {
    files(&[".md"]).into_iter().map(|path| (path.clone(), read(path))).collect()
}

/// Collects every complaint before it fails: one run shows them all.
fn expect_none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

/// Lines of a file that are code: no blank ones, no comments, and nothing from an inline test
/// module on.
fn code_lines(text: &str) -> usize {
    let mut lines = text.lines().peekable();
    let mut count = 0;
    while let Some(line) = lines.next() {
        let opens_tests = line == "#[cfg(test)]"
            && lines.peek().is_some_and(|next| next.starts_with("mod ") && next.ends_with('{'));
        if opens_tests {
            break;
        }
        let line = line.trim();
        count += usize::from(!line.is_empty() && !line.starts_with("//"));
    }
    count
}

#[test]
fn no_file_is_too_long_to_hold_in_the_head() {
    let too_long = sources().into_iter().filter_map(|(path, text)| {
        let lines = code_lines(&text);
        (lines > MAX_CODE_LINES).then(|| format!("{}: {lines} lines of code", path.display()))
    });
    expect_none(too_long.collect());
}

#[test]
fn test_modules_do_not_count_as_code() {
    let text = "//! Doc.\n\n#[cfg(test)]\nmod tests;\nfn a() {}\n#[cfg(test)]\nmod tests {\n}\n";
    assert_eq!(code_lines(text), 3);
}

#[test]
fn nothing_is_left_to_do_later() {
    // Spelled so that this very file does not hold the words it looks for.
    let words = [concat!("to", "do!("), concat!("unimpl", "emented!("), concat!("db", "g!(")];
    expect_none(lines_with(&sources(), |line| words.iter().any(|word| line.contains(word))));
}

#[test]
fn documents_have_no_gaps_to_fill() {
    let mut gaps = Vec::new();
    for (path, text) in documents() {
        let words = prose(&text).into_iter().flat_map(placeholders);
        gaps.extend(words.map(|word| format!("{}: {word}", path.display())));
    }
    expect_none(gaps);
}

/// Words outside code that stand for what was to be filled in: capitals with an underscore between
/// them, and the usual marks.
fn placeholders(line: &str) -> Vec<&str> {
    // Spelled so that a search for them does not end here.
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("TB", "D")];
    let is_capital = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let is_name = |word: &str| {
        let inner = word.trim_matches('_');
        inner.contains('_') && word.chars().all(is_capital)
    };
    let outside_code = line.split('`').step_by(2);
    let words = outside_code.flat_map(|piece| {
        piece.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
    });
    words.filter(|word| marks.contains(word) || is_name(word)).collect()
}

#[test]
fn placeholders_are_found() {
    let line = concat!("A_TABLE, `A_NAME` and TB", "D: UTF-8, RSS, __init__, s_1, [TO", "DO]");
    assert_eq!(placeholders(line), ["A_TABLE", concat!("TB", "D"), concat!("TO", "DO")]);
}

#[test]
fn tests_wait_for_conditions_not_for_time() {
    let calls = [concat!("thread::", "sleep("), concat!("time::", "sleep(")];
    let mut tests = sources();
    tests.retain(|(path, _)| path.components().any(|part| part.as_os_str() == "tests"));
    expect_none(lines_with(&tests, |line| calls.iter().any(|call| line.contains(call))));
}

#[test]
fn an_ignored_test_says_why() {
    let bare = concat!("#[ign", "ore]");
    expect_none(lines_with(&sources(), |line| line.trim() == bare));
}

#[test]
fn nothing_names_one_machine_or_registry() {
    let hosts = [concat!("crates", ".io"), concat!("pypi", ".org"), concat!("npmjs", ".org")];
    let places = [concat!("/wo", "rk/"), concat!("/ho", "me/"), concat!("/ro", "ot/")];
    let in_temp = |line: &str| {
        let after = line.split(concat!("/t", "mp/")).nth(1);
        after.is_some_and(|rest| rest.starts_with(|next: char| next.is_ascii_lowercase()))
    };
    let all: Vec<_> = files(&[".rs", ".md", ".toml", "run"])
        .into_iter()
        .map(|path| (path.clone(), read(path)))
        .collect();
    expect_none(lines_with(&all, |line| {
        hosts.iter().chain(&places).any(|word| line.contains(word)) || in_temp(line)
    }));
}

/// The lines that match, with file and number.
fn lines_with(texts: &[(PathBuf, String)], matches: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in texts {
        let hits = text.lines().enumerate().filter(|(_, line)| matches(line));
        found.extend(hits.map(|(at, line)| format!("{}:{}: {line}", path.display(), at + 1)));
    }
    found
}

#[test]
fn every_crate_takes_the_shared_lints() {
    let manifests = files(&["Cargo.toml"]).into_iter().filter(|path| {
        let text = read(path);
        text.contains("[package]") && !text.contains("\n[lints]\nworkspace = true")
    });
    expect_none(manifests.map(|path| format!("{}: no shared lints", path.display())).collect());
}

#[test]
fn what_the_tree_promises_is_there() {
    let missing = TREE.iter().filter(|path| !root().join(path).exists());
    expect_none(missing.map(|path| format!("{path} is missing")).collect());
}

#[test]
fn links_in_documents_lead_somewhere() {
    let mut dead = Vec::new();
    for (path, text) in documents() {
        let folder = path.parent().unwrap_or(Path::new(""));
        for target in link_targets(&text) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            if file.contains("://") || file.starts_with("mailto:") {
                continue;
            }
            let to = if file.is_empty() { path.clone() } else { folder.join(file) };
            if !root().join(&to).exists() {
                dead.push(format!("{}: {target}: no such file", path.display()));
            } else if !anchor.is_empty() && !headings(&read(&to)).iter().any(|h| h == anchor) {
                dead.push(format!("{}: {target}: no such heading", path.display()));
            }
        }
    }
    expect_none(dead);
}

#[test]
fn comments_name_documents_that_exist() {
    let mut dead = Vec::new();
    for (path, text) in sources() {
        for (file, section) in references(&text) {
            let known = root().join(&file).exists();
            let is_there = |name: &str| read(&file).contains(name);
            if !known || !section.as_deref().is_none_or(is_there) {
                dead.push(format!("{}: {file} {}", path.display(), section.unwrap_or_default()));
            }
        }
    }
    expect_none(dead);
}

#[test]
fn fault_cases_are_listed_with_their_tests() {
    let list = read("docs/faults.md");
    let cases: Vec<ListedCase> = list.lines().filter_map(ListedCase::read).collect();
    let listed: BTreeSet<u32> = cases.iter().map(|case| case.number).collect();
    assert_eq!(listed.len(), cases.len(), "a number stands twice in docs/faults.md");
    let mut complaints = Vec::new();
    for (path, text) in sources() {
        let unknown = cited_cases(&text).into_iter().filter(|case| !listed.contains(case));
        complaints
            .extend(unknown.map(|case| format!("{}: case {case} is not listed", path.display())));
    }
    for ListedCase { number, tests } in cases {
        for (file, test) in tests {
            let known = root().join(&file).exists();
            match known.then(|| comments_above(&read(&file), &test)).flatten() {
                None => complaints.push(format!("case {number}: no {test} in {file}")),
                Some(comments) if !cited_cases(&comments).contains(&number) => {
                    complaints.push(format!("case {number}: {test} in {file} does not cite it"));
                }
                Some(_) => {}
            }
        }
    }
    expect_none(complaints);
}

/// A line of `docs/faults.md`.
struct ListedCase {
    number: u32,
    /// Files, and functions in them.
    tests: Vec<(String, String)>,
}

impl ListedCase {
    fn read(line: &str) -> Option<ListedCase> {
        let mut cells = line.strip_prefix("| ")?.trim_end_matches(" |").split(" | ");
        let number = cells.next()?.parse().ok()?;
        let mut tests = Vec::new();
        let mut file = "";
        // Every other piece between backticks is code: a file, and then its tests.
        for code in cells.nth(3).unwrap_or_default().split('`').skip(1).step_by(2) {
            match code.ends_with(".rs") {
                true => file = code,
                false => tests.push((file.to_owned(), code.to_owned())),
            }
        }
        Some(ListedCase { number, tests })
    }
}

/// The numbers after "case", "case 1 and 2" included, in text that may wrap.
fn cited_cases(text: &str) -> BTreeSet<u32> {
    let lines = text.lines().map(|line| line.trim().trim_start_matches(['/', '!']));
    let joined = lines.collect::<Vec<_>>().join(" ");
    let mut words = joined.split_whitespace().peekable();
    let mut found = BTreeSet::new();
    while let Some(word) = words.next() {
        let word = word.trim_start_matches(|c: char| !c.is_alphanumeric());
        if !["case", "cases", "Case", "Cases"].contains(&word) {
            continue;
        }
        while let Some(next) = words.peek() {
            let digits = next.trim_end_matches(|c: char| !c.is_alphanumeric());
            match digits.parse() {
                Ok(number) => _ = found.insert(number),
                Err(_) if digits == "and" => {}
                Err(_) => break,
            }
            words.next();
        }
    }
    found
}

/// What stands above a function, and at the head of its file; `None` if there is none of that name.
fn comments_above(text: &str, function: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let start = format!("fn {function}(");
    let at = lines.iter().position(|line| line.contains(&start))?;
    let above = lines[..at].iter().rev();
    let above = above.take_while(|line| line.starts_with("///") || line.starts_with("#["));
    let head = lines.iter().take_while(|line| line.starts_with("//!"));
    let above: Vec<&str> = above.copied().collect();
    let all: Vec<&str> = head.copied().chain(above.into_iter().rev()).collect();
    Some(all.join("\n"))
}

#[test]
fn cases_are_found() {
    let line = "| 7 | x 1 | y | z | `a/b.rs`: `one`, `two`; `c.rs`: `three` |";
    let listed = ListedCase::read(line).expect("a case");
    let tests: Vec<_> = listed.tests.iter().map(|(file, test)| (&file[..], &test[..])).collect();
    assert_eq!(tests, [("a/b.rs", "one"), ("a/b.rs", "two"), ("c.rs", "three")]);
    assert_eq!(listed.number, 7);
    assert!(ListedCase::read("| case | seen in |").is_none());
    let text = concat!("//! Of ca", "ses 3 and 4: x (ca", "se\n//! 17). In ca", "se of 5, 6.");
    assert_eq!(cited_cases(text), [3, 4, 17].into());
    let text = "//! Head.\nfn a() {}\n/// One.\n#[test]\nfn b() {}\n";
    assert_eq!(comments_above(text, "b").as_deref(), Some("//! Head.\n/// One.\n#[test]"));
    assert_eq!(comments_above(text, "c"), None);
}

/// The documents that comments refer to, in backticks, perhaps followed by a comma and a section in
/// quotes.
fn references(text: &str) -> Vec<(String, Option<String>)> {
    let start = concat!("`do", "cs/");
    // Comments wrap; a reference may too.
    let joined: Vec<&str> = text.lines().map(|line| line.trim().trim_start_matches('/')).collect();
    let joined = joined.join(" ");
    let words = joined.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut found = Vec::new();
    for (at, _) in words.match_indices(start) {
        let Some((file, rest)) = words[at + 1..].split_once('`') else { continue };
        let section = rest.strip_prefix(", \"").and_then(|rest| rest.split_once('"'));
        found.push((file.to_owned(), section.map(|(name, _)| name.to_owned())));
    }
    found
}

/// What the inline links of a Markdown text point to. Code, in blocks or in a line, holds none.
fn link_targets(text: &str) -> Vec<&str> {
    let mut targets = Vec::new();
    for line in prose(text) {
        // Every other piece between backticks is code.
        for piece in line.split('`').step_by(2) {
            let starts = piece.match_indices("](").map(|(at, _)| &piece[at + 2..]);
            targets.extend(starts.filter_map(|rest| rest.split_once(')').map(|(to, _)| to)));
        }
    }
    targets
}

/// The anchors of a Markdown text: its headings in lower case, with dashes for spaces and without
/// signs.
fn headings(text: &str) -> Vec<String> {
    let lines = prose(text).into_iter().filter(|line| line.starts_with('#'));
    lines.map(|line| slug(line.trim_start_matches('#'))).collect()
}

fn slug(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || *c == ' ' || *c == '-' || *c == '_';
    let lower = heading.trim().to_lowercase();
    lower.chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The lines outside code blocks.
fn prose(text: &str) -> Vec<&str> {
    let mut in_code = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            lines.push(line);
        }
    }
    lines
}

#[test]
fn links_and_headings_are_found() {
    let text = "# A `b`, c!\n[x](y.md#z) `[n](o)` [p](q)\n```\n[r](s)\n```\n";
    assert_eq!(link_targets(text), ["y.md#z", "q"]);
    assert_eq!(headings(text), ["a-b-c"]);
    let comment = concat!("/// As (`do", "cs/x.md`, \"Two\n    /// words\") and `do", "cs/y.md`.");
    let found = references(comment);
    assert_eq!(found[0], ("docs/x.md".to_owned(), Some("Two words".to_owned())));
    assert_eq!(found[1], ("docs/y.md".to_owned(), None));
}
