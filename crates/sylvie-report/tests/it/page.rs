//! Pages stand alone and take no text for HTML.

use sylvie_report::{Line, LineChart, Page, Table};

fn page(n_sections: usize) -> String {
    let series = vec![Line { name: "a".to_owned(), points: vec![(0.0, 1.0), (1.0, 2.0)] }];
    let svg = LineChart { series, ..LineChart::default() }.svg().expect("a picture");
    let mut page = Page::new("Runs <b> & more");
    for number in 0..n_sections {
        page.section(&format!("Part {number}"));
        page.figure(&svg, "a \"curve\"");
    }
    page.paragraph("</main><script>");
    page.code("sylvie train --out \"a b\"\n  --parts 4");
    page.table(&Table {
        caption: String::new(),
        headings: vec!["run".to_owned()],
        rows: vec![vec!["0.5".to_owned()]],
    });
    page.finish()
}

#[test]
fn a_page_refers_to_nothing_outside_it() {
    let html = page(4);
    assert!(html.starts_with("<!doctype html>") && html.ends_with("</html>\n"));
    for word in ["http", "url(", "@import", "<script", "<link", "<img", "src="] {
        assert!(!html.contains(word), "{word}");
    }
    // The one kind of link leads to its own sections.
    assert_eq!(html.matches("href=").count(), html.matches("href=\"#section-").count());
}

#[test]
fn text_is_text() {
    let html = page(1);
    assert!(html.contains("<title>Runs &lt;b&gt; &amp; more</title>"));
    assert!(html.contains("<p>&lt;/main&gt;&lt;script&gt;</p>"));
    assert!(html.contains("<pre>sylvie train --out &quot;a b&quot;\n  --parts 4</pre>"));
    assert!(html.contains("aria-label=\"a &quot;curve&quot;\""));
    assert!(html.contains("<td class=\"n\">0.5</td>") && !html.contains("<caption>"));
}

#[test]
fn long_pages_begin_with_their_contents() {
    let (short, long) = (page(3), page(4));
    assert!(!short.contains("<nav>") && long.contains("<nav>"));
    for number in 1..=4 {
        assert_eq!(long.matches(&format!("id=\"section-{number}\"")).count(), 1);
        assert_eq!(long.matches(&format!("href=\"#section-{number}\"")).count(), 1);
    }
}

#[test]
fn several_pictures_stand_on_one_page_without_names_that_meet() {
    let html = page(2);
    let pictures =
        html.split("<figure>").skip(1).map(|rest| rest.split("</figure>").next().unwrap());
    for picture in pictures {
        assert!(!picture.contains(" id=") && !picture.contains(" class="), "{picture}");
        assert!(!picture.contains("xmlns"), "{picture}");
    }
}
