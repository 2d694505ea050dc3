//! Git's packets: four hex digits of length, then the bytes. Says where one packet ends and nothing
//! about what it means. Whatever the bytes, decoding neither panics nor reads past them.

/// The longest packet git makes or takes, its length digits included.
pub const PACKET_MAX: usize = 65_520;
/// What fits between the length digits and the end of the longest packet.
pub const PAYLOAD_MAX: usize = PACKET_MAX - LENGTH_LEN;
/// What fits into one packet of a side band, behind the band's number.
pub const BAND_PAYLOAD_MAX: usize = PAYLOAD_MAX - 1;
/// The digits before every packet.
pub const LENGTH_LEN: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packet<'a> {
    Data(&'a [u8]),
    Flush,
    Delim,
    ResponseEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadPacket {
    #[error("a packet does not begin with four hex digits; is this a git client?")]
    NotHex,
    #[error("a packet claims a length git does not use; is this a git client?")]
    Length,
}

/// The first packet and how many bytes it took; `None` if more bytes are needed to tell.
pub fn decode(bytes: &[u8]) -> Result<Option<(Packet<'_>, usize)>, BadPacket> {
    let Some((digits, _)) = bytes.split_first_chunk() else { return Ok(None) };
    let special = |packet| Ok(Some((packet, LENGTH_LEN)));
    match length(*digits)? {
        0 => special(Packet::Flush),
        1 => special(Packet::Delim),
        2 => special(Packet::ResponseEnd),
        len => Ok(bytes.get(LENGTH_LEN..len).map(|payload| (Packet::Data(payload), len))),
    }
}

/// What four digits announce: 0, 1 and 2 are packets without a payload, the rest are whole lengths.
pub fn length(digits: [u8; LENGTH_LEN]) -> Result<usize, BadPacket> {
    let mut len = 0;
    for digit in digits {
        let nibble = char::from(digit).to_digit(16).ok_or(BadPacket::NotHex)?;
        len = len * 16 + usize::try_from(nibble).map_err(|_| BadPacket::NotHex)?;
    }
    match len {
        0..=2 | LENGTH_LEN..=PACKET_MAX => Ok(len),
        _ => Err(BadPacket::Length),
    }
}

/// Appends one data packet. What does not fit is cut off: whoever may have more splits it first.
pub fn data(out: &mut Vec<u8>, payload: &[u8]) {
    let payload = payload.get(..PAYLOAD_MAX).unwrap_or(payload);
    out.extend_from_slice(format!("{:04x}", payload.len() + LENGTH_LEN).as_bytes());
    out.extend_from_slice(payload);
}

/// Appends a text line, as most packets are.
pub fn text(out: &mut Vec<u8>, line: &str) {
    data(out, format!("{line}\n").as_bytes());
}

/// Appends any number of bytes to a side band, in as many packets as they need; none at all still
/// makes one, which is how a connection is kept alive.
pub fn band(out: &mut Vec<u8>, band: Band, bytes: &[u8]) {
    let mut rest = bytes;
    loop {
        let (now, later) = rest.split_at(rest.len().min(BAND_PAYLOAD_MAX));
        out.extend_from_slice(format!("{:04x}", now.len() + LENGTH_LEN + 1).as_bytes());
        out.push(band as u8);
        out.extend_from_slice(now);
        rest = later;
        if rest.is_empty() {
            return;
        }
    }
}

/// The three lanes of a multiplexed answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Band {
    Data = 1,
    Progress = 2,
    Fatal = 3,
}

pub fn flush(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0000");
}

/// What stands between two parts of one message, in version 2.
pub fn delim(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0001");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn packets_have_gits_own_form() {
        let mut out = Vec::new();
        data(&mut out, b"a\n");
        text(&mut out, "foobar");
        band(&mut out, Band::Progress, b"x");
        flush(&mut out);
        assert_eq!(out, b"0006a\n000bfoobar\n0006\x02x0000");
    }

    #[test]
    fn decoding_waits_for_the_whole_packet_and_takes_no_more() {
        assert_eq!(decode(b""), Ok(None));
        assert_eq!(decode(b"000"), Ok(None));
        assert_eq!(decode(b"0006a"), Ok(None));
        assert_eq!(decode(b"0006abc"), Ok(Some((Packet::Data(b"ab"), 6))));
        assert_eq!(decode(b"0004"), Ok(Some((Packet::Data(b""), 4))));
        assert_eq!(decode(b"0000x"), Ok(Some((Packet::Flush, 4))));
        assert_eq!(decode(b"0001x"), Ok(Some((Packet::Delim, 4))));
        assert_eq!(decode(b"0002x"), Ok(Some((Packet::ResponseEnd, 4))));
        assert_eq!(decode(b"0003x"), Err(BadPacket::Length));
        assert_eq!(decode(b"fff1"), Err(BadPacket::Length));
        assert_eq!(decode(b"FFF0"), Ok(None), "git reads both cases");
        assert_eq!(decode(b"00g0"), Err(BadPacket::NotHex));
        assert_eq!(decode(b"-001"), Err(BadPacket::NotHex));
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(payload in prop::collection::vec(any::<u8>(), 0..=2_000)) {
            let mut out = Vec::new();
            data(&mut out, &payload);
            prop_assert_eq!(decode(&out), Ok(Some((Packet::Data(&payload), out.len()))));
        }

        #[test]
        fn a_band_loses_nothing_at_its_seams(len in 65_510_usize..65_525, more in 0_usize..2) {
            let bytes = vec![b'x'; len + more * BAND_PAYLOAD_MAX];
            let mut out = Vec::new();
            band(&mut out, Band::Data, &bytes);
            let (mut rest, mut joined) = (&out[..], Vec::new());
            while let Some((Packet::Data(payload), len)) = decode(rest).unwrap() {
                prop_assert_eq!(payload[0], 1);
                joined.extend_from_slice(&payload[1..]);
                rest = &rest[len..];
            }
            prop_assert!(rest.is_empty());
            prop_assert_eq!(joined, bytes);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in any::<Vec<u8>>()) {
            if let Ok(Some((_, len))) = decode(&bytes) {
                prop_assert!(len <= bytes.len());
            }
        }
    }
}
