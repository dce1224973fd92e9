//! The CPU executor: runs a Plan in f32, the reference for every other path.
