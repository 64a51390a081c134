//! What stands between the controllers and the API, and goes wrong.
//!
//! A tower layer: a request comes in, is perhaps answered with an error, perhaps done and not
//! answered, perhaps the last that its sender has made. Watches go through it event by event. What
//! is done is told to the ledger first.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use aerostat_clock::Clock;
use aerostat_cluster::http::ResponseBody;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, stream};
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use jiff::Timestamp;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tower::{BoxError, Service, ServiceExt};

use super::ledger::Ledger;

/// How long a caller waits for an answer that does not come.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A request, as far as it matters here.
#[derive(Clone, Debug)]
pub struct Call {
    pub method: Method,
    pub plural: String,
    pub namespace: String,
    pub name: String,
    pub subresource: String,
    watch: bool,
}

impl Call {
    fn of(request: &Request<Body>) -> Self {
        let uri = request.uri();
        let mut parts = uri.path().trim_matches('/').split('/');
        // /api/v1/… or /apis/GROUP/VERSION/…
        let skip = if parts.next() == Some("api") { 1 } else { 2 };
        let mut rest: VecDeque<&str> = parts.skip(skip).collect();
        let mut namespace = "";
        if rest.len() > 2 && rest[0] == "namespaces" {
            namespace = rest[1];
            rest.drain(..2);
        }
        let mut next = || rest.pop_front().unwrap_or_default().to_owned();
        let (plural, name, subresource) = (next(), next(), next());
        Self {
            method: request.method().clone(),
            plural,
            namespace: namespace.to_owned(),
            name,
            subresource,
            watch: uri.query().is_some_and(|query| query.contains("watch=true")),
        }
    }

    fn is_write(&self) -> bool {
        self.method != Method::GET
    }

    fn is_event(&self) -> bool {
        self.plural == "events"
    }
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method, self.plural)?;
        for part in [&self.namespace, &self.name, &self.subresource] {
            if !part.is_empty() {
                write!(f, "/{part}")?;
            }
        }
        Ok(())
    }
}

/// Something that goes wrong for a while.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// Watches of a kind, or all, tell nothing.
    Stale(Option<String>),
    /// Every so manieth request is answered with a code.
    Answer(u16, u64),
    /// Every so manieth request gets no answer, and is done or not.
    Unanswered(u64, bool),
}

#[derive(Debug)]
struct Window {
    until: Timestamp,
    trouble: Trouble,
    requests: u64,
}

/// What breaks watches off.
#[derive(Clone, Debug, Default)]
struct Break {
    number: u64,
    kind: Option<String>,
    gone: bool,
}

#[derive(Default)]
struct State {
    windows: Vec<Window>,
    /// After how many more writes the controllers die, and whether the last is done.
    crash: Option<(u64, bool)>,
    /// Which of the controllers' lives this is.
    life: u64,
    is_dead: bool,
}

/// The faults of one world.
#[derive(Clone)]
pub struct Faults(Arc<Inner>);

struct Inner {
    clock: Clock,
    state: Mutex<State>,
    breaks: watch::Sender<Break>,
    died: Notify,
    ledger: Ledger,
}

impl Faults {
    pub fn new(clock: Clock, ledger: Ledger) -> Self {
        let (state, breaks) = (Mutex::default(), watch::Sender::default());
        Self(Arc::new(Inner { clock, state, breaks, died: Notify::new(), ledger }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap()
    }

    /// Something goes wrong until a time.
    pub fn trouble(&self, trouble: Trouble, until: Timestamp) {
        self.state().windows.push(Window { until, trouble, requests: 0 });
    }

    /// The controllers die at the so manieth of their next writes.
    pub fn crash(&self, write: u64, after: bool) {
        self.state().crash = Some((write, after));
    }

    /// No crash is to come any more.
    pub fn spare(&self) {
        self.state().crash = None;
    }

    /// Watches of a kind, or all, break off; what they have missed is perhaps no longer known.
    pub fn break_watches(&self, kind: Option<String>, gone: bool) {
        self.0.breaks.send_modify(|last| *last = Break { number: last.number + 1, kind, gone });
    }

    /// Waits until the controllers have died.
    pub async fn died(&self) {
        self.0.died.notified().await;
    }

    /// The controllers live again.
    pub fn revive(&self) {
        let mut state = self.state();
        state.life += 1;
        state.is_dead = false;
    }

    /// Whether a write is the last; `true` for after its effect.
    fn count_down(&self) -> Option<bool> {
        let mut state = self.state();
        let (left, after) = state.crash?;
        if left > 0 {
            state.crash = Some((left - 1, after));
            return None;
        }
        state.crash = None;
        Some(after)
    }

    /// Never answers, as whoever asked is dead.
    async fn die(&self, life: u64) -> Result<Answer, BoxError> {
        let is_news = {
            let mut state = self.state();
            let was_alive = state.life == life && !state.is_dead;
            state.is_dead |= was_alive;
            was_alive
        };
        if is_news {
            self.0.ledger.crashed();
            self.0.died.notify_one();
        }
        std::future::pending().await
    }

    /// What goes wrong with a request.
    fn befalls(&self) -> Option<Trouble> {
        let now = self.0.clock.now();
        let mut state = self.state();
        state.windows.retain(|window| window.until > now);
        state.windows.iter_mut().find_map(|window| {
            let (Trouble::Answer(_, every) | Trouble::Unanswered(every, _)) = window.trouble else {
                return None;
            };
            window.requests += 1;
            window.requests.is_multiple_of(every).then(|| window.trouble.clone())
        })
    }

    /// Until when the watches of a kind tell nothing.
    fn stale_until(&self, kind: &str) -> Option<Timestamp> {
        let state = self.state();
        let stale = state.windows.iter().filter(|window| {
            matches!(&window.trouble, Trouble::Stale(of) if of.as_ref().is_none_or(|of| of == kind))
        });
        stale.map(|window| window.until).max().filter(|until| *until > self.0.clock.now())
    }
}

impl<S> tower::Layer<S> for Faults {
    type Service = Faulty<S>;

    fn layer(&self, service: S) -> Faulty<S> {
        let life = self.state().life;
        Faulty { faults: self.clone(), service, life }
    }
}

/// An API that fails.
#[derive(Clone)]
pub struct Faulty<S> {
    faults: Faults,
    service: S,
    life: u64,
}

type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

impl<S> Service<Request<Body>> for Faulty<S>
where
    S: Service<Request<Body>, Response = Response<ResponseBody>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    type Response = Answer;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Answer, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { faults, service, life } = self.clone();
        async move { faults.pass(service, life, request).await }.boxed()
    }
}

impl Faults {
    async fn pass<S>(
        &self,
        service: S,
        life: u64,
        request: Request<Body>,
    ) -> Result<Answer, BoxError>
    where
        S: Service<Request<Body>, Response = Response<ResponseBody>, Error = Infallible> + Send,
        S::Future: Send,
    {
        let call = Call::of(&request);
        if self.state().is_dead || self.state().life != life {
            return self.die(life).await;
        }
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        let ledger = &self.0.ledger;
        if call.is_event() {
            ledger.told(&body);
        }
        let is_last = (call.is_write() && !call.is_event()).then(|| self.count_down()).flatten();
        if is_last == Some(false) {
            ledger.note(&call, "dies before");
            return self.die(life).await;
        }
        let trouble = self.befalls();
        match &trouble {
            Some(Trouble::Answer(code, _)) => {
                ledger.note(&call, &format!("fails with {code}"));
                return Ok(refusal(*code));
            }
            Some(Trouble::Unanswered(_, false)) => {
                ledger.note(&call, "is lost");
                self.0.clock.sleep(TIMEOUT).await;
                return Err("the request timed out".into());
            }
            _ => {}
        }
        if call.is_write() && !call.is_event() {
            ledger.before(&call, &body).await;
        }
        let request = Request::from_parts(head, Body::from(body.to_vec()));
        let answer = service.oneshot(request).await?;
        if call.watch && answer.status().is_success() {
            return Ok(answer.map(|body| self.follow(call, body)));
        }
        let (head, body) = answer.into_parts();
        let body = body.collect().await?.to_bytes();
        let is_lost = is_last.is_some() || trouble.is_some();
        if call.is_write() {
            ledger.after(&call, head.status, &body, is_lost).await;
        }
        if is_last.is_some() {
            ledger.note(&call, "dies after");
            return self.die(life).await;
        }
        if trouble.is_some() {
            ledger.note(&call, "is not answered");
            self.0.clock.sleep(TIMEOUT).await;
            return Err("the answer timed out".into());
        }
        Ok(Response::from_parts(head, whole(body)))
    }

    /// The events of a watch: late, and only until it breaks off.
    fn follow(&self, call: Call, body: ResponseBody) -> UnsyncBoxBody<Bytes, BoxError> {
        let breaks = self.0.breaks.subscribe();
        let (clock, faults, kind) = (self.0.clock, self.clone(), call.plural);
        let begin = (Box::pin(body), breaks, false);
        let frames = stream::unfold(begin, move |(mut body, mut breaks, over)| {
            let (faults, kind) = (faults.clone(), kind.clone());
            async move {
                if over {
                    return None;
                }
                let next = async {
                    let frame = body.frame().await;
                    while let Some(until) = faults.stale_until(&kind) {
                        clock.sleep_until(until).await;
                    }
                    frame
                };
                tokio::select! {
                    biased;
                    gone = broken(&mut breaks, &kind) => {
                        let end: Result<Frame<Bytes>, BoxError> = match gone {
                            true => Ok(Frame::data(expired())),
                            false => Err("the connection was reset".into()),
                        };
                        Some((end, (body, breaks, true)))
                    }
                    frame = next => {
                        let frame = frame?.map_err(BoxError::from);
                        Some((frame, (body, breaks, false)))
                    }
                }
            }
        });
        BodyExt::boxed_unsync(StreamBody::new(frames))
    }
}

/// Waits until the watch of a kind breaks off; whether it has missed something.
async fn broken(breaks: &mut watch::Receiver<Break>, kind: &str) -> bool {
    loop {
        if breaks.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        let last = breaks.borrow_and_update().clone();
        if last.kind.is_none_or(|of| of == kind) {
            return last.gone;
        }
    }
}

fn expired() -> Bytes {
    let status =
        json!({"type": "ERROR", "object": status(410, "Expired", "too old resource version")});
    Bytes::from(format!("{status}\n"))
}

fn refusal(code: u16) -> Answer {
    let reason = match code {
        409 => "Conflict",
        429 => "TooManyRequests",
        500 => "InternalError",
        _ => "ServiceUnavailable",
    };
    let body = status(code, reason, "it is one of those days").to_string();
    let answer = Response::builder().status(code).header("content-type", "application/json");
    answer.body(whole(Bytes::from(body))).unwrap()
}

fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": code, "reason": reason, "message": message,
    })
}

fn whole(bytes: Bytes) -> UnsyncBoxBody<Bytes, BoxError> {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}
