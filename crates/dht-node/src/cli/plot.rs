//! Pictures of measured figures beside expected ones, as SVG files that need nothing else.
//!
//! A picture is readable on light and on dark backgrounds: it brings its own, and follows the
//! reader's preference. It runs no script, and what it shows stands in its description too.

mod axis;
mod palette;
mod panels;
mod ring;
mod svg;

pub(crate) use axis::{Axis, Scale, Unit, with_commas};
pub(crate) use panels::{Bars, Cell, Panels, Row};
pub(crate) use ring::{RingPicture, Spot, Way};

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
    /// A value of the first axis that is pointed out, and what it is.
    pub(crate) guide: Option<(f64, String)>,
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
    /// How it looks; `None`: as its place in the legend says.
    pub(crate) look: Option<Look>,
}

/// What tells a series from others: numbers that stand for colours, markers and kinds of lines. Where
/// they mean something, series that share it share the number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Look {
    /// Which colour.
    pub(crate) color: usize,
    /// Which form of points.
    pub(crate) marker: usize,
    /// Which kind of line.
    pub(crate) dash: usize,
}

impl Series {
    fn look(&self, at: usize) -> Look {
        self.look.unwrap_or(Look { color: at, marker: at, dash: 0 })
    }
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
        let mut svg = page(WIDTH, height, &self.title, &self.description);
        svg.text(16.0, 50.0, "start", &words("13"), &self.subtitle);
        svg.text(16.0, height - 14.0, "start", &words("12"), &self.caption);
        self.draw(&mut svg, Area { left: LEFT, right: RIGHT, top: TOP, bottom });
        svg.finish()
    }

    /// The axes, the series and their legend, which stands to the right of the area.
    fn draw(&self, svg: &mut Svg, area: Area) {
        let frame = Frame { chart: self, area };
        frame.x_axis(svg);
        frame.y_axis(svg);
        frame.guide(svg);
        for (at, series) in self.series.iter().enumerate() {
            let look = series.look(at);
            let color =
                [("class", &*palette::class(look.color)), ("color", palette::light(look.color))];
            svg.open("g", &color);
            frame.series(svg, series, look);
            frame.legend(svg, series, look, at);
            svg.close();
        }
    }
}

/// A picture with its background and its title.
fn page(width: f64, height: f64, title: &str, description: &str) -> Svg {
    let mut svg = Svg::new(width, height, title, description, &palette::style());
    svg.leaf(
        "rect",
        &[("class", "back"), ("width", &px(width)), ("height", &px(height)), palette::BACK],
    );
    svg.text(16.0, 28.0, "start", &words("18"), title);
    svg
}

/// The attributes of words of a size.
fn words(size: &'static str) -> [(&'static str, &'static str); 3] {
    [("font-size", size), ("class", "ink"), palette::INK]
}

/// Between the axes, in the units of the picture.
#[derive(Clone, Copy, Debug)]
struct Area {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// A chart in its area.
struct Frame<'a> {
    chart: &'a Chart,
    area: Area,
}

impl Frame<'_> {
    fn x(&self, value: f64) -> f64 {
        self.area.left + (self.area.right - self.area.left) * self.chart.x.position(value)
    }

    fn y(&self, value: f64) -> f64 {
        self.area.bottom - (self.area.bottom - self.area.top) * self.chart.y.position(value)
    }

    fn x_axis(&self, svg: &mut Svg) {
        let Area { left, right, top, bottom } = self.area;
        for (value, label) in self.chart.x.ticks() {
            let x = self.x(value);
            grid(svg, (x, top), (x, bottom));
            svg.text(x, bottom + 18.0, "middle", &words("12"), &label);
        }
        let middle = (left + right) / 2.0;
        svg.text(middle, bottom + 38.0, "middle", &words("13"), self.chart.x.label());
    }

    fn y_axis(&self, svg: &mut Svg) {
        let Area { left, right, top, bottom } = self.area;
        for (value, label) in self.chart.y.ticks() {
            let y = self.y(value);
            grid(svg, (left, y), (right, y));
            svg.text(left - 8.0, y + 4.0, "end", &words("12"), &label);
        }
        let (x, middle) = (left - 62.0, (top + bottom) / 2.0);
        let turn = format!("rotate(-90 {} {})", px(x), px(middle));
        let [size, class, ink] = words("13");
        let text = [size, class, ink, ("transform", &*turn)];
        svg.text(x, middle, "middle", &text, self.chart.y.label());
    }

    fn guide(&self, svg: &mut Svg) {
        let Some((value, label)) = &self.chart.guide else { return };
        let (x, Area { top, bottom, .. }) = (self.x(*value), self.area);
        let path = format!("M{} {}V{}", px(x), px(top), px(bottom));
        let ink = [("class", "rule"), palette::RULE, ("fill", "none"), ("stroke-dasharray", "2 3")];
        svg.leaf("path", &[&[("d", &*path)], &ink[..]].concat());
        svg.text(x + 5.0, top + 14.0, "start", &words("12"), label);
    }

    fn series(&self, svg: &mut Svg, series: &Series, look: Look) {
        if let Some(((x, y), rest)) = series.line.split_first() {
            let mut path = format!("M{} {}", px(self.x(*x)), px(self.y(*y)));
            for (x, y) in rest {
                path.push_str(&format!("L{} {}", px(self.x(*x)), px(self.y(*y))));
            }
            line(svg, &path, look.dash);
        }
        let marker = Marker::of(look.marker);
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
                line(svg, &bar, 0);
            }
            marker.draw(svg, x, y, RADIUS);
            svg.close();
        }
    }

    fn legend(&self, svg: &mut Svg, series: &Series, look: Look, at: usize) {
        let y = self.area.top + LEGEND_LINE * (at as f64 + 0.5);
        let (start, end) = (self.area.right + 20.0, self.area.right + 52.0);
        if !series.line.is_empty() {
            line(svg, &format!("M{} {}H{}", px(start), px(y), px(end)), look.dash);
        }
        if !series.points.is_empty() || series.line.is_empty() {
            Marker::of(look.marker).draw(svg, (start + end) / 2.0, y, RADIUS);
        }
        svg.text(end + 8.0, y + 4.5, "start", &words("13"), &series.name);
    }
}

/// A line in the colour of its series.
fn line(svg: &mut Svg, path: &str, dash: usize) {
    let color = ("stroke", "currentColor");
    let mut all = vec![("d", path), ("fill", "none"), color, ("stroke-width", "1.5")];
    all.extend(palette::dash(dash).map(|dash| ("stroke-dasharray", dash)));
    svg.leaf("path", &all);
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

    #[test]
    fn series_look_as_they_are_told() {
        let mut chart = chart();
        chart.series.truncate(2);
        chart.series[1].look = Some(Look { color: 0, marker: 3, dash: 1 });
        let text = chart.svg();
        assert_eq!(text.matches("<g class=\"s0\"").count(), 2, "{text}");
        assert_eq!(text.matches("stroke-dasharray=\"7 4\"").count(), 2, "line and legend: {text}");
        assert!(text.contains(">here &amp; now</text>"), "{text}");
    }

    pub(crate) fn chart() -> Chart {
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
            look: None,
        };
        Chart {
            title: "Hops <measured> & \"expected\"".to_owned(),
            subtitle: "sub".to_owned(),
            caption: "bell \u{7} gone".to_owned(),
            description: "a & b".to_owned(),
            x: Axis::new("nodes", Scale::Log, Unit::Number, [10.0, 1000.0]),
            y: Axis::new("hops", Scale::Log, Unit::Number, [4.0, 600.0]),
            guide: Some((100.0, "here & now".to_owned())),
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
        let area = Area { left: LEFT, right: RIGHT, top: TOP, bottom: TOP + HEIGHT };
        let frame = Frame { chart: &chart, area };
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
