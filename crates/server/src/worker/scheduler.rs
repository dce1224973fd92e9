//! Who computes what in the next step.

use super::active::Active;
use super::cache::PrefixCache;
use super::job::{Event, Job};
use super::{EmbedReply, Inbox, Message};
use crate::metrics::{Metrics, pages as pages_of};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::TryRecvError;
use std::time::Instant;
use zinc_engine::{Engine, Error, PAGE_TOKENS, PartOutput, StepLimits};
use zinc_text::Tokenizer;

/// The loop of the engine's thread: admit, batch, compute, choose, publish.
pub struct Scheduler<'t> {
    engine: Engine,
    tokenizer: &'t Tokenizer,
    inbox: Inbox,
    metrics: Arc<Metrics>,
    waiting: VecDeque<Job>,
    /// Texts whose embeddings are asked for.
    embedding: VecDeque<(Arc<[u32]>, EmbedReply)>,
    /// Those that were computed longest ago come first.
    running: VecDeque<Active<'t>>,
    cache: PrefixCache,
    /// Pages of the KV cache.
    pages: u64,
}

impl<'t> Scheduler<'t> {
    pub fn new(
        engine: Engine,
        tokenizer: &'t Tokenizer,
        inbox: Inbox,
        metrics: Arc<Metrics>,
    ) -> Scheduler<'t> {
        let (waiting, running) = (VecDeque::new(), VecDeque::new());
        let pages = pages_of(&engine);
        Scheduler {
            engine,
            tokenizer,
            inbox,
            metrics,
            waiting,
            embedding: VecDeque::new(),
            running,
            cache: PrefixCache::default(),
            pages,
        }
    }

    /// Works until told to stop.
    ///
    /// # Errors
    /// What makes the engine unusable: the device is lost.
    pub fn run(mut self) -> Result<(), Error> {
        while self.receive() {
            self.forget_gone();
            self.embed()?;
            self.admit();
            let shares = self.shares();
            if !shares.is_empty() {
                self.compute(&shares)?;
            }
            self.measure();
        }
        self.fail_all("the server is shutting down");
        self.measure();
        Ok(())
    }

    /// Takes what has come; waits where there is nothing to do. Whether to go on.
    fn receive(&mut self) -> bool {
        loop {
            let idle = self.running.is_empty() && self.waiting.is_empty() && self.embedding.is_empty();
            let message = match idle {
                true => self.inbox.messages.recv().map_err(|_| TryRecvError::Disconnected),
                false => self.inbox.messages.try_recv(),
            };
            match message {
                Ok(Message::Jobs(jobs)) => self.waiting.extend(jobs),
                Ok(Message::Embed(tokens, reply)) => self.embedding.push_back((tokens, reply)),
                Err(TryRecvError::Empty) => return true,
                Ok(Message::Stop) | Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// Computes one text's embedding, once a sequence is free; the next one after the next step.
    ///
    /// # Errors
    /// The device is lost.
    fn embed(&mut self) -> Result<(), Error> {
        self.embedding.retain(|(_, reply)| !reply.is_closed());
        if self.running.len() >= self.engine.summary().sequences as usize {
            return Ok(());
        }
        let Some((tokens, reply)) = self.embedding.pop_front() else { return Ok(()) };
        self.make_room(tokens.len().div_ceil(PAGE_TOKENS as usize));
        let outcome = self.engine.embed(&tokens);
        let lost = outcome.as_ref().is_err_and(|e| e.device_lost());
        let told = outcome.as_ref().map(Vec::clone).map_err(ToString::to_string);
        // Nobody may be waiting any more.
        let _ = reply.send(told);
        match outcome {
            Err(e) if lost => {
                self.fail_all(&e.to_string());
                Err(e)
            }
            _ => Ok(()),
        }
    }

    /// Drops the jobs whose clients have gone: their pages are free before the next step.
    fn forget_gone(&mut self) {
        let before = self.waiting.len();
        self.waiting.retain(|job| !job.sink.is_closed());
        let gone = before - self.waiting.len();
        self.inbox.waiting.fetch_sub(gone, Ordering::Relaxed);
        let mut cancelled = gone;
        for _ in 0..self.running.len() {
            let Some(active) = self.running.pop_front() else { break };
            if active.job.sink.is_closed() {
                cancelled += 1;
                self.cache.keep(&self.engine, active.sequence);
            } else {
                self.running.push_back(active);
            }
        }
        self.metrics.cancelled.inc_by(cancelled as u64);
    }

    /// Gives sequences to waiting jobs: first to the client with the fewest running, then to who came first.
    fn admit(&mut self) {
        // Who is next is looked for only where a sequence is free: it compares each waiting prompt with those that are read.
        while self.running.len() < self.engine.summary().sequences as usize
            && let Some(next) = self.next_waiting()
        {
            let prompt = self.waiting[next].prompt.clone();
            let Some(taken) = self.cache.take(&self.engine, &prompt) else { return };
            let Some(job) = self.waiting.remove(next) else { return };
            self.inbox.waiting.fetch_sub(1, Ordering::Relaxed);
            let mut active = Active::new(job, taken, self.tokenizer, self.engine.context());
            self.metrics.prompt_tokens.inc_by(prompt.len() as u64);
            self.metrics.cached_tokens.inc_by(active.cached() as u64);
            self.make_room(active.pending().div_ceil(PAGE_TOKENS as usize));
            // In validate mode a prompt is compared alone, before it shares steps with others.
            if let Err(e) = self.engine.validate_prompt(&mut active.sequence, &prompt) {
                tracing::error!(error = %e, "a prompt failed validation");
                active.send(Event::Failed(e.to_string()));
                continue;
            }
            self.running.push_back(active);
        }
    }

    /// The job that is next. One whose prompt begins like one that is being read waits for it, so that nothing is computed twice.
    fn next_waiting(&self) -> Option<usize> {
        let load = |job: &Job| self.running.iter().filter(|a| a.job.client == job.client).count();
        let reading = || self.running.iter().filter(|a| !a.decodes());
        let waits =
            |job: &Job| reading().any(|a| self.cache.should_wait(&self.engine, &job.prompt, &a.job.prompt));
        let ready = (0..self.waiting.len()).filter(|&i| !waits(&self.waiting[i]));
        ready.min_by_key(|&i| (load(&self.waiting[i]), i))
    }

    /// Rows of each running job in the next step: those that decode first, then prompts, up to what a step takes. Where there are
    /// prompts to read, a row is left for them.
    fn shares(&self) -> Vec<usize> {
        let StepLimits { mut rows, mut logits } = self.engine.step_limits();
        let mut shares = vec![0; self.running.len()];
        if rows == 1 {
            // One token a step: everyone in turn.
            shares.iter_mut().take(1).for_each(|share| *share = 1);
            return shares;
        }
        let reading = self.running.iter().any(|a| !a.decodes());
        let for_prompts = usize::from(reading);
        for (share, _) in shares.iter_mut().zip(&self.running).filter(|(_, a)| a.decodes()) {
            if rows > for_prompts && logits > 0 {
                (*share, rows, logits) = (1, rows - 1, logits - 1);
            }
        }
        for (share, active) in shares.iter_mut().zip(&self.running).filter(|(_, a)| !a.decodes()) {
            let pending = active.pending();
            // The last token of a prompt wants logits.
            *share = active.step(if logits > 0 { pending.min(rows) } else { (pending - 1).min(rows) });
            rows -= *share;
            logits -= usize::from(*share == pending);
        }
        shares
    }

    /// Gives up pages of known prefixes until so many are free.
    fn make_room(&mut self, pages: usize) {
        let evicted = self.cache.make_room(&self.engine, pages);
        self.metrics.pages_evicted.inc_by(evicted as u64);
    }

    fn compute(&mut self, shares: &[usize]) -> Result<(), Error> {
        let began = Instant::now();
        let pages = |tokens: usize| tokens.div_ceil(PAGE_TOKENS as usize);
        let grows =
            |(a, rows): (&Active<'_>, &usize)| pages(a.sequence.len() + rows) - pages(a.sequence.len());
        let needed = self.running.iter().zip(shares).map(grows).sum();
        self.make_room(needed);
        let served = self.running.iter_mut().zip(shares).filter(|(_, rows)| **rows > 0);
        let mut parts: Vec<_> = served.map(|(active, &rows)| active.part(rows)).collect();
        let outcome = self.engine.forward_batch(&mut parts);
        self.metrics.batch_rows.observe(shares.iter().sum::<usize>() as f64);
        self.metrics.step_seconds.observe(began.elapsed().as_secs_f64());
        match outcome {
            Ok(outputs) => self.advance(shares, outputs),
            Err(e) if e.device_lost() => {
                self.fail_all(&e.to_string());
                return Err(e);
            }
            Err(e) => self.fail_batch(shares, &e),
        }
        Ok(())
    }

    /// Chooses tokens. Those that were computed go to the end of the line.
    fn advance(&mut self, shares: &[usize], outputs: Vec<PartOutput>) {
        let mut outputs = outputs.into_iter();
        let (mut served, mut line) = (VecDeque::new(), VecDeque::new());
        for (mut active, &share) in std::mem::take(&mut self.running).into_iter().zip(shares) {
            if share == 0 {
                line.push_back(active);
                continue;
            }
            match outputs.next() {
                None | Some(PartOutput::Nothing) => {
                    self.cache.note(&self.engine, &mut active.sequence, false);
                    served.push_back(active);
                }
                Some(output) => served.extend(self.choose(active, output)),
            }
        }
        line.append(&mut served);
        self.running = line;
    }

    /// Chooses a job's token; the job, if it goes on.
    fn choose(&mut self, mut active: Active<'t>, output: PartOutput) -> Option<Active<'t>> {
        // Before the client hears of it.
        self.metrics.generated_tokens.inc();
        match active.choose(output, &mut self.engine) {
            Ok(chosen) => {
                let times = if chosen.first { &self.metrics.ttft } else { &self.metrics.inter_token };
                times.observe(chosen.seconds);
                if !chosen.ended {
                    // The prompt is read, or a page is full.
                    if chosen.first || active.sequence.len().is_multiple_of(PAGE_TOKENS as usize) {
                        self.cache.note(&self.engine, &mut active.sequence, true);
                    }
                    return Some(active);
                }
                self.cache.keep(&self.engine, active.sequence);
            }
            Err(message) => active.send(Event::Failed(message)),
        }
        None
    }

    /// A step that failed fails the jobs that took part in it. Their sequences are not used again.
    fn fail_batch(&mut self, shares: &[usize], e: &Error) {
        let message = e.to_string();
        tracing::error!(error = %message, "a step failed");
        for (active, &share) in std::mem::take(&mut self.running).into_iter().zip(shares) {
            match share {
                0 => self.running.push_back(active),
                _ => active.send(Event::Failed(message.clone())),
            }
        }
    }

    fn fail_all(&mut self, message: &str) {
        self.embedding.clear();
        for active in self.running.drain(..) {
            active.send(Event::Failed(message.into()));
        }
        self.inbox.waiting.fetch_sub(self.waiting.len(), Ordering::Relaxed);
        for job in self.waiting.drain(..) {
            let _ = job.sink.send((job.choice, Event::Failed(message.into())));
        }
    }

    fn measure(&self) {
        self.metrics.running.set(self.running.len() as i64);
        self.metrics.waiting.set(self.waiting.len() as i64);
        let pages = |tokens: usize| tokens.div_ceil(PAGE_TOKENS as usize) as i64;
        let used: i64 = self.running.iter().map(|a| pages(a.sequence.len())).sum();
        self.metrics.pages_used.set(used);
        self.metrics.pages_cached.set(self.cache.pages() as i64);
        self.metrics.page_usage.set((used as f64 / self.pages as f64).min(1.0));
    }
}
