//! Pages of tables and charts that stand alone: HTML with its style and its SVG pictures in it.
//!
//! A [`Page`] takes headings, text, [`Table`]s and pictures in the order in which they are to be read, and
//! becomes one file that refers to nothing outside it. Charts ([`LineChart`], [`BarChart`], [`Timeline`])
//! are plain values that draw themselves as SVG, which is a picture of its own too.
//!
//! Every chart takes its colours in the same order, with dashes, markers and hatching beside them, so
//! that series are told apart without colour. No figure in a chart makes it fail: what is not
//! finite is left out, and an empty chart says that it is empty.

mod axis;
mod bar_chart;
mod canvas;
mod error;
mod line_chart;
mod look;
mod markup;
mod page;
mod ticks;
mod timeline;

pub use axis::Scale;
pub use bar_chart::{Arrangement, BarChart, Bars};
pub use error::ReportError;
pub use line_chart::{Line, LineChart};
pub use page::{Page, Table};
pub use timeline::{Lane, LaneSpan, Timeline};

/// The README's example, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
