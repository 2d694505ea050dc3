//! From facts to findings. Every finding says what is wrong, why it matters and how to put it right,
//! with the setting or the command to use. Pure.

use super::facts::{
    Clock, DataRoot, Disk, Facts, Files, KeyFile, Lock, Proxy, Public, Reach, Trouble,
};
use crate::report::problems::NEARLY_FULL_PERCENT;
use crate::report::text::bytes;
use crate::report::{ProblemKind, ProblemReport};
use std::net::IpAddr;

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub name: &'static str,
    pub outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Fine(String),
    /// It could not be looked at, and why.
    Skipped(String),
    Wrong {
        wrong: String,
        why: String,
        fix: String,
    },
}

const SKEW_SECS_MAX: i64 = 60;
const FILES_MIN: u64 = 4_096;
/// Problems that have a check of their own here, which also works when the server does not run.
const CHECKED_HERE: [ProblemKind; 2] = [ProblemKind::DiskLow, ProblemKind::StoreNearlyFull];

pub fn judge(facts: &Facts) -> Vec<Check> {
    let mut checks = vec![check("configuration", configuration(facts)), check("git", git(facts))];
    checks.extend(facts.roots.iter().map(|root| check("data directory", data_root(root))));
    checks.extend(facts.disks.iter().map(|it| check("disk space", disk(it))));
    checks.push(check("lock", lock(&facts.lock)));
    checks.extend(facts.key.iter().map(|it| check("relay key", key_file(it))));
    checks.push(check("event store", store(facts.store)));
    checks.push(check("open files", files(facts.files)));
    checks.push(check("clock", clock(&facts.clocks)));
    checks.push(check("name", dns(&facts.public)));
    checks.push(check("public address", public(&facts.public)));
    checks.push(check("websocket", socket(&facts.public)));
    checks.push(check("body limit", body(&facts.public)));
    checks.push(check("git protocol", git_protocol(&facts.public)));
    checks.push(check("trusted proxy", proxy(&facts.proxy)));
    checks.extend(problems(&facts.problems));
    checks
}

/// What the server itself lists as its problems.
fn problems(all: &[ProblemReport]) -> Vec<Check> {
    let kinds = ProblemKind::all();
    let rest = kinds.into_iter().filter(|kind| !CHECKED_HERE.contains(kind));
    let found = rest.flat_map(|kind| {
        let of_kind = all.iter().filter(move |it| it.code == kind.code());
        of_kind.map(move |it| check(kind.code(), wrong(&it.what, &it.why, &it.fix)))
    });
    found.collect()
}

fn check(name: &'static str, outcome: Outcome) -> Check {
    Check { name, outcome }
}

fn fine(text: impl Into<String>) -> Outcome {
    Outcome::Fine(text.into())
}

fn skipped(text: impl Into<String>) -> Outcome {
    Outcome::Skipped(text.into())
}

fn wrong(wrong: impl Into<String>, why: &str, fix: impl Into<String>) -> Outcome {
    Outcome::Wrong { wrong: wrong.into(), why: why.into(), fix: fix.into() }
}

/// Unsound values were refused before anything was looked at.
fn configuration(facts: &Facts) -> Outcome {
    match facts.notes.as_slice() {
        [] => fine("every value is sound"),
        notes => fine(format!("every value is sound; to know: {}", notes.join("; "))),
    }
}

fn git(facts: &Facts) -> Outcome {
    let why = "repositories are served and checked by git; without one that works nothing is \
               cloned, pushed or fetched";
    match &facts.git {
        Ok((version, None)) => fine(format!("git {version}")),
        Ok((version, Some(warning))) => fine(format!("git {version}; {warning}")),
        Err(problem) => wrong(
            problem,
            why,
            "install git 2.39 or newer (`apt install git`), or set NGIT_GIT_BINARY to one, such as \
             /usr/bin/git",
        ),
    }
}

fn data_root(it: &DataRoot) -> Outcome {
    let (path, setting) = (it.path.display(), it.setting);
    let Some(trouble) = &it.trouble else {
        return match it.is_new {
            true => fine(format!("{path} is made with the first start")),
            false => fine(format!("{path} is ours and can be written to")),
        };
    };
    let no_start = "the server does not start without it";
    match trouble {
        Trouble::NotADirectory => wrong(
            format!("{path} is not a directory"),
            no_start,
            format!("move what is there away, or set {setting} to another directory"),
        ),
        Trouble::NotWritable(place) => wrong(
            format!("{} cannot be written to", place.display()),
            no_start,
            format!(
                "give it to the user that runs the server (`chown graspd {}`), or set {setting} to \
                 another directory",
                place.display()
            ),
        ),
        Trouble::Foreign(found) => wrong(
            format!("{path} holds something else: {found}"),
            "graspd touches nothing it did not make",
            format!("set {setting} to an empty directory"),
        ),
        Trouble::CaseInsensitive => wrong(
            format!("{path} does not tell upper from lower case"),
            "branches and repositories whose names differ only in that would overwrite each other",
            format!("set {setting} to a directory on a filesystem that does, such as ext4 or xfs"),
        ),
        Trouble::TwoFilesystems(place) => wrong(
            format!("{} is on another filesystem than {path}", place.display()),
            "packs are checked in one place and moved to the other in one step, which does not \
             work between filesystems",
            format!(
                "unmount it, or set {setting} to a directory that is on one filesystem as a whole"
            ),
        ),
        Trouble::Unreadable(why) => wrong(
            format!("{path} cannot be looked at: {why}"),
            no_start,
            format!("run this as the user that runs the server, or set {setting}"),
        ),
    }
}

fn disk(it: &Disk) -> Outcome {
    let (path, free) = (it.path.display(), bytes(it.free_bytes));
    let needed = bytes(it.needed_bytes);
    if it.free_bytes >= it.needed_bytes {
        return fine(format!("{free} are free for {path}"));
    }
    let fix = match it.setting {
        Some(setting) => format!("free some space there, or set {setting} to less"),
        None => "free some space there, or move the directory to a larger disk".to_owned(),
    };
    wrong(
        format!("{free} are free for {path}, and {needed} should be"),
        "below that no push is taken and nothing is fetched; on a full disk nothing can be stored",
        fix,
    )
}

fn lock(it: &Lock) -> Outcome {
    match it {
        Lock::Free => fine("no server runs on this data"),
        Lock::Running => fine("the server runs and answers"),
        Lock::Held(path) => wrong(
            format!("another process holds {} and does not answer", path.display()),
            "only one server can use the data, and this one cannot be asked anything",
            format!(
                "find it with `fuser -v {}`; wait for it if it is an import, restart it if it hangs",
                path.display()
            ),
        ),
    }
}

fn key_file(it: &KeyFile) -> Outcome {
    let (path, mode) = (it.path.display(), it.mode & 0o777);
    match mode & 0o077 {
        0 => fine(format!("{path} is for its owner alone")),
        _ => wrong(
            format!("{path} has mode {mode:04o}"),
            "whoever can read the relay's key can speak in its name",
            format!("run `chmod 600 {path}`; if others could read it, think of a new key"),
        ),
    }
}

fn store(usage: Option<(u64, u64)>) -> Outcome {
    let Some((used, budget)) = usage else { return skipped("the event store could not be asked") };
    let told = format!("{} of {} are used", bytes(used), bytes(budget));
    match used / NEARLY_FULL_PERCENT >= budget / 100 {
        false => fine(told),
        true => wrong(
            told,
            "at 95 percent events are no longer accepted",
            "raise NGIT_RELAY_DISK_BUDGET_BYTES, or delete events",
        ),
    }
}

fn files(it: Files) -> Outcome {
    let who = match it.of_server {
        true => "the running server",
        false => "no server could be asked; what is started from this shell",
    };
    match it.max {
        Some(max) if max < FILES_MIN => wrong(
            format!("{who} may open {max} files and sockets"),
            "each connection, repository and fetch takes at least one; visitors are turned away \
             when they run out",
            "set LimitNOFILE=65536 in the systemd unit, or `ulimit -n 65536` before the start",
        ),
        Some(max) => fine(format!("{who} may open {max} files and sockets")),
        None => fine(format!("{who} may open any number of files and sockets")),
    }
}

/// One strange clock is somebody else's; most of them is ours. Of two in the middle the one that agrees
/// more is believed.
fn clock(clocks: &[Clock]) -> Outcome {
    let mut clocks: Vec<&Clock> = clocks.iter().collect();
    clocks.sort_by_key(|clock| clock.ahead_secs);
    let lower = clocks.len().saturating_sub(1) / 2;
    let middle = clocks.get(lower..=clocks.len() / 2).unwrap_or_default();
    let Some(middle) = middle.iter().min_by_key(|clock| clock.ahead_secs.unsigned_abs()) else {
        return skipped("no other server was there to compare it with");
    };
    let (host, secs) = (&middle.host, middle.ahead_secs);
    if secs.abs() <= SKEW_SECS_MAX {
        return fine(format!("it agrees with {host} within {} s", secs.abs().max(1)));
    }
    let how = if secs > 0 { "behind" } else { "ahead of" };
    wrong(
        format!("the clock of this machine is {} s {how} that of {host}", secs.unsigned_abs()),
        "events seem to come from the future or to be outdated, logins fail, and what is missing is \
         looked for in the wrong time",
        "switch time synchronisation on: `timedatectl set-ntp true`, then `timedatectl status`",
    )
}

fn dns(it: &Public) -> Outcome {
    match &it.dns {
        None => skipped("the address is no name that could be looked up"),
        Some(Ok(count)) => fine(format!("{} leads to {count} address(es)", it.address)),
        Some(Err(why)) => wrong(
            format!("{} leads nowhere: {why}", it.address),
            "nobody can reach this server by its name, and announcements that name it are in vain",
            "add an A or AAAA record for it, or set NGIT_DOMAIN to the name that has one",
        ),
    }
}

fn public(it: &Public) -> Outcome {
    let at = &it.address;
    let shown = match &it.info {
        Reach::Untried(why) => return skipped(why),
        Reach::Failed(why) => {
            return wrong(
                format!("{at} does not answer: {why}"),
                "neither people nor other servers reach this one",
                "check that the proxy runs, has a valid certificate for this name and passes \
                 requests on to NGIT_BIND_ADDRESS, and that no firewall is in between",
            );
        }
        Reach::Got(shown) => shown,
    };
    let elsewhere = "whoever follows the name finds something else than this server";
    match (&shown.key, &it.key) {
        (None, _) => wrong(
            format!("{at} answers, but not as a relay"),
            elsewhere,
            "let the proxy pass `/` with all headers, Accept among them, on to NGIT_BIND_ADDRESS",
        ),
        (Some(theirs), Some(ours)) if theirs != ours => wrong(
            format!("{at} is a relay with another key ({theirs})"),
            elsewhere,
            "point the proxy at this server, or set NGIT_DOMAIN to the name that leads here",
        ),
        _ if it.instance.is_some() && shown.instance != it.instance => wrong(
            format!("{at} is another process with the same key"),
            "two servers with one key and one name show different things to different people",
            "stop the other one, or point the proxy at this one",
        ),
        _ => fine(format!("{at} is this server")),
    }
}

fn socket(it: &Public) -> Outcome {
    match &it.socket {
        Reach::Untried(why) => skipped(why),
        Reach::Got(()) => fine("WebSockets come through"),
        Reach::Failed(why) => wrong(
            format!("no WebSocket comes through: {why}"),
            "relays are spoken with by WebSocket; without it nothing is published or read",
            "let the proxy pass upgrades on; nginx: `proxy_http_version 1.1; proxy_set_header \
             Upgrade $http_upgrade; proxy_set_header Connection \"upgrade\";`",
        ),
    }
}

fn body(it: &Public) -> Outcome {
    let size = bytes(it.body_bytes as u64);
    match &it.body {
        Reach::Untried(why) => skipped(why),
        Reach::Failed(why) => skipped(format!("it could not be told: {why}")),
        Reach::Got(413) => wrong(
            format!("a body of {size} is refused before it gets here (status 413)"),
            "pushes larger than that fail, though this server would take them",
            "raise the limit of the proxy; nginx: `client_max_body_size 0;` (NGIT_GIT_MAX_PACK_BYTES \
             stays the limit)",
        ),
        Reach::Got(_) => fine(format!("a body of {size} comes through")),
    }
}

fn git_protocol(it: &Public) -> Outcome {
    match &it.git_v2 {
        Reach::Untried(why) | Reach::Failed(why) => skipped(why),
        Reach::Got(true) => fine("the header Git-Protocol comes through"),
        Reach::Got(false) => wrong(
            "the header Git-Protocol is lost on the way",
            "every clone and fetch lists all refs, which is slow for large repositories",
            "let the proxy pass it on; nginx: `proxy_set_header Git-Protocol $http_git_protocol;`",
        ),
    }
}

fn proxy(it: &Proxy) -> Outcome {
    let covers = |ip: IpAddr| it.trusted.iter().any(|net| net.contains(&ip));
    if let Some(net) = it.trusted.iter().find(|net| net.prefix_len() == 0) {
        return wrong(
            format!("NGIT_TRUSTED_PROXY_CIDRS contains {net}, which is everybody"),
            "anybody can claim any address, so no limit per address holds",
            "name the proxy alone, such as NGIT_TRUSTED_PROXY_CIDRS=127.0.0.1/32",
        );
    }
    match (it.is_expected, it.trusted.is_empty()) {
        (false, true) => fine("no proxy is in front"),
        (true, true) => wrong(
            "a proxy is in front, and NGIT_TRUSTED_PROXY_CIDRS does not name it",
            "all visitors seem to come from the proxy: limits per address hit everybody or nobody",
            format!(
                "set NGIT_TRUSTED_PROXY_CIDRS to the proxy's address, such as {}, and let it send \
                 X-Forwarded-For",
                if it.bind.is_ipv6() { "::1/128" } else { "127.0.0.1/32" }
            ),
        ),
        (_, false) if it.bind.ip().is_loopback() && !covers(it.bind.ip()) => wrong(
            "only this machine can reach the port, and NGIT_TRUSTED_PROXY_CIDRS does not name it",
            "the proxy on this machine is taken for one visitor who is everybody",
            format!("add {}/{} to it", it.bind.ip(), if it.bind.is_ipv6() { 128 } else { 32 }),
        ),
        (_, false) => fine("the proxy is known"),
    }
}

#[cfg(test)]
mod tests;
