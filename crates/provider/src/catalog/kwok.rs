//! Instance types as Karpenter's KWOK provider reads them.
//!
//! Source: kubernetes-sigs/karpenter `kwok/cloudprovider/instance_types.json`.

use std::collections::{BTreeMap, BTreeSet};

use aerostat_api::{Quantity, labels};
use aerostat_engine::instance::{InstanceType, Offering};
use aerostat_engine::resources::Resources;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

use super::{CatalogError, File, Flavor, Region, labels_of, overhead};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    #[serde(deserialize_with = "name")]
    name: String,
    offerings: Vec<Given>,
    architecture: Architecture,
    operating_systems: Vec<String>,
    resources: Amounts,
    #[serde(default)]
    allocatable: Option<Amounts>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Architecture {
    Amd64,
    Arm64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Given {
    #[serde(deserialize_with = "price")]
    price: f64,
    available: bool,
    requirements: Place,
}

/// Where an offering is and what kind it is, read from its requirements.
#[derive(Deserialize)]
#[serde(try_from = "Vec<Requirement>")]
struct Place {
    region: String,
    zone: String,
    capacity_type: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Requirement {
    key: String,
    operator: String,
    values: Vec<String>,
}

impl TryFrom<Vec<Requirement>> for Place {
    type Error = String;

    fn try_from(list: Vec<Requirement>) -> Result<Self, String> {
        let mut values = BTreeMap::new();
        for Requirement { key, operator, values: allowed } in list {
            if ![labels::ZONE, labels::REGION, labels::CAPACITY_TYPE].contains(&key.as_str()) {
                let known = [labels::CAPACITY_TYPE, labels::ZONE, labels::REGION].join(", ");
                return Err(format!("an offering cannot require {key}, only {known}"));
            }
            match (operator.as_str(), <[String; 1]>::try_from(allowed)) {
                ("In", Ok([value])) if !value.is_empty() => values.insert(key, value),
                _ => return Err(format!("{key} must be In one value")),
            };
        }
        let mut take = |key: &str| values.remove(key);
        let needed = |key: &str| format!("an offering needs a requirement on {key}");
        let zone = take(labels::ZONE).ok_or_else(|| needed(labels::ZONE))?;
        let capacity_type =
            take(labels::CAPACITY_TYPE).ok_or_else(|| needed(labels::CAPACITY_TYPE))?;
        if !["on-demand", "spot", "reserved"].contains(&capacity_type.as_str()) {
            let key = labels::CAPACITY_TYPE;
            return Err(format!(
                "{key} is {capacity_type:?}; it must be on-demand, spot or reserved"
            ));
        }
        let region = take(labels::REGION).unwrap_or_else(|| region_of(&zone));
        Ok(Self { region, zone, capacity_type })
    }
}

/// `us-west-2` of `us-west-2b`, `test-zone` of `test-zone-a`.
fn region_of(zone: &str) -> String {
    let stem = zone.strip_suffix(|letter: char| letter.is_ascii_lowercase()).unwrap_or(zone);
    let region = match stem.strip_suffix('-') {
        Some(region) => region,
        None if stem.ends_with(|last: char| last.is_ascii_digit()) => stem,
        None => zone,
    };
    if region.is_empty() { zone.to_owned() } else { region.to_owned() }
}

/// A resource list: no negative amounts, and some cpu, memory and pods.
#[derive(Deserialize)]
#[serde(try_from = "BTreeMap<String, Quantity>")]
struct Amounts(Resources);

impl TryFrom<BTreeMap<String, Quantity>> for Amounts {
    type Error = String;

    fn try_from(list: BTreeMap<String, Quantity>) -> Result<Self, String> {
        if let Some((name, amount)) = list.iter().find(|(_, amount)| amount.is_negative()) {
            return Err(format!("{name} is {amount}; it must not be negative"));
        }
        for name in ["cpu", "memory", "pods"] {
            if list.get(name).is_none_or(Quantity::is_zero) {
                return Err(format!("{name} is missing; a machine has cpu, memory and pods"));
            }
        }
        Ok(Self(Resources::from_quantities(&list)))
    }
}

fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    if name.is_empty() { Err(D::Error::custom("name is empty")) } else { Ok(name) }
}

fn price<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    struct Price;
    impl Visitor<'_> for Price {
        type Value = f64;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a price in USD per hour, a number above 0")
        }
        fn visit_f64<E: Error>(self, price: f64) -> Result<f64, E> {
            let bad = || E::custom(format!("Price is {price}; it must be above 0, USD per hour"));
            if price > 0.0 { Ok(price) } else { Err(bad()) }
        }
        fn visit_u64<E: Error>(self, price: u64) -> Result<f64, E> {
            self.visit_f64(price as f64)
        }
        fn visit_i64<E: Error>(self, price: i64) -> Result<f64, E> {
            self.visit_f64(price as f64)
        }
    }
    deserializer.deserialize_any(Price)
}

/// What a machine of the KWOK provider keeps for itself. Source: `kwok/cloudprovider/helpers.go`.
const KEPT_CPU: i64 = 100;
const KEPT_MEMORY: i64 = 10 * overhead::MIB;

/// Reads `file`, for machines of `flavor`.
pub(super) fn regions(
    file: File<'_>,
    flavor: Flavor,
) -> Result<BTreeMap<String, Region>, CatalogError> {
    let entries: Vec<Entry> = serde_json::from_str(file.text).map_err(|error| {
        let text = error.to_string();
        let problem = text.rsplit_once(" at line ").map_or(text.as_str(), |(problem, _)| problem);
        let (file, line) = (file.name.to_owned(), error.line());
        CatalogError::Line { file, line, problem: problem.to_owned() }
    })?;
    let bad = |name: &str, problem: String| {
        let file = file.name.to_owned();
        CatalogError::File { file, problem: format!("type {name:?}: {problem}") }
    };
    let mut regions: BTreeMap<String, Region> = BTreeMap::new();
    let mut names = BTreeSet::new();
    for entry in &entries {
        if !names.insert(entry.name.as_str()) {
            return Err(bad(&entry.name, "is there twice; names must differ".to_owned()));
        }
        let types = instance_types(entry, flavor).map_err(|problem| bad(&entry.name, problem))?;
        for (region, kind) in types {
            let known = regions.entry(region);
            known.or_insert_with_key(|name| Region::new(name, flavor)).types.push(kind);
        }
    }
    for region in regions.values_mut() {
        region.types.sort_by(|a, b| a.name.cmp(&b.name));
    }
    if regions.is_empty() {
        let problem = "is an empty list; it must hold at least one instance type".to_owned();
        return Err(CatalogError::File { file: file.name.to_owned(), problem });
    }
    Ok(regions)
}

/// The type as each of its regions has it, by region.
fn instance_types(entry: &Entry, flavor: Flavor) -> Result<Vec<(String, InstanceType)>, String> {
    let capacity = entry.resources.0.clone();
    let allocatable = allocatable(entry, &capacity, flavor)?;
    let mut offerings: BTreeMap<&str, Vec<Offering>> = BTreeMap::new();
    for given in &entry.offerings {
        let Place { region, zone, capacity_type } = &given.requirements;
        let list = offerings.entry(region.as_str()).or_default();
        if list.iter().any(|known| known.zone == *zone && known.capacity_type == *capacity_type) {
            return Err(format!("has two offerings of {capacity_type} in {zone}"));
        }
        let (zone, capacity_type) = (zone.clone(), capacity_type.clone());
        let (price, available) = (given.price, given.available);
        list.push(Offering { zone, capacity_type, price, available, reservation: None });
    }
    if offerings.is_empty() {
        return Err("offerings is empty; it needs at least one".to_owned());
    }
    let types = offerings.into_iter().map(|(region, mut offerings)| {
        offerings.sort_by(|a, b| (&a.zone, &a.capacity_type).cmp(&(&b.zone, &b.capacity_type)));
        let kind = InstanceType {
            name: entry.name.clone(),
            labels: match flavor {
                Flavor::AutoMode => type_labels(entry, region),
                Flavor::Kwok => kwok_labels(entry),
            },
            offerings,
            capacity: capacity.clone(),
            allocatable: allocatable.clone(),
        };
        (region.to_owned(), kind)
    });
    Ok(types.collect())
}

fn allocatable(entry: &Entry, capacity: &Resources, flavor: Flavor) -> Result<Resources, String> {
    if let Some(Amounts(allocatable)) = &entry.allocatable {
        if !capacity.covers(allocatable) {
            return Err("allocatable is more than resources".to_owned());
        }
        return Ok(allocatable.clone());
    }
    let mut allocatable = capacity.clone();
    if flavor == Flavor::Kwok {
        allocatable.cpu -= KEPT_CPU;
        allocatable.memory -= KEPT_MEMORY;
        if allocatable.cpu <= 0 || allocatable.memory <= 0 {
            return Err(
                "resources leave nothing to pods: a machine keeps 100m of cpu and 10Mi of \
                        memory; give more, or say what is left in allocatable"
                    .to_owned(),
            );
        }
        return Ok(allocatable);
    }
    allocatable.subtract(&overhead::reserved(capacity));
    allocatable.storage = allocatable.storage.max(0);
    if allocatable.cpu <= 0 || allocatable.memory <= 0 {
        let kept = overhead::reserved(capacity).memory / overhead::MIB;
        return Err(format!(
            "resources leave nothing to pods: a kubelet with {} pods keeps {kept}Mi of memory; \
             give more, or say what is left in allocatable",
            capacity.pods
        ));
    }
    Ok(allocatable)
}

/// Architecture and operating system, Linux if there is a choice.
fn platform(entry: &Entry) -> (&str, &str) {
    let arch = match entry.architecture {
        Architecture::Amd64 => "amd64",
        Architecture::Arm64 => "arm64",
    };
    let linux = entry.operating_systems.iter().any(|os| os == "linux");
    let first = entry.operating_systems.first().map_or("linux", String::as_str);
    (arch, if linux { "linux" } else { first })
}

/// The labels that the KWOK provider gives its types: the size is an EC2 name's, or the vCPUs; the
/// family is what stands before the first `.` or `-`.
///
/// Source: kubernetes-sigs/karpenter `kwok/cloudprovider/helpers.go`.
fn kwok_labels(entry: &Entry) -> BTreeMap<String, String> {
    let (arch, os) = platform(entry);
    let amounts = entry.resources.0.quantities();
    let text = |name: &str| amounts.get(name).map(Quantity::to_string).unwrap_or_default();
    let (cpu, memory) = (text("cpu"), text("memory"));
    let size = match ec2_name(&entry.name) {
        Some(_) => entry.name.split_once('.').map_or("", |(_, size)| size),
        None => &cpu,
    };
    let family = match entry.name.split_once(['.', '-']) {
        Some((family, _)) => family,
        None => entry.name.get(..1).unwrap_or_default(),
    };
    let mut all: BTreeMap<String, String> = [
        (labels::INSTANCE_TYPE, entry.name.as_str()),
        (labels::ARCH, arch),
        (labels::OS, os),
        (labels::KWOK_SIZE, size),
        (labels::KWOK_FAMILY, family),
        (labels::KWOK_CPU, &cpu),
        (labels::KWOK_MEMORY, &memory),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    all.extend(entry.labels.clone());
    all
}

fn type_labels(entry: &Entry, region: &str) -> BTreeMap<String, String> {
    let capacity = &entry.resources.0;
    let (arch, os) = platform(entry);
    let mut labels = labels_of(&entry.name, region, arch, os);
    let gpus = capacity.get("nvidia.com/gpu") + capacity.get("amd.com/gpu");
    let mebibytes = capacity.memory / overhead::MIB;
    let named = ec2_name(&entry.name);
    let (family, size) = match named {
        Some(_) => entry.name.split_once('.').unwrap_or((&entry.name, "")),
        None => {
            let mut parts = entry.name.split('-');
            (parts.next().unwrap_or(""), parts.next().unwrap_or(""))
        }
    };
    // 3 and 6 GiB a vCPU lie between EC2's 2, 4 and 8.
    let per_cpu = mebibytes * 1000 / capacity.cpu.max(1);
    let by_shape = match per_cpu {
        _ if gpus > 0 => "g",
        ..=3072 => "c",
        3073..=6144 => "m",
        _ => "r",
    };
    let (category, generation) = named.unwrap_or((by_shape, "5"));
    for (name, value) in [
        ("category", category),
        ("generation", generation),
        ("family", family),
        ("size", size),
        ("cpu", &(capacity.cpu / 1000).to_string()),
        ("memory", &mebibytes.to_string()),
    ] {
        if !value.is_empty() {
            labels.insert(format!("{}instance-{name}", labels::EKS_PREFIX), value.to_owned());
        }
    }
    if gpus > 0 {
        labels.insert(format!("{}instance-gpu-count", labels::EKS_PREFIX), gpus.to_string());
    }
    labels.extend(entry.labels.clone());
    labels
}

/// Category and generation of a name like EC2's: `c` and `5` of `c5a.large`.
fn ec2_name(name: &str) -> Option<(&str, &str)> {
    let (family, _) = name.split_once('.')?;
    let digits = family.find(|c: char| c.is_ascii_digit()).filter(|at| *at > 0)?;
    let end =
        family[digits..].find(|c: char| !c.is_ascii_digit()).map_or(family.len(), |n| digits + n);
    let category = &family[..digits];
    category.chars().all(|c| c.is_ascii_lowercase()).then_some((category, &family[digits..end]))
}
