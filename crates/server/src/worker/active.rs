//! A job that has a sequence.

use super::cache::Taken;
use super::job::{Done, Event, Finish, Job, Timings, TokenEvent, TokenLogprobs};
use std::time::Instant;
use zinc_engine::{Candidates, Engine, Part, PartOutput, PrefillPath, Sampler, Sequence, Want};
use zinc_text::{Detokenizer, Piece, StopStrings, Tokenizer};

/// A job that is being worked on.
pub struct Active<'t> {
    pub job: Job,
    pub sequence: Sequence,
    tokenizer: &'t Tokenizer,
    /// The prompt and what was generated.
    tokens: Vec<u32>,
    /// Tokens that may be generated.
    room: usize,
    cached: usize,
    /// After how many tokens of the prompt a step is to end.
    keep_at: Vec<usize>,
    sampler: Sampler,
    detokenizer: Detokenizer<'t>,
    stops: StopStrings,
    started: Instant,
    first: Option<Instant>,
    last: Instant,
}

/// A token was chosen.
pub struct Chosen {
    /// Seconds since the one before it; since the request came for the first one.
    pub seconds: f64,
    /// Whether this was the first token.
    pub first: bool,
    /// Whether the answer is complete; the last event was sent then.
    pub ended: bool,
}

impl<'t> Active<'t> {
    /// Begins with what the sequence holds of the prompt.
    pub fn new(job: Job, taken: Taken, tokenizer: &'t Tokenizer, context: usize) -> Active<'t> {
        let Taken { sequence, keep_at } = taken;
        let mut sampler = Sampler::new(job.sampling.clone());
        if job.sampling.repetition_penalty != 1.0 {
            sampler.accept(&job.prompt);
        }
        let now = Instant::now();
        Active {
            tokens: job.prompt.to_vec(),
            // The last token needs no place in the cache.
            room: job.max_tokens.min((context + 1).saturating_sub(job.prompt.len())),
            cached: sequence.len(),
            keep_at,
            sampler,
            detokenizer: Detokenizer::continuing(tokenizer),
            stops: StopStrings::new(job.stop.iter().cloned()),
            started: now,
            first: None,
            last: now,
            job,
            sequence,
            tokenizer,
        }
    }

    /// Tokens of the prompt that were there already.
    pub fn cached(&self) -> usize {
        self.cached
    }

    /// How many tokens are to be computed before the next one is chosen.
    pub fn pending(&self) -> usize {
        self.tokens.len() - self.sequence.len()
    }

    /// As many of `rows` rows as the next step should take: it ends where something is to be kept.
    pub fn step(&self, rows: usize) -> usize {
        let to_next = self.keep_at.iter().filter_map(|at| at.checked_sub(self.sequence.len()));
        to_next.filter(|&n| n > 0).fold(rows, usize::min)
    }

    /// Whether the prompt is read.
    pub fn decodes(&self) -> bool {
        self.first.is_some()
    }

    /// Its next `rows` tokens as a part of a batch.
    pub fn part(&mut self, rows: usize) -> Part<'_> {
        let want = if rows < self.pending() {
            Want::None
        } else if self.job.constraint.as_ref().is_some_and(|c| c.active()) {
            Want::Last
        } else {
            Want::Candidates
        };
        let from = self.sequence.len();
        Part { sequence: &mut self.sequence, tokens: &self.tokens[from..from + rows], want }
    }

    /// Chooses a token from what the last step gave and sends what it makes certain. An error is for the client.
    pub fn choose(&mut self, output: PartOutput, engine: &mut Engine) -> Result<Chosen, String> {
        let (token, likely) = self.sample(output, engine)?;
        let now = Instant::now();
        let since = if self.first.is_some() { self.last } else { self.job.arrived };
        let (first, seconds) = (self.first.is_none(), (now - since).as_secs_f64());
        self.first.get_or_insert(now);
        self.last = now;
        self.tokens.push(token);
        self.sampler.accept(&[token]);
        let ends = self.tokenizer.is_end_of_generation(token) && !self.job.ignore_end;
        let control = self.tokenizer.is_control(token).then(|| self.tokenizer.token_text(token));
        let text = if control.is_some() { String::new() } else { self.detokenizer.push(token) };
        let complete = match &mut self.job.constraint {
            Some(constraint) => {
                constraint.accept(token, control.as_deref().map_or(Piece::Text(&text), Piece::Control))?
            }
            None => false,
        };
        let finish = self.publish(control, &text, ends, likely);
        let generated = self.tokens.len() - self.job.prompt.len();
        let finish = finish.or(if ends || complete {
            Some(Finish::End)
        } else if generated >= self.room {
            Some(Finish::Length)
        } else {
            None
        });
        let ended = finish.is_some();
        if let Some(finish) = finish {
            self.end(finish, engine.prefill_path());
        }
        Ok(Chosen { seconds, first, ended })
    }

    /// The token, and where asked for its log-probability.
    fn sample(
        &mut self,
        output: PartOutput,
        engine: &mut Engine,
    ) -> Result<(u32, Option<TokenLogprobs>), String> {
        let row = match output {
            PartOutput::Candidates { best, row } => {
                let chosen = self.sampler.sample_candidates(&best);
                let known = |id| self.job.logprobs.is_none_or(|top| covers(&best, id, top));
                if let Some(token) = chosen.filter(|&id| known(id)) {
                    return Ok((token, self.job.logprobs.map(|top| logprobs(&best, token, None, top))));
                }
                let row = engine.logit_row(row).map_err(|e| e.to_string())?;
                if let Some(token) = chosen {
                    return Ok((token, self.logprobs_of_row(&row, token)));
                }
                row
            }
            PartOutput::Logits(logits) => logits.values,
            PartOutput::Nothing => return Err("the step gave no logits".into()),
        };
        let chosen = match &mut self.job.constraint {
            Some(constraint) if constraint.active() => {
                let mut allowed = row.clone();
                constraint.mask(&mut allowed)?;
                self.sampler.sample(&allowed)
            }
            _ => self.sampler.sample(&row),
        };
        let token = chosen.map_err(|e| e.to_string())?;
        Ok((token, self.logprobs_of_row(&row, token)))
    }

    fn logprobs_of_row(&self, row: &[f32], token: u32) -> Option<TokenLogprobs> {
        let top = self.job.logprobs?;
        let own = row.get(token as usize).copied();
        Some(logprobs(&Candidates::of_row(row, top.max(1)), token, own, top))
    }

    /// Sends what a token said; a stop string that it completed ends the answer.
    fn publish(
        &mut self,
        control: Option<String>,
        text: &str,
        ends: bool,
        likely: Option<TokenLogprobs>,
    ) -> Option<Finish> {
        let step = self.stops.push(text);
        let hit = step.hit;
        let mut event = TokenEvent { text: step.emit, control, logprobs: None };
        if !ends && hit.is_none() {
            event.logprobs = likely;
        }
        self.send(Event::Token(event));
        hit.map(Finish::Stop)
    }

    fn end(&mut self, finish: Finish, prefill: PrefillPath) {
        let mut rest = String::new();
        if !matches!(finish, Finish::Stop(_)) {
            rest = self.stops.push(&self.detokenizer.finish()).emit + &self.stops.finish();
        }
        let first = self.first.unwrap_or(self.last);
        let timings = Timings {
            prompt_tokens: self.job.prompt.len(),
            cached_tokens: self.cached,
            generated_tokens: self.tokens.len() - self.job.prompt.len(),
            queue_seconds: (self.started - self.job.arrived).as_secs_f64(),
            prompt_seconds: (first - self.started).as_secs_f64(),
            decode_seconds: (self.last - first).as_secs_f64(),
            prefill,
        };
        self.send(Event::Done(Done { finish, rest, timings }));
    }

    /// That nobody listens any more is seen at the beginning of the next step.
    pub fn send(&self, event: Event) {
        let _ = self.job.sink.send((self.job.choice, event));
    }
}

/// Whether candidates tell a token's log-probability and those of the `top` most likely.
fn covers(best: &Candidates, token: u32, top: usize) -> bool {
    let enough = best.tokens.len() >= top.min(best.vocab);
    enough && best.tokens.iter().any(|t| t.0 == token)
}

/// `own` is the token's logit where it may not be among the candidates.
fn logprobs(best: &Candidates, token: u32, own: Option<f32>, top: usize) -> TokenLogprobs {
    let logprob = |logit: f32| (f64::from(logit) - best.log_sum_exp) as f32;
    let found = || best.tokens.iter().find(|t| t.0 == token).map(|t| t.1);
    let own = own.or_else(found).unwrap_or(f32::NEG_INFINITY);
    TokenLogprobs {
        token,
        logprob: logprob(own),
        top: best.tokens.iter().take(top).map(|t| (t.0, logprob(t.1))).collect(),
    }
}
