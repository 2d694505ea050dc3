//! The refs a git server advertises, with their names: protocol version 0, which tells all of them in one
//! answer. Pure. What cannot be read is no list, rather than a short one.

use super::verdict::Refs;
use grasp_core::Oid;
use grasp_git::pktline::{Packet, decode};

const REFS_MAX: usize = 200_000;

pub(super) fn read(mut bytes: &[u8]) -> Result<Refs, String> {
    let broken = || "this is not a list of refs".to_owned();
    let mut refs = Refs::new();
    while !bytes.is_empty() {
        let (packet, len) = decode(bytes).map_err(|_| broken())?.ok_or_else(broken)?;
        bytes = bytes.get(len..).unwrap_or_default();
        let Packet::Data(line) = packet else { continue };
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        if line.starts_with(b"#") || line.starts_with(b"version ") {
            continue;
        }
        // Behind the first name stands what the server can do.
        let line = line.split(|b| *b == 0).next().unwrap_or_default();
        let line = std::str::from_utf8(line).map_err(|_| broken())?;
        let (oid, name) = line.split_once(' ').ok_or_else(broken)?;
        let oid: Oid = oid.parse().map_err(|_| broken())?;
        if name.starts_with("refs/") && !name.ends_with("^{}") {
            refs.insert(name.to_owned(), oid);
        }
        if refs.len() > REFS_MAX {
            return Err(format!("it has more than {REFS_MAX} refs"));
        }
    }
    Ok(refs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use grasp_git::pktline;

    fn advert(lines: &[&str]) -> Vec<u8> {
        let mut out = Vec::new();
        pktline::text(&mut out, "# service=git-upload-pack");
        out.extend_from_slice(b"0000");
        lines.iter().for_each(|line| pktline::text(&mut out, line));
        out.extend_from_slice(b"0000");
        out
    }

    #[test]
    fn names_and_ids_are_read_and_the_rest_is_passed_over() {
        let oid = "1".repeat(40);
        let lines = [
            format!("{oid} HEAD\0agent=x"),
            format!("{oid} refs/heads/main"),
            format!("{oid} refs/tags/v1"),
            format!("{oid} refs/tags/v1^{{}}"),
        ];
        let found = read(&advert(&lines.each_ref().map(String::as_str))).unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), ["refs/heads/main", "refs/tags/v1"]);
        let none = format!("{} capabilities^{{}}\0x", "0".repeat(40));
        assert_eq!(read(&advert(&[&none])), Ok(Refs::new()));
    }

    #[test]
    fn what_is_cut_off_or_something_else_is_no_list() {
        let whole = advert(&[&format!("{} refs/heads/main", "1".repeat(40))]);
        for bad in [&whole[..whole.len() - 7], b"<html>", b"0009hello", b"000"] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }
}
