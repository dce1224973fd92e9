//! Greedy decoding: the GPU chooses a token and feeds it to the next step; the host reads behind.
//!
//! Steps run that nobody may want: the host learns that a token was the last one when the steps behind it are on the queue. What they write of
//! the KV cache lies behind the sequence's end. Recurrent states would be lost, so such steps write theirs to several slots in turn, and those
//! after every step that the host may end with are still there.

use super::{Executor, Source, Tail};
use crate::batch::Part;
use crate::sequence::StateRef;
use crate::{Error, Sequence, Want};
use std::collections::VecDeque;
use zinc_vulkan::Ticket;

/// Steps on the queue while the host waits for the oldest: one runs, one is ready behind it.
const AHEAD: usize = 3;

/// A generation whose tokens the GPU chooses.
pub struct Greedy {
    /// Tokens that will still be wanted after those submitted.
    left: usize,
    /// Steps on the queue, oldest first.
    in_flight: VecDeque<InFlight>,
    /// Position of the next step.
    position: usize,
    /// Slots of recurrent states that steps write in turn.
    turns: Vec<StateRef>,
    /// Which of them the latest step writes.
    turn: usize,
}

/// A step on the queue.
struct InFlight {
    ticket: Ticket,
    /// Its slot of the ring of tokens.
    slot: u64,
    /// Where it leaves recurrent states.
    states: Option<StateRef>,
}

impl Greedy {
    /// For at most `tokens` tokens.
    pub fn new(tokens: usize) -> Greedy {
        Greedy { left: tokens, in_flight: VecDeque::new(), position: 0, turns: Vec::new(), turn: 0 }
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
            (self.turns, self.turn) = (sequence.turns(AHEAD.min(self.left)), 0);
            let batch = executor.batch(&[Part { sequence, tokens: feed, want: Want::Last }]);
            let ticket = executor.submit(Source::Host(&batch), Tail::Greedy)?;
            self.note(executor, ticket);
        }
        // A step on the queue for each slot: all but the oldest's states may be those of steps that nobody asks for.
        let ahead = if self.turns.is_empty() { AHEAD } else { self.turns.len() };
        while self.left > 0 && self.in_flight.len() < ahead {
            let source = Source::Device { position: self.position as u32, states: self.next_turn() };
            let ticket = executor.submit(source, Tail::Greedy)?;
            self.position += 1;
            self.note(executor, ticket);
        }
        let oldest = self.in_flight.pop_front().ok_or(Error::StaleResult { step: 0, held: 0 })?;
        oldest.ticket.wait()?;
        if let Some(states) = oldest.states {
            sequence.took(states);
        }
        executor.chosen(oldest.slot)
    }

    /// The slots that the next step reads and writes.
    fn next_turn(&mut self) -> Option<(u32, u32)> {
        let from = self.turns.get(self.turn)?.number();
        self.turn = (self.turn + 1) % self.turns.len();
        Some((from, self.turns[self.turn].number()))
    }

    fn note(&mut self, executor: &Executor, ticket: Ticket) {
        self.left = self.left.saturating_sub(1);
        let (slot, states) = (executor.chosen_count() - 1, self.turns.get(self.turn).cloned());
        self.in_flight.push_back(InFlight { ticket, slot, states });
    }

    /// Waits for the steps that nobody asked for.
    pub fn finish(&mut self, executor: &mut Executor) -> Result<(), Error> {
        for step in self.in_flight.drain(..) {
            step.ticket.wait()?;
            executor.chosen(step.slot)?;
        }
        Ok(())
    }
}
