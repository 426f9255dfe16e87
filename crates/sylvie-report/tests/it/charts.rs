//! Charts of all inputs.

use proptest::prelude::*;
use sylvie_report::{
    Arrangement, BarChart, Bars, Lane, LaneSpan, Line, LineChart, Scale, Timeline,
};

/// What no picture may hold: numbers that were not caught, and references to anything.
fn check(svg: &str) {
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{svg}");
    for word in ["NaN", "inf", "href", "url(", "<style", " id=", " class="] {
        assert!(!svg.contains(word), "{word} in {svg}");
    }
    let (opened, closed) = (svg.matches("<text").count(), svg.matches("</text>").count());
    assert_eq!(opened, closed);
}

fn lines(series: Vec<Vec<(f64, f64)>>, y_scale: Scale) -> LineChart {
    let line = |(number, points)| Line { name: format!("line {number}"), points };
    let series = series.into_iter().enumerate().map(line).collect();
    LineChart { title: "a title".to_owned(), y_scale, series, ..LineChart::default() }
}

#[test]
fn nothing_to_show_is_said() {
    let empty = [
        LineChart::default().svg(),
        lines(vec![vec![], vec![(0.0, f64::NAN)]], Scale::Linear).svg(),
        lines(vec![vec![(0.0, -1.0), (1.0, 0.0)]], Scale::Logarithmic).svg(),
        LineChart::beside(&[LineChart::default(), LineChart::default()]),
        BarChart::default().svg(),
        Timeline::default().svg(),
        Timeline { lanes: vec![Lane::default()], ..Timeline::default() }.svg(),
    ];
    for svg in empty {
        let svg = svg.expect("a picture");
        check(&svg);
        assert!(svg.contains("nothing to show"), "{svg}");
    }
    LineChart::beside(&[]).expect("an empty picture");
}

#[test]
fn one_point_is_seen() {
    for scale in [Scale::Linear, Scale::Logarithmic] {
        let svg = lines(vec![vec![(0.0, 0.7)]], scale).svg().expect("a picture");
        check(&svg);
        // In the legend, and in the chart.
        assert_eq!(svg.matches("<circle").count(), 2, "{svg}");
    }
}

#[test]
fn charts_show_names_and_marks() {
    let points = |height: f64| (0..5).map(|x| (f64::from(x), height * f64::from(x))).collect();
    let chart = LineChart {
        x_label: "epoch".to_owned(),
        y_label: "<loss>".to_owned(),
        ..lines(vec![points(1.0), points(2.0)], Scale::Linear)
    };
    let svg = chart.svg().expect("a picture");
    check(&svg);
    for text in ["\na title\n", "\nepoch\n", "\n&lt;loss&gt;\n", "\nline 1\n", "\n8\n"] {
        assert!(svg.contains(text), "{text:?} in {svg}");
    }
    let both = LineChart::beside(&[chart.clone(), chart]).expect("a picture");
    assert_eq!(both.matches("\nepoch\n").count(), 2);
}

#[test]
fn a_timeline_shows_a_block_a_span_and_a_kind_once() {
    let span = |start_ms, end_ms, kind: &str| LaneSpan { start_ms, end_ms, kind: kind.to_owned() };
    let spans = vec![
        span(0.0, 4.0, "compute"),
        span(4.0, 6.0, "wait"),
        span(7.0, 9.0, "compute"),
        span(9.0, 8.0, "wait"),
    ];
    let lanes = vec![Lane { name: "rank 0".to_owned(), spans }];
    let svg = Timeline { title: String::new(), lanes }.svg().expect("a picture");
    check(&svg);
    assert_eq!((svg.matches("\ncompute\n").count(), svg.matches("\nrank 0\n").count()), (1, 1));
    // The background, two samples, three spans; the one that ends before it begins is left out.
    assert_eq!(svg.matches("<rect").count(), 6, "{svg}");
}

#[test]
fn spans_that_fall_on_one_pixel_are_drawn_once() {
    let span = |number: u32| {
        let start_ms = f64::from(number) * 1e-4;
        LaneSpan { start_ms, end_ms: start_ms + 1e-4, kind: "compute".to_owned() }
    };
    let mut spans: Vec<LaneSpan> = (0..20_000).map(span).collect();
    spans.push(LaneSpan { start_ms: 999.0, end_ms: 1000.0, kind: "compute".to_owned() });
    let lanes = vec![Lane { name: "rank 0".to_owned(), spans }];
    let svg = Timeline { title: String::new(), lanes }.svg().expect("a picture");
    assert!(svg.matches("<rect").count() < 20, "{}", svg.matches("<rect").count());
}

#[test]
fn many_groups_make_a_wider_chart() {
    let groups: Vec<String> = (0..40).map(|number| format!("group {number}")).collect();
    let bars = vec![Bars { name: "a".to_owned(), values: vec![Some(1.0); 40] }];
    let svg = BarChart { groups, bars, ..BarChart::default() }.svg().expect("a picture");
    check(&svg);
    assert!(svg.contains("width=\"2634\"") && svg.contains("\ngroup 39\n"), "{svg}");
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>(),
        -10.0..10.0_f64,
        prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::MAX, f64::MIN, 5e-324, 0.0, -0.0]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_lines_can_be_drawn(
        series in prop::collection::vec(prop::collection::vec((number(), number()), 0..40), 0..12),
        is_logarithmic in any::<bool>(),
    ) {
        let scale = if is_logarithmic { Scale::Logarithmic } else { Scale::Linear };
        check(&lines(series, scale).svg().expect("a picture"));
    }

    #[test]
    fn any_bars_can_be_drawn(
        values in prop::collection::vec(
            prop::collection::vec(prop::option::of(number()), 5), 0..10),
        is_stacked in any::<bool>(),
    ) {
        let arrangement = if is_stacked { Arrangement::Stacked } else { Arrangement::Grouped };
        let groups = (0..5).map(|number| format!("group {number}")).collect();
        let bars = values.into_iter().map(|values| Bars { name: "bars".to_owned(), values });
        let chart = BarChart { groups, bars: bars.collect(), arrangement, ..BarChart::default() };
        check(&chart.svg().expect("a picture"));
    }

    #[test]
    fn any_spans_can_be_drawn(
        lanes in prop::collection::vec(
            prop::collection::vec((number(), number(), 0..12_u8), 0..20), 0..6),
    ) {
        let span = |(start_ms, end_ms, kind)| LaneSpan { start_ms, end_ms, kind: format!("kind {kind}") };
        let lane = |spans: Vec<_>| {
            Lane { name: "lane".to_owned(), spans: spans.into_iter().map(span).collect() }
        };
        let lanes = lanes.into_iter().map(lane).collect();
        check(&Timeline { title: "time".to_owned(), lanes }.svg().expect("a picture"));
    }

    #[test]
    fn any_text_can_be_drawn(text in any::<String>()) {
        let series = vec![Line { name: text.clone(), points: vec![(0.0, 1.0)] }];
        let (title, x_label, y_label) = (text.clone(), text.clone(), text);
        let chart = LineChart { title, x_label, y_label, series, ..LineChart::default() };
        let svg = chart.svg().expect("a picture");
        prop_assert!(!svg.contains(|c: char| c.is_control() && c != '\n' && c != '\t'));
        prop_assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
    }
}
