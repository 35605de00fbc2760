//! `cargo xtask bless`: accepts what the tests now print. The diff is for a person to read.

use crate::run::Step;

/// `cargo test`, since trybuild and insta then write through in one pass of each test.
pub(crate) fn steps(package: Option<&str>) -> Vec<Step> {
    let mut args = vec!["test", "--tests", "--no-fail-fast"];
    match package {
        Some(name) => args.extend(["--package", name]),
        None => args.push("--workspace"),
    }
    let accept =
        Step::cargo("accept", &args).env("INSTA_UPDATE", "always").env("TRYBUILD", "overwrite");
    vec![accept, Step::cargo("format", &["fmt", "--all"])]
}
