//! The API server on a socket: HTTPS for kubectl and everyone else.
//!
//! - [`Server`]: accepts connections, lets in who has a client certificate or the token.
//! - [`Credentials`]: the cluster's own authority, and what its administrator proves itself with.
//! - [`kubeconfig`]: the file that tells kubectl all of it.
//!
//! Timeouts here are of the line, not of the simulated world: they run at the machine's pace.

mod credentials;
pub mod kubeconfig;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{Request, Response};
use http_body_util::Either;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tower::{Layer, ServiceExt};

pub use credentials::{Credentials, Error};

use crate::http::faults::{Closed, Faults, Faulty, FaultyBody};
use crate::http::{ResponseBody, Service};

/// How long a client may take over its side of the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long requests in flight may take when the server stops.
const FAREWELL: Duration = Duration::from_secs(2);
/// How often an HTTP/2 client is asked whether it is still there.
const PING: Duration = Duration::from_secs(30);
/// What everybody may read.
const PUBLIC: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// A running server. Dropping it ends it at once; [`Server::stop`] ends it in good order.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stopping: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

/// What connections share.
struct Shared {
    service: Service,
    faults: Option<Faults>,
    tls: TlsAcceptor,
    token: String,
    http: auto::Builder<TokioExecutor>,
    stopping: watch::Receiver<bool>,
}

impl Server {
    /// Serves `service` on `listener`, with `faults` if clients are to be tried.
    ///
    /// # Errors
    ///
    /// If the listener has no address, or the credentials make no TLS server.
    pub fn start(
        service: Service,
        listener: TcpListener,
        credentials: &Credentials,
        faults: Option<Faults>,
    ) -> Result<Self, Error> {
        let address = listener.local_addr()?;
        let stopping = watch::Sender::new(false);
        let mut http = auto::Builder::new(TokioExecutor::new());
        http.http1().timer(TokioTimer::new());
        http.http2().timer(TokioTimer::new()).keep_alive_interval(PING);
        let shared = Shared {
            service,
            faults,
            tls: TlsAcceptor::from(credentials.server_config()?),
            token: credentials.token().to_owned(),
            http,
            stopping: stopping.subscribe(),
        };
        let accepting = tokio::spawn(accept(listener, Arc::new(shared)));
        Ok(Self { address, stopping, accepting })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `https://127.0.0.1:6443`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Takes no more connections, ends all watches, lets other requests finish (for two seconds at
    /// most), and closes all connections.
    pub async fn stop(mut self) {
        self.stopping.send_replace(true);
        if let Err(error) = (&mut self.accepting).await {
            tracing::error!(%error, "the API server did not end in good order");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut stopping = shared.stopping.clone();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = stopped(&mut stopping) => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let shared = shared.clone();
                    connections.spawn(async move {
                        if let Err(error) = connection(stream, shared).await {
                            tracing::debug!(%error, %peer, "connection ended");
                        }
                    });
                }
                // Out of file handles, most likely: some connection has to end first.
                Err(error) => {
                    tracing::warn!(%error, "a connection cannot be accepted");
                    connections.join_next().await;
                }
            },
        }
    }
    drop(listener);
    shared.service.close();
    let ended = timeout(FAREWELL, async { while connections.join_next().await.is_some() {} });
    if ended.await.is_err() {
        connections.shutdown().await;
    }
}

type ConnectionError = Box<dyn std::error::Error + Send + Sync>;

/// Waits until the server is told to stop, or is gone.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) -> Result<(), ConnectionError> {
    stream.set_nodelay(true)?;
    let handshake = shared.tls.accept(stream).into_fallible();
    let stream = match timeout(HANDSHAKE, handshake).await? {
        Ok(stream) => stream,
        Err((error, mut stream)) => {
            // As Go's server does, for those who forgot the s of https.
            let hint = b"HTTP/1.0 400 Bad Request\r\n\r\n\
                         Client sent an HTTP request to an HTTPS server.\n";
            stream.write_all(hint).await?;
            return Err(error.into());
        }
    };
    let certified = stream.get_ref().1.peer_certificates().is_some();
    let http = shared.http.clone();
    let mut stopping = shared.stopping.clone();
    // Faults close whole connections, so each has its own.
    let faulty = shared.faults.as_ref().map(|faults| faults.layer(shared.service.clone()));
    let closed = faulty.as_ref().map(Faulty::closed);
    let closed = async move {
        match closed {
            Some(closed) => closed.await,
            None => std::future::pending().await,
        }
    };
    let service =
        service_fn(move |request| answer(request, shared.clone(), faulty.clone(), certified));
    let connection = http.serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        biased;
        () = closed => return Ok(()),
        result = connection.as_mut() => return result,
        () = stopped(&mut stopping) => {}
    }
    connection.as_mut().graceful_shutdown();
    connection.await
}

async fn answer(
    request: Request<Incoming>,
    shared: Arc<Shared>,
    faulty: Option<Faulty<Service>>,
    certified: bool,
) -> Result<Response<Either<ResponseBody, FaultyBody>>, Closed> {
    let bearer = || {
        let header = request.headers().get(AUTHORIZATION)?.to_str().ok()?;
        header.strip_prefix("Bearer ").map(str::trim)
    };
    let public = || PUBLIC.iter().any(|path| request.uri().path().starts_with(path));
    if certified || bearer().is_some_and(|token| token == shared.token) || public() {
        match faulty {
            Some(faulty) => Ok(faulty.oneshot(request).await?.map(Either::Right)),
            None => {
                let answer = shared.service.clone().oneshot(request).await;
                Ok(answer.unwrap_or_else(|never| match never {}).map(Either::Left))
            }
        }
    } else {
        Ok(crate::http::unauthorized().map(Either::Left))
    }
}
