//! One HTTPS connection to a server that a kubeconfig names.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Where a server is, and how to get in.
#[derive(Clone)]
pub struct Endpoint {
    /// `127.0.0.1:6443`.
    authority: String,
    tls: Arc<ClientConfig>,
}

/// Which HTTP is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    Http2,
}

impl Endpoint {
    /// The first cluster and user of a kubeconfig.
    pub fn of_kubeconfig(path: &Path, protocol: Protocol) -> anyhow::Result<Self> {
        let config: Value = serde_saphyr::from_str(&std::fs::read_to_string(path)?)?;
        let cluster = &config["clusters"][0]["cluster"];
        let user = &config["users"][0]["user"];
        let pem = |value: &Value| -> anyhow::Result<Vec<u8>> {
            Ok(BASE64_STANDARD.decode(value.as_str().context("a PEM is not there")?)?)
        };
        let mut roots = RootCertStore::empty();
        let authority = pem(&cluster["certificate-authority-data"])?;
        for certificate in CertificateDer::pem_slice_iter(&authority) {
            roots.add(certificate?)?;
        }
        let certificate = pem(&user["client-certificate-data"])?;
        let chain = CertificateDer::pem_slice_iter(&certificate).collect::<Result<Vec<_>, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(&pem(&user["client-key-data"])?)?;
        let mut tls = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)?;
        tls.alpn_protocols = match protocol {
            Protocol::Http1 => vec![b"http/1.1".to_vec()],
            Protocol::Http2 => vec![b"h2".to_vec()],
        };
        let url = cluster["server"].as_str().context("no server")?;
        let authority = url.strip_prefix("https://").context("the server is not HTTPS")?;
        Ok(Self { authority: authority.to_owned(), tls: Arc::new(tls) })
    }

    /// Opens a connection.
    pub async fn connect(&self, protocol: Protocol) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(&self.authority).await?;
        stream.set_nodelay(true)?;
        let (host, _) = self.authority.rsplit_once(':').context("the server has no port")?;
        let name = ServerName::try_from(host.to_owned())?;
        let stream = TlsConnector::from(self.tls.clone()).connect(name, stream).await?;
        let stream = TokioIo::new(stream);
        let sender = match protocol {
            Protocol::Http1 => {
                let (sender, connection) = http1::handshake(stream).await?;
                tokio::spawn(connection);
                Sender::Http1(sender)
            }
            Protocol::Http2 => {
                let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
                tokio::spawn(connection);
                Sender::Http2(sender)
            }
        };
        Ok(Connection { authority: self.authority.clone(), sender })
    }
}

/// One connection, one request at a time.
pub struct Connection {
    authority: String,
    sender: Sender,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Connection {
    /// Posts an object, and reads the whole answer.
    pub async fn post(&mut self, path: &str, body: Bytes) -> anyhow::Result<()> {
        let request = Request::builder().method(Method::POST);
        let request = match &self.sender {
            Sender::Http1(_) => request.uri(path).header("host", &self.authority),
            Sender::Http2(_) => request.uri(format!("https://{}{path}", self.authority)),
        };
        let request = request.header("content-type", "application/json").body(Full::new(body))?;
        let response = match &mut self.sender {
            Sender::Http1(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
            Sender::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
        };
        let status = response.status();
        let answer = response.into_body().collect().await?.to_bytes();
        if status != StatusCode::CREATED {
            bail!("{status}: {}", String::from_utf8_lossy(&answer));
        }
        Ok(())
    }
}
