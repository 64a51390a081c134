//! What `cargo xtask bench` is asked to do.

use anyhow::{Context, bail};

const USAGE: &str = "\
usage: cargo xtask bench [--engine] [--write] [--peers [--pods N,N…]]
       cargo xtask bench --instructions [--bless]";

/// The command line.
#[derive(Debug, Default)]
pub struct Options {
    /// Only the planner.
    pub engine: bool,
    /// Whether `docs/benchmarks.md` is written.
    pub write: bool,
    /// For how many pods Karpenter's benchmark is run beside.
    pub peers: Option<Vec<u32>>,
    /// Count instructions; `true` writes down what is counted.
    pub instructions: Option<bool>,
}

impl Options {
    /// Reads the arguments behind `bench`.
    ///
    /// # Errors
    ///
    /// Names the argument that is not known or has no place.
    pub fn read(arguments: &[String]) -> anyhow::Result<Self> {
        let mut options = Self::default();
        let mut words = arguments.iter().map(String::as_str);
        let mut pods = None;
        while let Some(word) = words.next() {
            match word {
                "--engine" => options.engine = true,
                "--write" => options.write = true,
                "--peers" => options.peers = Some(vec![1000, 20_000]),
                "--pods" => {
                    let list = words.next().context("--pods: a list is missing")?;
                    let number = |n: &str| n.parse().with_context(|| format!("--pods: {n:?}"));
                    pods = Some(list.split(',').map(number).collect::<Result<Vec<u32>, _>>()?);
                }
                "--instructions" => {
                    options.instructions.get_or_insert(false);
                }
                "--bless" => options.instructions = Some(true),
                _ => bail!("{word}: unknown\n{USAGE}"),
            }
        }
        if pods.is_some() && options.peers.is_none() {
            bail!("--pods says for how many pods --peers is run\n{USAGE}");
        }
        if let Some(pods) = pods {
            options.peers = Some(pods);
        }
        let others = options.engine || options.write || options.peers.is_some();
        if options.instructions.is_some() && others {
            bail!("--instructions measures no time: it has only --bless beside it\n{USAGE}");
        }
        Ok(options)
    }
}
