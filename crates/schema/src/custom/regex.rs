//! The regular expressions of CEL rules, compiled once.
//!
//! kube-cel compiles a pattern at every call, which costs a hundred times the match. These two
//! functions replace its own; they behave the same.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use kube_cel::cel::extractors::This;
use kube_cel::cel::objects::Value;
use kube_cel::cel::{Context, ExecutionError, ResolveResult};
use regex::Regex;

/// Patterns that are kept; a rule may build its patterns from the object, so there is a limit.
const KEPT: usize = 256;

thread_local! {
    static COMPILED: RefCell<BTreeMap<String, Regex>> = const { RefCell::new(BTreeMap::new()) };
}

/// Makes `context` use compiled patterns.
pub(super) fn install(context: &mut Context<'_>) {
    context.add_function("find", find);
    context.add_function("matches", matches);
}

fn find(This(this): This<Arc<String>>, pattern: Arc<String>) -> ResolveResult {
    let found = compiled("find", &pattern)?.find(&this).map(|found| found.as_str().to_owned());
    Ok(Value::String(Arc::new(found.unwrap_or_default())))
}

fn matches(This(this): This<Arc<String>>, pattern: Arc<String>) -> ResolveResult {
    Ok(Value::Bool(compiled("matches", &pattern)?.is_match(&this)))
}

fn compiled(function: &str, pattern: &str) -> Result<Regex, ExecutionError> {
    COMPILED.with_borrow_mut(|known| {
        if let Some(regex) = known.get(pattern) {
            return Ok(regex.clone());
        }
        let regex = Regex::new(pattern).map_err(|error| {
            ExecutionError::function_error(function, format!("invalid regex: {error}"))
        })?;
        if known.len() >= KEPT {
            known.clear();
        }
        known.insert(pattern.to_owned(), regex.clone());
        Ok(regex)
    })
}
