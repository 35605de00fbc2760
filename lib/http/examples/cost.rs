use std::{io::{Read,Write}, net::TcpStream, sync::Arc, time::Instant};
use axum::{Router, routing::post};
use http::request::Parts;
use hapax_core::{Effect, Hapax, Policy, store::MemoryStore};
use hapax_http::*;
fn cpu(tid: u32) -> f64 { let s=std::fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).unwrap(); s.split_whitespace().next().unwrap().parse::<f64>().unwrap()/1e3 }
async fn handler(b: bytes::Bytes) -> (http::StatusCode, [(&'static str,&'static str);1], bytes::Bytes) { drop(b); (http::StatusCode::CREATED, [("content-type","application/json")], bytes::Bytes::from_static(br#"{"id":7,"status":"created","amount":"12.34"}"#)) }
fn main() {
    let (tx, rx) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let tid: u32 = std::fs::read_link("/proc/thread-self").unwrap().file_name().unwrap().to_str().unwrap().parse().unwrap();
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async move {
            let hapax = Hapax::new(Arc::new(MemoryStore::new()));
            let op = hapax.declare("o", Policy::new(Effect::Opaque)).unwrap();
            let caller = Caller::parse("shop","ann").unwrap();
            let guard = IdempotencyLayer::new(op, move |_: &Parts| Ok::<_,Refusal>(caller.clone())).key(KeyRule::Optional);
            let app = Router::new().route("/bare", post(handler)).route("/o", post(handler).layer(guard));
            let l = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            tx.send((tid, l.local_addr().unwrap())).unwrap();
            axum::serve(l, app).await.unwrap();
        });
    });
    let (tid, addr) = rx.recv().unwrap();
    { let mut s=TcpStream::connect(addr).unwrap(); s.write_all(b"POST /o HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nidempotency-key: same-key-for-all\r\nconnection: close\r\ncontent-length: 50\r\n\r\n{\"order\":\"1001\",\"amount\":\"12.34\",\"currency\":\"CNY\"}").unwrap(); let mut t=String::new(); s.read_to_string(&mut t).unwrap(); println!("{t}"); }
    let conns = 32; let per = 400; let rounds = 8;
    let body = r#"{"order":"1001","amount":"12.34","currency":"CNY"}"#;
    let mut table: std::collections::BTreeMap<&str, Vec<f64>> = Default::default();
    for round in 0..rounds {
        for mode in std::env::args().nth(1).map_or(vec!["bare","nokey","replay","fresh","fresh","replay","nokey","bare"], |m| vec![["bare","nokey","replay","fresh"].into_iter().find(|x| *x==m).unwrap(); 6]) {
            let mut socks: Vec<TcpStream> = (0..conns).map(|_| { let s=TcpStream::connect(addr).unwrap(); s.set_nodelay(true).unwrap(); s }).collect();
            let t = Instant::now(); let c = cpu(tid);
            let salt = t.elapsed().as_nanos() as usize + round*1000 + table.get(mode).map_or(0, |v| v.len());
            let mut buf = [0u8; 4096];
            for i in 0..per {
                for (n, s) in socks.iter_mut().enumerate() {
                    let key = match mode { "fresh" => format!("idempotency-key: k-{salt}-{i}-{n}\r\n"), "replay" => "idempotency-key: same-key-for-all\r\n".to_string(), _ => String::new() };
                    let path = if mode=="bare" {"/bare"} else {"/o"};
                    s.write_all(format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nuser-agent: b\r\n{key}content-length: {}\r\n\r\n{body}", body.len()).as_bytes()).unwrap();
                }
                for s in socks.iter_mut() { let n = s.read(&mut buf).unwrap(); assert!(n>0); if i==0 { assert!(buf.starts_with(b"HTTP/1.1 201"), "{}", String::from_utf8_lossy(&buf[..n])); } }
            }
            let us = (cpu(tid)-c)/(conns*per) as f64;
            table.entry(mode).or_default().push(us);
        }
    }
    for (m, v) in &mut table { v.sort_by(f64::total_cmp); println!("{m}: min {:.2} median {:.2} us/req", v[0], v[v.len()/2]); }
    if std::env::args().nth(1).is_some() { return; } let med = |m: &str| { let v=&table[m]; v[v.len()/2] }; let min=|m:&str| table[m][0];
    for m in ["nokey","replay","fresh"] { println!("{m}: x{:.2} median, x{:.2} min", med(m)/med("bare"), min(m)/min("bare")); }
}
