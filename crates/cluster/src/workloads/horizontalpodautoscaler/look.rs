//! One look at one autoscaler: what its target has, what metrics ask for, what is done.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition, HorizontalPodAutoscalerSpec,
    HorizontalPodAutoscalerStatus, MetricSpec, MetricStatus, MetricValueStatus,
    ResourceMetricSource, ResourceMetricStatus,
};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::behavior::Past;
use super::replicas::{self, Goal, Proposal, Tolerance};
use super::usage;
use crate::events::{self, EventType};
use crate::kinds::Kind;
use crate::registry::{self, Cluster, Part, WriteOptions};
use crate::selectors::Labels;
use crate::status::Status;
use crate::store::{Key, Object};

const COMPONENT: &str = "horizontal-pod-autoscaler";
/// How far a metric may be off where nothing else is said.
/// Source: `--horizontal-pod-autoscaler-tolerance`.
const TOLERANCE: f64 = 0.1;

/// Scales the target of an autoscaler if need be, and says so in its status.
///
/// # Errors
///
/// What the registry answers to a write; a target that cannot be had or measured is no error, but
/// stands in the conditions.
pub(super) fn look(cluster: &Cluster, key: &Key, past: &mut Past) -> Result<(), Status> {
    let Some(autoscaler) = cluster.get::<HorizontalPodAutoscaler>(&key.0, &key.1) else {
        return Ok(());
    };
    if autoscaler.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let mut look = Look::new(cluster, &autoscaler);
    look.run(past)?;
    let status = look.status;
    if autoscaler.status.as_ref() != Some(&status) {
        cluster.modify_status::<HorizontalPodAutoscaler>(&key.0, &key.1, |current| {
            current.status = Some(status.clone());
        })?;
    }
    Ok(())
}

struct Look<'a> {
    cluster: &'a Cluster,
    autoscaler: &'a HorizontalPodAutoscaler,
    spec: HorizontalPodAutoscalerSpec,
    status: HorizontalPodAutoscalerStatus,
    now: Timestamp,
}

/// What metrics ask for together.
struct Verdict {
    replicas: i64,
    /// The metric that asks for most.
    metric: String,
    metrics: Vec<MetricStatus>,
}

impl<'a> Look<'a> {
    fn new(cluster: &'a Cluster, autoscaler: &'a HorizontalPodAutoscaler) -> Self {
        let mut status = autoscaler.status.clone().unwrap_or_default();
        status.observed_generation = autoscaler.metadata.generation;
        let spec = autoscaler.spec.clone();
        Self { cluster, autoscaler, spec, status, now: cluster.clock().now() }
    }

    fn namespace(&self) -> &str {
        self.autoscaler.metadata.namespace.as_deref().unwrap_or_default()
    }

    fn run(&mut self, past: &mut Past) -> Result<(), Status> {
        let (kind, target) = match self.target() {
            Ok(found) => found,
            Err(why) => {
                let why = format!(
                    "the HPA controller was unable to get the target's current scale: {why}"
                );
                self.warn("FailedGetScale", &why);
                self.condition("AbleToScale", false, "FailedGetScale", &why);
                return Ok(());
            }
        };
        let found = "the HPA controller was able to get the target's current scale";
        self.condition("AbleToScale", true, "SucceededGetScale", found);
        let scale = registry::scale(&kind, &target);
        let current = scale["spec"]["replicas"].as_i64().unwrap_or(0);
        let there = scale["status"]["replicas"].as_i64().unwrap_or(0);
        self.status.current_replicas = i32::try_from(there).ok();
        let (least, most) =
            (i64::from(self.spec.min_replicas.unwrap_or(1)), i64::from(self.spec.max_replicas));
        if current == 0 && least != 0 {
            let why = "scaling is disabled since the replica count of the target is zero";
            self.condition("ScalingActive", false, "ScalingDisabled", why);
            self.status.desired_replicas = 0;
            return Ok(());
        }
        let (wanted, reason) = if current > most {
            (most, "Current number of replicas above Spec.MaxReplicas".to_owned())
        } else if current < least {
            (least, "Current number of replicas below Spec.MinReplicas".to_owned())
        } else {
            let selector = scale["status"]["selector"].as_str().unwrap_or_default();
            let verdict = match self.verdict(&target, selector, current) {
                Ok(verdict) => verdict,
                Err((reason, why)) => {
                    self.warn(reason, &why);
                    self.condition("ScalingActive", false, reason, &why);
                    self.status.desired_replicas = i32::try_from(current).unwrap_or(i32::MAX);
                    return Ok(());
                }
            };
            self.status.current_metrics = Some(verdict.metrics);
            let active = format!(
                "the HPA was able to successfully calculate a replica count from {}",
                verdict.metric
            );
            self.condition("ScalingActive", true, "ValidMetricFound", &active);
            let (allowed, limits) = past.allowed(&self.spec, current, verdict.replicas, self.now);
            self.condition("AbleToScale", true, limits.able.0, limits.able.1);
            let (is_limited, reason, message) = limits.limited;
            self.condition("ScalingLimited", is_limited, reason, message);
            let why = if allowed > current {
                format!("{} above target", verdict.metric)
            } else {
                "All metrics below target".to_owned()
            };
            (allowed, why)
        };
        self.status.desired_replicas = i32::try_from(wanted).unwrap_or(i32::MAX);
        if wanted == current {
            return Ok(());
        }
        self.scale(&kind, &target, wanted)?;
        past.scaled(current, wanted, self.now);
        self.status.last_scale_time = Some(Time(self.now));
        let message = format!("New size: {wanted}; reason: {reason}");
        self.tell(EventType::Normal, "SuccessfulRescale", &message);
        let done = format!("the HPA controller was able to update the target scale to {wanted}");
        self.condition("AbleToScale", true, "SucceededRescale", &done);
        Ok(())
    }

    /// What is scaled.
    fn target(&self) -> Result<(Arc<Kind>, Arc<Object>), String> {
        let reference = &self.spec.scale_target_ref;
        let version = reference.api_version.as_deref().unwrap_or_default();
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let served = |kind: &&Arc<Kind>| kind.group == group && kind.kind == reference.kind;
        let kinds = self.cluster.kinds();
        let kind = kinds.iter().find(served).ok_or_else(|| {
            format!("no matches for kind {:?} in group {group:?}", reference.kind)
        })?;
        let custom = kind.custom.as_ref().is_some_and(|custom| custom.scale.is_some());
        if !kind.scale && !custom {
            return Err(format!("{} has no scale", kind.plural));
        }
        let object = self.cluster.get_object(kind, self.namespace(), &reference.name);
        object.map(|object| (kind.clone(), object)).map_err(|status| status.message)
    }

    /// What the metrics ask for: the one that asks for most decides.
    ///
    /// # Errors
    ///
    /// A reason and a sentence, if none can be had, or one cannot and the others ask for less.
    fn verdict(
        &self,
        target: &Object,
        selector: &str,
        current: i64,
    ) -> Result<Verdict, (&'static str, String)> {
        if selector.is_empty() {
            return Err(("InvalidSelector", "the HPA target's scale is missing a selector".into()));
        }
        let selector = Labels::parse(selector).map_err(|why| ("InvalidSelector", why))?;
        let annotations: BTreeMap<String, String> =
            serde_json::from_value(target.value["metadata"]["annotations"].clone())
                .unwrap_or_default();
        let pods = self.cluster.list::<Pod>(self.namespace());
        let labels = |pod: &Pod| json!(pod.metadata.labels.clone().unwrap_or_default());
        let mine: Vec<&Pod> =
            pods.iter().map(|pod| &**pod).filter(|pod| selector.matches(&labels(pod))).collect();
        let (mut best, mut failure): (Option<(i64, String)>, _) = (None, None);
        let mut metrics = Vec::new();
        for metric in self.spec.metrics.iter().flatten() {
            match self.metric(metric, &annotations, &mine, current) {
                Ok((proposal, name, status)) => {
                    if best.as_ref().is_none_or(|(replicas, _)| proposal.replicas > *replicas) {
                        best = Some((proposal.replicas, name));
                    }
                    metrics.push(status);
                }
                Err(why) => drop(failure.get_or_insert(why)),
            }
        }
        match (best, failure) {
            (Some((replicas, metric)), failure) if failure.is_none() || replicas >= current => {
                Ok(Verdict { replicas, metric, metrics })
            }
            (_, Some((reason, why))) => {
                let why = format!("the HPA was unable to compute the replica count: {why}");
                Err((reason, why))
            }
            (_, None) => Err(("InvalidMetricSourceType", "the HPA has no metric".into())),
        }
    }

    fn metric(
        &self,
        metric: &MetricSpec,
        annotations: &BTreeMap<String, String>,
        pods: &[&Pod],
        current: i64,
    ) -> Result<(Proposal, String, MetricStatus), (&'static str, String)> {
        let (Some(source), "Resource") = (&metric.resource, metric.type_.as_str()) else {
            let why = format!("metrics of type {} cannot be simulated", metric.type_);
            return Err(("InvalidMetricSourceType", why));
        };
        let failed = |why: String| ("FailedGetResourceMetric", why);
        let name = &source.name;
        let goal = goal(source).map_err(failed)?;
        let needs_requests = matches!(goal, Goal::Utilization(_));
        let samples = usage::samples(annotations, pods, name, needs_requests).map_err(failed)?;
        let proposal =
            replicas::proposal(current, &samples, goal, self.tolerance()).map_err(failed)?;
        let current = MetricValueStatus {
            average_utilization: proposal.utilization.and_then(|now| i32::try_from(now).ok()),
            average_value: Some(Quantity(shown(proposal.average))),
            value: None,
        };
        let resource = ResourceMetricStatus { name: name.clone(), current };
        let status = MetricStatus {
            type_: "Resource".to_owned(),
            resource: Some(resource),
            ..MetricStatus::default()
        };
        let of = if needs_requests { " utilization (percentage of request)" } else { "" };
        Ok((proposal, format!("{name} resource{of}"), status))
    }

    fn tolerance(&self) -> Tolerance {
        let behavior = self.spec.behavior.as_ref();
        let part = |rules: Option<&k8s_openapi::api::autoscaling::v2::HPAScalingRules>| {
            let text = rules.and_then(|rules| rules.tolerance.as_ref());
            let given = text.and_then(|text| text.0.parse::<aerostat_api::Quantity>().ok());
            #[expect(clippy::cast_precision_loss, reason = "a small part of 1")]
            given.map_or(TOLERANCE, |part| part.milli() as f64 / 1000.0)
        };
        Tolerance {
            up: part(behavior.and_then(|behavior| behavior.scale_up.as_ref())),
            down: part(behavior.and_then(|behavior| behavior.scale_down.as_ref())),
        }
    }

    fn scale(&self, kind: &Kind, target: &Object, replicas: i64) -> Result<(), Status> {
        let scale = json!({"spec": {"replicas": replicas}});
        let (part, options) = (Part::Main, WriteOptions::default());
        let name = target.name();
        self.cluster
            .update_object(kind, self.namespace(), name, part, options, |old| {
                registry::scaled(kind, old, &scale)
            })
            .map(drop)
    }

    fn condition(&mut self, type_: &str, is_true: bool, reason: &str, message: &str) {
        let status = if is_true { "True" } else { "False" };
        let conditions = self.status.conditions.get_or_insert_default();
        let at = conditions.iter().position(|condition| condition.type_ == type_);
        let since = at.map(|at| &conditions[at]).filter(|old| old.status == status);
        let condition = HorizontalPodAutoscalerCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_transition_time: since
                .map_or(Some(Time(self.now)), |old| old.last_transition_time.clone()),
        };
        match at {
            Some(at) => conditions[at] = condition,
            None => conditions.push(condition),
        }
    }

    fn warn(&self, reason: &str, message: &str) {
        self.tell(EventType::Warning, reason, message);
    }

    fn tell(&self, type_: EventType, reason: &str, message: &str) {
        let about = events::reference(self.autoscaler);
        events::record(self.cluster, COMPONENT, None, &about, type_, reason, message);
    }
}

fn goal(source: &ResourceMetricSource) -> Result<Goal, String> {
    let target = &source.target;
    if let Some(percent) = target.average_utilization {
        return Ok(Goal::Utilization(percent.into()));
    }
    let average = target.average_value.as_ref().and_then(|value| usage::amount(&value.0));
    average.filter(|value| *value > 0).map(Goal::AverageValue).ok_or_else(|| {
        "invalid resource metric source: neither an average utilization nor an average value target \
         was set"
            .to_owned()
    })
}

/// An amount of thousandths.
fn shown(milli: i64) -> String {
    if milli % 1000 == 0 { (milli / 1000).to_string() } else { format!("{milli}m") }
}
