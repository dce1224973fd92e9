//! Calls as early as what they read allows.

use super::Step;
use super::scratch::Alias;
use std::collections::HashMap;
use zinc_plan::{ActId, Cols, KvId};

/// Puts calls that do not depend on each other side by side, in the order of the plan: by the longest chain of calls before them. What could run
/// beside others and stood behind them, such as a shared expert behind the routed ones, then costs no barrier of its own.
pub(super) fn order(steps: &mut Vec<Step>, aliases: &[Alias]) {
    let resolve = |c: Cols| aliases.iter().find(|a| a.act == c.act).map_or(c, |a| a.resolve(c));
    // Buffers are written once: what is read decides. Caches are read and written by several.
    let mut written: HashMap<ActId, Vec<(Cols, u32)>> = HashMap::new();
    let mut caches: HashMap<KvId, (u32, u32)> = HashMap::new();
    let mut levels = Vec::with_capacity(steps.len());
    for step in steps.iter() {
        let mut level = 0;
        for read in step.call.reads().into_iter().map(resolve) {
            let writers = written.get(&read.act).map_or(&[][..], Vec::as_slice);
            let before = writers.iter().filter(|(c, _)| c.overlaps(read)).map(|w| w.1 + 1);
            level = before.fold(level, u32::max);
        }
        if let Some((kv, writes)) = step.call.cache() {
            let (after_writes, after_all) = caches.entry(kv).or_default();
            level = level.max(if writes { *after_all } else { *after_writes });
            *after_all = (*after_all).max(level + 1);
            if writes {
                *after_writes = level + 1;
            }
        }
        for out in step.call.writes().into_iter().map(resolve) {
            written.entry(out.act).or_default().push((out, level));
        }
        levels.push(level);
    }
    let mut by_level: Vec<(u32, Step)> = levels.into_iter().zip(steps.drain(..)).collect();
    by_level.sort_by_key(|&(level, _)| level);
    steps.extend(by_level.into_iter().map(|(_, step)| step));
}
