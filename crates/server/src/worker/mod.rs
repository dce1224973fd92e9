//! The engine's own thread: requests come in by a channel, events go out by one a request.

mod active;
mod cache;
mod job;
#[cfg(any(test, feature = "fuzzing"))]
mod pretend;
mod scheduler;
mod tree;

pub use job::{Done, Event, Finish, Job, Timings, TokenEvent, TokenLogprobs};

use crate::metrics::Metrics;
use scheduler::Scheduler;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use zinc_engine::{Engine, Error};
use zinc_text::Tokenizer;

/// How requests reach the engine's thread.
#[derive(Clone)]
pub struct Worker {
    inbox: Sender<Message>,
    waiting: Arc<AtomicUsize>,
    limit: usize,
}

/// The thread's end of the channel.
pub struct Inbox {
    messages: Receiver<Message>,
    waiting: Arc<AtomicUsize>,
}

impl Inbox {
    /// Works for clients until told to stop.
    ///
    /// # Errors
    /// What makes the engine unusable: the device is lost.
    pub fn work(self, engine: Engine, tokenizer: &Tokenizer, metrics: Arc<Metrics>) -> Result<(), Error> {
        Scheduler::new(engine, tokenizer, self, metrics).run()
    }
}

/// Where an embedding goes; the error is for the client.
type EmbedReply = oneshot::Sender<Result<Vec<f32>, String>>;

/// What the thread is told.
enum Message {
    Jobs(Vec<Job>),
    /// Compute a text's embedding.
    Embed(Arc<[u32]>, EmbedReply),
    /// End all requests and return.
    Stop,
}

/// Why jobs were not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// As many requests wait as may.
    Full {
        /// Requests that wait.
        waiting: usize,
    },
    /// The thread has ended.
    Stopped,
}

impl Worker {
    /// A worker, and what its thread runs. At most `limit` choices wait.
    pub fn new(limit: usize) -> (Worker, Inbox) {
        let (sender, messages) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let inbox = Inbox { messages, waiting: waiting.clone() };
        (Worker { inbox: sender, waiting, limit }, inbox)
    }

    /// Queues the choices of a request.
    ///
    /// # Errors
    /// [`Refused`]; nothing was queued then.
    pub fn submit(&self, jobs: Vec<Job>) -> Result<(), Refused> {
        let waiting = self.waiting.load(Ordering::Relaxed);
        if waiting >= self.limit {
            return Err(Refused::Full { waiting });
        }
        self.waiting.fetch_add(jobs.len(), Ordering::Relaxed);
        self.inbox.send(Message::Jobs(jobs)).map_err(|_| Refused::Stopped)
    }

    /// Has a text's embedding computed, between two steps; the error is for the client. `None` when the thread has ended.
    pub fn embed(&self, tokens: Arc<[u32]>) -> Option<oneshot::Receiver<Result<Vec<f32>, String>>> {
        let (sender, receiver) = oneshot::channel();
        self.inbox.send(Message::Embed(tokens, sender)).ok()?;
        Some(receiver)
    }

    /// Tells the thread to end what runs and return.
    pub fn stop(&self) {
        // A thread that has ended already needs no message.
        let _ = self.inbox.send(Message::Stop);
    }
}
