//! Text as HTML and SVG hold it.

/// `text` with nothing left in it that HTML would take for its own, in text and in quoted attributes.
///
/// Control characters, which neither HTML nor SVG can hold, are shown as U+FFFD.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(printable(char)),
        }
    }
    out
}

/// At most `n_chars` characters of `text`, on one line; what is left out is said by an ellipsis.
///
/// It is not escaped: the drawing library does that.
pub(crate) fn clipped(text: &str, n_chars: usize) -> String {
    let line = || text.chars().map(|char| if char == '\n' { ' ' } else { printable(char) });
    if text.chars().count() <= n_chars {
        return line().collect();
    }
    line().take(n_chars.saturating_sub(1)).chain(['\u{2026}']).collect()
}

/// At most `n_chars` characters of `text` as [`clipped`] has them, but with the ellipsis in the middle: names
/// of a family differ at their ends.
pub(crate) fn clipped_within(text: &str, n_chars: usize) -> String {
    let n_all = text.chars().count();
    if n_all <= n_chars {
        return clipped(text, n_chars);
    }
    let n_kept = n_chars.saturating_sub(1);
    let begin = text.chars().take(n_kept.div_ceil(2));
    let end = text.chars().skip(n_all - n_kept / 2);
    let both: String = begin.chain(['\u{2026}']).chain(end).collect();
    clipped(&both, n_chars.max(1))
}

fn printable(char: char) -> char {
    let is_held = !char.is_control() || matches!(char, '\n' | '\t');
    if is_held { char } else { char::REPLACEMENT_CHARACTER }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_html_is_left_in_text() {
        assert_eq!(
            escaped("<a href='x'>\"&\"\u{7}"),
            "&lt;a href=&#39;x&#39;&gt;&quot;&amp;&quot;\u{fffd}"
        );
        assert_eq!(escaped("größer\tals\n1"), "größer\tals\n1");
    }

    #[test]
    fn long_text_is_clipped_at_characters() {
        assert_eq!(clipped("größe", 5), "größe");
        assert_eq!(clipped("größer", 5), "größ\u{2026}");
        assert_eq!(clipped("a\nb\u{0}", 9), "a b\u{fffd}");
        assert_eq!(clipped("ab", 0), "\u{2026}");
        let within = [9, 6, 5, 1, 0].map(|n_chars| clipped_within("größe-2", n_chars));
        assert_eq!(within, ["größe-2", "grö\u{2026}-2", "gr\u{2026}-2", "\u{2026}", "\u{2026}"]);
    }
}
