//! Steps: what they are, how they are run and how their end is told.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};

use crate::clock::Stopwatch;

/// One thing to do, with a name for people.
pub(crate) struct Step {
    name: String,
    shown: String,
    work: Work,
}

enum Work {
    Program(Command),
    Ours(Box<dyn FnOnce() -> anyhow::Result<()>>),
}

/// What happens to the remaining steps after one has failed.
#[derive(Clone, Copy)]
pub(crate) enum OnFailure {
    Stop,
    Continue,
}

impl Step {
    /// Runs cargo with `args`; its output goes straight to the terminal.
    pub(crate) fn cargo(name: &str, args: &[&str]) -> Self {
        let mut command = Command::new(cargo());
        command.args(args);
        Self {
            name: name.to_owned(),
            shown: format!("cargo {}", args.join(" ")),
            work: Work::Program(command),
        }
    }

    /// Runs a function of this crate; `shown` is what a person types to run it alone.
    pub(crate) fn ours(
        name: &str,
        shown: &str,
        work: impl FnOnce() -> anyhow::Result<()> + 'static,
    ) -> Self {
        Self { name: name.to_owned(), shown: shown.to_owned(), work: Work::Ours(Box::new(work)) }
    }

    /// Sets a variable for a program and shows it in front of the command.
    #[must_use]
    pub(crate) fn env(mut self, key: &str, value: &str) -> Self {
        if let Work::Program(command) = &mut self.work {
            command.env(key, value);
            self.shown = format!("{key}=\"{value}\" {}", self.shown);
        }
        self
    }

    /// The command as a person would type it.
    #[cfg(test)]
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    fn perform(work: Work) -> anyhow::Result<()> {
        match work {
            Work::Program(mut command) => {
                let status = command.status().context("failed to start it")?;
                if !status.success() {
                    bail!("it ended with {status}");
                }
                Ok(())
            }
            Work::Ours(work) => work(),
        }
    }
}

/// The cargo that runs us, so that a pinned toolchain stays pinned.
pub(crate) fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Runs the steps in order and tells each one's time on standard error.
pub(crate) fn all(steps: Vec<Step>, on_failure: OnFailure) -> ExitCode {
    if run(steps, on_failure, &mut io::stderr()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// One line to standard error. A closed standard error ends nothing.
pub(crate) fn say(line: &str) {
    say_to(&mut io::stderr(), line);
}

fn run(steps: Vec<Step>, on_failure: OnFailure, out: &mut dyn Write) -> bool {
    let (mut passed, mut failed) = (0_usize, Vec::new());
    for Step { name, shown, work } in steps {
        say_to(out, &format!("xtask: {name}: {shown}"));
        let watch = Stopwatch::start();
        let end = Step::perform(work);
        let seconds = watch.elapsed().as_secs_f64();
        match end {
            Ok(()) => {
                passed += 1;
                say_to(out, &format!("xtask: {name} passed in {seconds:.1} s"));
            }
            Err(error) => {
                say_to(out, &format!("xtask: {name} failed after {seconds:.1} s: {error:#}"));
                failed.push(format!("xtask: failed at {name}: {shown}"));
                if matches!(on_failure, OnFailure::Stop) {
                    break;
                }
            }
        }
    }
    say_to(out, &format!("steps: {passed} passed, {} failed", failed.len()));
    if let Some(first) = failed.first() {
        say_to(out, first);
    }
    failed.is_empty()
}

fn say_to(out: &mut dyn Write, line: &str) {
    // Nobody is left to be told when standard error is closed.
    drop(writeln!(out, "{line}"));
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use anyhow::anyhow;

    use super::*;

    fn told(steps: Vec<Step>, on_failure: OnFailure) -> (bool, String) {
        let mut out = Vec::new();
        let passed = run(steps, on_failure, &mut out);
        (passed, String::from_utf8(out).unwrap())
    }

    fn noting(name: &'static str, notes: &Rc<RefCell<Vec<&'static str>>>) -> Step {
        let notes = Rc::clone(notes);
        Step::ours(name, "noted", move || {
            notes.borrow_mut().push(name);
            if name.starts_with("bad") { Err(anyhow!("broken")) } else { Ok(()) }
        })
    }

    #[test]
    fn the_first_failure_is_the_last_line_and_later_steps_do_not_run() {
        let notes = Rc::new(RefCell::new(Vec::new()));
        let steps = vec![noting("good", &notes), noting("bad", &notes), noting("late", &notes)];

        let (passed, text) = told(steps, OnFailure::Stop);

        assert!(!passed);
        assert_eq!(*notes.borrow(), ["good", "bad"]);
        assert!(
            text.ends_with("steps: 1 passed, 1 failed\nxtask: failed at bad: noted\n"),
            "{text}"
        );
    }

    #[test]
    fn every_step_runs_when_asked_to_continue() {
        let notes = Rc::new(RefCell::new(Vec::new()));
        let steps = vec![noting("bad one", &notes), noting("bad two", &notes), noting("x", &notes)];

        let (passed, text) = told(steps, OnFailure::Continue);

        assert!(!passed);
        assert_eq!(*notes.borrow(), ["bad one", "bad two", "x"]);
        assert!(text.ends_with("xtask: failed at bad one: noted\n"), "{text}");
    }

    #[test]
    fn a_program_that_fails_fails_its_step() {
        let (passed, text) =
            told(vec![Step::cargo("nonsense", &["no-such-command"])], OnFailure::Stop);

        assert!(!passed);
        assert!(text.ends_with("xtask: failed at nonsense: cargo no-such-command\n"), "{text}");
    }

    #[test]
    fn a_variable_is_shown_with_its_command() {
        let step = Step::cargo("version", &["--version"]).env("KEY", "value");

        let (passed, text) = told(vec![step], OnFailure::Stop);

        assert!(passed);
        assert!(text.starts_with("xtask: version: KEY=\"value\" cargo --version\n"), "{text}");
    }
}
