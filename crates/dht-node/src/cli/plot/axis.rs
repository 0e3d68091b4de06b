//! Where values lie on an axis, and which of them are written beside it.

/// How values are spread along an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scale {
    /// Equal steps are equally long.
    Linear,
    /// Equal ratios are equally long. What is not above zero lies at the low end.
    Log,
}

/// How values are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    /// As they are.
    Number,
    /// Shares of one, in percent.
    Share,
}

/// One axis of a chart.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Axis {
    label: String,
    scale: Scale,
    unit: Unit,
    low: f64,
    high: f64,
}

impl Axis {
    /// An axis on which all these values can be shown; on a logarithmic one, those above zero, with
    /// a little room at both ends.
    pub(crate) fn new(
        label: &str,
        scale: Scale,
        unit: Unit,
        values: impl IntoIterator<Item = f64>,
    ) -> Axis {
        let is_shown = |value: &f64| value.is_finite() && (scale == Scale::Linear || *value > 0.0);
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.into_iter().filter(is_shown) {
            (low, high) = (low.min(value), high.max(value));
        }
        match scale {
            Scale::Linear if low >= high => high = low + 1.0,
            Scale::Linear => {}
            Scale::Log => (low, high) = (low / ROOM, high * ROOM),
        }
        if !low.is_finite() || !high.is_finite() {
            // There is nothing to show.
            (low, high) = (1.0, 10.0);
        }
        Axis { label: label.to_owned(), scale, unit, low, high }
    }

    /// What it shows.
    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// Where a value lies between the ends, 0 to 1; beyond them, at the nearer one.
    pub(crate) fn position(&self, value: f64) -> f64 {
        let along = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log if value > 0.0 => (value / self.low).ln() / (self.high / self.low).ln(),
            Scale::Log => 0.0,
        };
        along.clamp(0.0, 1.0)
    }

    /// The values to write beside it, in order, as texts too.
    pub(crate) fn ticks(&self) -> Vec<(f64, String)> {
        let values = match self.scale {
            Scale::Linear => self.even_ticks(),
            Scale::Log => self.log_ticks(),
        };
        values.into_iter().map(|value| (value, self.written(value))).collect()
    }

    /// Powers of ten; if they are few, others between them.
    fn log_ticks(&self) -> Vec<f64> {
        let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let multiples: [&[f64]; 3] =
            [&[1.0], &[1.0, 2.0, 5.0], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]];
        let within = |multiples: &[f64]| -> Vec<f64> {
            let all = decades.clone().flat_map(|decade| {
                multiples.iter().map(move |multiple| power_of_ten(decade, *multiple))
            });
            all.filter(|value| (self.low..=self.high).contains(value)).collect()
        };
        let found = multiples.into_iter().map(within).find(|ticks| ticks.len() >= FEWEST_TICKS);
        found.unwrap_or_else(|| self.even_ticks())
    }

    /// Multiples of the greatest of 1, 2 or 5 times a power of ten that is small enough.
    fn even_ticks(&self) -> Vec<f64> {
        let widest = (self.high - self.low) / FEWEST_TICKS as f64;
        let decade = widest.log10().floor() as i32;
        let steps = [5.0, 2.0, 1.0].map(|multiple| power_of_ten(decade, multiple));
        let step = steps.into_iter().find(|step| *step <= widest).unwrap_or(steps[2]);
        let (first, last) = ((self.low / step).ceil() as i64, (self.high / step).floor() as i64);
        (first..=last).map(|n| without_noise(n as f64 * step)).collect()
    }

    fn written(&self, value: f64) -> String {
        match self.unit {
            Unit::Number => with_commas(value),
            Unit::Share => format!("{} %", with_commas(without_noise(100.0 * value))),
        }
    }
}

/// Points at the very end of an axis would stand on its line.
const ROOM: f64 = 1.25;
/// With fewer, values between them are hard to read.
const FEWEST_TICKS: usize = 4;

fn power_of_ten(decade: i32, multiple: f64) -> f64 {
    without_noise(multiple * 10f64.powi(decade))
}

/// Rounds to twelve digits: a tenth times three is written as 0.3.
fn without_noise(value: f64) -> f64 {
    format!("{value:.11e}").parse().unwrap_or(value)
}

/// A number with commas between thousands.
pub(crate) fn with_commas(value: f64) -> String {
    let text = value.to_string();
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale, unit: Unit, low: f64, high: f64) -> Vec<String> {
        Axis::new("", scale, unit, [low, high]).ticks().into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn powers_of_ten_are_written_where_they_are_enough() {
        let many = labels(Scale::Log, Unit::Number, 10.0, 1e6);
        assert_eq!(many, ["10", "100", "1,000", "10,000", "100,000", "1,000,000"]);
        let few = labels(Scale::Log, Unit::Number, 16.0, 256.0);
        assert_eq!(few, ["20", "50", "100", "200"]);
        let small = labels(Scale::Log, Unit::Number, 0.5, 3.0);
        assert_eq!(small, ["0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "1", "2", "3"]);
    }

    #[test]
    fn even_steps_are_round() {
        assert_eq!(
            labels(Scale::Linear, Unit::Share, 0.0, 1.0),
            ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]
        );
        assert_eq!(
            labels(Scale::Linear, Unit::Number, 0.0, 31.0),
            ["0", "5", "10", "15", "20", "25", "30"]
        );
        assert_eq!(
            labels(Scale::Linear, Unit::Number, 0.0, 1.0).last().map(String::as_str),
            Some("1")
        );
        assert_eq!(labels(Scale::Log, Unit::Number, 1000.0, 1001.0)[0], "800", "a narrow range");
    }

    #[test]
    fn values_lie_where_their_scale_says() {
        let even = Axis::new("", Scale::Linear, Unit::Number, [0.0, 10.0]);
        assert_eq!([0.0, 2.5, 10.0, 99.0].map(|value| even.position(value)), [0.0, 0.25, 1.0, 1.0]);
        let log = Axis::new("", Scale::Log, Unit::Number, [0.0, 1.0, 100.0]);
        assert!(
            (log.position(10.0) - 0.5).abs() < 1e-12,
            "zero cannot be shown and does not count"
        );
        assert_eq!(log.position(0.0), 0.0);
    }

    #[test]
    fn an_axis_of_nothing_is_an_axis() {
        for scale in [Scale::Linear, Scale::Log] {
            for values in [&[][..], &[0.0], &[f64::NAN], &[7.0, 7.0]] {
                let axis = Axis::new("", scale, Unit::Number, values.iter().copied());
                let place = axis.position(7.0);
                assert!((0.0..=1.0).contains(&place) && axis.ticks().len() < 20, "{axis:?}");
            }
        }
    }

    #[test]
    fn thousands_are_set_off() {
        let texts = [0.0, 12.0, 999.0, 1000.0, 1234567.5, -1000.0].map(with_commas);
        assert_eq!(texts, ["0", "12", "999", "1,000", "1,234,567.5", "-1,000"]);
    }
}
