//! Other steps for a loaded model: how wide they are and how their products are cut.

use super::recordings::Recordings;
use super::widths::compile_all;
use super::{Executor, RECORDINGS};
use crate::compile::{Target, compile};
use crate::{Error, Products};
use zinc_kernels::gemv::Cut;

impl Executor {
    /// From now on steps have at most `rows` rows and their products are cut like this. Weights and caches stay where they are;
    /// recordings are forgotten.
    ///
    /// # Errors
    /// More rows than the model was loaded for; a product that cannot be cut so. Nothing changes then.
    pub fn set_steps(&mut self, rows: u32, cut: Cut) -> Result<(), Error> {
        let target = Target { cut: &cut, ..self.target(false) };
        let (widths, schedules, fallbacks) = compile_all(&self.plan, &target, rows.max(1))?;
        let scratch = schedules.values().map(|s| s.scratch.bytes).max().unwrap_or(0);
        let e = &self.extents;
        if widths.widest() > e.rows || widths.logit_rows() > e.logit_rows || scratch > e.scratch {
            return Err(Error::Option(format!(
                "steps of {rows} rows in a model that was loaded for {}\nhint: load it for as many as the widest step has",
                e.rows
            )));
        }
        self.forget_programs()?;
        self.schedules = schedules.into_iter().map(|(shape, s)| ((shape, false), s)).collect();
        (self.widths, self.fallbacks, self.cut) = (widths, fallbacks, cut);
        Ok(())
    }

    /// Drops all recordings, once nothing runs.
    pub(super) fn forget_programs(&mut self) -> Result<(), Error> {
        self.device.wait_idle()?;
        self.programs = Recordings::new(RECORDINGS);
        Ok(())
    }

    /// The products of a step of `rows` rows, one of them with logits.
    pub fn products(&self, rows: u32) -> Result<Vec<Products>, Error> {
        let shape = self.widths.shape(rows.clamp(1, self.widths.widest()), 1, false);
        match self.schedules.get(&(shape, false)) {
            Some(schedule) => Ok(schedule.products(&self.plan)),
            None => Ok(compile(&self.plan, &self.target(false), shape)?.products(&self.plan)),
        }
    }
}
