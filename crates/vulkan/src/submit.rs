//! Submission and waiting: one queue, one timeline semaphore.

use crate::device::{Device, DeviceInner, lock};
use crate::{Commands, Error};
use ash::vk;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The queue and the last value that a submission to it signals.
pub(crate) struct Timeline {
    pub queue: vk::Queue,
    pub last: u64,
}

/// Stands for a submission.
#[derive(Debug, Clone)]
#[must_use = "wait for it before reading results"]
pub struct Ticket {
    device: Device,
    value: u64,
    label: String,
}

impl Device {
    /// Submits commands, in their order, after everything submitted before. Does not wait.
    ///
    /// Each part of commands recorded with a cost bound is a submission of its own to the driver.
    ///
    /// # Errors
    /// [`Error::InFlight`] for commands still being executed that were not recorded as `simultaneous`,
    /// [`Error::DeviceLost`].
    pub fn submit(&self, commands: &[&Commands]) -> Result<Ticket, Error> {
        let d = &self.inner;
        let label = commands.iter().map(|c| c.label()).collect::<Vec<_>>().join(" + ");
        d.alive(&label)?;
        let mut timeline = lock(&d.timeline);
        for (i, c) in commands.iter().enumerate() {
            let again = commands[..i].iter().any(|other| std::ptr::eq(*other, *c));
            if !c.simultaneous && (again || c.in_flight()?) {
                return Err(Error::InFlight { label: c.label().into() });
            }
        }
        for c in commands {
            for &part in &c.parts {
                let buffers = [vk::CommandBufferSubmitInfo::default().command_buffer(part)];
                let signals = [vk::SemaphoreSubmitInfo::default()
                    .semaphore(d.semaphore)
                    .value(timeline.last + 1)
                    .stage_mask(vk::PipelineStageFlags2::ALL_COMMANDS)];
                let info = [vk::SubmitInfo2::default()
                    .command_buffer_infos(&buffers)
                    .signal_semaphore_infos(&signals)];
                // SAFETY: the queue is locked; the command buffer is recorded and not pending (or may be twice), and
                // what it uses lives as long as `c`, whose drop waits for the value noted below.
                let result = unsafe { d.raw.queue_submit2(timeline.queue, &info, vk::Fence::null()) };
                d.check(c.label(), result)?;
                timeline.last += 1;
                c.last.store(timeline.last, Ordering::Release);
            }
        }
        Ok(Ticket { device: self.clone(), value: timeline.last, label })
    }

    /// Waits for everything submitted so far.
    pub fn wait_idle(&self) -> Result<(), Error> {
        let last = lock(&self.inner.timeline).last;
        self.inner.wait_value(last, "all submissions")
    }
}

impl Ticket {
    /// Waits for the submission, at most for the time in [`crate::DeviceOptions`].
    ///
    /// # Errors
    /// [`Error::Timeout`] (it may still finish later), [`Error::DeviceLost`].
    pub fn wait(&self) -> Result<(), Error> {
        self.wait_for(self.device.inner.timeout)
    }

    /// Waits for the submission, at most for `timeout`.
    pub fn wait_for(&self, timeout: Duration) -> Result<(), Error> {
        self.device.inner.wait_value_for(self.value, &self.label, timeout)
    }

    /// Whether it has finished.
    pub fn done(&self) -> Result<bool, Error> {
        self.device.inner.reached(self.value, &self.label)
    }
}

impl DeviceInner {
    /// Whether the timeline has come to `value`.
    pub fn reached(&self, value: u64, what: &str) -> Result<bool, Error> {
        self.alive(what)?;
        // SAFETY: the semaphore is the device's timeline.
        let now = self.check(what, unsafe { self.raw.get_semaphore_counter_value(self.semaphore) })?;
        Ok(now >= value)
    }

    /// Waits for the timeline to come to `value`.
    pub fn wait_value(&self, value: u64, what: &str) -> Result<(), Error> {
        self.wait_value_for(value, what, self.timeout)
    }

    fn wait_value_for(&self, value: u64, what: &str, timeout: Duration) -> Result<(), Error> {
        self.alive(what)?;
        if value == 0 {
            return Ok(());
        }
        let (semaphores, values) = ([self.semaphore], [value]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        let nanoseconds = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: the semaphore is the device's timeline.
        match unsafe { self.raw.wait_semaphores(&info, nanoseconds) } {
            Err(vk::Result::TIMEOUT) => Err(Error::Timeout { what: what.into(), timeout }),
            result => self.check(what, result),
        }
    }
}
