//! Memory planning, compilation to schedules, execution, sequences and sampling.
