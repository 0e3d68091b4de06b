//! A picture of a ring: members at their points of the circle, the arcs they own, what they hold as bars
//! outside, and ways of lookups inside.

use std::f64::consts::TAU;

use super::palette::{self, Marker};
use super::svg::{Svg, px};
use super::words;

/// The picture. Places are shares of the circle, clockwise from the top, in `0.0..1.0`.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct RingPicture {
    /// What is shown, in a few words.
    pub(crate) title: String,
    /// From what, in one line.
    pub(crate) subtitle: String,
    /// The same for those who cannot see it.
    pub(crate) description: String,
    /// In the order of the circle.
    pub(crate) members: Vec<Spot>,
    /// What the two bars of a member stand for.
    pub(crate) bars: [String; 2],
    /// Over the list of ways.
    pub(crate) heading: String,
    /// In the order of the list.
    pub(crate) ways: Vec<Way>,
}

/// A member.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Spot {
    /// Where.
    pub(crate) at: f64,
    /// How much of the circle before it is its own; none if that is not known.
    pub(crate) arc: Option<f64>,
    /// Beside it.
    pub(crate) name: String,
    /// What is shown when the pointer rests on it.
    pub(crate) label: String,
    /// How long its bars are, as shares of the longest.
    pub(crate) bars: [f64; 2],
    /// Something is wrong with it.
    pub(crate) is_wrong: bool,
}

/// The way of a lookup.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Way {
    /// Where it begins and where it went.
    pub(crate) stops: Vec<f64>,
    /// What it looked for.
    pub(crate) key: f64,
    /// In the list.
    pub(crate) name: String,
}

const WIDTH: f64 = 1300.0;
const HEIGHT: f64 = 950.0;
const CENTER: (f64, f64) = (440.0, 505.0);
const RADIUS: f64 = 270.0;
/// Half of the band of arcs.
const BAND: f64 = 5.0;
const BAR: f64 = 40.0;
/// Where the two kinds of bars begin, and the names.
const BARS: [f64; 2] = [RADIUS + 14.0, RADIUS + 14.0 + BAR + 6.0];
const NAMES: f64 = BARS[1] + BAR + 8.0;
const LIST_LEFT: f64 = 890.0;
const LIST_TOP: f64 = 120.0;
const LINE: f64 = 24.0;
/// More names would not fit round the circle.
const MOST_NAMES: usize = 128;
/// From name to name, so that those of near neighbours do not lie on each other.
const NAME_GAP: f64 = 13.0;
/// Colours of the two kinds of bars; ways have the others first.
const BAR_COLORS: [usize; 2] = [0, 1];
const WRONG_COLOR: usize = 4;

impl RingPicture {
    /// The picture.
    pub(crate) fn svg(&self) -> String {
        // A long list makes it higher.
        let listed = LIST_TOP + (self.ways.len() as f64 + 9.0) * LINE;
        let mut svg = super::page(WIDTH, HEIGHT.max(listed), &self.title, &self.description);
        svg.text(16.0, 52.0, "start", &words("14"), &self.subtitle);
        for (at, spot) in self.members.iter().enumerate() {
            spot.arc(&mut svg, at % 2 == 0);
        }
        for (at, way) in self.ways.iter().enumerate() {
            let color = way_color(at);
            svg.open("g", &[("class", &palette::class(color)), ("color", palette::light(color))]);
            way.draw(&mut svg, at);
            way.list(&mut svg, at);
            svg.close();
        }
        let width = (TAU * BARS[0] / self.members.len().max(1) as f64 * 0.7).clamp(1.0, 7.0);
        let is_named = self.members.len() <= MOST_NAMES;
        let mut last = f64::NEG_INFINITY;
        for spot in &self.members {
            last = spot.at.max(last + NAME_GAP / (TAU * NAMES));
            spot.draw(&mut svg, width, is_named.then_some(last));
        }
        self.legend(&mut svg);
        svg.finish()
    }

    fn legend(&self, svg: &mut Svg) {
        svg.text(LIST_LEFT, LIST_TOP - 16.0, "start", &words("15"), &self.heading);
        let top = LIST_TOP + (self.ways.len() as f64 + 1.0) * LINE;
        for (at, name) in self.bars.iter().enumerate() {
            let (y, color) = (top + at as f64 * LINE, BAR_COLORS[at]);
            svg.open("g", &[("class", &palette::class(color)), ("color", palette::light(color))]);
            let bar = format!("M{} {}h32", px(LIST_LEFT), px(y - 4.0));
            stroke(svg, &bar, "7");
            svg.close();
            svg.text(LIST_LEFT + 44.0, y, "start", &words("13"), name);
        }
        let told = [
            "band: the arc that each member owns, up to its point",
            "curves: from stop to stop, the first one ringed",
            "crosses on the band: the points looked for",
            "squares: members with which something is wrong",
        ];
        for (at, line) in told.iter().enumerate() {
            let y = top + (2.5 + at as f64) * LINE;
            svg.text(LIST_LEFT, y, "start", &words("13"), line);
        }
    }
}

impl Spot {
    /// The part of the circle that it owns, in one of two tones, so that neighbours are told apart.
    fn arc(&self, svg: &mut Svg, is_even: bool) {
        let Some(arc) = self.arc.filter(|arc| *arc > 0.0) else { return };
        let tone = if is_even { ("rule", palette::RULE) } else { ("grid", palette::GRID) };
        // A whole circle has no two ends; two halves do.
        let halves =
            if arc > 0.5 { vec![(arc, arc / 2.0), (arc / 2.0, 0.0)] } else { vec![(arc, 0.0)] };
        svg.open("g", &[]);
        svg.titled(&self.label);
        for (from, to) in halves {
            let (start, end) = (on(self.at - from, RADIUS), on(self.at - to, RADIUS));
            let radius = px(RADIUS);
            let path = format!(
                "M{} {}A{radius} {radius} 0 0 1 {} {}",
                px(start.0),
                px(start.1),
                px(end.0),
                px(end.1)
            );
            let width = px(2.0 * BAND);
            let all = [("d", &*path), ("class", tone.0), tone.1, ("fill", "none")];
            svg.leaf("path", &[&all[..], &[("stroke-width", &*width)]].concat());
        }
        svg.close();
    }

    fn draw(&self, svg: &mut Svg, bar_width: f64, name_at: Option<f64>) {
        svg.open("g", &[]);
        svg.titled(&self.label);
        // In the middle of its arc, so that bars of near neighbours lie apart.
        let middle = self.at - self.arc.unwrap_or(0.0) / 2.0;
        for (at, share) in self.bars.iter().enumerate().filter(|(_, share)| **share > 0.0) {
            let color = BAR_COLORS[at];
            let (from, to) = (on(middle, BARS[at]), on(middle, BARS[at] + BAR * share.min(1.0)));
            let path = format!("M{} {}L{} {}", px(from.0), px(from.1), px(to.0), px(to.1));
            svg.open("g", &[("class", &palette::class(color)), ("color", palette::light(color))]);
            stroke(svg, &path, &px(bar_width));
            svg.close();
        }
        let (x, y) = on(self.at, RADIUS);
        if self.is_wrong {
            let color = WRONG_COLOR;
            svg.open("g", &[("class", &palette::class(color)), ("color", palette::light(color))]);
            Marker::Square.draw(svg, x, y, 7.0);
            svg.close();
        } else {
            let ink = [("class", "ink"), palette::INK];
            let dot = format!("M{} {}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", px(x - 4.0), px(y));
            svg.leaf("path", &[&[("d", &*dot)], &ink[..]].concat());
        }
        if let Some(at) = name_at {
            self.name(svg, at);
        }
        svg.close();
    }

    /// Along the radius, and never upside down.
    fn name(&self, svg: &mut Svg, at: f64) {
        let (x, y) = on(at, NAMES);
        let is_right = at.rem_euclid(1.0) <= 0.5;
        let angle = 360.0 * at - if is_right { 90.0 } else { 270.0 };
        let turn = format!("rotate({} {} {})", px(angle), px(x), px(y));
        let [size, class, ink] = words("11");
        let anchor = if is_right { "start" } else { "end" };
        svg.text(x, y + 4.0, anchor, &[size, class, ink, ("transform", &turn)], &self.name);
    }
}

impl Way {
    /// A curve bent towards the middle, so that ways along neighbours can be seen too.
    fn draw(&self, svg: &mut Svg, at: usize) {
        let inner = RADIUS - BAND - 3.0;
        let Some(first) = self.stops.first() else { return };
        svg.open("g", &[]);
        svg.titled(&format!("{}: {}", at + 1, self.name));
        let (x, y) = on(*first, inner);
        let mut path = format!("M{} {}", px(x), px(y));
        for pair in self.stops.windows(2) {
            let (from, to) = (on(pair[0], inner), on(pair[1], inner));
            let bent = |one: f64, other: f64, center: f64| (one + other) * 0.275 + center * 0.45;
            let (x, y) = (bent(from.0, to.0, CENTER.0), bent(from.1, to.1, CENTER.1));
            path.push_str(&format!("Q{} {} {} {}", px(x), px(y), px(to.0), px(to.1)));
        }
        dashed(svg, &path, "1.8", at / WAY_COLORS);
        let ring = format!("M{} {}a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z", px(x - 5.0), px(y));
        stroke(svg, &ring, "1.8");
        let (x, y) = on(self.key, RADIUS);
        Marker::Cross.draw(svg, x, y, 5.0);
        svg.close();
    }

    fn list(&self, svg: &mut Svg, at: usize) {
        let y = LIST_TOP + (at as f64 + 0.5) * LINE;
        let sample = format!("M{} {}h32", px(LIST_LEFT), px(y - 4.0));
        dashed(svg, &sample, "2.5", at / WAY_COLORS);
        svg.text(LIST_LEFT + 44.0, y, "start", &words("13"), &self.name);
    }
}

/// Ways have the colours that bars have not; when these are used up, the lines are broken.
fn way_color(at: usize) -> usize {
    BAR_COLORS.len() + at % WAY_COLORS
}

const WAY_COLORS: usize = palette::SERIES - BAR_COLORS.len();

/// A point of a circle round the middle.
fn on(share: f64, radius: f64) -> (f64, f64) {
    let (sine, cosine) = (share * TAU).sin_cos();
    (CENTER.0 + radius * sine, CENTER.1 - radius * cosine)
}

fn stroke(svg: &mut Svg, path: &str, width: &str) {
    dashed(svg, path, width, 0);
}

fn dashed(svg: &mut Svg, path: &str, width: &str, dash: usize) {
    let color = ("stroke", "currentColor");
    let mut all = vec![("d", path), ("fill", "none"), color, ("stroke-width", width)];
    all.extend(palette::dash(dash).map(|dash| ("stroke-dasharray", dash)));
    svg.leaf("path", &all);
}

#[cfg(test)]
mod tests {
    use super::super::tests::well_formed;
    use super::*;

    fn picture(members: usize, ways: usize) -> RingPicture {
        let spot = |at: usize| Spot {
            at: at as f64 / members as f64,
            arc: Some(1.0 / members as f64),
            name: format!("{at:08x}"),
            label: format!("{at} & more"),
            bars: [1.0, 0.5],
            is_wrong: at == 1,
        };
        let way = Way { stops: vec![0.0, 0.25, 0.3], key: 0.29, name: "a <way>".to_owned() };
        RingPicture {
            title: "A ring & its load".to_owned(),
            subtitle: "sub".to_owned(),
            description: "desc".to_owned(),
            members: (0..members).map(spot).collect(),
            bars: ["keys".to_owned(), "bytes".to_owned()],
            heading: "lookups".to_owned(),
            ways: vec![way; ways],
        }
    }

    #[test]
    fn members_arcs_bars_and_ways_are_all_there() {
        let text = picture(4, 2).svg();
        let elements = well_formed(&text);
        let count = |name: &str| elements.iter().filter(|seen| *seen == name).count();
        // The picture's own, and for each member one on its arc and one on its point, and for each way.
        assert_eq!(count("title"), 1 + 2 * 4 + 2);
        assert_eq!(text.matches("A270 270 0 0 1").count(), 4, "arcs");
        assert_eq!(
            text.matches("stroke-width=\"7\"").count(),
            2 * 4 + 2,
            "bars, and in the legend"
        );
        assert_eq!(text.matches('Q').count(), 2 * 2, "two steps each");
        assert!(text.contains(">00000003</text>"));
    }

    #[test]
    fn one_member_owns_the_whole_circle() {
        let text = picture(1, 0).svg();
        well_formed(&text);
        assert_eq!(text.matches("A270 270 0 0 1").count(), 2, "in two halves");
        well_formed(&picture(0, 0).svg());
    }

    #[test]
    fn many_members_have_no_names_and_many_ways_make_room() {
        assert!(!picture(200, 0).svg().contains(">00000003</text>"));
        assert!(picture(3, 8).svg().contains("viewBox=\"0 0 1300 950\""));
        assert!(picture(3, 50).svg().contains("viewBox=\"0 0 1300 1536\""));
    }

    #[test]
    fn names_of_near_neighbours_lie_apart_and_many_ways_are_told_apart() {
        let mut near = picture(3, 7);
        near.members.iter_mut().for_each(|spot| spot.at = 0.25);
        let text = near.svg();
        let turns: Vec<&str> =
            text.split("rotate(").skip(1).filter_map(|rest| rest.split(' ').next()).collect();
        let angles: Vec<f64> = turns.iter().map(|turn| turn.parse().expect("a number")).collect();
        assert_eq!(angles.len(), 3);
        assert!(angles.windows(2).all(|pair| pair[1] - pair[0] > 1.5), "{angles:?}");
        assert_eq!(text.matches("stroke-dasharray").count(), 2, "the seventh way, and in the list");
    }

    #[test]
    fn places_go_clockwise_from_the_top() {
        let (top, right) = (on(0.0, 10.0), on(0.25, 10.0));
        assert!((top.0 - CENTER.0).abs() < 1e-9 && (top.1 - (CENTER.1 - 10.0)).abs() < 1e-9);
        assert!((right.0 - (CENTER.0 + 10.0)).abs() < 1e-9 && (right.1 - CENTER.1).abs() < 1e-9);
    }
}
