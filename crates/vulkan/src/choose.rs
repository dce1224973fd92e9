//! Choosing a device: a pure function over capability records, with a reason for each device.

use crate::{Capabilities, DeviceKind, Error};

/// Which device the user wants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum DeviceWish {
    /// The best: discrete before integrated before virtual before the rest, then the most device memory.
    #[default]
    Auto,
    /// By position in [`crate::Instance::devices`].
    Index(usize),
    /// The best whose name or driver contains the text, whatever the case.
    NameContains(String),
}

impl std::fmt::Display for DeviceWish {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DeviceWish::Auto => f.write_str("auto"),
            DeviceWish::Index(index) => write!(f, "{index}"),
            DeviceWish::NameContains(text) => f.write_str(text),
        }
    }
}

/// A chosen device and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Position in the list of devices.
    pub index: usize,
    /// One line a device, in their order: chosen, or not and why.
    pub reasons: Vec<String>,
}

/// Chooses among `devices`. A software driver is taken only when `allow_software` is set or the wish names it.
pub fn choose(devices: &[Capabilities], want: &DeviceWish, allow_software: bool) -> Result<Choice, Error> {
    let verdicts: Vec<Result<(), String>> =
        devices.iter().enumerate().map(|(i, d)| eligible(i, d, want, allow_software)).collect();
    let best = (0..devices.len())
        .filter(|&i| verdicts[i].is_ok())
        .min_by_key(|&i| (rank(devices[i].kind), std::cmp::Reverse(devices[i].device_memory()), i));
    let reasons = devices.iter().zip(&verdicts).enumerate().map(|(i, (d, verdict))| {
        let why = match verdict {
            Err(why) => format!("not chosen: {why}"),
            Ok(()) if Some(i) == best => match want {
                DeviceWish::Auto => format!("chosen: the best usable device, {}", d.kind),
                DeviceWish::Index(_) => "chosen: asked for by index".into(),
                DeviceWish::NameContains(text) => format!("chosen: matches `{text}`"),
            },
            Ok(()) => format!("not chosen: {} comes after device {}", d.kind, best.unwrap_or(0)),
        };
        format!("device {i}: {} ({}): {why}", d.name, d.kind)
    });
    let reasons: Vec<String> = reasons.collect();
    match best {
        Some(index) => Ok(Choice { index, reasons }),
        None => Err(Error::NoDevice { wish: want.to_string(), reasons }),
    }
}

fn eligible(i: usize, d: &Capabilities, want: &DeviceWish, allow_software: bool) -> Result<(), String> {
    let named = match want {
        DeviceWish::Auto => false,
        DeviceWish::Index(index) if *index == i => true,
        DeviceWish::Index(index) => return Err(format!("device {index} was asked for")),
        DeviceWish::NameContains(text) => {
            let text = text.to_lowercase();
            if !d.name.to_lowercase().contains(&text) && !d.driver.to_lowercase().contains(&text) {
                return Err(format!("its name does not contain `{text}`"));
            }
            true
        }
    };
    if !d.usable() {
        return Err(d.problems.join("; "));
    }
    if d.is_software() && !allow_software && !named {
        return Err("a software driver, used only when asked for".into());
    }
    Ok(())
}

fn rank(kind: DeviceKind) -> u8 {
    match kind {
        DeviceKind::Discrete => 0,
        DeviceKind::Integrated => 1,
        DeviceKind::Virtual => 2,
        DeviceKind::Other => 3,
        DeviceKind::Cpu => 4,
    }
}

#[cfg(test)]
#[path = "choose_tests.rs"]
mod tests;
