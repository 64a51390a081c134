//! The instance catalog: two CSV files and one of JSON, packed into `crates/provider/data`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

const TYPES: &str = "instance-types.csv.gz";
const OFFERINGS: &str = "offerings";
const KWOK: &str = "kwok-instance-types.json.gz";

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/provider/data")
}

/// Packs `instance-types.csv`, `offerings.csv` and `kwok-instance-types.json` of the folder `from`:
/// the types into one file, the offerings into one a region.
///
/// # Errors
///
/// A file cannot be read or written, or `offerings.csv` does not begin with its header.
pub fn pack(from: &Path) -> Result<()> {
    let read = |name: &str| {
        let path = from.join(name);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let mut files = BTreeMap::from([
        (TYPES.to_owned(), read("instance-types.csv")?),
        (KWOK.to_owned(), read("kwok-instance-types.json")?),
    ]);
    let offerings = read("offerings.csv")?;
    let (header, rows) = offerings.split_once('\n').context("offerings.csv has no header line")?;
    ensure!(header.starts_with("region,"), "the first column of offerings.csv must be region");
    for row in rows.lines() {
        let region = row.split(',').next().unwrap_or_default();
        let file = files.entry(format!("{OFFERINGS}/{region}.csv.gz"));
        let text = file.or_insert_with(|| format!("{header}\n"));
        text.push_str(row);
        text.push('\n');
    }
    for (name, text) in files {
        let path = data().join(&name);
        let bytes = gzip(text.as_bytes())?;
        println!("{name}: {} bytes, {} inflated", bytes.len(), text.len());
        fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Checks that the packed files are what [`pack`] would write for what is in them.
///
/// # Errors
///
/// Names the file that was packed otherwise.
pub fn check() -> Result<()> {
    let mut paths = vec![data().join(TYPES), data().join(KWOK)];
    for entry in fs::read_dir(data().join(OFFERINGS))? {
        paths.push(entry?.path());
    }
    for path in paths {
        let packed = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut text = String::new();
        GzDecoder::new(&packed[..])
            .read_to_string(&mut text)
            .with_context(|| format!("{} is not gzip of a text", path.display()))?;
        ensure!(
            gzip(text.as_bytes())? == packed,
            "{} was not written by `cargo xtask generate catalog`; pack it again from its CSV files",
            path.display()
        );
    }
    Ok(())
}

/// Without a time or a name in the header: equal texts give equal bytes.
fn gzip(text: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text)?;
    Ok(encoder.finish()?)
}
