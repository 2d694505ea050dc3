//! Answers to a push, in the form the client asked for. Never decides anything. A refusal always
//! says `unpack <reason>` besides `ng`: clients built on libgit2 take `unpack ok` for success.

use crate::commands::{BadPush, PushHead};
use crate::pktline::{self, Band};
use bytes::Bytes;

/// A reason stands on one line with a ref name; longer ones are cut.
const REASON_BYTES_MAX: usize = 1_000;
/// The sentences for a person, shown above the report.
const ADVICE_BYTES_MAX: usize = 8_000;

/// Everything asked for is done.
pub fn accepted(head: &PushHead) -> Bytes {
    let mut out = Vec::new();
    if head.wants.wants_report() {
        put_report(&mut out, head, "ok", |name| format!("ok {name}"));
    }
    end(out, head)
}

/// Nothing of the push is done. `reason` is a few words beside each ref, `advice` says what to do.
pub fn refused(head: &PushHead, reason: &str, advice: &str) -> Bytes {
    let reason = one_line(reason, REASON_BYTES_MAX);
    let mut out = progress_text(head, advice).filter(|_| !advice.is_empty()).unwrap_or_default();
    if head.wants.wants_report() {
        put_report(&mut out, head, &reason, |name| format!("ng {name} {reason}"));
    } else {
        put_error(&mut out, head, &reason);
    }
    end(out, head)
}

/// A line the client shows at once; also what keeps its connection alive while it waits. A client
/// that asked for quiet gets an empty packet. `None` if this client cannot be told anything yet.
pub fn progress(head: &PushHead, text: &str) -> Option<Bytes> {
    let text = if head.wants.quiet { "" } else { text };
    progress_text(head, text).map(Bytes::from)
}

/// The command list could not be read, so how to answer is a guess: all git and libgit2 clients of
/// today ask for a side band, and both show what comes on its third lane.
pub fn refused_unread(why: &BadPush) -> Bytes {
    let mut out = Vec::new();
    let text = one_line(&why.to_string(), ADVICE_BYTES_MAX);
    pktline::band(&mut out, Band::Fatal, format!("{text}\n").as_bytes());
    pktline::flush(&mut out);
    out.into()
}

fn put_report(out: &mut Vec<u8>, head: &PushHead, unpack: &str, line: impl Fn(&str) -> String) {
    let mut report = Vec::new();
    pktline::text(&mut report, &format!("unpack {unpack}"));
    for command in &head.commands {
        pktline::text(&mut report, &line(&command.name));
    }
    pktline::flush(&mut report);
    if head.wants.side_band_64k {
        pktline::band(out, Band::Data, &report);
    } else {
        out.extend(report);
    }
}

fn put_error(out: &mut Vec<u8>, head: &PushHead, reason: &str) {
    if head.wants.side_band_64k {
        pktline::band(out, Band::Fatal, format!("{reason}\n").as_bytes());
    } else {
        pktline::text(out, &format!("ERR {reason}"));
    }
}

fn progress_text(head: &PushHead, text: &str) -> Option<Vec<u8>> {
    let mut lines = String::new();
    for line in text.lines() {
        let Some(room) = ADVICE_BYTES_MAX.checked_sub(lines.len() + 1) else { break };
        lines.push_str(&one_line(line, room));
        lines.push('\n');
    }
    let mut out = Vec::new();
    pktline::band(&mut out, Band::Progress, lines.as_bytes());
    head.wants.side_band_64k.then_some(out)
}

/// The lanes are closed by a flush of their own, behind the one that ends the report in them.
fn end(mut out: Vec<u8>, head: &PushHead) -> Bytes {
    if head.wants.side_band_64k {
        pktline::flush(&mut out);
    }
    out.into()
}

/// Reasons may quote what a stranger wrote: no line breaks, nothing a terminal would act on.
fn one_line(text: &str, bytes_max: usize) -> String {
    let fits = |(at, c): &(usize, char)| at + c.len_utf8() <= bytes_max;
    let chars = text.trim().char_indices().take_while(fits);
    chars.map(|(_, c)| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests;
