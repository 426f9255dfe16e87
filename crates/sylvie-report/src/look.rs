//! What tells the series of a chart apart: colour, and dash, marker or hatching for those who see none.

use plotters::element::{Circle, Cross, DashedPathElement, PathElement, Rectangle, TriangleMarker};
use plotters::style::{Color as _, RGBColor, WHITE};

use crate::canvas::{Area, Drawn};

/// Okabe and Ito's colours that stand out on white and on black, in a fixed order, and two more.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x8c, 0x6d, 0x31),
    RGBColor(0x80, 0x80, 0x80),
];

/// Dashes and the gaps between them, in pixels; none: a line without gaps.
const DASHES: [Option<(i32, i32)>; 4] = [None, Some((8, 4)), Some((3, 3)), Some((14, 5))];

/// Pixels between the lines of a hatching.
const HATCH_STEP: usize = 6;

/// How a series looks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    colour: RGBColor,
    /// Which dash, marker and hatching, from 0 to 3.
    shape: usize,
}

impl Look {
    /// The look of the n-th series; the first 32 differ.
    pub(crate) fn of(number: usize) -> Self {
        let n_colours = COLOURS.len();
        Self { colour: COLOURS[number % n_colours], shape: (number + number / n_colours) % 4 }
    }

    /// A line through pixels.
    pub(crate) fn line(self, area: &Area<'_>, points: Vec<(i32, i32)>) -> Drawn<()> {
        let style = self.colour.stroke_width(2);
        match DASHES[self.shape] {
            None => area.draw(&PathElement::new(points, style)),
            Some((dash, gap)) => area.draw(&DashedPathElement::new(points, dash, gap, style)),
        }
    }

    /// A marker around a pixel.
    pub(crate) fn marker(self, area: &Area<'_>, at: (i32, i32)) -> Drawn<()> {
        let colour = self.colour;
        match self.shape {
            0 => area.draw(&Circle::new(at, 3, colour.filled())),
            1 => area.draw(&TriangleMarker::new(at, 5, colour.filled())),
            2 => {
                let corners = [(at.0 - 3, at.1 - 3), (at.0 + 3, at.1 + 3)];
                area.draw(&Rectangle::new(corners, colour.filled()))
            }
            _ => area.draw(&Cross::new(at, 3, colour.stroke_width(2))),
        }
    }

    /// A block between two corners, at least a pixel wide and high.
    pub(crate) fn block(self, area: &Area<'_>, one: (i32, i32), other: (i32, i32)) -> Drawn<()> {
        let (left, right) = ends(one.0, other.0);
        let (top, bottom) = ends(one.1, other.1);
        area.draw(&Rectangle::new([(left, top), (right, bottom)], self.colour.filled()))?;
        let hatch = WHITE.mix(0.55).stroke_width(1);
        let within = |from: i32, to: i32| (from + 3..to).step_by(HATCH_STEP);
        if self.shape & 1 == 1 {
            for y in within(top, bottom) {
                area.draw(&PathElement::new([(left, y), (right, y)], hatch))?;
            }
        }
        if self.shape & 2 == 2 {
            for x in within(left, right) {
                area.draw(&PathElement::new([(x, top), (x, bottom)], hatch))?;
            }
        }
        Ok(())
    }
}

fn ends(one: i32, other: i32) -> (i32, i32) {
    let (low, high) = (one.min(other), one.max(other));
    (low, high.max(low + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_series_all_look_different() {
        let looks: Vec<Look> = (0..32).map(Look::of).collect();
        for (number, look) in looks.iter().enumerate() {
            let is_same = |other: &Look| other.colour == look.colour && other.shape == look.shape;
            assert!(!looks[..number].iter().any(is_same), "{number}");
        }
    }
}
