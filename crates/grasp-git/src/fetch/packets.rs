//! Whole packets out of pieces of any size. What lies whole in a piece is not copied; what does not
//! is kept, never more than one packet of it.

use super::Refusal;
use crate::pktline::{self, BadPacket, LENGTH_LEN, Packet};

#[derive(Debug, Default)]
pub(super) struct Packets {
    /// A packet that came in parts.
    partial: Vec<u8>,
    /// What is in `partial` has been given out.
    spent: bool,
    /// Something was a packet already.
    begun: bool,
}

impl Packets {
    /// The next packet, taken from the front of `input`; `None` once all of `input` is taken.
    pub(super) fn next<'a, 'b: 'a>(
        &'a mut self,
        input: &mut &'b [u8],
    ) -> Result<Option<Packet<'a>>, Refusal> {
        if std::mem::take(&mut self.spent) {
            self.partial.clear();
        }
        let begun = self.begun;
        let refuse = |bad| refusal(bad, begun);
        if self.partial.is_empty()
            && let Some((packet, len)) = pktline::decode(input).map_err(refuse)?
        {
            *input = input.get(len..).unwrap_or_default();
            self.begun = true;
            return Ok(Some(packet));
        }
        // First the digits, then what they announce.
        for _ in 0..2 {
            let wanted = match self.partial.first_chunk() {
                Some(digits) => pktline::length(*digits).map_err(refuse)?.max(LENGTH_LEN),
                None => LENGTH_LEN,
            };
            let missing = wanted.saturating_sub(self.partial.len());
            let (now, later) = input.split_at(missing.min(input.len()));
            self.partial.extend_from_slice(now);
            *input = later;
        }
        let whole = pktline::decode(&self.partial).map_err(refuse)?;
        self.spent = whole.is_some();
        self.begun |= self.spent;
        Ok(whole.map(|(packet, _)| packet))
    }
}

/// What cannot begin a packet is no git server if it comes first, and a broken one afterwards.
pub(super) fn refusal(bad: BadPacket, begun: bool) -> Refusal {
    match (begun, bad) {
        (false, _) => Refusal::NotGit,
        (true, BadPacket::NotHex) => Refusal::Malformed("no packet where one should begin"),
        (true, BadPacket::Length) => Refusal::Malformed("a packet of an impossible length"),
    }
}
