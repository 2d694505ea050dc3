//! Which addresses and ports on the internet a stranger may send us to. Pure.
//! Invariant: an address that carries another one inside is only as public as that one.

use ipnet::{Ipv4Net, Ipv6Net};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Can everybody on the internet reach this address, and nobody's own network alone?
pub fn is_global(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_global_v4(ip),
        IpAddr::V6(ip) => is_global_v6(ip),
    }
}

/// What stands for this address where addresses are counted. Whoever has one of IPv6 has at least all
/// that share its first half.
pub fn counted_as(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => ip.into(),
        IpAddr::V6(ip) if MAPPED.contains(&ip) || NAT64.contains(&ip) => last_four_bytes(ip).into(),
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
    }
}

fn is_global_v4(ip: Ipv4Addr) -> bool {
    !NOT_GLOBAL_V4.iter().any(|net| net.contains(&ip))
}

fn is_global_v6(ip: Ipv6Addr) -> bool {
    // The kernel speaks IPv4 to a mapped address, and a NAT64 gateway to a translated one; where
    // there is only IPv6, every other server has a translated address.
    if MAPPED.contains(&ip) || NAT64.contains(&ip) {
        return is_global_v4(last_four_bytes(ip));
    }
    GLOBAL_V6.contains(&ip) && !NOT_GLOBAL_V6.iter().any(|net| net.contains(&ip))
}

fn last_four_bytes(ip: Ipv6Addr) -> Ipv4Addr {
    let [.., a, b, c, d] = ip.octets();
    Ipv4Addr::new(a, b, c, d)
}

const fn v4(a: u8, b: u8, c: u8, d: u8, len: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), len)
}

const fn v6(head: [u16; 4], len: u8) -> Ipv6Net {
    let [a, b, c, d] = head;
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0), len)
}

const NOT_GLOBAL_V4: [Ipv4Net; 17] = [
    v4(0, 0, 0, 0, 8),     // this network; Linux takes 0.0.0.0 for the machine itself
    v4(10, 0, 0, 0, 8),    // private
    v4(100, 64, 0, 0, 10), // behind a carrier's NAT; a cloud's metadata at 100.100.100.200
    v4(127, 0, 0, 0, 8),   // the machine itself
    v4(168, 63, 129, 16, 32), // a cloud's own host, public by its looks only
    v4(169, 254, 0, 0, 16), // link-local, with the metadata of most clouds
    v4(172, 16, 0, 0, 12), // private
    v4(192, 0, 0, 0, 24),  // protocol assignments; a cloud's metadata at 192.0.0.192
    v4(192, 0, 2, 0, 24),  // documentation
    v4(192, 88, 99, 0, 24), // 6to4 relays, long gone
    v4(192, 168, 0, 0, 16), // private
    v4(198, 18, 0, 0, 15), // benchmarks
    v4(198, 51, 100, 0, 24), // documentation
    v4(203, 0, 113, 0, 24), // documentation
    v4(224, 0, 0, 0, 4),   // multicast
    v4(240, 0, 0, 0, 4),   // reserved
    v4(255, 255, 255, 255, 32),
];

const MAPPED: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96);
const NAT64: Ipv6Net = v6([0x64, 0xff9b, 0, 0], 96);

/// All that was ever given out. Outside of it are `::`, `::1`, IPv4-compatible addresses, the
/// NAT64 of single networks (`64:ff9b:1::/48`), `100::/64`, `fc00::/7`, `fe80::/10`, `fec0::/10`
/// and multicast.
const GLOBAL_V6: Ipv6Net = v6([0x2000, 0, 0, 0], 3);

const NOT_GLOBAL_V6: [Ipv6Net; 5] = [
    v6([0x2001, 0, 0, 0], 23), // protocol assignments: Teredo, benchmarks, ORCHID and more
    v6([0x2001, 0xdb8, 0, 0], 32), // documentation
    v6([0x2002, 0, 0, 0], 16), // 6to4: leads to any IPv4 address, and nobody serves there
    v6([0x3ffe, 0, 0, 0], 16), // an experiment that ended
    v6([0x3fff, 0, 0, 0], 20), // documentation
];

/// May a stranger send us to this port? The ones for the web, and those no privilege is needed
/// for, without those where a line of HTTP could be taken for a command.
pub fn is_open_port(port: u16) -> bool {
    matches!(port, 80 | 443 | 1024..) && !CLOSED_PORTS.contains(&port)
}

const CLOSED_PORTS: [u16; 47] = [
    1433, 1521, 1719, 1720, 1723, 1883, 2049, 2181, 2375, 2376, 2379, 2380, 2525, 3306, 3389, 3659,
    4045, 4190, 4369, 5060, 5061, 5432, 5672, 5900, 5984, 6000, 6379, 6380, 6566, 6665, 6666, 6667,
    6668, 6669, 6679, 6697, 8125, 9042, 9092, 9200, 9300, 10080, 10250, 11211, 11300, 26379, 27017,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn global(text: &str) -> bool {
        is_global(text.parse().unwrap())
    }

    #[test]
    fn s40_what_everybody_can_reach_is_global() {
        for ip in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.1",
            "168.63.129.15",
            "168.63.129.17",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.0.3.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700::1",
            "2a00:1450::1",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2003::1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2001:db7:ffff::1",
            "2001:db9::1",
            "3ffd::1",
        ] {
            assert!(global(ip), "{ip}");
        }
    }

    #[test]
    fn s40_every_edge_of_every_closed_network_is_closed() {
        for net in NOT_GLOBAL_V4 {
            for ip in [net.network(), net.broadcast()] {
                assert!(!is_global(ip.into()), "{ip}");
                assert!(!is_global(ip.to_ipv6_mapped().into()), "mapped {ip}");
                assert!(!is_global(ip.to_ipv6_compatible().into()), "compatible {ip}");
                let [a, b, c, d] = ip.octets().map(u16::from);
                let (high, low) = (a << 8 | b, c << 8 | d);
                for wrapped in [
                    Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
                    Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, high, low),
                    Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
                    Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, !high, !low),
                ] {
                    assert!(!is_global(wrapped.into()), "{wrapped}");
                }
            }
        }
        for net in NOT_GLOBAL_V6 {
            for ip in [net.network(), net.broadcast()] {
                assert!(!is_global(ip.into()), "{ip}");
            }
        }
    }

    #[test]
    fn s40_what_lies_outside_the_given_out_space_is_closed() {
        for ip in [
            "::",
            "::1",
            "::2",
            "::8.8.8.8",
            "::ffff:0:0",
            "::ffff:127.0.0.1",
            "64:ff9b:1::8.8.8.8",
            "64:ff9b:0:1::8.8.8.8",
            "100::1",
            "100:0:0:1::1",
            "1fff:ffff::1",
            "4000::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fd12:3456::1",
            "fe80::1",
            "fe80::a9fe:a9fe",
            "fec0::1",
            "ff02::1",
            "ff0e::1",
        ] {
            assert!(!global(ip), "{ip}");
        }
    }

    #[test]
    fn s40_ports_are_those_of_the_web_and_the_unprivileged_ones() {
        for open in [80, 443, 1024, 3334, 4848, 7334, 7777, 8080, 8443, 8888, 65535] {
            assert!(is_open_port(open), "{open}");
        }
        for closed in [0, 1, 22, 25, 53, 81, 465, 587, 993, 1023, 3306, 5432, 6379, 6667, 11211] {
            assert!(!is_open_port(closed), "{closed}");
        }
    }

    #[test]
    fn s35_a_network_counts_as_one_and_an_address_inside_another_as_itself() {
        for (ip, counted) in [
            ("9.9.9.9", "9.9.9.9"),
            ("::ffff:9.9.9.9", "9.9.9.9"),
            ("64:ff9b::9.9.9.9", "9.9.9.9"),
            ("2a00:1:2:3:4:5:6:7", "2a00:1:2:3::"),
            ("2a00:1:2:3:ffff:ffff:ffff:ffff", "2a00:1:2:3::"),
            ("2a00:1:2:4::1", "2a00:1:2:4::"),
        ] {
            assert_eq!(counted_as(ip.parse().unwrap()).to_string(), counted, "{ip}");
        }
    }
}
