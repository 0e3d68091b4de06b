//! Compared ways for people: side by side first, then node by node.

use dht_core::register::Key;
use owo_colors::OwoColorize;

use crate::cli::commands::info::short;
use crate::cli::json::{ChoiceJson, CompareJson, ComparedJson, EntryJson};
use crate::cli::keys::show_key;
use crate::cli::output::{Output, table_text};
use crate::cli::units::{count, show_micros};

pub(in crate::cli::commands::lookup) fn for_people(
    json: &CompareJson,
    key: &Key,
    output: Output,
) -> String {
    let mut text = format!(
        "{} lies at {:.1} % of the circle; asked at {}, at {:.1} %\n\n{}",
        show_key(key.as_bytes()),
        100.0 * json.id.as_fraction(),
        short(&json.asker.id),
        100.0 * json.asker.id.as_fraction(),
        side_by_side(json, output),
    );
    for compared in &json.routings {
        text.push_str(&told(compared));
    }
    text.push_str(
        "\n[taken]  (not before the key)  + and -: how far ahead and behind, of the circle\n",
    );
    text
}

/// The ways beside each other, a column for each routing.
fn side_by_side(json: &CompareJson, output: Output) -> String {
    let names = json.routings.iter().map(|row| format!("{}, depth {}", row.routing, row.depth));
    let headings: Vec<String> = std::iter::once(">step".to_owned()).chain(names).collect();
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = output.table(&headings);
    let longest = json.routings.iter().map(|row| row.steps.len()).max().unwrap_or(0);
    for number in shown(longest) {
        let Some(number) = number else {
            table.add_row(["..."]);
            continue;
        };
        let node = |row: &ComparedJson| match row.steps.get(number) {
            Some(step) => format!("{}  {}", short(&step.peer.id), step.why),
            None => String::new(),
        };
        let first = if number == 0 { "asker".to_owned() } else { number.to_string() };
        let cells: Vec<String> =
            std::iter::once(first).chain(json.routings.iter().map(node)).collect();
        table.add_row(cells);
    }
    table_text(&table)
}

/// One lookup, node by node.
fn told(compared: &ComparedJson) -> String {
    let mut text = format!(
        "\n{}, depth {}: {}, {}, {}\n",
        compared.routing.bold(),
        compared.depth,
        count(compared.hops.into(), "hop"),
        count(compared.timeouts, "failed contact"),
        show_micros(compared.elapsed_us),
    );
    for number in shown(compared.steps.len()) {
        match number {
            Some(number) => text.push_str(&step_told(number, &compared.steps[number])),
            None => text.push_str("  ...\n"),
        }
    }
    if compared.owner.is_none() {
        text.push_str("     no owner was found\n");
    }
    text
}

fn step_told(number: usize, step: &ChoiceJson) -> String {
    let (id, left) = (short(&step.peer.id), 100.0 * step.key_ahead);
    let mut text = format!("{number:3}  {id}, the key {left:.2} % ahead\n");
    if step.why != "mine" {
        for list in ["predecessor", "successor", "finger"] {
            let entries: Vec<&EntryJson> =
                step.entries.iter().filter(|entry| entry.list == list).collect();
            text.push_str(&listed(list, &entries));
        }
    }
    let chosen = step.chosen.as_ref().map(|peer| short(&peer.id));
    text.push_str(&format!("     {}\n", reason(step.why, &chosen.unwrap_or_default())));
    text
}

/// The entries of one list, in lines of eighty columns.
fn listed(list: &str, entries: &[&EntryJson]) -> String {
    if entries.is_empty() {
        return String::new();
    }
    let is_shown = |(at, entry): &(usize, &&EntryJson)| *at < MOST_ENTRIES || entry.chosen;
    let mut lines = vec![String::new()];
    let (mut used, mut told) = (0, 0);
    for (_, entry) in entries.iter().enumerate().filter(is_shown) {
        let piece = entry_told(entry);
        let width = piece.chars().count();
        if used > 0 && used + 2 + width > ENTRY_COLUMNS {
            lines.push(String::new());
            used = 0;
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(if used > 0 { "  " } else { "" });
            line.push_str(&match entry.chosen {
                true => piece.green().bold().to_string(),
                false => piece,
            });
        }
        used += width + if used > 0 { 2 } else { 0 };
        told += 1;
    }
    if told < entries.len() {
        lines.push(format!("and {} more", entries.len() - told));
    }
    let mut text = String::new();
    for (at, line) in lines.iter().enumerate() {
        let heading = if at == 0 { format!("{list}s") } else { String::new() };
        text.push_str(&format!("     {heading:12}  {line}\n"));
    }
    text
}

/// One entry: its id, how far it lies ahead or behind, and what became of it.
fn entry_told(entry: &EntryJson) -> String {
    let away = match entry.list {
        "predecessor" => format!("-{:.2} %", 100.0 * (1.0 - entry.ahead)),
        _ => format!("+{:.2} %", 100.0 * entry.ahead),
    };
    let finger = if entry.list == "finger" { format!("2^{} ", entry.place) } else { String::new() };
    let failed = if entry.failed { " silent" } else { "" };
    let text = format!("{finger}{} {away}{failed}", short(&entry.peer.id));
    match (entry.chosen, entry.before_key) {
        (true, _) => format!("[{text}]"),
        (false, true) => text,
        (false, false) => format!("({text})"),
    }
}

/// Why that one, for a person.
fn reason(why: &str, chosen: &str) -> String {
    let why = match why {
        "mine" => return "owns the key".to_owned(),
        "unknown" if chosen.is_empty() => return "the way is not told further".to_owned(),
        "unknown" => "the node did not tell its lists",
        "owner" => "it owns the key: no entry lies between",
        "farthest" => "the farthest entry before the key",
        "nearer_ahead" => "the key is nearer ahead; the farthest before it",
        "nearer_back" => "the key is nearer behind; the farthest not beyond it",
        "farthest_back" => "the farthest back that is not beyond the key",
        "finger" => "a finger, the farthest entry before the key",
        "fastest" => "of those whose lists should show the owner, it answers fastest",
        "predecessor" => "the node lies past the key and names its predecessor",
        "map" => "the map of all members names it",
        "instead" => "the node keeps no state for this routing; by its links",
        "otherwise" => "not what the rule takes now: stepped round, or lists changed",
        _ => "NOT listed now: lists changed, or another node was asked again",
    };
    format!("to {chosen}: {why}")
}

/// Numbers of what is shown of so many; `None` stands for a gap.
fn shown(all: usize) -> Vec<Option<usize>> {
    if all <= MOST_STEPS {
        return (0..all).map(Some).collect();
    }
    let (first, last) = (MOST_STEPS - LAST_STEPS, all - LAST_STEPS);
    (0..first).map(Some).chain([None]).chain((last..all).map(Some)).collect()
}

/// Most steps shown to a person, and how many of them are the last ones; `--json` has all (guess).
const MOST_STEPS: usize = 12;
const LAST_STEPS: usize = 3;
/// Most entries of a list shown to a person: the default depth.
const MOST_ENTRIES: usize = 16;
/// Columns for entries, after the name of their list.
const ENTRY_COLUMNS: usize = 80 - 19;

#[cfg(test)]
mod tests {
    use super::super::tests::{key, long_list, sample};
    use super::*;

    fn plain(json: &CompareJson) -> String {
        let text = for_people(json, &key(), Output::bare(false));
        anstream::adapter::strip_str(&text).to_string()
    }

    #[test]
    fn people_see_the_ways_side_by_side_and_what_was_taken() {
        let text = plain(&sample());
        assert!(text.contains("successors, depth 2   fingers, depth 2"), "{text}");
        assert!(text.contains("fingers, depth 2: 2 hops, 0 failed contacts"), "{text}");
        assert!(text.contains("[2^6 00000000 +0.00 %]"), "{text}");
        assert!(text.contains("a finger, the farthest entry before the key"), "{text}");
        assert!(text.contains("it owns the key: no entry lies between"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let painted = for_people(&sample(), &key(), Output::bare(false));
        assert!(painted.contains("\u{1b}["), "what was taken stands out on a terminal");
    }

    #[test]
    fn a_chosen_one_that_is_gone_is_told() {
        let mut json = sample();
        let step = &mut json.routings[0].steps[0];
        (step.why, step.listed) = ("gone", Some(false));
        assert!(plain(&json).contains("NOT listed now"), "{}", plain(&json));
    }

    #[test]
    fn what_is_long_is_cut_where_people_read_it() {
        assert_eq!(shown(3), [Some(0), Some(1), Some(2)]);
        let cut = shown(100);
        assert_eq!(cut.len(), MOST_STEPS + 1);
        assert_eq!((cut[8], cut[9], cut[10]), (Some(8), None, Some(97)));
        let text = plain(&long_list());
        assert!(text.contains("and 23 more"), "16 and the one that was taken: {text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn every_reason_has_words_of_its_own() {
        use crate::client::Why;
        let all = [
            Why::Mine,
            Why::Owner,
            Why::Farthest,
            Why::NearerAhead,
            Why::NearerBack,
            Why::FarthestBack,
            Why::Finger,
            Why::Fastest,
            Why::Predecessor,
            Why::Map,
            Why::Instead,
            Why::Otherwise,
            Why::Gone,
            Why::Unknown,
        ];
        let told: std::collections::BTreeSet<String> =
            all.iter().map(|why| reason(why.as_str(), "94fba408")).collect();
        assert_eq!(told.len(), all.len());
        assert!(told.iter().all(|line| line.len() + 5 <= 80), "{told:#?}");
    }
}
