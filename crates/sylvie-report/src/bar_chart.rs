//! Bars in groups, beside or upon each other.

use crate::ReportError;
use crate::axis::{Axis, Margin, Scale};
use crate::canvas::{self, Area, CHAR_WIDTH, Drawn, Frame, Head, Mesh, Plane, Sample, WIDTH};
use crate::look::Look;
use crate::markup::clipped_within;
use crate::ticks::Steps;

/// Height of the plane with its axes, in pixels.
const HEIGHT: u32 = 320;

/// Pixels that the marks of the vertical axis take.
const Y_WIDTH: u32 = 74;

/// Pixels that a group takes at least: with many groups, the chart grows.
const LEAST_GROUP: u32 = 64;

/// The share of a group's width that bars take.
const FILLED: f64 = 0.76;

/// A chart of bars.
///
/// # Example
/// ```
/// use sylvie_report::{Arrangement, BarChart, Bars};
///
/// let bars = |name: &str, values| Bars { name: name.to_owned(), values };
/// let chart = BarChart {
///     title: "What an epoch is made of".to_owned(),
///     y_label: "ms".to_owned(),
///     groups: vec!["fp32".to_owned(), "one bit".to_owned()],
///     bars: vec![
///         bars("computing", vec![Some(12.0), Some(13.0)]),
///         bars("waiting", vec![Some(80.0), None]),
///     ],
///     arrangement: Arrangement::Stacked,
/// };
/// assert!(chart.svg()?.contains("waiting"));
/// # Ok::<(), sylvie_report::ReportError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BarChart {
    /// What stands above it; may be empty.
    pub title: String,
    /// What the vertical axis is of. It begins at zero.
    pub y_label: String,
    /// Names of the groups, from left to right.
    pub groups: Vec<String>,
    /// The bars, in the order of their colours.
    pub bars: Vec<Bars>,
    /// How the bars of a group stand.
    pub arrangement: Arrangement,
}

/// The bars of one colour in a [`BarChart`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bars {
    /// Their name in the legend.
    pub name: String,
    /// Their heights, one a group; `None` and what is not finite: no bar.
    pub values: Vec<Option<f64>>,
}

/// How the bars of a group stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrangement {
    /// Beside each other.
    #[default]
    Grouped,
    /// Upon each other, so that the height is their sum; those below zero hang from it.
    Stacked,
}

/// A bar, in places of the two axes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bar {
    series: usize,
    left: f64,
    right: f64,
    base: f64,
    top: f64,
}

impl BarChart {
    /// The chart as an SVG picture.
    ///
    /// # Errors
    /// [`ReportError::Drawing`] if the drawing library refuses; no input is known to make it.
    /// # Panics
    /// If bars have another number of values than there are groups.
    pub fn svg(&self) -> Result<String, ReportError> {
        for Bars { name, values } in &self.bars {
            let (n_values, n_groups) = (values.len(), self.groups.len());
            assert_eq!(n_values, n_groups, "{name}: {n_values} values for {n_groups} groups");
        }
        let width = WIDTH.max(LEAST_GROUP * self.groups.len() as u32 + Y_WIDTH);
        let names: Vec<&str> = self.bars.iter().map(|bars| bars.name.as_str()).collect();
        let head = Head { title: &self.title, names: &names, sample: Sample::Block };
        let size = (width, HEIGHT + head.height(width));
        canvas::picture(&self.title, size, |area| self.draw(&head.draw(area)?, width))
    }

    fn draw(&self, area: &Area<'_>, width: u32) -> Drawn<()> {
        let bars = match self.arrangement {
            Arrangement::Grouped => self.grouped(),
            Arrangement::Stacked => self.stacked(),
        };
        let per_group = (width - Y_WIDTH) / self.groups.len().max(1) as u32;
        let n_chars = (per_group / CHAR_WIDTH).saturating_sub(1) as usize;
        let x = Axis::of_names(self.groups.iter().map(|name| clipped_within(name, n_chars)));
        let ends = bars.iter().flat_map(|bar| [bar.base, bar.top]);
        let y = Axis::over(ends, Scale::Linear, Margin::Some, Steps::Any);
        let frame =
            Frame { x_label: "", y_label: &self.y_label, y_width: Y_WIDTH, mesh: Mesh::Horizontal };
        let plane = Plane::draw(area, frame, x, y)?;
        if bars.is_empty() {
            return plane.say_empty();
        }
        for bar in bars.iter().filter(|bar| bar.base != bar.top) {
            let corners = [(bar.left, bar.base), (bar.right, bar.top)].map(|(x, y)| plane.at(x, y));
            Look::of(bar.series).block(&plane.pixels, corners[0], corners[1])?;
        }
        Ok(())
    }

    fn heights(&self, group: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let heights = self.bars.iter().map(move |bars| bars.values[group]);
        let places = heights.map(|height| height.and_then(|height| Scale::Linear.place(height)));
        places.enumerate().filter_map(|(series, place)| Some((series, place?)))
    }

    fn grouped(&self) -> Vec<Bar> {
        let wide = FILLED / self.bars.len().max(1) as f64;
        let bars = (0..self.groups.len()).flat_map(|group| {
            self.heights(group).map(move |(series, top)| {
                let left = group as f64 + (1.0 - FILLED) / 2.0 + wide * series as f64;
                Bar { series, left, right: left + wide, base: 0.0, top }
            })
        });
        bars.collect()
    }

    fn stacked(&self) -> Vec<Bar> {
        let mut bars = Vec::new();
        for group in 0..self.groups.len() {
            // A bar that stands alone is not as wide as a group of them.
            let (left, right) = (group as f64 + 0.25, group as f64 + 0.75);
            let (mut above, mut below) = (0.0, 0.0);
            for (series, height) in self.heights(group) {
                let end = if height < 0.0 { &mut below } else { &mut above };
                let base = *end;
                *end += height;
                bars.push(Bar { series, left, right, base, top: *end });
            }
        }
        bars
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(arrangement: Arrangement) -> BarChart {
        let bars = |name: &str, values: [Option<f64>; 2]| Bars {
            name: name.to_owned(),
            values: values.to_vec(),
        };
        BarChart {
            groups: vec!["one".to_owned(), "two".to_owned()],
            bars: vec![
                bars("a", [Some(1.0), Some(f64::NAN)]),
                bars("b", [Some(2.0), None]),
                bars("c", [Some(-4.0), Some(3.0)]),
            ],
            arrangement,
            ..BarChart::default()
        }
    }

    #[test]
    fn stacked_bars_add_up_on_either_side_of_zero() {
        let bars = chart(Arrangement::Stacked).stacked();
        let ends: Vec<_> = bars.iter().map(|bar| (bar.series, bar.base, bar.top)).collect();
        assert_eq!(ends, [(0, 0.0, 1.0), (1, 1.0, 3.0), (2, 0.0, -4.0), (2, 0.0, 3.0)]);
    }

    #[test]
    fn grouped_bars_stand_beside_each_other_within_their_group() {
        let bars = chart(Arrangement::Grouped).grouped();
        assert_eq!(bars.iter().map(|bar| bar.series).collect::<Vec<_>>(), [0, 1, 2, 2]);
        assert!(bars[..3].is_sorted_by(|a, b| a.right <= b.left + 1e-12));
        assert!(bars[3].left > 1.0 && bars[3].right < 2.0);
    }

    #[test]
    #[should_panic(expected = "c: 2 values for 3 groups")]
    fn a_value_a_group_is_needed() {
        let mut chart = chart(Arrangement::Grouped);
        chart.groups.push("three".to_owned());
        chart.bars.drain(..2);
        drop(chart.svg());
    }
}
