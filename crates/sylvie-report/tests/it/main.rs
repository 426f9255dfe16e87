//! Charts and pages from outside: whatever the numbers, a picture that stands alone.

mod charts;
mod page;
