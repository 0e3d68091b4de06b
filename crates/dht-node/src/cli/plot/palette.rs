//! Colours for light and for dark backgrounds, and markers that tell series apart without colour.

use super::svg::{Svg, px};

/// So many colours are told apart; then they begin again, with other markers.
pub(super) const SERIES: usize = LIGHT.len();

/// The light form is what readers without style sheets see. Each colour has the contrast of 3 to 1
/// to its background that WCAG 2.2, section 1.4.11, asks of graphics; a test calculates it.
const BACKGROUND: [&str; 2] = ["#ffffff", "#15181c"];
const INKS: [&str; 2] = ["#1d2126", "#e4e7eb"];
const GRIDS: [&str; 2] = ["#d9dde2", "#3a4048"];
/// Lines that are read, such as that of a circle.
const RULES: [&str; 2] = ["#8a929b", "#7b838c"];
const LIGHT: [&str; 8] =
    ["#0b62a8", "#b45f06", "#2b7a3d", "#a3358c", "#c1272d", "#0d7a80", "#5b3fb0", "#5a5f66"];
const DARK: [&str; 8] =
    ["#6cb4ff", "#f2a65a", "#7bd88f", "#e58ad4", "#ff7b72", "#5ed3d0", "#b9a3ff", "#b8bcc4"];

/// The light background.
pub(super) const BACK: (&str, &str) = ("fill", BACKGROUND[0]);
/// The light colour of words.
pub(super) const INK: (&str, &str) = ("fill", INKS[0]);
/// The light colour of the grid.
pub(super) const GRID: (&str, &str) = ("stroke", GRIDS[0]);

/// The light colour of lines that are read.
pub(super) const RULE: (&str, &str) = ("stroke", RULES[0]);

/// The light colour of lines over bars: that of words.
pub(super) const EDGE: (&str, &str) = ("stroke", INKS[0]);

/// How the lines of a series are broken, so that they are told apart where they lie on each other and
/// without colour; not at all: `None`.
pub(super) fn dash(at: usize) -> Option<&'static str> {
    const DASHES: [Option<&str>; 4] = [None, Some("7 4"), Some("2 3"), Some("10 3 2 3")];
    DASHES[at % DASHES.len()]
}

/// The style sheet: it only says what is different on a dark background.
pub(super) fn style() -> String {
    let [back, ink, grid, rule] = [BACKGROUND[1], INKS[1], GRIDS[1], RULES[1]];
    let mut rules = format!(
        ".back{{fill:{back}}}.ink{{fill:{ink}}}.edge{{stroke:{ink}}}.grid{{stroke:{grid}}}\
         .rule{{stroke:{rule}}}"
    );
    for (at, color) in DARK.iter().enumerate() {
        rules.push_str(&format!(".{}{{color:{color}}}", class(at)));
    }
    format!("@media(prefers-color-scheme:dark){{{rules}}}")
}

/// The class of a series.
pub(super) fn class(at: usize) -> String {
    format!("s{}", at % SERIES)
}

/// The colour of a series on a light background.
pub(super) fn light(at: usize) -> &'static str {
    LIGHT[at % SERIES]
}

/// The form of a series' points.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Marker {
    /// A disc.
    Disc,
    /// A square.
    Square,
    /// A triangle that points up.
    Up,
    /// A square on its corner.
    Diamond,
    /// A triangle that points down.
    Down,
    /// Two crossed strokes.
    Cross,
    /// Two upright ones.
    Plus,
}

impl Marker {
    /// Seven, where there are eight colours: so both together begin again after 56 series only.
    const ALL: [Marker; 7] = [
        Marker::Disc,
        Marker::Square,
        Marker::Up,
        Marker::Diamond,
        Marker::Down,
        Marker::Cross,
        Marker::Plus,
    ];

    /// The marker of a series.
    pub(super) fn of(at: usize) -> Marker {
        Marker::ALL[at % Marker::ALL.len()]
    }

    /// Draws it round a point, in the colour of its series.
    pub(super) fn draw(self, svg: &mut Svg, x: f64, y: f64, radius: f64) {
        let at = |dx: f64, dy: f64| format!("{} {}", px(x + dx * radius), px(y + dy * radius));
        let path = match self {
            Marker::Disc => {
                let (r, both) = (px(radius), px(2.0 * radius));
                format!("M{}a{r} {r} 0 1 0 {both} 0a{r} {r} 0 1 0 -{both} 0z", at(-1.0, 0.0))
            }
            Marker::Square => {
                let edge = [at(-0.9, -0.9), at(0.9, -0.9), at(0.9, 0.9), at(-0.9, 0.9)];
                format!("M{}z", edge.join("L"))
            }
            Marker::Up => format!("M{}z", [at(0.0, -1.1), at(1.1, 0.9), at(-1.1, 0.9)].join("L")),
            Marker::Diamond => {
                let edge = [at(0.0, -1.2), at(1.2, 0.0), at(0.0, 1.2), at(-1.2, 0.0)];
                format!("M{}z", edge.join("L"))
            }
            Marker::Down => {
                format!("M{}z", [at(0.0, 1.1), at(1.1, -0.9), at(-1.1, -0.9)].join("L"))
            }
            Marker::Cross => {
                let (one, other) = ([at(-0.9, -0.9), at(0.9, 0.9)], [at(-0.9, 0.9), at(0.9, -0.9)]);
                format!("M{}M{}", one.join("L"), other.join("L"))
            }
            Marker::Plus => {
                let (one, other) = ([at(-1.1, 0.0), at(1.1, 0.0)], [at(0.0, -1.1), at(0.0, 1.1)]);
                format!("M{}M{}", one.join("L"), other.join("L"))
            }
        };
        let color = "currentColor";
        svg.leaf(
            "path",
            &[("d", &path), ("fill", color), ("stroke", color), ("stroke-width", "1.5")],
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance and contrast ratio as WCAG 2.2 defines them.
    fn contrast(one: &str, other: &str) -> f64 {
        let luminance = |color: &str| {
            let channel = |at: usize| {
                let value = u8::from_str_radix(&color[at..at + 2], 16).expect("two digits");
                let value = f64::from(value) / 255.0;
                if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
        };
        let (one, other) = (luminance(one) + 0.05, luminance(other) + 0.05);
        (one / other).max(other / one)
    }

    #[test]
    fn every_colour_stands_out_from_its_background() {
        assert!((contrast("#000000", "#ffffff") - 21.0).abs() < 1e-9);
        for (colors, background) in [(LIGHT, BACKGROUND[0]), (DARK, BACKGROUND[1])] {
            for color in colors {
                assert!(contrast(color, background) >= 3.0, "{color} on {background}");
            }
        }
        for (rule, background) in RULES.into_iter().zip(BACKGROUND) {
            assert!(contrast(rule, background) >= 3.0, "{rule} on {background}");
        }
        for (ink, background) in INKS.into_iter().zip(BACKGROUND) {
            assert!(contrast(ink, background) >= 7.0, "words are read");
        }
    }

    #[test]
    fn series_are_told_apart() {
        let look = |at: usize| (class(at), Marker::of(at) as u8);
        let looks: std::collections::BTreeSet<_> = (0..56).map(look).collect();
        assert_eq!(looks.len(), 56);
        assert_eq!(look(56), look(0));
    }
}
