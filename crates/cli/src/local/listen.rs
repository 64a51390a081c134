//! A port for the API server.

use std::io::ErrorKind;
use std::net::Ipv4Addr;

use anyhow::{Context, bail};
use tokio::net::TcpListener;

/// The port that Kubernetes' API servers have.
pub const DEFAULT_PORT: u16 = 6443;
/// How many ports are tried.
const TRIES: u16 = 100;

/// Listens on `port`, or on the first free one from 6443 on; with a notice if that is another.
///
/// # Errors
///
/// If the port that was asked for is in use or may not be used.
pub async fn bind(port: Option<u16>) -> anyhow::Result<(TcpListener, Option<String>)> {
    if let Some(port) = port {
        return match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
            Ok(listener) => Ok((listener, None)),
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                bail!("port {port} is in use: choose another with --port, or leave it out")
            }
            Err(error) => Err(error).with_context(|| format!("port {port} cannot be used")),
        };
    }
    for port in DEFAULT_PORT..DEFAULT_PORT + TRIES {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
            Ok(listener) => {
                let notice = (port != DEFAULT_PORT)
                    .then(|| format!("port {DEFAULT_PORT} is in use: listening on {port}"));
                return Ok((listener, notice));
            }
            Err(error) if error.kind() == ErrorKind::AddrInUse => {}
            Err(error) => {
                return Err(error).with_context(|| format!("port {port} cannot be used"));
            }
        }
    }
    bail!(
        "ports {DEFAULT_PORT} to {} are all in use: name one with --port",
        DEFAULT_PORT + TRIES - 1
    )
}
