//! Git's packets, as far as a forge makes or changes them.

/// The lines of the data packets, up to the first thing that is none.
pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    spans(bytes).into_iter().filter_map(move |(from, to)| {
        let line = bytes.get(from + 4..to)?;
        Some(line.strip_suffix(b"\n").unwrap_or(line))
    })
}

/// Where each packet is.
pub(super) fn spans(bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(len) = length(bytes.get(at..).unwrap_or_default()) {
        found.push((at, at + len));
        at += len;
    }
    found
}

fn length(bytes: &[u8]) -> Option<usize> {
    let digits = std::str::from_utf8(bytes.get(..4)?).ok()?;
    let len = usize::from_str_radix(digits, 16).ok()?.max(4);
    (len <= bytes.len()).then_some(len)
}

pub(super) fn line(text: &str) -> Vec<u8> {
    packet(format!("{text}\n").as_bytes())
}

pub(super) fn band(number: u8, bytes: &[u8]) -> Vec<u8> {
    let part = |part: &[u8]| packet(&[&[number], part].concat());
    bytes.chunks(60_000).flat_map(part).collect()
}

fn packet(payload: &[u8]) -> Vec<u8> {
    [format!("{:04x}", payload.len() + 4).as_bytes(), payload].concat()
}
