//! What went on when, in lanes.

use crate::ReportError;
use crate::axis::{Axis, Margin, Scale};
use crate::canvas::{self, Area, CHAR_WIDTH, Drawn, Frame, Head, Mesh, Plane, Sample, WIDTH};
use crate::look::Look;
use crate::markup::clipped;
use crate::ticks::Steps;

/// Pixels of a lane, and of the axis below all of them.
const LANE_HEIGHT: u32 = 30;
const AXIS_HEIGHT: u32 = 66;

/// The longest name of a lane that is shown, in characters.
const LONGEST_NAME: usize = 28;

/// A chart of activities over time.
///
/// # Example
/// ```
/// use sylvie_report::{Lane, LaneSpan, Timeline};
///
/// let span = |start_ms, end_ms, kind: &str| LaneSpan { start_ms, end_ms, kind: kind.to_owned() };
/// let spans = vec![span(0.0, 4.0, "compute"), span(4.0, 6.5, "wait"), span(6.5, 8.0, "compute")];
/// let lanes = vec![Lane { name: "rank 0".to_owned(), spans }];
/// let svg = Timeline { title: "An epoch".to_owned(), lanes }.svg()?;
/// assert!(svg.contains("rank 0"));
/// # Ok::<(), sylvie_report::ReportError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// What stands above it; may be empty.
    pub title: String,
    /// The lanes, from the top.
    pub lanes: Vec<Lane>,
}

/// A lane of a [`Timeline`]: a thread, a rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lane {
    /// What stands beside it.
    pub name: String,
    /// What went on in it.
    pub spans: Vec<LaneSpan>,
}

/// An activity in a [`Lane`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LaneSpan {
    /// When it began, in milliseconds.
    pub start_ms: f64,
    /// When it ended. A span that ends before it begins, or whose times are not finite, is left out.
    pub end_ms: f64,
    /// What it was: a colour and a name in the legend, in the order in which lanes and spans name them.
    pub kind: String,
}

impl Timeline {
    /// The chart as an SVG picture.
    ///
    /// # Cost
    /// A rectangle a span, but spans of one kind that fall on the same pixel are drawn once.
    /// # Errors
    /// [`ReportError::Drawing`] if the drawing library refuses; no input is known to make it.
    pub fn svg(&self) -> Result<String, ReportError> {
        let mut kinds: Vec<&str> = Vec::new();
        for span in self.lanes.iter().flat_map(|lane| &lane.spans) {
            if !kinds.contains(&span.kind.as_str()) {
                kinds.push(&span.kind);
            }
        }
        let head = Head { title: &self.title, names: &kinds, sample: Sample::Block };
        let n_lanes = self.lanes.len().max(1) as u32;
        let height = LANE_HEIGHT * n_lanes + AXIS_HEIGHT + head.height(WIDTH);
        canvas::picture(&self.title, (WIDTH, height), |area| self.draw(&head.draw(area)?, &kinds))
    }

    fn draw(&self, area: &Area<'_>, kinds: &[&str]) -> Drawn<()> {
        // The axis goes up, lanes go down.
        let names = self.lanes.iter().rev().map(|lane| clipped(&lane.name, LONGEST_NAME));
        let longest = names.clone().map(|name| name.chars().count()).max().unwrap_or(0) as u32;
        let times = self.lanes.iter().flat_map(|lane| &lane.spans).filter_map(LaneSpan::places);
        let x = Axis::over(
            times.clone().flat_map(|(start, end)| [start, end]),
            Scale::Linear,
            Margin::None,
            Steps::Any,
        );
        let frame = Frame {
            x_label: "ms",
            y_label: "",
            y_width: longest * CHAR_WIDTH + 20,
            mesh: Mesh::Vertical,
        };
        let plane = Plane::draw(area, frame, x, Axis::of_names(names))?;
        if times.count() == 0 {
            return plane.say_empty();
        }
        for (place, lane) in self.lanes.iter().rev().enumerate() {
            lane.draw(&plane, place as f64, kinds)?;
        }
        Ok(())
    }
}

impl LaneSpan {
    fn places(&self) -> Option<(f64, f64)> {
        let times = Scale::Linear.place(self.start_ms).zip(Scale::Linear.place(self.end_ms));
        times.filter(|(start, end)| start <= end)
    }
}

impl Lane {
    fn draw(&self, plane: &Plane<'_>, place: f64, kinds: &[&str]) -> Drawn<()> {
        let mut last = None;
        for span in &self.spans {
            let Some((start, end)) = span.places() else { continue };
            let kind = kinds.iter().position(|kind| *kind == span.kind).unwrap_or(0);
            let corners = [(start, place + 0.14), (end, place + 0.86)];
            let [one, other] = corners.map(|(x, y)| plane.at(x, y));
            let drawn = (kind, one.0, other.0);
            if last != Some(drawn) {
                Look::of(kind).block(&plane.pixels, one, other)?;
            }
            last = Some(drawn);
        }
        Ok(())
    }
}
