//! The first request of every clone, fetch and push. Answered from memory: no git process, and the
//! bytes are made once for each state of the refs.

use crate::http::respond::{self, Answer};
use crate::repos::Shown;
use grasp_git::{Protocol, Service, advertise};

pub(super) fn advertised(shown: &Shown, service: Service, protocol: Protocol) -> Answer {
    let protocol = protocol.for_service(service);
    respond::git(advertise::advertisement_type(service), shown.advertisement(service, protocol))
}
