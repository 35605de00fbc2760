//! Both readmes say the same: equal headings, byte-equal code blocks.

use super::finding::Finding;
use super::markdown::{self, Part};
use super::tree::Tree;

const ENGLISH: &str = "README.md";
const CHINESE: &str = "README.zh-CN.md";

pub(super) fn find(tree: &Tree) -> Vec<Finding> {
    let missing: Vec<Finding> = [ENGLISH, CHINESE]
        .into_iter()
        .filter(|path| tree.text(path).is_none())
        .map(|path| Finding::new(path, 1, "is missing"))
        .collect();
    let (Some(english), Some(chinese)) = (tree.text(ENGLISH), tree.text(CHINESE)) else {
        return missing;
    };
    let mut findings = Vec::new();
    findings.extend(first_difference(&headings(english), &headings(chinese), "heading"));
    let blocks = (markdown::code_blocks(english), markdown::code_blocks(chinese));
    findings.extend(first_difference(&blocks.0, &blocks.1, "code block"));
    findings
}

fn headings(text: &str) -> Vec<(usize, usize)> {
    let lines = markdown::lines(text).into_iter();
    lines
        .filter_map(|line| match line.part {
            Part::Heading(level) => Some((line.number, level)),
            Part::Prose | Part::Code { .. } => None,
        })
        .collect()
}

/// Only the first: everything behind it would differ too.
fn first_difference<T: PartialEq>(
    english: &[(usize, T)],
    chinese: &[(usize, T)],
    what: &str,
) -> Option<Finding> {
    let longer = std::cmp::max(english.len(), chinese.len());
    (0..longer).find_map(|at| {
        let nth = at + 1;
        match (english.get(at), chinese.get(at)) {
            (Some((_, a)), Some((_, b))) if a == b => None,
            (Some((theirs, _)), Some((line, _))) => {
                let message =
                    format!("{what} {nth} differs from the one at line {theirs} of {ENGLISH}");
                Some(Finding::new(CHINESE, *line, message))
            }
            (Some((line, _)), None) => {
                Some(Finding::new(ENGLISH, *line, format!("{what} {nth} is missing in {CHINESE}")))
            }
            (None, Some((line, _))) => {
                Some(Finding::new(CHINESE, *line, format!("{what} {nth} is missing in {ENGLISH}")))
            }
            (None, None) => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::finding::places;
    use super::*;

    const A: &str = "# Hapax\n## Start\n```sh\ncargo run\n```\n## End\n";

    fn found(english: &str, chinese: &str) -> Vec<String> {
        places(&find(&Tree::of(&[(ENGLISH, english), (CHINESE, chinese)])))
    }

    #[test]
    fn translated_prose_with_equal_bones_passes() {
        assert!(found(A, "# Hapax\n## 开始\n文字\n```sh\ncargo run\n```\n## 结束\n").is_empty());
    }

    #[test]
    fn a_heading_or_a_block_that_differs_is_found() {
        assert_eq!(found(A, &A.replace("## End", "### End")), ["README.zh-CN.md:6"]);
        assert_eq!(found(A, &A.replace("run", "run ")), ["README.zh-CN.md:3"]);
        assert_eq!(found(A, "# Hapax\n## Start\n"), ["README.md:6", "README.md:3"]);
    }

    #[test]
    fn a_missing_readme_is_found() {
        let places = places(&find(&Tree::of(&[(ENGLISH, A)])));
        assert_eq!(places, ["README.zh-CN.md:1"]);
    }
}
