//! Pages: text, tables and pictures in one HTML file.

use std::fmt::Write as _;

use crate::markup::escaped;

/// The style of every page.
const STYLE: &str = include_str!("page.css");

/// Pages with more sections than this begin with a list of them.
const LONGEST_WITHOUT_CONTENTS: usize = 3;

/// An HTML page that refers to nothing outside it.
///
/// What is added comes in the order in which it is added. Text is text: nothing in it is taken for HTML.
///
/// # Example
/// ```
/// use sylvie_report::{Page, Table};
///
/// let mut page = Page::new("Results");
/// page.section("Accuracy");
/// page.paragraph("Mean over five seeds, by");
/// page.code("sylvie train --data photo.npz");
/// page.table(&Table {
///     caption: "Amazon Photo".to_owned(),
///     headings: vec!["policy".to_owned(), "test".to_owned()],
///     rows: vec![vec!["one bit".to_owned(), "0.9605 ± 0.0014".to_owned()]],
/// });
/// assert!(page.finish().contains("<td class=\"n\">0.9605 ± 0.0014</td>"));
/// ```
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    body: String,
    headings: Vec<String>,
}

/// A table of a [`Page`].
///
/// Columns of which at least half the cells are numbers, alone or with a deviation and a short unit
/// ("0.96 ± 0.01", "12.5 ms"), stand at the right.
///
/// # Example
/// ```
/// use sylvie_report::{Page, Table};
///
/// let words = |row: [&str; 2]| row.map(str::to_owned).to_vec();
/// let table = Table {
///     caption: String::new(),
///     headings: words(["policy", "epoch"]),
///     rows: vec![words(["fp32", "92.5 ms"]), words(["<one bit>", "14.0 ms"])],
/// };
/// let mut page = Page::new("Times");
/// page.table(&table);
/// let html = page.finish();
/// assert!(html.contains("<th class=\"n\">epoch</th>")); // numbers stand at the right
/// assert!(html.contains("<td>&lt;one bit&gt;</td>")); // text is text
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// What it shows; may be empty.
    pub caption: String,
    /// Headings of the columns.
    pub headings: Vec<String>,
    /// Its rows. A row may be shorter or longer than the headings.
    pub rows: Vec<Vec<String>>,
}

impl Page {
    /// A page with nothing on it but its title.
    #[must_use]
    pub fn new(title: &str) -> Self {
        Self { title: title.to_owned(), body: String::new(), headings: Vec::new() }
    }

    /// Begins a section.
    pub fn section(&mut self, heading: &str) {
        self.headings.push(heading.to_owned());
        let number = self.headings.len();
        self.push(format_args!("<h2 id=\"section-{number}\">{}</h2>", escaped(heading)));
    }

    /// Adds a paragraph.
    pub fn paragraph(&mut self, text: &str) {
        self.push(format_args!("<p>{}</p>", escaped(text)));
    }

    /// Adds text whose spaces and line ends stay as they are: a command.
    pub fn code(&mut self, text: &str) {
        self.push(format_args!("<pre>{}</pre>", escaped(text)));
    }

    /// Adds a table.
    pub fn table(&mut self, table: &Table) {
        let html = table.html();
        self.push(format_args!("{html}"));
    }

    /// Adds a picture, as the `svg` of a chart gives it, and what stands below it.
    ///
    /// The picture is taken as it is: what it holds is not checked.
    pub fn figure(&mut self, svg: &str, caption: &str) {
        let caption = escaped(caption);
        let labelled = format!("<svg role=\"img\" aria-label=\"{caption}\" ");
        // HTML knows the namespace.
        let svg = svg.replacen(" xmlns=\"http://www.w3.org/2000/svg\"", "", 1);
        let svg = svg.replacen("<svg ", &labelled, 1);
        self.push(format_args!("<figure>\n{svg}<figcaption>{caption}</figcaption>\n</figure>"));
    }

    /// The page as the text of its file.
    #[must_use]
    pub fn finish(self) -> String {
        let title = escaped(&self.title);
        let contents = self.contents();
        let Self { body, .. } = self;
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
             <h1>{title}</h1>\n{contents}{body}</main>\n</body>\n</html>\n"
        )
    }

    fn push(&mut self, html: std::fmt::Arguments<'_>) {
        // Text takes what is written to it.
        let _ = writeln!(self.body, "{html}");
    }

    fn contents(&self) -> String {
        if self.headings.len() <= LONGEST_WITHOUT_CONTENTS {
            return String::new();
        }
        let items = self.headings.iter().enumerate().map(|(number, heading)| {
            format!("<li><a href=\"#section-{}\">{}</a></li>\n", number + 1, escaped(heading))
        });
        format!("<nav><ul>\n{}</ul></nav>\n", items.collect::<String>())
    }
}

impl Table {
    fn html(&self) -> String {
        let cells = |tag: &str, cells: &[String], is_right: &dyn Fn(usize) -> bool| {
            let cells = cells.iter().enumerate().map(|(column, text)| {
                let class = if is_right(column) { " class=\"n\"" } else { "" };
                format!("<{tag}{class}>{}</{tag}>", escaped(text))
            });
            format!("<tr>{}</tr>\n", cells.collect::<String>())
        };
        let is_right = |column| self.is_of_numbers(column);
        let rows: String = self.rows.iter().map(|row| cells("td", row, &is_right)).collect();
        let heads = cells("th", &self.headings, &is_right);
        let caption = match self.caption.as_str() {
            "" => String::new(),
            text => format!("<caption>{}</caption>\n", escaped(text)),
        };
        format!(
            "<div class=\"table\"><table>\n{caption}<thead>\n{heads}</thead>\n<tbody>\n{rows}</tbody>\n\
             </table></div>"
        )
    }

    fn is_of_numbers(&self, column: usize) -> bool {
        let cells = || self.rows.iter().filter_map(|row| row.get(column));
        let n_numbers = cells().filter(|cell| is_number(cell)).count();
        n_numbers > 0 && 2 * n_numbers >= cells().filter(|cell| !cell.is_empty()).count()
    }
}

/// Whether a cell stands at the right: a number, perhaps with a deviation and a unit, or a dash for one
/// that is missing.
fn is_number(cell: &str) -> bool {
    let cell = cell.trim();
    if matches!(cell, "-" | "\u{2013}" | "\u{2014}") {
        return true;
    }
    let mut words = cell.split([' ', '\u{a0}']).filter(|word| !word.is_empty());
    let Some(first) = words.next().filter(|word| is_numeral(word)) else { return false };
    let rest: Vec<&str> = words.collect();
    let rest = match rest.as_slice() {
        ["\u{b1}", deviation, rest @ ..] if is_numeral(deviation) => rest,
        rest => rest,
    };
    let is_unit =
        |word: &str| word.chars().count() <= 5 && !word.contains(|c: char| c.is_numeric());
    !first.is_empty() && (rest.is_empty() || (rest.len() == 1 && is_unit(rest[0])))
}

/// Whether a word is a number as people write it: "-1,200.5", "32x", "3e-4", "98 %", "NaN".
fn is_numeral(word: &str) -> bool {
    let bare = word.trim_start_matches(['+', '-', '\u{2212}', '<', '>', '~']);
    let bare = bare.trim_end_matches(['%', 'x', '\u{d7}']).replace([',', '_'], "");
    bare.parse::<f64>().is_ok() && !bare.starts_with(['+', '-'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_known_from_text() {
        let numbers = [
            "12",
            "-0.5",
            ".96",
            "1,200",
            "0.96 ± 0.01",
            "12.5 ms",
            "32 %",
            "32%",
            "3e-4",
            "21.3x",
            "–",
            "NaN",
        ];
        for cell in numbers {
            assert!(is_number(cell), "{cell}");
        }
        for cell in
            ["", "sage", "2026-11-30", "1Gbps,50us", "4 parts of 2", "3 layers", "0.1 ± b c"]
        {
            assert!(!is_number(cell), "{cell}");
        }
    }

    #[test]
    fn a_table_keeps_text_as_text() {
        let table = Table {
            caption: "a < b".to_owned(),
            headings: vec!["run".to_owned(), "test".to_owned()],
            rows: vec![
                vec!["<script>".to_owned(), "0.5".to_owned()],
                vec!["b".to_owned(), "0.25".to_owned(), "more".to_owned()],
            ],
        };
        let html = table.html();
        assert!(
            html.contains("<caption>a &lt; b</caption>") && html.contains("&lt;script&gt;"),
            "{html}"
        );
        assert!(html.contains("<th>run</th><th class=\"n\">test</th>"), "{html}");
        assert!(html.contains("<td class=\"n\">0.25</td><td>more</td>"), "{html}");
    }
}
