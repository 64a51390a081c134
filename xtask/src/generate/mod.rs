//! Generated files: the type tables of `aerostat-schema` and, in `catalog`, the instance catalog.
//!
//! `modules` finds Kubernetes' published Go modules, `go` reads the struct tags in them (field
//! numbers, pointers, omitempty), `swagger` the OpenAPI document (types, list semantics, prose),
//! and `table` joins the two into the text that `crates/schema` reads.

pub mod catalog;
mod go;
mod modules;
mod swagger;
mod table;

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

/// Writes the type tables, or with `check` says whether the committed ones are what would be
/// written.
///
/// # Errors
///
/// Go is missing, a module cannot be had or read, a type is not understood, or (with `check`) the
/// files differ.
pub fn run(check: bool) -> anyhow::Result<()> {
    let modules = modules::locate()?;
    let document = swagger::read(&modules)?;
    let tables = table::build(&document, &modules)?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/schema/data");
    for (name, text) in [("v1.36.types", tables.types), ("v1.36.descriptions", tables.descriptions)]
    {
        let path: PathBuf = folder.join(name);
        if check {
            let committed = fs::read(&path).with_context(|| format!("reading {name}"))?;
            let mut inflated = String::new();
            DeflateDecoder::new(&committed[..])
                .read_to_string(&mut inflated)
                .with_context(|| format!("inflating {name}"))?;
            if inflated != text {
                bail!(
                    "crates/schema/data/{name} is out of date: run `cargo xtask generate schemas`"
                );
            }
        } else {
            let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
            encoder.write_all(text.as_bytes())?;
            let bytes = encoder.finish()?;
            println!("{name}: {} bytes, {} inflated", bytes.len(), text.len());
            fs::write(&path, bytes).with_context(|| format!("writing {name}"))?;
        }
    }
    Ok(())
}
