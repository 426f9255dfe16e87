//! What can go wrong with a picture.

/// A picture that could not be drawn.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The drawing library refused.
    #[error("the chart {title:?} cannot be drawn")]
    Drawing {
        /// Title of the chart.
        title: String,
        /// What the library says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
