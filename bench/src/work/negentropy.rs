//! NIP-77 from the client's side: what does the server have that we lack?

use crate::wire::{Socket, connect, hear_until, say};
use anyhow::{Context, Result, bail};
use grasp_core::id::hex_push;
use grasp_core::{EventId, Timestamp};
use grasp_relay::neg::{Difference, Step};
use grasp_relay::{IdSet, Initiator};
use serde_json::Value;
use std::time::{Duration, Instant};

/// As large as the server's own frames.
const FRAME_BYTES: usize = 60_000;

#[derive(Debug, Default)]
pub(crate) struct Reconciled {
    pub(crate) took: Duration,
    pub(crate) rounds: usize,
    /// Message text, both ways.
    pub(crate) bytes: usize,
    pub(crate) needed: usize,
}

/// Reconciles what we hold with everything the server has. The clock runs from our first
/// fingerprint to the last id; that our own set lies ready is our own affair.
pub(crate) async fn reconcile(
    address: &str,
    ours: impl IntoIterator<Item = (Timestamp, EventId)>,
) -> Result<Reconciled> {
    let set = IdSet::collect(ours, usize::MAX)?;
    let mut socket = connect(address).await?;
    let mut seen = Reconciled::default();
    let started = Instant::now();
    let mut initiator = Initiator::new(set, FRAME_BYTES)?;
    let mut message = message("[\"NEG-OPEN\",\"n\",{},\"", &initiator.initiate()?);
    loop {
        seen.rounds += 1;
        seen.bytes += message.len();
        let (answer, len) = exchange(&mut socket, message).await?;
        seen.bytes += len;
        match initiator.handle_answer(&answer)? {
            Step::Send(next) => message = self::message("[\"NEG-MSG\",\"n\",\"", &next),
            Step::Done(Difference { need, .. }) => {
                seen.took = started.elapsed();
                seen.needed = need.len();
                say(&mut socket, "[\"NEG-CLOSE\",\"n\"]").await?;
                return Ok(seen);
            }
        }
    }
}

fn message(start: &str, payload: &[u8]) -> String {
    let mut text = String::with_capacity(start.len() + payload.len() * 2 + 2);
    text.push_str(start);
    hex_push(&mut text, payload);
    text.push_str("\"]");
    text
}

/// The answer's payload, and its length as it came.
async fn exchange(socket: &mut Socket, message: String) -> Result<(Vec<u8>, usize)> {
    say(socket, message).await?;
    let text = hear_until(socket, "[\"NEG-").await?;
    let answer: Value = serde_json::from_str(&text)?;
    if answer.get(0).is_none_or(|verb| verb != "NEG-MSG") {
        bail!("the server refused to reconcile: {}", text.as_str());
    }
    let payload = answer.get(2).and_then(Value::as_str).context("a NEG-MSG without payload")?;
    Ok((decode(payload)?, text.len()))
}

fn decode(hex: &str) -> Result<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    hex.as_bytes().chunks(2).map(byte).collect::<Option<_>>().context("the payload is not hex")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_as_hex_reads_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        let text = message("", &bytes);
        assert_eq!(decode(text.trim_end_matches("\"]")).unwrap(), bytes);
        assert!(decode("0").is_err());
        assert!(decode("0g").is_err());
    }
}
