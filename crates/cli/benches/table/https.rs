//! Pod creation over HTTPS, by a client on the same machine, with everything running behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::command::Up;
use crate::connection::{Endpoint, Protocol};
use crate::pods;
use crate::report::{Goal, Row, Table, percentile};

const CONNECTIONS: usize = 10;
const PODS: usize = 10_000;
const PATH: &str = "/api/v1/namespaces/default/pods";

pub fn http1(table: &mut Table) -> anyhow::Result<()> {
    measure(table, Protocol::Http1, "HTTP/1.1")
}

pub fn http2(table: &mut Table) -> anyhow::Result<()> {
    measure(table, Protocol::Http2, "HTTP/2")
}

fn measure(table: &mut Table, protocol: Protocol, name: &str) -> anyhow::Result<()> {
    let up = Up::start()?;
    let endpoint = Endpoint::of_kubeconfig(&up.kubeconfig(), protocol)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (took, mut latencies) = runtime.block_on(load(endpoint, protocol))?;
    let rate = PODS as f64 / took.as_secs_f64();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let note = format!(
        "{PODS} pods in {:.2} s; p50 {:.1} ms, p99 {:.1} ms; one every {}; RSS after it {:.0} MiB",
        took.as_secs_f64(),
        ms(percentile(&mut latencies, 50)),
        ms(percentile(&mut latencies, 99)),
        table.in_parses(took / PODS as u32).trim_start_matches("= "),
        up.resident()?
    );
    let metric = format!("pods created over {name}, {CONNECTIONS} connections");
    table.add(Row::new(&metric, rate, "pods/s", Goal::AtLeast(3000.0)).note(note));
    Ok(())
}

/// Creates all pods; how long that took, and each of them.
async fn load(endpoint: Endpoint, protocol: Protocol) -> anyhow::Result<(Duration, Vec<Duration>)> {
    let bodies: Arc<Vec<Bytes>> =
        Arc::new((0..PODS).map(|number| pods::mixed(number).to_string().into()).collect());
    let next = Arc::new(AtomicUsize::new(0));
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(endpoint.connect(protocol).await?);
    }
    let begun = Instant::now();
    let mut clients = JoinSet::new();
    for mut connection in connections {
        let (bodies, next) = (bodies.clone(), next.clone());
        clients.spawn(async move {
            let mut times = Vec::new();
            while let Some(body) = bodies.get(next.fetch_add(1, Ordering::Relaxed)) {
                let begun = Instant::now();
                connection.post(PATH, body.clone()).await?;
                times.push(begun.elapsed());
            }
            anyhow::Ok(times)
        });
    }
    let mut times = Vec::with_capacity(PODS);
    while let Some(client) = clients.join_next().await {
        times.extend(client??);
    }
    Ok((begun.elapsed(), times))
}
