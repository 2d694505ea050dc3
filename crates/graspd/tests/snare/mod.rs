//! What a stranger can put at the other end of a URL: listeners that count who comes, resolvers
//! that lie, and a relay that answers with whatever bytes it was given.
#![allow(dead_code, reason = "each file of tests needs its own part of this")]

pub(crate) mod table;

use grasp_testkit::until;
use graspd::outbound::{DialLimits, Dialer, Instance, Lookup, Resolve};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

pub(crate) fn dialer(limits: DialLimits) -> Dialer {
    Dialer::new(Instance::random().unwrap(), limits).unwrap()
}

/// Listeners inside this machine, all on one port, that remember every visitor.
pub(crate) struct Traps {
    pub(crate) port: u16,
    traps: Vec<(SocketAddr, Visitors)>,
}

type Visitors = Arc<Mutex<Vec<SocketAddr>>>;

impl Traps {
    pub(crate) async fn set() -> Self {
        loop {
            let first = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = first.local_addr().unwrap().port();
            let second = TcpListener::bind(("127.0.0.2", port)).await;
            // A machine without IPv6 has nothing to be trapped there.
            let third = match TcpListener::bind("[::1]:0").await {
                Ok(_) => TcpListener::bind(("::1", port)).await.map(Some),
                Err(_) => Ok(None),
            };
            if let (Ok(second), Ok(third)) = (second, third) {
                let traps = [first, second].into_iter().chain(third);
                return Self { port, traps: traps.map(Self::watch).collect() };
            }
        }
    }

    fn watch(listener: TcpListener) -> (SocketAddr, Visitors) {
        let address = listener.local_addr().unwrap();
        let visitors = Visitors::default();
        let seen = Arc::clone(&visitors);
        tokio::spawn(async move {
            while let Ok((_, peer)) = listener.accept().await {
                seen.lock().unwrap().push(peer);
            }
        });
        (address, visitors)
    }

    /// How many came since this was last asked. A listener takes connections in the order they
    /// came, so once it has taken our own it has taken all before it.
    pub(crate) async fn caught(&self) -> usize {
        let mut caught = 0;
        for (address, visitors) in &self.traps {
            let own = TcpStream::connect(address).await.unwrap();
            let own = own.local_addr().unwrap();
            until("our own visit is seen", || async { visitors.lock().unwrap().contains(&own) })
                .await;
            caught += std::mem::take(&mut *visitors.lock().unwrap()).len() - 1;
        }
        caught
    }
}

/// A resolver that gives the answers it was told to, in turn, to whatever name; the last one again
/// and again.
#[derive(Default)]
pub(crate) struct Names {
    answers: Vec<Vec<SocketAddr>>,
    pub(crate) asked: AtomicUsize,
}

impl Names {
    pub(crate) fn lead_to(answers: &[&[IpAddr]]) -> Arc<Self> {
        // A resolver need not respect the port it was asked for.
        let answer = |ips: &&[IpAddr]| ips.iter().map(|ip| SocketAddr::new(*ip, 9)).collect();
        Arc::new(Self { answers: answers.iter().map(answer).collect(), asked: AtomicUsize::new(0) })
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Resolve for Names {
    fn lookup<'a>(&'a self, _: &'a str, _: u16) -> Lookup<'a> {
        let at = self.asked.fetch_add(1, Ordering::SeqCst).min(self.answers.len().max(1) - 1);
        let answer = self.answers.get(at).cloned();
        let missing = || io::Error::new(io::ErrorKind::NotFound, "10.0.0.53 says: no such name");
        Box::pin(async move { answer.ok_or_else(missing) })
    }
}

/// How a scripted relay answers.
#[derive(Clone)]
pub(crate) enum Says {
    /// These bytes, then it hangs up.
    Bytes(Vec<u8>),
    /// These bytes, and then a space every now and then, for ever.
    Drip(Vec<u8>),
    /// A WebSocket that sends this text first and then says everything back.
    Socket(String),
}

impl Says {
    pub(crate) fn info(json: &str) -> Self {
        Self::page(200, "", json)
    }

    pub(crate) fn page(status: u16, headers: &str, body: &str) -> Self {
        let len = body.len();
        let page = format!("HTTP/1.1 {status} X\r\nContent-Length: {len}\r\n{headers}\r\n{body}");
        Self::Bytes(page.into_bytes())
    }

    pub(crate) fn socket() -> Self {
        Self::Socket("hello".into())
    }
}

/// A relay that does what it was told, plain or through TLS.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    /// The requests it got, as text.
    pub(crate) heads: Arc<Mutex<Vec<String>>>,
}

impl Relay {
    pub(crate) async fn plain(upgrade: Says, info: Says) -> Self {
        Self::start("127.0.0.1:0", None, upgrade, info).await
    }

    /// With a certificate for `relay.snare.test`.
    pub(crate) async fn secure(upgrade: Says, info: Says) -> Self {
        let config = rustls::ServerConfig::builder_with_provider(Arc::new(
            rustls::crypto::ring::default_provider(),
        ));
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let key = PrivateKeyDer::from_pem_slice(include_bytes!("key.pem")).unwrap();
        let config = config.with_single_cert(vec![certificate()], key).unwrap();
        Self::start("127.0.0.1:0", Some(Arc::new(config).into()), upgrade, info).await
    }

    async fn start(at: &str, tls: Option<TlsAcceptor>, upgrade: Says, info: Says) -> Self {
        let listener = TcpListener::bind(at).await.unwrap();
        let address = listener.local_addr().unwrap();
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let kept = Arc::clone(&heads);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, upgrade, info) = (tls.clone(), upgrade.clone(), info.clone());
                let heads = Arc::clone(&kept);
                tokio::spawn(async move {
                    match tls {
                        None => answer(stream, &heads, upgrade, info).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                answer(stream, &heads, upgrade, info).await;
                            }
                        }
                    }
                });
            }
        });
        Self { address, heads }
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}", self.address)
    }

    /// Under another name.
    pub(crate) fn url_as(&self, scheme: &str, name: &str) -> String {
        format!("{scheme}://{name}:{}", self.address.port())
    }

    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

pub(crate) fn certificate() -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(include_bytes!("certificate.pem")).unwrap()
}

async fn answer<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>(
    mut stream: S,
    heads: &Mutex<Vec<String>>,
    upgrade: Says,
    info: Says,
) {
    let Some(head) = read_head(&mut stream).await else { return };
    let is_upgrade = head.to_lowercase().contains("\r\nupgrade: websocket");
    heads.lock().unwrap().push(head.clone());
    match if is_upgrade { upgrade } else { info } {
        Says::Bytes(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
        }
        Says::Drip(bytes) => {
            let _ = stream.write_all(&bytes).await;
            while stream.write_all(b" ").await.is_ok() {
                let _ = stream.flush().await;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Says::Socket(first) => talk(stream, &head, &first).await,
    }
}

async fn read_head(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    String::from_utf8(head).ok()
}

async fn talk<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>(
    mut stream: S,
    head: &str,
    first: &str,
) {
    use futures_util::{SinkExt, StreamExt};
    use tokio_tungstenite::WebSocketStream;
    use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
    use tokio_tungstenite::tungstenite::{Message, protocol::Role};
    let key = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("sec-websocket-key").then_some(value)
    });
    let accept = derive_accept_key(key.unwrap().as_bytes());
    let welcome = format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: {accept}\r\n\r\n"
    );
    stream.write_all(welcome.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
    let _ = socket.send(Message::text(first)).await;
    while let Some(Ok(Message::Text(text))) = socket.next().await {
        let _ = socket.send(Message::Text(text)).await;
    }
}
