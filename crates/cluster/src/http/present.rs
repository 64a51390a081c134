//! Objects as JSON, YAML, rows of tables, or metadata only.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use http::Response;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Call;
use super::body::ResponseBody;
use super::negotiate::{self, Accept, Encoding, Form};
use super::reply;
use super::resource::Served;
use crate::status::Status;
use crate::store::Object;
use crate::table;

/// How large a piece of a long list is made at a time, in bytes.
const CHUNK: usize = 64 * 1024;

/// How a request wants objects of a kind to be shown.
#[derive(Clone, Debug)]
pub(super) struct Presentation {
    pub served: Served,
    pub accept: Accept,
    include: Include,
    now: Timestamp,
}

/// What a table's row tells of its object besides the cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Include {
    None,
    Metadata,
    Object,
}

/// What is said of a list as a whole.
#[derive(Clone, Debug, Default)]
pub(super) struct ListMeta {
    pub revision: u64,
    pub next: Option<String>,
    pub remaining: Option<usize>,
}

impl Presentation {
    pub(super) fn of(call: &Call<'_>, served: &Served) -> Result<Self, Status> {
        let include = match call.query.get("includeObject") {
            None | Some("Metadata") => Include::Metadata,
            Some("None") => Include::None,
            Some("Object") => Include::Object,
            Some(other) => {
                let message = format!("unrecognized includeObject value: {other:?}");
                return Err(Status::bad_request(message));
            }
        };
        Ok(Self {
            served: served.clone(),
            accept: negotiate::accept(&call.head.headers)?,
            include,
            now: call.service.cluster().clock().now(),
        })
    }

    /// The same, for a later time: ages in tables are told as of it.
    pub(super) fn set_time(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// One object as a response.
    pub(super) fn object(
        &self,
        code: u16,
        object: &Object,
    ) -> Result<Response<ResponseBody>, Status> {
        let bytes = match self.accept.form {
            Form::Whole => self.served.bytes(object),
            _ => {
                let mut out = BytesMut::new();
                self.write(object, true, &mut out);
                out.freeze()
            }
        };
        self.response(code, bytes)
    }

    /// A list as a response.
    pub(super) fn list(
        &self,
        objects: Vec<Arc<Object>>,
        meta: &ListMeta,
    ) -> Result<Response<ResponseBody>, Status> {
        let chunks = Chunks::new(self, objects, meta);
        if self.accept.encoding == Encoding::Json && chunks.objects.len() > CHUNK / 1024 {
            return Ok(reply::with(200, "application/json", ResponseBody::chunks(chunks)));
        }
        let mut out = BytesMut::new();
        for chunk in chunks {
            out.extend_from_slice(&chunk);
        }
        self.response(200, out.freeze())
    }

    fn response(&self, code: u16, json: Bytes) -> Result<Response<ResponseBody>, Status> {
        if self.accept.encoding == Encoding::Json {
            return Ok(reply::json_bytes(code, json));
        }
        let value: Value = serde_json::from_slice(&json)
            .map_err(|error| Status::new(500, "InternalError", error.to_string()))?;
        reply::value(code, self.accept.encoding, &value)
    }

    /// One object by itself: the object, its metadata, or a table of one row; `header` says
    /// whether the table tells its columns.
    pub(super) fn write(&self, object: &Object, header: bool, out: &mut BytesMut) {
        match self.accept.form {
            Form::Whole => out.extend_from_slice(&self.served.bytes(object)),
            Form::Metadata => write_metadata(&object.value, out),
            Form::Table => {
                let meta = ListMeta { revision: object.revision, ..ListMeta::default() };
                self.write_table_head(&meta, header, out);
                self.write_row(object, out);
                out.extend_from_slice(b"]}");
            }
        }
    }

    fn write_item(&self, object: &Object, out: &mut BytesMut) {
        match self.accept.form {
            Form::Table => self.write_row(object, out),
            Form::Whole | Form::Metadata => self.write(object, false, out),
        }
    }

    fn write_list_head(&self, meta: &ListMeta, out: &mut BytesMut) {
        let (kind, api_version) = match self.accept.form {
            Form::Table => return self.write_table_head(meta, true, out),
            Form::Metadata => ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1".to_owned()),
            Form::Whole => (self.served.kind.list_kind(), self.served.api_version()),
        };
        write_json(&json!({"apiVersion": api_version, "kind": kind}), out);
        out.truncate(out.len() - 1);
        out.extend_from_slice(b",\"metadata\":");
        write_json(&meta.to_value(), out);
        out.extend_from_slice(b",\"items\":[");
    }

    fn write_table_head(&self, meta: &ListMeta, header: bool, out: &mut BytesMut) {
        out.extend_from_slice(br#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":"#);
        write_json(&meta.to_value(), out);
        out.extend_from_slice(b",\"columnDefinitions\":");
        if header {
            write_json(&table::columns(&self.served.kind), out);
        } else {
            out.extend_from_slice(b"null");
        }
        out.extend_from_slice(b",\"rows\":[");
    }

    fn write_row(&self, object: &Object, out: &mut BytesMut) {
        let kind = &self.served.kind;
        out.extend_from_slice(b"{\"cells\":");
        write_json(&table::cells(kind, &object.value, self.now), out);
        if let Some(conditions) = table::conditions(kind, &object.value) {
            out.extend_from_slice(b",\"conditions\":");
            write_json(&conditions, out);
        }
        match self.include {
            Include::None => {}
            Include::Metadata => {
                out.extend_from_slice(b",\"object\":");
                write_metadata(&object.value, out);
            }
            Include::Object => {
                out.extend_from_slice(b",\"object\":");
                out.extend_from_slice(&self.served.bytes(object));
            }
        }
        out.extend_from_slice(b"}");
    }
}

impl ListMeta {
    fn to_value(&self) -> Value {
        let mut value = json!({"resourceVersion": self.revision.to_string()});
        if let Some(next) = &self.next {
            value["continue"] = next.as_str().into();
        }
        if let Some(remaining) = self.remaining {
            value["remainingItemCount"] = remaining.into();
        }
        value
    }
}

fn write_metadata(object: &Value, out: &mut BytesMut) {
    out.extend_from_slice(
        br#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":"#,
    );
    write_json(&object["metadata"], out);
    out.extend_from_slice(b"}");
}

fn write_json(value: &impl serde::Serialize, out: &mut BytesMut) {
    serde_json::to_writer(out.writer(), value).expect("JSON values are written to memory");
}

/// A list, made piece by piece while it is sent.
struct Chunks {
    presentation: Presentation,
    objects: std::vec::IntoIter<Arc<Object>>,
    pending: BytesMut,
    first: bool,
    done: bool,
}

impl Chunks {
    fn new(presentation: &Presentation, objects: Vec<Arc<Object>>, meta: &ListMeta) -> Self {
        let mut pending = BytesMut::new();
        presentation.write_list_head(meta, &mut pending);
        let objects = objects.into_iter();
        Self { presentation: presentation.clone(), objects, pending, first: true, done: false }
    }
}

impl Iterator for Chunks {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.done {
            return None;
        }
        while self.pending.len() < CHUNK {
            let Some(object) = self.objects.next() else {
                self.done = true;
                self.pending.extend_from_slice(b"]}");
                break;
            };
            if !std::mem::take(&mut self.first) {
                self.pending.extend_from_slice(b",");
            }
            self.presentation.write_item(&object, &mut self.pending);
        }
        Some(self.pending.split().freeze())
    }
}
