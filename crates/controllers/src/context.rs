//! What every controller works with.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aerostat_clock::Clock;
use aerostat_engine::plan::Plan;
use aerostat_engine::report::Report;
use aerostat_engine::snapshot::Settings;
use aerostat_provider::CloudProvider;
use jiff::Timestamp;
use kube::Client;
use tokio::sync::{mpsc, watch};

use crate::index::Index;
use crate::journal::Journal;
use crate::market::Market;
use crate::metrics::Metrics;
use crate::recorder::Recorder;
use crate::registration_health::RegistrationHealth;

/// What every controller works with.
pub struct Context {
    /// The cluster.
    pub client: Client,
    /// Its time.
    pub clock: Clock,
    /// Where machines come from.
    pub provider: Arc<dyn CloudProvider>,
    /// Settings of the planner.
    pub settings: Settings,
    /// Writes events.
    pub recorder: Recorder,
    /// Told of every decision that did something or has something to say.
    pub decisions: Option<mpsc::UnboundedSender<Decision>>,
    index: Mutex<Index>,
    journal: Mutex<Journal>,
    market: Mutex<Arc<Market>>,
    registration_health: Mutex<RegistrationHealth>,
    metrics: Mutex<Metrics>,
    changes: watch::Sender<u64>,
}

/// A decision, as it was carried out.
#[derive(Clone, Debug)]
pub struct Decision {
    /// When.
    pub at: Timestamp,
    /// What.
    pub plan: Plan,
    /// Why.
    pub report: Report,
    /// Names of the claims created for `plan.launches`, in order; `None` where that failed.
    pub claims: Vec<Option<String>>,
}

/// Why a reconcile has to be tried again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cluster said no, or nothing.
    #[error("{0}")]
    Kube(#[from] kube::Error),
    /// The provider said no.
    #[error("{0}")]
    Provider(#[from] aerostat_provider::ProviderError),
}

impl Error {
    /// Whether an object was not there, or no longer.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Kube(kube::Error::Api(status)) if status.is_not_found())
    }

    /// Whether someone else wrote first.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Kube(kube::Error::Api(status)) if status.is_conflict())
    }
}

/// Takes "it is not there" for done.
pub(crate) fn gone_is_fine<T>(result: kube::Result<T>) -> Result<(), Error> {
    match result {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl Context {
    /// A context with an empty index.
    #[must_use]
    pub fn new(
        client: Client,
        clock: Clock,
        provider: Arc<dyn CloudProvider>,
        settings: Settings,
        decisions: Option<mpsc::UnboundedSender<Decision>>,
    ) -> Self {
        let recorder = Recorder::new(client.clone(), clock);
        Self {
            client,
            clock,
            provider,
            settings,
            recorder,
            decisions,
            index: Mutex::default(),
            journal: Mutex::default(),
            market: Mutex::default(),
            registration_health: Mutex::default(),
            metrics: Mutex::default(),
            changes: watch::channel(0).0,
        }
    }

    /// The cluster as it is known now. Hold it shortly, never across an await.
    pub fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was decided about each pod. Hold it shortly, never across an await.
    pub fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the last launches of each pool went. Hold it shortly, never across an await.
    pub fn registration_health(&self) -> MutexGuard<'_, RegistrationHealth> {
        self.registration_health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was counted. Hold it shortly, never across an await.
    pub fn metrics(&self) -> MutexGuard<'_, Metrics> {
        self.metrics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What may be launched as far as `index` and the provider know.
    pub(crate) fn market(&self, index: &Index) -> Arc<Market> {
        let mut market = self.market.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fresh) = market.refresh(&*self.provider, index) {
            *market = Arc::new(fresh);
        }
        market.clone()
    }

    /// Follows changes of the index.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Tells that the index changed.
    pub(crate) fn changed(&self) {
        self.changes.send_modify(|version| *version += 1);
    }
}
