//! ValidatingAdmissionPolicies: what their bindings say of a request.
//!
//! Source: k8s.io/apiserver `pkg/admission/plugin/policy/`. Evictions and bindings of pods are not
//! asked about; there is nobody to tell apart, so every request is the administrator's.

use std::collections::BTreeMap;
use std::sync::Arc;

use aerostat_schema::policy::{Denial, Policy, Request};
use serde_json::{Value, json};

use crate::kinds::Kind;
use crate::registry::{Cluster, Part};
use crate::selectors::Labels;
use crate::status::{FieldError, Status};

/// Group of the policies and their bindings.
const GROUP: &str = "admissionregistration.k8s.io";
const POLICIES: &str = "validatingadmissionpolicies";
const BINDINGS: &str = "validatingadmissionpolicybindings";

/// Whether writes of a kind change what is allowed.
pub(crate) fn concerns(kind: &Kind) -> bool {
    kind.group == GROUP
}

/// The policies that are bound, compiled.
#[derive(Debug, Default)]
pub(crate) struct Policies(Vec<Bound>);

/// A binding and its policy.
#[derive(Debug)]
struct Bound {
    policy: String,
    binding: String,
    compiled: Arc<Policy>,
    spec: Arc<Value>,
    binding_spec: Value,
}

impl Policies {
    /// Those that the cluster has now.
    pub(crate) fn of(cluster: &Cluster) -> Self {
        let list = |plural: &str| {
            let resource = (GROUP.to_owned(), plural.to_owned());
            cluster.store().list(&resource, "").0
        };
        let mut policies = BTreeMap::new();
        for object in list(POLICIES) {
            let spec = &object.value["spec"];
            // One that does not compile has been refused.
            if let Ok(compiled) = Policy::compile(spec) {
                let compiled = (Arc::new(compiled), Arc::new(spec.clone()));
                policies.insert(object.name().to_owned(), compiled);
            }
        }
        let bound = list(BINDINGS).into_iter().filter_map(|object| {
            let binding_spec = object.value["spec"].clone();
            let policy = binding_spec["policyName"].as_str()?.to_owned();
            let (compiled, spec) = policies.get(&policy)?.clone();
            let binding = object.name().to_owned();
            Some(Bound { policy, binding, compiled, spec, binding_spec })
        });
        Self(bound.collect())
    }
}

/// A write that policies may have something against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write<'a> {
    pub(crate) kind: &'a Kind,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub(crate) operation: &'static str,
    pub(crate) part: Part,
    /// Null when it is deleted.
    pub(crate) new: &'a Value,
    /// Null when it is created.
    pub(crate) old: &'a Value,
    pub(crate) dry_run: bool,
}

/// Asks every policy that is bound.
///
/// # Errors
///
/// What the first policy that denies says.
pub(crate) fn check(cluster: &Cluster, write: &Write<'_>) -> Result<(), Status> {
    let policies = cluster.policies();
    // Nobody can be locked out of changing the policies themselves.
    if policies.0.is_empty() || concerns(write.kind) || write.part == Part::Whole {
        return Ok(());
    }
    let namespace = namespace_of(cluster, write);
    for bound in &policies.0 {
        let limits = &bound.binding_spec["matchResources"];
        if !matches(&bound.spec["matchConstraints"], write, &namespace)
            || !(limits.is_null() || matches(limits, write, &namespace))
        {
            continue;
        }
        let result = bound.ask(cluster, write, &namespace);
        bound.outcome(write, result)?;
    }
    Ok(())
}

impl Bound {
    fn ask(
        &self,
        cluster: &Cluster,
        write: &Write<'_>,
        namespace: &Value,
    ) -> Result<Vec<Denial>, String> {
        let request = request(write);
        let mut denials = Vec::new();
        for params in self.params(cluster, write)? {
            denials.extend(self.compiled.check(&Request {
                object: write.new,
                old: write.old,
                request: &request,
                params: &params,
                namespace,
            })?);
        }
        Ok(denials)
    }

    /// The parameters of the binding, one after the other; null for a policy that has none.
    fn params(&self, cluster: &Cluster, write: &Write<'_>) -> Result<Vec<Value>, String> {
        let (wanted, reference) = (&self.spec["paramKind"], &self.binding_spec["paramRef"]);
        if wanted.is_null() || reference.is_null() {
            return Ok(vec![Value::Null]);
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let version = text(&wanted["apiVersion"]);
        let group = version.rsplit_once('/').map_or("", |(group, _)| group);
        let kind = cluster.kinds().into_iter().find(|kind| {
            kind.group == group && kind.kind == wanted["kind"].as_str().unwrap_or_default()
        });
        let kind = kind.ok_or_else(|| {
            format!("paramKind {} in {version} is not served", text(&wanted["kind"]))
        })?;
        let namespace = match reference["namespace"].as_str() {
            Some(namespace) if kind.namespaced => namespace,
            _ if kind.namespaced => write.namespace,
            _ => "",
        };
        let name = reference["name"].as_str().unwrap_or_default();
        let found: Vec<Value> = if name.is_empty() {
            let selector = Labels::from_object(&reference["selector"]).unwrap_or_default();
            let all = cluster.store().list(&kind.resource(), namespace).0;
            let chosen = all.into_iter().filter(|object| {
                let labels = &object.value["metadata"]["labels"];
                selector.as_ref().is_none_or(|selector| selector.matches(labels))
            });
            chosen.map(|object| object.value.clone()).collect()
        } else {
            let object = cluster.get_object(&kind, namespace, name).ok();
            object.map(|object| object.value.clone()).into_iter().collect()
        };
        if found.is_empty() && reference["parameterNotFoundAction"] != "Allow" {
            return Err(
                "no params found for policy binding with `Deny` parameterNotFoundAction".to_owned()
            );
        }
        Ok(found)
    }

    fn outcome(
        &self,
        write: &Write<'_>,
        result: Result<Vec<Denial>, String>,
    ) -> Result<(), Status> {
        let denial = match result {
            Ok(denials) => match denials.into_iter().next() {
                Some(denial) => denial,
                None => return Ok(()),
            },
            Err(_) if self.spec["failurePolicy"] == "Ignore" => return Ok(()),
            Err(message) => Denial { message, reason: None },
        };
        let actions = self.binding_spec["validationActions"].as_array();
        if !actions.is_some_and(|actions| actions.iter().any(|action| action == "Deny")) {
            return Ok(());
        }
        let why = format!(
            "ValidatingAdmissionPolicy '{}' with binding '{}' denied request: {}",
            self.policy, self.binding, denial.message
        );
        let Kind { group, plural, .. } = write.kind;
        let mut status = Status::forbidden(group, plural, write.name, &why);
        (status.code, status.reason) = match denial.reason.as_deref() {
            Some("Unauthorized") => (401, "Unauthorized"),
            Some("Forbidden") => (403, "Forbidden"),
            Some("RequestEntityTooLarge") => (413, "RequestEntityTooLarge"),
            _ => (422, "Invalid"),
        };
        if let Some(details) = &mut status.details {
            details["causes"] = json!([{"message": denial.message}]);
        }
        Err(status)
    }
}

/// The namespace that a write is in, or that it is about; null if there is none.
fn namespace_of(cluster: &Cluster, write: &Write<'_>) -> Value {
    if is_namespace(write.kind) {
        return if write.new.is_null() { write.old.clone() } else { write.new.clone() };
    }
    if write.namespace.is_empty() {
        return Value::Null;
    }
    let namespaces = (String::new(), "namespaces".to_owned());
    let key = (String::new(), write.namespace.to_owned());
    cluster.store().get(&namespaces, &key).map_or(Value::Null, |object| object.value.clone())
}

fn is_namespace(kind: &Kind) -> bool {
    kind.group.is_empty() && kind.plural == "namespaces"
}

fn subresource(part: Part) -> &'static str {
    if part == Part::Status { "status" } else { "" }
}

/// Whether `MatchResources` mean the write.
fn matches(constraints: &Value, write: &Write<'_>, namespace: &Value) -> bool {
    let rules = |name: &str| constraints[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let any = |rules: &[Value]| rules.iter().any(|rule| rule_matches(rule, write));
    // Bindings may leave out the rules: then every resource is meant.
    let named = rules("resourceRules");
    if any(rules("excludeResourceRules")) || !(named.is_empty() || any(named)) {
        return false;
    }
    let selects = |field: &str, object: &Value| {
        let selector = Labels::from_object(&constraints[field]).unwrap_or_default();
        selector.is_none_or(|selector| selector.matches(&object["metadata"]["labels"]))
    };
    let in_namespace = !write.namespace.is_empty() || is_namespace(write.kind);
    if in_namespace && !selects("namespaceSelector", namespace) {
        return false;
    }
    [write.new, write.old]
        .into_iter()
        .any(|object| !object.is_null() && selects("objectSelector", object))
}

fn rule_matches(rule: &Value, write: &Write<'_>) -> bool {
    let has = |field: &str, wanted: &str| {
        let list = rule[field].as_array().map(Vec::as_slice).unwrap_or_default();
        list.iter().any(|entry| entry == "*" || entry == wanted)
    };
    let Kind { group, version, plural, namespaced, .. } = write.kind;
    let resources = rule["resources"].as_array().map(Vec::as_slice).unwrap_or_default();
    let resource = resources.iter().filter_map(Value::as_str).any(|entry| {
        let (named, sub) = entry.split_once('/').unwrap_or((entry, ""));
        let inner = subresource(write.part);
        let sub_matches = match sub {
            "" => inner.is_empty() || entry == "*",
            "*" => true,
            sub => sub == inner,
        };
        // Without a slash `*` means every resource, but no subresource.
        let sub_matches = if entry == "*" { inner.is_empty() } else { sub_matches };
        (named == "*" || named == plural) && sub_matches
    });
    let names = rule["resourceNames"].as_array().filter(|names| !names.is_empty());
    let named = names.is_none_or(|names| names.iter().any(|name| name == write.name));
    let scope = match rule["scope"].as_str() {
        Some("Cluster") => !namespaced,
        Some("Namespaced") => *namespaced,
        _ => true,
    };
    has("operations", write.operation)
        && has("apiGroups", group)
        && has("apiVersions", version)
        && resource
        && named
        && scope
}

/// An `AdmissionRequest` without its objects.
fn request(write: &Write<'_>) -> Value {
    let Kind { group, version, kind, plural, .. } = write.kind;
    let (kind, resource) = (
        json!({"group": group, "version": version, "kind": kind}),
        json!({"group": group, "version": version, "resource": plural}),
    );
    let subresource = subresource(write.part);
    json!({
        "kind": kind, "requestKind": kind,
        "resource": resource, "requestResource": resource,
        "subResource": subresource, "requestSubResource": subresource,
        "name": write.name, "namespace": write.namespace,
        "operation": write.operation, "dryRun": write.dry_run,
        "userInfo": {
            "username": "kubernetes-admin",
            "groups": ["system:masters", "system:authenticated"],
        },
    })
}

/// What is wrong with a policy or a binding.
pub(crate) fn validate(kind: &Kind, value: &Value) -> Vec<FieldError> {
    if kind.group != GROUP {
        return Vec::new();
    }
    let spec = &value["spec"];
    let mut errors = Vec::new();
    let is_empty = |value: &Value| value.as_array().is_none_or(Vec::is_empty);
    if kind.plural == BINDINGS {
        if spec["policyName"].as_str().unwrap_or_default().is_empty() {
            errors.push(FieldError::required("spec.policyName", ""));
        }
        if is_empty(&spec["validationActions"]) {
            errors.push(FieldError::required("spec.validationActions", ""));
        }
        return errors;
    }
    if is_empty(&spec["matchConstraints"]["resourceRules"]) {
        errors.push(FieldError::required("spec.matchConstraints.resourceRules", ""));
    }
    if is_empty(&spec["validations"]) && is_empty(&spec["auditAnnotations"]) {
        let why = "validations or auditAnnotations must be non-empty";
        errors.push(FieldError::required("spec.validations", why));
    }
    for mistake in Policy::compile(spec).err().into_iter().flatten() {
        errors.push(match mistake.why.as_str() {
            "" => FieldError::required(mistake.field, ""),
            why => FieldError::invalid(mistake.field, &mistake.text.into(), why),
        });
    }
    errors
}
