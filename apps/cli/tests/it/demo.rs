//! The demo and the servers as they are started, looked at and stopped.
//!
//! One order cannot meet every kind of trouble: such a run is void, which is no success.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use serde_json::Value;

use crate::stage::{Stage, said};

const SHORT: [&str; 5] = ["demo", "--orders", "1", "--seed", "3"];

/// A demo whose directory is made in the shop's.
fn demo(stage: &Stage, more: &[&str]) -> Command {
    let mut command = stage.command(&[&SHORT, more].concat());
    // `kill` is how its children are told to stop.
    command.env("TMPDIR", stage.path("")).env("PATH", std::env::var_os("PATH").unwrap());
    command
}

/// What demos have left.
fn left(stage: &Stage) -> Vec<PathBuf> {
    let entries = fs::read_dir(stage.path("")).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.to_str().unwrap().contains("hapax-demo-")).collect()
}

fn terminate(child: &Child) {
    let told = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(told.success());
}

/// The status line of an answer.
fn ask(base: &str, path: &str, key: &str) -> String {
    let address = base.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n\
         Connection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap().to_owned()
}

#[test]
fn a_kept_demo_tells_its_account_before_it_waits() {
    let stage = Stage::bare();
    let mut child = demo(&stage, &["--keep"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let account: Vec<String> =
        lines.by_ref().take_while(|line| !line.starts_with("verd")).collect();
    assert!(account.iter().any(|line| line.starts_with("orders ")), "{account:?}");
    let mut export = |name: &str| {
        let line = lines.next().unwrap();
        line.strip_prefix(&format!("export {name}=")).unwrap_or_else(|| panic!("{line}")).to_owned()
    };
    let (service, key, simulator) = (export("HAPAX"), export("KEY"), export("SIM"));
    assert_eq!(ask(&service, "/v1/orders/none", &key), "HTTP/1.1 404 Not Found");
    assert_eq!(ask(&service, "/v1/orders/none", "x"), "HTTP/1.1 401 Unauthorized");
    assert_eq!(ask(&simulator, "/_sim/truth", ""), "HTTP/1.1 200 OK");
    terminate(&child);
    let said = said(child.wait_with_output().unwrap());
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("interrupt to stop"), "{said:?}");
}

#[test]
fn a_demo_that_does_not_pass_leaves_its_directory() {
    let stage = Stage::bare();
    let mut command = demo(&stage, &["--json"]);
    let said = said(command.output().unwrap());
    assert_eq!(said.code, 1, "{said:?}");
    let account: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(account["verdict"], "void", "{account}");
    let [left] = &left(&stage)[..] else { panic!("{said:?}") };
    assert!(said.err.contains(&format!("what it left is in {}", left.display())), "{said:?}");
    for file in ["hapax.toml", "hapax.db", "service.log", "sim.log"] {
        assert!(left.join(file).is_file(), "{file}");
    }
}

#[test]
fn a_demo_goes_on_without_a_reader() {
    let stage = Stage::bare();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let said = said(demo(&stage, &["--json"]).stdout(writer).output().unwrap());
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("did not happen") && !said.err.contains("panicked"), "{said:?}");
}

#[test]
fn servers_go_on_without_a_reader() {
    let stage = Stage::bare();
    assert_eq!(stage.hapax(&["init", "--dev", "shop"]).code, 0);
    for args in [&["sim", "alipay", "--dir", "shop"][..], &["serve", "--config", "shop/hapax.toml"]]
    {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let listen = port.to_string();
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = stage.command(&[args, &["--listen", &listen]].concat());
        let child = command.stdout(Stdio::from(writer)).spawn().unwrap();
        while TcpStream::connect(port).is_err() {
            std::thread::yield_now();
        }
        // An answer comes only after the address was told.
        assert!(ask(&format!("http://{listen}"), "/", "").starts_with("HTTP/1.1 "), "{args:?}");
        terminate(&child);
        let said = said(child.wait_with_output().unwrap());
        assert_eq!(said.code, 0, "{said:?}");
        assert!(!said.err.contains("panicked"), "{said:?}");
    }
}
