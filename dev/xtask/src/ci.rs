//! `cargo xtask ci`: the cheap checks first, then every test.

use std::path::Path;

use crate::run::Step;
use crate::{test, tidy_step};

pub(crate) fn steps(root: &Path) -> Vec<Step> {
    let mut steps = vec![
        Step::cargo("format", &["fmt", "--all", "--check"]),
        tidy_step(root.to_path_buf()),
        Step::cargo("clippy", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
        // `--lib`, since the library and the executable share the name `hapax`.
        Step::cargo("documentation", &["doc", "--workspace", "--no-deps", "--lib"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    ];
    steps.extend(test::steps());
    steps
}
