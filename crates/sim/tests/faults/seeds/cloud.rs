//! The simulated cloud as the controllers reach it: orders fail, answers are lost, lists lack
//! machines.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aerostat_api::nodepool::NodeClassRef;
use aerostat_api::{Class, ClassKind, NodeClaim};
use aerostat_clock::Clock;
use aerostat_engine::instance::InstanceType;
use aerostat_provider::{CloudProvider, Instance, Notice, ProviderError, RepairPolicy, SimCloud};
use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};

/// How long a caller waits for an answer that does not come.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long a new machine may be missing from a list that is late.
const YOUNG: SignedDuration = SignedDuration::from_secs(45);

/// What is still to go wrong.
#[derive(Debug, Default)]
pub struct Mishaps {
    pub orders_fail: u32,
    pub orders_unanswered: u32,
    pub ends_fail: u32,
    /// Until then lists fail, or lack what is young.
    pub lists_fail: Option<Timestamp>,
}

/// The cloud, with mishaps.
pub struct FaultyCloud {
    cloud: Arc<SimCloud>,
    clock: Clock,
    pub mishaps: Mutex<Mishaps>,
}

impl FaultyCloud {
    pub fn new(cloud: Arc<SimCloud>, clock: Clock) -> Self {
        Self { cloud, clock, mishaps: Mutex::default() }
    }
}

fn throttled() -> ProviderError {
    ProviderError::Other("RequestLimitExceeded: Request limit exceeded.".to_owned())
}

/// Whether this is one of those that are still to go wrong.
fn is_due(left: &mut u32) -> bool {
    let is_due = *left > 0;
    *left = left.saturating_sub(1);
    is_due
}

impl CloudProvider for FaultyCloud {
    fn name(&self) -> &'static str {
        self.cloud.name()
    }

    fn instance_types(
        &self,
        reference: &NodeClassRef,
        class: Option<&Class>,
    ) -> Result<Arc<Vec<InstanceType>>, ProviderError> {
        self.cloud.instance_types(reference, class)
    }

    fn class_kind(&self) -> &'static ClassKind {
        self.cloud.class_kind()
    }

    fn class_conditions(&self) -> Option<&'static [&'static str]> {
        self.cloud.class_conditions()
    }

    fn next_change(&self) -> Option<Timestamp> {
        self.cloud.next_change()
    }

    fn create<'a>(
        &'a self,
        claim: &'a NodeClaim,
        class: Option<&'a Class>,
        types: &'a [InstanceType],
    ) -> BoxFuture<'a, Result<Instance, ProviderError>> {
        async move {
            if is_due(&mut self.mishaps.lock().unwrap().orders_fail) {
                return Err(throttled());
            }
            let is_unanswered = is_due(&mut self.mishaps.lock().unwrap().orders_unanswered);
            let answer = self.cloud.create(claim, class, types).await;
            if is_unanswered {
                self.clock.sleep(TIMEOUT).await;
                return Err(ProviderError::Other("the request timed out".to_owned()));
            }
            answer
        }
        .boxed()
    }

    fn is_drifted<'a>(
        &'a self,
        claim: &'a NodeClaim,
        class: Option<&'a Class>,
    ) -> BoxFuture<'a, Result<Option<&'static str>, ProviderError>> {
        self.cloud.is_drifted(claim, class)
    }

    fn delete<'a>(&'a self, provider_id: &'a str) -> BoxFuture<'a, Result<(), ProviderError>> {
        async move {
            if is_due(&mut self.mishaps.lock().unwrap().ends_fail) {
                return Err(throttled());
            }
            self.cloud.delete(provider_id).await
        }
        .boxed()
    }

    fn repair_policies(&self) -> &'static [RepairPolicy] {
        self.cloud.repair_policies()
    }

    fn next_notice(&self) -> BoxFuture<'_, Notice> {
        self.cloud.next_notice()
    }

    fn acknowledge(&self, notice: &Notice) {
        self.cloud.acknowledge(notice);
    }

    fn get<'a>(&'a self, provider_id: &'a str) -> BoxFuture<'a, Result<Instance, ProviderError>> {
        self.cloud.get(provider_id)
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Instance>, ProviderError>> {
        async move {
            let mut machines = self.cloud.list().await?;
            let now = self.clock.now();
            if self.mishaps.lock().unwrap().lists_fail.is_some_and(|until| until > now) {
                // Every other minute it answers, and does not know yet what is young.
                if now.as_second() / 60 % 2 == 0 {
                    return Err(throttled());
                }
                machines.retain(|machine| now.duration_since(machine.launched) > YOUNG);
            }
            Ok(machines)
        }
        .boxed()
    }
}
