//! One version of one object.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// One version of one object: its JSON, and what has been made of it so far.
#[derive(Debug)]
pub struct Object {
    /// The object as JSON, `metadata.resourceVersion` included.
    pub value: Value,
    /// The revision that wrote it.
    pub revision: u64,
    typed: OnceLock<Arc<dyn Any + Send + Sync>>,
    json: OnceLock<Bytes>,
}

impl Object {
    /// The object at `revision`.
    #[must_use]
    pub fn new(mut value: Value, revision: u64) -> Self {
        value["metadata"]["resourceVersion"] = revision.to_string().into();
        Self { value, revision, typed: OnceLock::new(), json: OnceLock::new() }
    }

    /// As a type of Kubernetes; decoded once, shared by all who ask.
    ///
    /// # Errors
    ///
    /// If the stored JSON is none of `K`: validation let something through.
    pub fn typed<K>(&self) -> Result<Arc<K>, serde_json::Error>
    where
        K: DeserializeOwned + Send + Sync + 'static,
    {
        if let Some(typed) = self.typed.get()
            && let Ok(typed) = typed.clone().downcast::<K>()
        {
            return Ok(typed);
        }
        let typed = Arc::new(K::deserialize(&self.value)?);
        // Another thread may have been first, or the object been read as another type.
        let _ = self.typed.set(typed.clone());
        Ok(typed)
    }

    /// As JSON bytes; encoded once, shared by all who ask.
    #[must_use]
    pub fn json(&self) -> Bytes {
        self.json.get_or_init(|| Bytes::from(self.value.to_string())).clone()
    }

    /// `metadata.name`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.value["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// `metadata.namespace`, empty if cluster-scoped.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.value["metadata"]["namespace"].as_str().unwrap_or_default()
    }

    /// `metadata.uid`.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.value["metadata"]["uid"].as_str().unwrap_or_default()
    }
}
