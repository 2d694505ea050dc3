//! An address where connecting never succeeds and never fails: its queue is full and nobody takes
//! anything out of it, so the kernel drops every further attempt.

use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

#[derive(Debug)]
pub struct BlackHole {
    address: SocketAddr,
    _listener: TcpListener,
    _waiting: Vec<TcpStream>,
}

impl BlackHole {
    pub async fn open() -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        let local: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        socket.bind(local).expect("a free port");
        let listener = socket.listen(1).expect("a listening socket");
        let address = listener.local_addr().expect("it is bound");
        let mut waiting = Vec::new();
        // On loopback a connection is there at once or not at all.
        while let Ok(Ok(stream)) =
            timeout(Duration::from_millis(200), TcpStream::connect(address)).await
        {
            waiting.push(stream);
        }
        Self { address, _listener: listener, _waiting: waiting }
    }

    pub fn url(&self) -> String {
        format!("ws://{}", self.address)
    }
}
