//! Pictures of measured figures beside expected ones, as SVG files that need nothing else.
//!
//! A picture is readable on light and on dark backgrounds: it brings its own, and follows the
//! reader's preference. It runs no script, and what it shows stands in its description too.

mod axis;
mod palette;
mod svg;

pub(crate) use axis::{Axis, Scale, Unit, with_commas};

use palette::Marker;
use svg::{Svg, px};

/// A chart of one or more series on two axes.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    /// What is shown, in a few words.
    pub(crate) title: String,
    /// From what, in one line.
    pub(crate) subtitle: String,
    /// How to read it, in one line.
    pub(crate) caption: String,
    /// The same for those who cannot see it.
    pub(crate) description: String,
    /// From left to right.
    pub(crate) x: Axis,
    /// From bottom to top.
    pub(crate) y: Axis,
    /// In the order of the legend.
    pub(crate) series: Vec<Series>,
}

/// What belongs together and has one colour and one marker.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Series {
    /// Its name in the legend.
    pub(crate) name: String,
    /// What was measured.
    pub(crate) points: Vec<Point>,
    /// What was expected, from point to point; empty where nothing is known.
    pub(crate) line: Vec<(f64, f64)>,
}

/// One measured figure.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Point {
    /// Where on the first axis.
    pub(crate) x: f64,
    /// The figure.
    pub(crate) y: f64,
    /// How far its bar reaches up and down; none if that is 0.
    pub(crate) error: f64,
    /// What is shown when the pointer rests on it.
    pub(crate) label: String,
}

/// All lengths are in the units of the picture: pixels, unless it is scaled.
const WIDTH: f64 = 880.0;
/// Of the area between the axes.
const LEFT: f64 = 78.0;
const RIGHT: f64 = 668.0;
const TOP: f64 = 70.0;
/// The least height of that area; a long legend makes it higher.
const HEIGHT: f64 = 360.0;
/// What stands below it: ticks, the label of the axis, and the caption.
const BELOW: f64 = 78.0;
const LEGEND_LINE: f64 = 22.0;
/// Half the width of a marker.
const RADIUS: f64 = 4.5;

impl Chart {
    /// The picture.
    pub(crate) fn svg(&self) -> String {
        let bottom = TOP + HEIGHT.max(self.series.len() as f64 * LEGEND_LINE);
        let height = bottom + BELOW;
        let mut svg = Svg::new(WIDTH, height, &self.title, &self.description, &palette::style());
        svg.leaf(
            "rect",
            &[("class", "back"), ("width", &px(WIDTH)), ("height", &px(height)), palette::BACK],
        );
        let text = |size: &'static str| [("font-size", size), ("class", "ink"), palette::INK];
        svg.text(16.0, 28.0, "start", &text("18"), &self.title);
        svg.text(16.0, 50.0, "start", &text("13"), &self.subtitle);
        svg.text(16.0, height - 14.0, "start", &text("12"), &self.caption);
        let frame = Frame { chart: self, bottom };
        frame.x_axis(&mut svg);
        frame.y_axis(&mut svg);
        for (at, series) in self.series.iter().enumerate() {
            svg.open("g", &[("class", &palette::class(at)), ("color", palette::light(at))]);
            frame.series(&mut svg, series, Marker::of(at));
            frame.legend(&mut svg, series, at);
            svg.close();
        }
        svg.finish()
    }
}

/// The area between the axes.
struct Frame<'a> {
    chart: &'a Chart,
    bottom: f64,
}

impl Frame<'_> {
    fn x(&self, value: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * self.chart.x.position(value)
    }

    fn y(&self, value: f64) -> f64 {
        self.bottom - (self.bottom - TOP) * self.chart.y.position(value)
    }

    fn x_axis(&self, svg: &mut Svg) {
        let text = [("font-size", "12"), ("class", "ink"), palette::INK];
        for (value, label) in self.chart.x.ticks() {
            let x = self.x(value);
            grid(svg, (x, TOP), (x, self.bottom));
            svg.text(x, self.bottom + 18.0, "middle", &text, &label);
        }
        let middle = (LEFT + RIGHT) / 2.0;
        let text = [("font-size", "13"), ("class", "ink"), palette::INK];
        svg.text(middle, self.bottom + 38.0, "middle", &text, self.chart.x.label());
    }

    fn y_axis(&self, svg: &mut Svg) {
        let text = [("font-size", "12"), ("class", "ink"), palette::INK];
        for (value, label) in self.chart.y.ticks() {
            let y = self.y(value);
            grid(svg, (LEFT, y), (RIGHT, y));
            svg.text(LEFT - 8.0, y + 4.0, "end", &text, &label);
        }
        let middle = (TOP + self.bottom) / 2.0;
        let turn = format!("rotate(-90 16 {})", px(middle));
        let text = [("font-size", "13"), ("class", "ink"), palette::INK, ("transform", &turn)];
        svg.text(16.0, middle, "middle", &text, self.chart.y.label());
    }

    fn series(&self, svg: &mut Svg, series: &Series, marker: Marker) {
        if let Some(((x, y), rest)) = series.line.split_first() {
            let mut path = format!("M{} {}", px(self.x(*x)), px(self.y(*y)));
            for (x, y) in rest {
                path.push_str(&format!("L{} {}", px(self.x(*x)), px(self.y(*y))));
            }
            line(svg, &path, "1.5");
        }
        for point in &series.points {
            let (x, y) = (self.x(point.x), self.y(point.y));
            svg.open("g", &[]);
            svg.titled(&point.label);
            if point.error > 0.0 {
                let (high, low) = (self.y(point.y + point.error), self.y(point.y - point.error));
                let (left, wide) = (px(x - RADIUS), px(2.0 * RADIUS));
                let bar = format!(
                    "M{x} {high}V{low}M{left} {high}h{wide}M{left} {low}h{wide}",
                    x = px(x),
                    high = px(high),
                    low = px(low),
                );
                line(svg, &bar, "1.5");
            }
            marker.draw(svg, x, y, RADIUS);
            svg.close();
        }
    }

    fn legend(&self, svg: &mut Svg, series: &Series, at: usize) {
        let y = TOP + LEGEND_LINE * (at as f64 + 0.5);
        let (start, end) = (RIGHT + 20.0, RIGHT + 52.0);
        if !series.line.is_empty() {
            line(svg, &format!("M{} {}H{}", px(start), px(y), px(end)), "1.5");
        }
        Marker::of(at).draw(svg, (start + end) / 2.0, y, RADIUS);
        let text = [("font-size", "13"), ("class", "ink"), palette::INK];
        svg.text(end + 8.0, y + 4.5, "start", &text, &series.name);
    }
}

fn line(svg: &mut Svg, path: &str, width: &str) {
    let color = ("stroke", "currentColor");
    svg.leaf("path", &[("d", path), ("fill", "none"), color, ("stroke-width", width)]);
}

fn grid(svg: &mut Svg, from: (f64, f64), to: (f64, f64)) {
    let path = format!("M{} {}L{} {}", px(from.0), px(from.1), px(to.0), px(to.1));
    svg.leaf("path", &[("d", &path), ("class", "grid"), palette::GRID, ("fill", "none")]);
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Complains about what no reader of XML would take; enough for what a [`Svg`] writes. Gives the
    /// names of all elements.
    pub(crate) fn well_formed(text: &str) -> Vec<String> {
        let mut open: Vec<String> = Vec::new();
        let mut seen = Vec::new();
        let mut pieces = text.split('<');
        assert_eq!(pieces.next(), Some(""), "nothing stands before the root");
        for piece in pieces {
            let (tag, content) = piece.split_once('>').expect("every tag ends");
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop().as_deref(), Some(name), "tags are nested");
            } else {
                let (tag, is_leaf) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
                let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
                assert!(!open.is_empty() || seen.is_empty(), "one root: {name}");
                check_attributes(attributes);
                seen.push(name.to_owned());
                if !is_leaf {
                    open.push(name.to_owned());
                }
            }
            check_text(content);
            assert!(!open.is_empty() || content.trim().is_empty(), "text outside: {content}");
        }
        assert!(open.is_empty(), "never closed: {open:?}");
        seen
    }

    fn check_attributes(text: &str) {
        let mut rest = text;
        let mut names = Vec::new();
        while !rest.is_empty() {
            let (name, after) = rest.split_once("=\"").expect("a quoted value");
            let (value, after) = after.split_once('"').expect("the quote ends");
            assert!(!name.is_empty() && !names.contains(&name), "{name} in {text}");
            names.push(name);
            check_text(value);
            rest = after.strip_prefix(' ').unwrap_or(after);
        }
    }

    fn check_text(text: &str) {
        for after in text.split('&').skip(1) {
            let is_known =
                ["amp;", "lt;", "gt;", "quot;"].iter().any(|name| after.starts_with(name));
            assert!(is_known, "a bare & in {text}");
        }
        let is_legal = |c: char| c == '\n' || !c.is_control();
        assert!(text.chars().all(is_legal), "{text:?}");
    }

    fn chart() -> Chart {
        let points = [10.0, 100.0, 1000.0].map(|x| Point {
            x,
            y: x / 2.0,
            error: x / 20.0,
            label: format!("{x} & <so on>"),
        });
        let line = vec![(10.0, 5.0), (1000.0, 500.0)];
        let series = |at: usize| Series {
            name: format!("\"row\" {at} & more"),
            points: points.to_vec(),
            line: line.clone(),
        };
        Chart {
            title: "Hops <measured> & \"expected\"".to_owned(),
            subtitle: "sub".to_owned(),
            caption: "bell \u{7} gone".to_owned(),
            description: "a & b".to_owned(),
            x: Axis::new("nodes", Scale::Log, Unit::Number, [10.0, 1000.0]),
            y: Axis::new("hops", Scale::Log, Unit::Number, [4.0, 600.0]),
            series: (0..20).map(series).collect(),
        }
    }

    #[test]
    fn a_picture_is_well_formed_whatever_its_texts_hold() {
        let text = chart().svg();
        let elements = well_formed(&text);
        let count = |name: &str| elements.iter().filter(|seen| *seen == name).count();
        assert_eq!(elements[..3], ["svg", "title", "desc"]);
        assert_eq!(count("style"), 1);
        assert_eq!(count("title"), 1 + 20 * 3, "every point tells what it is");
        assert!(!elements.iter().any(|name| name == "script"));
        assert!(!text.contains("href"), "nothing is fetched");
        assert!(text.contains("Hops &lt;measured&gt; &amp; &quot;expected&quot;"));
    }

    #[test]
    fn points_lie_between_the_axes() {
        let chart = chart();
        let frame = Frame { chart: &chart, bottom: TOP + HEIGHT };
        for value in [10.0, 100.0, 1000.0] {
            assert!((LEFT..=RIGHT).contains(&frame.x(value)));
            assert!((TOP..=TOP + HEIGHT).contains(&frame.y(value / 2.0)));
        }
        assert!(frame.x(10.0) < frame.x(1000.0) && frame.y(5.0) > frame.y(500.0));
        assert_eq!(frame.y(-1.0), TOP + HEIGHT, "a bar below what can be shown ends at the axis");
    }

    #[test]
    fn a_long_legend_fits() {
        let mut chart = chart();
        let low = chart.svg();
        chart.series = (0..100).map(|_| chart.series[0].clone()).collect();
        let high = chart.svg();
        assert!(
            low.contains("viewBox=\"0 0 880 588\"") && high.contains("viewBox=\"0 0 880 2348\"")
        );
    }

    #[test]
    fn the_checker_sees_what_is_broken() {
        for broken in
            ["<a><b></a></b>", "<a", "<a>&</a>", "<a x=1/>", "<a x=\"&\"/>", "<a/><b/>", "<a>"]
        {
            assert!(std::panic::catch_unwind(|| well_formed(broken)).is_err(), "{broken}");
        }
    }
}
