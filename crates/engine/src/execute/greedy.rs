//! Greedy decoding: the GPU chooses a token and feeds it to the next step; the host reads behind.

use super::{Executor, Source, Tail};
use crate::batch::Part;
use crate::{Error, Sequence, Want};
use std::collections::VecDeque;
use zinc_vulkan::Ticket;

/// Steps on the queue while the host waits for the oldest: one runs, one is ready behind it.
const AHEAD: usize = 3;
/// Where there are recurrent states: a step that nobody asked for could not be taken back.
const AHEAD_RECURRENT: usize = 1;

/// A generation whose tokens the GPU chooses.
pub struct Greedy {
    /// Tokens that will still be wanted after those submitted.
    left: usize,
    /// Steps on the queue, oldest first, with their slots of the ring.
    in_flight: VecDeque<(Ticket, u64)>,
    /// Position of the next step.
    position: usize,
}

impl Greedy {
    /// For at most `tokens` tokens.
    pub fn new(tokens: usize) -> Greedy {
        Greedy { left: tokens, in_flight: VecDeque::new(), position: 0 }
    }

    /// The token after `feed`. The first call reads the end of the prompt; after that `feed` is the token given last, which the GPU
    /// has already.
    pub fn next(
        &mut self,
        executor: &mut Executor,
        sequence: &mut Sequence,
        feed: &[u32],
    ) -> Result<u32, Error> {
        if self.in_flight.is_empty() {
            sequence.reserve(sequence.len() + feed.len() + self.left.saturating_sub(1))?;
            self.position = sequence.len() + feed.len();
            let batch = executor.batch(&[Part { sequence, tokens: feed, want: Want::Last }]);
            let ticket = executor.submit(Source::Host(&batch), Tail::Greedy)?;
            self.note(executor, ticket);
        }
        let ahead = if executor.plan().states.is_empty() { AHEAD } else { AHEAD_RECURRENT };
        while self.left > 0 && self.in_flight.len() < ahead {
            let source = Source::Device { position: self.position as u32 };
            let ticket = executor.submit(source, Tail::Greedy)?;
            self.position += 1;
            self.note(executor, ticket);
        }
        match self.in_flight.pop_front() {
            Some((ticket, slot)) => {
                ticket.wait()?;
                executor.chosen(slot)
            }
            None => Err(Error::StaleResult { step: 0, held: 0 }),
        }
    }

    fn note(&mut self, executor: &Executor, ticket: Ticket) {
        self.left = self.left.saturating_sub(1);
        self.in_flight.push_back((ticket, executor.chosen_count() - 1));
    }

    /// Waits for the steps that nobody asked for.
    pub fn finish(&mut self, executor: &mut Executor) -> Result<(), Error> {
        for (ticket, slot) in self.in_flight.drain(..) {
            ticket.wait()?;
            executor.chosen(slot)?;
        }
        Ok(())
    }
}
