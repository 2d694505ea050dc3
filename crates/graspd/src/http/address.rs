//! Who is at the other end. A forwarded address is believed only as far as trusted proxies vouch
//! for it: the rightmost one that is not itself a trusted proxy.

use crate::config::ForwardingHeader;
use hyper::HeaderMap;
use ipnet::IpNet;
use std::net::IpAddr;

/// The name of a forwarding header, and what stands before an address in it.
const fn form(header: ForwardingHeader) -> (&'static str, &'static str) {
    match header {
        ForwardingHeader::ForwardedFor => ("x-forwarded-for", ""),
        ForwardingHeader::Forwarded => ("forwarded", "for="),
        ForwardingHeader::RealIp => ("x-real-ip", ""),
    }
}

pub fn client(
    peer: IpAddr,
    headers: &HeaderMap,
    header: ForwardingHeader,
    trusted: &[IpNet],
) -> IpAddr {
    let peer = peer.to_canonical();
    if !is_trusted(peer, trusted) {
        return peer;
    }
    let (name, mark) = form(header);
    let mut nearest = peer;
    for address in addresses(headers, name, mark).into_iter().rev() {
        let Some(address) = address else { return nearest };
        nearest = address;
        if !is_trusted(address, trusted) {
            break;
        }
    }
    nearest
}

pub fn is_trusted(address: IpAddr, trusted: &[IpNet]) -> bool {
    trusted.iter().any(|net| net.contains(&address))
}

/// The addresses of a forwarding header, left to right; `None` for one that cannot be read.
fn addresses(headers: &HeaderMap, name: &str, mark: &str) -> Vec<Option<IpAddr>> {
    let values = headers.get_all(name).iter().map(|value| value.to_str().unwrap_or_default());
    let hops = values.flat_map(|value| value.split(','));
    let part = |hop: &str| -> Option<String> {
        let mut fields = hop.split(';').map(str::trim);
        let field = fields.find(|field| {
            field.get(..mark.len()).is_some_and(|start| start.eq_ignore_ascii_case(mark))
        })?;
        field.get(mark.len()..).map(|text| text.trim_matches('"').to_owned())
    };
    hops.map(|hop| part(hop).as_deref().and_then(parse)).collect()
}

/// `1.2.3.4`, `1.2.3.4:567`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:567`.
fn parse(text: &str) -> Option<IpAddr> {
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.split(']').next());
    let plain = || text.parse().ok();
    let with_port = || text.parse::<std::net::SocketAddr>().ok().map(|address| address.ip());
    let address: Option<IpAddr> = match bracketed {
        Some(inside) => inside.parse().ok(),
        None => plain().or_else(with_port),
    };
    address.map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client_of(peer: &str, headers: &[(&str, &str)], trusted: &[&str]) -> String {
        named_in(ForwardingHeader::ForwardedFor, peer, headers, trusted)
    }

    fn named_in(
        header: ForwardingHeader,
        peer: &str,
        headers: &[(&str, &str)],
        trusted: &[&str],
    ) -> String {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: hyper::header::HeaderName = name.parse().unwrap();
            map.append(name, value.parse().unwrap());
        }
        let trusted: Vec<IpNet> = trusted.iter().map(|net| net.parse().unwrap()).collect();
        client(peer.parse().unwrap(), &map, header, &trusted).to_string()
    }

    #[test]
    fn nobody_is_believed_without_trust() {
        assert_eq!(client_of("9.9.9.9", &[("x-forwarded-for", "1.1.1.1")], &[]), "9.9.9.9");
        assert_eq!(
            client_of("9.9.9.9", &[("x-forwarded-for", "1.1.1.1")], &["10.0.0.0/8"]),
            "9.9.9.9"
        );
    }

    #[test]
    fn the_rightmost_untrusted_address_counts() {
        let trusted = ["127.0.0.0/8", "10.0.0.0/8"];
        let forwarded = |value| client_of("127.0.0.1", &[("x-forwarded-for", value)], &trusted);
        assert_eq!(forwarded("1.1.1.1"), "1.1.1.1");
        assert_eq!(forwarded("6.6.6.6, 1.1.1.1, 10.0.0.2"), "1.1.1.1");
        assert_eq!(forwarded("1.1.1.1, junk, 10.0.0.2"), "10.0.0.2");
        assert_eq!(forwarded("10.0.0.3"), "10.0.0.3");
        assert_eq!(client_of("127.0.0.1", &[], &trusted), "127.0.0.1");
    }

    #[test]
    fn every_spelling_is_read() {
        let trusted = ["127.0.0.1/32"];
        let of = |name: &str, value| {
            let header = match name {
                "forwarded" => ForwardingHeader::Forwarded,
                "x-real-ip" => ForwardingHeader::RealIp,
                _ => ForwardingHeader::ForwardedFor,
            };
            named_in(header, "127.0.0.1", &[(name, value)], &trusted)
        };
        assert_eq!(of("forwarded", "for=1.2.3.4;proto=https"), "1.2.3.4");
        assert_eq!(of("forwarded", "proto=https;For=\"[2001:db8::1]:99\""), "2001:db8::1");
        assert_eq!(of("x-real-ip", "2001:db8::2"), "2001:db8::2");
        assert_eq!(of("x-forwarded-for", "1.2.3.4:567"), "1.2.3.4");
        assert_eq!(of("x-forwarded-for", "::ffff:1.2.3.4"), "1.2.3.4");
    }

    #[test]
    fn only_the_header_that_the_proxy_sets_is_believed() {
        let trusted = ["127.0.0.1/32"];
        let all = [
            ("x-forwarded-for", "1.1.1.1"),
            ("forwarded", "for=2.2.2.2"),
            ("x-real-ip", "3.3.3.3"),
        ];
        for (header, address) in [
            (ForwardingHeader::ForwardedFor, "1.1.1.1"),
            (ForwardingHeader::Forwarded, "2.2.2.2"),
            (ForwardingHeader::RealIp, "3.3.3.3"),
        ] {
            assert_eq!(named_in(header, "127.0.0.1", &all, &trusted), address);
        }
        let forged = [("forwarded", "for=6.6.6.6"), ("x-forwarded-for", "6.6.6.6")];
        let believed = named_in(ForwardingHeader::RealIp, "127.0.0.1", &forged, &trusted);
        assert_eq!(believed, "127.0.0.1", "the proxy named no client");
    }
}
