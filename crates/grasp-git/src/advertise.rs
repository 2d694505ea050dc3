//! What a repository tells a client first: the refs it has and what this server can do with them.
//! Made from the table alone, byte for byte what git would say. Hidden refs never appear.

use crate::pktline;
use crate::refs::RefTable;
use bytes::Bytes;
use std::borrow::Cow;

/// Only what every supported git offers under our settings: a child answers what clients choose here.
const UPLOAD_CAPS_BEFORE_SYMREF: &str = "multi_ack thin-pack side-band side-band-64k ofs-delta \
    shallow deepen-since deepen-not deepen-relative no-progress include-tag multi_ack_detailed \
    allow-tip-sha1-in-want allow-reachable-sha1-in-want no-done";
const UPLOAD_CAPS_AFTER_SYMREF: &str = "filter object-format=sha1";
const RECEIVE_CAPS: &str = "report-status report-status-v2 delete-refs side-band-64k quiet atomic \
    ofs-delta object-format=sha1";
const V2_LINES: [&str; 4] =
    ["ls-refs", "fetch=shallow wait-for-done filter", "server-option", "object-format=sha1"];
pub(crate) const AGENT: &str = concat!("agent=graspd/", env!("CARGO_PKG_VERSION"));
/// Stands where the first ref would, so that an empty repository has a line for its capabilities.
const NO_REFS: &str = "0000000000000000000000000000000000000000 capabilities^{}";

/// Which half of git's smart HTTP a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Service {
    UploadPack,
    ReceivePack,
}

impl Service {
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::UploadPack, Self::ReceivePack].into_iter().find(|service| service.name() == name)
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::UploadPack => "git-upload-pack",
            Self::ReceivePack => "git-receive-pack",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    V0,
    V1,
    V2,
}

impl Protocol {
    /// From the `Git-Protocol` header. It would end in a child's environment, so only the two values
    /// git itself sends count; anything else is the protocol of those who send none.
    pub fn from_header(header: Option<&str>) -> Self {
        match header {
            Some("version=1") => Self::V1,
            Some("version=2") => Self::V2,
            _ => Self::V0,
        }
    }

    /// Pushes have no second version; a client that asked for it is answered as if it had not.
    pub fn for_service(self, service: Service) -> Self {
        match (service, self) {
            (Service::ReceivePack, Self::V2) => Self::V0,
            _ => self,
        }
    }
}

pub const fn advertisement_type(service: Service) -> &'static str {
    match service {
        Service::UploadPack => "application/x-git-upload-pack-advertisement",
        Service::ReceivePack => "application/x-git-receive-pack-advertisement",
    }
}

pub const fn request_type(service: Service) -> &'static str {
    match service {
        Service::UploadPack => "application/x-git-upload-pack-request",
        Service::ReceivePack => "application/x-git-receive-pack-request",
    }
}

pub const fn result_type(service: Service) -> &'static str {
    match service {
        Service::UploadPack => "application/x-git-upload-pack-result",
        Service::ReceivePack => "application/x-git-receive-pack-result",
    }
}

/// The body of `info/refs`.
pub fn advertisement(service: Service, protocol: Protocol, refs: &RefTable) -> Bytes {
    let mut out = Vec::new();
    pktline::text(&mut out, &format!("# service={}", service.name()));
    pktline::flush(&mut out);
    match protocol.for_service(service) {
        Protocol::V0 => put_refs(&mut out, service, refs),
        Protocol::V1 => {
            pktline::text(&mut out, "version 1");
            put_refs(&mut out, service, refs);
        }
        Protocol::V2 => put_capabilities(&mut out),
    }
    pktline::flush(&mut out);
    out.into()
}

fn put_capabilities(out: &mut Vec<u8>) {
    for line in ["version 2", AGENT].into_iter().chain(V2_LINES) {
        pktline::text(out, line);
    }
}

fn put_refs(out: &mut Vec<u8>, service: Service, refs: &RefTable) {
    let mut lines = match service {
        Service::UploadPack => lines_to_fetch(refs),
        Service::ReceivePack => lines_to_push(refs),
    };
    if lines.is_empty() {
        lines.push(NO_REFS.to_owned());
    }
    let mut caps = Some(capabilities(service, refs));
    for line in lines {
        match caps.take() {
            Some(caps) => pktline::text(out, &format!("{line}\0{caps}")),
            None => pktline::text(out, &line),
        }
    }
}

fn lines_to_fetch(refs: &RefTable) -> Vec<String> {
    let head = refs.head_entry().map(|(_, entry)| (Cow::Borrowed("HEAD"), entry));
    let mut lines = Vec::new();
    for (name, entry) in head.into_iter().chain(refs.listed()) {
        lines.push(format!("{} {name}", entry.oid));
        lines.extend(entry.peeled.map(|peeled| format!("{peeled} {name}^{{}}")));
    }
    lines
}

/// Who pushes compares what is there: HEAD and what lies behind a tag would tell it nothing.
fn lines_to_push(refs: &RefTable) -> Vec<String> {
    refs.listed().map(|(name, entry)| format!("{} {name}", entry.oid)).collect()
}

fn capabilities(service: Service, refs: &RefTable) -> String {
    match (service, refs.head_entry()) {
        (Service::ReceivePack, _) => format!("{RECEIVE_CAPS} {AGENT}"),
        (Service::UploadPack, Some((head, _))) => format!(
            "{UPLOAD_CAPS_BEFORE_SYMREF} symref=HEAD:{head} {UPLOAD_CAPS_AFTER_SYMREF} {AGENT}"
        ),
        (Service::UploadPack, None) => {
            format!("{UPLOAD_CAPS_BEFORE_SYMREF} {UPLOAD_CAPS_AFTER_SYMREF} {AGENT}")
        }
    }
}

#[cfg(test)]
mod tests;
