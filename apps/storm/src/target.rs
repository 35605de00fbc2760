//! Where requests may go: to this machine, nowhere else.
//!
//! Invariant: no request leaves for a host that is not loopback, whether the plan named it or an
//! answer did (`only_this_machine_is_attacked`, `an_answer_does_not_lead_elsewhere`).

use std::net::IpAddr;

use reqwest::Url;

use crate::error::{Error, Kind};

/// The base address of a server on this machine.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    base: Url,
}

impl Target {
    /// Reads `http://127.0.0.1:8080`; `what` names it in the refusal.
    pub(crate) fn parse(text: &str, what: &str) -> Result<Self, Error> {
        let refuse = |why: &str| {
            let example = "give an address such as http://127.0.0.1:8080";
            Err(Error::new(
                Kind::Target,
                format!("attack the {what} at {text:?}: {why}; {example}"),
            ))
        };
        let Ok(base) = Url::parse(text) else { return refuse("this is no URL") };
        if base.scheme() != "http" {
            return refuse("storm speaks plain http");
        }
        if !is_loopback(&base) {
            return refuse("this version attacks only servers on this machine");
        }
        if base.path() != "/" || base.query().is_some() {
            return refuse("the address must end after the port");
        }
        Ok(Self { base })
    }

    /// The address of a resource; each segment is escaped.
    pub(crate) fn at(&self, segments: &[&str]) -> Url {
        let mut url = self.base.clone();
        // Fails only for addresses that cannot be a base, which http is not.
        if let Ok(mut path) = url.path_segments_mut() {
            path.clear().extend(segments);
        }
        url
    }

    /// The address that a `Location` leads to, if it is on the same server.
    pub(crate) fn follow(&self, location: &str) -> Option<Url> {
        let url = self.base.join(location).ok()?;
        (url.origin() == self.base.origin()).then_some(url)
    }
}

/// The address of a page that a buyer is sent to, if it is on this machine.
pub(crate) fn local_page(address: &str) -> Option<Url> {
    Url::parse(address).ok().filter(|url| url.scheme() == "http" && is_loopback(url))
}

fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_attacked() {
        for good in
            ["http://127.0.0.1:80", "http://localhost:8080/", "http://[::1]:9", "http://127.9.9.9"]
        {
            assert!(Target::parse(good, "service").is_ok(), "{good}");
        }
        for bad in [
            "http://10.0.0.1:80",
            "http://example.com",
            "http://localhost.example.com",
            "http://127.0.0.1.example.com",
            "http://0.0.0.0:80",
            "http://user@192.168.0.1",
            "https://127.0.0.1",
            "http://127.0.0.1/base",
            "127.0.0.1:80",
            "",
        ] {
            let refusal = Target::parse(bad, "service").unwrap_err();
            assert_eq!(refusal.kind(), Kind::Target);
            assert!(refusal.to_string().contains("give an address such as"), "{refusal}");
        }
    }

    #[test]
    fn an_answer_does_not_lead_elsewhere() {
        let target = Target::parse("http://127.0.0.1:8080", "service").unwrap();
        let near = target.follow("/v1/operations/payment.create/k").unwrap();
        assert_eq!(near.as_str(), "http://127.0.0.1:8080/v1/operations/payment.create/k");
        assert!(target.follow("http://127.0.0.1:8080/x").is_some());
        for away in ["http://127.0.0.1:8081/x", "//example.com/x", "https://127.0.0.1:8080/x"] {
            assert!(target.follow(away).is_none(), "{away}");
        }
        assert!(local_page("http://127.0.0.1:9/gateway.do?a=b").is_some());
        assert!(local_page("http://openapi.alipay.com/gateway.do").is_none());
    }

    #[test]
    fn segments_are_escaped() {
        let target = Target::parse("http://127.0.0.1:8080", "service").unwrap();
        let url = target.at(&["v1", "operations", "payment.create", "a/b?c#d%e"]);
        assert_eq!(url.path(), "/v1/operations/payment.create/a%2Fb%3Fc%23d%25e");
    }
}
