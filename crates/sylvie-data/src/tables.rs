//! Text files of one kind of number: edges, features, labels, node numbers.

use std::ops::ControlFlow;
use std::path::Path;

use sylvie_graph::{DenseMatrix, Features, Labels};

use crate::error::{DataError, Place};
use crate::labels::{self, MISSING_FLAG};
use crate::npy::Array;
use crate::sparse::check_features;
use crate::splits::check_ids;
use crate::text::{Line, Text, float, is_header, is_missing, node, unsigned};

/// What a line may hold besides numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extras {
    /// Nothing.
    None,
    /// Lines that begin with `#` or `%`, and a first line of column names.
    Comments,
}

impl Extras {
    fn skips(self, line: &Line<'_>, n_before: usize) -> bool {
        self == Self::Comments && (is_comment(line) || n_before == 0 && is_header(line))
    }
}

fn is_comment(line: &Line<'_>) -> bool {
    matches!(line.bytes.first(), Some(b'#' | b'%'))
}

/// Reads pairs of node numbers below `n_nodes`; where extras are allowed, more columns may follow, of
/// which nothing is used.
///
/// # Errors
/// A line that is no such pair; more lines than `n_expected`, or fewer.
pub(crate) fn read_edges(
    path: &Path,
    n_nodes: usize,
    n_expected: Option<u64>,
    extras: Extras,
) -> Result<Vec<(u32, u32)>, DataError> {
    let mut list = EdgeLines { edges: Vec::new(), is_named: false, n_nodes, n_expected, extras };
    Text::open(path)?.pieces(|mut piece| {
        loop {
            // Nearly every line is a plain pair, for which there is a short way.
            while let Some((edge, after)) = piece.plain_pair()
                && list.fits(edge)
            {
                list.edges.push(edge);
                piece = after;
            }
            let Some(line) = piece.next_line() else { break };
            if !line.bytes.is_empty() {
                list.push(&line)?;
            }
        }
        Ok(ControlFlow::Continue(piece.number))
    })?;
    let edges = list.edges;
    match n_expected {
        Some(expected) if edges.len() as u64 != expected => {
            let (place, found) = (Place::file(path), edges.len() as u64);
            Err(DataError::WrongCount { place, what: "edges", expected, found })
        }
        _ => Ok(edges),
    }
}

/// Edges as they come, a line each.
struct EdgeLines {
    edges: Vec<(u32, u32)>,
    /// Whether a line of column names was met.
    is_named: bool,
    n_nodes: usize,
    n_expected: Option<u64>,
    extras: Extras,
}

impl EdgeLines {
    fn is_full(&self) -> bool {
        self.n_expected == Some(self.edges.len() as u64)
    }

    fn fits(&self, (source, target): (u32, u32)) -> bool {
        (source.max(target) as usize) < self.n_nodes && !self.is_full()
    }

    fn push(&mut self, line: &Line<'_>) -> Result<(), DataError> {
        if self.extras.skips(line, self.edges.len() + usize::from(self.is_named)) {
            self.is_named |= !is_comment(line);
            return Ok(());
        }
        if self.is_full() {
            return Err(line.bad_line(format!("the end, after {} edges,", self.edges.len())));
        }
        let (mut fields, n_nodes) = (line.fields(), self.n_nodes);
        let mut end = || {
            let field = fields.next().unwrap_or_default();
            let number = node(field).filter(|&node| (node as usize) < n_nodes);
            number.ok_or_else(|| line.bad(field, format!("a node from 0 to {}", last(n_nodes))))
        };
        let edge = (end()?, end()?);
        if self.extras == Extras::None && fields.next().is_some() {
            return Err(line.bad_line("two node numbers"));
        }
        self.edges.push(edge);
        Ok(())
    }
}

fn last(n_nodes: usize) -> usize {
    n_nodes.saturating_sub(1)
}

/// Reads a row of features a line, of at most `n_nodes` nodes.
///
/// # Errors
/// A field that is no finite number; rows of several lengths; not as many rows as nodes.
pub(crate) fn read_features(path: &Path, n_nodes: usize) -> Result<Features, DataError> {
    let place = Place::file(path);
    let (mut values, mut n_cols, mut n_rows) = (Vec::new(), 0, 0);
    Text::open(path)?.for_each(|line| {
        if n_rows == n_nodes {
            return Err(line.bad_line(format!("the end, after {n_nodes} nodes,")));
        }
        let begin = values.len();
        for field in line.fields() {
            values.push(float(field).ok_or_else(|| line.bad(field, "a finite number"))?);
        }
        if n_rows == 0 {
            n_cols = values.len();
        } else if values.len() - begin != n_cols {
            let found = values.len() - begin;
            return Err(line.bad_line(format!("{n_cols} numbers as before, not {found},")));
        }
        n_rows += 1;
        Ok(())
    })?;
    expect_rows(&place, n_rows, n_nodes)?;
    let matrix = DenseMatrix::new(n_rows, n_cols, values).map_err(DataError::graph(&place))?;
    check_features(&place, Features::Dense(matrix))
}

fn expect_rows(place: &Place, found: usize, expected: usize) -> Result<(), DataError> {
    if found == expected {
        return Ok(());
    }
    let (expected, found) = (expected as u64, found as u64);
    Err(DataError::WrongCount { place: place.clone(), what: "rows", expected, found })
}

/// Labels as they come: a class a line, or a row of zeros and ones.
struct LabelRows {
    width: usize,
    classes: Vec<i64>,
    flags: Vec<u8>,
}

/// Reads the labels of at most `n_nodes` nodes, or of as many as there are lines: one class a line, or
/// zeros and ones, one a class. What is empty or `nan` is not known, and a row in which something is not
/// known is not labelled.
///
/// # Errors
/// A field that is no such number; rows of several lengths; not as many rows as nodes.
pub(crate) fn read_labels(
    path: &Path,
    n_nodes: Option<usize>,
    extras: Extras,
) -> Result<Labels, DataError> {
    let place = Place::file(path);
    let mut rows = LabelRows { width: 0, classes: Vec::new(), flags: Vec::new() };
    let (mut n_rows, mut is_named) = (0_usize, false);
    // A blank line is a node whose only field is empty.
    Text::open(path)?.every(|line| {
        if extras.skips(&line, n_rows + usize::from(is_named)) {
            is_named |= !is_comment(&line);
            return Ok(());
        }
        if Some(n_rows) == n_nodes {
            return Err(line.bad_line(format!("the end, after {n_rows} nodes,")));
        }
        rows.push(&line, n_rows == 0)?;
        n_rows += 1;
        Ok(())
    })?;
    if let Some(n_nodes) = n_nodes {
        expect_rows(&place, n_rows, n_nodes)?;
    }
    match rows.width {
        0 | 1 => labels::single(&Array { place, shape: vec![n_rows], values: rows.classes }),
        width => labels::multi(Array { place, shape: vec![n_rows, width], values: rows.flags }),
    }
}

impl LabelRows {
    fn push(&mut self, line: &Line<'_>, is_first: bool) -> Result<(), DataError> {
        let width = line.fields().count().max(1);
        if is_first {
            self.width = width;
        } else if width != self.width {
            return Err(line.bad_line(format!("{} labels as before, not {width},", self.width)));
        }
        if line.bytes.is_empty() {
            return self.push_field(line, b"", width);
        }
        line.fields().try_for_each(|field| self.push_field(line, field, width))
    }

    fn push_field(&mut self, line: &Line<'_>, field: &[u8], width: usize) -> Result<(), DataError> {
        let number = if is_missing(field) { None } else { Some(class(line, field)?) };
        match (width, number) {
            (1, number) => self.classes.push(number.unwrap_or(labels::NO_LABEL)),
            (_, None) => self.flags.push(MISSING_FLAG),
            (_, Some(flag @ 0..=1)) => self.flags.push(flag as u8),
            (_, Some(_)) => return Err(line.bad(field, "0 or 1 where nodes have several labels")),
        }
        Ok(())
    }
}

/// A whole number; some files hold classes as floats.
fn class(line: &Line<'_>, field: &[u8]) -> Result<i64, DataError> {
    const EXACT: f32 = 16_777_216.0;
    let whole = || float(field).filter(|number| number.fract() == 0.0 && number.abs() < EXACT);
    unsigned(field)
        .and_then(|number| i64::try_from(number).ok())
        .or_else(|| whole().map(|number| number as i64))
        .ok_or_else(|| line.bad(field, "a class, or nothing or `nan` where there is none"))
}

/// Reads node numbers below `n_nodes`, one a line, each once.
///
/// # Errors
/// A line that is no such number.
pub(crate) fn read_ids(path: &Path, n_nodes: usize) -> Result<Vec<u32>, DataError> {
    let mut ids = Vec::new();
    Text::open(path)?.for_each(|line| {
        let number = node(line.bytes).filter(|&node| (node as usize) < n_nodes);
        let expected = || line.bad_line(format!("a node from 0 to {}", last(n_nodes)));
        if ids.len() == n_nodes {
            return Err(line.bad_line(format!("the end, after all {n_nodes} nodes,")));
        }
        ids.push(number.ok_or_else(expected)?);
        Ok(())
    })?;
    check_ids(&Place::file(path), &ids, n_nodes)?;
    Ok(ids)
}

/// Reads a file of one number, the count of a single graph's nodes or edges.
///
/// # Errors
/// Something other than one line with one number.
pub(crate) fn read_count(path: &Path) -> Result<u64, DataError> {
    let mut count = None;
    let text = Text::open(path)?;
    let place = text.place();
    text.for_each(|line| {
        let number = unsigned(line.bytes).ok_or_else(|| line.bad_line("a number"))?;
        if count.replace(number).is_some() {
            return Err(line.bad_line("the end, because one graph is read,"));
        }
        Ok(())
    })?;
    count.ok_or(DataError::WrongCount { place, what: "lines", expected: 1, found: 0 })
}
