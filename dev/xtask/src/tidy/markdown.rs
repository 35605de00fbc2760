//! The parts of a Markdown document that rules read: headings, fences, spans, links, tables.

/// One line with what it is part of.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    pub(crate) number: usize,
    pub(crate) text: &'a str,
    pub(crate) part: Part,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Part {
    Prose,
    /// Heading with its level.
    Heading(usize),
    /// Inside the nth code block, its fences included.
    Code {
        block: usize,
    },
}

impl Line<'_> {
    pub(crate) fn is_code(&self) -> bool {
        matches!(self.part, Part::Code { .. })
    }
}

/// All lines, each with its part.
pub(crate) fn lines(text: &str) -> Vec<Line<'_>> {
    let (mut fence, mut block): (Option<&str>, usize) = (None, 0);
    let mut lines = Vec::new();
    for (at, text) in text.lines().enumerate() {
        let marker = fence_marker(text);
        let part = match (fence, marker) {
            (Some(open), Some(close)) if close.starts_with(open) && is_only(text, close) => {
                fence = None;
                Part::Code { block }
            }
            (Some(_), _) => Part::Code { block },
            (None, Some(_)) => {
                fence = marker;
                block += 1;
                Part::Code { block }
            }
            (None, None) => heading_level(text).map_or(Part::Prose, Part::Heading),
        };
        lines.push(Line { number: at + 1, text, part });
    }
    lines
}

/// The code blocks, fences included, each with its first line's number.
pub(crate) fn code_blocks(text: &str) -> Vec<(usize, String)> {
    let mut blocks: Vec<(usize, String)> = Vec::new();
    for line in lines(text) {
        let Part::Code { block } = line.part else { continue };
        match blocks.get_mut(block - 1) {
            Some((_, text)) => {
                text.push('\n');
                text.push_str(line.text);
            }
            None => blocks.push((line.number, line.text.to_owned())),
        }
    }
    blocks
}

/// The `code spans` of one line.
pub(crate) fn spans(text: &str) -> Vec<&str> {
    let mut spans = Vec::new();
    let mut rest = text;
    while let Some((_, opened)) = rest.split_once('`') {
        let more = opened.chars().take_while(|&c| c == '`').count();
        let fence = "`".repeat(more + 1);
        let opened = opened.trim_start_matches('`');
        let Some((span, after)) = opened.split_once(fence.as_str()) else { break };
        spans.push(span.trim());
        rest = after;
    }
    spans
}

/// The line without its code spans.
pub(crate) fn without_spans(text: &str) -> String {
    let mut prose = text.to_owned();
    for span in spans(text) {
        prose = prose.replacen(&format!("`{span}`"), "", 1);
    }
    prose
}

/// Targets of the line's inline links and images.
pub(crate) fn links(text: &str) -> Vec<String> {
    let prose = without_spans(text);
    let after_text = prose.split("](").skip(1);
    after_text
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.split_whitespace().next().unwrap_or_default().to_owned())
        .collect()
}

/// A heading's anchor, as repository hosts build it.
pub(crate) fn anchor(heading: &str) -> String {
    let title = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = title.chars().filter(|&c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The cells of a table row; none for another line and for the rule under the header.
pub(crate) fn cells(text: &str) -> Vec<&str> {
    let row = text.trim();
    let Some(inner) = row.strip_prefix('|').and_then(|row| row.strip_suffix('|')) else {
        return Vec::new();
    };
    if inner.chars().all(|c| matches!(c, '-' | ':' | '|' | ' ')) {
        return Vec::new();
    }
    inner.split('|').map(str::trim).collect()
}

fn fence_marker(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let fence = text.chars().next().filter(|&c| c == '`' || c == '~')?;
    let end = text.find(|c| c != fence).unwrap_or(text.len());
    text.get(..end).filter(|marker| marker.len() >= 3)
}

/// True if the line holds nothing but characters of `marker`.
fn is_only(text: &str, marker: &str) -> bool {
    text.trim().chars().all(|c| marker.contains(c))
}

fn heading_level(text: &str) -> Option<usize> {
    let level = text.chars().take_while(|&c| c == '#').count();
    ((1..=6).contains(&level) && text.chars().nth(level) == Some(' ')).then_some(level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heading_in_a_code_block_is_code() {
        let text = "# Title\n```sh\n# comment\n```\n## Next\n#hash";

        let parts: Vec<Part> = lines(text).iter().map(|line| line.part).collect();

        let code = [Part::Code { block: 1 }; 3];
        assert_eq!(parts[0], Part::Heading(1));
        assert_eq!(parts[1..4], code);
        assert_eq!(parts[4..], [Part::Heading(2), Part::Prose]);
    }

    #[test]
    fn code_blocks_keep_their_language_and_their_line() {
        let text = "a\n```sh\nx\n```\n```\ny\n```\nb\n````md\n```\n````";

        let blocks = code_blocks(text);

        assert_eq!(blocks[0], (2, "```sh\nx\n```".to_owned()));
        assert_eq!(blocks[1], (5, "```\ny\n```".to_owned()));
        assert_eq!(blocks[2], (9, "````md\n```\n````".to_owned()));
    }

    #[test]
    fn spans_links_and_prose_are_told_apart() {
        let line = "See `a_b` and ``c`d`` in [here](docs/x.md#y \"title\") not `[no](no.md)`.";

        assert_eq!(spans(line), ["a_b", "c`d", "[no](no.md)"]);
        assert_eq!(links(line), ["docs/x.md#y"]);
    }

    #[test]
    fn anchors_are_lower_case_with_dashes() {
        assert_eq!(anchor("## Add a store, or two!"), "add-a-store-or-two");
        assert_eq!(anchor("## 一条命令"), "一条命令");
    }

    #[test]
    fn a_row_has_cells_and_its_rule_has_none() {
        assert_eq!(cells("| a | `b` |"), ["a", "`b`"]);
        assert!(cells("|---|:-:|").is_empty());
        assert!(cells("plain").is_empty());
    }
}
