//! What is for sale: instance types, where, and at what price.
//!
//! ```text
//! data/*.gz ──embedded──┐
//! two CSV files ────────┴─> csv ──> ec2 (+ overhead, eligible) ──┐
//! KWOK instance-type JSON ────────> kwok (+ overhead) ───────────┴─> Catalog ──> Region
//! ```

mod csv;
mod ec2;
mod eligible;
mod embedded;
mod error;
mod kwok;
mod overhead;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aerostat_api::class::ClassKind;
use aerostat_api::labels;
use aerostat_engine::instance::InstanceType;
use serde::{Deserialize, Serialize};

pub use error::CatalogError;
pub(crate) use overhead::{DATA_VOLUME, data_volume, resize};

/// A text and the name that errors call it by.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    /// Its name.
    pub name: &'a str,
    /// What is in it.
    pub text: &'a str,
}

/// Instance types and prices by region.
#[derive(Clone, Debug)]
pub struct Catalog(Source);

#[derive(Clone, Debug)]
enum Source {
    /// Read a region at a time.
    Embedded,
    /// Read as a whole, so that nothing wrong in it goes unseen.
    Given(BTreeMap<String, Arc<Region>>),
}

/// What one region sells.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    /// Its name, `ap-northeast-1` for example.
    pub name: String,
    /// Whose machines they are.
    pub flavor: Flavor,
    /// Its instance types, by name.
    pub types: Vec<InstanceType>,
    /// Where the on-demand prices come from, by type.
    sources: BTreeMap<String, String>,
}

/// Whose machines are simulated: what their classes, labels and names are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Flavor {
    /// EKS Auto Mode's, on EC2.
    #[default]
    #[serde(rename = "sim")]
    AutoMode,
    /// Those of Karpenter's KWOK provider.
    #[serde(rename = "kwok")]
    Kwok,
}

impl Flavor {
    /// The kind of class that they are launched with.
    #[must_use]
    pub fn class_kind(self) -> &'static ClassKind {
        match self {
            Self::AutoMode => &ClassKind::AUTO_MODE,
            Self::Kwok => &ClassKind::KWOK,
        }
    }
}

/// Where a price comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PriceSource {
    /// What the catalog's `price_source` says: `published-2025-03`, `estimated`.
    Catalog(String),
    /// Made up: a spot price of a catalog that has none. See [`Region::price_source`].
    Synthetic,
}

impl Catalog {
    /// EC2's types and prices in 13 regions, as far as Auto Mode runs them. See `data/README.md`
    /// for where they come from.
    #[must_use]
    pub fn embedded() -> Self {
        Self(Source::Embedded)
    }

    /// Reads two tables with the columns of the embedded ones. Auto Mode's rules about sizes and
    /// families (more than one vCPU, no bare metal, the documented families) apply to the families
    /// of EC2 only; a family of the user's own is taken as it is.
    ///
    /// # Errors
    ///
    /// Names the file, the line and the column, and says what would be right there.
    pub fn from_csv(types: File<'_>, offerings: File<'_>) -> Result<Self, CatalogError> {
        let regions = ec2::regions(&ec2::shapes(types)?, offerings, &embedded::families())?;
        Ok(Self::given(regions))
    }

    /// Reads a list of instance types as Karpenter's KWOK provider does.
    ///
    /// Beside upstream's fields an entry may have `allocatable` (what pods may use; otherwise the
    /// capacity less what a kubelet keeps) and `labels` (which win over those made up here).
    ///
    /// Such types lack the labels that Auto Mode's NodePools ask for, so they get some:
    /// `instance-category` by what they are (`g` with GPUs; else `c` up to 3 GiB a vCPU, `m` up to
    /// 6, `r` above), `instance-generation` 5 (the lowest that `general-purpose` takes),
    /// `instance-family` and `instance-size` from the name (`c-4x-amd64-linux`: `c` and `4x`),
    /// `instance-cpu` and `instance-memory` from the capacity. A name like EC2's (`c5a.large`)
    /// gives category, generation, family and size itself.
    ///
    /// The region is the zones' name without its last letter: `test-zone` of `test-zone-a`,
    /// `us-west-2` of `us-west-2b`.
    ///
    /// # Errors
    ///
    /// Names the file and the line, or the type and the field, and says what would be right there.
    pub fn from_kwok_json(file: File<'_>) -> Result<Self, CatalogError> {
        kwok::regions(file, Flavor::AutoMode).map(Self::given)
    }

    /// The 144 types of Karpenter's KWOK provider, or those of a file in its format, with its own
    /// labels (`karpenter.kwok.sh/instance-size` and so on) and what its machines keep for
    /// themselves (100m of cpu, 10Mi of memory).
    ///
    /// # Errors
    ///
    /// As [`Catalog::from_kwok_json`].
    pub fn kwok(file: Option<File<'_>>) -> Result<Self, CatalogError> {
        let regions = match file {
            Some(file) => kwok::regions(file, Flavor::Kwok),
            None => {
                let text = embedded::kwok();
                kwok::regions(File { name: "kwok-instance-types.json", text: &text }, Flavor::Kwok)
            }
        };
        regions.map(Self::given)
    }

    fn given(regions: BTreeMap<String, Region>) -> Self {
        let shared = regions.into_iter().map(|(name, region)| (name, Arc::new(region)));
        Self(Source::Given(shared.collect()))
    }

    /// The names of its regions, sorted.
    #[must_use]
    pub fn regions(&self) -> Vec<&str> {
        match &self.0 {
            Source::Embedded => embedded::REGIONS.iter().map(|(name, _)| *name).collect(),
            Source::Given(regions) => regions.keys().map(String::as_str).collect(),
        }
    }

    /// What a region sells.
    ///
    /// # Errors
    ///
    /// If there is no such region; the error names those that there are.
    pub fn region(&self, name: &str) -> Result<Arc<Region>, CatalogError> {
        let region = match &self.0 {
            Source::Embedded => embedded::region(name).map(Arc::new),
            Source::Given(regions) => regions.get(name).cloned(),
        };
        region.ok_or_else(|| CatalogError::UnknownRegion {
            region: name.to_owned(),
            known: self.regions().join(", "),
        })
    }
}

impl Region {
    fn new(name: &str, flavor: Flavor) -> Self {
        Self { name: name.to_owned(), flavor, types: Vec::new(), sources: BTreeMap::new() }
    }

    /// One of its types.
    #[must_use]
    pub fn instance_type(&self, name: &str) -> Option<&InstanceType> {
        let at = self.types.binary_search_by(|known| known.name.as_str().cmp(name)).ok()?;
        Some(&self.types[at])
    }

    /// Its zones, sorted.
    #[must_use]
    pub fn zones(&self) -> BTreeSet<&str> {
        let offerings = self.types.iter().flat_map(|known| &known.offerings);
        offerings.map(|offering| offering.zone.as_str()).collect()
    }

    /// Where a price comes from; `None` for a type that the region does not have, and for a KWOK
    /// file, which gives all its prices.
    ///
    /// There is no public history of spot prices to embed, so those of CSV catalogs are synthetic:
    /// between 30 and 40 % of the on-demand price, fixed for each type and zone by a hash.
    #[must_use]
    pub fn price_source(&self, instance_type: &str, capacity_type: &str) -> Option<PriceSource> {
        let source = self.sources.get(instance_type)?;
        Some(match capacity_type {
            "spot" => PriceSource::Synthetic,
            _ => PriceSource::Catalog(source.clone()),
        })
    }
}

/// Labels that every type has.
fn labels_of(name: &str, region: &str, arch: &str, os: &str) -> BTreeMap<String, String> {
    [
        (labels::INSTANCE_TYPE, name),
        (labels::REGION, region),
        (labels::ARCH, arch),
        (labels::OS, os),
        (labels::COMPUTE_TYPE, "auto"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}
