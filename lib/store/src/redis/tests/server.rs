//! A private server on a free port of the loopback, for as long as it is held.

use std::{
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;

pub(crate) struct Server {
    pub(crate) port: u16,
    dir: TempDir,
    args: Vec<String>,
    child: Child,
}

const READY_MAX: Duration = Duration::from_secs(10);

impl Server {
    pub(crate) fn start(args: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let child = spawn(port, &dir, &args);
        Self { port, dir, args, child }
    }

    /// A server as the store wants it, without the price of the disk.
    pub(crate) fn sound() -> Self {
        Self::start(&["--appendonly", "yes", "--appendfsync", "no"])
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn restart(&mut self) {
        self.child = spawn(self.port, &self.dir, &self.args);
    }
}

fn spawn(port: u16, dir: &TempDir, args: &[String]) -> Child {
    let mut child = Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
        .arg(dir.path())
        .args(args)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let begun_at = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(begun_at.elapsed() < READY_MAX, "redis-server does not come up");
        assert!(child.try_wait().unwrap().is_none(), "redis-server has ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
