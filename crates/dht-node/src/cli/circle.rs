//! A circle of characters with a way across it, beside lines of text: fits a terminal of eighty columns
//! and twenty-four lines.

use std::f64::consts::TAU;

use owo_colors::OwoColorize;

/// What is drawn. Places are shares of the circle, clockwise from the top, in `0.0..1.0`.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Circle {
    /// Those that are known, whoever they are.
    pub(crate) members: Vec<f64>,
    /// The way: its first stop is where it begins.
    pub(crate) way: Vec<f64>,
    /// Whether the way ended where it should.
    pub(crate) arrived: bool,
    /// What is looked for.
    pub(crate) key: f64,
    /// What stands to the right, at most [`ROWS`] lines are shown.
    pub(crate) beside: Vec<String>,
}

/// Lines of a drawing.
pub(crate) const ROWS: usize = 20;
/// Columns for what stands beside it: together eighty.
pub(crate) const BESIDE: usize = 80 - COLUMNS - GAP;
const COLUMNS: usize = 44;
const GAP: usize = 2;
/// A character is about twice as high as it is wide, so this is a circle.
const RADIUS: (f64, f64) = (16.0, 8.0);
/// Numbers stand outside of it.
const LABELS: (f64, f64) = (19.0, 9.3);
const CENTER: (f64, f64) = (21.5, 9.5);
/// Longer ways are drawn without lines from stop to stop, which would hide each other (guess).
const MOST_LINES: usize = 16;

/// What a character stands for: it decides the colour, and who gives way to whom.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Ink {
    Line,
    Member,
    Stop,
    End,
    Key,
    Label,
}

/// Characters in their places.
struct Canvas {
    cells: Vec<Vec<Option<(char, Ink)>>>,
}

impl Circle {
    /// The drawing, with colours, which whoever prints it takes out where they are not wanted.
    pub(crate) fn text(&self) -> String {
        let mut canvas = Canvas { cells: vec![vec![None; COLUMNS]; ROWS] };
        self.members.iter().for_each(|at| canvas.put(on(*at, RADIUS), '.', Ink::Member));
        if self.way.len() <= MOST_LINES + 1 {
            for pair in self.way.windows(2) {
                canvas.line(on(pair[0], RADIUS), on(pair[1], RADIUS));
            }
        }
        self.way.iter().for_each(|at| canvas.put(on(*at, RADIUS), 'o', Ink::Stop));
        if let Some(last) = self.way.last().filter(|_| self.arrived) {
            canvas.put(on(*last, RADIUS), 'O', Ink::End);
        }
        if let Some(first) = self.way.first() {
            canvas.put(on(*first, RADIUS), 'A', Ink::End);
        }
        canvas.label(self.key, "K", Ink::Key);
        self.labels().iter().for_each(|(at, text)| canvas.label(*at, text, Ink::Label));
        canvas.beside(&self.beside)
    }

    /// Numbers of the stops after the first; those that share a character share a label.
    fn labels(&self) -> Vec<(f64, String)> {
        let mut groups: Vec<(f64, usize, usize)> = Vec::new();
        for (number, at) in self.way.iter().enumerate().skip(1) {
            match groups.last_mut() {
                Some((place, _, last)) if on(*place, RADIUS) == on(*at, RADIUS) => *last = number,
                _ => groups.push((*at, number, number)),
            }
        }
        let text = |first, last| match first == last {
            true => format!("{first}"),
            false => format!("{first}-{last}"),
        };
        groups.into_iter().map(|(at, first, last)| (at, text(first, last))).collect()
    }
}

/// The column and the line of a place on a circle round the centre.
fn on(share: f64, radius: (f64, f64)) -> (usize, usize) {
    let (sine, cosine) = (share * TAU).sin_cos();
    let column = CENTER.0 + radius.0 * sine;
    let row = CENTER.1 - radius.1 * cosine;
    let within = |value: f64, most: usize| value.round().clamp(0.0, (most - 1) as f64) as usize;
    (within(column, COLUMNS), within(row, ROWS))
}

impl Canvas {
    /// Puts a character where none of more weight stands.
    fn put(&mut self, (column, row): (usize, usize), sign: char, ink: Ink) {
        let cell = &mut self.cells[row][column];
        if cell.is_none_or(|(_, held)| held <= ink) {
            *cell = Some((sign, ink));
        }
    }

    /// Draws a line between two characters, over nothing but blanks.
    fn line(&mut self, from: (usize, usize), to: (usize, usize)) {
        let (wide, high) = (to.0 as f64 - from.0 as f64, to.1 as f64 - from.1 as f64);
        let sign = sign(wide, high);
        // A slanted line has one character in each row.
        let steps = if sign == '-' { wide.abs() } else { high.abs() } as usize;
        for step in 1..steps {
            let along = step as f64 / steps as f64;
            let column = (from.0 as f64 + along * wide).round() as usize;
            let row = (from.1 as f64 + along * high).round() as usize;
            if self.cells[row][column].is_none() {
                self.cells[row][column] = Some((sign, Ink::Line));
            }
        }
    }

    /// Writes a word outside of the circle, or inside where that is taken; nowhere if both are: what it
    /// says stands beside the drawing too.
    fn label(&mut self, at: f64, text: &str, ink: Ink) {
        let inside = (2.0 * RADIUS.0 - LABELS.0, 2.0 * RADIUS.1 - LABELS.1);
        for (radius, is_outside) in [(LABELS, true), (inside, false)] {
            let (column, row) = on(at, radius);
            // Outside on the right, words run away from the circle, and on the left towards it.
            let is_right = (column as f64) > CENTER.0;
            let back = if is_right == is_outside { 0 } else { text.len() - 1 };
            let start = column.saturating_sub(back).min(COLUMNS - text.len().min(COLUMNS));
            let end = (start + text.len()).min(COLUMNS);
            let row = &mut self.cells[row];
            let is_blank = |cell: &Option<(char, Ink)>| cell.is_none_or(|held| held.1 == Ink::Line);
            // Two numbers side by side would read as one.
            let is_apart = |cell: &Option<(char, Ink)>| cell.is_none_or(|held| held.1 < Ink::Key);
            let (before, after) = (start.saturating_sub(1), end.min(COLUMNS - 1));
            let is_free = row[start..end].iter().all(is_blank)
                && is_apart(&row[before])
                && is_apart(&row[after]);
            if is_free {
                for (cell, sign) in row[start..end].iter_mut().zip(text.chars()) {
                    *cell = Some((sign, ink));
                }
                return;
            }
        }
    }

    /// All lines, with others to their right.
    fn beside(&self, lines: &[String]) -> String {
        let mut text = String::new();
        for (at, row) in self.cells.iter().enumerate() {
            let line = lines.get(at).filter(|line| !line.is_empty());
            let drawn = match line {
                Some(_) => COLUMNS,
                None => row.iter().rposition(Option::is_some).map_or(0, |last| last + 1),
            };
            row[..drawn].iter().for_each(|cell| text.push_str(&painted(*cell)));
            if let Some(line) = line {
                text.push_str(&" ".repeat(GAP));
                text.push_str(line);
            }
            text.push('\n');
        }
        text
    }
}

fn painted(cell: Option<(char, Ink)>) -> String {
    match cell {
        None => " ".to_owned(),
        Some((sign, Ink::Line)) => sign.dimmed().to_string(),
        Some((sign, Ink::Member)) => sign.to_string(),
        Some((sign, Ink::Stop | Ink::Label)) => sign.cyan().to_string(),
        Some((sign, Ink::Key)) => sign.yellow().bold().to_string(),
        Some((sign, Ink::End)) => sign.green().bold().to_string(),
    }
}

/// The character that lies most like a line.
fn sign(wide: f64, high: f64) -> char {
    // As the eye sees it: characters are twice as high as wide.
    let steep = 2.0 * high.abs() / wide.abs().max(f64::MIN_POSITIVE);
    match steep {
        steep if steep < 0.4 => '-',
        steep if steep > 2.5 => '|',
        _ if (wide > 0.0) == (high > 0.0) => '\\',
        _ => '/',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(circle: &Circle) -> String {
        anstream::adapter::strip_str(&circle.text()).to_string()
    }

    fn circle(way: &[f64]) -> Circle {
        Circle {
            members: (0..16).map(|n| f64::from(n) / 16.0).collect(),
            way: way.to_vec(),
            arrived: true,
            key: 0.48,
            beside: vec!["A  asker".to_owned(), String::new(), "1  first".to_owned()],
        }
    }

    #[test]
    fn a_way_is_drawn_across_the_circle() {
        let drawn = plain(&circle(&[0.0, 0.25, 0.4375, 0.5]));
        assert_eq!(drawn, SHOWN, "\n{drawn}");
    }

    const SHOWN: &str = r"                                              A  asker

               .      A     .                 1  first
                        \
          .               \      .
                            \
       .                      \     .
                                \
                                  \
                                    \
      .                               o  1
                                     /
                                   /
       .                          / .
                                /
          .                    / .
                             /
               .          --o
                      O---   2
                      3 K
";

    #[test]
    fn it_fits_the_terminal_whatever_is_drawn() {
        let many: Vec<f64> = (0..200).map(|n| f64::from(n) / 200.0).collect();
        for way in [&[][..], &[0.3], &[0.0, 0.0], &many[..16], &many[..]] {
            let mut circle = circle(way);
            circle.beside = vec!["x".repeat(BESIDE); 40];
            let drawn = plain(&circle);
            assert_eq!(drawn.lines().count(), ROWS);
            assert!(drawn.lines().all(|line| line.len() <= 80 && line.is_ascii()), "{drawn}");
        }
    }

    #[test]
    fn stops_in_one_place_share_their_number() {
        let labels = |way: &[f64]| circle(way).labels().into_iter().map(|(_, text)| text).collect();
        let shared: Vec<String> = labels(&[0.1, 0.26, 0.2601, 0.2602, 0.5]);
        assert_eq!(shared, ["1-3", "4"]);
        let none: Vec<String> = labels(&[0.1]);
        assert!(none.is_empty());
    }

    #[test]
    fn colours_are_only_beside_the_characters() {
        let painted = circle(&[0.0, 0.5]).text();
        assert!(painted.contains('\u{1b}') && painted.lines().count() == ROWS);
    }

    #[test]
    fn lines_look_like_their_slope() {
        // Two rows on eight columns are a slant: a row is as high as two columns are wide.
        let slopes = [(8.0, 1.0), (8.0, 2.0), (1.0, 5.0), (-8.0, 4.0), (8.0, -4.0), (0.0, 3.0)];
        let signs: String = slopes.iter().map(|(wide, high)| sign(*wide, *high)).collect();
        assert_eq!(signs, "-\\|//|");
    }
}
