//! Tests with more than one process: a test starts its own program again and gives it a part.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

const PART: &str = "HAPAX_STORE_PART";
const PLACE: &str = "HAPAX_STORE_PLACE";
/// Lines that a part says begin with this; the rest is the test runner's.
const MARK: &str = "part says: ";
/// A part that says nothing for so long hangs.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// The part that this process plays, and the database that it plays on.
pub(crate) fn part() -> Option<(String, String)> {
    Some((std::env::var(PART).ok()?, std::env::var(PLACE).ok()?))
}

/// Says a line to the process that started us.
pub(crate) fn say(line: &str) {
    println!("{MARK}{line}");
}

/// Waits for a word of the process that started us.
pub(crate) fn hear() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
}

/// Another process that plays a part.
pub(crate) struct Actor {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl Actor {
    /// Starts `test` of this program again, as `part` on the database at `place`.
    pub(crate) fn start(test: &str, part: &str, place: &str) -> Self {
        Self::run(Command::new(std::env::current_exe().unwrap()), test, part, place)
    }

    /// The same, where files may have at most `blocks` of 512 bytes until they are
    /// [relieved](Self::relieve).
    pub(crate) fn start_confined(test: &str, part: &str, place: &str, blocks: u32) -> Self {
        let mut shell = Command::new("sh");
        // Without the trap the kernel would kill the writer instead of refusing the write.
        let script = format!("trap '' 25; ulimit -S -f {blocks}; exec \"$@\"");
        shell.args(["-c", &script, "sh"]).arg(std::env::current_exe().unwrap());
        Self::run(shell, test, part, place)
    }

    fn run(mut command: Command, test: &str, part: &str, place: &str) -> Self {
        let mut child = command
            .args(["--exact", test, "--nocapture"])
            .env(PART, part)
            .env(PLACE, place)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if let Some((_, said)) = line.split_once(MARK) {
                    sender.send(said.to_owned()).ok();
                }
            }
        });
        Self { child, stdin, lines }
    }

    /// The next line that it says.
    pub(crate) fn line(&self) -> String {
        self.lines.recv_timeout(SILENCE_MAX).expect("the part says something")
    }

    /// Gives it a word.
    pub(crate) fn tell(&mut self) {
        self.stdin.write_all(b"go\n").unwrap();
    }

    /// `kill -9`, and what it had said until then.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        // The reader ends with the pipe.
        self.lines.iter().collect()
    }

    /// Sends a signal by name.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status().unwrap();
        assert!(sent.success());
    }

    /// Takes the bound on files away.
    pub(crate) fn relieve(&self) {
        let pid = self.child.id().to_string();
        let done = Command::new("prlimit").args(["--pid", &pid, "--fsize=unlimited"]).status();
        assert!(done.unwrap().success());
    }

    /// Waits for its end, which must be a good one, and gives what it said.
    pub(crate) fn finish(mut self) -> Vec<String> {
        drop(self.stdin);
        let status = self.child.wait().unwrap();
        assert!(status.success(), "a part failed: {status}");
        self.lines.iter().collect()
    }
}
