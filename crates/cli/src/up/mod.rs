//! `aerostat up`: the embedded cluster, for kubectl.

mod args;

use std::process::ExitCode;

use aerostat_clock::{Clock, Seeds};
use aerostat_cluster::http::faults::Faults;
use aerostat_cluster::serve::{Credentials, Server};
use aerostat_sim::manifest::{self, Manifest};
use aerostat_sim::world::{World, WorldOptions};
use aerostat_sim::{Config, story};
use anyhow::Context;
use kube::Client;
use tower::Layer;

use crate::local::{self, Place, exit_code, interrupted, spawn};
use crate::print::{Printer, Ready};
pub use args::{Args, Speed};

/// Starts the cluster and keeps it until Ctrl-C, or until the command behind `--` ends.
///
/// # Errors
///
/// If an option, a file or the port is not usable; the error says which and why.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("the runtime cannot be built")?;
    let result = runtime.block_on(up(args));
    // Connections that are still open must not hold the process.
    runtime.shutdown_background();
    result
}

async fn up(args: Args) -> anyhow::Result<ExitCode> {
    let begun = tokio::time::Instant::now();
    // Everything that may be wrong with the options is found before anything starts.
    let flavor = args.provider.flavor();
    let config = match &args.config {
        Some(file) => Config::read(file, flavor)?,
        None => Config::of(flavor),
    };
    let region = args.market.region(flavor)?;
    let manifests = read_manifests(&args)?;
    let (listener, notice) = local::bind(args.port).await?;
    let port = listener.local_addr().context("the listening socket has no address")?.port();
    let credentials = Credentials::generate().context("certificates cannot be made")?;
    let place = Place::new(args.kubeconfig.as_deref(), args.merge_kubeconfig, port)?;

    let clock = Clock::scaled(args.speed.0);
    let seed = args.seed.unwrap_or_else(|| clock.now().as_nanosecond().unsigned_abs() as u64);
    let region_name = region.name.clone();
    let ca = credentials.authority().to_owned();
    let settings = args.planner.settings();
    let options = WorldOptions { clock, seed, region, config, ca, settings };
    let faults = args.api_faults.map(|share| Faults::new(share, &Seeds::new(seed)));
    let mut world = World::without_controllers(options).context("the cluster cannot be set up")?;
    if !args.no_controllers {
        let client = match &faults {
            Some(faults) => Client::new(faults.layer(world.service.clone()), "default"),
            None => world.client.clone(),
        };
        world.restart_controllers(client);
        world.announce_controllers().context("the controllers cannot be announced")?;
    }
    for manifest in &manifests {
        manifest.check(&world.cluster, &manifests)?;
    }
    let server = Server::start(world.service.clone(), listener, &credentials, faults)
        .context("the API server cannot be started")?;
    let url = server.url();
    place.write(&url, &credentials)?;

    let printer = Printer::new(args.output, !args.command.is_empty(), clock.now());
    printer.notice(notice.as_deref());
    printer.ready(&Ready {
        url: &url,
        kubeconfig: place.path(),
        region: &region_name,
        seed,
        took: begun.elapsed(),
    });
    let decisions = world.decisions().context("nobody else takes the decisions")?;
    let teller = printer.clone();
    tokio::spawn(story::follow(world.cluster.clone(), decisions, move |line| teller.line(&line)));
    for manifest in &manifests {
        let applied = manifest.apply(&world.cluster)?;
        printer.applied(&manifest.title(), applied);
        printer.notice(manifest.notice(&world.cluster).as_deref());
    }

    let code = match spawn(&args.command, place.path())? {
        Some(mut child) => {
            tokio::select! {
                biased;
                why = world.failed() => anyhow::bail!("{why}"),
                status = child.wait() => exit_code(status.context("the command was lost")?),
            }
        }
        None => {
            tokio::select! {
                biased;
                why = world.failed() => anyhow::bail!("{why}"),
                () = interrupted() => ExitCode::SUCCESS,
            }
        }
    };
    printer.ending();
    // A second Ctrl-C ends the process at once.
    tokio::select! {
        biased;
        () = interrupted() => {}
        () = server.stop() => {}
    }
    place.clean_up();
    Ok(code)
}

fn read_manifests(args: &Args) -> anyhow::Result<Vec<Manifest>> {
    let read: anyhow::Result<Vec<_>> = args.files.iter().map(|file| manifest::read(file)).collect();
    Ok(read?.into_iter().flatten().collect())
}
