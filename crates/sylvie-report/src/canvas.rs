//! The parts that all charts have: background, title, legend, axes.

use plotters::chart::ChartBuilder;
use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea as _};
use plotters::prelude::SVGBackend;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{BLACK, Color as _, FontDesc, FontFamily, FontStyle, TextStyle, WHITE};

use crate::ReportError;
use crate::axis::Axis;
use crate::look::Look;
use crate::markup::clipped;

/// A part of a picture, addressed by pixels from its upper left corner.
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// What drawing comes to.
pub(crate) type Drawn<T> = Result<T, DrawingAreaErrorKind<std::io::Error>>;

/// Width of a chart, in pixels.
pub(crate) const WIDTH: u32 = 880;

const TITLE_HEIGHT: u32 = 32;
const LEGEND_ROW: u32 = 20;
const EDGE: u32 = 14;
/// Pixels of a sample in the legend, and of the gaps around it.
const SAMPLE: u32 = 26;
const GAP: u32 = 8;
/// Width of a character, about: there are no fonts to measure.
pub(crate) const CHAR_WIDTH: u32 = 7;
/// The longest name in a legend, in characters.
const LONGEST_NAME: usize = 60;

/// Text of about `size` pixels (the library divides by 1.24).
fn text(size: f64, style: FontStyle) -> TextStyle<'static> {
    FontDesc::new(FontFamily::SansSerif, size * 1.24, style).color(&BLACK)
}

/// A picture of its own.
///
/// # Errors
/// [`ReportError::Drawing`], with `title`, if `draw` fails.
pub(crate) fn picture(
    title: &str,
    size: (u32, u32),
    draw: impl FnOnce(&Area<'_>) -> Drawn<()>,
) -> Result<String, ReportError> {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    let drawn = area.fill(&WHITE).and_then(|()| draw(&area)).and_then(|()| area.present());
    drop(area);
    let failed = |source| ReportError::Drawing { title: title.to_owned(), source };
    drawn.map_err(|error| failed(Box::new(error)))?;
    Ok(svg)
}

/// What stands for a series in the legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sample {
    Line,
    Block,
}

/// The head of a chart: its title, and below it the names of its series.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<'a> {
    pub(crate) title: &'a str,
    pub(crate) names: &'a [&'a str],
    pub(crate) sample: Sample,
}

impl Head<'_> {
    /// Its height at this width, in pixels.
    pub(crate) fn height(&self, width: u32) -> u32 {
        let rows = self.places(width).last().map_or(0, |(_, (_, row))| row + 1);
        self.title_height() + rows * LEGEND_ROW
    }

    fn title_height(&self) -> u32 {
        if self.title.is_empty() { GAP } else { TITLE_HEIGHT }
    }

    /// Draws the head into the upper part of `area`; gives the rest of it.
    pub(crate) fn draw<'a>(&self, area: &Area<'a>) -> Drawn<Area<'a>> {
        let (width, _) = area.dim_in_pixel();
        let title = clipped(self.title, (width / 8) as usize);
        let at = (EDGE as i32, 8);
        area.draw_text(&title, &text(15.0, FontStyle::Bold), at)?;
        for (number, (x, row)) in self.places(width) {
            let y = (self.title_height() + row * LEGEND_ROW + LEGEND_ROW / 2) as i32;
            let (left, right) = (x as i32, (x + SAMPLE) as i32);
            let look = Look::of(number);
            match self.sample {
                Sample::Block => look.block(area, (left + 6, y - 6), (right, y + 6))?,
                Sample::Line => {
                    look.line(area, vec![(left, y), (right, y)])?;
                    look.marker(area, ((left + right) / 2, y))?;
                }
            }
            let name = clipped(self.names[number], LONGEST_NAME);
            let style = text(12.0, FontStyle::Normal).pos(Pos::new(HPos::Left, VPos::Center));
            area.draw_text(&name, &style, (right + GAP as i32, y))?;
        }
        let (_, height) = area.dim_in_pixel();
        let head = self.height(width).min(height);
        Ok(area.split_vertically(head).1)
    }

    /// Where the names stand, with their numbers: pixels from the left, and row. What has no name has no
    /// place.
    fn places(&self, width: u32) -> Vec<(usize, (u32, u32))> {
        let (mut x, mut row) = (EDGE, 0);
        let place = |(number, name): (usize, &&str)| {
            let n_chars = name.chars().count().min(LONGEST_NAME) as u32;
            let wide = SAMPLE + 3 * GAP + n_chars * CHAR_WIDTH;
            if x > EDGE && x + wide > width {
                (x, row) = (EDGE, row + 1);
            }
            let at = (x, row);
            x += wide;
            (number, at)
        };
        let named = self.names.iter().enumerate().filter(|(_, name)| !name.is_empty());
        named.map(place).collect()
    }
}

/// What stands beside the axes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) x_label: &'a str,
    pub(crate) y_label: &'a str,
    /// Pixels for the marks of the vertical axis.
    pub(crate) y_width: u32,
    pub(crate) mesh: Mesh,
}

/// Which lines cross a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mesh {
    Both,
    Horizontal,
    Vertical,
}

/// The plane between the axes of a chart.
pub(crate) struct Plane<'a> {
    /// It, addressed by pixels.
    pub(crate) pixels: Area<'a>,
    /// It, addressed by places of the two axes.
    places: DrawingArea<SVGBackend<'a>, Cartesian2d<Axis, Axis>>,
}

impl<'a> Plane<'a> {
    /// Draws axes and mesh.
    pub(crate) fn draw(area: &Area<'a>, frame: Frame<'_>, x: Axis, y: Axis) -> Drawn<Self> {
        let mut builder = ChartBuilder::on(area);
        builder.margin_top(10).margin_right(18).margin_bottom(6).margin_left(6);
        let below = if frame.x_label.is_empty() { 28 } else { 46 };
        builder.x_label_area_size(below).y_label_area_size(frame.y_width);
        let mut chart = builder.build_cartesian_2d(x, y)?;
        let mut mesh = chart.configure_mesh();
        let names = text(12.0, FontStyle::Normal);
        mesh.bold_line_style(BLACK.mix(0.15)).axis_style(BLACK.mix(0.6));
        mesh.label_style(names.clone()).axis_desc_style(names).set_all_tick_mark_size(4);
        mesh.x_desc(clipped(frame.x_label, 80)).y_desc(clipped(frame.y_label, 40));
        match frame.mesh {
            Mesh::Both => {}
            Mesh::Horizontal => {
                mesh.disable_x_mesh();
            }
            Mesh::Vertical => {
                mesh.disable_y_mesh();
            }
        }
        mesh.draw()?;
        let places = chart.plotting_area();
        Ok(Self { pixels: places.strip_coord_spec(), places: places.clone() })
    }

    /// The pixel at these places of the two axes.
    pub(crate) fn at(&self, x: f64, y: f64) -> (i32, i32) {
        let (left, top) = self.places.get_base_pixel();
        let (x, y) = self.places.map_coordinate(&(x, y));
        (x - left, y - top)
    }

    /// Says in the middle that there is nothing to show.
    pub(crate) fn say_empty(&self) -> Drawn<()> {
        let (width, height) = self.pixels.dim_in_pixel();
        let style = text(13.0, FontStyle::Normal).pos(Pos::new(HPos::Center, VPos::Center));
        self.pixels.draw_text("nothing to show", &style, (width as i32 / 2, height as i32 / 2))
    }
}
