//! How far a decoded row lies from the original: expected and at worst.

use half::{bf16, f16};

use crate::levels::Levels;
use crate::{EncodeError, RowCodec, Width};

impl RowCodec {
    /// The expected sum of squared differences between `row` and its decoded form, exactly.
    ///
    /// At quantised widths this is the variance, `sum_j (x_j - a_j)(b_j - x_j)` with `a_j` and `b_j`
    /// the decoded levels around `x_j`. With one bit, and a minimum and maximum that the metadata
    /// holds, it is `sum_j (x_j - min)(max - x_j)`. At half precision it is the squared rounding
    /// error; at `f32` it is 0.
    ///
    /// # Errors
    /// As [`Self::encode_rows`], for row 0.
    /// # Paper
    /// Equation 7, before it is bounded.
    ///
    /// # Example
    /// ```
    /// use sylvie_lowbit::{RowCodec, Width};
    ///
    /// let codec = RowCodec::new(Width::One);
    /// // Two ends without an error, and (0.5 - 0) * (1 - 0.5) in the middle.
    /// assert_eq!(codec.expected_squared_error(&[0.0, 0.5, 1.0])?, 0.25);
    /// assert_eq!(codec.worst_squared_error(3, 1.0), Some(0.75));
    /// # Ok::<(), sylvie_lowbit::EncodeError>(())
    /// ```
    pub fn expected_squared_error(&self, row: &[f32]) -> Result<f64, EncodeError> {
        let Some(max_code) = self.width.max_code() else {
            return rounding_squared_error(self.width, row);
        };
        let levels = Levels::enclose(row, 0, max_code, self.metadata)?;
        let reciprocal = 1.0 / f64::from(levels.scale);
        let squared_error = |&value: &f32| {
            let bracket = levels.bracket(value, reciprocal, max_code);
            if bracket.below == value {
                return 0.0;
            }
            let below = f64::from(value) - f64::from(bracket.below);
            let above = f64::from(bracket.above) - f64::from(value);
            below * above
        };
        Ok(row.iter().map(squared_error).sum())
    }

    /// The largest expected squared error of a row of `n_cols` values whose levels span `range`:
    /// `n_cols * range^2 / (4 B^2)`, reached when every value lies midway between two levels. `None`
    /// at floating-point widths, whose error depends on magnitudes and not on a range.
    ///
    /// `range` is the distance from the lowest to the highest decoded level, which exceeds
    /// `max - min` by what the metadata is rounded. The rounding of the levels themselves to `f32` is
    /// left out.
    ///
    /// # Paper
    /// Equation 7.
    #[must_use]
    pub fn worst_squared_error(&self, n_cols: usize, range: f64) -> Option<f64> {
        let max_code = f64::from(self.width.max_code()?);
        Some(n_cols as f64 * (range / (2.0 * max_code)) * (range / (2.0 * max_code)))
    }
}

fn rounding_squared_error(width: Width, row: &[f32]) -> Result<f64, EncodeError> {
    let mut sum = 0.0;
    for (column, &value) in row.iter().enumerate() {
        if !value.is_finite() {
            return Err(EncodeError::NotFinite { row: 0, column });
        }
        let decoded = match width {
            Width::F16 => f16::from_f32(value).to_f32(),
            Width::Bf16 => bf16::from_f32(value).to_f32(),
            _ => value,
        };
        if !decoded.is_finite() {
            return Err(EncodeError::ValueOverflow { row: 0, column, width });
        }
        let difference = f64::from(decoded) - f64::from(value);
        sum += difference * difference;
    }
    Ok(sum)
}
