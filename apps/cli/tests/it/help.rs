//! What `--help` says.

use crate::stage::Stage;

const PAGES: &[&str] = &[
    "demo",
    "init",
    "serve",
    "sim",
    "sim alipay",
    "keys",
    "keys list",
    "keys show",
    "keys release",
    "keys settle",
    "keys purge",
    "tokens",
    "tokens issue",
    "tokens check",
    "outbox",
    "outbox list",
    "outbox show",
    "outbox replay",
    "payments",
    "payments list",
    "payments show",
    "payments check",
    "migrate",
    "migrate info",
    "migrate up",
    "migrate dry-run",
    "verify",
    "completions",
];

#[test]
fn every_page_of_help_is_as_it_was_read() {
    let stage = Stage::bare();
    for page in PAGES {
        let mut args: Vec<_> = page.split(' ').collect();
        args.push("--help");
        let said = stage.hapax(&args);
        assert_eq!((said.code, said.err.as_str()), (0, ""), "{page}");
        insta::assert_snapshot!(format!("help {page}").replace(' ', "_"), said.out);
    }
}

#[test]
fn every_verb_has_an_example() {
    let stage = Stage::bare();
    let groups = ["sim", "keys", "tokens", "outbox", "payments", "migrate"];
    for page in PAGES.iter().filter(|page| !groups.contains(page)) {
        let mut args: Vec<_> = page.split(' ').collect();
        args.push("--help");
        let said = stage.hapax(&args);
        assert!(said.out.contains(&format!("hapax {page}")), "{page}: {said:?}");
        assert!(said.out.contains("Example"), "{page}: {said:?}");
    }
}

#[test]
fn the_readme_names_every_verb() {
    let readme = include_str!("../../README.md");
    for page in PAGES.iter().filter(|page| page.contains(' ')) {
        assert!(
            readme.contains(&format!("`{page}")) || readme.contains(&format!("`hapax {page}")),
            "{page} is not in the README"
        );
    }
}

#[test]
fn the_exit_codes_are_on_the_first_page() {
    let said = Stage::bare().hapax(&["--help"]);
    assert!(said.out.contains("Exit codes: 0 fine, 1 failed, 2 usage, 3 not found"), "{said:?}");
}

#[test]
fn every_shell_gets_its_completions() {
    let stage = Stage::bare();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let said = stage.hapax(&["completions", shell]);
        assert_eq!((said.code, said.err.as_str()), (0, ""), "{shell}");
        for word in ["release", "dry-run", "all-buried"] {
            assert!(said.out.contains(word), "{shell} knows {word}");
        }
    }
    stage.hapax(&["completions", "tcsh"]).refuses(2, "possible values");
}
