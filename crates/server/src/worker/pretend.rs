//! The engine's thread without an engine: every job is told the same pieces of text.

use super::{Done, Event, Finish, Inbox, Message, Timings, TokenEvent};
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use zinc_engine::PrefillPath;

impl Inbox {
    /// Answers until told to stop, or nobody can ask any more.
    pub fn pretend(self, said: &Mutex<Vec<String>>) {
        while let Ok(message) = self.messages.recv() {
            match message {
                Message::Jobs(jobs) => {
                    self.waiting.fetch_sub(jobs.len(), Ordering::Relaxed);
                    let said = said.lock().unwrap_or_else(|e| e.into_inner());
                    for job in jobs {
                        // A client that went away hears nothing.
                        for text in said.iter() {
                            let token = TokenEvent { text: text.clone(), control: None, logprobs: None };
                            let _ = job.sink.send((job.choice, Event::Token(token)));
                        }
                        let _ = job.sink.send((job.choice, Event::Done(done(job.prompt.len(), said.len()))));
                    }
                }
                Message::Embed(tokens, reply) => {
                    let _ = reply.send(Ok(vec![tokens.len() as f32; 8]));
                }
                Message::Stop => return,
            }
        }
    }
}

fn done(prompt_tokens: usize, generated_tokens: usize) -> Done {
    let prefill = PrefillPath { path: "batched", chunk: 1, policy: "exact", fallbacks: Vec::new() };
    let timings = Timings {
        prompt_tokens,
        cached_tokens: 0,
        generated_tokens,
        queue_seconds: 0.0,
        prompt_seconds: 0.0,
        decode_seconds: 0.0,
        prefill,
    };
    Done { finish: Finish::End, rest: String::new(), timings }
}
