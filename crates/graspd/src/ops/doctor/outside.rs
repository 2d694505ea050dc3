//! What the public sees of this server, asked from here by the public name, and what time others have.
//! The name is the operator's own, so it may lead anywhere; relays that strangers named may not.

use super::facts::{Clock, Public, Reach, Shown};
use super::local::Here;
use crate::clock;
use crate::config::Config;
use crate::ops::source::{Place, Source};
use crate::outbound::{
    Ask, CallLimits, Caller, DialLimits, Dialer, Instance, Resolve, Response, Rule, System,
    http_date,
};
use crate::report::{Page, Relays, Repos};
use bytes::Bytes;
use futures_util::future::join_all;
use grasp_core::id::decode_bech32;
use grasp_core::{CloneUrl, PubKey, RelayUrl};
use grasp_git::fetch::INFO_REFS;
use hyper::header;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use url::{Host, Url};

#[derive(Debug)]
pub(super) struct Outside {
    pub(super) public: Public,
    pub(super) clocks: Vec<Clock>,
}

/// One more than the most common proxy takes unless it is told to, and hardly more than this server reads
/// of a push that it refuses: what is left unread can cost the answer.
const BODY_BYTES: usize = (1 << 20) + 1;
const DOCUMENT_BYTES_MAX: usize = 256 << 10;
const TIME_MAX: Duration = Duration::from_secs(10);
const CLOCKS_MAX: usize = 5;
const INFO: &str = "application/nostr+json";
const PUSH: &str = "application/x-git-receive-pack-request";

pub(super) async fn gather(config: &Config, here: &Here) -> Outside {
    let address = config.service.address();
    let is_running = matches!(here.source, Some(Source::Running(_)));
    let ours = ours(config, here).await;
    let untried = match (here.is_named, is_running) {
        (false, _) => Some("NGIT_DOMAIN is not set: only this machine is meant to reach it"),
        (true, false) => Some("no server runs on this data; start it, and look again"),
        (true, true) => None,
    };
    let body_bytes =
        usize::try_from(config.git.pack_bytes_max).map_or(BODY_BYTES, |max| max.min(BODY_BYTES));
    let mut public = Public {
        address,
        is_named: here.is_named,
        is_running,
        dns: if here.is_named { dns(config).await } else { None },
        key: ours.key,
        instance: ours.instance,
        info: Reach::Untried(String::new()),
        socket: Reach::Untried(String::new()),
        body: Reach::Untried(String::new()),
        body_bytes,
        git_v2: Reach::Untried(String::new()),
    };
    let (caller, dialer) = match caller() {
        Ok(ways) => ways,
        Err(why) => {
            public.untried(untried.unwrap_or(&why));
            return Outside { public, clocks: Vec::new() };
        }
    };
    let visit = Visit { config, caller, dialer };
    match untried {
        Some(why) => public.untried(why),
        None => visit.look(&mut public, here).await,
    }
    let clocks = visit.others(here, public.key.as_deref()).await;
    Outside { public, clocks }
}

impl Public {
    fn untried(&mut self, why: &str) {
        self.info = Reach::Untried(why.to_owned());
        self.socket = Reach::Untried(why.to_owned());
        self.body = Reach::Untried(why.to_owned());
        self.git_v2 = Reach::Untried(why.to_owned());
    }
}

fn caller() -> Result<(Caller, Dialer), String> {
    let instance = Instance::random().map_err(|error| error.to_string())?;
    let dialer = Dialer::new(instance, DialLimits::default()).map_err(|error| error.to_string())?;
    let clock = Arc::new(clock::Clock::default());
    Ok((Caller::new(dialer.clone(), clock, CallLimits::default()), dialer))
}

/// Our own key and process: as the running server says, or as the data does.
async fn ours(config: &Config, here: &Here) -> Shown {
    if let Some(Source::Running(client)) = &here.source
        && let Ok(Some(document)) = client.get_as("/", INFO).await
    {
        return shown(&document);
    }
    let path = config.relay_data_path.join(crate::datadir::KEY);
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let secret = decode_bech32("nsec", text.trim());
    let key = secret.and_then(|secret| crate::datadir::RelayKey::from_secret(secret).ok());
    Shown { key: key.map(|key| key.public.to_hex()), instance: None }
}

async fn dns(config: &Config) -> Option<Result<usize, String>> {
    let url = Url::parse(&web(config, "")).ok()?;
    let Some(Host::Domain(name)) = url.host() else { return None };
    let port = url.port_or_known_default().unwrap_or(443);
    let resolver = System::default();
    Some(match timeout(TIME_MAX, resolver.lookup(name, port)).await {
        Ok(Ok(found)) if !found.is_empty() => Ok(found.len()),
        Ok(_) => Err("the name cannot be resolved".to_owned()),
        Err(_) => Err("nobody answered in time where it is".to_owned()),
    })
}

/// The public address below which everything is.
fn web(config: &Config, rest: &str) -> String {
    let tls = if config.service.is_bare_address() { "" } else { "s" };
    format!("http{tls}://{}{rest}", config.service.address())
}

struct Visit<'a> {
    config: &'a Config,
    caller: Caller,
    dialer: Dialer,
}

impl Visit<'_> {
    async fn look(&self, public: &mut Public, here: &Here) {
        // What time it is there says nothing: it is our own.
        (public.info, _) = self.info(&web(self.config, ""), Rule::Operator).await;
        if let Reach::Failed(_) = public.info {
            let why = "the public address does not answer";
            let info = public.info.clone();
            public.untried(why);
            public.info = info;
            return;
        }
        public.socket = self.socket().await;
        public.body = self.body(public.body_bytes).await;
        public.git_v2 = self.git_v2(here).await;
    }

    async fn info(&self, url: &str, rule: Rule) -> (Reach<Shown>, Option<Clock>) {
        let ask = Ask { path: "", accept: INFO, v2: false, body: None };
        match self.ask(url, rule, &ask).await {
            Err(why) => (Reach::Failed(why), None),
            Ok(mut answer) => {
                let clock = clock_of(&answer, url);
                let document = document(&mut answer).await;
                (document.map_or_else(Reach::Failed, |json| Reach::Got(shown(&json))), clock)
            }
        }
    }

    async fn socket(&self) -> Reach<()> {
        let url = web(self.config, "").replacen("http", "ws", 1);
        let Ok(relay) = url.parse::<RelayUrl>() else {
            return Reach::Untried("this is not the address of a relay".to_owned());
        };
        match self.dialer.dial(&relay, Rule::Operator).await {
            Ok(_) => Reach::Got(()),
            Err(error) => Reach::Failed(error.to_string()),
        }
    }

    /// To a repository that cannot be here: whatever is answered, nothing happens.
    async fn body(&self, bytes: usize) -> Reach<u16> {
        let nobody = PubKey::from_bytes([0xd0; 32]).to_npub();
        let url = web(self.config, &format!("/{nobody}/doctor.git"));
        let body = Some((PUSH, Bytes::from(vec![b'0'; bytes])));
        let ask = Ask { path: "git-receive-pack", accept: "*/*", v2: false, body };
        match self.ask(&url, Rule::Operator, &ask).await {
            Ok(answer) => Reach::Got(answer.status.as_u16()),
            Err(why) => Reach::Failed(why),
        }
    }

    async fn git_v2(&self, here: &Here) -> Reach<bool> {
        let Some(source) = &here.source else { return Reach::Untried("no server runs".to_owned()) };
        let first = Place::Repos(Page::new(None, Some(1)));
        let repos = source.ask::<Repos>(&first).await.ok().flatten();
        let Some(repo) = repos.and_then(|it| it.repositories.into_iter().next()) else {
            return Reach::Untried("there is no repository to try it with".to_owned());
        };
        let name = repo.identifier.parse().map(|it: grasp_core::Identifier| it.percent_encoded());
        let url = web(self.config, &format!("/{}/{}.git", repo.npub, name.unwrap_or_default()));
        let ask = Ask { path: INFO_REFS, accept: "*/*", v2: true, body: None };
        match self.ask(&url, Rule::Operator, &ask).await {
            Err(why) => Reach::Failed(why),
            Ok(mut answer) if answer.status.is_success() => match document(&mut answer).await {
                Ok(said) => Reach::Got(said.windows(9).any(|part| part == b"version 2")),
                Err(why) => Reach::Failed(why),
            },
            Ok(answer) => Reach::Failed(answer.refusal()),
        }
    }

    async fn ask(&self, url: &str, rule: Rule, ask: &Ask) -> Result<Response, String> {
        let url: CloneUrl = url.parse().map_err(|_| "this is not an address".to_owned())?;
        let asked = async {
            let mut connection = self.caller.open(&url, rule).await?;
            connection.request(ask).await
        };
        match timeout(TIME_MAX, asked).await {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_) => Err("it does not answer in time".to_owned()),
        }
    }

    /// The clocks of relays we are linked with; one with our own key is this server by another name.
    async fn others(&self, here: &Here, ours: Option<&str>) -> Vec<Clock> {
        let Some(source) = &here.source else { return Vec::new() };
        let page = Place::Relays(Page::default());
        let Ok(Some(it)) = source.ask::<Relays>(&page).await else { return Vec::new() };
        let rule = match self.config.sync.allow_non_global {
            true => Rule::Operator,
            false => Rule::Strangers,
        };
        let linked = it.relays.into_iter().filter(|it| it.connected).take(CLOCKS_MAX);
        let urls: Vec<String> = linked.map(|it| it.relay.replacen("ws", "http", 1)).collect();
        let asked = join_all(urls.iter().map(|url| self.info(url, rule))).await;
        let is_ours = |info: &Reach<Shown>| match info {
            Reach::Got(shown) => shown.key.is_some() && shown.key.as_deref() == ours,
            Reach::Untried(_) | Reach::Failed(_) => false,
        };
        let others = asked.into_iter().filter(|(info, _)| !is_ours(info));
        others.filter_map(|(_, clock)| clock).collect()
    }
}

fn clock_of(answer: &Response, url: &str) -> Option<Clock> {
    let text = answer.headers.get(header::DATE)?.to_str().ok()?;
    let theirs = i64::try_from(http_date(text)?).ok()?;
    let ours = i64::try_from(clock::Clock::default().wall().timestamp().0).ok()?;
    let url = Url::parse(url).ok()?;
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let host = format!("{}{port}", url.host_str()?);
    Some(Clock { host, ahead_secs: theirs - ours })
}

async fn document(answer: &mut Response) -> Result<Vec<u8>, String> {
    if !answer.status.is_success() {
        return Err(answer.refusal());
    }
    let mut read = Vec::new();
    while let Some(piece) = answer.piece().await.map_err(|error| error.to_string())? {
        if read.len() + piece.len() > DOCUMENT_BYTES_MAX {
            break;
        }
        read.extend_from_slice(&piece);
    }
    Ok(read)
}

fn shown(json: &[u8]) -> Shown {
    let document: Value = serde_json::from_slice(json).unwrap_or_default();
    let text = |name: &str| document.get(name).and_then(Value::as_str).map(str::to_owned);
    Shown { key: text("self").or_else(|| text("pubkey")), instance: text("instance") }
}
