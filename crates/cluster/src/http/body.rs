//! Request bodies up to the limit; response bodies.

use std::convert::Infallible;
use std::fmt;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures::stream::{BoxStream, StreamExt};
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;

use crate::status::Status;

/// Largest request body, in bytes. Source: kubernetes apiserver `pkg/server/config.go`.
pub const REQUEST_LIMIT: usize = 3 * 1024 * 1024;

/// How much of a body that is too large is still taken off the line, so that a client that sends
/// all before it reads gets to see the answer.
const DRAIN_LIMIT: usize = 64 * 1024 * 1024;

/// The whole body of a request.
pub(super) async fn read<B>(headers: &HeaderMap, body: B) -> Result<Bytes, Status>
where
    B: Body<Data = Bytes>,
    B::Error: fmt::Display,
{
    let declared = headers
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<usize>().ok())
        .unwrap_or(0);
    let mut body = pin!(body);
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            Status::bad_request(format!("unable to read the body of the request: {error}"))
        })?;
        let Ok(data) = frame.into_data() else { continue };
        length += data.len();
        if length > DRAIN_LIMIT {
            break;
        }
        if length > REQUEST_LIMIT {
            rest.clear();
        } else if first.is_empty() {
            first = data;
        } else {
            rest.extend_from_slice(&data);
        }
    }
    if length > REQUEST_LIMIT {
        let message = format!("Request entity too large: limit is {REQUEST_LIMIT}");
        return Err(Status::new(413, "RequestEntityTooLarge", message));
    }
    if length < declared {
        return Err(Status::bad_request(format!(
            "unexpected EOF: the body of the request ends after {length} of {declared} bytes"
        )));
    }
    if rest.is_empty() {
        return Ok(first);
    }
    let mut whole = BytesMut::with_capacity(length);
    whole.extend_from_slice(&first);
    whole.extend_from_slice(&rest);
    Ok(whole.freeze())
}

/// The body of a response.
pub struct ResponseBody(Inner);

enum Inner {
    Whole(Bytes),
    Chunks(Box<dyn Iterator<Item = Bytes> + Send>),
    Stream(BoxStream<'static, Bytes>),
}

impl ResponseBody {
    pub(super) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(Inner::Whole(bytes.into()))
    }

    pub(super) fn chunks(chunks: impl Iterator<Item = Bytes> + Send + 'static) -> Self {
        Self(Inner::Chunks(Box::new(chunks)))
    }

    pub(super) fn stream(stream: BoxStream<'static, Bytes>) -> Self {
        Self(Inner::Stream(stream))
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = match &mut self.0 {
            Inner::Whole(bytes) if bytes.is_empty() => None,
            Inner::Whole(bytes) => Some(std::mem::take(bytes)),
            Inner::Chunks(chunks) => chunks.next(),
            Inner::Stream(stream) => match stream.poll_next_unpin(context) {
                Poll::Ready(data) => data,
                Poll::Pending => return Poll::Pending,
            },
        };
        Poll::Ready(data.map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, Inner::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Inner::Chunks(_) | Inner::Stream(_) => SizeHint::default(),
        }
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Inner::Whole(_) => "ResponseBody::Whole",
            Inner::Chunks(_) => "ResponseBody::Chunks",
            Inner::Stream(_) => "ResponseBody::Stream",
        })
    }
}
