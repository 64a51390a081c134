//! The API on a real socket, in real time.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aerostat_clock::{Clock, Seeds};
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{Credentials, Server};
use crate::http::Service;
use crate::http::faults::Faults;
use crate::registry::{Cluster, Options};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

struct Running {
    service: Service,
    server: Server,
    credentials: Credentials,
}

async fn start() -> Running {
    start_with(None).await
}

async fn start_with(faults: Option<Faults>) -> Running {
    let options = Options { clock: Clock::real(), seeds: Seeds::new(1) };
    let cluster = Cluster::new(&options);
    let namespaces = cluster.kind("", "namespaces").unwrap();
    let namespace = serde_json::json!({"metadata": {"name": "default"}});
    cluster.create_object(&namespaces, "", namespace, Default::default()).unwrap();
    let service = Service::new(cluster);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let credentials = Credentials::generate().unwrap();
    let server = Server::start(service.clone(), listener, &credentials, faults).unwrap();
    Running { service, server, credentials }
}

impl Running {
    async fn connect(&self, certified: bool, alpn: &[u8]) -> io::Result<TlsStream<TcpStream>> {
        let pem = |text: &str| CertificateDer::from_pem_slice(text.as_bytes()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(pem(self.credentials.authority())).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = if certified {
            let key = PrivateKeyDer::from_pem_slice(self.credentials.client_key().as_bytes());
            let chain = vec![pem(self.credentials.client_certificate())];
            config.with_client_auth_cert(chain, key.unwrap()).unwrap()
        } else {
            config.with_no_client_auth()
        };
        config.alpn_protocols = vec![alpn.to_vec()];
        let stream = TcpStream::connect(self.server.address()).await?;
        let name = ServerName::try_from("127.0.0.1").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    /// Code and body of one request on a connection of its own.
    async fn ask(&self, certified: bool, request: Request<Full<Bytes>>) -> (StatusCode, Value) {
        let stream = self.connect(certified, b"http/1.1").await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        let response = sender.send_request(request).await.unwrap();
        let code = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        connection.abort();
        (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    async fn wait_for_watches(&self, count: usize) {
        let reached = timeout(Duration::from_secs(10), async {
            while self.service.open_watches() != count {
                Clock::real().sleep(Duration::from_millis(2)).await;
            }
        });
        reached
            .await
            .unwrap_or_else(|_| panic!("{} watches are open", self.service.open_watches()));
    }
}

fn get(uri: &str) -> Request<Full<Bytes>> {
    Request::get(uri).header("host", "x").body(Full::default()).unwrap()
}

/// Runs the tasks of an HTTP/2 client until they are aborted, as if its process were killed.
#[derive(Clone, Default)]
struct Tasks(Arc<Mutex<JoinSet<()>>>);

impl<F: Future<Output: Send> + Send + 'static> hyper::rt::Executor<F> for Tasks {
    fn execute(&self, future: F) {
        self.0.lock().unwrap().spawn(async {
            future.await;
        });
    }
}

#[tokio::test]
async fn only_those_with_credentials_are_let_in() {
    let running = start().await;
    assert_eq!(running.ask(true, get("/api")).await.0, 200);
    let (code, status) = running.ask(false, get("/api")).await;
    assert_eq!((code.as_u16(), status["reason"].as_str()), (401, Some("Unauthorized")));
    assert_eq!(running.ask(false, get("/version")).await.0, 200);
    let with = |token: &str| {
        let mut request = get("/api");
        request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        request
    };
    assert_eq!(running.ask(false, with(running.credentials.token())).await.0, 200);
    assert_eq!(running.ask(false, with("wrong")).await.0, 401);
    running.server.stop().await;
}

#[tokio::test]
async fn who_forgets_tls_is_told_so() {
    let running = start().await;
    let mut stream = TcpStream::connect(running.server.address()).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    // The reset that may follow the answer is of no matter.
    let _ = stream.read_to_string(&mut answer).await;
    assert!(answer.contains("an HTTP request to an HTTPS server"), "{answer}");
}

#[tokio::test]
async fn clients_that_vanish_free_their_watches() {
    let running = start().await;
    let watch = || get(&format!("https://x{MAPS}?watch=true"));
    let stream = running.connect(true, b"http/1.1").await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    let first = tokio::spawn(connection);
    let first_response = sender.send_request(watch()).await.unwrap();
    let stream = running.connect(true, b"h2").await.unwrap();
    let tasks = Tasks::default();
    let (mut sender, connection) =
        http2::handshake(tasks.clone(), TokioIo::new(stream)).await.unwrap();
    let second = tokio::spawn(connection);
    let second_response = sender.send_request(watch()).await.unwrap();
    let third_response = sender.send_request(watch()).await.unwrap();
    assert_eq!(second_response.status(), 200);
    running.wait_for_watches(3).await;
    // One stream of two, then the connections with all that is on them.
    drop(third_response);
    running.wait_for_watches(2).await;
    first.abort();
    running.wait_for_watches(1).await;
    second.abort();
    tasks.0.lock().unwrap().abort_all();
    running.wait_for_watches(0).await;
    drop((first_response, second_response));
    running.server.stop().await;
}

#[tokio::test]
async fn bodies_that_are_cut_off_or_too_large_do_no_harm() {
    let running = start().await;
    let mut stream = running.connect(true, b"http/1.1").await.unwrap();
    let head = format!(
        "POST {MAPS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         content-length: 100\r\n\r\n{{\"metadata\": {{\"name\": \"m\"}}}}"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    drop(stream);
    let large = Full::from(vec![b'x'; 50 * 1024 * 1024]);
    let request = Request::post(MAPS).header("host", "x").body(large).unwrap();
    let (code, status) = running.ask(true, request).await;
    assert_eq!(code, 413);
    assert_eq!(status["message"], "Request entity too large: limit is 3145728");
    let (code, list) = running.ask(true, get(MAPS)).await;
    assert_eq!((code.as_u16(), &list["items"]), (200, &serde_json::json!([])));
    running.server.stop().await;
}

#[tokio::test]
async fn stopping_ends_watches_and_closes_the_door() {
    let running = start().await;
    let stream = running.connect(true, b"h2").await.unwrap();
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = Request::builder()
        .method(Method::GET)
        .uri(format!("https://x{MAPS}?watch=true"))
        .body(Full::<Bytes>::default())
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    let address = running.server.address();
    running.server.stop().await;
    assert!(response.into_body().collect().await.unwrap().to_bytes().is_empty(), "a clean end");
    drop(sender);
    connection.await.unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_fault_closes_the_connection_with_all_that_is_on_it() {
    let faults = Faults::new("50%".parse().unwrap(), &Seeds::new(1));
    let running = start_with(Some(faults)).await;
    // Until a watch is open on a connection that then fails.
    for _ in 0..100 {
        let stream = running.connect(true, b"h2").await.unwrap();
        let (mut sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        let request = |query: &str| {
            let uri = format!("https://x{MAPS}{query}");
            Request::get(uri).body(Full::<Bytes>::default()).unwrap()
        };
        let Ok(watch) = sender.send_request(request("?watch=true")).await else { continue };
        if watch.status() != 200 {
            continue;
        }
        while sender.send_request(request("")).await.is_ok() {}
        assert!(watch.into_body().collect().await.is_err(), "the watch ends with an error");
        let _ = connection.await.unwrap();
        running.wait_for_watches(0).await;
        running.server.stop().await;
        return;
    }
    panic!("no watch was opened");
}
