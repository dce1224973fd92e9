//! A small Vulkan compute runtime: devices, arenas, pipelines, a recorder that derives barriers.
