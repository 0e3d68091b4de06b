//! A picture of two panels: a chart on the left, and on the right small charts of bars in rows, each on
//! its own scale.

use super::palette;
use super::svg::{Svg, px};
use super::{Area, Chart, words};

/// The picture.
#[derive(Clone, Debug)]
pub(crate) struct Panels {
    /// What is shown, in a few words.
    pub(crate) title: String,
    /// From what, in one line.
    pub(crate) subtitle: String,
    /// The same for those who cannot see it.
    pub(crate) description: String,
    /// On the left; its title stands over it and its caption under it.
    pub(crate) main: Chart,
    /// Over the small charts.
    pub(crate) heading: String,
    /// Under them.
    pub(crate) caption: String,
    /// From the top down.
    pub(crate) rows: Vec<Row>,
}

/// Small charts beside each other.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Row {
    /// What they have in common.
    pub(crate) name: String,
    /// Which colour they have.
    pub(crate) color: usize,
    /// From left to right; a place may stay empty.
    pub(crate) cells: Vec<Option<Cell>>,
}

/// One small chart.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Cell {
    /// Over it.
    pub(crate) title: String,
    /// Nothing was measured: why.
    pub(crate) bars: Result<Bars, String>,
}

/// Shares of one.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Bars {
    /// Measured, from 0 on.
    pub(crate) measured: Vec<f64>,
    /// Expected, beside each; empty where nothing is known.
    pub(crate) expected: Vec<f64>,
    /// What the first and the last bar stand for.
    pub(crate) ends: (String, String),
}

const WIDTH: f64 = 1424.0;
const TOP: f64 = 104.0;
const MAIN_LEFT: f64 = 78.0;
const MAIN_RIGHT: f64 = 570.0;
const CELLS_LEFT: f64 = 800.0;
const CELL_WIDTH: f64 = 110.0;
const CELL_GAP: f64 = 14.0;
const CELL_HEIGHT: f64 = 70.0;
/// A row: its name, the titles, the bars, what their ends stand for.
const ROW_HEIGHT: f64 = 18.0 + 18.0 + CELL_HEIGHT + 30.0;
/// As high as four rows at least.
const LEAST_ROWS: usize = 4;
const BELOW: f64 = 78.0;

impl Panels {
    /// The picture.
    pub(crate) fn svg(&self) -> String {
        let rows = self.rows.len().max(LEAST_ROWS) as f64;
        let bottom = TOP + rows * ROW_HEIGHT;
        let height = bottom + BELOW;
        let mut svg = super::page(WIDTH, height, &self.title, &self.description);
        svg.text(16.0, 52.0, "start", &words("14"), &self.subtitle);
        svg.text(16.0, TOP - 18.0, "start", &words("15"), &self.main.title);
        svg.text(16.0, height - 14.0, "start", &words("12"), &self.main.caption);
        let area = Area { left: MAIN_LEFT, right: MAIN_RIGHT, top: TOP, bottom };
        self.main.draw(&mut svg, area);
        svg.text(CELLS_LEFT, TOP - 18.0, "start", &words("15"), &self.heading);
        svg.text(CELLS_LEFT, height - 14.0, "start", &words("12"), &self.caption);
        for (at, row) in self.rows.iter().enumerate() {
            row.draw(&mut svg, TOP + at as f64 * ROW_HEIGHT);
        }
        svg.finish()
    }
}

impl Row {
    fn draw(&self, svg: &mut Svg, top: f64) {
        let color = self.color;
        svg.open("g", &[("class", &palette::class(color)), ("color", palette::light(color))]);
        svg.text(CELLS_LEFT, top + 12.0, "start", &words("14"), &self.name);
        for (at, cell) in self.cells.iter().enumerate() {
            let left = CELLS_LEFT + at as f64 * (CELL_WIDTH + CELL_GAP);
            if let Some(cell) = cell {
                cell.draw(svg, left, top + 18.0);
            }
        }
        svg.close();
    }
}

impl Cell {
    fn draw(&self, svg: &mut Svg, left: f64, top: f64) {
        let (roof, floor) = (top + 18.0, top + 18.0 + CELL_HEIGHT);
        svg.open("g", &[]);
        svg.text(left, top + 13.0, "start", &words("12"), &self.title);
        super::grid(svg, (left, roof), (left + CELL_WIDTH, roof));
        let base = format!("M{} {}h{}", px(left), px(floor), px(CELL_WIDTH));
        svg.leaf("path", &[("d", &base), ("class", "rule"), palette::RULE, ("fill", "none")]);
        match &self.bars {
            Ok(bars) => bars.draw(svg, left, floor),
            Err(why) => svg.text(left + 6.0, floor - 8.0, "start", &words("12"), why),
        }
        svg.close();
    }
}

impl Bars {
    fn draw(&self, svg: &mut Svg, left: f64, floor: f64) {
        let tallest = self.measured.iter().chain(&self.expected).copied().fold(0.0, f64::max);
        let count = self.measured.len().max(self.expected.len()).max(1) as f64;
        let (step, scale) = (CELL_WIDTH / count, CELL_HEIGHT / tallest.max(f64::MIN_POSITIVE));
        let mut path = String::new();
        for (at, share) in self.measured.iter().enumerate().filter(|(_, share)| **share > 0.0) {
            let (x, width) = (left + (at as f64 + 0.1) * step, 0.8 * step);
            let height = share * scale;
            path.push_str(&format!(
                "M{} {}v-{}h{}v{}z",
                px(x),
                px(floor),
                px(height),
                px(width),
                px(height)
            ));
        }
        svg.leaf("path", &[("d", &path), ("fill", "currentColor"), ("fill-opacity", "0.75")]);
        let mut path = String::new();
        for (at, share) in self.expected.iter().enumerate() {
            let (x, y) = (left + at as f64 * step, floor - share * scale);
            path.push_str(&format!("M{} {}h{}", px(x), px(y), px(step)));
        }
        let ink = [("class", "edge"), palette::EDGE, ("fill", "none"), ("stroke-width", "1.5")];
        svg.leaf("path", &[&[("d", &*path)], &ink[..]].concat());
        let (first, last) = &self.ends;
        let below = floor + 14.0;
        let place = |at: f64| left + at * step;
        svg.text(place(0.5).min(left + 4.0), below, "start", &words("11"), first);
        if first != last {
            svg.text(left + CELL_WIDTH, below, "end", &words("11"), last);
        }
        let scale = format!("tallest {:.0} %", 100.0 * tallest);
        svg.text(place(count / 2.0), below, "middle", &words("11"), &scale);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{chart, well_formed};
    use super::*;

    fn cell(bars: Result<Bars, String>) -> Option<Cell> {
        Some(Cell { title: "depth <1>".to_owned(), bars })
    }

    fn panels(rows: usize) -> Panels {
        let bars = Bars {
            measured: vec![0.25, 0.0, 0.75],
            expected: vec![0.2, 0.1, 0.7],
            ends: ("0".to_owned(), "2".to_owned()),
        };
        let row = Row {
            name: "by & by".to_owned(),
            color: 2,
            cells: vec![cell(Ok(bars)), None, cell(Err("not kept".to_owned()))],
        };
        let text = || "some & more".to_owned();
        Panels {
            title: text(),
            subtitle: text(),
            description: text(),
            main: chart(),
            heading: text(),
            caption: text(),
            rows: vec![row; rows],
        }
    }

    #[test]
    fn two_panels_are_one_well_formed_picture() {
        let text = panels(3).svg();
        let elements = well_formed(&text);
        assert_eq!(elements[..3], ["svg", "title", "desc"]);
        assert_eq!(text.matches(">not kept</text>").count(), 3);
        // Bars of a third and of all of the height, none for what was never seen.
        let bars =
            text.split("fill-opacity").next().and_then(|before| before.rsplit("d=\"").next());
        let path = bars.and_then(|path| path.split('"').next()).expect("bars");
        assert_eq!(path.matches('z').count(), 2, "{path}");
        assert!(path.contains("v-70h") && path.contains("v-23.33h"), "{path}");
        assert!(text.contains(">tallest 75 %</text>"), "the scale is told");
    }

    #[test]
    fn many_rows_make_it_higher() {
        assert!(
            panels(1).svg().contains("viewBox=\"0 0 1424 726\""),
            "{}",
            &panels(1).svg()[..200]
        );
        assert!(panels(6).svg().contains("viewBox=\"0 0 1424 998\""));
    }

    #[test]
    fn nothing_measured_draws_nothing() {
        let bars =
            Bars { measured: vec![], expected: vec![], ends: (String::new(), String::new()) };
        let mut svg = Svg::new(1.0, 1.0, "t", "d", "");
        bars.draw(&mut svg, 0.0, 0.0);
        let text = svg.finish();
        well_formed(&text);
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
}
