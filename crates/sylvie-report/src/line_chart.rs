//! Lines over a horizontal axis.

use crate::ReportError;
use crate::axis::{Axis, Margin, Scale};
use crate::canvas::{self, Area, Drawn, Frame, Head, Mesh, Plane, Sample, WIDTH};
use crate::look::Look;
use crate::ticks::Steps;

/// Height of the plane with its axes, in pixels.
const HEIGHT: u32 = 320;

/// Lines with at most so many points have a marker at each.
const MAX_MARKERS: usize = 30;

/// Lines with more points than this show the extremes of neighbours.
const MAX_POINTS: usize = 2400;

/// A chart of lines.
///
/// # Example
/// ```
/// use sylvie_report::{Line, LineChart, Scale};
///
/// let points = vec![(0.0, 2.1), (1.0, f64::NAN), (2.0, 0.8), (3.0, 0.5)]; // a gap in epoch 1
/// let chart = LineChart {
///     title: "Loss".to_owned(),
///     x_label: "epoch".to_owned(),
///     y_label: "loss".to_owned(),
///     y_scale: Scale::Logarithmic,
///     series: vec![Line { name: "one bit".to_owned(), points }],
/// };
/// assert!(chart.svg()?.starts_with("<svg"));
/// # Ok::<(), sylvie_report::ReportError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LineChart {
    /// What stands above it; may be empty.
    pub title: String,
    /// What the horizontal axis is of.
    pub x_label: String,
    /// What the vertical axis is of.
    pub y_label: String,
    /// How values stand on the vertical axis.
    pub y_scale: Scale,
    /// The lines, in the order of their colours.
    pub series: Vec<Line>,
}

/// A line of a [`LineChart`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// Its name in the legend; a line without one is not in it. (One without points besides leaves its
    /// colour unused, so that those after it look as in other charts.)
    pub name: String,
    /// Its points, (x, y), in the order in which they are joined. A point with a number that is not
    /// finite, or that has no place on the scale, is a gap.
    pub points: Vec<(f64, f64)>,
}

impl LineChart {
    /// The chart as an SVG picture.
    ///
    /// # Errors
    /// [`ReportError::Drawing`] if the drawing library refuses; no input is known to make it.
    pub fn svg(&self) -> Result<String, ReportError> {
        Self::beside(std::slice::from_ref(self))
    }

    /// Charts beside each other in one SVG picture.
    ///
    /// # Errors
    /// As [`LineChart::svg`].
    ///
    /// # Example
    /// ```
    /// use sylvie_report::{Line, LineChart};
    ///
    /// let of_set = |title: &str, last| LineChart {
    ///     title: title.to_owned(),
    ///     x_label: "epoch".to_owned(),
    ///     y_label: "accuracy".to_owned(),
    ///     series: vec![Line { name: "one bit".to_owned(), points: vec![(0.0, 0.2), (9.0, last)] }],
    ///     ..LineChart::default()
    /// };
    /// let svg = LineChart::beside(&[of_set("Reddit", 0.95), of_set("Yelp", 0.6)])?;
    /// assert!(svg.contains("Reddit") && svg.contains("Yelp"));
    /// # Ok::<(), sylvie_report::ReportError>(())
    /// ```
    pub fn beside(charts: &[Self]) -> Result<String, ReportError> {
        let heads = charts.iter().map(|chart| chart.with_head(|head| head.height(WIDTH)));
        let size = (WIDTH * charts.len().max(1) as u32, HEIGHT + heads.max().unwrap_or(0));
        let title = charts.first().map_or("", |chart| &chart.title);
        canvas::picture(title, size, |area| {
            let areas = area.split_evenly((1, charts.len().max(1)));
            charts.iter().zip(&areas).try_for_each(|(chart, area)| chart.draw(area))
        })
    }

    fn with_head<T>(&self, then: impl FnOnce(Head<'_>) -> T) -> T {
        let names: Vec<&str> = self.series.iter().map(|line| line.name.as_str()).collect();
        then(Head { title: &self.title, names: &names, sample: Sample::Line })
    }

    fn draw(&self, area: &Area<'_>) -> Drawn<()> {
        let area = self.with_head(|head| head.draw(area))?;
        let lines: Vec<Vec<Segment>> =
            self.series.iter().map(|line| line.segments(self.y_scale)).collect();
        let points = || lines.iter().flatten().flatten().copied();
        let is_whole = points().all(|(x, _)| x.fract() == 0.0);
        let steps = if is_whole { Steps::Whole } else { Steps::Any };
        let x = Axis::over(points().map(|(x, _)| x), Scale::Linear, Margin::None, steps);
        let y = Axis::over(points().map(|(_, y)| y), self.y_scale, Margin::Some, Steps::Any);
        let frame =
            Frame { x_label: &self.x_label, y_label: &self.y_label, y_width: 74, mesh: Mesh::Both };
        let plane = Plane::draw(&area, frame, x, y)?;
        if points().next().is_none() {
            return plane.say_empty();
        }
        for (number, segments) in lines.iter().enumerate() {
            draw_line(&plane, Look::of(number), segments)?;
        }
        Ok(())
    }
}

/// Places that are joined.
type Segment = Vec<(f64, f64)>;

impl Line {
    /// The pieces between gaps.
    fn segments(&self, y_scale: Scale) -> Vec<Segment> {
        let places = self.points.iter().map(|&(x, y)| Scale::Linear.place(x).zip(y_scale.place(y)));
        let places: Vec<Option<(f64, f64)>> = places.collect();
        let pieces = places.split(Option::is_none).filter(|piece| !piece.is_empty());
        pieces.map(|piece| piece.iter().copied().flatten().collect()).collect()
    }
}

fn draw_line(plane: &Plane<'_>, look: Look, segments: &[Segment]) -> Drawn<()> {
    let n_points: usize = segments.iter().map(Vec::len).sum();
    for segment in segments {
        let segment = thinned(segment);
        let pixels: Vec<(i32, i32)> = segment.iter().map(|&(x, y)| plane.at(x, y)).collect();
        if n_points <= MAX_MARKERS || pixels.len() == 1 {
            for &pixel in &pixels {
                look.marker(&plane.pixels, pixel)?;
            }
        }
        if pixels.len() > 1 {
            look.line(&plane.pixels, pixels)?;
        }
    }
    Ok(())
}

/// At most [`MAX_POINTS`] points that look like all of them: of each stretch its first and last point and
/// the highest and lowest.
fn thinned(points: &[(f64, f64)]) -> Segment {
    if points.len() <= MAX_POINTS {
        return points.to_vec();
    }
    let stretch = points.len().div_ceil(MAX_POINTS / 4);
    let extremes = points.chunks(stretch).flat_map(|points| {
        let by_y = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let place = |found: Option<&(f64, f64)>| {
            found.and_then(|found| points.iter().position(|point| std::ptr::eq(point, found)))
        };
        let lowest = place(points.iter().min_by(by_y)).unwrap_or(0);
        let highest = place(points.iter().max_by(by_y)).unwrap_or(0);
        let mut kept = vec![0, lowest, highest, points.len() - 1];
        kept.sort_unstable();
        kept.dedup();
        kept.into_iter().map(|place| points[place])
    });
    extremes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_place_is_a_gap() {
        let points =
            vec![(0.0, 1.0), (1.0, f64::NAN), (2.0, 3.0), (3.0, 0.0), (f64::INFINITY, 1.0)];
        let line = Line { name: String::new(), points };
        let linear = line.segments(Scale::Linear);
        assert_eq!(linear, [vec![(0.0, 1.0)], vec![(2.0, 3.0), (3.0, 0.0)]]);
        let n_points: Vec<usize> = line.segments(Scale::Logarithmic).iter().map(Vec::len).collect();
        assert_eq!(n_points, [1, 1]);
    }

    #[test]
    fn long_lines_keep_their_extremes() {
        let mut points: Vec<(f64, f64)> = (0..50_000).map(|x| (f64::from(x), 1.0)).collect();
        points[777].1 = 9.0;
        points[31_000].1 = -9.0;
        let kept = thinned(&points);
        assert!(kept.len() <= MAX_POINTS, "{}", kept.len());
        assert!(kept.contains(&(777.0, 9.0)) && kept.contains(&(31_000.0, -9.0)));
        assert_eq!((kept[0], kept[kept.len() - 1]), (points[0], points[49_999]));
        assert!(kept.is_sorted_by(|a, b| a.0 < b.0));
    }
}
