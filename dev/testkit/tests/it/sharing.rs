//! Servers that processes share, and what is left when processes end.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use tempfile::TempDir;

use hapax_testkit::is_running;

/// Longer than a server lives that nobody uses.
const PAST_IDLE: Duration = Duration::from_secs(8);

#[test]
fn two_processes_share_a_server_and_leave_none() {
    let dir = open_dir();
    let starting: Vec<Child> = (0..6).map(|_| hold(&["postgres", "redis"], dir.path())).collect();
    let mut holders: Vec<(Child, Vec<String>)> = starting.into_iter().map(ready).collect();
    let (mut last, urls) = holders.pop().unwrap();
    assert!(urls[0].starts_with("HAPAX_TEST_POSTGRES=postgres://"), "{urls:?}");
    let servers = processes_with("redis-server", dir.path());
    assert_eq!(servers.len(), 1, "more than one server was started");

    for (mut holder, others) in holders {
        assert_eq!(others, urls);
        holder.kill().unwrap();
        holder.wait().unwrap();
    }
    thread::sleep(PAST_IDLE);
    assert!(is_running(servers[0]), "ended while somebody held it");

    last.kill().unwrap();
    last.wait().unwrap();
    wait_until_none(dir.path());
}

#[test]
fn a_server_without_its_guardian_ends_and_the_next_user_starts_another() {
    let dir = open_dir();
    let (mut first, before) = ready(hold(&["redis"], dir.path()));
    let server = processes_with("redis-server", dir.path());
    assert_eq!(server.len(), 1);
    for guardian in processes_with("keep.sh", dir.path()) {
        Command::new("kill").args(["-KILL", &guardian.to_string()]).status().unwrap();
    }
    wait_until(|| !is_running(server[0]));
    let (mut second, after) = ready(hold(&["redis"], dir.path()));

    assert_ne!(before, after);
    for holder in [&mut first, &mut second] {
        // The end of its input ends it.
        drop(holder.stdin.take());
        assert!(holder.wait().unwrap().success());
    }
    wait_until_none(dir.path());
}

#[test]
fn a_killed_test_leaves_no_server() {
    for (name, program) in [
        ("server::postgres_keeps_its_rows_over_a_kill", "bin/postgres"),
        ("server::mariadb_keeps_its_rows_over_a_kill", "mariadbd"),
        ("cluster::a_slot_moves_with_its_keys", "redis-server"),
    ] {
        let dir = open_dir();
        let mut test = Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact"])
            .env("TMPDIR", dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until(|| !processes_with(program, dir.path()).is_empty());
        test.kill().unwrap();
        test.wait().unwrap();
        wait_until_none(dir.path());
        let private = dir.path().join(format!("hapax-testkit-{}", own_user(dir.path())));
        wait_until(|| fs::read_dir(private.join("private")).unwrap().next().is_none());
    }
}

#[test]
fn the_nodes_of_a_cluster_end_together() {
    let dir = open_dir();
    let (mut holder, urls) = ready(hold(&["redis-cluster"], dir.path()));
    assert_eq!(processes_with("redis-server", dir.path()).len(), 6, "{urls:?}");
    holder.kill().unwrap();
    holder.wait().unwrap();

    thread::sleep(PAST_IDLE);
    assert_eq!(processes_with("redis-server", dir.path()), [0; 0]);
}

#[test]
fn what_a_killed_guardian_left_is_removed_when_it_is_old() {
    let dir = open_dir();
    let private = dir.path().join(format!("hapax-testkit-{}/private", own_user(dir.path())));
    let (old, young) = (private.join("redis-old"), private.join("redis-young"));
    for left in [&old, &young] {
        fs::create_dir_all(left.join("data")).unwrap();
    }
    let touched = Command::new("touch").args(["-d", "1 hour ago"]).arg(&old).status().unwrap();
    assert!(touched.success());
    let (mut holder, _) = ready(hold(&["redis"], dir.path()));

    assert!(!old.exists() && young.exists());
    drop(holder.stdin.take());
    holder.wait().unwrap();
    wait_until_none(dir.path());
}

#[test]
fn a_server_that_is_not_known_is_refused_by_name() {
    let dir = open_dir();
    let refused = Command::new(env!("CARGO_BIN_EXE_hapax-servers"))
        .arg("oracle")
        .env("TMPDIR", dir.path())
        .output()
        .unwrap();
    assert!(!refused.status.success());
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(text.contains("oracle is no server of tests"), "{text}");
}

fn hold(names: &[&str], dir: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_hapax-servers"))
        .args(names)
        .env("TMPDIR", dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The holder and the lines that it printed before it was ready.
fn ready(mut holder: Child) -> (Child, Vec<String>) {
    let out = BufReader::new(holder.stdout.take().unwrap());
    let lines: Vec<String> =
        out.lines().map(Result::unwrap).take_while(|line| line != "ready").collect();
    assert!(holder.try_wait().unwrap().is_none(), "it ended after {lines:?}");
    (holder, lines)
}

/// A directory that the servers' accounts may enter.
fn open_dir() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

fn own_user(dir: &Path) -> u32 {
    fs::metadata(dir).unwrap().uid()
}

/// Processes of a program or a script whose command line names the directory.
fn processes_with(word: &str, dir: &Path) -> Vec<u32> {
    let dir = dir.to_str().unwrap();
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line);
            let first = line.split('\0').next().unwrap_or_default();
            let is_it =
                if word.ends_with(".sh") { line.contains(word) } else { first.ends_with(word) };
            is_it && line.contains(dir)
        })
        .collect()
}

fn wait_until_none(dir: &Path) {
    // All have the directory on their command line, but the sessions of PostgreSQL.
    wait_until(|| processes_with("", dir).is_empty());
}

fn wait_until(mut held: impl FnMut() -> bool) {
    for _ in 0..300 {
        if held() {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("not after fifteen seconds");
}
