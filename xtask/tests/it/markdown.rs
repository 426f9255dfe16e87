//! As much of Markdown as the rules need: fenced blocks and links.

/// A fenced block: what stands behind the opening fence, and the lines inside.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) info: String,
    pub(crate) text: String,
}

impl Block {
    /// Whether it is Rust, run or not.
    pub(crate) fn is_rust(&self) -> bool {
        self.info.split(',').next() == Some("rust")
    }

    /// The lines that rustdoc shows.
    pub(crate) fn shown(&self) -> String {
        let is_hidden = |line: &str| line.trim() == "#" || line.trim_start().starts_with("# ");
        self.text.lines().filter(|line| !is_hidden(line)).flat_map(|line| [line, "\n"]).collect()
    }
}

/// A page taken apart: its fenced blocks, and each line outside them with its number, from 1.
pub(crate) fn split(page: &str) -> (Vec<Block>, Vec<(usize, &str)>) {
    let (mut blocks, mut prose) = (Vec::new(), Vec::new());
    let mut open: Option<Block> = None;
    for (line_idx, line) in page.lines().enumerate() {
        let info = line.trim_start().strip_prefix("```");
        match (open.take(), info) {
            (None, None) => prose.push((line_idx + 1, line)),
            (None, Some(info)) => {
                open = Some(Block { info: info.trim().to_owned(), text: String::new() });
            }
            (Some(block), Some(_)) => blocks.push(block),
            (Some(mut block), None) => {
                block.text.extend([line, "\n"]);
                open = Some(block);
            }
        }
    }
    blocks.extend(open);
    (blocks, prose)
}

/// The targets of the links in a line of prose: `[text](target "title")` and `[name]: target`.
pub(crate) fn link_targets(line: &str) -> Vec<&str> {
    // Every other piece between backquotes is code.
    let code_free = line.split('`').step_by(2);
    // A link's text may itself be code: then `](` begins the piece that follows it.
    let inline = code_free.flat_map(|piece| piece.split("](").skip(1));
    let inline = inline.filter_map(|rest| rest.split_once(')').map(|(target, _)| target));
    let named = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
    let targets = inline.chain(named.map(|(_, target)| target));
    targets.filter_map(|target| target.split_whitespace().next()).collect()
}

#[test]
fn blocks_and_prose_are_told_apart() {
    let page = "One\n```rust\nlet x = 1;\n# Ok(())\n#\n#[cfg(x)]\n```\nTwo\n```\nplain\n";
    let (blocks, prose) = split(page);
    assert_eq!(prose, [(1, "One"), (8, "Two")]);
    assert_eq!((blocks[0].info.as_str(), blocks[1].text.as_str()), ("rust", "plain\n"));
    assert_eq!(blocks[0].shown(), "let x = 1;\n#[cfg(x)]\n");
    assert!(blocks[0].is_rust() && !blocks[1].is_rust() && blocks.len() == 2);
}

#[test]
fn links_of_every_form_are_found() {
    let line = "a [b](c.md), [`d`](e.md#f), ![g](h.png \"i\"), `[j](k.md)` and [l](m";
    assert_eq!(link_targets(line), ["c.md", "e.md#f", "h.png"]);
    assert_eq!(link_targets("[n]: o.md"), ["o.md"]);
    assert!(link_targets("indices[0] (i, j) and f[i](x y").is_empty());
}
