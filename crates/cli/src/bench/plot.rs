//! Line plots as SVG, with spreads as bars.

use std::fmt::Write;

/// A plot.
pub struct Plot {
    pub title: String,
    pub subtitle: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
}

/// An axis.
pub struct Axis {
    pub label: &'static str,
    /// Equal ratios have equal lengths; else it begins at 0.
    pub logarithmic: bool,
}

/// A line.
pub struct Series {
    pub name: String,
    pub points: Vec<Point>,
}

/// A value and its spread.
#[derive(Clone, Copy)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    pub low: f64,
    pub high: f64,
}

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 540.0;
/// Left, top, right, bottom of the area with the lines; the legend is to the right.
const AREA: [f64; 4] = [80.0, 70.0, 690.0, 480.0];
/// Okabe's and Ito's colours, which people tell apart whatever colours they see.
const COLOURS: [&str; 8] =
    ["#000000", "#d55e00", "#56b4e9", "#009e73", "#0072b2", "#cc79a7", "#e69f00", "#7f7f7f"];

impl Plot {
    /// The SVG.
    pub fn svg(&self) -> String {
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
        );
        let [left, top, right, bottom] = AREA;
        text(&mut out, left, 30.0, "start", "font-size=\"18\" font-weight=\"bold\"", &self.title);
        text(&mut out, left, 52.0, "start", "fill=\"#555555\"", &self.subtitle);
        let points = || self.series.iter().flat_map(|s| &s.points);
        let x = Scale::new(self.x.logarithmic, points().map(|p| p.x), left, right, Some(&distinct(points())));
        let y = Scale::new(self.y.logarithmic, points().flat_map(|p| [p.low, p.high]), bottom, top, None);
        for &tick in &y.ticks {
            let at = y.place(tick);
            stroke(&mut out, [left, at, right, at], "#dddddd", 1.0);
            text(&mut out, left - 8.0, at + 4.0, "end", "", &number(tick));
        }
        for &tick in &x.ticks {
            let at = x.place(tick);
            stroke(&mut out, [at, bottom, at, bottom + 5.0], "#333333", 1.0);
            text(&mut out, at, bottom + 20.0, "middle", "", &number(tick));
        }
        stroke(&mut out, [left, bottom, right, bottom], "#333333", 1.0);
        stroke(&mut out, [left, top, left, bottom], "#333333", 1.0);
        text(&mut out, (left + right) / 2.0, bottom + 44.0, "middle", "", self.x.label);
        let middle = (top + bottom) / 2.0;
        text(
            &mut out,
            22.0,
            middle,
            "middle",
            &format!("transform=\"rotate(-90 22 {middle})\""),
            self.y.label,
        );
        for (i, series) in self.series.iter().enumerate() {
            let colour = COLOURS[i % COLOURS.len()];
            // Beyond the colours lines are dashed.
            let dash = if i < COLOURS.len() { "" } else { " stroke-dasharray=\"6 4\"" };
            let line: Vec<String> =
                series.points.iter().map(|p| format!("{:.1},{:.1}", x.place(p.x), y.place(p.y))).collect();
            let _ = writeln!(
                out,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dash}/>",
                line.join(" ")
            );
            for p in &series.points {
                let at = x.place(p.x);
                stroke(&mut out, [at, y.place(p.low), at, y.place(p.high)], colour, 1.5);
                let _ = writeln!(
                    out,
                    "<circle cx=\"{at:.1}\" cy=\"{:.1}\" r=\"3.5\" fill=\"{colour}\"/>",
                    y.place(p.y)
                );
            }
            let row = top + 8.0 + 20.0 * i as f64;
            let _ = writeln!(
                out,
                "<line x1=\"{}\" y1=\"{row}\" x2=\"{}\" y2=\"{row}\" stroke=\"{colour}\" stroke-width=\"3\"{dash}/>",
                right + 20.0,
                right + 44.0
            );
            text(&mut out, right + 52.0, row + 4.0, "start", "font-size=\"12\"", &series.name);
        }
        out + "</svg>\n"
    }
}

/// From values to places.
struct Scale {
    logarithmic: bool,
    /// The values at both ends.
    ends: [f64; 2],
    places: [f64; 2],
    ticks: Vec<f64>,
}

impl Scale {
    /// A scale that holds these values, with ticks at `own` if they are given.
    fn new(
        logarithmic: bool,
        values: impl Iterator<Item = f64>,
        from: f64,
        to: f64,
        own: Option<&[f64]>,
    ) -> Scale {
        let (low, high) = values
            .filter(|v| v.is_finite() && *v > 0.0)
            .fold((f64::INFINITY, 0.0f64), |(low, high), v| (low.min(v), high.max(v)));
        let (low, high) = if low <= high { (low, high) } else { (1.0, 10.0) };
        let ends = if logarithmic { [low / 1.15, high * 1.15] } else { [0.0, high * 1.05] };
        let ticks = match own {
            Some(own) => own.to_vec(),
            None => ticks(logarithmic, ends),
        };
        Scale { logarithmic, ends, places: [from, to], ticks }
    }

    fn place(&self, value: f64) -> f64 {
        let [low, high] = self.ends;
        let part = if self.logarithmic {
            (value.max(low) / low).ln() / (high / low).ln()
        } else {
            (value - low) / (high - low)
        };
        self.places[0] + part * (self.places[1] - self.places[0])
    }
}

/// Round numbers within the ends: 1, 2 and 5 times powers of ten.
fn ticks(logarithmic: bool, [low, high]: [f64; 2]) -> Vec<f64> {
    if logarithmic {
        let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
        let all = decades.flat_map(|d| [1.0, 2.0, 5.0].map(|n| n * 10f64.powi(d)));
        return all.filter(|t| (low..=high).contains(t)).collect();
    }
    let rough = (high - low) / 6.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|s| *s >= rough).unwrap_or(power);
    (0..=(high / step) as u32).map(|i| f64::from(i) * step).collect()
}

/// The places of points on the x axis, each once.
fn distinct<'a>(points: impl Iterator<Item = &'a Point>) -> Vec<f64> {
    let mut all: Vec<f64> = points.map(|p| p.x).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    all
}

fn number(value: f64) -> String {
    if value >= 1.0 || value == 0.0 { format!("{value:.0}") } else { format!("{value}") }
}

fn stroke(out: &mut String, [x1, y1, x2, y2]: [f64; 4], colour: &str, width: f64) {
    let _ = writeln!(
        out,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\" stroke-width=\"{width}\"/>"
    );
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, more: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" {more}>{words}</text>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_lies_within_the_axes() {
        for logarithmic in [false, true] {
            let axis = |label| Axis { label, logarithmic };
            let point = |x, y| Point { x, y, low: y * 0.9, high: y * 1.1 };
            let series =
                Series { name: "a < b & c".into(), points: vec![point(17.0, 0.4), point(2048.0, 4321.0)] };
            let plot = Plot {
                title: "t".into(),
                subtitle: "s".into(),
                x: axis("x"),
                y: axis("y"),
                series: vec![series],
            };
            let svg = plot.svg();
            assert!(svg.contains("a &lt; b &amp; c") && svg.contains(">2048<") && svg.ends_with("</svg>\n"));
            for circle in svg.split("<circle cx=\"").skip(1) {
                let numbers: Vec<f64> = circle.split('"').filter_map(|n| n.parse().ok()).collect();
                assert!((AREA[0]..=AREA[2]).contains(&numbers[0]), "{numbers:?}");
                assert!((AREA[1]..=AREA[3]).contains(&numbers[1]), "{numbers:?}");
            }
        }
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(ticks(true, [4.0, 120.0]), [5.0, 10.0, 20.0, 50.0, 100.0]);
        assert_eq!(ticks(false, [0.0, 1000.0]), [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]);
    }

    #[test]
    fn nothing_measured_gives_an_empty_plot() {
        let axis = || Axis { label: "", logarithmic: true };
        let plot =
            Plot { title: String::new(), subtitle: String::new(), x: axis(), y: axis(), series: Vec::new() };
        assert!(!plot.svg().contains("NaN"));
    }
}
