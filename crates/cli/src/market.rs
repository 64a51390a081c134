//! What may be bought: the options that all verbs share.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use aerostat_provider::catalog::{Catalog, File, Flavor, Region};
use anyhow::{Context, bail};

/// Which instance types there are, and what they cost.
#[derive(Debug, clap::Args)]
pub struct Market {
    /// The AWS region whose instance types and prices are used; ap-northeast-1 if not given.
    #[arg(long, value_name = "REGION")]
    pub region: Option<String>,

    /// Your own instance types and prices instead: a JSON file as Karpenter's KWOK provider has
    /// it, or (given twice) the two CSV files with types and with offerings.
    #[arg(long, value_name = "FILE")]
    pub catalog: Vec<PathBuf>,
}

/// Where the cluster is if nobody says.
const DEFAULT_REGION: &str = "ap-northeast-1";

impl Market {
    /// Whether any of the options was given.
    pub fn is_given(&self) -> bool {
        self.region.is_some() || !self.catalog.is_empty()
    }

    /// The region that the options name, of the catalog that they name, for machines of `flavor`.
    ///
    /// # Errors
    ///
    /// If the region is not known, or a file has a fault: the error names file, line and field.
    pub fn region(&self, flavor: Flavor) -> anyhow::Result<Arc<Region>> {
        let catalog = match self.catalog.as_slice() {
            [] if flavor == Flavor::Kwok => Catalog::kwok(None)?,
            [json] if flavor == Flavor::Kwok => Catalog::kwok(Some(read(json)?.file()))?,
            _ if flavor == Flavor::Kwok => {
                bail!("--catalog takes one JSON file with --provider kwok")
            }
            [] => Catalog::embedded(),
            [json] => Catalog::from_kwok_json(read(json)?.file())?,
            [one, two] => {
                // The order does not matter: the header tells which is which.
                let (one, two) = (read(one)?, read(two)?);
                let swapped = one.text.starts_with("region");
                let (types, offerings) = if swapped { (two, one) } else { (one, two) };
                Catalog::from_csv(types.file(), offerings.file())?
            }
            more => bail!("--catalog takes one JSON file or two CSV files, not {}", more.len()),
        };
        let regions = catalog.regions();
        let name = match (&self.region, regions.as_slice()) {
            (Some(name), _) => name.as_str(),
            (None, [only]) => only,
            (None, several) if several.contains(&DEFAULT_REGION) => DEFAULT_REGION,
            (None, several) => bail!(
                "the catalog has several regions: name one of {} with --region",
                several.join(", ")
            ),
        };
        Ok(catalog.region(name)?)
    }
}

/// A catalog file that was read.
struct Read {
    name: String,
    text: String,
}

impl Read {
    fn file(&self) -> File<'_> {
        File { name: &self.name, text: &self.text }
    }
}

fn read(path: &Path) -> anyhow::Result<Read> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("the catalog file {name} cannot be read"))?;
    Ok(Read { name, text })
}
