//! A simulation that stands still, and its API server.

use std::process::ExitCode;

use aerostat_cluster::serve::{Credentials, Server};
use aerostat_sim::simulate::Simulation;
use aerostat_sim::world::World;
use anyhow::Context;
use tokio::sync::oneshot;

use super::Args;
use crate::local::{self, Place, exit_code, interrupted, spawn};

/// How a halt ended.
#[derive(Debug)]
pub enum Ended {
    /// With Enter, or with the command, whose exit code this is.
    GoOn(ExitCode),
    /// With Ctrl-C.
    Enough,
}

/// Serves the API of a simulation while its time stands still.
///
/// # Errors
///
/// If the port or the kubeconfig cannot be used, or the command cannot be run.
pub fn halt(simulation: &Simulation, args: &Args) -> anyhow::Result<Ended> {
    simulation.stand_still(async |world| serve(world, args).await)
}

async fn serve(world: &World, args: &Args) -> anyhow::Result<Ended> {
    let (listener, notice) = local::bind(args.port).await?;
    let port = listener.local_addr().context("the listening socket has no address")?.port();
    let credentials = Credentials::generate().context("certificates cannot be made")?;
    let place = Place::new(args.kubeconfig.as_deref(), false, port)?;
    let server = Server::start(world.service.clone(), listener, &credentials, None)
        .context("the API server cannot be started")?;
    place.write(&server.url(), &credentials)?;
    notice.iter().for_each(|notice| eprintln!("notice: {notice}"));
    let now = world.cluster.clock().now();
    eprintln!("{now}: the time stands still. For kubectl in another terminal:");
    eprintln!("\nexport KUBECONFIG={}\n", place.path().display());
    let ended = match spawn(&args.command, place.path())? {
        Some(mut child) => {
            Ended::GoOn(exit_code(child.wait().await.context("the command was lost")?))
        }
        None => {
            eprintln!("Enter lets it go on; Ctrl-C ends it with the report so far.");
            tokio::select! {
                biased;
                () = interrupted() => Ended::Enough,
                () = enter() => Ended::GoOn(ExitCode::SUCCESS),
            }
        }
    };
    drop(server);
    place.clean_up();
    Ok(ended)
}

/// Returns when a line was typed; never if nobody can type.
async fn enter() {
    let (typed, told) = oneshot::channel();
    // A thread, and none of the runtime's: it waits for as long as the terminal is there.
    #[expect(clippy::disallowed_methods, reason = "nothing in the simulated world waits for it")]
    std::thread::spawn(move || {
        let mut line = String::new();
        if std::io::stdin().read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            // Somebody may have pressed Ctrl-C meanwhile.
            let _ = typed.send(());
        }
    });
    if told.await.is_err() {
        std::future::pending().await
    }
}
