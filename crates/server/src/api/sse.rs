//! Server-sent events.

use crate::app::Shared;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use std::convert::Infallible;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

/// Events that a slow client may be behind.
const BEHIND: usize = 64;

/// Where a stream's events are sent. A client that went away closes it.
pub struct Events(Sender<Event>);

/// A client that went away.
pub struct Gone;

impl Events {
    /// Sends an unnamed event.
    pub async fn data(&self, value: &Value) -> Result<(), Gone> {
        self.raw(Event::default().data(value.to_string())).await
    }

    /// Sends an event named by its `type`.
    pub async fn typed(&self, value: &Value) -> Result<(), Gone> {
        let name = value["type"].as_str().unwrap_or("message");
        self.raw(Event::default().event(name).data(value.to_string())).await
    }

    /// Sends the end of OpenAI's streams.
    pub async fn done(&self) -> Result<(), Gone> {
        self.raw(Event::default().data("[DONE]")).await
    }

    async fn raw(&self, event: Event) -> Result<(), Gone> {
        self.0.send(event).await.map_err(|_| Gone)
    }
}

/// Answers with what `fill` sends; dropped at once when the client goes away.
pub fn stream<F, W>(app: &Shared, fill: W) -> Response
where
    W: FnOnce(Events) -> F,
    F: Future<Output = Result<(), Gone>> + Send + 'static,
{
    let (sender, receiver): (_, Receiver<Event>) = channel(BEHIND);
    let gone = sender.clone();
    let filling = fill(Events(sender));
    tokio::spawn(async move {
        tokio::select! {
            _ = filling => {}
            () = gone.closed() => {}
        }
    });
    let events = ReceiverStream::new(receiver).map(Ok::<_, Infallible>);
    let keep_alive = KeepAlive::new().interval(app.config.keep_alive);
    Sse::new(events).keep_alive(keep_alive).into_response()
}
